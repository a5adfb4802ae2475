//! Tests of `no_thread_is_left`.

use super::super::threads::no_thread_is_left;
use super::*;
use crate::subjects::turn::notes::{BrokerExited, ThreadNote};

#[test]
fn a_cancelled_command_leaves_its_thread_only_to_a_broker_that_deletes_none() {
    let cancelled = |route: &str| {
        let run = notes(asked(route), 1_500, TurnNote::Thread("thread-1".into()));
        let turn = json!({ "turn": "t1" }).to_string();
        run.asked_as(9, 2_000, Class::InFlight, "cancel", &turn)
    };
    let leaves = |run: ScriptedRun| {
        let why = ClientError::Cancelled { left_behind: Some("thread-1".into()) };
        run.answered(1, 2_100, Answer::refused(SeenRefusal(why)))
    };
    let beside = |run: ScriptedRun| {
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        run.asked_as(2, 2_050, Class::InFlight, "task", &other)
    };
    let exits = |run: ScriptedRun| {
        let saw = BrokerExited(1).into();
        run.entry(2_050, Some("broker"), EventKind::Observed { stream: "broker".into(), saw })
    };
    breaks(&leaves(cancelled("broker")), no_thread_is_left, "left thread-1 behind");
    breaks(&leaves(beside(cancelled("direct"))), no_thread_is_left, "left thread-1 behind");
    holds(&leaves(beside(cancelled("broker"))), no_thread_is_left);
    holds(&leaves(exits(cancelled("broker"))), no_thread_is_left);
}

#[test]
fn a_command_whose_thread_is_unknown_does_not_move() {
    let moved = |note: Option<ThreadNote>| {
        let begins = TurnNote::Started {
            turn: "turn-client-codex-2".into(),
            thread: "thread-client-codex-1".into(),
        };
        let mut run = notes(asked("broker-or-direct"), 2_000, begins);
        let setup = json!({ "broker": { "threads": "omitted" } });
        run.plan.setup.insert(APP_SERVERS.into(), setup);
        let made = ThreadNote::Made("thread-broker-codex-1".into());
        [Some(made), note].into_iter().flatten().fold(run, |run, note| {
            let saw = note.into();
            let what = EventKind::Observed { stream: "codex@broker-codex".into(), saw };
            run.entry(1_500, Some("broker"), what)
        })
    };
    let beside = |ms: u64| {
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        moved(None).by("client2").asked_as(2, ms, Class::InFlight, "task", &other)
    };
    let left = "which was made at";
    breaks(&moved(None), no_thread_is_left, left);
    let settled = ThreadNote::Settled("thread-broker-codex-1".into());
    holds(&moved(Some(settled)), no_thread_is_left);
    // The thread may be that of another command.
    holds(&beside(1_500), no_thread_is_left);
    breaks(&beside(1_501), no_thread_is_left, left);
    let has = |thread: &str| {
        let saw = TurnNote::Thread(thread.into()).into();
        beside(1_500).user(1_600, EventKind::Observed { stream: "t2-2".into(), saw })
    };
    breaks(&has("thread-broker-codex-9"), no_thread_is_left, left);
    holds(&has("thread-broker-codex-1"), no_thread_is_left);
}
