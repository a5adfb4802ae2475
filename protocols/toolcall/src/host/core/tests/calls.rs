//! The owners of calls, and how calls end.

use super::*;

#[test]
fn the_client_that_started_the_turn_has_priority_for_its_calls() {
    let (mut host, _first) = Host::with_chat("first", &["tool", "mine"]);
    let second = host.second("second", &["tool"]);
    host.starts_turn(second, 1, "t1");
    let (shared, only) = (host.calls("tool"), host.calls("mine"));
    assert_eq!(
        (host.owner(&shared).as_deref(), host.owner(&only).as_deref()),
        (Some("second"), Some("first"))
    );
}

#[test]
fn a_connected_client_has_priority_over_a_disconnected_one() {
    let (mut host, first) = Host::with_chat("first", &["tool"]);
    let second = host.second("second", &["tool"]);
    host.starts_turn(first, 1, "t1");
    host.close(first);
    let id = host.calls("tool");
    assert_eq!(host.owner(&id).as_deref(), Some("second"));
    host.close(second);
}

#[test]
fn a_client_without_a_subscription_to_the_chat_gets_no_call() {
    let (mut host, first) = Host::with_chat("first", &["tool"]);
    let user = host.second("user", &[]);
    host.notify(first, "unsubscribe", json!({ "channel": "c" }));
    host.starts_turn(user, 1, "t1");
    let id = host.calls("tool");
    assert_eq!((host.call(&id), host.owner(&id)), ("failed", None));
}

/// A reloaded window is a new client: the state of the old one does not count.
#[test]
fn a_reloaded_window_runs_the_calls_of_the_old_windows_turn() {
    let (mut host, old) = Host::with_chat("window-1", &["tool"]);
    host.starts_turn(old, 1, "t1");
    host.close(old);
    host.second("window-2", &["tool"]);
    let id = host.calls("tool");
    assert_eq!(host.owner(&id).as_deref(), Some("window-2"));
}

#[test]
fn the_failure_suggests_a_retry_only_if_another_client_is_ready() {
    let failed = |replacement_is_there: bool| {
        let (mut host, gone) = Host::with_chat("gone", &["tool"]);
        host.starts_turn(gone, 1, "t1");
        let id = host.calls("tool");
        let other = host.second("other", &["tool"]);
        host.close(gone);
        if !replacement_is_there {
            host.close(other);
        }
        host.wait(30 * S);
        let Some(ToolCallState::Completed(done)) = host.core.call(&id) else { panic!("it failed") };
        done.past_tense_message.as_text().to_owned()
    };
    assert!(failed(true).ends_with("try again"));
    assert!(!failed(false).contains("try again"), "it is itself away");
}

#[test]
fn a_call_passes_confirmation_execution_and_result_confirmation() {
    let (mut host, conn, id) = with_call();
    host.ready(&id, false);
    assert_eq!(host.call(&id), "pending confirmation");
    let about = |kind: &str| json!({ "type": kind, "turnId": id.turn, "toolCallId": id.id, "approved": true });
    host.dispatch(conn, 2, "c", about("chat/toolCallConfirmed"));
    assert_eq!(host.call(&id), "running");
    let mut complete = completed(&id);
    complete["requiresResultConfirmation"] = true.into();
    host.dispatch(conn, 3, "c", complete);
    assert_eq!(host.call(&id), "pending result confirmation");
    host.dispatch(conn, 4, "c", about("chat/toolCallResultConfirmed"));
    assert_eq!(host.call(&id), "completed");
}

#[test]
fn a_result_during_a_pending_confirmation_ends_both() {
    let (mut host, conn, id) = with_call();
    host.ready(&id, false);
    host.dispatch(conn, 2, "c", completed(&id));
    assert_eq!(host.call(&id), "completed");
    let confirm = json!({ "type": "chat/toolCallConfirmed", "turnId": id.turn, "toolCallId": id.id, "approved": true });
    host.dispatch(conn, 3, "c", confirm);
    assert_eq!(host.actions(conn).last().unwrap()["rejectionReason"], "the call has ended");
}

#[test]
fn a_late_result_is_refused_and_changes_nothing() {
    let (mut host, conn, id) = with_call();
    host.ready(&id, true);
    host.close(conn);
    host.wait(30 * S);
    let (conn, _) = host.reconnect("window", host.core.seq(), &["s", "c"]);
    host.dispatch(conn, 9, "c", completed(&id));
    let reported = host.actions(conn);
    assert_eq!(
        (reported.len(), &reported[0]["rejectionReason"]),
        (1, &json!("the call has ended"))
    );
    assert_eq!(reported[0]["origin"], json!({ "clientId": "window", "clientSeq": 9 }));
    assert_eq!(host.call(&id), "failed");
}

#[test]
fn an_agent_hears_how_a_call_ended_though_its_chat_is_gone() {
    let (mut host, conn, id) = with_call();
    host.ready(&id, true);
    let pending = host.calls("tool");
    host.dispatch(conn, 2, "c", completed(&id));
    let dispose = json!({ "jsonrpc": "2.0", "id": 99, "method": "disposeSession", "params": { "channel": "s" } });
    host.core.on_frame(conn, dispose.to_string().as_bytes(), host.now);
    assert!(host.core.state("c").is_none());
    assert_eq!((host.call(&id), host.core.call(&pending)), ("completed", None));
    host.carry_out();
    assert_eq!(host.call(&id), "completed", "its agent may run once more");
    host.core.agent_stopped("c", "t1");
    assert_eq!(host.core.call(&id), None);
}

#[test]
fn a_call_that_is_over_does_not_become_ready_again() {
    let (mut host, conn, id) = with_call();
    host.close(conn);
    host.wait(30 * S);
    let ready = json!({
        "type": "chat/toolCallReady", "turnId": id.turn, "toolCallId": id.id, "invocationMessage": "again", "confirmed": "not-needed",
    });
    let refused = host.core.act("c", serde_json::from_value(ready).unwrap(), host.now);
    assert_eq!((refused, host.call(&id)), (Err("the call has ended"), "failed"));
}

#[test]
fn the_end_of_a_turn_ends_its_calls() {
    let (mut host, conn, id) = with_call();
    host.core.end_turn("c", "t1", true, host.now);
    assert_eq!(host.call(&id), "cancelled");
    host.close(conn);
    assert!(!host.core.causes.contains_key("c"));
}

#[test]
fn a_client_that_leaves_the_session_gives_its_calls_up() {
    let (mut host, conn, id) = with_call();
    host.dispatch(
        conn,
        5,
        "s",
        json!({ "type": "session/activeClientRemoved", "clientId": "window" }),
    );
    assert_eq!((host.call(&id), host.active().is_empty()), ("failed", true));
}

#[test]
fn a_request_of_the_host_fails_with_its_connection() {
    let (mut host, conn) = Host::with_chat("window", &[]);
    let raw = || serde_json::value::to_raw_value(&json!({})).unwrap();
    let mut nobody = host.core.send_host_request("nobody", "resourceRead", raw(), host.now);
    assert_eq!(nobody.try_recv().unwrap().unwrap_err(), Unanswered::Away);

    let (newer, _) = host.reconnect("window", host.core.seq(), &[]);
    let mut lost = host.core.send_host_request("window", "resourceRead", raw(), host.now);
    host.pull(newer);
    let asked = host.inbox[&newer]
        .iter()
        .find(|message| message["method"] == "resourceRead")
        .unwrap()["id"]
        .clone();
    // The request did not go over the older connection.
    host.send(conn, &json!({ "jsonrpc": "2.0", "id": asked, "result": "forged" }));
    host.close(newer);
    assert_eq!(lost.try_recv().unwrap().unwrap_err(), Unanswered::Lost);

    let mut answered = host.core.send_host_request("window", "resourceRead", raw(), host.now);
    host.pull(conn);
    let asked =
        host.inbox[&conn].iter().find(|message| message["method"] == "resourceRead").unwrap()["id"]
            .clone();
    host.send(conn, &json!({ "jsonrpc": "2.0", "id": asked, "result": { "data": "x" } }));
    assert_eq!(answered.try_recv().unwrap().unwrap().get(), r#"{"data":"x"}"#);

    let mut late = host.core.send_host_request("window", "resourceRead", raw(), host.now);
    host.wait(30 * S);
    assert_eq!(late.try_recv().unwrap().unwrap_err(), Unanswered::Late);
}

#[test]
fn a_request_of_a_stopped_turn_is_given_up() {
    let (mut host, conn) = Host::with_chat("window", &[]);
    let raw = || serde_json::value::to_raw_value(&json!({})).unwrap();
    drop(host.core.send_host_request("window", "resourceRead", raw(), host.now));
    assert_eq!(host.core.counts().questions, 1);
    host.ask(conn, "ping", json!({}));
    assert_eq!(host.core.counts().questions, 0, "the turn that asked was stopped");
}
