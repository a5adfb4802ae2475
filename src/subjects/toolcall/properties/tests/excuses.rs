//! Tests of excuses: what they excuse, and what they do not.

use super::super::actions::in_order;
use super::super::calls::{results_count, tools_begin_once};
use super::super::line::client_comes_back;
use super::super::memory::forgotten_in_time;
use super::super::presence::{no_live_client_failed, released_at_once};
use super::super::refusals::refusals_are_true;
use super::super::replicas::replay_is_used;
use super::*;
use crate::history::Coded;
use crate::schedule::LimitValue;

fn asked(run: ScriptedRun, call: u64, ms: u64, verb: &str, fields: &str) -> ScriptedRun {
    run.asked_as(call, ms, Class::InFlight, verb, fields)
}

#[test]
fn only_the_operation_that_gives_a_title_is_known_by_it() {
    let named = |more: Option<&str>| {
        let run = asked(here_until(None), 2, 5_000, "rename", r#"{"title":"A"}"#);
        let run = asked(run, 3, 5_100, "rename", r#"{"title":"B"}"#);
        let run = more.into_iter().fold(run, |run, fields| asked(run, 4, 5_150, "rename", fields));
        let run = saw(run, 5_200, "client", "s1", "title B");
        violations(&saw(run, 5_300, "client", "s1", "title A"), in_order).len()
    };
    assert_eq!(named(None), 1);
    assert_eq!(named(Some(r#"{"title":"A"}"#)), 0, "the later one may have given it");
    assert_eq!(named(Some(r#"{"title":"C"}"#)), 1);
}

#[test]
fn a_tool_begins_again_only_in_another_window_or_for_a_forgotten_call() {
    let begins =
        |run, ms, call: &str| saw(run, ms, "client", "t1", &format!("tool: {call} begins"));
    let once = || begins(calls(here_until(None), 1_000, "call-1", "client"), 1_100, "call-1");
    let found =
        |run: ScriptedRun| violations(&begins(run, 5_000, "call-1"), tools_begin_once).len();
    let reloads = |host: &str, ms| {
        asked(once().by(host), 2, ms, "reload", r#"{"keeps-id":true}"#).by("client")
    };
    assert_eq!(found(reloads("client", 3_000)), 0);
    assert_eq!(found(reloads("client", 1_099)), 1);
    assert_eq!(found(reloads("client", 5_001)), 1);
    assert_eq!(found(reloads("client2", 3_000)), 1);
    let limited = |mut run: ScriptedRun| {
        run.plan.limits.set("client.begun-calls", LimitValue::Count(1));
        run
    };
    let other = |run, ms| begins(calls(run, 1_050, "call-2", "client"), ms, "call-2");
    assert_eq!(found(limited(other(once(), 2_000))), 0);
    assert_eq!(found(limited(other(once(), 1_060))), 1, "it began before");
    assert_eq!(found(other(once(), 2_000)), 1, "the limit is higher");
    assert_eq!(found(limited(once())), 1);
    // The agent does not note a call that it makes in one step.
    assert_eq!(found(limited(begins(once(), 2_000, "call-2"))), 0);
    // A tool that is stopped at once notes no begin.
    let flash = |host: &str, ms| {
        let fields = [("call", "call-2")];
        limited(milestone(once(), ms, host, "toolcall.client.runs", &fields))
    };
    assert_eq!(found(flash("client", 2_000)), 0);
    assert_eq!(found(flash("client2", 2_000)), 1, "another window");
    assert_eq!(found(flash("client", 5_001)), 1, "it came later");
}

#[test]
fn a_window_returns_only_when_the_host_has_a_place() {
    let cut = |other_until: Option<u64>| {
        let run = calls(here_until(None), 1_000, "call-1", "client");
        let run = saw(run, 5_000, "client", "t1", "tool: call-1 ends").kills(5_100, 9_000);
        let run = match other_until {
            Some(ms) => run.by("client2").conn(1, 100, Some(ms)).by("client"),
            None => run,
        };
        let mut run = run;
        run.plan.limits.set("host.connections", LimitValue::Count(1));
        run
    };
    let found = |until, ms| violations(&over(cut(until), ms, "completed"), results_count).len();
    assert_eq!((found(None, 9_000 + BACK), found(None, 9_001 + BACK)), (0, 1));
    let full = Some(20_000);
    assert_eq!((found(full, 20_000 + BACK), found(full, 20_001 + BACK)), (0, 1));
}

#[test]
fn a_client_may_return_in_the_moment_in_which_it_is_forgotten() {
    let found = |returns: u64| {
        let run = here_until(Some(10_000)).conn(2, returns - 10, None);
        let run = accepted(run, returns, "2");
        let forgotten =
            milestone(run, 310_000, "server", "toolcall.host.forgotten", &[("client", "client")]);
        violations(&forgotten, forgotten_in_time).len()
    };
    assert_eq!((found(310_000), found(309_998)), (0, 1));
}

#[test]
fn calls_of_a_client_that_left_the_session_may_fail() {
    let call = || calls(here_until(None), 1_000, "call-1", "client");
    let found = |run| violations(&over(run, 5_000, "failed (gone)"), no_live_client_failed).len();
    let leaves = |host: &str, ms| asked(call().by(host), 2, ms, "leave", "{}").by("client");
    assert_eq!(found(leaves("client", 3_000)), 0);
    assert_eq!(found(leaves("client", 5_001)), 1);
    assert_eq!(found(leaves("client2", 3_000)), 1);
    let back = |run| found(saw(run, 4_000, "client", "s1", "joined"));
    assert_eq!(back(leaves("client", 3_000)), 0, "the window learns late that it took part before");
    let again = asked(leaves("client", 3_000), 3, 3_500, "watch", r#"{"chat":"s1"}"#);
    assert_eq!(back(again), 1);
}

#[test]
fn a_window_that_is_replaced_asks_for_no_release() {
    let unwatched = |reload: Option<u64>| {
        let run = calls(here_until(None), 1_000, "call-1", "client");
        let run = reload.into_iter().fold(run, |run, ms| asked(run, 1, ms, "reload", "{}"));
        let run = asked(run, 2, 5_000, "unwatch", r#"{"channel":"c1"}"#);
        let run = saw(run, 5_000, "client", "c1", "unsubscribed");
        violations(&over(run, 9_000, "failed (released)"), released_at_once).len()
    };
    assert_eq!(unwatched(None), 1);
    assert_eq!(unwatched(Some(5_000)), 0);
    assert_eq!(unwatched(Some(2_000)), 1);
}

#[test]
fn a_client_that_refuses_to_leave_keeps_its_calls() {
    let run =
        calls(saw(here_until(None), 500, "client", "s1", "joined"), 1_000, "call-1", "client");
    let run = asked(run, 2, 5_000, "leave", "{}");
    let found =
        |run: ScriptedRun| violations(&over(run, 9_000, "failed (gone)"), released_at_once).len();
    assert_eq!(found(run.clone()), 1);
    assert_eq!(found(run.clone().answered(2, 5_000, rejected("too many actions wait"))), 0);
    assert_eq!(found(run.answered(2, 5_040, rejected("the host refuses"))), 1);
}

#[test]
fn a_session_is_one_too_many_only_beside_as_many_others() {
    let full = || {
        let message = "there are too many sessions".to_owned();
        Answer::refused(Data::of(Coded { code: -32011, message }))
    };
    let found = |others: &[(u64, Option<u64>)]| {
        let run = asked(here_until(None), 2, 5_000, "create-session", r#"{"name":"s2"}"#);
        let run = others.iter().enumerate().fold(run, |run, (n, (ms, answered))| {
            let call = 3 + n as u64;
            let run = asked(run, call, *ms, "create-session", r#"{"name":"s3"}"#);
            answered.iter().fold(run, |run, ms| run.answered(call, *ms, "no"))
        });
        let mut run = run.answered(2, 5_100, full());
        run.plan.limits.set("host.sessions", LimitValue::Count(2));
        violations(&run, refusals_are_true).len()
    };
    assert_eq!(found(&[]), 1);
    assert_eq!(found(&[(4_000, None)]), 1);
    assert_eq!(found(&[(4_000, None), (5_050, None)]), 0);
    assert_eq!(found(&[(4_000, None), (5_101, None)]), 1, "one came later");
    assert_eq!(found(&[(4_000, Some(4_500)), (5_050, None)]), 1, "one was over");
}

#[test]
fn a_reply_is_refused_after_the_own_cancellation() {
    let waits = || {
        let call = calls(here_until(None), 1_000, "call-1", "client");
        let ready = saw(call, 1_100, "server", "t1", "agent: call-1 is ready");
        let what = Became::Replies(Err("the turn is not in progress".to_owned()));
        let saw = Data::of(OfCall { by: By::User, call: "call-1".to_owned(), what });
        ready.entry(2_000, Some("client"), EventKind::Observed { stream: "t1".into(), saw })
    };
    let found = |host: &str, ms, chat: &str| {
        let fields = format!(r#"{{"chat":"{chat}"}}"#);
        let run = asked(waits().by(host), 2, ms, "cancel-turn", &fields).by("client");
        violations(&run, refusals_are_true).len()
    };
    assert_eq!(violations(&waits(), refusals_are_true).len(), 1);
    assert_eq!(found("client", 1_500, "c1"), 0);
    assert_eq!(found("client", 1_500, "c2"), 1);
    assert_eq!(found("client", 2_001, "c1"), 1);
    assert_eq!(found("client2", 1_500, "c1"), 1, "the host confirms that");
    // The call may begin while the cancellation is on its way.
    let before = |began: u64, answered: Option<u64>| {
        let saw = Data::of(OfChannel::TurnBegan("t1".to_owned()));
        let event = EventKind::Observed { stream: "c1".into(), saw };
        let run = waits().entry(began, Some("server"), event);
        let run = asked(run, 2, 900, "cancel-turn", r#"{"chat":"c1"}"#);
        let run = answered.into_iter().fold(run, |run, ms| run.answered(2, ms, "cancelled"));
        violations(&run, refusals_are_true).len()
    };
    assert_eq!(before(500, None), 0);
    assert_eq!(before(500, Some(1_000)), 0);
    assert_eq!(before(500, Some(999)), 1, "the window shows it no more");
    assert_eq!(before(901, None), 1, "it was of an earlier turn");
}

#[test]
fn a_handshake_is_outdated_if_its_client_began_anew_since() {
    let reseated = |anew: Option<(u64, &str)>| {
        let about = |run, ms, what, conn: &str| {
            milestone(run, ms, "server", what, &[("conn", conn), ("client", "client")])
        };
        let connected = |run, ms, generation: &str| {
            let fields = [("generation", generation)];
            milestone(run, ms, "client", "toolcall.client.connected", &fields)
        };
        let run = connected(here_until(Some(5_000)), 40, "1").conn(2, 6_000, None);
        let run = about(run, 6_010, "toolcall.host.arriving", "2");
        let run = anew.into_iter().fold(run.conn(3, 6_500, None), |run, (ms, client)| {
            let fields = [("conn", "3"), ("client", client)];
            connected(milestone(run, ms, "server", "toolcall.host.initialized", &fields), ms, "3")
        });
        violations(&about(run, 7_000, "toolcall.host.reseated", "2"), replay_is_used).len()
    };
    assert_eq!(reseated(None), 1);
    assert_eq!(reseated(Some((6_600, "client"))), 0);
    assert_eq!(reseated(Some((6_600, "client2"))), 1);
    assert_eq!(reseated(Some((5_900, "client"))), 1, "it was opened later");
}

#[test]
fn a_second_connection_may_hold_what_its_window_releases() {
    let unwatched = |host: &str, opened, over| {
        let run = here_until(None).by(host).conn_labelled("second", 1, opened, over).by("client");
        let run = asked(
            calls(run, 1_000, "call-1", "client"),
            2,
            5_000,
            "unwatch",
            r#"{"channel":"c1"}"#,
        );
        let run = saw(run, 5_000, "client", "c1", "unsubscribed");
        violations(&over_late(run), released_at_once).len()
    };
    assert_eq!(unwatched("client", 100, None), 0);
    assert_eq!(unwatched("client", 100, Some(5_000)), 1, "it is over");
    assert_eq!(unwatched("client", 5_000, None), 0, "it was opened in the same millisecond");
    assert_eq!(unwatched("client", 5_001, None), 1, "it was opened later");
    assert_eq!(unwatched("client2", 100, None), 1);
}

/// The call fails long after its release.
fn over_late(run: ScriptedRun) -> ScriptedRun {
    over(run, 9_000, "failed (released)")
}

#[test]
fn a_token_may_be_unknown_only_after_what_makes_it_unsure() {
    let found = |host: &str, call, verb: &str, fields: &str| {
        let run = asked(looks(history(), 50, "client").by(host), call, 60, verb, fields);
        let run = run.by("client").asked_as(2, 100, Class::Durable, "start-turn", "{}");
        let run = run.answered(2, 200, rejected("a token is required"));
        violations(&run, client_comes_back).len()
    };
    assert_eq!(found("client", 1, "send-token", r#"{"token":"none"}"#), 0);
    assert_eq!(found("client", 1, "send-token", r#"{"token":"right"}"#), 1);
    assert_eq!(found("client", 1, "watch", r#"{"chat":"s1"}"#), 0);
    assert_eq!(found("client", 1, "watch", r#"{"chat":"c1"}"#), 1);
    assert_eq!(found("client", 1, "new-session", "{}"), 0);
    assert_eq!(found("client2", 1, "new-session", "{}"), 1);
    assert_eq!(found("client", 3, "new-session", "{}"), 1, "it came later");
}
