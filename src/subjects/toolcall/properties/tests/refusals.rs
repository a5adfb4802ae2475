//! Tests of `refusals_are_true` and `live_is_not_missing`.

use super::super::existence::live_is_not_missing;
use super::super::refusals::refusals_are_true;
use super::*;
use crate::history::Coded;
use crate::schedule::LimitValue;
use crate::subjects::toolcall::answers::ToolcallFailure;
use reknit_toolcall::client::Failure;

fn gone() -> Answer {
    Answer::refused(Data::of(ToolcallFailure(Failure::Gone)))
}

fn note(scripted: ScriptedRun, ms: u64, host: &str, about: &str, what: OfChannel) -> ScriptedRun {
    let saw = Data::of(what);
    scripted.entry(ms, Some(host), EventKind::Observed { stream: about.into(), saw })
}

fn stored(scripted: ScriptedRun, ms: u64, channel: &str, is_there: bool) -> ScriptedRun {
    let what = if is_there { OfChannel::Stored } else { OfChannel::Deleted };
    note(scripted, ms, "server", channel, what)
}

fn begins(scripted: ScriptedRun, ms: u64, turn: &str) -> ScriptedRun {
    note(scripted, ms, "server", "c1", OfChannel::TurnBegan(turn.to_owned()))
}

fn asks(scripted: ScriptedRun, verb: &str, fields: &str) -> ScriptedRun {
    scripted.asked_as(2, 5_000, Class::InFlight, verb, fields)
}

fn violations(scripted: &ScriptedRun) -> Vec<String> {
    super::violations(scripted, refusals_are_true)
}

#[test]
fn a_request_about_a_channel_that_exists_is_not_refused() {
    let dispose = || asks(here_until(None), "dispose-chat", r#"{"chat":"c1"}"#);
    assert_eq!(
        violations(&dispose().answered(2, 5_100, gone())),
        [
            "call 2: it was refused (refused: there is no such channel), although c1 existed since 0.000 s (at 5.100 s)"
        ]
    );
    for (channel, deleted) in [("c1", 5_050), ("s1", 5_050), ("c1", 4_000)] {
        let deleted = stored(dispose(), deleted, channel, false);
        assert!(violations(&deleted.answered(2, 5_100, gone())).is_empty());
    }
    let died = dispose().died("server", 5_050);
    assert!(violations(&died.answered(2, 5_100, gone())).is_empty());
    let later = stored(
        stored(asks(history(), "dispose-session", "{}"), 6_000, "s1", false),
        7_000,
        "s1",
        true,
    );
    assert!(violations(&later.answered(2, 5_100, gone())).is_empty());
    let unknown = asks(history(), "dispose-chat", r#"{"chat":"c1"}"#);
    assert!(violations(&unknown.answered(2, 5_100, gone())).is_empty(), "the host loads on demand");
}

#[test]
fn a_session_that_no_window_watches_is_not_loaded_after_a_restart() {
    let end = || {
        let run = stored(here_until(None), 4_000, "s3", true);
        asks(run, "end-session", r#"{"name":"s3"}"#).answered(2, 5_100, gone())
    };
    assert_eq!(violations(&end()).len(), 1);
    assert!(violations(&end().died("server", 4_500)).is_empty());
}

/// A fault delays data of the host that died.
#[test]
fn a_session_received_from_a_dead_host_is_not_loaded() {
    let dispose = |scripted: ScriptedRun| {
        let received = saw(scripted, 4_900, "client", "s1", "state received");
        asks(received, "dispose-chat", r#"{"chat":"c1"}"#).answered(2, 5_100, gone())
    };
    let died = || accepted(history().conn(1, 10, Some(2_000)), 20, "1").died("server", 2_000);
    assert!(violations(&dispose(died())).is_empty());
    let back = accepted(died().conn(2, 4_000, None), 4_100, "2");
    assert_eq!(violations(&dispose(back)).len(), 1);
}

#[test]
fn a_subscription_to_a_channel_that_exists_is_not_refused() {
    let watch = |chat: &str| asks(here_until(None), "watch", &format!(r#"{{"chat":"{chat}"}}"#));
    assert_eq!(violations(&watch("c1").answered(2, 5_100, gone())).len(), 1);
    assert_eq!(violations(&watch("s1").answered(2, 5_100, gone())).len(), 1);
    assert!(violations(&watch("nowhere").answered(2, 5_100, gone())).is_empty());
    let unsubscribed = || Answer::refused(Data::of(ToolcallFailure(Failure::Unsubscribed)));
    assert_eq!(violations(&watch("c1").answered(2, 5_100, unsubscribed())).len(), 1);
    let unwatched =
        watch("c1").asked_as(3, 5_050, Class::InFlight, "unwatch", r#"{"channel":"c1"}"#);
    assert!(violations(&unwatched.answered(2, 5_100, unsubscribed())).is_empty());
}

#[test]
fn an_action_on_a_watched_channel_is_not_refused() {
    let rename = || asks(here_until(None), "rename", "{}").answered(2, 5_100, rejected("no"));
    assert_eq!(violations(&rename()).len(), 1);
    assert!(violations(&stored(rename(), 5_000, "s1", false)).is_empty());
    let unwatched = saw(rename(), 5_100, "client", "s1", "unsubscribed");
    assert!(violations(&unwatched).is_empty());
}

#[test]
fn a_turn_is_refused_only_beside_another_one() {
    let start = || asks(here_until(None), "start-turn", r#"{"turn":"t2"}"#);
    let busy = || rejected("another turn is in progress");
    let first = || begins(start(), 1_000, "t1");
    let over = first().ended("t1", 2_000, "over");
    assert_eq!(
        violations(&over.answered(2, 5_100, busy())),
        [
            "call 2: it was refused (refused: another turn is in progress), although no turn was in progress in c1 (at 5.100 s)"
        ]
    );
    assert!(violations(&first().answered(2, 5_100, busy())).is_empty());
    assert!(violations(&start().answered(2, 5_100, busy())).is_empty(), "the first turn waits");
    let known = || rejected("a turn with that id already exists");
    assert_eq!(violations(&first().answered(2, 5_100, known())).len(), 1);
    let again = begins(first(), 5_050, "t2");
    assert!(violations(&again.answered(2, 5_100, known())).is_empty());
    let cancel = asks(here_until(None), "cancel-turn", r#"{"chat":"c1"}"#);
    let idle = || rejected("the turn is not in progress");
    assert!(violations(&cancel.clone().answered(2, 5_100, idle())).is_empty());
    let cancel = || begins(cancel.clone(), 1_000, "t1").answered(2, 5_100, idle());
    assert_eq!(violations(&cancel()).len(), 1);
    let earlier = || cancel().asked_as(1, 4_990, Class::Durable, "cancel-turn", r#"{"chat":"c1"}"#);
    assert!(violations(&earlier()).is_empty(), "the window shows its own cancellation");
    assert_eq!(violations(&earlier().answered(1, 4_999, "cancelled")).len(), 1);
}

#[test]
fn a_window_that_waits_for_states_shows_an_earlier_turn() {
    let starts = |began: u64, ended: u64, asked: u64, times| {
        let run = asks(here_until(None), "start-turn", r#"{"turn":"t2"}"#);
        let run = begins(run, began, "t1").produced("t1", began + 50, &"x".repeat(100_000));
        let run = asks_for_states(run.ended("t1", ended, "over"), asked, times);
        violations(&run.answered(2, 5_100, rejected("another turn is in progress"))).len()
    };
    assert_eq!(starts(1_000, 2_000, 1_500, 1), 1);
    assert_eq!(starts(1_000, 2_000, 1_500, 40), 0);
    assert_eq!(starts(100, 200, 3_000, 40), 1, "the turn was over long before the user asked");
}

/// The host may still have a request that its user has given up.
#[test]
fn a_creation_that_its_user_gave_up_takes_a_place() {
    let full = || {
        let message = "there are too many sessions".to_owned();
        Answer::refused(Data::of(Coded { code: -32011, message }))
    };
    let create = |earlier: Option<Answer>| {
        let mut run = stored(here_until(None), 4_000, "s1", false);
        if let Some(answer) = earlier {
            let fields = r#"{"name":"s2"}"#;
            run = run.asked_as(1, 4_990, Class::InFlight, "create-session", fields);
            run = run.answered(1, 4_995, answer);
        }
        run.plan.limits.set("host.sessions", LimitValue::Count(1));
        asks(run, "create-session", r#"{"name":"s3"}"#).answered(2, 5_100, full())
    };
    assert_eq!(violations(&create(None)).len(), 1);
    assert!(violations(&create(Some(Answer::GivenUp))).is_empty());
    assert_eq!(violations(&create(Some(gone()))).len(), 1);
}

/// The host lets only so many requests for a chat wait, and a client has only so many channels.
#[test]
fn requests_above_a_limit_of_subscriptions_are_refused() {
    let watches = |chat: &str, before: &[&str], limit: &'static str, most: u64| {
        let mut run = here_until(None);
        for (call, earlier) in (10..).zip(before) {
            let fields = format!(r#"{{"chat":"{earlier}"}}"#);
            run = run.asked_as(call, 4_000, Class::InFlight, "watch", &fields);
        }
        run.plan.limits.set(limit, LimitValue::Count(most));
        asks(run, "watch", &format!(r#"{{"chat":"{chat}"}}"#))
    };
    let many = |limit| {
        watches("c1", &["c1", "c1", "c1"], "host.subscriptions", limit).answered(2, 5_100, gone())
    };
    assert!(violations(&many(4)).is_empty());
    assert_eq!(violations(&many(5)).len(), 1);
    let full = || Answer::refused(Data::of(ToolcallFailure(Failure::Full)));
    let new = |limit| {
        watches("n3", &["n1", "n2"], "client.subscriptions", limit).answered(2, 5_100, full())
    };
    assert!(violations(&new(5)).is_empty());
    assert_eq!(violations(&new(6)).len(), 1);
}

#[test]
fn a_session_exists_only_if_the_storage_has_it() {
    let create = || stored(asks(here_until(None), "new-session", "{}"), 4_000, "s1", false);
    let exists = || {
        let message = "a session with that name already exists".to_owned();
        Answer::refused(Data::of(Coded { code: -32003, message }))
    };
    assert_eq!(violations(&create().answered(2, 5_100, exists())).len(), 1);
    let other = stored(create(), 5_050, "s1", true);
    assert!(violations(&other.answered(2, 5_100, exists())).is_empty());
}

#[test]
fn a_returning_client_that_the_host_accepted_is_known() {
    let back = || {
        let run = here_until(None).conn(2, 5_000, None);
        let run = milestone(run, 40, "client", "toolcall.client.initialized", &[]);
        milestone(run, 5_100, "client", "toolcall.client.refused", &[("code", "-32008")])
    };
    assert_eq!(
        violations(&back()),
        [
            "client: the host did not know the client, although it accepted the client at 0.020 s (at 5.100 s)"
        ]
    );
    assert!(violations(&back().died("server", 3_000)).is_empty());
    let forgotten =
        milestone(back(), 5_000, "server", "toolcall.host.forgotten", &[("client", "client")]);
    assert!(violations(&forgotten).is_empty());
}

#[test]
fn the_only_reply_to_a_waiting_call_counts() {
    let waits = || {
        let ready = saw(
            calls(here_until(None), 1_000, "call-1", "client"),
            1_100,
            "server",
            "t1",
            "agent: call-1 is ready",
        );
        let what = Became::Replies(Err("no".to_owned()));
        let saw = Data::of(OfCall { by: By::User, call: "call-1".to_owned(), what });
        ready.entry(2_000, Some("client"), EventKind::Observed { stream: "t1".into(), saw })
    };
    assert_eq!(
        violations(&waits()),
        ["t1: the reply of a user was refused (no), although call-1 waited for it (at 2.000 s)"]
    );
    assert!(violations(&waits().ended("t1", 1_900, "over")).is_empty());
}

/// The window shows the first reply of its user before the host confirms it.
#[test]
fn a_second_reply_of_a_user_may_be_refused() {
    let user = |run: ScriptedRun, ms, what| {
        let saw = Data::of(OfCall { by: By::User, call: "call-1".to_owned(), what });
        run.entry(ms, Some("client"), EventKind::Observed { stream: "t1".into(), saw })
    };
    let found = |earlier: Option<u64>, reload: Option<u64>, why: &str| {
        let run = calls(here_until(None), 1_000, "call-1", "client");
        let run = saw(run, 1_100, "server", "t1", "agent: call-1 is ready");
        let run = earlier.into_iter().fold(run, |run, ms| user(run, ms, Became::Decides(true)));
        let reloads = r#"{"keeps-id":true}"#;
        let run = reload
            .into_iter()
            .fold(run, |run, ms| run.asked_as(2, ms, Class::Durable, "reload", reloads));
        let run = user(run, 2_000, Became::Decides(true));
        violations(&user(run, 2_000, Became::Replies(Err(why.to_owned())))).len()
    };
    let why = "the call does not wait for a confirmation";
    assert_eq!(found(Some(1_600), None, why), 0);
    assert_eq!(found(None, None, why), 1, "its user decided once");
    assert_eq!(found(Some(2_100), None, why), 1, "its user decided again later");
    assert_eq!(found(Some(1_600), Some(1_700), why), 1, "the earlier window showed that");
    assert_eq!(found(Some(1_600), Some(2_100), why), 0);
    assert_eq!(found(Some(1_600), None, "no"), 1, "for another reason");
}

#[test]
fn a_channel_that_exists_is_not_missing() {
    let removed = || saw(here_until(None), 5_000, "client", "c1", "removed");
    let violations = |scripted| super::violations(&scripted, live_is_not_missing);
    assert_eq!(
        violations(removed()),
        [
            "c1: the window of client counts it as removed, although it exists since 0.000 s (at 5.000 s)"
        ]
    );
    assert!(violations(stored(removed(), 4_000, "c1", false)).is_empty());
    let again = stored(stored(removed(), 4_000, "c1", false), 4_500, "c1", true);
    assert!(violations(again).is_empty(), "the window knew the older one");
    let late = accepted(removed().conn(2, 15, Some(25)), 28, "2");
    let again = stored(stored(late, 22, "c1", false), 24, "c1", true);
    assert!(violations(again).is_empty(), "the host accepted an earlier window late");
}

/// Two of three chats fit into one answer. The session always fits, and a small chat, too.
#[test]
fn a_chat_that_does_not_fit_beside_smaller_ones_is_left_out() {
    let removed = |letters: [usize; 3], channel: &str| {
        let mut scripted = here_until(None);
        for (n, letters) in (1..).zip(letters) {
            let (chat, turn) = (format!("c{n}"), format!("t{n}"));
            scripted = saw(scripted, 40, "client", &chat, "state received");
            scripted = note(scripted, 100, "server", &chat, OfChannel::TurnBegan(turn.clone()));
            scripted = scripted.produced(&turn, 200, &".".repeat(letters));
        }
        let chats = serde_json::json!({ "c2": {}, "c3": {} });
        scripted.plan.setup.insert("channel".to_owned(), chats);
        super::violations(&saw(scripted, 5_000, "client", channel, "removed"), live_is_not_missing)
            .len()
    };
    let large = 4_000_000;
    assert_eq!(removed([large; 3], "c3"), 0);
    assert_eq!(removed([large, large, 100], "c3"), 1);
    assert_eq!(removed([large, 100, 100], "c1"), 1);
    assert_eq!(removed([large; 3], "s1"), 1);
}

#[test]
fn a_refusal_has_the_code_of_its_text() {
    let dispose = |code, text: &str| {
        let refused = Answer::refused(Data::of(Coded { code, message: text.to_owned() }));
        let run = asks(here_until(None), "dispose-chat", r#"{"chat":"c9"}"#);
        violations(&run.answered(2, 5_100, refused))
    };
    assert_eq!(
        dispose(-32602, "there is no such chat"),
        [
            "call 2: it was refused (refused (-32602): there is no such chat) with the code -32602, and not with -32008 (at 5.100 s)"
        ]
    );
    assert_eq!(dispose(-32008, "there is no such chat").len(), 0);
    assert_eq!(dispose(-32011, "it is being made").len(), 0);
    assert_eq!(dispose(-32003, "a channel with that name already exists").len(), 1);
}
