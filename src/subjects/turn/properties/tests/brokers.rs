//! Tests of `broker_lets_go` and `news_stay_private`.

use super::super::works::{broker_lets_go, news_stay_private};
use super::*;
use crate::history::Call;
use crate::subjects::turn::notes::{BrokerCounted, Heard};
use reknit_turn::broker::BrokerCounts;

#[test]
fn a_broker_drops_the_news_that_nothing_can_claim_any_more() {
    let held = |ms: u64, start: &str| {
        let mut run = notes(asked("broker"), 2_000, begins("turn-broker-codex-2"));
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "start": start } }));
        let run = run.answered(1, 3_000, Answer::GivenUp);
        [(4_000, 9), (ms, 0)].into_iter().fold(run, |run, (ms, unclaimed_bytes)| {
            let counts = BrokerCounts { unclaimed_bytes, ..BrokerCounts::default() };
            let saw = BrokerCounted::data(counts);
            let what = EventKind::Observed { stream: "broker".into(), saw };
            run.entry(ms, Some("broker"), what)
        })
    };
    // The counts are read each second. The broker has 244 s for a start and the end of its turn.
    holds(&held(245_000, "answered"), broker_lets_go);
    breaks(&held(245_001, "answered"), broker_lets_go, "9 bytes of news without an owner");
    // The late answer to the start may claim the news.
    holds(&held(245_001, "unanswered"), broker_lets_go);
    let speaks = held(245_001, "answered").asked_as(2, 2_500, Class::InFlight, "speak", "{}");
    holds(&speaks, broker_lets_go);
}

#[test]
fn a_broker_holds_no_more_than_its_limits() {
    let held = |clients: usize| {
        let mut run = history();
        run.plan.limits.set("broker.clients", LimitValue::Count(2));
        [(4_000, clients), (4_500, 0)].into_iter().fold(run, |run, (ms, clients)| {
            let saw = BrokerCounted::data(BrokerCounts { clients, ..BrokerCounts::default() });
            let what = EventKind::Observed { stream: "broker".into(), saw };
            run.entry(ms, Some("broker"), what)
        })
    };
    holds(&held(2), broker_lets_go);
    breaks(&held(3), broker_lets_go, "the broker held 3 clients, but its limit is 2");
}

#[test]
fn the_news_of_a_thread_reach_no_other_command() {
    let heard = |call: u64, ms: u64, thread: &str| {
        let run = notes(asked("broker"), 2_000, begins("turn-1"));
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        let run = run.asked_as(2, 1_500, Class::InFlight, "task", &other);
        let (stream, saw) = (Heard::stream(Call(call)), Heard(thread.to_owned()).into());
        run.user(ms, EventKind::Observed { stream, saw })
    };
    breaks(&heard(2, 2_000, "thread-1"), news_stay_private, "the thread of call 1");
    holds(&heard(1, 2_000, "thread-1"), news_stay_private);
    breaks(&heard(2, 1_999, "thread-1"), news_stay_private, "the thread of call 1");
    holds(&heard(2, 2_000, "thread-2"), news_stay_private);
    let mut few = heard(2, 2_000, "thread-1");
    few.plan.limits.set("broker.threads", LimitValue::Count(1));
    holds(&few, news_stay_private);
}

#[test]
fn the_news_of_a_subagent_reach_no_other_command() {
    let base = |ms: u64| {
        let run = notes(asked("broker"), 2_000, begins("turn-broker-codex-2"));
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        let run = run.asked_as(2, 3_000, Class::InFlight, "task", &other);
        let saw = Heard("turn-broker-codex-2-agent-1".into()).into();
        run.user(ms, EventKind::Observed { stream: Heard::stream(Call(2)), saw })
    };
    let turn = json!({ "turn": "t1" }).to_string();
    let abandoned = |ms: u64| base(ms).asked_as(3, 2_500, Class::InFlight, "abandon", &turn);
    breaks(&base(4_000), news_stay_private, "a subagent of call 1");
    breaks(&abandoned(4_000), news_stay_private, "a subagent of call 1");
    // The broker waits for 30 s for the end of an abandoned turn.
    holds(&abandoned(32_500), news_stay_private);
    // The turn is over, or it is the client's own, or one on the same thread.
    holds(&notes(base(4_000), 4_000, TurnNote::Gone), news_stay_private);
    let own = |turn: &str, thread: &str| {
        let begun = TurnNote::Started { turn: turn.into(), thread: thread.into() };
        base(4_000).user(3_500, EventKind::Observed { stream: "t2-2".into(), saw: begun.into() })
    };
    breaks(&own("turn-broker-codex-4", "thread-4"), news_stay_private, "a subagent of call 1");
    holds(&own("turn-broker-codex-2", "thread-4"), news_stay_private);
    holds(&own("turn-broker-codex-4", "thread-1"), news_stay_private);
    // The broker does not know the id of the turn.
    let mut unnamed = base(4_000);
    unnamed.plan.setup.insert(TABLE.into(), json!({ "t1": { "start": "unnamed" } }));
    holds(&unnamed, news_stay_private);
}

#[test]
fn a_broker_knows_the_turn_of_each_late_start() {
    let held = |late_starts: usize| {
        let counts = BrokerCounts { late_starts, finished_turns: 1, ..BrokerCounts::default() };
        let saw = BrokerCounted::data(counts);
        let what = EventKind::Observed { stream: "broker".into(), saw };
        history().entry(4_000, Some("broker"), what)
    };
    holds(&held(1), broker_lets_go);
    breaks(&held(2), broker_lets_go, "the broker held 2 late starts, but its limit is 1");
}
