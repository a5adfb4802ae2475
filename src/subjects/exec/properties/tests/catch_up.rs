//! Tests of the progress of catch-ups.

use std::collections::BTreeMap;

use super::super::catch_up::catch_ups_progress;
use super::{milestone, started, violations};
use crate::history::{EventKind, Nature};
use crate::property::scripted::ScriptedRun;
use crate::schedule::{Conn, Fault, MilestoneValue, TrafficCount, faults};

/// Begins and loses a catch-up on connection `n`, which is cut after this many bytes toward a host.
fn loses_a_catch_up(scripted: ScriptedRun, n: u32, toward: &str, bytes: u64) -> ScriptedRun {
    let cut = Fault::CutAfter(faults::CutAfter {
        conn: Conn::number("client", n),
        toward: toward.into(),
        count: TrafficCount::Bytes(bytes),
        learns: BTreeMap::new(),
    });
    let number = MilestoneValue::Number;
    let begun = [("conn", number(n.into())), ("processes", number(1))].into();
    let begun = EventKind::Milestone { name: "exec.client.initialized", fields: begun };
    let lost = [("conn", number(n.into()))].into();
    let lost = EventKind::Milestone { name: "exec.client.attempt-failed", fields: lost };
    let ms = 2_000 + 100 * u64::from(n);
    scripted
        .conn(n, ms, Some(ms + 50))
        .fault(ms, Some(ms + 50), Nature::Kills, cut)
        .user(ms + 40, begun)
        .user(ms + 50, lost)
}

/// The same on several connections.
fn loses_catch_ups(scripted: ScriptedRun, conns: std::ops::RangeInclusive<u32>) -> ScriptedRun {
    conns.fold(scripted, |scripted, n| loses_a_catch_up(scripted, n, "client", 40_000))
}

#[test]
fn a_client_that_loses_catch_ups_keeps_what_arrives() {
    let stands_still = [
        "client: it lost 6 catch-ups in a row without receiving an event, although each connection carried at least 32768 bytes (at 2.650 s)",
    ];
    assert!(violations(&loses_catch_ups(started(), 1..=5), catch_ups_progress).is_empty());
    assert_eq!(violations(&loses_catch_ups(started(), 1..=6), catch_ups_progress), stands_still);
    let little =
        |toward, bytes| (1..=9).fold(started(), |run, n| loses_a_catch_up(run, n, toward, bytes));
    assert!(violations(&little("client", 32_767), catch_ups_progress).is_empty());
    assert!(violations(&little("server", 40_000), catch_ups_progress).is_empty());
}

#[test]
fn an_event_that_arrives_is_progress() {
    let page = |scripted: ScriptedRun, ms, last| {
        let fields = [
            ("process", MilestoneValue::Text("p1".into())),
            ("last", MilestoneValue::Number(last)),
        ];
        let what = EventKind::Milestone { name: "exec.client.page", fields: fields.into() };
        scripted.user(ms, what)
    };
    let five = || loses_catch_ups(started(), 1..=5);
    for (progress, broken) in [
        (five().delivered("p1/stdout", 2_580, "a"), 0),
        (page(five(), 2_580, 1), 0),
        (five().died("client", 2_580), 0),
        (milestone(five(), 2_580, "exec.client.caught-up", &[]), 0),
        (five().by("client2").delivered("p1/stdout", 2_580, "a").by("client"), 1),
    ] {
        let found = violations(&loses_catch_ups(progress, 6..=6), catch_ups_progress);
        assert_eq!(found.len(), broken, "{found:?}");
    }
    let again = page(loses_catch_ups(page(started(), 2_000, 4), 1..=5), 2_580, 4);
    assert_eq!(
        violations(&loses_catch_ups(again, 6..=6), catch_ups_progress).len(),
        1,
        "the same page again"
    );
}
