//! The property `record_is_true`: what the record of a job says of its turn and its times, and the exit status of
//! its worker.

use std::time::Duration;

use super::limits;
use super::notes::SeenJob;
use super::properties::violation;
use super::story::{Job, Look};
use crate::history::Time;
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::schedule::{Action, Fault, Plan};
use crate::subjects::turn::notes::TurnNote;
use crate::subjects::turn::setup;
use crate::subjects::turn::story::{Story, started};
use reknit_turn::jobs::StateName;
use reknit_turn::limits::JobLimits;

kinds! {
    pub(in super::super) RECORD_IS_TRUE;
    OTHER_TURN = "other-turn": "{subject:}a user saw the job with {turn} on {thread}, but the app-server had started no such turn for it {moment}";
    STALE = "stale": "{subject:}a user saw the job completed with {named}, but its turn was {turn} on {thread} {moment}";
    UNTRUE_TIMES = "untrue-times": "{subject:}a user saw the job {state}, but the times in its record are not true: created {created}, started {started}, ended {ended} {moment}";
    WRONG_STATUS = "wrong-status": "{subject:}a user saw the job {state}, but with the exit status {status} {moment}";
    WORKER = "worker": "{subject:}a user saw the job {state}, but its worker exited with {status} {moment}";
    UNASKED = "unasked": "{subject:}its worker exited with {status}, but no user had ended the job {moment}";
    UNDONE = "undone": "{subject:}its worker exited with {status}, but the app-server had neither reported that its turn completed, nor given a final answer {moment}";
}

/// The exit status of a worker whose job a user cancelled.
const CANCELLED: i32 = 130;

pub(in super::super) fn record_is_true(story: &Story<'_>) -> Vec<Violation> {
    let jobs = &story.jobs;
    let undamaged = || jobs.jobs.values().filter(|job| job.damaged.is_none());
    let seen = undamaged()
        .filter_map(|job| jobs.sights(job).find_map(|(look, seen)| untrue(story, job, look, seen)));
    seen.chain(undamaged().filter_map(|job| wrong_exit(story, job))).collect()
}

fn untrue(story: &Story<'_>, job: &Job<'_>, look: &Look<'_>, seen: &SeenJob) -> Option<Violation> {
    story.cx.judges("record_is_true");
    let violation = |kind, data| Some(violation("record_is_true", job, look.at, kind, data));
    let state = seen.state.as_str();
    let status = match seen.state {
        StateName::Queued | StateName::Running => None,
        StateName::Completed => Some(0),
        StateName::Failed => Some(1),
        StateName::Cancelled => Some(i64::from(CANCELLED)),
    };
    if seen.shown["exitStatus"].as_i64() != status {
        let status = seen.shown["exitStatus"].to_string();
        return violation(&WRONG_STATUS, fields! { state, status });
    }
    let text = |name: &str| seen.shown[name].as_str();
    if let (Some(turn), Some(thread)) = (text("turn"), text("thread"))
        && !has_turn(story, job, turn, thread)
    {
        return violation(&OTHER_TURN, fields! { turn, thread });
    }
    if let Some((turn, thread)) = stale(story, job, seen) {
        let value = |name: &str| seen.shown[name].to_string();
        let named = format!("turn {} on thread {}", value("turn"), value("thread"));
        return violation(&STALE, fields! { named, turn, thread });
    }
    if jumps(story.cx.plan) || has_true_times(job, look, seen) {
        return None;
    }
    let time = |name: &str| seen.shown[name].to_string();
    let data = fields! {
        state,
        created: time("created"),
        started: time("started"),
        ended: time("ended"),
    };
    violation(&UNTRUE_TIMES, data)
}

/// Whether the app-server has started this turn for a job. The answer to the start of a turn names it before it
/// begins, and then it may never begin.
fn has_turn(story: &Story<'_>, job: &Job<'_>, turn: &str, thread: &str) -> bool {
    let may_wait = !setup::turn(story.cx.plan, job.turn()).waits().is_zero();
    let is_it = |note: &TurnNote| match note {
        TurnNote::Started { turn: own, thread: on } => own == turn && on == thread,
        _ => false,
    };
    may_wait || job.notes.iter().any(|(_, note)| is_it(note))
}

/// The shortest wait for the lock of the records that is judged. A command that does not hang holds the lock for less.
const LOCK: Duration = Duration::from_millis(100);

/// Returns the turn and the thread of a completed job whose record does not name both. A worker records news that it
/// could not record before at the latest when its turn is over, unless a command holds the lock then. No fault
/// may delay the worker.
fn stale<'s>(story: &Story<'_>, job: &Job<'s>, seen: &SeenJob) -> Option<(&'s str, &'s str)> {
    let (_, turn, thread) = started(&job.notes)?;
    let ended = job.worker_ended().filter(|_| seen.state == StateName::Completed)?;
    let over = job.completed().into_iter().chain(job.final_answer()).min()?;
    let own = limits::jobs(story.cx.limits);
    // The record has no room for the news of a job with a long order if its size is limited.
    let has_room = own.record_bytes == JobLimits::default().record_bytes;
    let is_free = has_room && own.lock >= LOCK && !story.jobs.is_locked(job.host, over, ended);
    let names = |name: &str, own: &str| seen.shown[name].as_str() == Some(own);
    let is_named = names("turn", turn) && names("thread", thread);
    (is_free && story.is_calm_until(ended) && !is_named).then_some((turn, thread))
}

/// Whether the clock of a machine jumps.
fn jumps(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| matches!(step.action, Action::Fault(Fault::ClockJump { .. })))
}

/// Compares the times in a record with those of the outside world. A record has milliseconds since 1970, so only
/// the spans between them say something.
fn has_true_times(job: &Job<'_>, look: &Look<'_>, seen: &SeenJob) -> bool {
    let ms = |name: &str| seen.shown[name].as_u64();
    let Some(created) = ms("created") else { return false };
    let since = |later: u64| later.checked_sub(created);
    // The job was created after its user had asked for it, and before the user learned that it is recorded.
    let most = |at: Time| at.0.saturating_sub(job.asked.0);
    let least = |at: Time| job.accepted.map_or(0, |accepted| at.0.saturating_sub(accepted.0));
    let worker = job.worker.as_ref().map(|worker| worker.at);
    let has_started = match ms("started") {
        None => !matches!(seen.state, StateName::Running | StateName::Completed),
        Some(at) => {
            let begun = started(&job.notes).map_or(look.at, |(begun, ..)| begun.min(look.at));
            let lasts = worker.map_or(0, least)..=most(begun);
            since(at).is_some_and(|since| lasts.contains(&since))
        }
    };
    let has_ended = match ms("ended") {
        None => !seen.state.is_terminal(),
        Some(at) => {
            let done = job.completed().into_iter().chain(job.final_answer()).min();
            let done = done.filter(|_| seen.state == StateName::Completed);
            let lasts = done.map_or(0, least)..=most(look.at);
            seen.state.is_terminal()
                && since(at).is_some_and(|since| lasts.contains(&since))
                && ms("started").is_none_or(|started| started <= at)
        }
    };
    has_started && has_ended
}

/// Compares the exit status of a worker with the end of its job. Only a worker records that its job completed.
fn wrong_exit(story: &Story<'_>, job: &Job<'_>) -> Option<Violation> {
    let worker = job.worker.as_ref()?;
    let (at, exit) = (worker.ended?, worker.exit?);
    story.cx.judges("record_is_true");
    let status = exit.to_string();
    let violation = |at, kind, data| Some(violation("record_is_true", job, at, kind, data));
    if exit == CANCELLED && job.unwanted().is_none_or(|unwanted| unwanted > at) {
        return violation(at, &UNASKED, fields! { status });
    }
    let mut evidence = job.completed().into_iter().chain(job.final_answer());
    if exit == 0 && !evidence.any(|evidence| evidence <= at) {
        return violation(at, &UNDONE, fields! { status });
    }
    let mut later = story.jobs.sights(job).filter(|(look, _)| look.since > at);
    let (look, seen) = later.find(|(_, seen)| seen.state == StateName::Completed)?;
    let data = fields! { state: seen.state.as_str(), status };
    (exit != 0).then(|| violation(look.at, &WORKER, data)).flatten()
}
