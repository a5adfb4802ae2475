//! Tests of `one_client_works`.

use super::super::works::one_client_works;
use super::*;
use crate::subjects::turn::app_server::RUNS_ON;

/// The app-server refuses an interrupt, and then starts the turn of another client.
#[test]
fn a_client_stays_if_the_app_server_refuses_an_interrupt_by_hand() {
    let begins = |turn: &str| TurnNote::Started { turn: turn.into(), thread: "thread-1".into() };
    let refused = |ms| {
        let run = notes(asked("broker"), 2_000, begins("turn-1"));
        notes(run, ms, TurnNote::InterruptRefused)
    };
    let by_hand = |run: ScriptedRun, why: &str| {
        let turn = json!({ "turn": "t1" }).to_string();
        let run = run.asked_as(9, 3_000, Class::InFlight, "interrupt", &turn);
        run.answered(9, 3_020, Answer::refused(why.to_owned()))
    };
    let beside = |run: ScriptedRun| {
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        let run = run.by("client2").asked_as(2, 5_000, Class::InFlight, "task", &other);
        let saw = begins("turn-2").into();
        run.user(5_100, EventKind::Observed { stream: "t2-2".into(), saw })
    };
    let why = format!("{RUNS_ON} (code -32600)");
    let one = beside(by_hand(refused(3_010), &why));
    breaks(&one, one_client_works, "while that of call 1 ran");
    // Any other refusal may be that of an interrupt of the client, which then leaves.
    holds(&beside(refused(3_010)), one_client_works);
    holds(&beside(by_hand(refused(3_021), &why)), one_client_works);
    holds(&beside(by_hand(refused(3_010), "no such turn (code -32600)")), one_client_works);
    let two = notes(refused(3_010), 3_010, TurnNote::InterruptRefused);
    holds(&beside(by_hand(two, &why)), one_client_works);
}

/// The history tells the order of two starts in the same millisecond, not the order of the calls.
#[test]
fn turns_that_start_in_one_millisecond_have_an_order() {
    let other = json!({ "turn": "t2", "route": "broker" }).to_string();
    let both = || asked("broker").by("client2").asked_as(2, 1_000, Class::InFlight, "task", &other);
    let first = |run: ScriptedRun, ms: u64, note: TurnNote| {
        run.by("client").user(ms, EventKind::Observed { stream: "t1-1".into(), saw: note.into() })
    };
    let second = |run: ScriptedRun, ms: u64, note: TurnNote| {
        run.by("client2").user(ms, EventKind::Observed { stream: "t2-2".into(), saw: note.into() })
    };
    let ended = || TurnNote::Reported(Reported::Completed);
    let swapped = |ms: u64| {
        let run = second(both(), 5_000, begins("turn-2"));
        first(second(run, ms, ended()), 5_000, begins("turn-1"))
    };
    holds(&swapped(5_000), one_client_works);
    breaks(&swapped(5_001), one_client_works, "while that of call 2 ran");
    let run = second(first(both(), 5_000, begins("turn-1")), 5_000, begins("turn-2"));
    breaks(&second(run, 5_000, ended()), one_client_works, "while that of call 1 ran");
}

/// A client infers its end 250 ms after the final answer, or after the end of the work of which it knows.
#[test]
fn a_client_stays_while_it_knows_of_open_work() {
    let works = |from: u64, to: Option<u64>| {
        let run = notes(notes(asked("broker"), 2_000, begins("turn-1")), from, TurnNote::Works);
        let run = notes(run, 3_000, TurnNote::Answered { is_final: true });
        let run = match to {
            Some(to) => notes(run, to, TurnNote::Rests),
            None => run,
        };
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        let run = run.by("client2").asked_as(2, 5_000, Class::InFlight, "task", &other);
        let saw = begins("turn-2").into();
        run.user(5_100, EventKind::Observed { stream: "t2-2".into(), saw })
    };
    let beside = "while that of call 1 ran";
    breaks(&works(2_500, None), one_client_works, beside);
    holds(&works(2_500, Some(4_850)), one_client_works);
    breaks(&works(2_500, Some(4_851)), one_client_works, beside);
    // Its client may follow too few threads, and the broker may hold too little news.
    let with = |name: &'static str, value: LimitValue| {
        let mut run = works(2_500, None);
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "subagents": 1 } }));
        run.plan.limits.set(name, value);
        run
    };
    holds(&with("client.threads", LimitValue::Count(1)), one_client_works);
    breaks(&with("client.threads", LimitValue::Count(2)), one_client_works, beside);
    holds(&with("connection.outbox-bytes", LimitValue::Bytes(64 << 10)), one_client_works);
    // The news of the work may come when the client has inferred the end.
    holds(&works(3_200, None), one_client_works);
    breaks(&works(3_199, None), one_client_works, beside);
}
