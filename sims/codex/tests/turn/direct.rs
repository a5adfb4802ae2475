//! Our client and the app-server that it launches.

use codex_peer::model::Call;
use reknit_turn::capture::{Evidence, Failure, Interruption, Progress, Verdict};
use reknit_turn::client::{ClientError, News};
use reknit_turn::command::{Command, TaskThread};
use reknit_turn::wire::{ChangeKind, Delivery, ReviewTarget};
use tokio::sync::Notify;

use crate::peer::{Peer, answer, answered, command_started, endless, task};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_completes_and_its_thread_can_be_resumed() {
    let Some(peer) = Peer::new([answer("first"), answer("second")]).await else { return };
    let run = peer.run(task("go"), peer.direct()).await;
    let report = run.report();
    assert_eq!(report.verdict, Verdict::Completed(Evidence::Reported));
    assert_eq!((report.answer.as_deref(), report.exit_status()), (Some("first"), 0));
    let thread = TaskThread::Resume { thread: report.thread.clone(), prompt: None };
    let again = peer.run(Command::Task { thread, write: false }, peer.direct()).await;
    assert_eq!(again.report().answer.as_deref(), Some("second"));
    assert_eq!(again.report().thread, report.thread);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_changes_of_files_are_reported() {
    let patch =
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch\nEOF";
    let turns = [vec![Call::run("exit 3")], vec![Call::run(patch)], answer("done")];
    let Some(peer) = Peer::new(turns).await else { return };
    let run = peer.run(task("go"), peer.direct()).await;
    let report = run.report();
    assert_eq!(report.exit_status(), 0, "a command that fails does not fail the turn");
    assert_eq!(report.commands.len(), 1, "{report:?}");
    assert_eq!(report.commands[0].exit_code, Some(3), "{report:?}");
    assert!(report.commands[0].command.contains("exit 3"), "{report:?}");
    assert_eq!(report.files.len(), 1, "{report:?}");
    assert!(report.files[0].path.ends_with("/work/new.txt"), "{report:?}");
    assert_eq!(report.files[0].kind, ChangeKind::Add);
    assert_eq!(std::fs::read_to_string(peer.folder().join("new.txt")).unwrap(), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_reports_the_review() {
    let review = r#"{"findings":[],"overall_correctness":"patch is correct","overall_explanation":"fine","overall_confidence_score":1}"#;
    let Some(peer) = Peer::new([answer(review)]).await else { return };
    let target = ReviewTarget::Custom { instructions: "look at it".into() };
    let command = Command::Review { target, delivery: Delivery::Inline };
    let run = peer.run(command, peer.direct()).await;
    assert_eq!(run.report().verdict, Verdict::Completed(Evidence::Reported));
    assert_eq!(run.report().answer.as_deref(), Some("fine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_review_is_refused() {
    let Some(peer) = Peer::new([]).await else { return };
    let target = ReviewTarget::UncommittedChanges;
    let command = Command::Review { target, delivery: Delivery::Detached };
    let run = peer.run(command, peer.direct()).await;
    match run.result {
        Err(ClientError::NotStarted(why)) => assert_eq!(why.left_behind, None, "{why}"),
        result => panic!("{result:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adversarial_review_answers() {
    let Some(peer) = Peer::new([answer("{}")]).await else { return };
    let target = ReviewTarget::UncommittedChanges;
    let command = Command::AdversarialReview { target, focus: Some("the lock".into()) };
    let run = peer.run(command, peer.direct()).await;
    assert_eq!((run.report().answer.as_deref(), run.report().exit_status()), (Some("{}"), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_is_reported_as_interrupted() {
    let Some(peer) = Peer::new([endless()]).await else { return };
    let cancel = Notify::new();
    let watch = |news: &_| {
        if command_started(news) {
            cancel.notify_one();
        }
    };
    let run = peer.run_until(task("go"), peer.direct(), cancel.notified(), watch).await;
    assert_eq!(run.report().verdict, Verdict::Interrupted(Interruption::Cancelled));
    assert_eq!(run.report().exit_status(), 130);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_the_turn_starts_no_turn() {
    let Some(peer) = Peer::new([answer("no")]).await else { return };
    let run = peer.run_until(task("go"), peer.direct(), async {}, |_| {}).await;
    assert_eq!(run.result, Err(ClientError::Cancelled { left_behind: None }));
    assert_eq!(peer.model.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_during_the_turn_fails_it() {
    let Some(peer) = Peer::new([endless()]).await else { return };
    let watch = |news: &_| {
        if command_started(news) {
            peer.kill_app_server();
        }
    };
    let run = peer.run_until(task("go"), peer.direct(), std::future::pending(), watch).await;
    match &run.report().verdict {
        Verdict::Failed(Failure::Disconnected { why }) => {
            assert!(why.contains("signal 9"), "{why}")
        }
        verdict => panic!("{verdict:?}"),
    }
    assert_eq!(run.report().exit_status(), 1);
}

/// The model says the final answer, and does not end its response: so the server does not end the turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_after_the_final_answer_completes_the_turn() {
    let Some(peer) = Peer::new([vec![Call::answer("all of it"), Call::Hold]]).await else { return };
    let watch = |news: &_| {
        if answered(news) {
            peer.kill_app_server();
        }
    };
    let run = peer.run_until(task("go"), peer.direct(), std::future::pending(), watch).await;
    assert_eq!(run.report().verdict, Verdict::Completed(Evidence::EndOfServer));
    assert_eq!(
        (run.report().answer.as_deref(), run.report().exit_status()),
        (Some("all of it"), 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comment_before_the_end_of_the_server_completes_nothing() {
    let Some(peer) = Peer::new([vec![Call::comment("a plan"), Call::Hold]]).await else { return };
    let watch = |news: &_| {
        if answered(news) {
            peer.kill_app_server();
        }
    };
    let run = peer.run_until(task("go"), peer.direct(), std::future::pending(), watch).await;
    assert!(matches!(run.report().verdict, Verdict::Failed(Failure::Disconnected { .. })));
    assert_eq!(run.report().answer, None);
    assert_eq!(run.report().last_message.as_deref(), Some("a plan"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_refuses_fails_the_turn() {
    let Some(peer) = Peer::new([vec![Call::Refuse]]).await else { return };
    let run = peer.run(task("go"), peer.direct()).await;
    assert!(matches!(run.report().verdict, Verdict::Failed(Failure::Turn { .. })), "{run:?}");
    assert_eq!(run.report().exit_status(), 1);
}

/// The server tries again without end, so only the user or a deadline of the client ends the turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_be_reached_is_tried_again_until_the_user_cancels() {
    let Some(mut peer) = Peer::new([]).await else { return };
    peer.model.stop().await;
    let cancel = Notify::new();
    let watch = |news: &News| {
        if matches!(news, News::Turn(Progress::Error { will_retry: true, .. })) {
            cancel.notify_one();
        }
    };
    let run = peer.run_until(task("go"), peer.direct(), cancel.notified(), watch).await;
    assert_eq!(run.report().verdict, Verdict::Interrupted(Interruption::Cancelled));
    assert!(run.report().error.is_some());
}
