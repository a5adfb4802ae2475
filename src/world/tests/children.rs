//! Tests programs, and the faults of child processes.

use std::future::pending;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::*;
use crate::history::History;
use crate::net::BoxFuture;
use crate::process::{Command, Exit, INTERRUPT, Stdio, TERMINATE};
use crate::schedule::{Fault, Pipe, Plan, faults};
use crate::subject::{DynSubject, HostContext, Program, ProgramCode, ProgramContext};
use crate::world::{Engine, Options, run};

const ENGINES: [Engine; 2] = [Engine::Event, Engine::TURMOIL];

const PROGRAMS: &[Program] = &[
    Program { name: "ticks", code: ProgramCode::Outside, run: ticks },
    Program { name: "answers", code: ProgramCode::Outside, run: answers },
];

/// Prints a line each second, and exits with 3 at the end of the tenth.
fn ticks(mut process: ProgramContext) -> BoxFuture<'static, Exit> {
    Box::pin(async move {
        for n in 1..=10 {
            sleep(Duration::from_secs(1)).await;
            if process.stdout.write_all(format!("{n}\n").as_bytes()).await.is_err() {
                return Exit::Code(4);
            }
        }
        Exit::Code(3)
    })
}

/// Answers each byte that it reads, with a random number. Exits with 5 at a SIGTERM, and with 6 at
/// the end of its input.
fn answers(mut process: ProgramContext) -> BoxFuture<'static, Exit> {
    process.signals.handle(TERMINATE);
    Box::pin(async move {
        let mut byte = [0];
        loop {
            tokio::select! {
                biased;
                signal = process.signals.next() => {
                    let _ = process.stdout.write_all(format!("got {signal}").as_bytes()).await;
                    return Exit::Code(5);
                }
                read = process.stdin.read(&mut byte) => match read {
                    Ok(1) => {
                        let drawn = process.host.env.entropy.below(1000);
                        let text = format!("{} {}: {drawn}", process.name, process.host.name);
                        process.stdout.write_all(text.as_bytes()).await.unwrap();
                    }
                    _ => return Exit::Code(6),
                },
            }
        }
    })
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn command(program: &str) -> Command {
    let stdio = Stdio::Pipes { stdin: true };
    Command { argv: vec![program.into()], stdio, ..Command::default() }
}

/// Launches `ticks`, logs each piece of its output with the second in which it arrives, and its exit.
async fn reads_ticks(host: HostContext) {
    let start = tokio::time::Instant::now();
    let mut child = host.env.launch.launch(&command("ticks")).await.unwrap();
    let mut output = child.stdout().unwrap();
    let at = || (start.elapsed() + Duration::from_millis(10)).as_secs();
    let reads = async {
        let mut line = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut line).await {
            let text = String::from_utf8_lossy(&line[..count]).replace('\n', ",");
            log(&host, format!("{} at {}", text.trim_end_matches(','), at()));
        }
        log(&host, format!("end at {}", at()));
    };
    let waits = async {
        let exit = child.wait().await.unwrap();
        log(&host, format!("{exit:?} at {}", at()));
    };
    tokio::join!(reads, waits);
    pending().await
}

async fn absent(_: HostContext) {
    pending().await
}

fn on(engine: Engine, subject: &std::sync::Arc<dyn DynSubject>, plan: &Plan) -> History {
    run(subject, plan, &Options { engine, ..Options::default() }).unwrap().history
}

/// Returns what the server logs while faults affect its child process `ticks`.
#[track_caller]
fn ticked(faults: impl IntoIterator<Item = (u64, Fault)> + Clone) -> Vec<String> {
    let subject = bare_with(PROGRAMS, reads_ticks, absent);
    let plan = Plan { horizon: secs(30), ..plan(faults) };
    let lines = log_lines(&on(Engine::Event, &subject, &plan), false);
    assert_eq!(log_lines(&on(Engine::TURMOIL, &subject, &plan), false), lines, "turmoil");
    lines.iter().map(|line| line.strip_prefix("server: ").unwrap().to_owned()).collect()
}

fn host() -> crate::schedule::Host {
    "server".into()
}

/// The lines of `ticks`, each in its second.
fn lines(numbers: impl Iterator<Item = u64>) -> Vec<String> {
    numbers.map(|n| format!("{n} at {n}")).collect()
}

fn and(mut lines: Vec<String>, more: &[&str]) -> Vec<String> {
    lines.extend(more.iter().map(|line| (*line).to_owned()));
    lines
}

#[test]
fn a_program_runs_and_its_exit_is_reported() {
    assert_eq!(ticked([]), and(lines(1..=10), &["end at 10", "Code(3) at 10"]));
}

#[test]
fn a_kill_ends_child_processes() {
    let kill = Fault::KillChildren(faults::KillChildren { host: host() });
    assert_eq!(ticked([(3_500, kill)]), and(lines(1..=3), &["end at 3", "Signal(9) at 3"]));
}

#[test]
fn a_stopped_child_takes_no_step() {
    let stop = Fault::StopChildren(faults::StopChildren { host: host(), lasts: Some(secs(4)) });
    // Its pause of a second ends while it is stopped. It goes on from there.
    let after = ["4 at 7", "5 at 8", "6 at 9", "7 at 10", "8 at 11", "9 at 12", "10 at 13"];
    let expected = and(and(lines(1..=3), &after), &["end at 13", "Code(3) at 13"]);
    assert_eq!(ticked([(3_500, stop)]), expected);
}

#[test]
fn a_stopped_child_dies_only_of_a_kill() {
    let stop = Fault::StopChildren(faults::StopChildren { host: host(), lasts: None });
    let kill = Fault::KillChildren(faults::KillChildren { host: host() });
    let killed = ticked([(3_500, stop), (5_500, kill)]);
    assert_eq!(killed, and(lines(1..=3), &["end at 5", "Signal(9) at 5"]));
}

#[test]
fn a_slow_child_pauses_before_each_step() {
    let slow = Fault::SlowChildren(faults::SlowChildren { host: host(), by: secs(2), lasts: None });
    let slowed = ticked([(3_500, slow)]);
    // The first pause begins with the fault. After that, each line takes a second and a pause.
    assert_eq!(slowed[..3], lines(1..=3));
    assert_eq!(slowed[3..7], ["4 at 5", "5 at 8", "6 at 11", "7 at 14"], "{slowed:?}");
}

#[test]
fn delayed_output_arrives_after_the_exit() {
    let delay = Fault::DelayOutput(faults::DelayOutput { host: host(), by: secs(3), lasts: None });
    let delayed = ticked([(8_500, delay)]);
    let expected = ["Code(3) at 10", "9 at 12", "10 at 13", "end at 13"];
    assert_eq!(delayed, and(lines(1..=8), &expected));
}

#[test]
fn what_a_delay_holds_arrives_late_even_after_the_fault() {
    let delay =
        Fault::DelayOutput(faults::DelayOutput { host: host(), by: secs(3), lasts: Some(secs(1)) });
    // The next lines stay behind the late one.
    assert_eq!(ticked([(3_500, delay)])[3..6], ["4,5,6,7 at 7", "8 at 8", "9 at 9"]);
}

#[test]
fn a_closed_output_ends_for_both() {
    let close = Fault::ClosePipe(faults::ClosePipe { host: host(), pipe: Pipe::Stdout });
    let closed = ticked([(3_500, close)]);
    assert_eq!(closed, and(lines(1..=3), &["end at 3", "Code(4) at 4"]));
}

#[test]
fn a_closed_input_ends_for_the_child() {
    let writes = |host: HostContext| async move {
        let mut child = host.env.launch.launch(&command("answers")).await.unwrap();
        let mut input = child.stdin().unwrap();
        log(&host, format!("{:?}", child.wait().await.unwrap()));
        log(&host, format!("{:?}", input.write_all(b"a").await.unwrap_err().kind()));
        pending().await
    };
    let subject = bare_with(PROGRAMS, writes, absent);
    let close = Fault::ClosePipe(faults::ClosePipe { host: host(), pipe: Pipe::Stdin });
    let plan = Plan { horizon: secs(15), ..plan([(3_500, close)]) };
    for engine in ENGINES {
        let lines = log_lines(&on(engine, &subject, &plan), false);
        assert_eq!(lines, ["server: Code(6)", "server: BrokenPipe"], "{engine:?}");
    }
}

#[test]
fn a_program_handles_signals_and_draws_from_its_own_sequence() {
    let asks = |host: HostContext| async move {
        for number in [TERMINATE, INTERRUPT] {
            let mut child = host.env.launch.launch(&command("answers")).await.unwrap();
            let (mut input, mut output) = (child.stdin().unwrap(), child.stdout().unwrap());
            let mut text = [0; 100];
            input.write_all(b"a").await.unwrap();
            let count = output.read(&mut text).await.unwrap();
            log(&host, String::from_utf8_lossy(&text[..count]));
            child.signal(number).unwrap();
            log(&host, format!("{:?}", child.wait().await.unwrap()));
            let count = output.read(&mut text).await.unwrap();
            log(&host, String::from_utf8_lossy(&text[..count]));
        }
        pending().await
    };
    let subject = bare_with(PROGRAMS, absent, asks);
    let plan = Plan { horizon: secs(15), ..plan([]) };
    let lines = log_lines(&on(Engine::Event, &subject, &plan), false);
    let (first, second) = (&lines[0], &lines[3]);
    assert!(first.starts_with("client: answers client: "), "a client launches, too: {lines:?}");
    assert!(second.starts_with("client: answers~2 client: "), "{lines:?}");
    assert_ne!(first.rsplit(' ').next(), second.rsplit(' ').next());
    assert_eq!(lines[1..3], ["client: Code(5)", "client: got 15"]);
    assert_eq!(lines[4..], ["client: Signal(2)", "client: "]);
    assert_eq!(log_lines(&on(Engine::Event, &subject, &plan), false), lines, "it is deterministic");
}

#[test]
fn a_host_without_processes_ignores_faults_of_child_processes() {
    let kill = Fault::KillChildren(faults::KillChildren { host: host() });
    let history = history(&bare(absent, absent), &plan([(100, kill)]));
    let missed = format!("{:?}", history.events);
    assert!(missed.contains("server launches no processes"), "{missed}");
}

#[test]
fn faults_affect_scripts_too_and_are_deterministic() {
    let mut plan = Plan {
        horizon: secs(15),
        ..plan([
            (
                1_000,
                Fault::SlowChildren(faults::SlowChildren {
                    host: host(),
                    by: secs(1),
                    lasts: Some(secs(3)),
                }),
            ),
            (
                6_000,
                Fault::DelayOutput(faults::DelayOutput {
                    host: host(),
                    by: secs(1),
                    lasts: Some(secs(1)),
                }),
            ),
            (9_000, Fault::KillChildren(faults::KillChildren { host: host() })),
        ])
    };
    let script = json!({ "print": { "lines": 200, "every": "100ms" }, "exit": 7 });
    plan.setup.insert("process".into(), json!({ "ticks": script }));
    let subject = bare_with(PROGRAMS, reads_ticks, absent);
    for engine in ENGINES {
        let (one, two) = (on(engine, &subject, &plan), on(engine, &subject, &plan));
        assert_eq!(one.digest, two.digest);
        let lines = log_lines(&one, false);
        assert!(lines.contains(&"server: Signal(9) at 9".to_owned()), "{engine:?}: {lines:?}");
        assert!(lines.len() < 65, "{engine:?}: {lines:?}");
    }
}
