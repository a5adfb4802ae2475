//! Tests of `interrupts_have_a_cause` and `abandoned_is_interrupted`.

use super::super::endings::abandoned_is_interrupted;
use super::super::interrupts::interrupts_have_a_cause;
use super::*;
use crate::schedule::MilestoneValue;

#[test]
fn too_much_text_excuses_only_what_follows_it() {
    let interrupted = || notes(started(), 5_000, TurnNote::Interrupted);
    let too_much = |ms| notes(interrupted(), ms, TurnNote::TooMuch);
    breaks(&interrupted(), interrupts_have_a_cause, "no deadline was near");
    breaks(&too_much(5_001), interrupts_have_a_cause, "no deadline was near");
    holds(&too_much(5_000), interrupts_have_a_cause);
}

#[test]
fn an_interrupt_names_the_thread_of_its_turn() {
    holds(&started(), interrupts_have_a_cause);
    let elsewhere = notes(started(), 5_000, TurnNote::InterruptedElsewhere);
    breaks(&elsewhere, interrupts_have_a_cause, "named another thread");
}

#[test]
fn a_subagent_whose_client_is_gone_is_interrupted_in_time() {
    let works = |ms: u64| {
        let begins = begins("turn-broker-codex-2");
        let mut run = notes(notes(asked("broker"), 2_000, begins), ms, TurnNote::Works);
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "subagents": 1 } }));
        run.answered(1, 3_000, Answer::GivenUp)
    };
    let interrupted = |ms: u64, thread: &str| {
        let params = json!({ "threadId": thread, "turnId": "turn-broker-codex-2-sub-1" });
        let interrupt = json!({ "id": 7, "method": "turn/interrupt", "params": params });
        gets(works(2_500), ms, &interrupt)
    };
    let spared = "no interrupt named turn-broker-codex-2-agent-1";
    breaks(&works(2_949), abandoned_is_interrupted, spared);
    // The broker may not have known of it.
    holds(&works(2_950), abandoned_is_interrupted);
    holds(&interrupted(6_050, "turn-broker-codex-2-agent-1"), abandoned_is_interrupted);
    breaks(&interrupted(6_051, "turn-broker-codex-2-agent-1"), abandoned_is_interrupted, spared);
    breaks(&interrupted(3_000, "thread-1"), abandoned_is_interrupted, spared);
    holds(&notes(works(2_500), 6_050, TurnNote::Rests), abandoned_is_interrupted);
    breaks(&notes(works(2_500), 6_051, TurnNote::Rests), abandoned_is_interrupted, spared);
}

/// The broker passes an interrupt at once, also while it holds the start of the turn back.
#[test]
fn a_client_that_gives_up_may_interrupt_its_turn_before_the_broker_sends_the_start() {
    let given_up = |ms: u64, thread: &str, turn: &str| {
        let params = json!({ "threadId": thread, "turnId": turn });
        let interrupt = json!({ "id": 7, "method": "turn/interrupt", "params": params });
        let mut run = gets(asked("broker"), ms, &interrupt);
        run.plan.limits.set("client.interrupt", LimitValue::secs(2));
        let run = notes(notes(run, 5_000, begins("turn-1")), 5_000, TurnNote::Named);
        let fields = [("thread", MilestoneValue::Text("thread-1".into()))].into();
        let verdict = EventKind::Milestone { name: "turn.client.verdict", fields };
        run.user(6_900, verdict).answered(1, 7_000, failed(0))
    };
    let not_interrupted = "did not interrupt it";
    holds(&given_up(4_899, "thread-1", ""), abandoned_is_interrupted);
    holds(&given_up(5_000, "thread-1", ""), abandoned_is_interrupted);
    // An interrupt of another client, before this one gave up.
    breaks(&given_up(4_898, "thread-1", ""), abandoned_is_interrupted, not_interrupted);
    // It hits the abandoned turn, which the client does not know.
    holds(&given_up(6_900, "thread-1", ""), abandoned_is_interrupted);
    breaks(&given_up(6_901, "thread-1", ""), abandoned_is_interrupted, not_interrupted);
    breaks(&given_up(4_900, "thread-2", ""), abandoned_is_interrupted, not_interrupted);
    breaks(&given_up(4_900, "thread-1", "turn-2"), abandoned_is_interrupted, not_interrupted);
}

#[test]
fn a_turn_that_begins_without_its_client_is_interrupted() {
    let begun = |ms: u64, interrupted: u64| {
        let turn = json!({ "turn": "t1" }).to_string();
        let mut run = notes(asked("broker"), 1_100, TurnNote::Named);
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "queued": "2s" } }));
        let run = run.asked_as(9, 2_000, Class::InFlight, "abandon", &turn);
        let run = run.answered(1, 2_000, Answer::GivenUp);
        let run = notes(run, 2_010, TurnNote::InterruptRefused);
        let run = notes(run, ms, begins("turn-broker-codex-2"));
        notes(notes(run, interrupted, TurnNote::Interrupted), 20_000, TurnNote::Gone)
    };
    let spared = "no interrupt of it arrived";
    holds(&begun(3_100, 6_150), abandoned_is_interrupted);
    breaks(&begun(3_100, 6_151), abandoned_is_interrupted, spared);
    // The broker may still have known its client.
    holds(&begun(2_050, 6_151), abandoned_is_interrupted);
    breaks(&begun(2_051, 6_151), abandoned_is_interrupted, spared);
    let inner = |mut run: ScriptedRun| {
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "queued": "2s", "inner": true } }));
        run
    };
    holds(&inner(begun(3_100, 6_150)), abandoned_is_interrupted);
    breaks(&inner(begun(3_100, 6_151)), abandoned_is_interrupted, spared);
}

#[test]
fn a_turn_that_is_named_after_its_client_has_gone_is_interrupted() {
    let named = |ms: u64| {
        let run = notes(asked("broker"), 2_000, begins("turn-broker-1"));
        notes(run.answered(1, 3_000, failed(0)), ms, TurnNote::Named)
    };
    let asked = "no interrupt of it arrived";
    breaks(&named(9_000), abandoned_is_interrupted, asked);
    holds(&notes(named(9_000), 9_001, TurnNote::Interrupted), abandoned_is_interrupted);
    holds(&notes(named(9_000), 9_500, TurnNote::Gone), abandoned_is_interrupted);
    breaks(&notes(named(9_000), 13_000, TurnNote::Gone), abandoned_is_interrupted, asked);
    // The client knew the turn.
    holds(&named(3_000), abandoned_is_interrupted);
}
