//! The SDK's calls for commands, without and with broken connections.

use std::time::Duration;

use opensandbox_peer::sdk::{Execution, LONG, Outcome, Sdk};
use opensandbox_peer::server::Stage;
use reknit_proxy::{End, Fault, Moment, Rule};
use reknit_sse::limits::ServerLimits;
use serde_json::json;

/// A command that the tests run, and its output.
const COMMAND: &str = "for i in $(seq 200); do echo out $i; echo err $i >&2; done";

fn written(pipe: &str) -> Vec<String> {
    (1..=200).map(|line| format!("{pipe} {line}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_cuts_the_sdk_receives_what_commands_write() {
    let Some(mut sdk) = Sdk::start() else { return };
    let stage = Stage::start(ServerLimits::default(), Vec::new()).await;
    let at = stage.address();
    let run = sdk.run(&at, COMMAND).await.execution();
    assert_eq!((run.stdout, run.stderr), (written("out"), written("err")));
    assert_eq!((run.complete, run.exit_code, run.error), (true, Some(0), None));
    let failed = sdk.run(&at, "echo ü; exit 3").await.execution();
    assert_eq!((failed.stdout, failed.exit_code), (vec!["ü".to_owned()], Some(3)));
    assert!(!failed.complete && failed.error.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_starts_watches_and_interrupts_a_background_command() {
    let Some(mut sdk) = Sdk::start() else { return };
    let stage = Stage::start(ServerLimits::default(), Vec::new()).await;
    let at = stage.address();
    let start = json!({"do": "run", "command": "seq 3; exec sleep 100", "background": true});
    let id = sdk.call(&at, LONG, start).await.execution().id.expect("an id");
    let mut text = String::new();
    while text != "1\n2\n3\n" {
        let logs = json!({"do": "logs", "id": id, "cursor": 0});
        let Outcome::Ok(logs) = sdk.call(&at, LONG, logs).await else { panic!("no logs") };
        text = logs["text"].as_str().unwrap().to_owned();
    }
    let rest = sdk.call(&at, LONG, json!({"do": "logs", "id": id, "cursor": 3})).await;
    assert_eq!(rest, Outcome::Ok(json!({"text": "", "cursor": 3})));
    let status = json!({"do": "status", "id": id});
    let running = sdk.call(&at, LONG, status.clone()).await;
    assert_eq!(running, Outcome::Ok(json!({"running": true, "exit_code": null})));
    let interrupted = sdk.call(&at, LONG, json!({"do": "interrupt", "id": id})).await;
    assert_eq!(interrupted, Outcome::Ok(json!({})));
    let ended = Outcome::Ok(json!({"running": false, "exit_code": -1}));
    while sdk.call(&at, LONG, status.clone()).await != ended {}
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_keeps_variables_in_a_session() {
    let Some(mut sdk) = Sdk::start() else { return };
    let stage = Stage::start(ServerLimits::default(), Vec::new()).await;
    let lines = json!({"do": "session", "lines": ["export A=5; cd /", "echo $A; pwd; (exit 4)"]});
    let Outcome::Ok(ran) = sdk.call(&stage.address(), LONG, lines).await else {
        panic!("no session")
    };
    let ran: Vec<Execution> = serde_json::from_value(ran["ran"].clone()).unwrap();
    assert_eq!((ran[0].exit_code, ran[1].exit_code), (Some(0), Some(4)));
    assert_eq!(ran[1].stdout, ["5", "/"]);
}

/// A cut of any kind is an error: the SDK never returns a command that it did not see to its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_at_any_place_is_an_error_for_the_user_of_the_sdk() {
    let Some(mut sdk) = Sdk::start() else { return };
    let command = format!("{COMMAND}; echo last");
    // HTTP splits the answer into chunks as it likes, so only texts mark places in the body.
    let text = |text: &str| Moment::Text { toward: End::Client, text: text.to_owned() };
    for (place, at) in [
        ("before the first byte", Moment::Bytes { toward: End::Client, count: 1 }),
        ("before the body", text("\r\n\r\n")),
        ("in the first event", text("\"init")),
        ("in the middle", text("out 100")),
        ("before the last event", text("\"last")),
        ("in the last event", text("execution_comp")),
    ] {
        for fault in [Fault::Reset { toward: None }, Fault::Close {}] {
            let rule = Rule { conn: None, times: None, at: at.clone(), fault };
            let stage = Stage::start(ServerLimits::default(), vec![rule]).await;
            let outcome = sdk.run(&stage.address(), &command).await;
            assert_eq!(stage.broken(), 1, "{place}");
            assert!(matches!(outcome, Outcome::Raised(_)), "{place}: {outcome:?}");
        }
    }
}

/// The answers to short requests are lost, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_start_of_a_background_command_and_cut_short_requests_are_errors() {
    let Some(mut sdk) = Sdk::start() else { return };
    let at = Moment::Bytes { toward: End::Client, count: 20 };
    let rule = Rule { conn: None, times: None, at, fault: Fault::Close {} };
    let stage = Stage::start(ServerLimits::default(), vec![rule]).await;
    for what in [
        json!({"do": "run", "command": "true", "background": true}),
        json!({"do": "status", "id": "c"}),
        json!({"do": "logs", "id": "c", "cursor": 0}),
        json!({"do": "interrupt", "id": "c"}),
        json!({"do": "session", "lines": []}),
    ] {
        let outcome = sdk.call(&stage.address(), Duration::from_secs(60), what.clone()).await;
        assert!(matches!(outcome, Outcome::Raised(_)), "{what}: {outcome:?}");
    }
}
