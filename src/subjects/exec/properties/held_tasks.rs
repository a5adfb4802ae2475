//! When a task of a host was held: the host may act late during this time.

use crate::history::{Event, EventKind, Time};
use crate::property::path::NEVER;
use crate::schedule::Fault;

/// A task of a host that a fault held.
struct HeldTask<'a> {
    fault: usize,
    host: &'a str,
    from: Time,
    /// Until when it was held; [`NEVER`] while it is held.
    until: Time,
}

/// The held tasks of a run, as far as its events were passed.
#[derive(Default)]
pub(super) struct HeldTasks<'a>(Vec<HeldTask<'a>>);

impl<'a> HeldTasks<'a> {
    /// Processes an event.
    pub(super) fn pass(&mut self, event: &'a Event) {
        match &event.what {
            EventKind::FaultBegan { fault, what, scope, .. }
                if matches!(**what, Fault::Hold { .. }) =>
            {
                let (fault, from, until) = (*fault, event.at, NEVER);
                let hosts = scope.hosts.iter().map(|host| host.as_str());
                self.0.extend(hosts.map(|host| HeldTask { fault, host, from, until }));
            }
            EventKind::FaultEnded { fault } => {
                let its = self.0.iter_mut().filter(|held| held.fault == *fault);
                its.for_each(|held| held.until = event.at);
            }
            _ => {}
        }
    }

    /// Returns whether a task of a host was held at some time between two times. Both times count.
    pub(super) fn was_held_between(&self, host: &str, from: Time, to: Time) -> bool {
        self.0.iter().any(|held| held.host == host && held.from <= to && held.until >= from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::scripted::{ScriptedRun, history};

    fn was_held(run: &ScriptedRun, host: &str, from: u64, to: u64) -> bool {
        run.with(|cx| {
            let mut held = HeldTasks::default();
            cx.history.events.iter().for_each(|event| held.pass(event));
            held.was_held_between(host, Time(from), Time(to))
        })
    }

    #[test]
    fn a_hold_counts_from_its_start_to_its_end() {
        let run =
            history().slows(1_000, 4_000).slows(2_000, 3_000).by("client2").slows(7_000, 8_000);
        let held = |from, to| was_held(&run, "client", from, to);
        assert_eq!([held(0, 999), held(0, 1_000)], [false, true]);
        assert_eq!(
            [held(4_000, 5_000), held(4_001, 5_000)],
            [true, false],
            "the longer one counts"
        );
        assert!(!held(7_000, 8_000) && was_held(&run, "client2", 7_000, 8_000), "of another host");
    }

    #[test]
    fn a_hold_without_an_end_lasts() {
        assert!(was_held(&history().holds_for_ever(1_000), "server", 900_000, 900_001));
    }
}
