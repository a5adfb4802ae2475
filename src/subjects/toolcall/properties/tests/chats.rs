//! Tests of the parts of `states_are_true` about turns and calls, of `ends_are_true`, and of questions.

use serde_json::{Value, json};

use super::super::outcomes::ends_are_true;
use super::super::questions::questions_are_answered;
use super::super::states::states_are_true;
use super::*;
use crate::schedule::LimitValue;
use crate::subjects::toolcall::contents::Contents;
use reknit_toolcall::host::Unanswered;
use reknit_toolcall::state::chat;
use reknit_toolcall::wire::SnapshotState;
use reknit_toolcall::wire::ahp::state::ChatState;

fn note(scripted: ScriptedRun, ms: u64, about: &str, what: OfChannel) -> ScriptedRun {
    let saw = Data::of(what);
    scripted.entry(ms, Some("server"), EventKind::Observed { stream: about.into(), saw })
}

fn begins(scripted: ScriptedRun, ms: u64) -> ScriptedRun {
    note(scripted, ms, "c1", OfChannel::TurnBegan("t1".into()))
}

/// The chat c1 after these actions of the turn t1.
fn after(actions: &[Value]) -> ChatState {
    let start = json!({ "type": "chat/turnStarted", "startedAt": "2026-01-01T00:00:01.000Z", "message": { "text": "at the start", "origin": { "kind": "user" } } });
    let mut chat = chat::new("c1", "c1", "2026-01-01T00:00:00.000Z".into());
    for action in [&start].into_iter().chain(actions) {
        let mut action = action.clone();
        action["turnId"] = "t1".into();
        chat::apply(&mut chat, &serde_json::from_value(action).unwrap());
    }
    chat
}

fn stable(chat: ChatState) -> OfChannel {
    let contents = Some(Contents::of(SnapshotState::Chat(Box::new(chat))));
    OfChannel::Stable { second: false, digest: "0f".into(), contents, number: None }
}

/// The host has the chat c1 after these actions of the turn t1. Returns what is wrong.
fn has(scripted: ScriptedRun, ms: u64, actions: &[Value]) -> Vec<String> {
    violations(&note(scripted, ms, "c1", stable(after(actions))), states_are_true)
}

fn of_call(what: &str, more: Value) -> Value {
    let mut action = json!({ "type": format!("chat/toolCall{what}"), "toolCallId": "call-1" });
    action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    action
}

/// The actions up to a running call, or to one that waits for consent.
fn called(confirmed: bool) -> Vec<Value> {
    let owner = json!({ "kind": "client", "clientId": "client" });
    let start = json!({ "toolName": "t1", "displayName": "t1", "contributor": owner });
    let mut ready = json!({ "invocationMessage": "", "toolInput": r#"{"n":1}"# });
    if confirmed {
        ready["confirmed"] = "not-needed".into();
    }
    vec![of_call("Start", start), of_call("Ready", ready)]
}

fn with(mut actions: Vec<Value>, action: Value) -> Vec<Value> {
    actions.push(action);
    actions
}

/// A call that began at 1 s, and then these notes at 2 s.
fn noted(notes: &[(&str, &str)]) -> ScriptedRun {
    let began = calls(begins(here_until(None), 900), 1_000, "call-1", "client");
    notes.iter().fold(began, |run, (host, what)| saw(run, 2_000, host, "t1", what))
}

#[test]
fn a_turn_is_cancelled_only_by_its_user_or_by_a_panic() {
    let cancelled = [json!({ "type": "chat/turnCancelled", "duration": 5 })];
    let found = |run| has(run, 9_000, &cancelled).len();
    let asked = |run: ScriptedRun, ms, chat: &str| {
        let fields = format!(r#"{{"chat":"{chat}"}}"#);
        run.asked_as(2, ms, Class::Durable, "cancel-turn", &fields)
    };
    let turn = || begins(here_until(None), 1_000);
    assert_eq!(found(turn()), 1);
    assert_eq!(found(asked(turn(), 5_000, "c1")), 0);
    assert_eq!(found(asked(turn(), 5_000, "c2")), 1, "another chat");
    assert_eq!(found(asked(turn(), 999, "c1")), 1, "another turn");
    assert_eq!(found(asked(turn(), 9_001, "c1")), 1, "not yet");
    let over = || turn().ended("t1", 4_000, "over");
    assert_eq!(found(asked(over(), 4_000, "c1")), 0);
    assert_eq!(found(asked(over(), 4_001, "c1")), 1, "it was over");
    let again = begins(turn().died("server", 3_000).started("server", 3_500), 6_000);
    assert_eq!(found(asked(again, 5_000, "c1")), 0, "the user saw the turn that the host had lost");
    let panics = |turn: &str| OfChannel::TurnBroken(turn.to_owned());
    assert_eq!(found(note(turn(), 4_000, "c1", panics("t1"))), 0);
    assert_eq!(found(note(turn(), 4_000, "c1", panics("t2"))), 1);
    assert_eq!(found(note(turn(), 9_001, "c1", panics("t1"))), 1);
}

/// A window that is started again may give a turn in a newer chat the name of the earlier turn.
#[test]
fn a_turn_is_complete_only_if_its_agent_played_it_in_this_chat() {
    let complete = [json!({ "type": "chat/turnComplete", "duration": 5 })];
    let played = |run, ms| note(run, ms, "c1", OfChannel::TurnPlayed("t1".into()));
    let first = || played(begins(here_until(None), 900), 2_000);
    let made_again =
        || note(note(first(), 4_000, "c1", OfChannel::Deleted), 4_000, "c1", OfChannel::Stored);
    assert_eq!(has(first(), 3_000, &complete), Vec::<String>::new());
    assert_eq!(has(first(), 1_500, &complete).len(), 1, "not yet");
    assert_eq!(has(played(made_again(), 6_000), 3_000, &complete), Vec::<String>::new());
    assert_eq!(has(made_again(), 5_000, &complete).len(), 1, "the turn of the earlier chat");
    assert_eq!(has(made_again(), 4_000, &complete), Vec::<String>::new(), "which still exists");
}

#[test]
fn a_turn_that_is_over_has_no_open_calls() {
    let over = |keeps: bool| {
        let mut chat = after(&called(true));
        let parts = chat.active_turn.as_ref().unwrap().response_parts.clone();
        let end = json!({ "type": "chat/turnComplete", "turnId": "t1", "duration": 5 });
        chat::apply(&mut chat, &serde_json::from_value(end).unwrap());
        if keeps {
            chat.turns[0].response_parts = parts;
        }
        let ready = noted(&[("server", "agent: call-1 is ready")]);
        let played = note(ready, 2_500, "c1", OfChannel::TurnPlayed("t1".into()));
        violations(&note(played, 3_000, "c1", stable(chat)), states_are_true)
    };
    assert_eq!(over(false), Vec::<String>::new());
    assert_eq!(
        over(true),
        [
            "c1: in the state that the host has, a call of a turn that is over is wrong: call-1 (at 3.000 s)"
        ]
    );
}

#[test]
fn a_call_in_one_step_is_not_refused() {
    let returns_in = |run: ScriptedRun, tool: &str, what: Result<CallEnd, String>| {
        let (by, call, what) = (By::Agent, tool.to_owned(), Became::Returns(what));
        let saw = Data::of(OfCall { by, call, what });
        let event = EventKind::Observed { stream: "t1".into(), saw };
        violations(&run.entry(2_000, Some("server"), event), ends_are_true)
    };
    let returns = |tool: &str, what| returns_in(here_until(None), tool, what);
    let none = || CallEnd::Failed("no client offers this tool".to_owned());
    assert_eq!(
        returns("t9", Err("the call has ended".into())),
        [
            "t1: a call of t9 in one step was refused (the call has ended), although its turn was in progress, and its chat had room (at 2.000 s)"
        ]
    );
    let full = || Err("the channel is full".to_owned());
    assert_eq!(returns("t9", full()).len(), 1, "no channel can be full");
    let mut small = here_until(None);
    small.plan.limits.set("host.parts", LimitValue::Count(4));
    assert_eq!(returns_in(small, "t9", full()).len(), 0);
    assert_eq!(returns("t9", Ok(none())).len(), 0);
    assert_eq!(returns("t9", Ok(CallEnd::Completed)).len(), 1);
    assert_eq!(returns("t1", Ok(CallEnd::Completed)).len(), 0);
}

#[test]
fn nothing_is_compared_while_the_host_is_held() {
    let cancelled = [json!({ "type": "chat/turnCancelled", "duration": 5 })];
    let turn = || begins(here_until(None), 1_000);
    assert_eq!(has(turn().slows(8_000, 20_000), 9_000, &cancelled).len(), 1, "another host");
    assert_eq!(has(turn().holds_for_ever(8_000), 9_000, &cancelled).len(), 0);
    assert_eq!(has(turn().holds_for_ever(9_001), 9_000, &cancelled).len(), 1);
}

#[test]
fn a_call_runs_as_its_agent_and_its_user_decided() {
    let found = |notes: &[(&str, &str)], actions: &[Value]| has(noted(notes), 3_000, actions).len();
    let (ready, asks) = (
        ("server", "agent: call-1 is ready"),
        ("server", "agent: call-1 is ready and needs consent"),
    );
    let yes = ("client", "user: call-1 is approved by its user");
    let no = ("client", "user: call-1 is denied by its user");
    assert_eq!(found(&[ready], &called(true)), 0);
    assert_eq!(found(&[asks], &called(true)), 1);
    assert_eq!(found(&[], &called(true)), 1, "its parameters were not complete");
    let confirmed = json!({ "approved": true, "confirmed": "user-action" });
    let confirmed = with(called(false), of_call("Confirmed", confirmed));
    assert_eq!(found(&[asks, yes], &confirmed), 0);
    assert_eq!(found(&[ready, yes], &confirmed), 1);
    assert_eq!(found(&[asks], &confirmed), 1);
    assert_eq!(found(&[asks, no], &confirmed), 1);
    let late = saw(noted(&[asks]), 3_001, "client", "t1", "user: call-1 is approved by its user");
    assert_eq!(has(late, 3_000, &confirmed).len(), 1);
    let denied = json!({ "approved": false, "reason": "denied" });
    let denied = with(called(false), of_call("Confirmed", denied));
    assert_eq!(found(&[asks, no], &denied), 0);
    assert_eq!(found(&[asks, yes], &denied), 1);
    assert_eq!(found(&[asks], &denied), 1);
}

#[test]
fn a_user_reports_content_and_a_result_of_a_call_in_its_chat() {
    let ready = [("server", "agent: call-1 is ready")];
    let asked = |verb: &str, ms, chat: &str| {
        let fields = format!(r#"{{"chat":"{chat}"}}"#);
        noted(&ready).asked_as(2, ms, Class::Durable, verb, &fields)
    };
    let result = json!({ "success": true, "pastTenseMessage": "ran" });
    let result = json!({ "result": result, "requiresResultConfirmation": true });
    let content = json!({ "content": [{ "type": "text", "text": "report 2" }] });
    for (verb, action) in [
        ("report-result", of_call("Complete", result)),
        ("report-content", of_call("ContentChanged", content)),
    ] {
        let actions = with(called(true), action);
        let found = |ms, chat| has(asked(verb, ms, chat), 3_000, &actions).len();
        assert_eq!(found(2_500, "c1"), 0, "{verb}");
        assert_eq!(found(2_500, "c2"), 1, "{verb} in another chat");
        assert_eq!(found(999, "c1"), 1, "{verb} before the call");
        assert_eq!(found(3_001, "c1"), 1, "{verb} later");
    }
}

#[test]
fn a_call_is_cancelled_only_by_a_user() {
    let ended = |run| over(run, 5_000, "cancelled");
    let found = |run: ScriptedRun| violations(&ended(run), ends_are_true).len();
    assert_eq!(found(noted(&[])), 1);
    assert_eq!(found(noted(&[("client", "user: call-1 is denied by its user")])), 0);
    assert_eq!(found(noted(&[("client", "user: call-1 is approved by its user")])), 1);
    let asked = |verb: &str, ms, chat: &str| {
        let fields = format!(r#"{{"chat":"{chat}"}}"#);
        noted(&[]).asked_as(2, ms, Class::Durable, verb, &fields)
    };
    for verb in ["cancel-turn", "dispose-chat", "remake-chat"] {
        assert_eq!(found(asked(verb, 4_000, "c1")), 0, "{verb}");
        assert_eq!(found(asked(verb, 4_000, "c2")), 1, "{verb}");
        assert_eq!(found(asked(verb, 5_001, "c1")), 1, "{verb}");
    }
    assert_eq!(found(noted(&[]).asked_as(2, 4_000, Class::InFlight, "dispose-session", "{}")), 0);
    // A reported result is not that of a tool.
    let completed = |run| violations(&over(run, 5_000, "completed"), ends_are_true).len();
    assert_eq!(completed(noted(&[])), 1);
    assert_eq!(completed(asked("report-result", 4_000, "c1")), 0);
    assert_eq!(completed(asked("report-result", 4_000, "c2")), 1);
    assert_eq!(completed(asked("report-result", 900, "c1")), 1);
}

fn questions(run: ScriptedRun, number: u64, ms: u64, what: Became) -> ScriptedRun {
    let call = format!("question-{number}");
    let saw = Data::of(OfCall { by: By::Agent, call, what });
    run.entry(ms, Some("server"), EventKind::Observed { stream: "t1".into(), saw })
}

#[test]
fn a_question_may_be_late_only_if_its_window_needs_longer() {
    let late = || Err(Unanswered::Late.to_string());
    let asked = |takes: [u64; 2]| {
        let ask = |takes| Became::Asks(Question { takes, ..asks("client") });
        let run = questions(here_until(None), 1, 1_000, ask(takes[0]));
        let run = questions(run, 2, 1_000, ask(takes[1]));
        questions(run, 2, 200_000, Became::Hears(late()))
    };
    let found = |run: &ScriptedRun| violations(run, questions_are_answered).len();
    assert_eq!(found(&asked([100, 200_000])), 0);
    assert_eq!(found(&asked([200_000, 100])), 1, "only the other question takes long");
    assert_eq!(found(&asked([100, 100]).kills(50_000, 60_000)), 0);
    assert_eq!(found(&asked([100, 100]).kills(200_001, 210_000)), 1);
}

#[test]
fn a_question_arrives_behind_the_states_that_its_window_asked_for() {
    let found = |times| {
        let run = here_until(None).produced("t1", 500, &"x".repeat(1_000_000));
        let run = asks_for_states(run, 900, times);
        let run = questions(run, 1, 1_000, Became::Asks(asks("client")));
        let late = Became::Hears(Err(Unanswered::Late.to_string()));
        violations(&questions(run, 1, 200_000, late), questions_are_answered).len()
    };
    assert_eq!(found(1), 1);
    assert_eq!(found(200), 0);
}

#[test]
fn a_window_answers_not_before_it_can() {
    let found = |run: ScriptedRun, ms| {
        let run = questions(run, 1, 1_000, Became::Asks(asks("client")));
        let answered = Became::Hears(Ok(r#""text""#.to_owned()));
        violations(&questions(run, 1, ms, answered), questions_are_answered).len()
    };
    assert_eq!(found(here_until(None), 1_100), 0);
    assert_eq!(found(here_until(None), 1_099), 1);
    // A second connection answers at once.
    let beside = |over| accepted(here_until(None).conn_labelled("second", 1, 100, over), 200, "2");
    assert_eq!(found(beside(None), 1_010), 0);
    assert_eq!(found(beside(Some(900)), 1_010), 1);
}

#[test]
fn a_window_refuses_only_a_question_that_it_does_not_know() {
    let found = |is_unknown: [bool; 2], answer: Result<String, String>| {
        let ask = |is_unknown| Became::Asks(Question { is_unknown, ..asks("client") });
        let run = questions(here_until(None), 1, 1_000, ask(is_unknown[0]));
        let run = questions(run, 2, 1_000, ask(is_unknown[1]));
        violations(&questions(run, 2, 1_200, Became::Hears(answer)), questions_are_answered).len()
    };
    let refused = || Err("refused: this client does not answer requests".to_owned());
    let answered = || Ok(r#""text""#.to_owned());
    assert_eq!(found([false, true], refused()), 0);
    assert_eq!(found([true, false], refused()), 1);
    assert_eq!(found([true, false], answered()), 0);
    assert_eq!(found([false, true], answered()), 1);
}

#[test]
fn a_call_fails_for_a_cause_that_is_true_of_its_owner() {
    let found = |over: Option<u64>, why: &str| {
        let run = calls(here_until(over), 1_000, "call-1", "client");
        let what = Became::Over(CallEnd::Failed(format!("the client that ran this tool {why}")));
        let saw = Data::of(OfCall { by: By::Agent, call: "call-1".to_owned(), what });
        let event = EventKind::Observed { stream: "t1".into(), saw };
        violations(&run.entry(5_000, Some("server"), event), ends_are_true)
    };
    assert_eq!(found(Some(5_000), "is disconnected").len(), 0);
    assert_eq!(
        found(None, "is disconnected"),
        [
            "t1: call-1 is failed (the client that ran this tool is disconnected), but client was connected (at 5.000 s)"
        ]
    );
    assert_eq!(found(None, "no longer takes part").len(), 0);
    assert_eq!(found(Some(4_999), "no longer takes part").len(), 0);
    assert_eq!(found(Some(4_998), "no longer takes part").len(), 1);
}

#[test]
fn a_window_ignores_the_result_of_a_call_of_a_chat_that_its_user_left() {
    let stopped = "the client had already stopped this call";
    let of = |left: u64, held: Option<(u64, u64)>, why: &str| {
        let run = calls(here_until(None), 1_000, "call-1", "client");
        let run = saw(run, 1_100, "client", "t1", "tool: call-1 begins");
        let run = saw(run, left, "client", "c1", "unsubscribed");
        let run = held.map_or_else(|| run.clone(), |(from, to)| run.clone().slows(from, to));
        let run = saw(run, 3_000, "client", "t1", "tool: call-1 ends");
        let what = Became::Over(CallEnd::Failed(why.to_owned()));
        let saw = Data::of(OfCall { by: By::Agent, call: "call-1".to_owned(), what });
        let event = EventKind::Observed { stream: "t1".into(), saw };
        violations(&run.entry(5_000, Some("server"), event), ends_are_true).len()
    };
    let found = |left, held| of(left, held, stopped);
    assert_eq!(of(2_500, Some((2_000, 3_500)), "its tool failed"), 1, "for another cause");
    assert_eq!(found(3_000, None), 0, "in the same millisecond");
    assert_eq!(found(2_500, Some((2_000, 3_500))), 0);
    assert_eq!(found(2_500, None), 1, "its tool was stopped at once");
    assert_eq!(found(2_500, Some((2_000, 2_900))), 1, "the task ran again before the end");
    assert_eq!(found(3_100, Some((2_000, 3_500))), 0, "its task had not read the result");
    assert_eq!(found(3_100, Some((2_000, 3_050))), 1, "it left after its task had read the result");
    assert_eq!(found(3_100, None), 1, "it left after the end");
    assert_eq!(found(5_001, Some((2_000, 6_000))), 1, "it left after the call was over");
}

/// The window before the reload had a result, which is late. The newer window does not know it.
#[test]
fn a_reloaded_window_stops_a_call_that_the_earlier_window_ran() {
    let found = |reload: Option<u64>, again: &[(u64, &str)], why: &str| {
        let run = calls(here_until(None), 1_000, "call-1", "client");
        let run = saw(run, 1_100, "client", "t1", "tool: call-1 begins");
        let run = saw(run, 2_000, "client", "t1", "tool: call-1 ends");
        let reloads = r#"{"keeps-id":true}"#;
        let run = reload
            .into_iter()
            .fold(run, |run, ms| run.asked_as(2, ms, Class::Durable, "reload", reloads));
        let run = again.iter().fold(run, |run, (ms, work)| {
            saw(run, *ms, "client", "t1", &format!("tool: call-1 {work}"))
        });
        let what = Became::Over(CallEnd::Failed(why.to_owned()));
        let saw = Data::of(OfCall { by: By::Agent, call: "call-1".to_owned(), what });
        let event = EventKind::Observed { stream: "t1".into(), saw };
        violations(&run.entry(5_000, Some("server"), event), ends_are_true).len()
    };
    let stopped = "the client had already stopped this call";
    let again = [(3_000, "begins"), (4_000, "is stopped")];
    assert_eq!(found(Some(2_500), &again, stopped), 0);
    assert_eq!(found(Some(2_500), &again, "its tool failed"), 1, "for another cause");
    assert_eq!(found(None, &again, stopped), 1, "the same window has the result");
    assert_eq!(found(Some(3_500), &again, stopped), 1, "the tool began before the reload");
    assert_eq!(found(Some(2_500), &again[..1], stopped), 1, "nothing was stopped");
    let ended = [(3_000, "begins"), (4_000, "ends")];
    assert_eq!(found(Some(2_500), &ended, stopped), 1, "the newer window has a result");
    let both = [(3_000, "begins"), (3_500, "ends"), (4_000, "begins"), (4_500, "is stopped")];
    assert_eq!(found(Some(2_500), &both, stopped), 1, "the newer window had a result");
}
