//! `logs_are_bounded`: a log that has more than its limit gets no second answer to a read before its
//! user has read.
//!
//! A log keeps what its user has not read. One answer to a read may fill it beyond its limit. Then the
//! client asks for more only when half of the log is free. The gauges of the client show each new peak, as in
//! `bounded_memory`. What the user has received says whether half of the log can be free. A cut
//! changes nothing: the next catch-up leaves the process out.
//!
//! - The rule judges a host only if it has one process with one subscription. The gauges are those of the fullest
//!   log, and the slowest subscription decides what a log keeps.
//! - A user that stops frees the log, and so does the end of the stream or of the host.
//! - The pages of one catch-up count as one answer.
//! - A log always has room for the failure of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::history::{Event, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::exec::limits::client_limits;
use crate::subjects::judging::{host, judged, peers_may_lie};
use reknit_exec::server::CHUNK;

kinds! {
    pub(super) LOGS_ARE_BOUNDED;
    ROSE_AGAIN = "rose-again": "{subject:}its `{gauge}` rose to {value}, although they were {before} since {since}, the limit is {limit}, and its user had read {read} of them {moment}";
}

/// The time in which a gauge shows what one answer has brought.
const MOMENT: Duration = Duration::from_millis(100);

/// What a log counts: its events, or their bytes.
struct Measure {
    gauge: &'static str,
    limit: u64,
    /// How much of it the user reads with an event.
    read: fn(&EventKind) -> u64,
    /// The events in doubt: a failure, and one that the user is about to receive.
    doubt: u64,
}

impl Measure {
    /// Whether half of a log that had so much may be free after its user has read so much.
    fn has_room(&self, before: u64, read: u64) -> bool {
        read + self.doubt >= before - self.limit / 2
    }
}

/// A log that may have more than its limit.
#[derive(Default)]
struct FullLog {
    /// Since when it has more, and how much it has.
    excess: Option<(Time, u64)>,
    /// Whether it was decided whether this excess is judged.
    is_decided: bool,
    /// What its user has read, and when.
    reads: Vec<(Time, u64)>,
}

/// A rise of a log that had more than its limit.
struct Rise {
    since: Time,
    before: u64,
    value: u64,
    read: u64,
}

impl FullLog {
    /// Processes an event of its host.
    fn pass(&mut self, measure: &Measure, event: &Event) -> Option<Rise> {
        match &event.what {
            EventKind::Gauge { name, value }
                if *name == measure.gauge && *value > measure.limit =>
            {
                return self.rose(measure, event.at, *value);
            }
            EventKind::Delivered { .. } | EventKind::Observed { .. } => {
                self.reads.push((event.at, (measure.read)(&event.what)));
            }
            EventKind::StreamEnded { .. }
            | EventKind::GaveUp { .. }
            | EventKind::Died { .. }
            | EventKind::Milestone { name: "exec.client.page", .. } => self.excess = None,
            _ => {}
        }
        None
    }

    fn rose(&mut self, measure: &Measure, at: Time, value: u64) -> Option<Rise> {
        self.is_decided = false;
        let (since, before) = self.excess.replace((at, value))?;
        let read = self.read_since(since);
        let is_new = at > since + MOMENT && value > before + measure.doubt;
        (is_new && !measure.has_room(before, read)).then_some(Rise { since, before, value, read })
    }

    /// Returns what the user may have read since a time. It may have read some of it before the gauge showed it.
    fn read_since(&self, since: Time) -> u64 {
        let reads = self.reads.iter().filter(|(at, _)| *at + MOMENT >= since);
        reads.map(|(_, read)| *read).sum()
    }

    /// Returns, once for each excess, whether from this time on the log must not rise.
    fn must_not_rise(&mut self, measure: &Measure, now: Time) -> bool {
        let Some((since, before)) = self.excess.filter(|(since, _)| now > *since + MOMENT) else {
            return false;
        };
        let is_decided = std::mem::replace(&mut self.is_decided, true);
        !is_decided && !measure.has_room(before, self.read_since(since))
    }
}

/// See the module.
pub(super) fn logs_are_bounded(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let limits = client_limits(cx.limits);
    let measures = [
        Measure { gauge: "kept-events", limit: limits.log_events as u64, read: |_| 1, doubt: 2 },
        Measure {
            gauge: "kept-bytes",
            limit: limits.log_bytes as u64,
            read: bytes,
            doubt: 2 * CHUNK as u64,
        },
    ];
    let left_out = with_several_readers(cx);
    let mut logs: BTreeMap<&str, [FullLog; 2]> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx).filter(|event| !left_out.contains(host(event))) {
        for (measure, log) in measures.iter().zip(logs.entry(host(event)).or_default()) {
            if log.must_not_rise(measure, event.at) {
                cx.judges("logs_are_bounded");
            }
            let Some(Rise { since, before, value, read }) = log.pass(measure, event) else {
                continue;
            };
            let (gauge, limit) = (measure.gauge, measure.limit);
            let data = fields! { gauge, value, before, since, limit, read };
            let host = event.host.as_ref();
            found.push(Violation::new("logs_are_bounded", host, event.at, &ROSE_AGAIN, data));
        }
    }
    found.truncate(5);
    found
}

fn bytes(what: &EventKind) -> u64 {
    match what {
        EventKind::Delivered { bytes, .. } => bytes.len() as u64,
        _ => 0,
    }
}

/// Returns the hosts with more than one process, or with a further subscription.
fn with_several_readers<'a>(cx: &CheckContext<'a>) -> BTreeSet<&'a str> {
    let mut one: BTreeSet<&str> = BTreeSet::new();
    let mut several = BTreeSet::new();
    for event in judged(cx) {
        let EventKind::Asked { operation, .. } = &event.what else { continue };
        let is_further = match operation.verb.as_str() {
            "start" => !one.insert(host(event)),
            "read-events" | "read-stream" => true,
            _ => false,
        };
        if is_further {
            several.insert(host(event));
        }
    }
    several
}

#[cfg(test)]
mod tests {
    use super::super::tests::{started, violations};
    use super::*;
    use crate::history::Class;
    use crate::property::scripted::ScriptedRun;
    use crate::schedule::LimitValue;

    /// A log with a limit of 12 events has 20 since 5 s.
    fn full() -> ScriptedRun {
        let mut run = started().gauge("client", 5_000, "kept-events", 20);
        run.plan.limits.set("client.log-events", LimitValue::Count(12));
        run
    }

    fn found(run: &ScriptedRun) -> Vec<String> {
        violations(run, logs_are_bounded)
    }

    fn rises(run: ScriptedRun, value: u64) -> ScriptedRun {
        run.gauge("client", 7_000, "kept-events", value)
    }

    #[test]
    fn a_full_log_gets_no_second_answer() {
        assert_eq!(
            found(&rises(full(), 30)),
            [
                "client: its `kept-events` rose to 30, although they were 20 since 5.000 s, the limit is 12, and its user had read 0 of them (at 7.000 s)"
            ]
        );
        assert_eq!(found(&rises(full(), 22)), [""; 0], "a failure has a place");
        assert_eq!(found(&full()), [""; 0]);
        let at_once = full().gauge("client", 5_010, "kept-events", 40);
        assert_eq!(found(&at_once), [""; 0], "the same answer");
    }

    #[test]
    fn a_user_that_reads_half_of_a_log_makes_room() {
        let read = |events| {
            let run = (0..events).fold(full(), |run, _| run.delivered("p1/stdout", 6_000, "a"));
            found(&rises(run, 30)).len()
        };
        assert_eq!((read(11), read(14)), (1, 0));
        assert_eq!(found(&rises(full().gave_up(1, Some("p1"), 6_000), 30)), [""; 0]);
        assert_eq!(found(&rises(full().died("client", 6_000), 30)), [""; 0]);
    }

    #[test]
    fn a_host_with_several_readers_is_left_out() {
        let p1 = r#"{"process":"p1"}"#;
        for verb in ["start", "read-events", "read-stream"] {
            let run = rises(full().asked_as(2, 8_000, Class::InFlight, verb, p1), 30);
            assert_eq!(found(&run), [""; 0], "{verb}");
        }
    }
}
