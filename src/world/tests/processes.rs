//! Tests simulated processes in a world: what a server sees of them, when they die, and which ones
//! remain.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::*;
use crate::history::{EventKind, History};
use crate::process::{Child, Command, Stdio};
use crate::scenario::{Body, ScenarioFile};
use crate::schedule::keyed::keyed;
use crate::schedule::{Fault, Orphans, Plan, Unsynced, faults};
use crate::subject::{DynSubject, HostContext};
use crate::world::{Engine, Options, RunError, process, run};

const ENGINES: [Engine; 2] = [Engine::Event, Engine::TURMOIL];

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Creates a plan with one process and these faults. It takes a quarter of a minute, because
/// turmoil's ticks are slow.
fn with_process(entry: serde_json::Value, faults: impl IntoIterator<Item = (u64, Fault)>) -> Plan {
    let mut plan = Plan { horizon: secs(15), ..plan(faults) };
    plan.setup.insert("process".into(), json!({ "p1": entry }));
    plan
}

/// Creates a crash that the host's processes survive.
fn survived(lasts: Option<Duration>) -> Fault {
    Fault::Crash(faults::Crash { host: "server".into(), lasts, processes: Orphans::Live })
}

fn on(engine: Engine, subject: &std::sync::Arc<dyn DynSubject>, plan: &Plan) -> History {
    run(subject, plan, &Options { engine, ..Options::default() }).unwrap().history
}

async fn launch(host: &HostContext) -> std::io::Result<Box<dyn Child>> {
    let stdio = Stdio::Pipes { stdin: true };
    host.env.launch.launch(&Command { argv: vec!["p1".into()], stdio, ..Command::default() }).await
}

/// Launches the process, logs its output and its end, and keeps running.
async fn reports(host: HostContext) {
    let mut child = launch(&host).await.unwrap();
    let mut output = child.stdout().unwrap();
    let mut line = [0; 4096];
    while let Ok(count @ 1..) = output.read(&mut line).await {
        log(&host, String::from_utf8_lossy(&line[..count]).trim());
    }
    log(&host, format!("{:?}", child.wait().await.unwrap()));
    std::future::pending().await
}

/// Launches the process, and does nothing with it.
async fn keeps(host: HostContext) {
    let _child = launch(&host).await.unwrap();
    std::future::pending().await
}

async fn absent(_: HostContext) {
    std::future::pending().await
}

/// Returns how each process and each pipe ended, as `4000 p1: exit 7`.
fn ground_truth(history: &History) -> Vec<String> {
    let ended = |event: &crate::history::Event| match &event.what {
        EventKind::Ended { stream, outcome } => Some(format!("{} {stream}: {outcome}", event.at.0)),
        _ => None,
    };
    history.events.iter().filter_map(ended).collect()
}

/// Returns the counts of `processes` on the server, in order.
fn counted(history: &History) -> Vec<u64> {
    let count = |event: &crate::history::Event| match &event.what {
        EventKind::ResourceCounts { counts, .. } => counts.get("processes").copied(),
        _ => None,
    };
    history.events.iter().filter_map(count).collect()
}

#[test]
fn a_scenario_file_defines_processes() {
    let file = r#"
        format = 1
        subject = "bare"
        title = "A process that does everything"
        horizon = "30s"

        [process.p1]
        print = { lines = 2, every = "50ms", bytes = "80B" }
        stderr = { lines = 1 }
        stdin = "echo"
        exit = "signal"
        late-output = { after = "4s" }
        ignores = [1, 15]

        [[step]]
        at = "5s"
        crash = { host = "server", processes = "live" }
    "#;
    let subjects = [bare(reports, absent)];
    let plans = ScenarioFile::parse(file, "a.toml", &subjects).unwrap().plans();
    let log_lines = log_lines(&history(&subjects[0], &plans[0]), false);
    assert_eq!(log_lines[0].len(), "server: ".len() + 79, "{log_lines:?}");
    let mistake = |from: &str, to: &str| {
        ScenarioFile::parse(&file.replace(from, to), "a.toml", &subjects).unwrap_err().to_string()
    };
    assert!(mistake("80B", "80").contains("`80` is not a size"));
    assert!(
        mistake("live", "alive")
            .ends_with("`alive` is not a fate of processes; did you mean `live`?")
    );
    assert!(mistake("stderr", "stdder").contains("did you mean `stderr`?"));
    assert!(mistake("\"signal\"", "256").contains("`exit`"));
}

#[test]
fn a_swarm_draws_the_behavior_of_processes() {
    let file = r#"
        format = 1
        subject = "bare"
        title = "Busy processes"

        [swarm]
        runs = 20

        [swarm.process]
        print = { lines = "0..400", every = "0ms..200ms", bytes = ["1B", "80B", "64KiB"] }
        exit = [0, 7, "signal", "never"]
        late-output = { chance = 0.1, after = "0ms..40s" }
    "#;
    let Body::Swarm(swarm) =
        ScenarioFile::parse(file, "a.toml", &[bare(keeps, absent)]).unwrap().body
    else {
        panic!("a swarm")
    };
    for n in 0..100 {
        let entry =
            swarm.setup[process::TABLE].template.draw(&mut keyed(1, "entry", &[n])).unwrap();
        assert_eq!(process::scripts(&with_process(entry, [])).unwrap().unwrap().len(), 1);
    }
}

#[test]
fn the_example_in_the_schema_is_a_valid_entry() {
    let examples = process::schema().as_value()["examples"].as_array().unwrap().clone();
    assert_eq!(examples.len(), 4);
    for example in examples {
        assert!(process::scripts(&with_process(example, [])).is_ok());
    }
}

#[test]
fn process_output_arrives_and_is_recorded_as_ground_truth() {
    let plan = with_process(json!({ "print": { "lines": 2, "every": "1s" }, "exit": 7 }), []);
    for engine in ENGINES {
        let history = on(engine, &bare(reports, absent), &plan);
        let lines = ["server: 1 p1/stdout", "server: 2 p1/stdout", "server: Code(7)"];
        assert_eq!(log_lines(&history, false), lines, "{engine:?}");
        let ground_truth: Vec<_> = ground_truth(&history)
            .iter()
            .map(|line| line.split_once(' ').unwrap().1.to_owned())
            .collect();
        assert_eq!(
            ground_truth,
            ["p1: exit 7", "p1/stdout: closed", "p1/stderr: closed"],
            "{engine:?}"
        );
        assert_eq!(counted(&history), [1, 0], "{engine:?}");
    }
}

#[test]
fn a_launch_fails_without_a_process_table_or_without_the_script() {
    let asks = |host: HostContext| async move {
        log(&host, format!("{:?}", launch(&host).await.err().unwrap().kind()))
    };
    let subject = bare(asks, absent);
    assert_eq!(log_lines(&history(&subject, &plan([])), false), ["server: Unsupported"]);
    let mut other = plan([]);
    other.setup.insert("process".into(), json!({ "p2": {} }));
    let history = history(&subject, &other);
    assert_eq!(log_lines(&history, false), ["server: NotFound"]);
}

#[test]
fn an_invalid_process_entry_is_an_error_of_the_plan() {
    let plan = with_process(json!({ "print": 200 }), []);
    let refused = run(&bare(keeps, absent), &plan, &Options::default()).unwrap_err();
    assert!(
        matches!(&refused, RunError::Plan(why) if why.starts_with("`process.p1`, at `print`: invalid type")),
        "{refused}"
    );
}

#[test]
fn processes_die_with_their_host_and_a_restarted_host_has_none() {
    for fault in [
        crash("server", Some(secs(3))),
        Fault::PowerLoss(faults::PowerLoss {
            host: "server".into(),
            unsynced: Unsynced::Kept,
            lasts: Some(secs(3)),
        }),
    ] {
        let plan = with_process(
            json!({ "print": { "lines": 200, "every": "1s" }, "exit": "never" }),
            [(5_500, fault)],
        );
        for engine in ENGINES {
            let history = on(engine, &bare(keeps, absent), &plan);
            let ground_truth = ground_truth(&history);
            assert_eq!(ground_truth.len(), 3, "{ground_truth:?}");
            assert!(
                matches!(&*ground_truth[0], "5500 p1: signal 9" | "5501 p1: signal 9"),
                "{engine:?}: {ground_truth:?}"
            );
            let second = history
                .events
                .iter()
                .find(|event| matches!(&event.what, EventKind::Produced { stream, .. } if *stream == "p1~2/stdout".into()));
            assert!(
                second.is_some_and(|event| event.at.0 >= 9_500),
                "the next life has a process of its own"
            );
            assert_eq!(counted(&history), [1, 1], "{engine:?}");
        }
    }
}

#[test]
fn processes_survive_a_crash_if_the_step_requests_it() {
    let entry = json!({ "exit": "never", "stderr": { "lines": 10, "every": "1s" } });
    for engine in ENGINES {
        let history = on(
            engine,
            &bare(launches_in_its_first_life, absent),
            &with_process(entry.clone(), [(5_500, survived(Some(secs(3))))]),
        );
        // Its standard error no longer has a reader, so the next line there ends the process.
        let ground_truth = ground_truth(&history);
        assert!(
            ground_truth[0].starts_with("600") && ground_truth[0].ends_with(" p1: signal 13"),
            "{ground_truth:?}"
        );
        assert_eq!(
            counted(&history),
            [1, 0],
            "{engine:?}: who survives is not of the next life, in which nothing was launched"
        );
    }
}

/// In its first incarnation the server launches the process, and holds its pipes. In the next one
/// it does nothing.
async fn launches_in_its_first_life(host: HostContext) {
    let now = host.env.clock.now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
    if now.as_secs().is_multiple_of(60) {
        let mut child = launch(&host).await.unwrap();
        let _pipes = (child.stdin(), child.stdout(), child.stderr());
        std::future::pending::<()>().await;
    }
    std::future::pending().await
}

#[test]
fn a_process_that_a_server_leaks_is_a_residue() {
    let leaks = |host: HostContext| async move {
        sleep(secs(1)).await;
        std::mem::forget(launch(&host).await.unwrap());
        std::future::pending::<()>().await;
    };
    let subject = bare(leaks, absent);
    let plan = with_process(json!({ "exit": "never" }), []);
    for engine in ENGINES {
        let history = on(engine, &subject, &plan);
        let residue = broken(&subject, &plan, &history, "no_residue");
        let [sentence] = &residue[..] else { panic!("{engine:?}: {residue:?}") };
        assert!(
            sentence.starts_with("server: 1 `processes` remain; there were 0 at the start (at "),
            "{sentence}"
        );
    }
}

#[test]
fn processes_are_not_tasks_of_a_host_and_wake_the_tasks_of_their_host() {
    let speaks = |host: HostContext| async move {
        let mut child = launch(&host).await.unwrap();
        let (mut input, mut output) = (child.stdin().unwrap(), child.stdout().unwrap());
        for _ in 0..3 {
            input.write_all(b"ping").await.unwrap();
            let mut received = [0; 4];
            output.read_exact(&mut received).await.unwrap();
            crate::milestone!("bare.heard");
        }
        std::future::pending().await
    };
    let plan = with_process(json!({ "stdin": "echo" }), []);
    let history = history(&bare(speaks, absent), &plan);
    let received = history
        .events
        .iter()
        .filter(|event| matches!(event.what, EventKind::Milestone { name: "bare.heard", .. }));
    let hosts: Vec<_> = received.map(|event| event.host.as_ref().unwrap().to_string()).collect();
    assert_eq!(hosts, ["server"; 3]);
    let tasks: Vec<_> = (history.events.iter())
        .filter_map(|event| match &event.what {
            EventKind::ResourceCounts { baseline: false, counts } => {
                Some((event.host.as_ref().unwrap().to_string(), counts["tasks"]))
            }
            _ => None,
        })
        .collect();
    assert_eq!(tasks, [("server".to_owned(), 1), ("client".to_owned(), 0)]);
    assert!(history.polls < 10, "the processes' polls are not the subject's: {}", history.polls);
}

#[test]
fn a_run_with_processes_is_the_same_twice() {
    let entry = json!({ "print": { "lines": 200, "every": "50ms", "bytes": "4KiB" }, "stdin": "echo", "late-output": { "after": "4s" } });
    for engine in ENGINES {
        let digest = |entry: &serde_json::Value| {
            let plan = with_process(
                entry.clone(),
                [(3_500, crash("server", Some(secs(1)))), (9_500, survived(Some(secs(1))))],
            );
            on(engine, &bare(reports, absent), &plan).digest
        };
        assert_eq!(digest(&entry), digest(&entry));
        assert_ne!(digest(&entry), digest(&json!({})), "what processes do is part of it");
    }
}
