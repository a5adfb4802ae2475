//! Tests of the server's guarantees and of the client's repairs, over hand-written runs.

use std::collections::BTreeMap;

use serde_json::json;

use super::catch_up::catch_ups_progress;
use super::generations::{attempts_are_answered, kept_while_healthy};
use super::http::{
    credentials_stay, end_with_their_connection, fail_truly, methods_are_kept, redirects_end,
    responses_are_true,
};
use super::prompt::answers_are_prompt;
use super::repair::{gaps_are_requested, processes_fail_truly, refusals_pass, write_ids_are_own};
use super::served::{closed_are_kept, ids_are_own, reads_wait};
use super::shares::{sessions_are_shared, writes_have_a_reader};
use super::wanted_ending::ends_as_it_wants;
use crate::history::{Answer, Call, Class, Data, EventKind, Nature, ProcessOutcome};
use crate::property::scripted::{ScriptedRun, history};
use crate::property::{CheckContext, Violation};
use crate::report::sentence;
use crate::schedule::{Conn, Fault, MilestoneValue, TrafficCount, faults};
use crate::subjects::exec::answers::{ExecFailure, ExecObservation, Read};
use reknit_exec::client::Failure;

mod counts;
mod excuses;

/// Twice the detection time, the recovery window, an attempt and 1 s, under the guarantees of these
/// runs.
const ALLOWANCE: u64 = 2 * 16_000 + 25_000 + 5_000 + 1_000;

/// A run in which call 1 started `p1`, which printed a line at 1 s and is still running.
pub(super) fn started() -> ScriptedRun {
    let opened = EventKind::Opened { stream: "p1".into(), call: Call(1) };
    start(1, 100).effect(1, 110, "p1").user(120, opened).produced("p1/stdout", 1_000, "a")
}

fn start(call: u64, ms: u64) -> ScriptedRun {
    history().asked_as(call, ms, Class::InFlight, "start", r#"{"process":"p1"}"#)
}

fn read(scripted: ScriptedRun, ms: u64, after: u64) -> ScriptedRun {
    scripted.asked_as(
        2,
        ms,
        Class::Durable,
        "read",
        &json!({ "process": "p1", "after": after, "wait": "2m" }).to_string(),
    )
}

/// An answer with these chunks, and nothing after them.
fn chunks(first: u64, last: u64) -> Read {
    Read { chunks: Some((first, last)), next: last + 1, ..Read::default() }
}

/// An empty answer.
fn nothing(next: u64) -> Read {
    Read { next, ..Read::default() }
}

/// The answer to a read after an event that its user received.
fn after(event: u64, read: Read) -> Read {
    Read { after: Some(event), ..read }
}

fn gap() -> ExecFailure {
    ExecFailure(Failure::Gap { next: 1, last: 7 })
}

#[test]
fn a_poll_records_the_event_after_which_it_asked() {
    let polls = || history_of_a_poll().delivered("p1/stdout", 1_010, "a");
    assert!(violations(&polls().answered(2, 1_040, after(0, chunks(1, 1))), reads_wait).is_empty());
    assert_eq!(
        violations(&polls().answered(2, 1_400, after(0, chunks(1, 1))), reads_wait),
        [
            "call 2: the read was answered only at 1.400 s, although its user received the event at 1.010 s"
        ]
    );
    assert_eq!(violations(&polls().answered(2, 1_040, after(1, nothing(2))), reads_wait).len(), 1);
}

/// A run with a read of `p1` after the last event that its user received, over a live connection.
fn history_of_a_poll() -> ScriptedRun {
    let scripted = milestone(started(), 300, "exec.client.connected", &[]);
    scripted.asked_as(
        2,
        500,
        Class::Durable,
        "read",
        r#"{"process":"p1","after":"last-received","wait":"2m"}"#,
    )
}

pub(super) fn violations(
    scripted: &ScriptedRun,
    property: fn(&CheckContext<'_>) -> Vec<Violation>,
) -> Vec<String> {
    let found = scripted.with(property);
    let is_listed = |it: &Violation| {
        super::OWN.iter().any(|own| own.name == it.property && own.kinds.contains(&it.kind))
    };
    assert!(found.iter().all(is_listed), "{found:?}");
    found.iter().map(sentence).collect()
}

#[test]
fn a_read_is_answered_when_there_is_something_new() {
    let scripted = read(started(), 500, 0);
    assert!(violations(&scripted.clone().answered(2, 1_040, chunks(1, 1)), reads_wait).is_empty());
    assert!(
        violations(&scripted.clone().answered(2, 1_000 + ALLOWANCE, chunks(1, 1)), reads_wait)
            .is_empty()
    );
    assert_eq!(
        violations(&scripted.answered(2, 1_001 + ALLOWANCE, chunks(1, 1)), reads_wait),
        [
            "call 2: the read was answered only at 64.001 s, although a new event existed since 1.000 s"
        ]
    );
}

#[test]
fn a_read_after_an_event_must_be_answered_after_the_close() {
    let scripted = read(started(), 2_000, 1);
    assert!(
        violations(&scripted.clone().answered(2, 110_000, chunks(2, 2)), reads_wait).is_empty(),
        "who knows since when"
    );
    let scripted = scripted.ended("p1", 3_000, ProcessOutcome::Exit(0)).ended(
        "p1/stdout",
        4_000,
        ProcessOutcome::Closed,
    );
    assert_eq!(
        violations(
            &scripted.answered(2, 110_000, Read { exit: Some(0), closed: true, ..nothing(4) }),
            reads_wait
        )
        .len(),
        1
    );
}

#[test]
fn a_network_fault_excuses_a_late_answer() {
    let scripted = read(started(), 500, 0).kills(30_000, 31_000);
    assert!(
        violations(&scripted.clone().answered(2, 31_000 + ALLOWANCE, chunks(1, 1)), reads_wait)
            .is_empty()
    );
    assert_eq!(
        violations(&scripted.answered(2, 31_001 + ALLOWANCE, chunks(1, 1)), reads_wait).len(),
        1
    );
}

#[test]
fn a_read_over_a_live_connection_is_answered_soon() {
    let connected = || milestone(read(started(), 500, 0), 600, "exec.client.connected", &[]);
    let soon = 1_000 + 4 * 20 + 1_000;
    assert!(violations(&connected().answered(2, soon, chunks(1, 1)), reads_wait).is_empty());
    assert_eq!(violations(&connected().answered(2, soon + 1, chunks(1, 1)), reads_wait).len(), 1);
    let lost = milestone(connected(), 900, "exec.client.lost", &[]);
    assert!(violations(&lost.answered(2, soon + 1, chunks(1, 1)), reads_wait).is_empty());
    let much = connected().produced("p1/stdout", 1_100, &"x".repeat(40 << 10));
    assert!(violations(&much.answered(2, soon + 1, chunks(1, 1)), reads_wait).is_empty());
}

#[test]
fn a_read_is_answered_together_with_the_event_that_it_waits_for() {
    let scripted = milestone(read(started(), 500, 1), 600, "exec.client.connected", &[]);
    let scripted = scripted
        .delivered("p1/stdout", 1_020, "a")
        .produced("p1/stdout", 2_000, "b")
        .delivered("p1/stdout", 2_020, "b");
    let soon = 2_020 + 4 * 20 + 50;
    assert!(violations(&scripted.clone().answered(2, soon, chunks(2, 2)), reads_wait).is_empty());
    assert_eq!(
        violations(&scripted.clone().answered(2, soon + 1, chunks(2, 2)), reads_wait),
        [
            "call 2: the read was answered only at 2.151 s, although its user received the event at 2.020 s"
        ]
    );
    assert!(
        violations(
            &scripted.clone().slows(1_900, 2_100).answered(2, soon + 80, chunks(2, 2)),
            reads_wait
        )
        .is_empty()
    );
    let late = |ms| {
        violations(
            &scripted.clone().delayed(1_900, Some(2_100), 700).answered(2, ms, chunks(2, 2)),
            reads_wait,
        )
        .len()
    };
    assert_eq!((late(soon + 780), late(soon + 781)), (0, 1), "the answer left under the delay");
    let behind = |ms| {
        let narrowed = scripted.clone().narrowed(600, 2_020).answered(2, ms, chunks(2, 2));
        violations(&narrowed, reads_wait).len()
    };
    assert_eq!(
        (behind(soon + 40), behind(soon + 41)),
        (0, 1),
        "the window opens a round trip later"
    );
}

#[test]
fn a_read_may_wait_for_long_answers_to_other_reads() {
    let output = "x".repeat(15 << 10);
    let scripted = || {
        let scripted =
            start(1, 100).user(120, EventKind::Opened { stream: "p1".into(), call: Call(1) });
        let scripted = milestone(scripted, 600, "exec.client.connected", &[]);
        let scripted =
            scripted.produced("p1/stdout", 1_000, &output).delivered("p1/stdout", 1_020, &output);
        scripted.asked_as(3, 1_100, Class::Durable, "read", r#"{"process":"p1"}"#)
    };
    let chunks = chunks(1, 1);
    let late = |scripted: ScriptedRun| read(scripted, 1_200, 0).answered(2, 1_400, chunks);
    let wrong = [
        "call 2: the read was answered only at 1.400 s, although its user received the event at 1.200 s",
    ];
    assert_eq!(violations(&late(scripted()), reads_wait), wrong, "both together are little");
    let third = |scripted: ScriptedRun| {
        scripted.asked_as(4, 1_100, Class::Durable, "read-all", r#"{"process":"p1"}"#)
    };
    assert!(violations(&late(third(scripted())), reads_wait).is_empty(), "all three are not");
    assert_eq!(
        violations(&late(third(scripted()).answered(4, 1_199, chunks)), reads_wait),
        wrong,
        "one was over before"
    );
    assert!(
        violations(&late(third(scripted()).answered(4, 1_300, chunks)), reads_wait).is_empty(),
        "one was over since"
    );
    let pieces =
        (0..150).fold(scripted(), |scripted, _| scripted.produced("p1/stderr", 1_010, "x"));
    assert!(
        violations(&late(pieces), reads_wait).is_empty(),
        "what stands around small pieces is on its way, too"
    );
    let another = scripted()
        .by("client2")
        .asked_as(4, 1_100, Class::Durable, "read", r#"{"process":"p1"}"#)
        .by("client");
    assert_eq!(
        violations(&late(another), reads_wait),
        wrong,
        "what others are answered comes over their connections"
    );
}

#[test]
fn a_closed_process_is_forgotten_only_after_its_user_was_attached_long_enough() {
    let attached = |scripted: ScriptedRun, ms, conn| {
        let fields = [("conn", MilestoneValue::Number(conn))].into();
        scripted.entry(
            ms,
            None,
            EventKind::Point { name: "exec.server.attach.unlocked", fields, held: false },
        )
    };
    let forgotten = |scripted: ScriptedRun, ms, conn| {
        let fields = [
            ("process", MilestoneValue::Text("p1".into())),
            ("conn", MilestoneValue::Number(conn)),
        ]
        .into();
        scripted.entry(ms, None, EventKind::Milestone { name: "exec.process.forgotten", fields })
    };
    assert!(
        violations(&forgotten(attached(history(), 1_000, 1), 81_000, 1), closed_are_kept)
            .is_empty()
    );
    assert_eq!(
        violations(&forgotten(attached(history(), 1_000, 1), 80_999, 1), closed_are_kept),
        [
            "p1: the server forgot the closed process too early: its client was attached only since 1.000 s (at 80.999 s)"
        ]
    );
    assert_eq!(
        violations(&forgotten(attached(history(), 1_000, 1), 50_000, 0), closed_are_kept),
        [
            "p1: the server forgot the closed process too early: no client was attached (at 50.000 s)"
        ]
    );
}

#[test]
fn a_read_is_not_answered_with_nothing_before_its_wait_is_over() {
    let scripted = read(started(), 2_000, 1);
    assert!(violations(&scripted.clone().answered(2, 122_000, nothing(2)), reads_wait).is_empty());
    assert!(
        violations(
            &scripted.clone().answered(2, 2_020, Read { exit: Some(0), ..nothing(3) }),
            reads_wait
        )
        .is_empty(),
        "the exit is news"
    );
    assert_eq!(
        violations(&scripted.answered(2, 2_020, nothing(2)), reads_wait),
        [
            "call 2: the read was answered before its wait ended, with no new event (nothing, next 2; at 2.020 s)"
        ]
    );
}

#[test]
fn an_id_is_taken_only_for_a_user_that_started_it() {
    let failure = Failure::Refused { code: -32600, message: "process id p1 is taken".into() };
    let refused = || Answer::refused(ExecFailure(failure.clone()));
    let why = "refused: the server refused: process id p1 is taken (-32600)";
    assert_eq!(
        violations(&start(1, 0).answered(1, 20, refused()), ids_are_own),
        [format!(
            "call 1: it was refused, but its user had no process with this id ({why}; at 0.020 s)"
        )]
    );
    let again = |scripted: ScriptedRun| {
        scripted.asked_as(2, 2_000, Class::InFlight, "start", r#"{"process":"p1"}"#).answered(
            2,
            2_020,
            refused(),
        )
    };
    assert!(violations(&again(started()), ids_are_own).is_empty());
    assert_eq!(violations(&again(started().by("client2")), ids_are_own).len(), 1);
}

#[test]
fn a_process_is_killed_by_its_user_only() {
    let started = || super::tests::started().conn(1, 0, None);
    assert!(
        violations(&started().ended("p1", 3_000, ProcessOutcome::Exit(0)), ends_as_it_wants)
            .is_empty()
    );
    let killed = |scripted: ScriptedRun| scripted.ended("p1", 3_000, ProcessOutcome::Signal(9));
    assert_eq!(
        violations(&killed(started()), ends_as_it_wants),
        ["p1: it ended with signal 9, but no user terminated it (at 3.000 s)"]
    );
    let terminated =
        started().asked_as(2, 2_000, Class::InFlight, "terminate", r#"{"process":"p1"}"#);
    assert!(violations(&killed(terminated), ends_as_it_wants).is_empty());
    assert!(violations(&killed(started().failed(1, 2_000, "lost")), ends_as_it_wants).is_empty());
    assert!(
        violations(&killed(started().failed_stream("p1", 2_000, gap())), ends_as_it_wants)
            .is_empty()
    );
    assert!(violations(&killed(started().died("server", 2_000)), ends_as_it_wants).is_empty());
    let dropped = |answered| {
        let write = started().asked_as(2, 1_500, Class::InFlight, "write", r#"{"process":"p1"}"#);
        let drop = r#"{"process":"p1"}"#;
        let dropped = write.asked_as(3, 1_600, Class::InFlight, "drop-handle", drop);
        violations(
            &killed(dropped.answered(2, answered, Answer::queued("accepted"))),
            ends_as_it_wants,
        )
    };
    assert!(dropped(2_990).is_empty());
    assert_eq!(dropped(1_990).len(), 1);
    let refused =
        |why: Data| killed(read(started(), 1_500, 0).answered(2, 2_000, Answer::Refused(why)));
    assert!(violations(&refused(gap().into()), ends_as_it_wants).is_empty());
    assert_eq!(violations(&refused("p1 is unknown".into()), ends_as_it_wants).len(), 1);
    let reported_later = killed(started()).failed_stream("p1", 5_000, gap());
    assert!(violations(&reported_later, ends_as_it_wants).is_empty());
    let started_again =
        started().asked_as(2, 2_000, Class::InFlight, "start", r#"{"process":"p1"}"#);
    assert!(
        violations(&killed(started_again.clone().failed(2, 2_500, "lost")), ends_as_it_wants)
            .is_empty()
    );
    assert_eq!(violations(&killed(started_again), ends_as_it_wants).len(), 1);
}

#[test]
fn a_held_user_learns_later_that_its_start_failed() {
    let killed = |hold_ends| {
        let waits = start(1, 1_000);
        let started = waits.effect(1, 1_010, "p1").conn(1, 0, None).slows(1_500, hold_ends);
        started.ended("p1", 3_000, ProcessOutcome::Signal(9))
    };
    assert!(violations(&killed(3_001), ends_as_it_wants).is_empty());
    assert_eq!(violations(&killed(2_999), ends_as_it_wants).len(), 1);
    let was_answered = killed(4_000).answered(1, 1_200, nothing(1));
    assert_eq!(violations(&was_answered, ends_as_it_wants).len(), 1);
}

#[test]
fn a_process_ends_with_its_session() {
    let killed = |over| {
        let connected = super::tests::started().conn(1, 0, Some(over));
        connected.ended("p1", 100_000, ProcessOutcome::Signal(9))
    };
    assert!(violations(&killed(20_000), ends_as_it_wants).is_empty());
    assert_eq!(violations(&killed(20_001), ends_as_it_wants).len(), 1);
}

#[test]
fn a_process_may_kill_itself() {
    let mut scripted = started().ended("p1", 3_000, ProcessOutcome::Signal(9));
    scripted.plan.setup.insert("process".into(), json!({ "p1": { "exit": "signal" } }));
    assert!(violations(&scripted, ends_as_it_wants).is_empty());
}

/// Adds a milestone of the client's product code.
pub(super) fn milestone(
    scripted: ScriptedRun,
    ms: u64,
    name: &'static str,
    fields: &[(&'static str, &str)],
) -> ScriptedRun {
    let value = |name: &str, text: &str| match text.parse() {
        Ok(number) if name == "conn" => MilestoneValue::Number(number),
        _ => MilestoneValue::Text(text.to_owned()),
    };
    let fields = fields.iter().map(|(name, text)| (*name, value(name, text))).collect();
    scripted.user(ms, EventKind::Milestone { name, fields })
}

fn refused(scripted: ScriptedRun, ms: u64) -> ScriptedRun {
    milestone(scripted, ms, "exec.client.read-refused", &[("process", "p1")])
}

fn process_failed(scripted: ScriptedRun, ms: u64, why: &str) -> ScriptedRun {
    milestone(scripted, ms, "exec.client.process-failed", &[("process", "p1"), ("why", why)])
}

#[test]
fn a_refused_read_fails_its_process_only_if_the_refusal_is_permanent() {
    let once = refused(history(), 1_000);
    let busy = "the server refused: too busy (-32603)";
    assert_eq!(
        violations(&process_failed(once.clone(), 1_000, busy), refusals_pass),
        ["p1: it failed after temporary refusals, 1 in a row (too busy (-32603); at 1.000 s)"]
    );
    let unknown = "the server refused: unknown process p1 (-32600)";
    assert!(violations(&process_failed(once.clone(), 1_000, unknown), refusals_pass).is_empty());
    assert!(violations(&process_failed(once, 1_000, "gap: 3 to 7"), refusals_pass).is_empty());
    let often = (0..6).fold(history(), |scripted, n| refused(scripted, 1_000 + n));
    assert!(
        violations(&process_failed(often, 2_000, busy), refusals_pass).is_empty(),
        "more often than it is repeated"
    );
}

#[test]
fn a_connected_client_asks_for_missing_events() {
    let connected = || milestone(history(), 100, "exec.client.connected", &[]);
    let held = || connected().gauge("client", 1_000, "held-back-events", 1);
    let late = [
        "client: the client has held back events since 1.000 s, and does not request the missing ones",
    ];
    assert_eq!(violations(&held(), gaps_are_requested), late, "to the end of the run");
    assert_eq!(violations(&held().effect(1, 3_001, "p2"), gaps_are_requested), late);
    let asked = milestone(held(), 2_000, "exec.client.live-gap", &[("process", "p1")]);
    assert!(violations(&asked, gaps_are_requested).is_empty());
    let more = asked.gauge("client", 2_100, "held-back-events", 2);
    assert!(violations(&more, gaps_are_requested).is_empty(), "the answer is on its way");
    let answered = milestone(more, 2_200, "exec.client.received", &[("id", "3")]);
    let again = answered.gauge("client", 2_300, "held-back-events", 3);
    assert_eq!(violations(&again, gaps_are_requested).len(), 1, "it was answered");
    let no_room =
        milestone(connected(), 1_000, "exec.client.reorder-overflow", &[("process", "p1")]);
    let no_room = no_room.gauge("client", 1_000, "held-back-events", 1);
    assert!(
        violations(&no_room, gaps_are_requested).is_empty(),
        "what has no room is asked for at once"
    );
    let full = milestone(connected(), 900, "exec.client.log-full", &[("process", "p1")]);
    let full = full.gauge("client", 1_000, "held-back-events", 1);
    assert!(violations(&full, gaps_are_requested).is_empty(), "it reads what it dropped");
    let lost = milestone(held(), 2_900, "exec.client.lost", &[]);
    assert!(violations(&lost, gaps_are_requested).is_empty());
    let dropped = held().gave_up(1, Some("p1"), 2_000);
    assert!(violations(&dropped, gaps_are_requested).is_empty(), "nobody wants it any more");
    let on_p1 = |scripted: ScriptedRun, call, verb| {
        scripted.asked_as(call, 900, Class::Durable, verb, r#"{"process":"p1"}"#)
    };
    let reading = on_p1(on_p1(on_p1(connected(), 2, "read"), 3, "read"), 4, "drop-handle").gave_up(
        4,
        Some("p1"),
        950,
    );
    let reading = reading.answered(4, 950, "dropped").gauge("client", 1_000, "held-back-events", 1);
    let once = reading.answered(2, 1_500, Answer::refused("too busy"));
    assert_eq!(violations(&once, gaps_are_requested), late, "a call on it goes on");
    let another = once
        .clone()
        .asked_as(5, 1_600, Class::Durable, "read", r#"{"process":"p2"}"#)
        .answered(5, 1_700, Answer::refused("too busy"));
    assert_eq!(violations(&another, gaps_are_requested), late, "a call on another one was over");
    assert!(
        violations(&once.answered(3, 2_000, Answer::refused("too busy")), gaps_are_requested)
            .is_empty(),
        "nobody waits for it any more"
    );
    let starting = connected().asked_as(1, 900, Class::InFlight, "start", r#"{"process":"p2"}"#);
    assert_eq!(
        violations(&starting.gauge("client", 1_000, "held-back-events", 1), gaps_are_requested),
        late,
        "of another process"
    );
    let asked = |call, ms, verb| {
        connected().asked_as(call, ms, Class::InFlight, verb, r#"{"process":"p1","patience":"1s"}"#)
    };
    let held = |scripted: ScriptedRun| scripted.gauge("client", 1_000, "held-back-events", 1);
    let unclaimed = held(asked(1, 900, "start")).answered(1, 1_900, Answer::GivenUp);
    assert!(violations(&unclaimed, gaps_are_requested).is_empty(), "nobody has the process");
    let write = held(asked(1, 900, "write")).answered(1, 1_900, Answer::GivenUp);
    assert_eq!(
        violations(&write, gaps_are_requested),
        late,
        "who gives up a write has the process"
    );
    let after = held(connected()).asked_as(1, 1_001, Class::InFlight, "start", "{}");
    let after = after.answered(1, 1_900, Answer::GivenUp);
    assert_eq!(violations(&after, gaps_are_requested), late, "it was held back before");
    let catching_up = history().gauge("client", 1_000, "held-back-events", 1);
    assert!(violations(&catching_up, gaps_are_requested).is_empty(), "a catch-up asks by itself");
}

#[test]
fn no_two_clients_use_the_same_id_for_a_write() {
    let writes = |scripted: ScriptedRun, ms, id| {
        milestone(scripted, ms, "exec.client.writes", &[("process", "p1"), ("write", id)])
    };
    let twice = writes(writes(history(), 1_000, "1"), 2_000, "1");
    assert!(violations(&twice, write_ids_are_own).is_empty(), "its own");
    let other = writes(writes(history(), 1_000, "1").by("client2"), 2_000, "1");
    assert_eq!(
        violations(&other, write_ids_are_own),
        ["client2: its write uses the id 1, which client has already used (at 2.000 s)"]
    );
    let reborn = writes(writes(history(), 1_000, "1").died("client", 1_500), 2_000, "1");
    assert_eq!(violations(&reborn, write_ids_are_own).len(), 1, "servers outlive it");
}

#[test]
fn a_peer_counts_as_silent_only_after_a_fault() {
    let silent = |scripted: ScriptedRun, ms| {
        milestone(scripted, ms, "exec.client.lost", &[("why", "silent")])
    };
    assert_eq!(
        violations(&silent(history(), 16_000), kept_while_healthy),
        [
            "exec.client.lost: a peer was treated as silent, although no fault blocked its data (at 16.000 s)"
        ]
    );
    assert!(
        violations(&silent(history().slows(1_000, 5_000), 22_000), kept_while_healthy).is_empty()
    );
    assert_eq!(
        violations(&silent(history().slows(1_000, 5_000), 22_001), kept_while_healthy).len(),
        1
    );
    assert!(
        violations(
            &milestone(history(), 500, "exec.client.lost", &[("why", "closed by the peer")]),
            kept_while_healthy
        )
        .is_empty()
    );
}

#[test]
fn an_attempt_is_given_up_only_after_a_fault() {
    let begun = |scripted: ScriptedRun, ms| milestone(scripted, ms, "exec.client.recovering", &[]);
    let given_up = |scripted: ScriptedRun, ms| {
        milestone(scripted, ms, "exec.client.attempt-failed", &[("why", "given up")])
    };
    let wrong =
        ["the client abandoned an attempt, although no fault delayed the response (at 9.000 s)"];
    // The server holds the answer for a while.
    let held = |scripted: ScriptedRun, ends| {
        given_up(begun(scripted, 2_500).by("server").slows(3_000, ends).by("client"), 9_000)
    };
    assert_eq!(
        violations(&held(history().kills(1_000, 2_000), 4_000), attempts_are_answered),
        wrong
    );
    let second = given_up(begun(history(), 1_000).kills(2_000, 3_000), 4_000);
    assert!(
        violations(&second, attempts_are_answered).is_empty(),
        "what it was waiting for may be dead"
    );
    assert_eq!(
        violations(&given_up(second, 9_000), attempts_are_answered),
        wrong,
        "the one after it"
    );
    assert!(violations(&held(history(), 8_900), attempts_are_answered).is_empty(), "just before");
    assert!(violations(&held(history(), 12_000), attempts_are_answered).is_empty(), "in force");
    assert!(
        violations(&held(history().kills(2_000, 3_500), 4_000), attempts_are_answered).is_empty(),
        "when it began"
    );
    let died = given_up(begun(history().kills(1_000, 2_000), 2_500).died("server", 4_000), 9_000);
    assert!(violations(&died, attempts_are_answered).is_empty());
    let refused = begun(history().kills(1_000, 2_000), 2_500);
    let refused =
        milestone(refused, 9_000, "exec.client.attempt-failed", &[("why", "no connection")]);
    assert!(violations(&refused, attempts_are_answered).is_empty());
    let much = begun(history().kills(1_000, 2_000), 2_500).produced(
        "p1/stdout",
        4_000,
        &"x".repeat(40 << 10),
    );
    assert!(
        violations(&given_up(much, 9_000), attempts_are_answered).is_empty(),
        "a catch-up with much output takes longer"
    );
}

#[test]
fn requests_of_a_connection_end_with_it() {
    let scripted =
        |over, end| history().conn(1, 0, over).by("server").upstream(1_000, end).by("client");
    assert!(violations(&scripted(Some(5_000), Some(5_500)), end_with_their_connection).is_empty());
    assert!(
        violations(&scripted(None, None), end_with_their_connection).is_empty(),
        "its connection lives"
    );
    let wrong =
        ["server#1 still exists, although every connection that could own it ended by 5.000 s"];
    assert_eq!(violations(&scripted(Some(5_000), Some(6_001)), end_with_their_connection), wrong);
    assert_eq!(violations(&scripted(Some(5_000), None), end_with_their_connection), wrong);
    let another = scripted(Some(5_000), None).conn(2, 500, None);
    assert!(violations(&another, end_with_their_connection).is_empty(), "it may be for that one");
    assert!(
        violations(&scripted(Some(5_000), None).died("server", 5_100), end_with_their_connection)
            .is_empty()
    );
}

#[test]
fn a_request_is_lost_with_a_connection_whose_end_its_client_notices_late() {
    let noticed =
        |scripted, ms, conn| milestone(scripted, ms, "exec.client.lost", &[("conn", conn)]);
    let scripted = |over, lost: Option<u64>| {
        let scripted = history().conn(1, 0, Some(over)).asked_as(
            2,
            1_100,
            Class::InFlight,
            "http-stream",
            r#"{"body":"w1"}"#,
        );
        let scripted = lost.into_iter().fold(scripted, |scripted, ms| noticed(scripted, ms, "1"));
        scripted.failed(2, 1_266, ExecFailure(Failure::ConnectionLost))
    };
    assert!(
        violations(&scripted(1_200, None), fail_truly).is_empty(),
        "it was over since the request"
    );
    assert!(
        violations(&scripted(1_000, Some(1_266)), fail_truly).is_empty(),
        "the client noticed the end since the request"
    );
    assert_eq!(violations(&scripted(1_000, None), fail_truly).len(), 1);
    assert_eq!(
        violations(&scripted(1_000, Some(1_099)), fail_truly).len(),
        1,
        "the client noticed the end before the request"
    );
    assert_eq!(violations(&scripted(5_000, Some(1_266)), fail_truly).len(), 1, "it was not over");
}

#[test]
fn a_process_fails_for_a_reason_that_is_true() {
    let gap = "gap: event 3 is no longer retained, but event 7 is";
    assert_eq!(
        violations(&process_failed(started(), 2_000, gap), processes_fail_truly),
        [format!("p1: it failed ({gap}), but this reason is false (at 2.000 s)")]
    );
    let tight = |scripted: ScriptedRun| {
        scripted.guarantees(|guarantees| guarantees.retention.items = Some(1)).produced(
            "p1/stdout",
            1_500,
            "b",
        )
    };
    assert!(
        violations(&process_failed(tight(started()), 2_000, gap), processes_fail_truly).is_empty()
    );
    let contradiction =
        process_failed(tight(started()), 2_000, "the server contradicts itself about the process");
    assert_eq!(violations(&contradiction, processes_fail_truly).len(), 1);
    let slow = started().failed_stream("p1", 2_000, ExecFailure(Failure::NotKept));
    assert_eq!(
        violations(&slow, processes_fail_truly),
        [
            "p1: it failed (the client no longer keeps the first event), but this reason is false (at 2.000 s)"
        ]
    );
    let refused =
        process_failed(started(), 2_000, "the server refused: unknown process p1 (-32600)");
    assert!(violations(&refused, processes_fail_truly).is_empty());
}

/// A connected client whose user wants to end its process at 2 s.
fn terminating() -> ScriptedRun {
    milestone(started(), 300, "exec.client.connected", &[]).asked_as(
        2,
        2_000,
        Class::InFlight,
        "terminate",
        r#"{"process":"p1"}"#,
    )
}

#[test]
fn a_request_is_answered_at_once() {
    let late = [
        "call 2: the request of 2.000 s was not answered by 3.080 s, although no fault and no other data delayed it",
    ];
    let answered = |ms| terminating().answered(2, ms, Answer::from("running: true"));
    assert!(violations(&answered(3_000), answers_are_prompt).is_empty());
    assert_eq!(violations(&answered(6_000), answers_are_prompt), late);
    assert_eq!(violations(&terminating(), answers_are_prompt), late, "it never is");
    let lost = milestone(terminating(), 2_100, "exec.client.lost", &[]);
    assert!(violations(&lost, answers_are_prompt).is_empty());
    let unconnected =
        started().asked_as(2, 2_000, Class::InFlight, "terminate", r#"{"process":"p1"}"#);
    assert!(violations(&unconnected, answers_are_prompt).is_empty());
}

#[test]
fn credentials_belong_to_one_origin() {
    let saw = EventKind::Observed {
        stream: "h1".into(),
        saw: ExecObservation::ForeignCredentials.into(),
    };
    let leaked = history().user(1_000, saw);
    assert_eq!(
        violations(&leaked, credentials_stay),
        ["h1: another origin received the credentials of the request (at 1.000 s)"]
    );
    assert!(violations(&leaked, super::in_sequence).is_empty());
    assert!(violations(&history(), credentials_stay).is_empty());
}

#[test]
fn a_request_has_the_method_that_its_user_demands() {
    let saw = EventKind::Observed { stream: "h1".into(), saw: ExecObservation::OtherMethod.into() };
    let changed = history().user(1_000, saw);
    assert_eq!(
        violations(&changed, methods_are_kept),
        ["h1: the request had another method than its user and the redirects demand (at 1.000 s)"]
    );
    assert!(violations(&changed, super::in_sequence).is_empty());
    assert!(violations(&changed, credentials_stay).is_empty());
}

#[test]
fn a_response_has_the_head_that_the_http_server_sent() {
    let saw = EventKind::Observed { stream: "h1".into(), saw: ExecObservation::OtherHead.into() };
    let changed = history().user(1_000, saw);
    assert_eq!(
        violations(&changed, responses_are_true),
        ["h1: the response had another status or length than the HTTP server sent (at 1.000 s)"]
    );
    assert!(violations(&changed, super::in_sequence).is_empty());
    assert!(violations(&history(), responses_are_true).is_empty());
}

#[test]
fn a_request_is_redirected_at_most_ten_times() {
    let asked = history().asked_as(1, 0, Class::InFlight, "http", r#"{"body":"b1"}"#);
    let hops = |count: u64| {
        (0..count).fold(asked.clone(), |run, n| run.by("server").upstream(1_000 + n, None))
    };
    assert!(violations(&hops(11), redirects_end).is_empty());
    assert_eq!(
        violations(&hops(12), redirects_end),
        ["server#1 is one connection too many for 1 HTTP requests: more than 11 (at 1.011 s)"]
    );
}

// -- shares ---------------------------------------------------------------------------------------

#[test]
fn a_write_after_the_exit_that_its_user_received_is_not_accepted() {
    let write = |scripted: ScriptedRun, ms| {
        scripted.asked_as(2, ms, Class::Durable, "write", r#"{"process":"p1"}"#).answered(
            2,
            2_500,
            Answer::queued("accepted"),
        )
    };
    let exited = |scripted: ScriptedRun| {
        let saw = ExecObservation::ExitAt(2).into();
        scripted.user(2_000, EventKind::Observed { stream: "p1".into(), saw })
    };
    assert_eq!(
        violations(&write(exited(started()), 2_001), writes_have_a_reader),
        [
            "call 2: the write was accepted, although its user had already received the exit of the process (at 2.500 s)"
        ]
    );
    let in_flight = started().asked_as(2, 1_999, Class::Durable, "write", r#"{"process":"p1"}"#);
    let crossed = exited(in_flight).answered(2, 2_500, Answer::queued("accepted"));
    assert!(violations(&crossed, writes_have_a_reader).is_empty(), "they may cross");
    let again = write(
        exited(started()).asked_as(3, 2_001, Class::InFlight, "start", r#"{"process":"p1"}"#),
        2_400,
    );
    assert!(violations(&again, writes_have_a_reader).is_empty(), "another process");
}

#[test]
fn a_host_gets_its_share_of_the_sessions() {
    let refused = || {
        let fields = [("conn", MilestoneValue::Number(1))].into();
        let what = EventKind::Milestone { name: "exec.server.refused-full", fields };
        history().conn(1, 0, None).entry(40, None, what)
    };
    assert_eq!(
        violations(&refused(), sessions_are_shared),
        [
            "client: the server refused a session for lack of room, although the host had opened only 0 (at 0.040 s)"
        ]
    );
    assert!(violations(&refused().puppet("server"), sessions_are_shared).is_empty());
}

// -- catch-ups ------------------------------------------------------------------------------------

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
