//! Random schedules of `exec`, as `reknit hunt exec` runs them. Measures how many run per second,
//! the speed-up on two threads, and the share of the time that the checks besides the properties
//! take.

use std::ops::ControlFlow;
use std::sync::Arc;

use reknit::history::History;
use reknit::hunt::random::{HuntTarget, hunt};
use reknit::hunt::{Checks, JudgedRun, Pool, examine, judge};
use reknit::scenario::Expect;
use reknit::world::{Options, RunError};

use super::plans::{default_profile, subject};
use super::turns::{Meter, Side, print_figure};

/// The hunt target of `reknit hunt exec`.
pub fn target() -> HuntTarget {
    let subject = subject("exec");
    let profile = Arc::new(default_profile(&subject));
    HuntTarget { subject, profile }
}

pub fn measure(meter: &mut Meter) {
    let target = target();
    threads(meter, &target);
    checks(meter, &target);
}

/// Prints how many schedules run per second, on one thread and on two.
fn threads(meter: &mut Meter, target: &HuntTarget) {
    let runs = meter.size(500, 10);
    let on = |jobs| {
        Side::new(move || {
            let pool = Pool { jobs, ..Pool::default() };
            let hunted = hunt(target, 1..runs + 1, &Checks::default(), &pool, |_, _| {
                ControlFlow::Continue(())
            });
            assert_eq!(hunted.expect("they can be run").tally.runs, runs);
        })
    };
    let Some([one, two]) = meter.turns("hunts/threads", [on(1), on(2)]) else { return };
    print_figure(
        "hunt exec",
        format!("{:.0} schedules a second and core", runs as f64 / one),
        "500, aim 1,000",
    );
    print_figure(
        "hunt exec --jobs 2",
        format!("{:.2} times as many", one / two),
        "1.8 times as many",
    );
}

/// Prints the share of the time that repeated runs take, and the share that control runs take.
fn checks(meter: &mut Meter, target: &HuntTarget) {
    let (seeds, expect) = (meter.size(300, 5), Expect::default());
    let all = |work: &dyn Fn(JudgedRun<'_>) -> Result<(), RunError>| {
        for seed in 1..seeds + 1 {
            work(JudgedRun { subject: &target.subject, plan: &target.plan(seed), expect: &expect })
                .expect("it can be run");
        }
    };
    let judged = |has_control: fn(&History) -> bool| {
        all(&|case| judge(case, &Options::default(), has_control).map(drop))
    };
    let sides = [
        Side::new(|| all(&|case| examine(case, &Checks::default()).map(drop))),
        Side::new(|| judged(|history| history.stale > 0)),
        Side::new(|| judged(|_| false)),
    ];
    let Some([checked, with_control, bare]) = meter.turns("hunts/checks", sides) else { return };
    let share = |of: f64| format!("{:.1} % of the time", of / checked * 100.0);
    print_figure(
        "the self-check of hunt exec, which repeats runs",
        share(checked - with_control),
        "5 %",
    );
    print_figure("the control runs of hunt exec", share(with_control - bare), "nothing");
}
