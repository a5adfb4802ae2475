//! Tests of `start_is_prompt`, `ending_is_prompt` and `ends_in_order`.

use super::super::endings::{ending_is_prompt, ends_in_order};
use super::super::starts::start_is_prompt;
use super::*;
use crate::subjects::turn::notes::AppServerNote;

/// The broker tries for four seconds to interrupt the subagent of a turn whose client is gone.
#[test]
fn a_start_waits_for_a_subagent_only_while_the_broker_tries_to_interrupt_it() {
    let start = |ms: u64| {
        let mut run = notes(asked("broker"), 1_100, begins("turn-1"));
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "subagents": 1 } }));
        let run = notes(notes(run, 2_500, TurnNote::Interrupted), 2_500, TurnNote::Gone);
        let saw = AppServerNote::Initialized.into();
        let what = EventKind::Observed { stream: "codex@broker-codex".into(), saw };
        let run = run.entry(100, Some("broker"), what).answered(1, 2_500, Answer::GivenUp);
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        run.asked_as(2, ms, Class::InFlight, "task", &other)
    };
    holds(&start(12_500), start_is_prompt);
    breaks(&start(12_501), start_is_prompt, "its turn had not started");
}

/// The time of a turn, that of two interrupts, and that of the end of an app-server.
#[test]
fn a_turn_that_takes_too_long_has_a_verdict_in_time() {
    let ends = |ms: u64, start: &str| {
        let mut run = started();
        run.plan.limits.set("client.absolute", LimitValue::secs(20));
        run.plan.limits.set("connection.request", LimitValue::secs(2));
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "start": start } }));
        run.answered(1, ms, failed(0))
    };
    holds(&ends(47_150, "answered"), ending_is_prompt);
    breaks(&ends(47_151, "answered"), ending_is_prompt, "took longer than a turn may take");
    // The command may have asked for the turn again.
    holds(&ends(47_151, "unanswered"), ending_is_prompt);
    let again = notes(ends(47_151, "answered"), 3_000, begins("turn-2"));
    holds(&again, ending_is_prompt);
}

/// The time counts from the last request for the turn: the command asks again while the broker is busy.
#[test]
fn a_start_without_an_answer_ends_in_time() {
    let ends = |starts: &[u64]| {
        let mut run = notes(asked("broker"), 1_500, TurnNote::Thread("thread-1".into()));
        run.plan.limits.set("connection.request", LimitValue::secs(2));
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "start": "silent" } }));
        let start =
            json!({ "id": 7, "method": "turn/start", "params": { "threadId": "thread-1" } });
        let run = starts.iter().fold(run, |run, ms| gets(run, *ms, &start));
        run.answered(1, 30_000, failed(0))
    };
    breaks(&ends(&[1_500]), ending_is_prompt, "done with the turn at 1.500 s");
    holds(&ends(&[1_500, 9_000]), ending_is_prompt);
    holds(&ends(&[]), ending_is_prompt);
}

/// The broker passes an unreadable line of a turn that its client has left to the client that works now. So the time
/// without news of that client begins again.
#[test]
fn an_unreadable_line_of_another_turn_ends_a_silence() {
    let silent = |noise: &str, over: u64| {
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        let mut run = asked("broker").asked_as(2, 1_000, Class::InFlight, "task", &other);
        run.plan.limits.set("client.idle", LimitValue::secs(3));
        run.plan.limits.set("client.absolute", LimitValue::secs(20));
        let turns =
            json!({ "t1": { "answer": "none", "end": "omitted" }, "t2": { "noise": noise } });
        run.plan.setup.insert(TABLE.into(), turns);
        let of_other = |run: ScriptedRun, ms: u64, note: TurnNote| {
            run.user(ms, EventKind::Observed { stream: "t2-2".into(), saw: note.into() })
        };
        let run = of_other(run, 2_000, begins("turn-2"));
        let run = of_other(run, over, TurnNote::Gone).answered(2, over, failed(0));
        let run = notes(notes(run, 2_000, begins("turn-1")), 5_000, TurnNote::Left);
        run.answered(1, 30_000, failed(0))
    };
    breaks(&silent("none", 9_000), ending_is_prompt, "done with the turn at 5.000 s");
    breaks(&silent("line", 4_999), ending_is_prompt, "done with the turn at 5.000 s");
    holds(&silent("line", 5_000), ending_is_prompt);
}

#[test]
fn an_app_server_that_ends_in_time_gets_no_signal() {
    let signalled = |note: AppServerNote, setup: Value| {
        let saw = note.into();
        let what = EventKind::Observed { stream: "codex@client-codex".into(), saw };
        let mut run = history().user(5_000, what);
        run.plan.limits.set("connection.terminate", LimitValue::secs(1));
        run.plan.setup.insert(APP_SERVERS.into(), json!({ "client": setup }));
        run
    };
    let killed = |takes: &str| {
        let setup = json!({ "outlives-input": true, "terminate-takes": takes });
        signalled(AppServerNote::Killed, setup)
    };
    breaks(&killed("989ms"), ends_in_order, "was killed");
    holds(&killed("990ms"), ends_in_order);
    // An app-server has 50 ms after the end of its input.
    let hurried = |takes: &str| signalled(AppServerNote::Hurried, json!({ "input-takes": takes }));
    breaks(&hurried("39ms"), ends_in_order, "got SIGTERM");
    holds(&hurried("40ms"), ends_in_order);
}
