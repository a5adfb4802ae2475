use serde_json::{Value, json};

use super::*;
use crate::testing::with_defect;
use crate::wire::code;

fn settings() -> Settings {
    Settings {
        cwd: "/w".into(),
        model: Some("m".into()),
        effort: Some("high".into()),
        service: "s".into(),
    }
}

fn task() -> Command {
    let thread = TaskThread::New { prompt: "fix\n it".into() };
    Command::Task { thread, write: true }
}

fn resumed() -> Command {
    let thread = TaskThread::Resume { thread: "old".into(), prompt: None };
    Command::Task { thread, write: false }
}

fn review() -> Command {
    Command::Review { target: ReviewTarget::UncommittedChanges, delivery: Delivery::Inline }
}

fn adversarial() -> Command {
    let target = ReviewTarget::BaseBranch { branch: "main".into() };
    Command::AdversarialReview { target, focus: Some("the lock".into()) }
}

fn sequence(command: Command) -> StartSequence {
    StartSequence::new(command, settings())
}

/// Returns the next request as text.
fn request(sequence: &StartSequence) -> (&'static str, Value) {
    let request = match sequence.next() {
        Next::Request(request) | Next::Turn { request, .. } => request,
        Next::NotStarted(why) => panic!("{why:?}"),
    };
    (request.method, serde_json::from_str(request.params.get()).unwrap())
}

fn answer(sequence: &mut StartSequence, result: &Value) {
    sequence.answered(Ok(serde_json::value::to_raw_value(result).unwrap()));
}

/// A sequence whose next request is the turn.
fn at_the_turn(command: Command) -> StartSequence {
    let mut sequence = sequence(command);
    answer(&mut sequence, &json!({ "thread": { "id": "t" } }));
    if request(&sequence).0 == "thread/name/set" {
        answer(&mut sequence, &json!({}));
    }
    assert!(matches!(sequence.next(), Next::Turn { .. }));
    sequence
}

fn busy() -> Refusal {
    error(code::BUSY)
}

fn error(code: i64) -> Refusal {
    Refusal::Error { code, message: "no".into() }
}

fn lost() -> Refusal {
    Refusal::Unknown("the app-server disconnected".into())
}

fn absent() -> Refusal {
    Refusal::NotSent("no broker".into())
}

fn fallback(sequence: &StartSequence) -> (Fallback, Option<String>) {
    match sequence.next() {
        Next::NotStarted(NotStarted { fallback, left_behind, .. }) => (fallback, left_behind),
        next => panic!("{next:?}"),
    }
}

#[test]
fn a_new_task_starts_a_thread_names_it_and_starts_a_turn() {
    let mut sequence = sequence(task());
    let start = json!({
        "cwd": "/w", "model": "m", "approvalPolicy": "never", "sandbox": "workspace-write",
        "serviceName": "s", "ephemeral": false,
    });
    assert_eq!(request(&sequence), ("thread/start", start));
    answer(&mut sequence, &json!({ "thread": { "id": "t" } }));
    let name = json!({ "threadId": "t", "name": "Task: fix it" });
    assert_eq!(request(&sequence), ("thread/name/set", name));
    answer(&mut sequence, &json!({}));
    let input = json!([{ "type": "text", "text": "fix\n it" }]);
    let turn = json!({ "threadId": "t", "input": input, "model": "m", "effort": "high" });
    assert_eq!(request(&sequence), ("turn/start", turn));
    assert!(matches!(sequence.next(), Next::Turn { thread, .. } if thread == "t"));
}

#[test]
fn a_resumed_task_continues_on_its_thread() {
    let mut sequence = sequence(resumed());
    let (method, params) = request(&sequence);
    assert_eq!(
        (method, &params["threadId"], &params["sandbox"]),
        ("thread/resume", &json!("old"), &json!("read-only"))
    );
    answer(&mut sequence, &json!({ "thread": { "id": "old" } }));
    let (method, params) = request(&sequence);
    assert_eq!((method, &params["threadId"]), ("turn/start", &json!("old")));
    assert!(params["input"][0]["text"].as_str().unwrap().starts_with("Continue"));
}

#[test]
fn a_review_runs_on_an_ephemeral_thread_without_a_name() {
    let sequence = at_the_turn(review());
    let params = json!({ "threadId": "t", "target": { "type": "uncommittedChanges" }, "delivery": "inline" });
    assert_eq!(request(&sequence), ("review/start", params));
    let start = request(&self::sequence(review())).1;
    assert_eq!((&start["ephemeral"], &start["sandbox"]), (&json!(true), &json!("read-only")));
    assert_eq!((review().kind(), adversarial().kind()), (TurnKind::Review, TurnKind::Task));
}

#[test]
fn an_adversarial_review_is_a_turn_whose_answer_has_a_schema() {
    let (method, params) = request(&at_the_turn(adversarial()));
    let prompt = params["input"][0]["text"].as_str().unwrap();
    assert_eq!(method, "turn/start");
    assert!(prompt.contains("git diff main...HEAD") && prompt.contains("the lock"), "{prompt}");
    let schema = &params["outputSchema"];
    assert_eq!(schema["required"].as_array().map(Vec::len), Some(3));
    assert_eq!(schema["properties"]["findings"]["items"]["additionalProperties"], json!(false));
}

#[test]
fn a_long_prompt_gives_a_short_name() {
    let thread = TaskThread::New { prompt: "wörter ".repeat(50) };
    let name = Command::Task { thread, write: false }.thread_name().unwrap();
    assert!(name.chars().count() <= 66 && name.ends_with('…'), "{name}");
}

#[test]
fn a_thread_without_a_name_gets_its_turn() {
    let mut sequence = sequence(task());
    answer(&mut sequence, &json!({ "thread": { "id": "t" } }));
    sequence.answered(Err(error(code::UNKNOWN_METHOD)));
    assert_eq!(request(&sequence).0, "turn/start");
}

#[test]
fn without_a_thread_the_command_moves_if_nothing_can_have_happened() {
    for (command, refusal, expected) in [
        (task(), absent(), Fallback::OtherServer),
        (task(), busy(), Fallback::OtherServer),
        (task(), error(code::INVALID_REQUEST), Fallback::Never),
        (task(), lost(), Fallback::Never),
        (resumed(), lost(), Fallback::OtherServer),
        (resumed(), busy(), Fallback::OtherServer),
        (resumed(), error(code::INVALID_REQUEST), Fallback::Never),
    ] {
        let mut sequence = sequence(command);
        sequence.answered(Err(refusal.clone()));
        assert_eq!(fallback(&sequence), (expected, None), "{refusal:?}");
    }
}

#[test]
fn an_answer_without_a_thread_is_a_failure() {
    let mut sequence = sequence(task());
    answer(&mut sequence, &json!({}));
    assert_eq!(fallback(&sequence), (Fallback::Never, None));
}

#[test]
fn a_busy_server_with_the_new_thread_can_run_the_turn_later() {
    let mut sequence = at_the_turn(task());
    sequence.turn_refused(busy());
    assert_eq!(fallback(&sequence), (Fallback::SameServer, Some("t".into())));
    sequence.retry();
    assert!(matches!(sequence.next(), Next::Turn { thread, .. } if thread == "t"));
}

#[test]
fn a_command_removes_its_thread_before_it_moves() {
    for (command, method) in [(task(), "thread/delete"), (adversarial(), "thread/unsubscribe")] {
        let mut sequence = at_the_turn(command);
        sequence.turn_refused(busy());
        sequence.remove_thread();
        assert_eq!(request(&sequence), (method, json!({ "threadId": "t" })));
        sequence.answered(Err(busy()));
        assert_eq!(fallback(&sequence), (Fallback::SameServer, Some("t".into())));
        sequence.remove_thread();
        answer(&mut sequence, &json!({}));
        assert_eq!(fallback(&sequence), (Fallback::OtherServer, None));
    }
}

#[test]
fn a_thread_that_cannot_be_removed_is_reported_and_stops_the_command() {
    let mut sequence = at_the_turn(task());
    sequence.turn_refused(busy());
    sequence.remove_thread();
    sequence.answered(Err(lost()));
    assert_eq!(fallback(&sequence), (Fallback::Never, Some("t".into())));
}

#[test]
fn a_resumed_thread_waits_for_its_server() {
    let mut sequence = at_the_turn(resumed());
    sequence.turn_refused(busy());
    assert_eq!(fallback(&sequence), (Fallback::SameServer, None));
    sequence.remove_thread();
    assert_eq!(fallback(&sequence), (Fallback::SameServer, None), "it is not the command's thread");
    sequence.retry();
    assert!(matches!(sequence.next(), Next::Turn { thread, .. } if thread == "old"));
}

#[test]
fn a_turn_that_the_server_refuses_leaves_no_thread_behind() {
    let mut sequence = at_the_turn(task());
    sequence.turn_refused(error(code::INVALID_REQUEST));
    assert_eq!(request(&sequence).0, "thread/delete");
    answer(&mut sequence, &json!({}));
    assert_eq!(fallback(&sequence), (Fallback::Never, None));
}

#[test]
fn a_turn_that_may_run_never_runs_again() {
    for command in [task(), resumed(), review()] {
        let mut sequence = at_the_turn(command);
        sequence.turn_refused(lost());
        assert_eq!(fallback(&sequence).0, Fallback::Never);
        sequence.retry();
        assert_eq!(fallback(&sequence).0, Fallback::Never);
    }
}

#[test]
fn a_turn_that_was_not_sent_moves_only_with_an_old_thread() {
    let mut sequence = at_the_turn(resumed());
    sequence.turn_refused(absent());
    assert_eq!(fallback(&sequence), (Fallback::OtherServer, None));
    let mut sequence = at_the_turn(task());
    sequence.turn_refused(absent());
    assert_eq!(fallback(&sequence), (Fallback::Never, Some("t".into())));
}

#[test]
fn a_cancelled_command_starts_no_turn_and_leaves_no_thread() {
    let mut before = sequence(task());
    before.cancel();
    assert_eq!(fallback(&before), (Fallback::Never, None));
    let mut old = at_the_turn(resumed());
    old.cancel();
    assert_eq!(fallback(&old), (Fallback::Never, None));
    for is_refused in [true, false] {
        let mut new = at_the_turn(task());
        if is_refused {
            new.turn_refused(busy());
        }
        new.cancel();
        assert_eq!(request(&new).0, "thread/delete");
        answer(&mut new, &json!({}));
        new.cancel();
        assert_eq!(fallback(&new), (Fallback::Never, None));
        assert!(matches!(new.next(), Next::NotStarted(why) if why.exit_status() == 130));
    }
}

#[test]
fn a_cancelled_command_does_not_wait_to_remove_its_thread() {
    let mut sequence = at_the_turn(task());
    sequence.cancel();
    sequence.answered(Err(busy()));
    sequence.cancel();
    assert_eq!(fallback(&sequence), (Fallback::Never, Some("t".into())));
}

#[test]
fn each_defect_changes_the_fallback() {
    for (defect, refusal) in
        [("RunsAgainBesideItsThread", busy()), ("RunsAgainAfterALostStart", lost())]
    {
        let mut sequence = at_the_turn(task());
        with_defect(defect, || sequence.turn_refused(refusal));
        assert_eq!(fallback(&sequence).0, Fallback::OtherServer, "{defect}");
    }
}
