//! Tests of the client's repairs: refused reads, gaps, ids of writes, and failed processes.

use super::super::repair::{
    gaps_are_requested, processes_fail_truly, refusals_pass, write_ids_are_own,
};
use super::{milestone, started, violations};
use crate::history::{Answer, Class};
use crate::property::scripted::{ScriptedRun, history};
use crate::subjects::exec::answers::ExecFailure;
use reknit_exec::client::Failure;

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
    let page = |name| {
        let answered = milestone(connected(), 1_000, "exec.client.received", &[("id", "2")]);
        let page = milestone(answered, 1_000, name, &[("process", "p1")]);
        page.gauge("client", 1_000, "held-back-events", 1)
    };
    let paged = page("exec.client.page");
    assert!(violations(&paged, gaps_are_requested).is_empty(), "the next read is on its way");
    let other = page("exec.client.log-has-room");
    assert_eq!(violations(&other, gaps_are_requested).len(), 1, "it was no page");
    let rest = milestone(paged, 1_100, "exec.client.received", &[("id", "3")]);
    let behind = rest.gauge("client", 1_200, "held-back-events", 2);
    assert_eq!(violations(&behind, gaps_are_requested).len(), 1, "the pages were over");
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

/// Events are held back over a connection whose catch-up took so long. A client waits 10 s for all answers.
fn held_after_a_catch_up(scripted: ScriptedRun, began: u64, takes: u64) -> ScriptedRun {
    let begun = milestone(scripted, began, "exec.client.initialized", &[]);
    let caught_up = milestone(begun, began + takes, "exec.client.caught-up", &[]);
    let installed = milestone(caught_up, began + takes, "exec.client.connected", &[]);
    let answered = milestone(installed, began + takes + 50, "exec.client.received", &[]);
    answered.gauge("client", began + takes + 100, "held-back-events", 1)
}

#[test]
fn reads_of_a_catch_up_that_outlasts_the_installation_are_still_in_flight() {
    let found = |scripted: &ScriptedRun| violations(scripted, gaps_are_requested).len();
    let outlasted = held_after_a_catch_up(history(), 100, 10_000);
    assert_eq!(found(&outlasted), 0);
    assert_eq!(found(&held_after_a_catch_up(history(), 100, 9_999)), 1, "all had answered");
    let lost = milestone(outlasted.clone(), 11_000, "exec.client.lost", &[]);
    assert_eq!(found(&held_after_a_catch_up(lost, 12_000, 100)), 1, "the next one was complete");
    let other = held_after_a_catch_up(outlasted.by("client2"), 12_000, 100);
    let gauge = other.gauge("client2", 12_300, "held-back-events", 1);
    assert_eq!(found(&gauge), 1, "another client");
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

#[test]
fn a_gap_is_true_only_of_output_of_its_own_process_that_its_user_missed() {
    let gap = "gap: event 3 is no longer retained, but event 7 is";
    let printed =
        |stream: &str| (0..11).fold(started(), |run, line| run.produced(stream, 1_100 + line, "x"));
    let found = |run| violations(&process_failed(run, 2_000, gap), processes_fail_truly).len();
    assert_eq!((found(printed("p1/stdout")), found(printed("p2/stdout"))), (0, 1));
    let received = |text: &str| printed("p1/stdout").delivered("p1/stdout", 1_200, text);
    assert_eq!((found(received("a")), found(received("ax"))), (0, 1), "it retains 10 items");
    // A client that died knew another process with this id.
    let reborn = printed("p1/stdout").died("client", 1_300).started("client", 1_400);
    assert_eq!(found(reborn), 1);
}
