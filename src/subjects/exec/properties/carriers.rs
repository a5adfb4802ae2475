//! `generations_are_true`: the generation that a client names for an item could carry it.
//!
//! The history knows when each byte was printed, and when the client's end of each connection was over.
//! A connection carries nothing that was printed after its end. A generation whose connection was not
//! opened carries nothing, except the next one: an attempt may bring items, and fail. A client that has failed
//! for good has no connection, and receives nothing that was printed later. A client that died counts its
//! generations anew, and is not judged.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{EventKind, Stream, Time};
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::judging::{host, judged, peers_may_lie};

kinds! {
    pub(super) GENERATIONS_ARE_TRUE;
    WAS_OVER = "was-over": "{subject:}the client names generation {number} for an item that was printed at {printed}, but that connection was over at {over} {moment}";
    HAD_FAILED = "had-failed": "{subject:}an item was printed at {printed}, and its client received it although it had failed for good at {failed} {moment}";
    NOT_OPEN = "not-open": "{subject:}the client names generation {number} for an item, but has opened connections only up to generation {newest} {moment}";
}

/// When the bytes of a stream were printed: the end of each item in the stream, and its time.
type Printed = Vec<(usize, Time)>;

/// Returns when the byte that ends at a position was printed.
fn printed_at(printed: &[(usize, Time)], end: usize) -> Option<Time> {
    printed.get(printed.partition_point(|(position, _)| *position < end)).map(|(_, at)| *at)
}

/// See the module.
pub(super) fn generations_are_true(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let mut printed: BTreeMap<&Stream, Printed> = BTreeMap::new();
    let mut received: BTreeMap<(&str, &Stream), usize> = BTreeMap::new();
    let mut died: BTreeSet<&str> = BTreeSet::new();
    let mut failed: BTreeMap<&str, Time> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Died { .. } => drop(died.insert(host(event))),
            EventKind::Milestone {
                name: "exec.client.failed-deadline" | "exec.client.failed-permanent",
                ..
            } => {
                failed.entry(host(event)).or_insert(event.at);
            }
            EventKind::Produced { stream, bytes } => {
                let printed = printed.entry(stream).or_default();
                let before = printed.last().map_or(0, |(end, _)| *end);
                printed.push((before + bytes.len(), event.at));
            }
            EventKind::Delivered { stream, bytes, generation: Some(number) } => {
                let client = host(event);
                let end = received.entry((client, stream)).or_default();
                *end += bytes.len();
                if died.contains(client) {
                    continue;
                }
                cx.judges("generations_are_true");
                let printed = printed.get(stream).and_then(|printed| printed_at(printed, *end));
                let conns = &cx.history.conns;
                let own = || conns.iter().filter(move |conn| conn.client.as_str() == client);
                let opened = own().filter(|conn| conn.opened <= event.at);
                let newest = opened.filter_map(|conn| conn.generation).max().unwrap_or_default();
                let carriers = own().filter(|conn| conn.generation == Some(*number));
                let over = carriers.map(|conn| conn.over.0.unwrap_or(NEVER)).max();
                let violation = |kind, data| {
                    Violation::new("generations_are_true", stream, event.at, kind, data)
                };
                let failed = failed.get(client).copied();
                if let Some((printed, failed)) = printed.zip(failed)
                    && printed > failed
                {
                    found.push(violation(&HAD_FAILED, fields! { printed, failed }));
                } else if *number > newest + 1 {
                    found.push(violation(&NOT_OPEN, fields! { number: *number, newest }));
                } else if let Some((printed, over)) = printed.zip(over)
                    && printed > over
                {
                    let data = fields! { number: *number, printed, over };
                    found.push(violation(&WAS_OVER, data));
                }
            }
            _ => {}
        }
        if found.len() == 5 {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{milestone, started, violations};
    use super::*;
    use crate::property::scripted::ScriptedRun;

    /// The first connection is over at 3 s, and the second one opens at 4 s. The process prints `a` at 1 s,
    /// and `b` and `c` at this time.
    fn run(ms: u64) -> ScriptedRun {
        let run = started().conn(1, 50, Some(3_000)).conn(2, 4_000, None);
        run.produced("p1/stdout", ms, "bc").delivered("p1/stdout", 1_020, "a")
    }

    fn found(run: ScriptedRun) -> Vec<String> {
        violations(&run, generations_are_true)
    }

    #[test]
    fn a_connection_carries_nothing_that_was_printed_after_its_end() {
        let found_of =
            |ms, generation| found(run(ms).delivered_in(generation, "p1/stdout", 4_100, "b")).len();
        assert_eq!([found_of(3_000, 1), found_of(3_000, 2)], [0, 0]);
        assert_eq!([found_of(3_001, 1), found_of(3_001, 2)], [1, 0]);
        let late = run(3_001).delivered_in(1, "p1/stdout", 4_100, "bc");
        assert_eq!(
            found(late),
            [
                "p1/stdout: the client names generation 1 for an item that was printed at 3.001 s, but that connection was over at 3.000 s (at 4.100 s)"
            ]
        );
        let split = run(2_000).produced("p1/stdout", 3_500, "d");
        let before = |bytes| found(split.clone().delivered_in(1, "p1/stdout", 4_100, bytes)).len();
        assert_eq!([before("bc"), before("bcd")], [0, 1], "the last byte counts");
    }

    #[test]
    fn a_generation_carries_nothing_before_the_one_before_it_is_open() {
        let early =
            |generation, ms| found(run(2_000).delivered_in(generation, "p1/stdout", ms, "b")).len();
        assert_eq!(early(2, 3_500), 0, "an attempt has the next number");
        assert_eq!([early(3, 3_999), early(3, 4_000)], [1, 0]);
        assert_eq!(
            found(run(2_000).delivered_in(4, "p1/stdout", 4_100, "b")),
            [
                "p1/stdout: the client names generation 4 for an item, but has opened connections only up to generation 2 (at 4.100 s)"
            ]
        );
        let puppet = run(2_000).delivered_in(9, "p1/stdout", 3_000, "b").puppet("server");
        assert_eq!(found(puppet).len(), 0);
    }

    #[test]
    fn a_failed_client_receives_nothing_that_was_printed_later() {
        let failed = |name, ms| {
            let failed = milestone(run(4_500), ms, name, &[]);
            found(failed.delivered_in(2, "p1/stdout", 4_600, "bc"))
        };
        assert_eq!(failed("exec.client.failed-permanent", 4_500), [""; 0]);
        assert_eq!(
            failed("exec.client.failed-permanent", 4_499),
            [
                "p1/stdout: an item was printed at 4.500 s, and its client received it although it had failed for good at 4.499 s (at 4.600 s)"
            ]
        );
        assert_eq!(failed("exec.client.failed-deadline", 4_499).len(), 1);
    }

    #[test]
    fn a_restarted_client_counts_anew() {
        let again = run(4_500).died("client", 4_100).delivered_in(1, "p1/stdout", 4_600, "b");
        assert_eq!(found(again).len(), 0);
        let other = run(4_500).died("client2", 4_100).delivered_in(1, "p1/stdout", 4_600, "b");
        assert_eq!(found(other).len(), 1);
    }
}
