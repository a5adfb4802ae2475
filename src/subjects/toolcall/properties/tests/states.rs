//! Tests of `states_are_true`, `views_are_current` and `questions_are_answered`.

use super::super::bounds::limits_hold;
use super::super::questions::questions_are_answered;
use super::super::states::states_are_true;
use super::super::views::views_are_current;
use super::*;
use crate::schedule::LimitValue;
use crate::subjects::toolcall::PROVIDER;
use crate::subjects::toolcall::answers::Reading;
use crate::subjects::toolcall::contents::Contents;
use reknit_toolcall::client::named;
use reknit_toolcall::state::{chat, session};
use reknit_toolcall::wire::SnapshotState;
use reknit_toolcall::wire::ahp::state::{ChatState, SessionActiveClient, SessionState};

fn note(scripted: ScriptedRun, ms: u64, host: &str, about: &str, what: OfChannel) -> ScriptedRun {
    let saw = Data::of(what);
    scripted.entry(ms, Some(host), EventKind::Observed { stream: about.into(), saw })
}

fn has(scripted: ScriptedRun, ms: u64, about: &str, state: SnapshotState) -> ScriptedRun {
    let contents = Some(Contents::of(state));
    let stable = OfChannel::Stable { second: false, digest: "0f".into(), contents, number: None };
    note(scripted, ms, "server", about, stable)
}

fn session_with(change: impl FnOnce(&mut SessionState)) -> SnapshotState {
    let mut state = session::new(PROVIDER, "s1");
    change(&mut state);
    SnapshotState::Session(Box::new(state))
}

fn chat_with(change: impl FnOnce(&mut ChatState)) -> SnapshotState {
    let mut state = chat::new("c1", "c1", "2026-01-01T00:00:00.000Z".into());
    change(&mut state);
    SnapshotState::Chat(Box::new(state))
}

#[test]
fn a_session_has_only_what_users_did() {
    let session = |change: fn(&mut SessionState)| {
        violations(&has(here_until(None), 5_000, "s1", session_with(change)), states_are_true)
    };
    assert_eq!(session(|_| {}), Vec::<String>::new());
    assert_eq!(
        session(|session| session.title = "A".into()),
        ["s1: in the state that the host has, the title is A instead of s1 (at 5.000 s)"]
    );
    assert_eq!(session(|session| session.activity = Some("x".into())).len(), 1);
    assert_eq!(session(|session| session.default_chat = Some("c1".into())).len(), 1);
}

#[test]
fn an_absent_client_has_no_place_after_the_grace_period() {
    let place = |over, ms| {
        let active = SessionActiveClient {
            client_id: "client".to_owned(),
            display_name: None,
            tools: vec![named("t1")],
            customizations: None,
        };
        let session = session_with(|session| session.active_clients.push(active));
        has(here_until(over), ms, "s1", session)
    };
    let bound = 10_000 + GRACE + MOMENT;
    holds(&place(None, bound + 1), states_are_true);
    holds(&place(Some(10_000), bound), states_are_true);
    assert_eq!(
        violations(&place(Some(10_000), bound + 1), states_are_true),
        [
            "s1: in the state that the host has, a place of an absent client is wrong: client (at 40.621 s)"
        ]
    );
    // The host waits for a handshake.
    let fields = [("conn", "2"), ("client", "client")];
    let arrives = place(Some(10_000), bound + 1).conn(2, 39_000, Some(50_000));
    let arrives = milestone(arrives, 39_900, "server", "toolcall.host.arriving", &fields);
    holds(&arrives, states_are_true);
}

#[test]
fn the_first_chat_of_a_session_is_its_default_until_it_is_removed() {
    let stored = |scripted, ms, channel: &str, is_there: bool| {
        let what = if is_there { OfChannel::Stored } else { OfChannel::Deleted };
        note(scripted, ms, "server", channel, what)
    };
    let chat = chat::new("n2", "n2", String::new());
    let listed = |default: Option<&str>| {
        let default = default.map(str::to_owned);
        let entry = session::summary(&chat);
        session_with(|session| {
            session.chats = default.iter().map(|_| entry.clone()).collect();
            session.default_chat = default;
        })
    };
    let first = stored(stored(here_until(None), 2_000, "c1", false), 3_000, "n2", true);
    holds(&has(first.clone(), 4_000, "s1", listed(Some("n2"))), states_are_true);
    assert_eq!(
        violations(&has(first.clone(), 4_000, "s1", listed(None)), states_are_true).len(),
        1
    );
    let removed = stored(first, 5_000, "n2", false);
    holds(&has(removed.clone(), 6_000, "s1", listed(None)), states_are_true);
    assert_eq!(
        violations(&has(removed, 6_000, "s1", listed(Some("n2"))), states_are_true).len(),
        1
    );
}

#[test]
fn the_storage_lists_the_same_chats_as_the_memory() {
    let lists = |chats: &[&str]| {
        let chats = chats.iter().map(|&chat| chat.to_owned()).collect();
        let stored = Some(Contents::of(session_with(|_| {})));
        note(here_until(None), 5_000, "server", "s1", OfChannel::Lists { chats, stored })
    };
    holds(&lists(&[]), states_are_true);
    assert_eq!(
        violations(&lists(&["c1"]), states_are_true),
        [
            "s1: in the state that the host has, the list of chats in the storage is  instead of c1 (at 5.000 s)"
        ]
    );
}

#[test]
fn an_empty_chat_is_idle_and_unchanged() {
    let chat = |change: fn(&mut ChatState)| {
        violations(&has(here_until(None), 5_000, "c1", chat_with(change)), states_are_true)
    };
    assert_eq!(chat(|_| {}), Vec::<String>::new());
    assert_eq!(
        chat(|chat| chat.status = 33),
        ["c1: in the state that the host has, the status is 33 instead of 1 (at 5.000 s)"]
    );
    assert_eq!(chat(|chat| chat.modified_at = "2026-01-01T00:00:01.000Z".into()).len(), 1);
    assert_eq!(chat(|chat| chat.title = "A".into()).len(), 1);
}

#[test]
fn a_user_reads_the_newest_title_of_its_own() {
    let reads = |unconfirmed: bool, title: &str| {
        let named = saw(here_until(None), 1_000, "client", "s1", "title s1");
        let renames = named.asked_as(2, 5_000, Class::Durable, "rename", r#"{"title":"A"}"#);
        let fields = format!(r#"{{"channel":"s1","unconfirmed":{unconfirmed}}}"#);
        let asked = renames.asked_as(3, 6_000, Class::Durable, "read-state", &fields);
        let reading = Reading { text: String::new(), title: Some(title.to_owned()) };
        asked.answered(3, 6_000, Did::Reads(reading))
    };
    holds(&reads(true, "A"), views_are_current);
    holds(&reads(false, "s1"), views_are_current);
    assert_eq!(
        violations(&reads(true, "s1"), views_are_current),
        ["call 3: the window showed the title s1 instead of A (at 6.000 s)"]
    );
    assert_eq!(violations(&reads(false, "A"), views_are_current).len(), 1);
    let answered = reads(true, "s1").answered(2, 5_500, Did::Named("A".into()));
    holds(&answered, views_are_current);
}

#[test]
fn a_question_is_answered_over_a_connection_that_lives() {
    let asked =
        |over| saw(here_until(over), 1_000, "server", "t1", "agent: question-1 asks client");
    let heard = |scripted, ms| {
        saw(scripted, ms, "server", "t1", "agent: question-1 receives no answer: lost")
    };
    assert_eq!(
        violations(&heard(asked(None), 5_000), questions_are_answered),
        [
            "t1: the question to client of 1.000 s had no answer (lost), although the newest connection of the client could carry it (at 5.000 s)"
        ]
    );
    holds(&heard(asked(Some(5_000)), 5_000), questions_are_answered);
}

#[test]
fn a_question_goes_over_the_newest_connection() {
    let asked = |older: Option<u64>, newer: Option<u64>, conn: &str| {
        let two = history().conn(1, 10, older).conn(2, 20, newer);
        let two = accepted(accepted(two, 30, "1"), 40, "2");
        let fields = [("conn", conn), ("client", "client")];
        milestone(two, 5_000, "server", "toolcall.host.asked", &fields)
    };
    assert_eq!(
        violations(&asked(None, None, "1"), questions_are_answered),
        [
            "server: the host asked client over a connection that it accepted at 0.030 s, although it accepted the newest one at 0.040 s (at 5.000 s)"
        ]
    );
    holds(&asked(None, Some(4_000), "1"), questions_are_answered);
    holds(&asked(None, None, "2"), questions_are_answered);
}

#[test]
fn a_user_does_not_wait_for_more_than_the_limit() {
    let waits = |held: u64| {
        let asks = |scripted: ScriptedRun, call: u64| {
            scripted.asked_as(call, 5_000 + call, Class::InFlight, "new-chat", "{}")
        };
        let mut scripted = [2, 3, 4].into_iter().fold(here_until(None), asks);
        scripted.plan.limits.set("client.held", LimitValue::Count(held));
        scripted.answered(2, 6_000, Did::Made("n2".into()))
    };
    holds(&waits(3), limits_hold);
    assert_eq!(
        violations(&waits(2), limits_hold),
        ["client: there are 3 requests that wait, and the limit is 2 (at 6.000 s)"]
    );
}

#[test]
fn a_window_runs_no_more_tools_than_the_limit() {
    let run = |ended: u64| {
        let tool =
            |scripted, ms, what: &str| saw(scripted, ms, "client", "t1", &format!("tool: {what}"));
        let one = tool(here_until(None), 1_000, "call-1 begins");
        let mut two = tool(tool(one, 2_000, "call-2 begins"), ended, "call-1 is stopped");
        two.plan.limits.set("client.running-tools", LimitValue::Count(1));
        two
    };
    holds(&run(2_000), limits_hold);
    assert_eq!(
        violations(&run(2_001), limits_hold),
        ["client: there are 2 tools at work, and the limit is 1 (at 2.000 s)"]
    );
    let mut higher = run(2_001);
    higher.plan.limits.set("client.running-tools", LimitValue::Count(2));
    holds(&higher, limits_hold);
    // The earlier window may still be closing.
    let reloads = run(3_000).asked_as(2, 1_500, Class::Durable, "reload", r#"{"closes":true}"#);
    holds(&reloads, limits_hold);
}

#[test]
fn a_session_has_no_more_chats_than_the_limit() {
    let lists = |chats: &[&str]| {
        let entry = |name: &&str| session::summary(&chat::new(name, name, String::new()));
        let entries = chats.iter().map(entry).collect();
        let mut scripted =
            has(here_until(None), 5_000, "s1", session_with(|it| it.chats = entries));
        scripted.plan.limits.set("host.chats", LimitValue::Count(2));
        scripted
    };
    holds(&lists(&["c1", "n2"]), limits_hold);
    assert_eq!(violations(&lists(&["c1", "n2", "n3"]), limits_hold).len(), 1);
}

#[test]
fn a_window_shows_a_turn_only_in_its_chat() {
    let shows = || {
        let foreign = OfChannel::ShowsForeignTurn("t1".to_owned());
        note(here_until(None), 5_000, "client", "c2", foreign)
    };
    assert_eq!(
        violations(&shows(), views_are_current),
        ["c2: the window of client showed the turn t1 of another chat in it (at 5.000 s)"]
    );
    holds(&shows().puppet("client2"), views_are_current);
}
