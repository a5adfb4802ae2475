//! Runs the same plan on both engines.

use std::sync::Arc;
use std::time::Duration;

use reknit::scenario::ScenarioFile;
use reknit::schedule::Plan;
use reknit::subject::DynSubject;
use reknit::world::{Engine, Options, run};

use super::echo::Echo;
use super::plans::{nothing, subject};
use super::turns::{Meter, Side, print_figure};

/// One client, two processes, 90 virtual seconds, three outages.
const THREE_OUTAGES: &str = r#"
format  = 1
subject = "exec"
title   = "Three outages"
horizon = "90s"

[process.p1]
print = { lines = 80, every = "1s" }

[process.p2]
print = { lines = 40, every = "2s" }

[[step]]
at    = "1s"
start = { process = "p1" }

[[step]]
at    = "1s"
start = { process = "p2" }

[[step]]
at  = "10s"
cut = { conn = "client#last" }

[[step]]
at        = "30s"
partition = { hosts = ["client", "server"], lasts = "4s" }

[[step]]
at  = "60s"
cut = { conn = "client#last", learns = { client = "0ms", server = "3s" } }
"#;

pub fn measure(meter: &mut Meter) {
    let exec = subject("exec");
    let scenario =
        ScenarioFile::parse(THREE_OUTAGES, "three-outages.toml", std::slice::from_ref(&exec))
            .expect("it is well-formed");
    compare(
        meter,
        "engines/exec",
        "exec, 90 virtual seconds, three outages",
        &exec,
        &scenario.plans()[0],
        "50, aim 200",
    );
    let echo: Arc<dyn DynSubject> = Arc::new(Echo);
    let minute = nothing("echo", Duration::from_secs(60));
    compare(
        meter,
        "engines/echo",
        "echo, 60 virtual seconds, one a second",
        &echo,
        &minute,
        "nothing",
    );
}

/// Prints how many times faster a plan is on the event engine.
fn compare(
    meter: &mut Meter,
    row: &str,
    what: &str,
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    held_to: &str,
) {
    let on = |engine| {
        let options = Options { engine, ..Options::default() };
        Side::new(move || run(subject, plan, &options).expect("it can be carried out"))
    };
    let Some([event, ticks]) =
        meter.turns(row, [on(Engine::Event).times(100), on(Engine::TURMOIL)])
    else {
        return;
    };
    let figure = format!(
        "{:.0} times faster than on stock turmoil, {:.2} ms and {:.0} ms",
        ticks / event,
        event * 1e3,
        ticks * 1e3
    );
    print_figure(what, figure, held_to);
}
