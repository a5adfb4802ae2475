//! Measures whether a long hunt needs more memory than a short one. It takes minutes, so a timed
//! run starts it only if it is named. Without timing, it runs once at a small size.

use std::ops::ControlFlow;

use reknit::hunt::random::hunt;
use reknit::hunt::{Checks, Pool};

use super::hunts::target;
use super::turns::{Meter, has_arg, is_named, print_figure};

pub fn measure(meter: &mut Meter) {
    let wanted = if meter.is_timed() { has_arg("memory") } else { is_named("memory") };
    if !wanted {
        return;
    }
    let runs = meter.size(100_000, 20);
    let (early, mut at_first) = (runs / 100, None);
    let hunted = hunt(&target(), 1..runs + 1, &Checks::default(), &Pool::default(), |hunted, _| {
        if hunted.tally.runs == early {
            at_first = kib("VmHWM").zip(kib("VmRSS"));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(hunted.expect("they can be run").tally.runs, runs);
    let (Some((first, first_now)), Some((last, last_now))) =
        (at_first, kib("VmHWM").zip(kib("VmRSS")))
    else {
        return;
    };
    if meter.is_timed() {
        let more = (last as f64 / first as f64 - 1.0) * 100.0;
        let figure = format!(
            "{last} KiB at most, {more:.0} % above {first} KiB after {early} ({last_now} and {first_now} KiB resident)"
        );
        print_figure(&format!("the memory of {runs} schedules"), figure, "20 % above");
    }
}

/// Reads a memory figure of this process; `None` if the system does not provide it.
fn kib(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}
