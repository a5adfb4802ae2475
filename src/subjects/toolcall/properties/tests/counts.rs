//! Tests of `counts_are_true`: the bounds of the counts, and what widens them.

use super::super::counts::counts_are_true;
use super::*;
use crate::history::{ConnIndex, Side};

/// The client has a connection until this time, and the counts are true until then.
fn connected_until(over: Option<u64>) -> ScriptedRun {
    let conn = ConnIndex(0);
    let run = here_until(over);
    let run = run.entry(15, Some("server"), EventKind::ConnUp { conn, side: Side::Server });
    milestone(run, 40, "client", "toolcall.client.connected", &[])
        .gauge("server", 40, "connections", 1)
        .gauge("server", 40, "clients", 1)
        .gauge("server", 40, "subscriptions", 2)
        .gauge("client", 40, "channels", 2)
}

/// A run with true counts. It ends at 20 s.
fn connected() -> ScriptedRun {
    connected_until(None).end(20_000)
}

/// The connection ended at 10 s.
fn away() -> ScriptedRun {
    let run = connected_until(Some(10_000)).gauge("server", 10_000, "connections", 0);
    let run = run.gauge("server", 10_000, "subscriptions", 0);
    milestone(run, 10_000, "client", "toolcall.client.lost", &[])
}

/// The run breaks the property once, with a sentence that begins like this.
#[track_caller]
fn breaks(run: &ScriptedRun, begin: &str) {
    let found = violations(run, counts_are_true);
    assert!(found.len() == 1 && found[0].starts_with(begin), "{begin}: {found:?}");
}

#[test]
fn a_reloaded_window_subscribes_again() {
    let counted = |verb: &str| {
        let run = connected().asked_as(2, 10_000, Class::Durable, verb, "{}");
        let run = ["c1", "s1"]
            .into_iter()
            .fold(run, |run, channel| saw(run, 10_000, "client", channel, "unsubscribed"));
        let run = run.gauge("client", 10_000, "channels", 0);
        run.gauge("server", 10_100, "subscriptions", 4)
    };
    holds(&counted("reload"), counts_are_true);
    let begin = "server: `subscriptions` is 4, but at most 3 can be open";
    breaks(&counted("leave"), begin);
}

/// A later fault holds the news.
#[test]
fn a_removed_channel_has_no_subscription() {
    let removed = |channel: &str| {
        let saw = Data::of(OfChannel::Deleted);
        let event = EventKind::Observed { stream: channel.into(), saw };
        let run = connected().entry(10_000, Some("server"), event);
        run.gauge("server", 10_000, "subscriptions", 1)
    };
    holds(&removed("c1"), counts_are_true);
    let begin = "server: `subscriptions` is 1, but at least 2 must be open";
    breaks(&removed("c9"), begin);
}

/// A host has this count from 10 s on.
fn counts(host: &str, name: &'static str, value: u64) -> ScriptedRun {
    connected().gauge(host, 10_000, name, value)
}

#[test]
fn true_counts_hold() {
    holds(&connected(), counts_are_true);
    holds(&away().end(20_000), counts_are_true);
}

#[test]
fn each_count_of_a_host_has_its_bounds() {
    let is = |name, value| counts("server", name, value);
    breaks(&is("connections", 2), "server: `connections` is 2, but at most 1 can be open");
    breaks(&is("connections", 0), "server: `connections` is 0, but at least 1 must be open");
    breaks(&is("clients", 2), "server: `clients` is 2, but at most 1 can be open");
    breaks(&is("clients", 0), "server: `clients` is 0, but at least 1 must be open");
    breaks(&is("subscriptions", 1), "server: `subscriptions` is 1, but at least 2 must be open");
    holds(&is("subscriptions", 3), counts_are_true);
    breaks(&is("subscriptions", 4), "server: `subscriptions` is 4, but at most 3 can be open");
    breaks(&is("chats", 2), "server: `chats` is 2, but at most 1 can be open");
    breaks(&is("turns", 1), "server: `turns` is 1, but at most 0 can be open");
    holds(&is("outcomes", 256), counts_are_true);
    breaks(&is("outcomes", 257), "server: `outcomes` is 257, but at most 256 can be open");
}

#[test]
fn an_absent_client_is_known_for_its_retention() {
    let retained = 10_000 + 300_000;
    holds(&away().end(retained), counts_are_true);
    breaks(&away().end(retained + 5_000), "server: `clients` is 1, but at most 0 can be open");
    let forgotten = away().gauge("server", 20_000, "clients", 0).end(retained - 10_000);
    breaks(&forgotten, "server: `clients` is 0, but at least 1 must be open");
}

#[test]
fn a_turn_counts_while_its_agent_works() {
    let saw = Data::of(OfChannel::TurnBegan("t1".to_owned()));
    let began = EventKind::Observed { stream: "c1".into(), saw };
    let run = connected().entry(1_000, Some("server"), began);
    breaks(&run, "server: `turns` is 0, but at least 1 must be open");
    holds(&run.gauge("server", 1_000, "turns", 1), counts_are_true);
}

#[test]
fn a_client_has_the_channels_that_its_user_watches_or_asks_for() {
    let more = counts("client", "channels", 3);
    breaks(&more, "client: `channels` is 3, but at most 2 can be open");
    let asked = more.asked_as(1, 10_000, Class::InFlight, "watch", r#"{"chat":"c9"}"#);
    holds(&asked, counts_are_true);
    let refused = asked.answered(1, 11_000, rejected("there is no such channel"));
    breaks(&refused, "client: `channels` is 3, but at most 2 can be open");
}

#[test]
fn a_connected_client_keeps_no_request_and_another_keeps_each() {
    let held = counts("client", "held", 1);
    breaks(&held, "client: `held` is 1, but at most 0 can be open");
    let lost = milestone(connected(), 5_000, "client", "toolcall.client.lost", &[]);
    let asked = lost.asked_as(1, 6_000, Class::Durable, "rename", "{}");
    breaks(&asked, "client: `held` is 0, but at least 1 must be open");
    holds(&asked.gauge("client", 6_000, "held", 1), counts_are_true);
}

#[test]
fn actions_have_an_answer_at_once() {
    let run = connected().gauge("client", 50_000, "unconfirmed", 1).end(60_000);
    breaks(&run, "client: `unconfirmed` is 1, but at most 0 can be open");
    holds(&run.asked_as(1, 50_000, Class::Durable, "rename", "{}"), counts_are_true);
}

#[test]
fn an_answer_arrives_behind_the_states_that_its_window_asked_for() {
    let run = |times| {
        let run = connected().produced("t1", 500, &"x".repeat(1_000_000));
        let run = asks_for_states(run, 49_900, times);
        let run = milestone(run, 50_000, "client", "toolcall.client.ran", &[]);
        let run = run.gauge("client", 50_000, "unconfirmed", 1);
        run.gauge("client", 58_000, "unconfirmed", 0).end(60_000)
    };
    breaks(&run(1), "client: `unconfirmed` is 1, but at most 0 can be open");
    holds(&run(10), counts_are_true);
}

#[test]
fn a_call_runs_until_its_window_knows_that_it_is_over() {
    let begun = saw(connected(), 2_000, "client", "t1", "tool: call-1 begins");
    breaks(&begun, "client: `running` is 0, but at least 1 must be open");
    let running = begun.gauge("client", 2_000, "running", 1);
    holds(&running, counts_are_true);
    let ended = saw(running, 10_000, "client", "t1", "tool: call-1 ends");
    holds(&ended, counts_are_true);
    let over = saw(ended, 10_100, "client", "t1", "user: call-1 is completed");
    breaks(&over, "client: `running` is 1, but at most 0 can be open");
}

#[test]
fn counts_are_compared_only_without_a_fault_and_for_the_first_window() {
    holds(&counts("server", "clients", 9).partition(5_000, Some(18_000)), counts_are_true);
    holds(&counts("server", "clients", 9).died("server", 9_000), counts_are_true);
    let reload = counts("client", "channels", 9).asked_as(1, 9_000, Class::Durable, "reload", "{}");
    holds(&reload, counts_are_true);
}
