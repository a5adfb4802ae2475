//! An app-server that is a child: a script of the shell.

use std::fs;

use super::*;

/// A script that answers each request. It runs `at_turn` after the answer to `turn/start`, and `at_end`
/// when its input ends.
pub(super) fn answering(at_turn: &str, at_end: &str) -> String {
    let turn = if at_turn.is_empty() { COMPLETES } else { at_turn };
    format!(
        r#"
        answer() {{ echo "{{\"id\":$id,\"result\":$1}}"; }}
        while read -r line; do
            id=${{line#*'"id":'}}; id=${{id%%,*}}
            case $line in
                *'"initialized"'*) ;;
                *'"thread/start"'*) answer '{{"thread":{{"id":"own"}}}}' ;;
                *'"turn/start"'*)
                    answer '{{"turn":{{"id":"u"}}}}'
                    {turn}
                    ;;
                *) answer '{{}}' ;;
            esac
        done
        {at_end}
        "#
    )
}

const FINAL_ANSWER: &str = r#"echo '{"method":"item/completed","params":{"threadId":"own","turnId":"u","item":{"type":"agentMessage","id":"m","text":"yes","phase":"final_answer"}}}'"#;
const COMPLETES: &str = r#"echo '{"method":"turn/completed","params":{"threadId":"own","turn":{"id":"u","status":"completed"}}}'"#;

/// Returns the command that starts this script.
pub(super) fn app_server(script: &str) -> process::Command {
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    process::Command { argv, env, ..Default::default() }
}

fn client(script: &str) -> Client {
    let app_server = app_server(script);
    let connection = ConnectionLimits { terminate: 300 * MS, ..ConnectionLimits::default() };
    let limits = ClientLimits { connection, ..ClientLimits::default() };
    Client::new(&Env::real(), Route::Direct { app_server }, limits)
}

#[tokio::test]
async fn a_turn_runs_on_an_app_server_of_the_client() {
    let turn = format!("{FINAL_ANSWER}; {COMPLETES}");
    let (report, news) = run(client(&answering(&turn, "")), task()).await;
    let report = report.unwrap();
    assert_eq!(report.answer.as_deref(), Some("yes"));
    assert_eq!(report.verdict, Verdict::Completed(Evidence::Reported));
    assert!(matches!(news[0], News::Connected(Place::AppServer)));
}

#[tokio::test]
async fn the_last_words_of_an_app_server_count() {
    for _ in 0..5 {
        let turn = format!("{FINAL_ANSWER}; exit 3");
        let (report, _) = run(client(&answering(&turn, "")), task()).await;
        assert_eq!(report.unwrap().verdict, Verdict::Completed(Evidence::EndOfServer));
        let (report, _) =
            run(client(&answering("echo out of memory >&2; exit 3", "")), task()).await;
        let why = "the app-server disconnected (exit code 3): out of memory".to_owned();
        assert_eq!(report.unwrap().verdict, Verdict::Failed(Failure::Disconnected { why }));
    }
}

#[tokio::test]
async fn an_app_server_that_does_not_end_delays_the_report_for_a_limited_time() {
    let before = Instant::now();
    let script = format!("trap '' TERM; {}", answering("", "while :; do sleep 1; done"));
    let (report, _) = run(client(&script), task()).await;
    assert_eq!(report.unwrap().exit_status(), 0);
    assert!(before.elapsed() < 5 * S, "{:?}", before.elapsed());
}

#[tokio::test]
async fn an_app_server_that_does_not_start_is_an_error() {
    let app_server = process::Command { argv: vec!["/no/such".into()], ..Default::default() };
    let client_of = |app_server| {
        Client::new(&Env::real(), Route::Direct { app_server }, ClientLimits::default())
    };
    let (result, _) = run(client_of(app_server), task()).await;
    let why = "cannot start the app-server `/no/such`: there is no such program, or no such folder";
    assert_eq!(result.unwrap_err().to_string(), why);
    let (result, _) = run(client("echo bad configuration >&2; exit 1"), task()).await;
    let why = "the app-server did not accept the client: \
               the app-server disconnected (exit code 1): bad configuration";
    assert_eq!(result.unwrap_err().to_string(), why);
}

#[tokio::test]
async fn dropping_the_run_kills_the_app_server() {
    let turn = r#"echo "{\"method\":\"error\",\"params\":{\"threadId\":\"own\",\"turnId\":\"u\",\"error\":{\"message\":\"$$\"},\"willRetry\":true}}""#;
    let client = client(&answering(turn, "sleep 100"));
    let (mut pid, found) = (None, tokio::sync::Notify::new());
    let running = client.run(task(), settings(), pending(), |news| {
        if let News::Turn(Progress::Error { message, .. }) = news {
            pid = message.parse::<u32>().ok();
            found.notify_one();
        }
    });
    tokio::select! {
        result = running => panic!("it ended: {result:?}"),
        () = found.notified() => {}
    }
    let status = format!("/proc/{}/stat", pid.expect("a process id"));
    // A killed process may be there for a moment, as a zombie.
    for _ in 0..500 {
        match fs::read_to_string(&status) {
            Ok(stat) if !stat.contains(") Z") => tokio::time::sleep(10 * MS).await,
            _ => return,
        }
    }
    panic!("the app-server lives on");
}
