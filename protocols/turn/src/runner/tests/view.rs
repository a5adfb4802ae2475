//! Jobs and reports for people and programs.

use super::super::view;
use super::*;
use crate::capture::{EditedFile, Evidence, Report, Verdict};
use crate::jobs::Listing;
use crate::wire::ChangeKind;

async fn job() -> Job {
    let machine = Machine::default();
    let (id, _) = machine.running("s").await;
    Job {
        title: "one\u{1b}[31m\ntwo".into(),
        phase: Some("editing".into()),
        ..machine.read(&id).await
    }
}

#[tokio::test]
async fn a_table_has_a_line_for_each_job_without_control_characters() {
    let job = job().await;
    let (id, title) = (job.id.clone(), "one [31m two");
    let text = view::table(&Listing { jobs: vec![job.clone()], broken: vec![] });
    assert_eq!(text, format!("{id}  running (editing)         {title}\n"));
    assert_eq!(view::table(&Listing::default()), "There are no jobs.\n");
    let text = view::details(&job, &["a\tline".to_owned()]);
    let expected =
        format!("{id}: running (editing)\n{title}\nthread t\nturn u\nsession s\n  a line\n");
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_result_is_the_report_or_says_why_there_is_none() {
    let running = job().await;
    let id = running.id.clone();
    let text = |state, report: Option<&str>| {
        let report = report.map(str::to_owned);
        view::result(&Job { state, report, ..running.clone() })
    };
    assert_eq!(text(State::Completed, Some("yes\n")), "yes\n");
    let failed = || State::Failed { message: "no".into() };
    assert_eq!(text(failed(), None), format!("Job {id} failed: no\n"));
    assert_eq!(text(failed(), Some("some\n")), "some\n");
    assert_eq!(
        text(State::Cancelled, None),
        format!("Job {id} is cancelled, and has no report.\n")
    );
    let still = view::result(&running);
    assert_eq!(still, format!("Job {id} is still running. Wait for it, or cancel it.\n"));
}

#[tokio::test]
async fn a_job_as_json_has_its_state_and_its_exit_status() {
    let running = job().await;
    let json = view::job_json(&running, &["line".to_owned()]);
    let seen = [&json["state"], &json["phase"], &json["thread"], &json["turn"], &json["log"][0]];
    assert_eq!(seen, ["running", "editing", "t", "u", "line"]);
    assert!(json["exitStatus"].is_null() && json["error"].is_null() && json["pid"].is_u64());
    let failed = Job { state: State::Failed { message: "no".into() }, ..running.clone() };
    let json = view::table_json(&Listing { jobs: vec![failed], broken: vec![] });
    assert_eq!(
        (&json["jobs"][0]["error"], &json["jobs"][0]["exitStatus"]),
        (&json!("no"), &json!(1))
    );
    assert_eq!(json["broken"], json!([]));
}

#[test]
fn a_report_as_json_has_the_answer_and_the_changes() {
    let file = EditedFile { path: "a".into(), kind: ChangeKind::Add, diff: "+1".into() };
    let report = Report {
        verdict: Verdict::Completed(Evidence::Reported),
        thread: "t".into(),
        turn: Some("u".into()),
        answer: Some("yes".into()),
        last_message: None,
        error: None,
        files: vec![file],
        commands: vec![],
        left_out: 0,
        is_cut: false,
    };
    let json = view::report_json(&report);
    assert_eq!([&json["verdict"], &json["answer"]], ["completed", "yes"]);
    assert_eq!(json["exitStatus"], 0);
    assert_eq!(json["files"], json!([{ "path": "a", "kind": "add", "diff": "+1" }]));
}
