//! The gain of each shortcut of the world, for random schedules of `exec` and for an echo.

use std::sync::Arc;
use std::time::Duration;

use reknit::hunt::{JudgedRun, judge};
use reknit::scenario::Expect;
use reknit::subject::DynSubject;
use reknit::world::{Options, Shortcuts, run};

use super::echo::Echo;
use super::hunts::target;
use super::plans::nothing;
use super::turns::{Meter, Side, print_figure};

/// A shortcut: its name, and how it is turned off.
type Row = (&'static str, fn(&mut Shortcuts));

const ROWS: [Row; 2] =
    [("quiet_acks", |on| on.quiet_acks = false), ("still_turns", |on| on.still_turns = false)];

/// Returns the options of each side: all shortcuts, each one off, and none.
fn sides() -> [Options; ROWS.len() + 2] {
    std::array::from_fn(|n| {
        let mut shortcuts = Shortcuts::ALL;
        match n.checked_sub(1).map(|n| ROWS.get(n)) {
            None => {}
            Some(Some((_, off))) => off(&mut shortcuts),
            Some(None) => shortcuts = Shortcuts::NONE,
        }
        Options { shortcuts, ..Options::default() }
    })
}

pub fn measure(meter: &mut Meter) {
    let (target, expect) = (target(), Expect::default());
    let seeds = meter.size(300, 3);
    let hunted = sides().map(|options| {
        let (target, expect) = (&target, &expect);
        Side::new(move || {
            for seed in 1..=seeds {
                let plan = target.plan(seed);
                let case = JudgedRun { subject: &target.subject, plan: &plan, expect };
                judge(case, &options, |_| false).expect("it can be run");
            }
        })
    });
    if let Some(times) = meter.turns("shortcuts/exec", hunted) {
        print("hunt exec", &times);
    }
    let echo: Arc<dyn DynSubject> = Arc::new(Echo);
    let hour = nothing("echo", Duration::from_secs(3_600));
    let echoed = sides().map(|options| {
        let (echo, hour) = (&echo, &hour);
        Side::new(move || run(echo, hour, &options).expect("it can be run"))
    });
    if let Some(times) = meter.turns("shortcuts/echo", echoed) {
        print("an echo", &times);
    }
}

fn print(what: &str, times: &[f64]) {
    let names = ROWS.iter().map(|(name, _)| *name).chain(["all"]);
    for (name, time) in names.zip(&times[1..]) {
        let slower = (time / times[0] - 1.0) * 100.0;
        print_figure(
            &format!("{what} without {name}"),
            format!("{slower:+.1} %"),
            "5 % or removed",
        );
    }
}
