//! Jobs and reports for people, and for programs as JSON.

use std::fmt::Write;

use reknit_seams::defect;
use serde_json::{Value, json};

use crate::capture::Report;
use crate::jobs::{Job, Listing, State};

/// Returns a table of jobs, the newest first, and a line for each record that is not usable.
pub fn table(listing: &Listing) -> String {
    let mut text = String::new();
    if listing.jobs.is_empty() && listing.broken.is_empty() {
        text.push_str("There are no jobs.\n");
    }
    let width = listing.jobs.iter().map(|job| job.id.as_str().len()).max().unwrap_or_default();
    for job in &listing.jobs {
        let state = state(job);
        let _ = writeln!(text, "{:width$}  {state:24}  {}", job.id.as_str(), plain(&job.title));
    }
    for broken in &listing.broken {
        let _ = writeln!(text, "{broken}");
    }
    text
}

/// Returns a job with the last lines of its log.
pub fn details(job: &Job, log: &[String]) -> String {
    let mut text = format!("{}: {}\n{}\n", job.id, state(job), plain(&job.title));
    if let State::Failed { message } = &job.state {
        let _ = writeln!(text, "{message}");
    }
    for (name, value) in [("thread", &job.thread), ("turn", &job.turn), ("session", &job.session)] {
        if name == "turn" && defect!(DetailsHideTheTurn) {
            continue;
        }
        if let Some(value) = value {
            let _ = writeln!(text, "{name} {}", plain(value));
        }
    }
    for line in log {
        let _ = writeln!(text, "  {}", plain(line));
    }
    text
}

/// Returns the result of a job: its report, or why there is none.
pub fn result(job: &Job) -> String {
    match (&job.report, &job.state) {
        (Some(report), _) => report.clone(),
        (None, State::Failed { message }) => format!("Job {} failed: {message}\n", job.id),
        (None, State::Queued { .. } | State::Running { .. }) => {
            format!("Job {} is still {}. Wait for it, or cancel it.\n", job.id, job.state.name())
        }
        (None, state) => format!("Job {} is {}, and has no report.\n", job.id, state.name()),
    }
}

/// Returns the jobs as JSON: `{"jobs": […], "broken": [{"id", "error"}]}`.
pub fn table_json(listing: &Listing) -> Value {
    let broken = listing.broken.iter();
    json!({
        "jobs": listing.jobs.iter().map(|job| job_json(job, &[])).collect::<Vec<_>>(),
        "broken": broken.map(|broken| json!({ "id": broken.id, "error": broken.to_string() })).collect::<Vec<_>>(),
    })
}

/// Returns a job as JSON. Times are in milliseconds since 1970. `exitStatus` is `null` while the job is
/// not over.
pub fn job_json(job: &Job, log: &[String]) -> Value {
    let error = match &job.state {
        State::Failed { message } => Some(message),
        _ => None,
    };
    let pid = job.state.process().map(|process| process.pid);
    json!({
        "id": job.id, "kind": job.kind, "state": job.state.name(), "phase": job.phase, "pid": pid,
        "session": job.session, "title": job.title, "workspace": job.workspace,
        "thread": job.thread, "turn": job.turn, "report": job.report, "error": error,
        "exitStatus": job.state.exit_status(),
        "created": job.created, "started": job.started, "ended": job.ended, "log": log,
    })
}

/// Returns the report of a turn as JSON.
pub fn report_json(report: &Report) -> Value {
    let files = report
        .files
        .iter()
        .map(|file| json!({ "path": file.path, "kind": file.kind.as_str(), "diff": file.diff }));
    let commands = report.commands.iter().map(|run| {
        json!({ "command": run.command, "exitCode": run.exit_code, "status": run.status.as_str() })
    });
    json!({
        "verdict": report.verdict.name(), "summary": report.summary(),
        "exitStatus": report.exit_status(),
        "thread": report.thread, "turn": report.turn,
        "answer": report.answer, "lastMessage": report.last_message, "error": report.error,
        "files": files.collect::<Vec<_>>(), "commands": commands.collect::<Vec<_>>(),
        "leftOut": report.left_out, "isCut": report.is_cut,
    })
}

fn state(job: &Job) -> String {
    match &job.phase {
        Some(phase) => format!("{} ({})", job.state.name(), plain(phase)),
        None => job.state.name().to_string(),
    }
}

/// Returns a text of a job on one line, without the control characters of a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
