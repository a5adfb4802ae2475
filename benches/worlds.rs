//! What a world costs. `cargo bench --bench worlds` prints medians of seven rounds; with `-- --grow` also whether anything grows
//! over 100,000 runs in one process, and with words only the rows that have one of them. Under `cargo test` (or with `--test`) each measurement is carried out once, and nothing is timed.

#![allow(clippy::disallowed_methods)] // real time is what is measured

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reknit::hunt::{Case, Check, Checks, examine};
use reknit::scenario::Expect;
use reknit::schedule::{Action, Host, Operation, Plan, Step, When};
use reknit::subject::Erased;
use reknit::world::{Options, run};

const ROUNDS: usize = 7;

fn main() {
    let once = std::env::args().any(|arg| arg == "--test") || !std::env::args().any(|arg| arg == "--bench");
    let (minute, empty) = (a_minute_of_numbers(), plan(Duration::from_millis(1)));
    let runs = if once { 1 } else { 500 };
    let subject = subject("counter");
    let judged = || examine(Case { subject: &subject, plan: &minute, expect: &Expect::default() }, &unrepeated());
    report("60 virtual seconds, a number a second", runs, || drop(black_box(run(&subject, &minute, &Options::default()))));
    report("the same, judged", runs, || drop(black_box(judged())));
    report("a world in which nothing happens", runs, || drop(black_box(run(&subject, &empty, &Options::default()))));
    #[cfg(feature = "exec")]
    {
        let (subject, minute) = (self::subject("exec"), a_minute_of_lines());
        report("60 virtual seconds of exec, a line a second", runs, || {
            drop(black_box(run(&subject, &minute, &Options::default())))
        });
    }
    if std::env::args().any(|arg| arg == "--grow") {
        grow(&subject, &minute, if once { 10 } else { 100_000 });
    }
}

fn subject(name: &str) -> Arc<dyn Erased> {
    reknit::subjects::built_in().into_iter().find(|subject| subject.name() == name).expect("it is built in")
}

fn unrepeated() -> Checks {
    Checks { check: Check::None, ..Checks::default() }
}

fn plan(horizon: Duration) -> Plan {
    Plan { horizon, ..Plan::new("counter") }
}

fn operation(verb: &str, field: &str, value: &str) -> Step {
    let mut fields = serde_json::Map::new();
    fields.insert(field.to_owned(), value.into());
    let operation = Operation { verb: verb.to_owned(), client: Host::client(1), fields };
    Step { when: When::At(Duration::from_millis(100)), action: Action::Operation(operation) }
}

/// One client, one stream of 60 numbers, one a second.
fn a_minute_of_numbers() -> Plan {
    let mut plan = plan(Duration::from_secs(60));
    let stream = serde_json::json!({ "s1": { "numbers": 60, "every": "1s" } });
    plan.setup.insert("stream".to_owned(), stream);
    plan.steps.push(operation("watch", "stream", "s1"));
    plan
}

/// One client, one process that prints 60 lines, one a second.
#[cfg(feature = "exec")]
fn a_minute_of_lines() -> Plan {
    let mut plan = Plan { horizon: Duration::from_secs(60), ..Plan::new("exec") };
    let process = serde_json::json!({ "p1": { "print": { "lines": 60, "every": "1s" } } });
    plan.setup.insert("process".to_owned(), process);
    plan.steps.push(operation("start", "process", "p1"));
    plan
}

/// Prints the median of the rounds, a run each.
fn report(what: &str, runs: u32, mut work: impl FnMut()) {
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    if !words.is_empty() && !words.iter().any(|word| what.contains(word.as_str())) {
        return;
    }
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..runs).for_each(|_| work());
            start.elapsed() / runs
        })
        .collect();
    rounds.sort();
    println!("{what:<45} {:>8.1} µs a run", rounds[ROUNDS / 2].as_secs_f64() * 1e6);
}

/// Prints the memory of the process after a hundredth of the runs, and after all of them.
fn grow(subject: &Arc<dyn Erased>, plan: &Plan, runs: u32) {
    for n in 1..=runs {
        drop(black_box(run(subject, plan, &Options::default())));
        if n == runs / 100 || n == runs {
            println!("after {n:>6} runs: {} KiB resident", resident().unwrap_or_default());
        }
    }
}

/// The resident memory of this process in KiB, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}
