//! Tests of who is absent: calls that fail, clients that return, and the places that they keep.

use super::super::presence::{gone_is_failed, no_live_client_failed, returning_keeps};
use super::*;
use crate::history::{Nature, Scope};
use crate::schedule::{Conn, Fault, LimitValue, faults};
use crate::subjects::toolcall::answers::ToolcallFailure;
use reknit_toolcall::client::Failure;

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

/// A fault may hide from a window that its chat was removed and made again. Its connection is not
/// subscribed to the newer chat.
#[test]
fn a_window_that_watches_the_removed_chat_does_not_watch_the_newer_one() {
    let run = |looked| looks(accepted(history().conn(1, 10, None), 20, "1"), looked, "client");
    let call = |run, ms| failed(calls(run, 20_000, "call-1", "client"), ms, "client");
    let found = |run| violations(&call(run, 40_000), no_live_client_failed).len();
    assert_eq!(found(remade(run(30), 10_000)), 0);
    assert_eq!(found(remade(run(30), 40_001)), 1);
    let sent = 5_000 - MOMENT;
    assert_eq!(found(remade(run(5_000), sent)), 0, "its state may have been on its way");
    assert_eq!(found(remade(run(5_000), sent - 1)), 1);
    let fields = [("chat", "c1"), ("call", "call-1"), ("owner", "client"), ("away", "0")];
    let returns = |run: ScriptedRun| {
        let run = accepted(run.conn(2, 10_900, None), 11_000, "2");
        let run = milestone(run, 11_000, "server", "toolcall.host.call-failed", &fields);
        violations(&run, returning_keeps)
    };
    assert_eq!(
        returns(here_until(Some(10_000))),
        ["call-1: the host failed it as its owner client returned and named c1 (at 11.000 s)"]
    );
    assert_eq!(returns(remade(here_until(Some(10_000)), 10_500)), Vec::<String>::new());
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
            "t1: call-1 had not ended by 40.100 s, although its owner client was absent since 10.000 s: 10.000 s + 30s grace + 100ms"
        ]
    );
    holds(&scripted().ended("t1", 20_000, "over"), gone_is_failed);
    holds(&scripted().died("server", 20_000), gone_is_failed);
    let given_up =
        saw(scripted(), bound, "server", "t1", "agent: call-1 is abandoned by its agent");
    holds(&given_up, gone_is_failed);
    let asks = r#"{"chat":"c1"}"#;
    let reported = scripted().asked_as(2, 5_000, Class::Durable, "report-result", asks);
    holds(&over(reported, bound + 1, "failed (gone)"), gone_is_failed); // it waits for consent
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
    assert_eq!(
        violations(&over(scripted, bound + 1, "failed (gone)"), gone_is_failed),
        [
            "t1: call-1 had not ended by 65.620 s, although its owner client was absent since 10.000 s: 10.000 s + 25s detection + 30s grace + 620ms"
        ]
    );
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

/// A fault may hold a client's last message until after the client's end is over. The host's
/// silence begins when that message arrives.
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

/// A client that is back has a grace period to subscribe, unless it gives up its place.
#[test]
fn a_client_that_is_back_has_a_grace_period() {
    let back = || {
        let run = here_until(Some(10_000)).conn(2, 14_900, None);
        let reloads = r#"{"keeps-id":true}"#;
        let run = run.asked_as(2, 10_000, Class::Durable, "reload", reloads);
        let run = saw(run, 10_000, "client", "s1", "unsubscribed");
        accepted(saw(run, 10_000, "client", "c1", "unsubscribed"), 15_000, "2")
    };
    let placed = |run, ms| {
        let fields = [("session", "s1"), ("client", "client")];
        milestone(run, ms, "server", "toolcall.host.deactivated", &fields)
    };
    let lost = |run, ms| violations(&placed(run, ms), returning_keeps).len();
    holds(&placed(back(), 15_000 + GRACE), returning_keeps);
    assert_eq!(
        violations(&placed(back(), 14_999 + GRACE), returning_keeps),
        [
            "client: it lost its place in the session at 44.999 s, although it was back only since 15.000 s"
        ]
    );
    let fields = [("chat", "c1"), ("call", "call-1"), ("owner", "client"), ("away", "0")];
    let fails = |ms| milestone(back(), ms, "server", "toolcall.host.call-failed", &fields);
    holds(&fails(15_000 + GRACE), returning_keeps);
    assert_eq!(violations(&fails(14_999 + GRACE), returning_keeps).len(), 1);
    let asks = |ms, verb: &str, fields: &str| back().asked_as(3, ms, Class::Durable, verb, fields);
    let channel = r#"{"channel":"s1"}"#;
    assert_eq!(lost(asks(14_900, "unwatch", channel), 14_999 + GRACE), 0);
    assert_eq!(lost(asks(14_899, "unwatch", channel), 14_999 + GRACE), 1);
    assert_eq!(lost(asks(9_000, "leave", "{}"), 14_999 + GRACE), 0, "it may repeat that");
    // An older connection did not hold the session.
    let older = || accepted(back().conn(3, 13_900, Some(16_000)), 14_000, "3");
    assert_eq!(lost(older(), 13_999 + GRACE), 1);
    assert_eq!(lost(older(), 14_000 + GRACE), 0);
    let unheard = |ms| {
        let name = "toolcall.client.unanswered";
        milestone(back(), ms, "client", name, &[("method", "subscribe")])
    };
    assert_eq!(lost(unheard(20_000), 14_999 + GRACE), 0);
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

/// The grace period begins with the call, or when the owner is back, and the host knows that.
#[test]
fn calls_of_a_connected_client_that_does_not_watch_fail_after_the_grace_period() {
    let leaves = |scripted, ms| saw(scripted, ms, "client", "c1", "unsubscribed");
    let scripted = |left| calls(leaves(here_until(None), left), 9_000, "call-1", "client");
    let ended = |scripted, ms| over(scripted, ms, "failed (released)");
    let bound = 9_000 + GRACE + MOMENT;
    holds(&ended(scripted(5_000), bound), gone_is_failed);
    assert_eq!(
        violations(&ended(scripted(5_000), bound + 1), gone_is_failed),
        [
            "t1: call-1 had not ended by 39.620 s, although its owner client was connected and did not watch c1 since 9.000 s: 9.000 s + 30s grace + 620ms"
        ]
    );
    let late = |scripted| violations(&ended(scripted, bound + 1), gone_is_failed).len();
    assert_eq!(late(scripted(8_500)), 0, "the host may not know it yet");
    assert_eq!(late(scripted(5_000).kills(20_000, 20_100)), 0, "the connection may be over");
    let asks = r#"{"chat":"c1"}"#;
    let asked = scripted(5_000).asked_as(2, 30_000, Class::InFlight, "watch", asks);
    assert_eq!(late(asked), 0, "it may be subscribed again");
    let reports = scripted(5_000).asked_as(2, 10_000, Class::Durable, "report-result", asks);
    assert_eq!(late(reports), 0, "the result may wait for consent");
    let arrives = scripted(5_000).conn(2, 30_000, None);
    let fields = [("conn", "2"), ("client", "client")];
    let arrives = milestone(arrives, 30_010, "server", "toolcall.host.arriving", &fields);
    assert_eq!(late(arrives), 0, "a handshake may name the chat");
}

#[test]
fn a_user_that_never_left_does_not_see_that_its_client_left() {
    let left = |scripted| saw(scripted, 5_000, "client", "s1", "left");
    assert_eq!(
        violations(&left(here_until(None)), returning_keeps),
        [
            "client: it lost its place in the session at 5.000 s, although it was connected and subscribed to the session"
        ]
    );
    let leaves = here_until(None).asked_as(2, 4_000, Class::Durable, "leave", "{}");
    holds(&left(leaves), returning_keeps);
    holds(&left(here_until(None).kills(4_000, 4_100)), returning_keeps);
    holds(&left(here_until(Some(4_900))), returning_keeps);
    let back = here_until(Some(3_000)).conn(2, 4_000, None);
    holds(&left(accepted(back, 4_100, "2")), returning_keeps); // its grace period had passed
    let unwatched = saw(here_until(None), 4_900, "client", "s1", "unsubscribed");
    holds(&left(unwatched), returning_keeps);
}

/// A host that remembers few outcomes performs a "leave" again if an older connection brings it late.
#[test]
fn a_late_leave_may_end_the_calls_of_a_window_that_takes_part_again() {
    let found = |outcomes: u64, answer: Answer, arrived: u64| {
        let run = history().conn_closed(1, 10, 9_000, Some(5_000)).received(arrived);
        let run = looks(accepted(run, 20, "1"), 30, "client");
        let run = run.asked_as(2, 4_000, Class::Durable, "leave", "{}").conn(2, 5_100, None);
        let run = accepted(run, 5_200, "2").answered(2, 5_300, answer);
        let run = saw(run, 5_300, "client", "s1", "left");
        let run = run.asked_as(3, 6_000, Class::InFlight, "watch", r#"{"chat":"s1"}"#);
        let run = saw(run, 6_100, "client", "s1", "joined");
        let mut run = failed(calls(run, 7_000, "call-1", "client"), 9_000, "client");
        run.plan.limits.set("host.outcomes", LimitValue::Count(outcomes));
        violations(&run, no_live_client_failed).len()
    };
    assert_eq!(found(1, "left".into(), 9_000), 0);
    for outcomes in [8, 256] {
        assert_eq!(
            found(outcomes, "left".into(), 9_000),
            1,
            "the host knows that it is a repetition"
        );
    }
    assert_eq!(found(1, "left".into(), 8_999), 1, "nothing arrives at that moment");
    let gone = || Answer::refused(Data::of(ToolcallFailure(Failure::Gone)));
    assert_eq!(found(256, gone(), 9_000), 0, "it was not sent again");
    assert_eq!(found(256, rejected("no"), 9_000), 1, "the host knows that it refused it");
}

/// A run in which the user leaves at 4.000 s, and the reloaded window has its states at 8.000 s. The
/// "leave" may arrive until 9.000 s. Its connections are the first and, since 5.100 s, the second one.
/// The host fails a call at a moment.
fn left_before_the_reload(fails: u64, change: impl Fn(ScriptedRun) -> ScriptedRun) -> usize {
    let run = history().conn_closed(1, 10, 9_000, Some(5_000)).received(9_000);
    let run = looks(accepted(run, 20, "1"), 30, "client");
    let run = run.asked_as(2, 4_000, Class::Durable, "leave", "{}");
    let run = run.asked_as(3, 5_000, Class::Durable, "reload", r#"{"keeps-id":true}"#);
    let run = saw(run, 5_000, "client", "c1", "unsubscribed");
    let run = saw(run, 5_000, "client", "s1", "unsubscribed");
    let run = run.answered(2, 5_000, Answer::GivenUp).conn(2, 5_100, None);
    let run = calls(accepted(run, 5_200, "2"), 7_000, "call-1", "client");
    let run = failed(looks(change(run), 8_000, "client"), fails, "client");
    violations(&run, no_live_client_failed).len()
}

/// Until the reloaded window joins, its user sees the place of the window before, which left.
#[test]
fn a_late_leave_may_end_the_calls_of_a_reloaded_window_before_it_joins() {
    let found = |ms: u64| left_before_the_reload(ms, |run| run);
    assert_eq!((found(8_000), found(8_000 + MOMENT)), (0, 1));
}

#[test]
fn the_join_of_a_reloaded_window_may_be_late() {
    let stalls = |n, from, to| {
        left_before_the_reload(8_900, |run| {
            let (conn, toward) = (Conn::number("client", n), "server".into());
            let what = Fault::Stall(faults::Stall { conn, toward, lasts: None });
            run.fault_in(from, Some(to), Nature::Kills, what, Scope::default())
        })
    };
    assert_eq!(left_before_the_reload(8_900, |run| run), 1);
    assert_eq!(stalls(2, 8_000, 9_500), 0);
    assert_eq!(stalls(1, 8_000, 9_500), 1, "the leave is late, and not the join");
    assert_eq!(stalls(2, 8_500, 9_500), 1, "the join has arrived");
    assert_eq!(stalls(2, 7_000, 7_600), 0, "it may wait for what the fault lost");
    assert_eq!(stalls(2, 7_000, 7_400), 1, "all has been sent again");
}

#[test]
fn a_reloaded_window_may_not_join_at_all() {
    let asks = |ms, verb: &str, fields: &str| {
        left_before_the_reload(8_900, |run| run.asked_as(4, ms, Class::Durable, verb, fields))
    };
    let session = r#"{"channel":"s1"}"#;
    assert_eq!(asks(7_000, "unwatch", session), 0);
    assert_eq!(asks(7_000, "unwatch", r#"{"channel":"c2"}"#), 1);
    assert_eq!(asks(8_100, "unwatch", session), 1, "it has joined");
    assert_eq!(asks(4_500, "unwatch", session), 1, "it was the window before the reload");
    let again = left_before_the_reload(8_900, |run| {
        let run = run.asked_as(4, 7_000, Class::Durable, "unwatch", session);
        run.asked_as(5, 7_500, Class::InFlight, "watch", r#"{"chat":"s1"}"#)
    });
    assert_eq!(again, 1, "it takes part again");
    let renames = |times: u64, limit: &'static str, most: u64| {
        left_before_the_reload(8_900, |mut run| {
            run.plan.limits.set(limit, LimitValue::Count(most));
            let rename =
                |run: ScriptedRun, n| run.asked_as(n, 7_900, Class::Durable, "rename", "{}");
            (4..4 + times).fold(run, rename)
        })
    };
    assert_eq!([renames(2, "client.unconfirmed", 2), renames(1, "client.unconfirmed", 2)], [0, 1]);
    assert_eq!([renames(2, "client.held", 3), renames(1, "client.held", 3)], [0, 1]);
}

/// The host then fails the call at once, although its tool works on.
#[test]
fn a_reported_result_that_does_not_fit_ends_its_call() {
    let found = |reported: bool, kilobytes: u64, why: &str| {
        let mut run = calls(here_until(None), 1_000, "call-1", "client");
        run.plan.limits.set("host.channel-bytes", LimitValue::Bytes(kilobytes << 10));
        if reported {
            run = run.asked_as(2, 4_000, Class::Durable, "report-result", r#"{"chat":"c1"}"#);
        }
        let what = Became::Over(CallEnd::Failed(why.to_owned()));
        let saw = Data::of(OfCall { by: By::Agent, call: "call-1".to_owned(), what });
        let event = EventKind::Observed { stream: "t1".into(), saw };
        violations(&run.entry(4_100, Some("server"), event), no_live_client_failed).len()
    };
    let long = "the result is too long";
    assert_eq!(found(true, 64, long), 0);
    assert_eq!(found(false, 64, long), 1, "no user reported a result");
    assert_eq!(found(true, 1 << 20, long), 1, "the chat has room");
    assert_eq!(found(true, 64, "gone"), 1, "for another cause");
}

/// A call may begin between the answer that reports its chat as missing and the unsubscription that
/// follows.
#[test]
fn a_window_that_returns_to_a_removed_chat_gives_up_the_newer_one() {
    let fields = [("chat", "c1"), ("call", "call-1"), ("owner", "client"), ("away", "0")];
    let found = |run: ScriptedRun| {
        let run = accepted(run.conn(2, 10_900, None), 11_000, "2");
        let run = calls(run, 11_050, "call-1", "client");
        let run = saw(run, 11_100, "client", "c1", "removed");
        let run = milestone(run, 11_200, "server", "toolcall.host.call-failed", &fields);
        violations(&run, returning_keeps).len()
    };
    assert_eq!(found(here_until(Some(10_000))), 1);
    assert_eq!(found(remade(here_until(Some(10_000)), 9_000)), 0);
}
