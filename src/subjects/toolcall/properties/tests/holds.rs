//! Tests of what clients hold: channels that are released, and chats that stay in memory.

use super::super::presence::{holds_are_exact, released_at_once};
use super::*;

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
    let asks = r#"{"chat":"c1"}"#;
    let reported = late().asked_as(2, 4_000, Class::Durable, "report-result", asks);
    holds(&reported, released_at_once); // the result waits for consent
    let none = reported.answered(2, 4_000, Answer::refused("the window has no such call"));
    assert_eq!(violations(&none, released_at_once).len(), 1);
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
    // A window that was reloaded with its id meanwhile begins anew.
    let reloaded = |ms| {
        let back = accepted(gone().conn(2, 5_500, None), 5_510, "2");
        away(back.asked_as(2, ms, Class::Durable, "reload", r#"{"keeps-id":true}"#))
    };
    assert_eq!((reloaded(4_950), reloaded(5_400), reloaded(5_511)), (1, 0, 1));
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
