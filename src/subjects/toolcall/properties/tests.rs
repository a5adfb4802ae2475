//! Tests of the boundary cases of the properties, over hand-written runs.

use std::collections::BTreeMap;

use crate::history::{Answer, Class, ConnIndex, Data, EventKind, Nature, Scope};
use crate::property::Violation;
use crate::property::scripted::{ScriptedRun, history};
use crate::report::sentence;
use crate::schedule::{Conn, Fault, MilestoneValue, TrafficCount, Which, faults};
use crate::subjects::toolcall::answers::{Did, Rejected};
use crate::subjects::toolcall::notes::{
    Became, By, CallEnd, OfCall, OfChannel, Question, Status, ToolWork,
};

use super::actions::{
    actions_once, authority, claims_are_checked, in_order, rejections_are_handled,
};
use super::calls::{no_work_for_what_is_over, one_outcome, owner_can_run, results_count};
use super::line::{client_comes_back, healthy_is_kept, requests_settle};
use super::presence::{
    gone_is_failed, holds_are_exact, no_live_client_failed, released_at_once, returning_keeps,
};
use super::replicas::{replay_is_used, replicas_converge};
use super::story::Story;

mod chats;
mod excuses;
mod grants;
mod memory;
mod refusals;
mod states;
mod waits;

/// The default grace period.
const GRACE: u64 = 30_000;
/// The silence after which a host gives up a connection.
const DETECTION: u64 = 25_000;
/// The time allowed for a message to cross the network and be processed.
const MOMENT: u64 = 620;
/// The time allowed for an action of a host that knows when the action is due.
const AT_ONCE: u64 = 100;
/// The time within which a client is connected again: detection, recovery window and an attempt
/// under the guarantees of these runs.
const BACK: u64 = 16_000 + 25_000 + 5_000 + MOMENT;

type Fields<'f> = &'f [(&'static str, &'f str)];

fn milestone(
    scripted: ScriptedRun,
    ms: u64,
    host: &str,
    name: &'static str,
    fields: Fields<'_>,
) -> ScriptedRun {
    let value = |text: &str| {
        text.parse().map_or_else(|_| MilestoneValue::Text(text.to_owned()), MilestoneValue::Number)
    };
    let fields = fields.iter().map(|(name, text)| (*name, value(text))).collect();
    scripted.entry(ms, Some(host), EventKind::Milestone { name, fields })
}

fn saw(scripted: ScriptedRun, ms: u64, host: &str, about: &str, what: &str) -> ScriptedRun {
    scripted.entry(ms, Some(host), EventKind::Observed { stream: about.into(), saw: noted(what) })
}

/// Builds a note from its displayed text.
fn noted(shown: &str) -> Data {
    let by = [By::Agent, By::User, By::Tool, By::Second].into_iter();
    let of_call = by
        .filter_map(|by| Some((by, shown.strip_prefix(&format!("{by}: "))?.split_once(' ')?)))
        .next();
    if let Some((by, (call, what))) = of_call {
        let what = became().into_iter().find(|became| became.to_string() == what).expect("a note");
        return Data::of(OfCall { by, call: call.to_owned(), what });
    }
    let rest = |prefix: &str| shown.strip_prefix(prefix).map(str::to_owned);
    let stable = |second| move |digest| OfChannel::stable(second, digest);
    let note = rest("state stable: ").map(stable(false));
    let note = note.or_else(|| rest("second connection: state stable: ").map(stable(true)));
    let note = note.or_else(|| rest("title ").map(OfChannel::Title));
    let note = note.or_else(|| rest("contains chat ").map(OfChannel::ContainsChat));
    let joined = [true, false].map(OfChannel::Joined);
    let mut others =
        [OfChannel::Changed, OfChannel::Received, OfChannel::Unsubscribed, OfChannel::Removed]
            .into_iter()
            .chain(joined);
    Data::of(note.or_else(|| others.find(|note| note.to_string() == shown)).expect("a note"))
}

fn rejected(why: &str) -> Answer {
    Answer::refused(Rejected(why.to_owned()))
}

/// All call events that occur in these tests.
fn became() -> Vec<Became> {
    let failures = ["gone", "released", "another one offers it: try again"]
        .map(|why| CallEnd::Failed(why.to_owned()));
    let ends =
        failures.into_iter().chain([CallEnd::Completed, CallEnd::Cancelled]).map(Became::Over);
    let works = [ToolWork::Begins, ToolWork::Ends, ToolWork::Stopped].map(Became::Works);
    let statuses =
        [Status::Running, Status::Completed, Status::Failed, Status::Cancelled].map(Became::Is);
    let questions = [Became::Asks(asks("client")), Became::Hears(Err("lost".to_owned()))];
    let others = [
        Became::Calls { tool: "t1".to_owned(), of_its_choice: false },
        Became::Ready { asks: false },
    ];
    let consents = [Became::Ready { asks: true }, Became::Decides(true), Became::Decides(false)];
    ends.chain(works).chain(statuses).chain(questions).chain(others).chain(consents).collect()
}

/// A question that a window answers at once.
fn asks(client: &str) -> Question {
    Question { client: client.to_owned(), takes: 100, is_unknown: false }
}

/// The host accepts the client over its n-th connection, which the run already contains.
fn accepted(scripted: ScriptedRun, ms: u64, conn: &str) -> ScriptedRun {
    milestone(
        scripted,
        ms,
        "server",
        "toolcall.host.initialized",
        &[("conn", conn), ("client", "client")],
    )
}

fn looks(scripted: ScriptedRun, ms: u64, host: &str) -> ScriptedRun {
    saw(
        saw(saw(scripted, ms, host, "s1", "state received"), ms, host, "c1", "state received"),
        ms,
        host,
        "s1",
        "joined",
    )
}

/// A run in which the client has one connection from the start until `over`, and watches
/// everything.
fn here_until(over: Option<u64>) -> ScriptedRun {
    looks(accepted(history().conn(1, 10, over), 20, "1"), 30, "client")
}

fn calls(scripted: ScriptedRun, ms: u64, call: &str, owner: &str) -> ScriptedRun {
    let scripted = milestone(
        scripted,
        ms,
        "server",
        "toolcall.host.call",
        &[("chat", "c1"), ("call", call), ("owner", owner)],
    );
    saw(scripted, ms, "server", "t1", &format!("agent: {call} calls t1"))
}

fn failed(scripted: ScriptedRun, ms: u64, owner: &str) -> ScriptedRun {
    let fields = [("chat", "c1"), ("call", "call-1"), ("owner", owner), ("away", "1")];
    let scripted = milestone(scripted, ms, "server", "toolcall.host.call-failed", &fields);
    saw(scripted, ms, "server", "t1", "agent: call-1 is over: failed (gone)")
}

fn over(scripted: ScriptedRun, ms: u64, how: &str) -> ScriptedRun {
    saw(scripted, ms, "server", "t1", &format!("agent: call-1 is over: {how}"))
}

fn violations(scripted: &ScriptedRun, property: fn(&Story<'_>) -> Vec<Violation>) -> Vec<String> {
    let found = scripted.with(|cx| property(&Story::of(cx)));
    let is_listed = |it: &Violation| {
        super::OWN.iter().any(|own| own.name == it.property && own.kinds.contains(&it.kind))
    };
    assert!(found.iter().all(is_listed), "{found:?}");
    found.iter().map(sentence).collect()
}

#[track_caller]
fn holds(scripted: &ScriptedRun, property: fn(&Story<'_>) -> Vec<Violation>) {
    assert_eq!(violations(scripted, property), Vec::<String>::new());
}

#[test]
fn a_client_with_a_live_connection_is_not_failed() {
    let scripted =
        |over| failed(calls(here_until(over), 1_000, "call-1", "client"), 40_000, "client");
    assert_eq!(
        violations(&scripted(None), no_live_client_failed),
        [
            "call-1: the host failed it, although its owner client was connected and subscribed to c1 (at 40.000 s)"
        ]
    );
    holds(&scripted(Some(10_000)), no_live_client_failed);
    holds(&scripted(Some(40_000)), no_live_client_failed);
}

#[test]
fn an_older_connection_is_a_live_one() {
    let second = history().conn(1, 10, None).conn(2, 20, Some(5_000));
    let scripted = looks(accepted(accepted(second, 20, "1"), 30, "2"), 40, "client");
    assert_eq!(
        violations(
            &failed(calls(scripted, 1_000, "call-1", "client"), 40_000, "client"),
            no_live_client_failed
        )
        .len(),
        1
    );
}

#[test]
fn a_connected_client_that_unsubscribed_may_be_failed() {
    let scripted = saw(
        calls(here_until(None), 1_000, "call-1", "client"),
        5_000,
        "client",
        "c1",
        "unsubscribed",
    );
    holds(&failed(scripted, 5_010, "client"), no_live_client_failed);
}

#[test]
fn calls_of_an_unknown_client_are_not_failed() {
    let scripted = failed(calls(here_until(None), 1_000, "call-1", "stranger"), 40_000, "stranger");
    assert_eq!(violations(&scripted, no_live_client_failed).len(), 1);
}

#[test]
fn calls_of_an_absent_client_fail_after_the_grace_period() {
    let scripted = || calls(here_until(Some(10_000)), 1_000, "call-1", "client");
    let bound = 10_000 + GRACE + AT_ONCE;
    holds(&over(scripted(), bound, "failed (gone)"), gone_is_failed);
    assert_eq!(
        violations(&over(scripted(), bound + 1, "failed (gone)"), gone_is_failed),
        [
            "t1: call-1 had not ended by 40.100 s, although its owner client was absent since 10.000 s"
        ]
    );
    holds(&scripted().ended("t1", 20_000, "over"), gone_is_failed);
    holds(&scripted().died("server", 20_000), gone_is_failed);
}

#[test]
fn calls_of_a_forgotten_client_are_not_checked() {
    let scripted = |forgotten| {
        let scripted = here_until(Some(10_000));
        let scripted = milestone(
            scripted,
            forgotten,
            "server",
            "toolcall.host.forgotten",
            &[("client", "client")],
        );
        calls(scripted, 60_000, "call-1", "client").horizon(90_000)
    };
    holds(&scripted(59_000), gone_is_failed);
    assert_eq!(violations(&scripted(61_000), gone_is_failed).len(), 1);
}

#[test]
fn a_half_open_connection_is_noticed_first() {
    let half = looks(accepted(history().conn_half_over(1, 10, 10_000), 20, "1"), 30, "client");
    let scripted = calls(half, 1_000, "call-1", "client");
    let bound = 10_000 + DETECTION + GRACE + MOMENT;
    holds(&over(scripted.clone(), bound, "failed (gone)"), gone_is_failed);
    assert_eq!(violations(&over(scripted, bound + 1, "failed (gone)"), gone_is_failed).len(), 1);
    // An earlier handshake makes no difference.
    let arriving = |scripted| {
        milestone(
            scripted,
            15,
            "server",
            "toolcall.host.arriving",
            &[("conn", "1"), ("client", "client")],
        )
    };
    let half =
        looks(accepted(arriving(history().conn_half_over(1, 10, 10_000)), 20, "1"), 30, "client");
    let scripted = calls(half, 1_000, "call-1", "client");
    holds(&over(scripted.clone(), bound, "failed (gone)"), gone_is_failed);
    assert_eq!(violations(&over(scripted, bound + 1, "failed (gone)"), gone_is_failed).len(), 1);
}

/// A fault may hold a client's last message until after the client is gone. The host's silence
/// begins when that message arrives.
#[test]
fn a_late_message_delays_the_detection() {
    let half = history().conn_half_over(1, 10, 10_000).received(12_000);
    let scripted = calls(looks(accepted(half, 20, "1"), 30, "client"), 1_000, "call-1", "client");
    let bound = 12_000 + DETECTION + GRACE + MOMENT;
    holds(&over(scripted.clone(), bound, "failed (gone)"), gone_is_failed);
    assert_eq!(violations(&over(scripted, bound + 1, "failed (gone)"), gone_is_failed).len(), 1);
}

/// The host gives up a handshake at its deadline, so a longer one is no excuse.
#[test]
fn an_endless_handshake_does_not_extend_the_grace_period() {
    let due = 10_000 + GRACE;
    let scripted = here_until(Some(10_000)).conn(2, 11_000, None);
    let scripted = calls(scripted, 1_000, "call-1", "client");
    let scripted = milestone(
        scripted,
        due,
        "server",
        "toolcall.host.arriving",
        &[("conn", "2"), ("client", "client")],
    );
    let bound = due + 15_000 + AT_ONCE;
    holds(&over(scripted.clone(), bound, "failed (gone)"), gone_is_failed);
    assert_eq!(violations(&over(scripted, bound + 1, "failed (gone)"), gone_is_failed).len(), 1);
}

/// The host waits for the handshake, and for the next one that begins during it. One that begins
/// too late changes nothing.
#[test]
fn an_owner_in_its_handshake_is_not_absent() {
    let due = 10_000 + GRACE;
    let arrives = |scripted, at, conn| {
        milestone(
            scripted,
            at,
            "server",
            "toolcall.host.arriving",
            &[("conn", conn), ("client", "client")],
        )
    };
    let scripted = |at| {
        let scripted = here_until(Some(10_000)).conn(2, 11_000, Some(due + 3_000)).conn(
            3,
            12_000,
            Some(due + 9_000),
        );
        arrives(arrives(calls(scripted, 1_000, "call-1", "client"), at, "2"), due + 2_000, "3")
    };
    let bound = due + 9_000 + AT_ONCE;
    holds(&over(scripted(due), bound, "failed (gone)"), gone_is_failed);
    assert_eq!(
        violations(&over(scripted(due), bound + 1, "failed (gone)"), gone_is_failed).len(),
        1
    );
    assert_eq!(
        violations(&over(scripted(due + 1), bound, "failed (gone)"), gone_is_failed).len(),
        1
    );
    let given_up = |scripted| {
        milestone(scripted, due + 1_000, "server", "toolcall.host.no-handshake", &[("conn", "2")])
    };
    assert_eq!(
        violations(&over(given_up(scripted(due)), bound, "failed (gone)"), gone_is_failed).len(),
        1
    );
}

#[test]
fn a_later_call_does_not_extend_the_grace_period() {
    let scripted = calls(here_until(Some(10_000)), 35_000, "call-1", "client");
    assert_eq!(
        violations(&over(scripted, 10_001 + GRACE + AT_ONCE, "failed (gone)"), gone_is_failed)
            .len(),
        1
    );
}

#[test]
fn a_held_host_may_be_late() {
    let scripted =
        calls(here_until(Some(10_000)), 1_000, "call-1", "client").holds_for_ever(20_000);
    holds(&scripted, gone_is_failed);
}

#[test]
fn a_client_that_returns_within_the_grace_period_keeps_its_calls_and_its_place() {
    let scripted =
        |ms| failed(calls(here_until(Some(10_000)), 1_000, "call-1", "client"), ms, "client");
    assert_eq!(
        violations(&scripted(9_999 + GRACE), returning_keeps),
        [
            "call-1: the host failed it at 39.999 s, although its owner client was absent only since 10.000 s"
        ]
    );
    holds(&scripted(10_000 + GRACE), returning_keeps);
    let placed = |over, ms| {
        milestone(
            here_until(over),
            ms,
            "server",
            "toolcall.host.deactivated",
            &[("session", "s1"), ("client", "client")],
        )
    };
    assert_eq!(violations(&placed(Some(10_000), 10_001), returning_keeps).len(), 1);
    assert_eq!(
        violations(&placed(None, 5_000), returning_keeps),
        [
            "client: it lost its place in the session at 5.000 s, although it was connected and subscribed to the session"
        ]
    );
    holds(&placed(Some(10_000), 10_000 + GRACE), returning_keeps);
    let let_go = saw(here_until(Some(10_000)), 9_999, "client", "s1", "unsubscribed");
    let released = milestone(
        let_go,
        10_001,
        "server",
        "toolcall.host.deactivated",
        &[("session", "s1"), ("client", "client")],
    );
    holds(&released, returning_keeps);
}

/// A host accepts a connection that its window lost long before. The grace period starts at that
/// moment, and is over when the connection ends.
#[test]
fn a_connection_without_a_subscription_keeps_no_place() {
    let scripted = |gone, over| {
        let scripted = history().conn_closed(1, 10, over, Some(gone)).conn(2, 15, Some(10_000));
        let scripted = accepted(looks(accepted(scripted, 20, "2"), 30, "client"), 10_100, "1");
        milestone(
            scripted,
            10_100 + GRACE,
            "server",
            "toolcall.host.deactivated",
            &[("session", "s1"), ("client", "client")],
        )
    };
    holds(&scripted(29, 10_100 + GRACE), returning_keeps);
    assert_eq!(
        violations(&scripted(30, 10_100 + GRACE), returning_keeps).len(),
        1,
        "its user knew the session then"
    );
    assert_eq!(
        violations(&scripted(29, 10_099 + GRACE), returning_keeps).len(),
        1,
        "it was away again"
    );
    let held = scripted(29, 10_099 + GRACE).holds_for_ever(10_050 + GRACE);
    holds(&held, returning_keeps); // the task of the host has not reported the end yet
}

#[test]
fn a_second_connection_keeps_a_place_if_its_window_watched_the_session_at_its_opening() {
    let scripted = |looked: u64| {
        let scripted = accepted(history().conn(1, 10, Some(10_000)), 20, "1");
        let scripted = saw(scripted, looked, "client", "s1", "state received").asked_as(
            1,
            9_400,
            Class::InFlight,
            "open-second",
            "{}",
        );
        let scripted = accepted(scripted.conn_labelled("second", 1, 9_400, None), 9_500, "2");
        let fields = [("session", "s1"), ("client", "client")];
        milestone(scripted, 40_001, "server", "toolcall.host.deactivated", &fields).horizon(60_000)
    };
    assert_eq!(
        violations(&scripted(30), returning_keeps),
        [
            "client: it lost its place in the session at 40.001 s, although it was connected and subscribed to the session"
        ]
    );
    holds(&scripted(9_400), returning_keeps); // the second connection may have been opened before, and was not given the session
    holds(&scripted(9_450), returning_keeps);
}

#[test]
fn an_unwatched_channel_is_released_at_once() {
    let asked = calls(here_until(None), 1_000, "call-1", "client");
    let scripted = asked.asked_as(1, 5_000, Class::Durable, "unwatch", r#"{"channel":"c1"}"#);
    let scripted = saw(scripted, 5_000, "client", "c1", "unsubscribed");
    holds(&over(scripted.clone(), 5_000 + MOMENT, "failed (released)"), released_at_once);
    assert_eq!(
        violations(&over(scripted.clone(), 5_001 + MOMENT, "failed (released)"), released_at_once),
        [
            "t1: call-1 had not ended by 5.620 s, although its owner client unsubscribed from c1 at 5.000 s"
        ]
    );
    let late = || over(scripted.clone(), 30_000, "failed (released)");
    holds(&late().kills(5_100, 5_200), released_at_once);
    let beside =
        |opened| violations(&late().conn_labelled("second", 1, opened, None), released_at_once);
    assert_eq!((beside(5_000).len(), beside(5_001).len()), (0, 1));
    // A second connection of a window that is away releases nothing.
    let away = |conn: ScriptedRun| {
        let asked = calls(conn, 1_000, "call-1", "client");
        let asked = asked.asked_as(1, 5_000, Class::Durable, "unwatch", r#"{"channel":"c1"}"#);
        violations(&saw(asked, 5_000, "client", "c1", "unsubscribed"), released_at_once).len()
    };
    let gone = || here_until(Some(4_900));
    assert_eq!(away(accepted(gone().conn(2, 5_500, None), 5_510, "2")), 1);
    assert_eq!(away(accepted(gone().conn_labelled("second", 1, 5_500, None), 5_510, "2")), 0);
    // An agent notes a call at the moment in which its host dies: the call dies with the host.
    let released = |begun| {
        let scripted = calls(begun, 1_000, "call-1", "client").asked_as(
            1,
            5_000,
            Class::Durable,
            "unwatch",
            r#"{"channel":"c1"}"#,
        );
        saw(scripted, 5_000, "client", "c1", "unsubscribed")
    };
    holds(&released(here_until(None).died("server", 1_000)), released_at_once);
    assert_eq!(violations(&released(here_until(None)), released_at_once).len(), 1);
}

#[test]
fn a_watched_chat_stays_in_memory() {
    let evicted = |over| {
        milestone(here_until(over), 5_000, "server", "toolcall.host.evicted", &[("channel", "c1")])
    };
    assert_eq!(
        violations(&evicted(None), holds_are_exact),
        ["c1: it was unloaded, although client was subscribed to it (on server, at 5.000 s)"]
    );
    holds(&evicted(Some(4_000)), holds_are_exact);
    // The connection was over before the host accepted it.
    let accepted_late = |over| {
        let scripted = looks(accepted(history().conn(1, 10, Some(1_000)), 20, "1"), 30, "client")
            .conn_closed(2, 1_050, over, None);
        let scripted = milestone(
            scripted,
            1_100,
            "server",
            "toolcall.host.arriving",
            &[("conn", "2"), ("client", "client")],
        );
        milestone(
            accepted(scripted, 2_000, "2"),
            5_000,
            "server",
            "toolcall.host.evicted",
            &[("channel", "c1")],
        )
    };
    holds(&accepted_late(1_200), holds_are_exact);
    assert_eq!(violations(&accepted_late(9_000), holds_are_exact).len(), 1);
}

#[test]
fn a_call_ends_once_and_in_one_way() {
    let scripted = || over(calls(here_until(None), 1_000, "call-1", "client"), 3_000, "completed");
    let user =
        |ms, what: &str| saw(scripted(), ms, "client", "t1", &format!("user: call-1 is {what}"));
    holds(&user(3_010, "completed"), one_outcome);
    assert_eq!(
        violations(&user(3_010, "failed"), one_outcome),
        ["t1: call-1 is failed for client at 3.010 s, but completed for others at 3.000 s"]
    );
    holds(&user(3_010, "running"), one_outcome);
    let again = saw(user(3_010, "completed"), 3_020, "client", "t1", "user: call-1 is running");
    assert_eq!(violations(&again, one_outcome).len(), 1);
}

#[test]
fn a_tool_works_for_its_own_windows_calls_when_they_may_run() {
    let call = |owner| calls(here_until(None), 1_000, "call-1", owner);
    let ready = |scripted| saw(scripted, 1_500, "server", "t1", "agent: call-1 is ready");
    let begins = |scripted, ms| saw(scripted, ms, "client", "t1", "tool: call-1 begins");
    holds(&begins(ready(call("client")), 1_510), no_work_for_what_is_over);
    assert_eq!(
        violations(&begins(ready(call("client2")), 1_510), no_work_for_what_is_over),
        [
            "t1: the tool of call-1 begins on client, although the call belongs to client2 (at 1.510 s)"
        ]
    );
    let late = |ms| begins(over(ready(call("client")), 2_000, "failed (gone)"), ms);
    holds(&late(2_010), no_work_for_what_is_over);
    assert_eq!(violations(&late(2_001 + MOMENT), no_work_for_what_is_over).len(), 1);
    let flash = |ms| {
        milestone(
            over(ready(call("client")), 2_000, "failed (gone)"),
            ms,
            "client",
            "toolcall.client.runs",
            &[("call", "call-1")],
        )
    };
    holds(&flash(2_010), no_work_for_what_is_over);
    assert_eq!(
        violations(&flash(2_001 + MOMENT), no_work_for_what_is_over).len(),
        1,
        "though no tool did anything"
    );
    let early = saw(call("client"), 1_200, "client2", "t1", "user: call-1 is running");
    assert_eq!(violations(&early, no_work_for_what_is_over).len(), 1);
    let flash = saw(call("client"), 1_200, "client2", "t1", "second: call-1 is running");
    assert_eq!(violations(&flash, no_work_for_what_is_over).len(), 1);
    let known =
        saw(begins(ready(call("client")), 1_510), 2_000, "client", "t1", "user: call-1 is failed");
    assert_eq!(
        violations(
            &saw(known, 3_000, "client", "t1", "tool: call-1 ends"),
            no_work_for_what_is_over
        )
        .len(),
        1
    );
}

#[test]
fn a_result_ends_its_call_as_soon_as_it_can_be_reported() {
    let scripted = || {
        saw(
            calls(here_until(None), 1_000, "call-1", "client"),
            5_000,
            "client",
            "t1",
            "tool: call-1 ends",
        )
    };
    holds(&over(scripted(), 5_000 + 2 * MOMENT, "completed"), results_count);
    assert_eq!(
        violations(&over(scripted(), 5_001 + 2 * MOMENT, "completed"), results_count),
        ["t1: call-1 had not ended by 6.240 s, although its tool ended on client at 5.000 s"]
    );
    let cut = scripted().kills(5_100, 9_000);
    holds(&over(cut.clone(), 9_000 + BACK, "completed"), results_count);
    assert_eq!(violations(&over(cut, 9_001 + BACK, "completed"), results_count).len(), 1);
    // A second connection carries no actions of the client.
    let seconds = |main| {
        let scripted = calls(
            here_until(main).conn_labelled("second", 1, 100, None),
            1_000,
            "call-1",
            "client",
        );
        saw(accepted(scripted, 200, "2"), 5_000, "client", "t1", "tool: call-1 ends")
    };
    let late =
        |main| violations(&over(seconds(main), 5_000 + BACK, "completed"), results_count).len();
    assert_eq!((late(Some(3_000)), late(None)), (0, 1));
}

#[test]
fn a_call_is_assigned_to_a_client_that_can_run_it() {
    let gone_at = |ms| {
        let two = here_until(Some(ms)).by("client2").conn(1, 10, None);
        let two = milestone(
            two,
            20,
            "server",
            "toolcall.host.initialized",
            &[("conn", "2"), ("client", "client2")],
        );
        looks(two, 30, "client2")
    };
    let two = gone_at(2_000);
    holds(&calls(gone_at(9_000), 9_000, "call-1", "client"), owner_can_run); // it goes in the very moment
    assert_eq!(
        violations(&calls(two.clone(), 9_000, "call-1", "client"), owner_can_run),
        [
            "t1: call-1 was assigned to client, although client2 was connected and could run it (at 9.000 s)"
        ]
    );
    holds(&calls(two.clone(), 9_000, "call-1", "client2"), owner_can_run);
    holds(&calls(two.clone(), 1_100, "call-1", "client"), owner_can_run);
    // The owner returns in the millisecond in which the host assigns the call: only the order of the
    // two shows whether the host knew.
    let returns = |scripted: ScriptedRun| accepted(scripted.conn(2, 8_990, None), 9_000, "3");
    let first = calls(returns(two.clone().by("client")), 9_000, "call-1", "client");
    holds(&first, owner_can_run);
    let second = returns(calls(two.clone().by("client"), 9_000, "call-1", "client"));
    assert_eq!(violations(&second, owner_can_run).len(), 1);
    let given = |scripted: ScriptedRun| {
        violations(&calls(scripted, 9_000, "call-1", "client"), owner_can_run).len()
    };
    assert_eq!(
        given(two.clone().by("client").kills(8_000, 9_500)),
        1,
        "what keeps the one away does not disturb the other"
    );
    assert_eq!(given(two.kills(8_000, 9_500)), 0);
    // A client that has only a second connection may have lost its place, and its user does not see
    // that over the second connection.
    let with_second = |main| {
        let two = here_until(Some(2_000))
            .by("client2")
            .conn(1, 10, main)
            .conn_labelled("second", 1, 100, None);
        let fields = |conn| [("conn", conn), ("client", "client2")];
        let two = milestone(two, 20, "server", "toolcall.host.initialized", &fields("2"));
        looks(
            milestone(two, 200, "server", "toolcall.host.initialized", &fields("3")),
            210,
            "client2",
        )
    };
    assert_eq!((given(with_second(Some(5_000))), given(with_second(None))), (0, 1));
    let hint = over(
        calls(here_until(None), 1_000, "call-1", "client"),
        2_000,
        "failed (another one offers it: try again)",
    );
    assert_eq!(violations(&hint, owner_can_run).len(), 1);
    // A host with a held task may not have noticed the end of the other client's connection.
    let other_gone = |scripted: ScriptedRun| {
        let scripted = scripted.by("client2").conn(1, 10, Some(1_500)).by("client");
        let fields = [("conn", "2"), ("client", "client2")];
        let scripted = milestone(scripted, 20, "server", "toolcall.host.initialized", &fields);
        let scripted = calls(scripted, 1_000, "call-1", "client");
        over(scripted, 2_000, "failed (another one offers it: try again)")
    };
    assert_eq!(violations(&other_gone(here_until(None)), owner_can_run).len(), 1);
    holds(&other_gone(here_until(None).holds_for_ever(1_400)), owner_can_run);
}

/// The only connection of the owner has been there for a while, and its user does not watch the chat.
#[test]
fn a_call_is_not_assigned_to_a_client_that_is_not_subscribed() {
    let given = |scripted: ScriptedRun| {
        violations(&calls(scripted, 9_000, "call-1", "client"), owner_can_run)
    };
    let leaves = |ms| saw(here_until(None), ms, "client", "c1", "unsubscribed");
    assert_eq!(
        given(leaves(5_000)),
        ["t1: call-1 was assigned to client, although its user does not watch c1 (at 9.000 s)"]
    );
    assert_eq!(given(here_until(None)).len(), 0);
    assert_eq!(given(leaves(8_500)).len(), 0, "it may be too early");
    let asks = |ms| leaves(5_000).asked_as(2, ms, Class::InFlight, "watch", r#"{"chat":"c1"}"#);
    assert_eq!(given(asks(6_000)).len(), 0, "it may be subscribed already");
    let fails = |ms| asks(6_000).answered(2, ms, rejected("no"));
    assert_eq!((given(fails(7_000)).len(), given(fails(8_500)).len()), (1, 0));
    let older = leaves(5_000).conn(2, 20, None);
    assert_eq!(given(accepted(older, 30, "2")).len(), 0, "another connection holds it");
}

/// After an outage, the host learns of a dead client when it retransmits, after at most as long again.
#[test]
fn an_owner_counts_as_present_until_the_host_has_retransmitted() {
    let given_at = |at: u64| {
        let here = accepted(history().conn_half_over(1, 10, 2_000), 20, "1");
        let here = looks(here, 30, "client").kills(2_000, 5_000);
        let two = here.by("client2").conn(1, 10, None);
        let fields = [("conn", "2"), ("client", "client2")];
        let two = milestone(two, 20, "server", "toolcall.host.initialized", &fields);
        let two = looks(two, 30, "client2");
        violations(&calls(two, at, "call-1", "client"), owner_can_run).len()
    };
    assert_eq!((given_at(8_000 + MOMENT), given_at(8_001 + MOMENT)), (0, 1));
}

/// The host does not know the window's tools before the window has joined the session, which takes
/// as long as the restore of a chat.
#[test]
fn a_window_that_does_not_take_part_offers_no_tools() {
    let scripted = |part: Option<u64>| {
        let two = here_until(Some(2_000)).by("client2").conn(1, 10, None);
        let two = milestone(
            two,
            20,
            "server",
            "toolcall.host.initialized",
            &[("conn", "2"), ("client", "client2")],
        );
        let two = saw(
            saw(two, 30, "client2", "s1", "state received"),
            30,
            "client2",
            "c1",
            "state received",
        );
        let two = part.into_iter().fold(two, |two, ms| saw(two, ms, "client2", "s1", "joined"));
        calls(two, 9_000, "call-1", "client")
    };
    holds(&scripted(None), owner_can_run);
    holds(&scripted(Some(9_000 - 2 * MOMENT + 1)), owner_can_run);
    assert_eq!(violations(&scripted(Some(9_000 - 2 * MOMENT)), owner_can_run).len(), 1);
    let parted = |part| {
        saw(
            saw(scripted(Some(100)), 7_000, "client2", "s1", part),
            8_990,
            "client2",
            "s1",
            "joined",
        )
    };
    assert_eq!(violations(&parted("state changed"), owner_can_run).len(), 1);
    holds(&parted("left"), owner_can_run);
}

#[test]
fn stable_states_are_equal() {
    let scripted = |known: &str| {
        let scripted = saw(
            saw(here_until(None), 1_000, "server", "c1", "state changed"),
            1_200,
            "server",
            "c1",
            "state stable: aa",
        );
        saw(scripted, 1_210, "client", "c1", &format!("state stable: {known}")).horizon(20_000)
    };
    holds(&scripted("aa"), replicas_converge);
    assert_eq!(
        violations(&scripted("bb"), replicas_converge),
        [
            "c1: the state that the window of client has had since 1.210 s differs from the state that the host has had since 1.200 s (at 20.000 s)"
        ]
    );
    holds(&scripted("bb").kills(1_300, 19_500), replicas_converge);
    let gone = saw(
        saw(scripted("aa"), 5_000, "server", "c1", "state changed"),
        5_200,
        "server",
        "c1",
        "removed",
    );
    assert_eq!(violations(&gone, replicas_converge).len(), 1);
    holds(&saw(gone, 5_100, "client", "c1", "removed"), replicas_converge);
    assert_eq!(
        violations(
            &saw(scripted("bb"), 10_000, "client", "c1", "state stable: aa"),
            replicas_converge
        )
        .len(),
        1
    );
}

#[test]
fn a_dead_client_loses_its_state() {
    let scripted = || {
        let scripted = saw(
            saw(here_until(None), 1_000, "server", "c1", "state changed"),
            1_200,
            "server",
            "c1",
            "state stable: aa",
        );
        saw(scripted, 1_210, "client", "c1", "state stable: aa").horizon(20_000)
    };
    let truth = |scripted, digest: &str| {
        saw(
            saw(scripted, 3_000, "server", "c1", "state changed"),
            3_200,
            "server",
            "c1",
            &format!("state stable: {digest}"),
        )
    };
    assert_eq!(violations(&truth(scripted(), "bb"), replicas_converge).len(), 1);
    holds(
        &truth(scripted().died("client", 2_000).started("client", 2_500), "bb"),
        replicas_converge,
    );
    let known = |scripted| saw(scripted, 4_000, "client", "c1", "state stable: bb");
    assert_eq!(violations(&known(scripted()), replicas_converge).len(), 1);
    holds(&known(scripted().died("server", 2_000).started("server", 2_500)), replicas_converge);
}

#[test]
fn a_client_that_missed_little_gets_a_replay() {
    let connected = milestone(
        here_until(Some(5_000)),
        40,
        "client",
        "toolcall.client.connected",
        &[("generation", "1")],
    );
    let scripted = milestone(
        connected.conn(2, 6_000, None),
        6_010,
        "server",
        "toolcall.host.reseated",
        &[("conn", "2"), ("client", "client")],
    );
    assert_eq!(
        violations(&scripted, replay_is_used),
        [
            "client: it received snapshots, although the host still keeps all actions that it missed (at 6.010 s)"
        ]
    );
    let unheard = milestone(
        here_until(Some(5_000)).conn(2, 6_000, None),
        6_010,
        "server",
        "toolcall.host.reseated",
        &[("conn", "2"), ("client", "client")],
    );
    holds(&unheard, replay_is_used);
}

#[test]
fn a_refused_action_does_not_happen_and_no_action_happens_twice() {
    let scripted =
        history().asked_as(7, 100, Class::Durable, "start-turn", "{}").effect(7, 200, "c1");
    holds(&scripted.clone().answered(7, 300, "began t1"), actions_once);
    assert_eq!(
        violations(
            &scripted.clone().answered(7, 300, rejected("a turn with that id already exists")),
            actions_once
        ),
        [
            "call 7: it took effect at 0.200 s, but its user received a refusal (refused: a turn with that id already exists; at 0.300 s)"
        ]
    );
    let titles = |third: &str| {
        let asked = scripted.clone().by("client2").asked_as(8, 100, Class::Durable, "rename", "{}");
        let scripted = saw(
            saw(asked, 1_000, "client", "s1", "title client 7"),
            2_000,
            "client",
            "s1",
            "title client2 8",
        );
        saw(scripted, 3_000, "client", "s1", &format!("title {third}"))
    };
    assert_eq!(
        violations(&titles("client 7"), actions_once),
        ["s1: client saw the title `client 7` again (at 3.000 s)"]
    );
    holds(&titles("client 9"), actions_once);
    // For a forgotten action, the host can only answer that it cannot perform the action twice.
    let forgotten = || {
        milestone(
            scripted.clone(),
            250,
            "server",
            "toolcall.host.forgotten",
            &[("client", "client")],
        )
    };
    holds(
        &forgotten().answered(7, 300, rejected("a turn with that id already exists")),
        actions_once,
    );
    let another = milestone(
        scripted.clone(),
        250,
        "server",
        "toolcall.host.forgotten",
        &[("client", "client2")],
    );
    assert_eq!(
        violations(
            &another.answered(7, 300, rejected("a turn with that id already exists")),
            actions_once
        )
        .len(),
        1
    );
}

#[test]
fn operations_of_one_window_happen_in_order() {
    let asked = history().asked_as(1, 100, Class::Durable, "rename", "{}").asked_as(
        2,
        200,
        Class::InFlight,
        "new-chat",
        "{}",
    );
    let seen = |first: &str, then: &str| {
        saw(saw(asked.clone(), 1_000, "client2", "s1", first), 1_010, "client2", "s1", then)
    };
    holds(&seen("title client 1", "contains chat n2"), in_order);
    assert_eq!(
        violations(&seen("contains chat n2", "title client 1"), in_order),
        ["call 1: it took effect after call 2, which client requested later (at 1.010 s)"]
    );
    holds(
        &asked.clone().answered(1, 500, Did::Named("client 1".into())).answered(
            2,
            500,
            Did::Made("n2".into()),
        ),
        in_order,
    );
    assert_eq!(
        violations(
            &asked.clone().answered(2, 500, Did::Made("n2".into())).answered(
                1,
                500,
                Did::Named("client 1".into())
            ),
            in_order
        ),
        ["call 1: it was answered after call 2, which was requested later (at 0.500 s)"]
    );
    // The client learns a lost answer from a repetition. The user saw the effect before.
    let repeated = |seen_at| {
        let scripted = asked.clone().answered(2, 500, Did::Made("n2".into()));
        let scripted = scripted.answered(1, 510, Did::Named("client 1".into()));
        violations(&saw(scripted, seen_at, "client", "s1", "title client 1"), in_order).len()
    };
    assert_eq!((repeated(490), repeated(505)), (0, 1));
    // A later title shows that the title before it took effect.
    let renamed = |seen_at| {
        let scripted = asked.clone().asked_as(3, 250, Class::Durable, "rename", "{}");
        let scripted = scripted.asked_as(4, 260, Class::Durable, "rename", "{}");
        let scripted = scripted.answered(4, 500, Did::Named("client 4".into()));
        let scripted = scripted.answered(1, 510, Did::Named("client 1".into()));
        violations(&saw(scripted, seen_at, "client", "s1", "title client 3"), in_order).len()
    };
    assert_eq!((renamed(490), renamed(505)), (0, 1));
    // An operation that was in flight when its connection was lost may take effect at any time.
    let lost = asked.clone().failed(1, 300, "lost");
    holds(
        &saw(
            saw(lost, 1_000, "client2", "s1", "contains chat n2"),
            1_010,
            "client2",
            "s1",
            "title client 1",
        ),
        in_order,
    );
    // The operations of the previous window have a separate order.
    let reloaded = history().asked_as(1, 100, Class::Durable, "rename", "{}").asked_as(
        2,
        150,
        Class::Durable,
        "reload",
        "{}",
    );
    let reloaded = reloaded.asked_as(3, 200, Class::InFlight, "new-chat", "{}");
    holds(
        &saw(
            saw(reloaded, 1_000, "client2", "s1", "contains chat n3"),
            1_010,
            "client2",
            "s1",
            "title client 1",
        ),
        in_order,
    );
    let restarted = |host| {
        let scripted = history()
            .asked_as(1, 100, Class::Durable, "rename", "{}")
            .died(host, 120)
            .started(host, 130);
        let scripted = scripted.asked_as(2, 200, Class::InFlight, "new-chat", "{}");
        saw(
            saw(scripted, 1_000, "client2", "s1", "contains chat n2"),
            1_010,
            "client2",
            "s1",
            "title client 1",
        )
    };
    holds(&restarted("client"), in_order);
    assert_eq!(violations(&restarted("client3"), in_order).len(), 1);
    // A host that forgets the outcome of a call may perform it again.
    let scripted = |asked: ScriptedRun| {
        saw(
            saw(asked, 1_000, "client2", "s1", "contains chat n2"),
            1_010,
            "client2",
            "s1",
            "title client 1",
        )
    };
    let forgets = |client| {
        scripted(milestone(
            asked.clone(),
            500,
            "server",
            "toolcall.host.forgotten",
            &[("client", client)],
        ))
    };
    holds(&forgets("client"), in_order);
    assert_eq!(violations(&forgets("client3"), in_order).len(), 1);
}

#[test]
fn an_accepted_forgery_is_reported() {
    let scripted = history().asked_as(1, 100, Class::Durable, "forge", "{}");
    holds(&scripted.clone().answered(1, 200, rejected("only the host may do that")), authority);
    assert_eq!(violations(&scripted.answered(1, 200, Did::Forged), authority).len(), 1);
}

#[test]
fn a_believed_false_claim_is_reported() {
    let scripted = history().asked_as(1, 100, Class::InFlight, "claim", r#"{"what":"the-future"}"#);
    holds(&scripted.clone().answered(1, 200, "given snapshots"), claims_are_checked);
    assert_eq!(
        violations(&scripted.answered(1, 200, Did::CaughtUp), claims_are_checked),
        [
            "call 1: a client made the false claim the-future, but was caught up by a replay (at 0.200 s)"
        ]
    );
}

/// The host refuses the third action of the client.
fn refused(scripted: ScriptedRun, ms: u64) -> ScriptedRun {
    let fields = [("client", "client"), ("channel", "c1"), ("seq", "3")];
    milestone(scripted, ms, "server", "toolcall.host.rejected", &fields)
}

#[test]
fn a_client_receives_a_refusal() {
    let scripted = || refused(here_until(None), 1_000).end(90_000);
    let heard = |seq| {
        milestone(
            scripted(),
            1_010,
            "client",
            "toolcall.client.rejected",
            &[("channel", "c1"), ("seq", seq)],
        )
    };
    holds(&heard("3"), rejections_are_handled);
    assert_eq!(
        violations(&scripted(), rejections_are_handled),
        [
            "client: its action 3 in c1 was refused at 1.000 s, but the client did not receive the refusal (by 1.620 s)"
        ]
    );
    assert_eq!(violations(&heard("2"), rejections_are_handled).len(), 1);
    let gone = |client, channel| {
        milestone(scripted(), 990, client, "toolcall.client.gone", &[("channel", channel)])
    };
    holds(&gone("client", "c1"), rejections_are_handled);
    assert_eq!(violations(&gone("client", "s1"), rejections_are_handled).len(), 1);
    assert_eq!(violations(&gone("client2", "c1"), rejections_are_handled).len(), 1);
    let let_go = saw(scripted(), 1_005, "client", "c1", "unsubscribed");
    assert_eq!(
        violations(&let_go, rejections_are_handled).len(),
        1,
        "its client hears of it whatever it looks at"
    );
    holds(&scripted().asked_as(1, 1_005, Class::Durable, "reload", "{}"), rejections_are_handled);
}

/// The host forgot its decision before its client received it.
#[test]
fn a_forgotten_refusal_may_be_decided_again() {
    let lost = || refused(here_until(Some(1_000)).kills(1_000, 1_100), 1_000).horizon(90_000);
    assert_eq!(violations(&lost(), rejections_are_handled).len(), 1);
    let forgotten = |client| {
        milestone(lost(), 20_000, "server", "toolcall.host.forgotten", &[("client", client)])
    };
    holds(&forgotten("client"), rejections_are_handled);
    assert_eq!(violations(&forgotten("client2"), rejections_are_handled).len(), 1);
    assert_eq!(
        violations(&refused(forgotten("client"), 30_000), rejections_are_handled).len(),
        1,
        "it refuses it again"
    );
    let died = || lost().died("server", 20_000).started("server", 20_500);
    holds(&died(), rejections_are_handled);
    assert_eq!(violations(&refused(died(), 30_000), rejections_are_handled).len(), 1);
    let at_its_death =
        refused(here_until(Some(20_000)).died("server", 20_000), 20_000).started("server", 20_500);
    holds(&at_its_death.horizon(90_000), rejections_are_handled);
}

#[test]
fn a_client_reconnects() {
    let connected = |scripted, ms| {
        milestone(scripted, ms, "client", "toolcall.client.connected", &[("generation", "2")])
    };
    let lost = |ms| {
        milestone(
            history().kills(1_000, 9_000),
            ms,
            "client",
            "toolcall.client.lost",
            &[("generation", "1")],
        )
    };
    holds(&connected(lost(1_000).horizon(90_000), 9_000 + BACK), client_comes_back);
    assert_eq!(
        violations(&lost(1_000).horizon(90_000), client_comes_back),
        ["client: it had not reconnected by 55.620 s, and was disconnected since 1.000 s"]
    );
    holds(&lost(1_000).horizon(9_000 + BACK), client_comes_back);
    let scripted = |scripted: ScriptedRun| {
        scripted.asked_as(1, 100, Class::Durable, "start-turn", "{}").answered(
            1,
            200,
            rejected("a token is required"),
        )
    };
    assert_eq!(violations(&scripted(looks(history(), 50, "client")), client_comes_back).len(), 1);
    holds(&scripted(history()), client_comes_back); // it was asked before it had moved in
}

#[test]
fn a_healthy_connection_is_kept() {
    let connected =
        milestone(history(), 100, "client", "toolcall.client.connected", &[("generation", "1")]);
    let lost = |scripted| {
        milestone(scripted, 50_000, "client", "toolcall.client.lost", &[("generation", "1")])
    };
    assert_eq!(
        violations(&lost(connected.clone()), healthy_is_kept),
        ["client: it lost its connection, although no fault touched the connection (at 50.000 s)"]
    );
    holds(&lost(connected.kills(49_000, 51_000)), healthy_is_kept);
}

#[test]
fn a_fault_of_a_generation_may_affect_a_later_connection_with_the_same_number() {
    let lost = |conn: Conn| {
        let what = Fault::CutAfter(faults::CutAfter {
            conn,
            toward: "client".into(),
            count: TrafficCount::Messages(12),
            learns: BTreeMap::new(),
        });
        let scope = Scope { conns: vec![ConnIndex(0)], ..Scope::default() };
        let scripted = history().conn(1, 10, Some(5_000)).fault_in(
            1_000,
            Some(90_000),
            Nature::Kills,
            what,
            scope,
        );
        let scripted = scripted.conn(1, 6_000, Some(90_000));
        let scripted = milestone(
            scripted,
            6_100,
            "client",
            "toolcall.client.connected",
            &[("generation", "1")],
        );
        milestone(scripted, 90_000, "client", "toolcall.client.lost", &[("generation", "1")])
            .horizon(99_000)
    };
    let named = |which| Conn { host: "client".into(), label: None, which };
    holds(&lost(named(Which::Generation(1))), healthy_is_kept);
    assert_eq!(violations(&lost(named(Which::Last)), healthy_is_kept).len(), 1);
}

#[test]
fn a_question_ends_with_its_connection() {
    let asked =
        |over| saw(here_until(over), 1_000, "server", "t1", "agent: question-1 asks client");
    let heard = |scripted, ms| {
        saw(scripted, ms, "server", "t1", "agent: question-1 receives no answer: lost")
    };
    holds(&heard(asked(Some(5_000)), 5_000 + MOMENT), requests_settle);
    assert_eq!(
        violations(&heard(asked(Some(5_000)), 5_001 + MOMENT), requests_settle),
        ["t1: the request that the host sent to client at 1.000 s had not ended by 5.620 s"]
    );
    holds(&heard(asked(None), 31_000 + MOMENT), requests_settle);
    assert_eq!(violations(&heard(asked(None), 31_001 + MOMENT), requests_settle).len(), 1);
}

#[test]
fn a_restore_ends_in_time_unless_its_channel_is_removed() {
    let wording =
        |scripted, ms, name| milestone(scripted, ms, "server", name, &[("channel", "c2")]);
    let mut scripted = history();
    scripted.plan.setup.insert(
        "channel".to_owned(),
        serde_json::json!({ "c2": { "restores": "20s", "restores-again": "0ms" } }),
    );
    let begun = wording(scripted, 1_000, "toolcall.host.restoring");
    assert_eq!(
        violations(&begun, requests_settle),
        ["c2: its restore began at 1.000 s, and had not ended by 11.620 s"]
    );
    let gone = wording(begun.clone(), 2_000, "toolcall.host.removed");
    holds(&gone, requests_settle);
    holds(&wording(gone, 3_000, "toolcall.host.restoring"), requests_settle); // it finds nothing at once, and says nothing
    holds(&wording(begun, 11_000, "toolcall.host.restore-late"), requests_settle);
}
