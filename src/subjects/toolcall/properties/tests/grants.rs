//! Tests of the properties about what the host confirms, stores and lists, and about places, news and
//! attempts.

use super::super::attempts::{pauses_are_right, silent_is_closed};
use super::super::calls::unowned_fails;
use super::super::grants::confirmed_is_done;
use super::super::places::{news_are_wanted, places_are_wanted};
use super::super::storage::{ended_is_stored, entries_are_true};
use super::*;
use crate::schedule::LimitValue;

fn note(scripted: ScriptedRun, ms: u64, host: &str, about: &str, what: OfChannel) -> ScriptedRun {
    let saw = Data::of(what);
    scripted.entry(ms, Some(host), EventKind::Observed { stream: about.into(), saw })
}

fn asks(verb: &str, fields: &str) -> ScriptedRun {
    here_until(None).asked_as(2, 5_000, Class::InFlight, verb, fields)
}

#[test]
fn a_confirmed_request_has_changed_the_storage() {
    let made = || asks("new-chat", "{}").answered(2, 5_100, Did::Made("n2".into()));
    assert_eq!(
        violations(&made(), confirmed_is_done),
        ["call 2: the host confirmed it (made n2), but n2 was not created (at 5.100 s)"]
    );
    holds(&note(made(), 5_050, "server", "n2", OfChannel::Stored), confirmed_is_done);
    let disposed = || asks("dispose-chat", r#"{"chat":"c1"}"#).answered(2, 5_100, "disposed of");
    assert_eq!(violations(&disposed(), confirmed_is_done).len(), 1);
    holds(&note(disposed(), 5_050, "server", "c1", OfChannel::Deleted), confirmed_is_done);
}

#[test]
fn a_channel_that_a_user_sees_exists() {
    let sees = |scripted: ScriptedRun| {
        let asked = scripted.asked_as(2, 5_000, Class::InFlight, "watch", r#"{"chat":"c2"}"#);
        asked.answered(2, 5_100, "sees c2")
    };
    assert_eq!(
        violations(&sees(here_until(None)), confirmed_is_done),
        ["call 2: the host confirmed it (sees c2), but c2 did not exist (at 5.100 s)"]
    );
    let stored = || note(here_until(None), 4_000, "server", "c2", OfChannel::Stored);
    holds(&sees(stored()), confirmed_is_done);
    let deleted = |ms| note(stored(), ms, "server", "c2", OfChannel::Deleted);
    holds(&sees(deleted(5_000)), confirmed_is_done);
    assert_eq!(violations(&sees(deleted(4_999)), confirmed_is_done).len(), 1);
}

#[test]
fn a_confirmed_turn_has_begun_and_its_window_has_a_token() {
    let starts = |scripted: ScriptedRun| {
        let began = note(scripted, 8_050, "server", "c1", OfChannel::TurnBegan("t2".into()));
        let asked = began.asked_as(3, 8_000, Class::Durable, "start-turn", r#"{"turn":"t2"}"#);
        asked.answered(3, 8_100, Did::Began("t2".into()))
    };
    holds(&starts(here_until(None)), confirmed_is_done);
    let with = |token: &str| starts(asks("send-token", &format!(r#"{{"token":"{token}"}}"#)));
    holds(&with("right"), confirmed_is_done);
    assert_eq!(
        violations(&with("none"), confirmed_is_done),
        [
            "call 3: the host confirmed it (began t2), but the last token of its window was none (at 8.100 s)"
        ]
    );
    let never = here_until(None)
        .asked_as(3, 8_000, Class::Durable, "start-turn", r#"{"turn":"t2"}"#)
        .answered(3, 8_100, Did::Began("t2".into()));
    assert_eq!(violations(&never, confirmed_is_done).len(), 1);
}

#[test]
fn a_confirmed_title_is_seen() {
    let named = || asks("rename", r#"{"title":"A"}"#).answered(2, 5_100, Did::Named("A".into()));
    assert_eq!(violations(&named(), confirmed_is_done).len(), 1);
    holds(&saw(named(), 5_100, "client", "s1", "title A"), confirmed_is_done);
    holds(&saw(named(), 4_000, "client", "s1", "title A"), confirmed_is_done);
    let earlier = |answer: Answer| {
        let asked = named().asked_as(3, 4_000, Class::Durable, "rename", r#"{"title":"B"}"#);
        asked.answered(3, 4_100, answer)
    };
    holds(&earlier(Answer::GivenUp), confirmed_is_done); // it may still take effect
    assert_eq!(violations(&earlier(rejected("no")), confirmed_is_done).len(), 1);
    let repeated = |back: u64, outcomes: u64| {
        let run = accepted(earlier("named".into()).conn(2, back - 10, None), back, "2");
        let mut run = run;
        run.plan.limits.set("host.outcomes", LimitValue::Count(outcomes));
        violations(&run, confirmed_is_done).len()
    };
    assert_eq!((repeated(4_050, 1), repeated(4_050, 256)), (0, 1));
    assert_eq!(repeated(3_950, 1), 1, "it was not sent again");
}

#[test]
fn a_turn_is_stored_before_its_end_is_seen() {
    let stored = || note(history(), 900, "server", "c1", OfChannel::TurnStored("t1".into()));
    holds(&stored().completed("t1", 1_000, "over"), ended_is_stored);
    assert_eq!(
        violations(&history().completed("t1", 1_000, "over"), ended_is_stored),
        ["t1: client saw its end, but the host's storage did not contain it (at 1.000 s)"]
    );
}

#[test]
fn an_entry_is_the_summary_of_its_chat() {
    holds(&history(), entries_are_true);
    let differs = note(history(), 900, "server", "s1", OfChannel::EntryDiffers("c1".into()));
    assert_eq!(violations(&differs, entries_are_true).len(), 1);
}

#[test]
fn a_call_without_an_owner_fails_at_once() {
    let call = || calls(here_until(None), 1_000, "call-1", "");
    holds(&over(call(), 1_000 + AT_ONCE, "failed (gone)"), unowned_fails);
    assert_eq!(violations(&over(call(), 1_101, "failed (gone)"), unowned_fails).len(), 1);
    holds(&calls(here_until(None), 1_000, "call-1", "client"), unowned_fails);
}

#[test]
fn a_window_that_left_takes_no_part_by_itself() {
    let leaves = || {
        let left = asks("unwatch", r#"{"channel":"s1"}"#);
        saw(left, 5_000, "client", "s1", "unsubscribed")
    };
    let again = |fields: &str| {
        let asked = leaves().asked_as(3, 6_000, Class::InFlight, "watch", fields);
        saw(saw(asked, 6_100, "client", "s1", "state received"), 6_100, "client", "s1", "joined")
    };
    holds(&again(r#"{"chat":"s1"}"#), places_are_wanted);
    assert_eq!(
        violations(&again(r#"{"chat":"s1","looks-only":true}"#), places_are_wanted).len(),
        1
    );
    // An earlier handshake named the session, and the host does not know that it is over.
    let arrives = |from| {
        let run = again(r#"{"chat":"s1","looks-only":true}"#).conn(2, 4_000, None);
        let fields = [("conn", "2"), ("client", "client")];
        milestone(run, from, "server", "toolcall.host.arriving", &fields)
    };
    holds(&arrives(4_900), places_are_wanted);
    assert_eq!(violations(&arrives(6_101), places_are_wanted).len(), 1);
    let given_up = |ms| {
        milestone(arrives(4_900), ms, "server", "toolcall.host.no-handshake", &[("conn", "2")])
    };
    holds(&given_up(5_001), places_are_wanted);
    assert_eq!(violations(&given_up(5_000), places_are_wanted).len(), 1);
}

#[test]
fn no_news_of_a_channel_follow_its_unsubscription() {
    let news = |ms| {
        let left =
            saw(asks("unwatch", r#"{"channel":"c1"}"#), 5_000, "client", "c1", "unsubscribed");
        milestone(left, ms, "client", "toolcall.client.unwanted", &[("channel", "c1")])
    };
    holds(&news(5_000 + MOMENT), news_are_wanted);
    assert_eq!(violations(&news(5_001 + MOMENT), news_are_wanted).len(), 1);
}

#[test]
fn no_action_follows_an_answer_that_includes_it() {
    let fields = [("channel", "c1"), ("number", "7"), ("included", "9")];
    let run = milestone(here_until(None), 5_000, "client", "toolcall.client.overtaken", &fields);
    assert_eq!(
        violations(&run, news_are_wanted),
        [
            "client: it received the action 7 of c1 over a connection on which an answer had included all actions up to 9 (at 5.000 s)"
        ]
    );
}

/// The host may answer a request that was made before the removal with a newer chat.
#[test]
fn no_news_of_a_chat_follow_its_removal() {
    let news = |scripted: ScriptedRun, ms| {
        let removed = saw(scripted, 5_000, "client", "c1", "removed");
        milestone(removed, ms, "client", "toolcall.client.unwanted", &[("channel", "c1")])
    };
    holds(&news(here_until(None), 5_000 + MOMENT), news_are_wanted);
    assert_eq!(violations(&news(here_until(None), 5_001 + MOMENT), news_are_wanted).len(), 1);
    let asks_at =
        |ms| here_until(None).asked_as(2, ms, Class::InFlight, "watch", r#"{"chat":"c1"}"#);
    holds(&news(asks_at(4_900), 6_000), news_are_wanted);
    holds(&news(asks_at(5_500), 6_000), news_are_wanted);
    let answered = || asks_at(4_900).answered(2, 4_950, "sees c1");
    assert_eq!(violations(&news(answered(), 6_000), news_are_wanted).len(), 1);
    let received = saw(news(answered(), 6_000), 5_001, "client", "c1", "state received");
    holds(&received, news_are_wanted);
}

/// The host reports the removal of a chat to a window that watches only the chat. A fault may delay
/// the report.
#[test]
fn a_removal_of_a_watched_chat_is_wanted() {
    let left =
        || saw(asks("unwatch", r#"{"channel":"s1"}"#), 5_000, "client", "s1", "unsubscribed");
    let deleted = |scripted| note(scripted, 9_000, "server", "c1", OfChannel::Deleted);
    let news = |scripted, ms| {
        let fields = [("channel", "s1")];
        milestone(deleted(scripted), ms, "client", "toolcall.client.unwanted", &fields)
    };
    holds(&news(left(), 9_000 + MOMENT), news_are_wanted);
    assert_eq!(violations(&news(left(), 9_001 + MOMENT), news_are_wanted).len(), 1);
    holds(&news(left().partition(8_500, Some(10_500)), 12_000), news_are_wanted);
    let unwatched = || saw(left(), 8_000, "client", "c1", "unsubscribed");
    assert_eq!(violations(&news(unwatched(), 9_000), news_are_wanted).len(), 1);
    let asks_again = || {
        let fields = r#"{"chat":"c1"}"#;
        unwatched().asked_as(3, 8_900, Class::InFlight, "watch", fields).answered(3, 9_000, "seen")
    };
    holds(&news(asks_again(), 9_000), news_are_wanted);
}

#[test]
fn a_long_connection_is_followed_by_an_attempt_at_once() {
    let opened = |scripted, ms, n: &str| {
        let fields = [("generation", n), ("conn", n), ("client", "client")];
        let opened = milestone(scripted, ms, "client", "toolcall.client.opened", &fields);
        milestone(opened, ms, "client", "toolcall.client.connected", &[("generation", n)])
    };
    let next = |ms| opened(history().conn(1, 10, Some(50_000)), 20, "1").conn(2, ms, None);
    holds(&next(50_100), pauses_are_right);
    assert_eq!(violations(&next(50_101), pauses_are_right).len(), 1);
    let short = |ms| history().conn(1, 10, Some(50)).conn(2, 50, Some(60)).conn(3, ms, None);
    holds(&short(600), pauses_are_right);
    assert_eq!(violations(&short(500), pauses_are_right).len(), 1);
    assert_eq!(violations(&short(1_200), pauses_are_right).len(), 1);
}

#[test]
fn a_silent_connection_is_closed_at_its_deadline() {
    let silent = |over| history().conn_labelled("silent", 1, 1_000, over);
    holds(&silent(Some(16_000 + MOMENT)), silent_is_closed);
    assert_eq!(violations(&silent(None), silent_is_closed).len(), 1);
}

#[test]
fn a_new_session_is_announced_to_each_second_connection() {
    let run = |opened: u64| {
        let two =
            accepted(here_until(None).conn_labelled("second", 1, opened, None), opened + 10, "2");
        let asked = two.asked_as(2, 5_000, Class::InFlight, "create-session", r#"{"name":"s2"}"#);
        let stored = note(asked, 5_050, "server", "s2", OfChannel::Stored);
        stored.answered(2, 5_100, "created s2")
    };
    let announced = |scripted, ms| {
        let summary = serde_json::json!({});
        note(scripted, ms, "client", "s2", OfChannel::Announced(summary))
    };
    assert_eq!(
        violations(&run(1_000), confirmed_is_done),
        [
            "call 2: the host confirmed it (created s2), but s2 was not announced to each second connection of client (at 5.100 s)"
        ]
    );
    holds(&announced(run(1_000), 5_060), confirmed_is_done);
    assert_eq!(violations(&announced(run(1_000), 4_900), confirmed_is_done).len(), 1);
    holds(&run(4_900), confirmed_is_done); // it may have come too late
    holds(&run(1_000).kills(5_010, 5_020), confirmed_is_done);
    let two = accepted(run(1_000).conn_labelled("second", 2, 2_000, None), 2_010, "3");
    assert_eq!(violations(&announced(two, 5_060), confirmed_is_done).len(), 1);
}
