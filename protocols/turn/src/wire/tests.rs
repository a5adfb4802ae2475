//! The lines of the app-server are those of version 0.169.0, shortened.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn parsed(method: &str, params: &Value) -> Result<Notification, serde_json::Error> {
    Notification::parse(method, Some(&serde_json::value::to_raw_value(params).unwrap()))
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_notifications_of_a_turn_are_read() {
    let turn = json!({
        "id": "u", "rootTurnId": "u", "items": [], "itemsView": "notLoaded", "status": "inProgress",
        "error": null, "startedAt": 1_795_566_974, "completedAt": null, "durationMs": null,
    });
    let started = parsed("turn/started", &json!({ "threadId": "t", "turn": turn })).unwrap();
    let Notification::TurnStarted { thread, turn } = &started else { panic!("{started:?}") };
    assert_eq!((thread.as_str(), turn.id(), turn.root()), ("t", Some("u"), Some("u")));
    assert_eq!(turn.status, TurnStatus::InProgress);
    assert_eq!((started.thread(), started.turn()), (Some("t"), Some("u")));

    let message = json!({
        "type": "agentMessage", "moderation": null, "id": "m2", "text": "the answer",
        "phase": "final_answer", "memoryCitation": null, "delivery": null, "questions": null,
    });
    let params =
        json!({ "item": message, "threadId": "t", "turnId": "u", "contentTokenCount": null });
    let completed = parsed("item/completed", &params).unwrap();
    let Notification::ItemCompleted { item, .. } = &completed else { panic!("{completed:?}") };
    let text = "the answer".to_owned();
    let phase = Some(MessagePhase::FinalAnswer);
    assert_eq!(item, &Item::AgentMessage { id: "m2".into(), text, phase });
    assert_eq!((completed.thread(), completed.turn()), (Some("t"), Some("u")));

    let error = json!({ "message": "gone", "codexErrorInfo": "other", "additionalDetails": null });
    let turn = json!({ "id": "u", "items": [], "status": "failed", "error": error });
    let failed = parsed("turn/completed", &json!({ "threadId": "t", "turn": turn })).unwrap();
    let Notification::TurnCompleted { turn, .. } = failed else { panic!("{failed:?}") };
    assert_eq!((turn.status, turn.error.unwrap().message), (TurnStatus::Failed, "gone".into()));

    let error = json!({ "message": "Reconnecting... 1/1", "codexErrorInfo": { "responseStreamDisconnected": {} } });
    let params = json!({ "error": error, "willRetry": true, "threadId": "t", "turnId": "u" });
    let error = parsed("error", &params).unwrap();
    assert!(matches!(error, Notification::Error { will_retry: true, .. }), "{error:?}");
}

#[test]
fn the_notifications_of_threads_are_read() {
    let thread = json!({ "id": "s", "parentThreadId": "t", "agentNickname": "Bo", "turns": [], "status": { "type": "idle" } });
    let started = parsed("thread/started", &json!({ "thread": thread })).unwrap();
    assert_eq!((started.thread(), started.turn()), (Some("s"), None));
    let Notification::ThreadStarted(thread) = started else { panic!("{started:?}") };
    assert_eq!(thread.parent_thread_id.as_deref(), Some("t"));

    let params = json!({ "threadId": "s", "status": { "type": "active", "activeFlags": [] } });
    let changed = parsed("thread/status/changed", &params).unwrap();
    let Notification::ThreadStatusChanged { status, .. } = changed else { panic!("{changed:?}") };
    assert_eq!(status.kind, ThreadStatusKind::Active);

    let params = json!({ "threadId": "s", "threadName": null });
    let named = parsed("thread/name/updated", &params).unwrap();
    assert_eq!(named, Notification::ThreadNameUpdated { thread: "s".into(), name: None });
}

#[test]
fn an_item_of_a_subagent_names_its_threads() {
    let item: Item = read(json!({
        "type": "collabAgentToolCall", "id": "c1", "tool": "spawnAgent", "status": "completed",
        "senderThreadId": "t", "receiverThreadIds": ["s"], "prompt": "look", "model": "m",
        "agentsStates": { "s": { "status": "pendingInit", "message": null } },
    }));
    let Item::CollabAgentToolCall { tool, status, receiver_thread_ids, agents_states, .. } = item
    else {
        panic!("{item:?}")
    };
    assert_eq!((tool, status), (AgentTool::SpawnAgent, WorkStatus::Completed));
    assert_eq!(receiver_thread_ids, ["s"]);
    assert_eq!(agents_states["s"].status, "pendingInit");
}

#[test]
fn a_change_of_a_file_is_read() {
    let item: Item = read(json!({
        "type": "fileChange", "id": "f", "status": "completed",
        "changes": [{ "path": "/w/a", "kind": { "type": "update", "move_path": null }, "diff": "@@" }],
    }));
    let Item::FileChange { changes, .. } = item else { panic!("{item:?}") };
    assert_eq!((changes[0].path.as_str(), &changes[0].kind.kind), ("/w/a", &ChangeKind::Update));
}

#[test]
fn unknown_names_are_kept_and_are_no_error() {
    let item: Item = read(json!({ "type": "tomorrow", "id": "x", "text": 7 }));
    assert_eq!((item.id(), item.kind(), item.is_work()), ("x", "tomorrow", true));
    let item: Item = read(json!({ "type": "agentMessage", "id": "x", "text": 7 }));
    assert_eq!((item.kind(), item.is_work()), ("agentMessage", false), "its text is no text");
    assert!(matches!(item, Item::Other { .. }));
    let item: Item = read(json!({}));
    assert_eq!((item.id(), item.kind()), ("", ""));
    let item: Item = read(json!({ "type": "agentMessage", "id": "x", "phase": "tomorrow" }));
    let phase = Some(MessagePhase::Other("tomorrow".into()));
    assert_eq!(item, Item::AgentMessage { id: "x".into(), text: String::new(), phase });
    assert_eq!(read::<TurnStatus>(json!("paused")), TurnStatus::Other("paused".into()));
    assert_eq!(read::<TurnStatus>(Value::Null), TurnStatus::default());
    let other = parsed("turn/plan/updated", &json!({ "threadId": "t", "turnId": "u", "plan": [] }));
    let other = other.unwrap();
    assert_eq!((other.thread(), other.turn()), (Some("t"), Some("u")));
    let other = Notification::parse("tomorrow", None).unwrap();
    assert_eq!((other.thread(), other.turn()), (None, None));
    assert!(parsed("tomorrow", &json!([1])).is_ok(), "its parameters are of an unknown type");
}

#[test]
fn missing_fields_have_a_meaning() {
    let turn = parsed("turn/completed", &json!({ "turn": {} })).unwrap();
    assert_eq!((turn.thread(), turn.turn()), (None, None));
    let Notification::TurnCompleted { turn, .. } = turn else { panic!("{turn:?}") };
    assert_eq!(turn.status, TurnStatus::Other(String::new()));
    let error = parsed("error", &json!({ "threadId": "t" })).unwrap();
    assert!(matches!(error, Notification::Error { will_retry: false, .. }));
    let answer: StartAnswer = read(json!({ "turn": { "id": "u", "rootTurnId": null } }));
    assert_eq!(
        (answer.turn.id(), answer.turn.root(), answer.review_thread_id),
        (Some("u"), None, None)
    );
    assert_eq!(read::<StartAnswer>(json!({})).turn.id(), None);
}

#[test]
fn a_notification_without_its_subject_or_of_another_type_is_an_error() {
    for (method, params) in [
        ("turn/completed", json!({ "threadId": "t" })),
        ("turn/started", json!({ "threadId": "t", "turn": null })),
        ("item/started", json!({ "threadId": "t" })),
        ("item/completed", json!({ "threadId": "t", "item": 7 })),
        ("thread/started", json!({})),
        ("turn/completed", json!({ "threadId": 5, "turn": {} })),
        ("error", json!(7)),
    ] {
        assert!(parsed(method, &params).is_err(), "{method} {params}");
    }
    assert!(Notification::parse("turn/completed", None).is_err());
}

#[test]
fn requests_contain_only_what_they_say() {
    let thread = ThreadStartParams {
        cwd: Some("/w".into()),
        approval_policy: Some("never".into()),
        sandbox: Some(SandboxMode::ReadOnly),
        ephemeral: Some(true),
        ..ThreadStartParams::default()
    };
    let text = r#"{"cwd":"/w","approvalPolicy":"never","sandbox":"read-only","ephemeral":true}"#;
    assert_eq!(serde_json::to_string(&thread).unwrap(), text);
    let input = vec![TurnInput::Text { text: "go".into() }];
    let turn = TurnStartParams { thread_id: "t".into(), input, ..TurnStartParams::default() };
    let text = r#"{"threadId":"t","input":[{"type":"text","text":"go"}]}"#;
    assert_eq!(serde_json::to_string(&turn).unwrap(), text);
    let other: TurnInput = read(json!({ "type": "skill", "name": "n", "path": "p" }));
    assert!(matches!(other, TurnInput::Other(_)));
    let review = ReviewStartParams {
        thread_id: "t".into(),
        target: ReviewTarget::BaseBranch { branch: "main".into() },
        delivery: Some(Delivery::Inline),
    };
    let text =
        r#"{"threadId":"t","target":{"type":"baseBranch","branch":"main"},"delivery":"inline"}"#;
    assert_eq!(serde_json::to_string(&review).unwrap(), text);
    let target = serde_json::to_value(ReviewTarget::UncommittedChanges).unwrap();
    assert_eq!(target, json!({ "type": "uncommittedChanges" }));
    let client = ClientInfo { name: "n".into(), title: None, version: "1".into() };
    let initialize = serde_json::to_value(InitializeParams::new(client)).unwrap();
    assert_eq!(
        initialize["capabilities"]["optOutNotificationMethods"][0],
        "item/agentMessage/delta"
    );
}

#[test]
fn what_is_written_is_read_back() {
    let item = json!({
        "type": "commandExecution", "id": "c", "command": "ls", "status": "failed", "exitCode": -1,
    });
    assert_eq!(serde_json::to_value(read::<Item>(item.clone())).unwrap(), item);
    let other = json!({ "id": "x", "type": "tomorrow" });
    assert_eq!(serde_json::to_value(read::<Item>(other.clone())).unwrap(), other);
    let turn = json!({
        "id": "u", "rootTurnId": "u", "status": "paused",
        "error": { "message": "m", "additionalDetails": null }, "items": [],
    });
    assert_eq!(serde_json::to_value(read::<Turn>(turn.clone())).unwrap(), turn);
}

#[test]
fn each_kind_of_item_has_its_name_and_its_id_and_may_be_work() {
    for (kind, is_work) in [
        ("userMessage", false),
        ("agentMessage", false),
        ("plan", false),
        ("reasoning", false),
        ("commandExecution", true),
        ("fileChange", true),
        ("mcpToolCall", true),
        ("dynamicToolCall", true),
        ("collabAgentToolCall", true),
        ("subAgentActivity", false),
        ("webSearch", true),
        ("enteredReviewMode", false),
        ("exitedReviewMode", false),
    ] {
        let item: Item = read(json!({ "type": kind, "id": "i" }));
        assert_eq!((item.kind(), item.id(), item.is_work()), (kind, "i", is_work));
        assert!(!matches!(item, Item::Other { .. }), "{kind}");
    }
}
