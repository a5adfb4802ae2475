//! The properties of jobs. P4, P6 and P8 name the properties of the issue that the protocol comes from.
//!
//! | property | evidence |
//! |---|---|
//! | `dead_is_over` (P4) | a job that a user saw as active, and the end of its worker |
//! | `no_job_is_lost` (P8) | the jobs that a user started, and those that a user saw |
//! | `cancel_is_asked` | a job that a user saw as cancelled, and what users asked |
//! | `job_end_is_true` (P2, P9) | a job that a user saw as completed, and what the app-server did |
//! | `cancel_interrupts` (P6) | what a cancel did, and what the record named before |
//! | `cancels_reach_all` | the jobs that a user had started before the end of their session, or before their cancel, and saw active after it |
//! | `ended_job_stops` (P6) | when a user ended a job, and when its turn and its worker were over; the signals that its worker got |
//! | `no_stranger_is_signalled` | the processes that got signals, and the workers |
//! | `job_waits_are_true` | how long a user waited for a job, and its state then |
//! | `old_jobs_are_pruned` | the jobs that were over when another one was recorded, and which of them ended first |
//! | `job_is_undisturbed` | the interrupts of a job's turn, what users asked, and the deadlines |
//!
//! `log_is_complete` is in [`logs`](super::logs), `end_absorbs` in [`ends`](super::ends), `record_is_true` in
//! [`records`](super::records).

use std::time::Duration;

use super::limits;
use super::notes::ProcessNote;
use super::story::{Job, Look, Wish};
use crate::history::{Call, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Violation, ViolationFields, ViolationKind};
use crate::subjects::turn::limits as turn;
use crate::subjects::turn::properties::endings::waits_too_long;
use crate::subjects::turn::properties::interrupts::{deadline, is_idle};
use crate::subjects::turn::properties::shared::{ends, may_forget_news_of_job, news};
use crate::subjects::turn::setup::{self, Answer};
use crate::subjects::turn::story::{Story, silent, started, too_much};
use reknit_turn::jobs::StateName;

kinds! {
    pub(in super::super) DEAD_IS_OVER;
    STILL = "still": "{subject:}its worker ended at {ended}, but a user saw the job {state} {moment}";
    NEVER_BEGAN = "never-began": "{subject:}its user learned at {refused} that its worker cannot be started, but a user saw the job {state} {moment}";
}

kinds! {
    pub(in super::super) NO_JOB_IS_LOST;
    LOST = "lost": "{subject:}its user started the job, but a user did not see it {moment}";
    PRUNED = "pruned": "{subject:}the job was pruned, but it was active {moment}";
    NOT_FOUND = "not-found": "{subject:}a user saw the active job in the list, but did not find it by its id {moment}";
}

kinds! {
    pub(in super::super) CANCEL_IS_ASKED;
    UNASKED = "unasked": "{subject:}a user saw the job cancelled, but no user had cancelled it or ended its session {moment}";
}

kinds! {
    pub(in super::super) JOB_END_IS_TRUE;
    UNTRUE = "untrue": "{subject:}a user saw the job completed, but the app-server had neither reported that nor given a final answer {moment}";
    NOT_CANCELLED = "not-cancelled": "{subject:}a user stopped the worker at {stopped}, while the turn ran, but saw the job {state} {moment}";
    NO_REPORT = "no-report": "{subject:}a user saw the job completed, but without the answer {moment}";
}

kinds! {
    pub(in super::super) CANCEL_INTERRUPTS;
    NOT_INTERRUPTED = "not-interrupted": "{subject:}the record named the thread of the running job, but its cancel interrupted nothing {moment}";
    KILLED = "killed": "{subject:}the worker was killed, although it would have ended by itself {moment}";
}

kinds! {
    pub(in super::super) CANCELS_REACH_ALL;
    ACTIVE = "active": "{subject:}a user had ended all such jobs at {done}, but saw the job {state} {moment}";
}

kinds! {
    pub(in super::super) ENDED_JOB_STOPS;
    RUNS_ON = "runs-on": "{subject:}a user ended the job at {ended}, but its turn still ran {moment}";
    LIVES_ON = "lives-on": "{subject:}a command had ended the job at {done}, but its worker lived on {moment}";
    NOT_ASKED = "not-asked": "{subject:}a command cancelled the job and sent its worker no signal, although the worker had not ended; it ended at {ended} {moment}";
}

kinds! {
    pub(in super::super) NO_STRANGER_IS_SIGNALLED;
    STRANGER = "stranger": "a command that ended a job sent signal {number} to process {pid}, which works on no job that it ended {moment}";
}

kinds! {
    pub(in super::super) JOB_WAITS_ARE_TRUE;
    TOO_SHORT = "too-short": "{subject:}a user waited {wait} for the job from {since}, but saw it {state} before that time was over {moment}";
    TOO_LONG = "too-long": "{subject:}a user waited {wait} for the job from {since}, but saw it only later {moment}";
}

kinds! {
    pub(in super::super) JOB_IS_UNDISTURBED;
    INTERRUPTED = "interrupted": "{subject:}its turn was interrupted, but no user had asked for that, and no deadline was near {moment}";
    NOT_COMPLETED = "not-completed": "{subject:}the app-server reported at {reported} that its turn completed, but a user saw the job {state} {moment}";
}

kinds! {
    pub(in super::super) OLD_JOBS_ARE_PRUNED;
    NEWER = "newer": "{subject:}the job was pruned, but {other} had ended before it, and kept its record {moment}";
    FEW = "few": "{subject:}the job was pruned, but at most {count} other jobs of its machine were over, and {kept} are kept {moment}";
    KEPT = "kept": "a user saw {count} jobs on {on} that were over when another one was recorded, but at most {kept} are kept {moment}";
}

/// The longest time from the end of a job to the end of its turn.
const STOPS: Duration = Duration::from_secs(3);

/// The longest time from the end of a command that ended a job to the end of the worker.
const DIES: Duration = Duration::from_millis(100);

pub(super) fn violation(
    property: &'static str,
    job: &Job<'_>,
    at: Time,
    kind: &'static ViolationKind,
    data: ViolationFields,
) -> Violation {
    Violation::new(property, job.call, at, kind, data)
}

pub(in super::super) fn dead_is_over(story: &Story<'_>) -> Vec<Violation> {
    let jobs = &story.jobs;
    let dead = jobs.jobs.values().filter_map(|job| {
        // Before the launch is over, the job depends on its launcher.
        let ended = job.worker_ended()?.max(job.accepted?);
        let (look, seen) = jobs
            .sights(job)
            .filter(|(look, _)| look.since > ended)
            .inspect(|_| story.cx.judges("dead_is_over"))
            .find(|(_, seen)| !seen.state.is_terminal())?;
        let data = fields! { ended, state: seen.state.as_str() };
        Some(violation("dead_is_over", job, look.at, &STILL, data))
    });
    let never_began = jobs.jobs.values().filter_map(|job| {
        let refused = job.refused.filter(|_| job.is_unstartable())?;
        let (look, seen) = jobs
            .sights(job)
            .filter(|(look, _)| look.since > refused)
            .inspect(|_| story.cx.judges("dead_is_over"))
            .find(|(_, seen)| !seen.state.is_terminal())?;
        let data = fields! { refused, state: seen.state.as_str() };
        Some(violation("dead_is_over", job, look.at, &NEVER_BEGAN, data))
    });
    dead.chain(never_began).collect()
}

/// A job without a wish of a user to end it ends as its turn does.
pub(in super::super) fn job_is_undisturbed(story: &Story<'_>) -> Vec<Violation> {
    let jobs = &story.jobs;
    jobs.jobs.values().filter_map(|job| disturbed(story, job)).collect()
}

fn disturbed(story: &Story<'_>, job: &Job<'_>) -> Option<Violation> {
    let (cx, jobs) = (story.cx, &story.jobs);
    let (started, ..) = started(&job.notes)?;
    let held = started.since(job.asked);
    let is_undisturbed = |at: Time| {
        job.damaged.is_none_or(|damaged| damaged > at)
            && jobs.disturbed_turn.is_none_or(|fault| fault > at)
            && story.ended.iter().all(|ended| *ended > at)
    };
    let is_alone = |at: Time| {
        let is_asked = story
            .interrupts
            .iter()
            .any(|(asked, on, turn)| *on == job.host && *turn == job.turn() && *asked <= at);
        let inference = turn::turn(cx.limits).inference;
        let has_inferred = job.final_answer().is_some_and(|answered| answered + inference <= at);
        is_undisturbed(at)
            && job.unwanted().is_none_or(|unwanted| unwanted > at)
            && story.shutdowns.iter().all(|asked| *asked > at)
            && at < job.asked + deadline(cx, job.turn(), held)
            && too_much(&job.notes).is_none_or(|too_much| too_much > at)
            && !is_asked
            && !has_inferred
    };
    let has_subagents = setup::turn(cx.plan, job.turn()).subagents > 0;
    if let Some(at) = job.interrupted().filter(|at| !has_subagents && is_undisturbed(*at)) {
        cx.judges("job_is_undisturbed");
        if is_alone(at) && !is_idle(cx, held, silent(&job.notes)) {
            return Some(violation("job_is_undisturbed", job, at, &INTERRUPTED, fields! {}));
        }
    }
    let reported = job.completed()?;
    let ended = job.worker_ended()?;
    // Nothing names the thread of a detached review but the answer to its start.
    job.named().filter(|named| *named <= ended)?;
    let idle = turn::turn(cx.limits).idle;
    if !is_alone(ended) || reported + news(cx) >= started + idle {
        return None;
    }
    let (look, seen) = jobs
        .sights(job)
        .filter(|(look, _)| look.since > ended)
        .inspect(|_| cx.judges("job_is_undisturbed"))
        .find(|(_, seen)| seen.state != StateName::Completed)?;
    let data = fields! { reported, state: seen.state.as_str() };
    Some(violation("job_is_undisturbed", job, look.at, &NOT_COMPLETED, data))
}

pub(in super::super) fn no_job_is_lost(story: &Story<'_>) -> Vec<Violation> {
    let jobs = &story.jobs;
    let lost = jobs.jobs.values().filter_map(|job| {
        let was_active = |at: &Time| is_queued(job, *at) || is_active(story, job, *at);
        let pruned = jobs.pruned(job).inspect(|_| story.cx.judges("no_job_is_lost"));
        if let Some(at) = pruned.filter(was_active) {
            return Some(violation("no_job_is_lost", job, at, &PRUNED, fields! {}));
        }
        jobs.looks.iter().filter(|look| look.host == job.host).find_map(|look| {
            if look.saw.not_found.contains(&job.call) {
                story.cx.judges("no_job_is_lost");
                if is_active(story, job, look.at) {
                    return Some(violation("no_job_is_lost", job, look.at, &NOT_FOUND, fields! {}));
                }
            }
            let is_there = look.saw.jobs.iter().any(|seen| seen.call == job.call);
            let is_lost = look.saw.all && must_be_there(story, job, look) && !is_there;
            is_lost.then(|| violation("no_job_is_lost", job, look.at, &LOST, fields! {}))
        })
    });
    lost.collect()
}

/// Whether a look has to show a job: it was recorded before, and could not be pruned. Each such look is a case, and
/// each that has to name a damaged record.
fn must_be_there(story: &Story<'_>, job: &Job<'_>, look: &Look<'_>) -> bool {
    if job.accepted.is_none_or(|accepted| accepted >= look.since) {
        return false;
    }
    let is_gone = |job: &Job<'_>| job.gone.is_some_and(|gone| gone <= look.at);
    if is_gone(job) {
        return false;
    }
    if job.damaged.is_some() {
        // An unreadable record is never pruned, and has no turn that a user sees.
        let damaged = story.jobs.jobs.values().filter(|other| other.host == job.host);
        let damaged = damaged.filter(|other| !is_gone(other));
        let damaged = damaged.filter(|other| other.damaged.is_some_and(|at| at < look.since));
        let is_calm = story.first_fault.is_none_or(|fault| fault > look.at);
        if !is_calm {
            return false;
        }
        story.cx.judges("no_job_is_lost");
        return damaged.count() > look.saw.broken.len();
    }
    let kept = limits::jobs(story.cx.limits).kept;
    let on = story.jobs.jobs.values().filter(|other| other.host == job.host);
    let asked = on.filter(|other| other.asked <= look.at).count();
    let must_be = asked <= kept || is_active(story, job, look.at);
    if must_be {
        story.cx.judges("no_job_is_lost");
    }
    must_be
}

/// Whether a job certainly waits for its worker, which begins later.
fn is_queued(job: &Job<'_>, at: Time) -> bool {
    job.worker.as_ref().is_some_and(|worker| worker.at > at)
        && job.unwanted().is_none_or(|unwanted| unwanted > at)
}

/// Whether a job is certainly active: its worker lives, and its turn runs and goes on.
fn is_active(story: &Story<'_>, job: &Job<'_>, at: Time) -> bool {
    let goes_on = at + news(story.cx);
    job.accepted.is_some_and(|accepted| accepted <= at)
        && story.is_calm_until(at)
        && job.started().is_some_and(|started| started <= at)
        && job.over().is_none_or(|over| over > goes_on)
        && job.worker_ended().is_none_or(|ended| ended > goes_on)
        && job.unwanted().is_none_or(|unwanted| unwanted > at)
}

pub(in super::super) fn cancel_is_asked(story: &Story<'_>) -> Vec<Violation> {
    let jobs = &story.jobs;
    let unasked = jobs.jobs.values().filter_map(|job| {
        let mut sights = jobs.sights(job);
        let (look, _) = sights.find(|(_, seen)| seen.state == StateName::Cancelled)?;
        story.cx.judges("cancel_is_asked");
        let asked = [job.cancelled, job.session_ended, job.stopped].into_iter().flatten().min();
        let is_unasked = asked.is_none_or(|asked| asked > look.at);
        is_unasked.then(|| violation("cancel_is_asked", job, look.at, &UNASKED, fields! {}))
    });
    unasked.collect()
}

pub(in super::super) fn job_end_is_true(story: &Story<'_>) -> Vec<Violation> {
    let (cx, jobs) = (story.cx, &story.jobs);
    let untrue = jobs.jobs.values().filter_map(|job| {
        let mut sights = jobs.sights(job);
        let (look, seen) = sights.find(|(_, seen)| seen.state == StateName::Completed)?;
        cx.judges("job_end_is_true");
        let evidence = job.completed().into_iter().chain(job.final_answer()).min();
        if evidence.is_none_or(|evidence| evidence > look.at) {
            return Some(violation("job_end_is_true", job, look.at, &UNTRUE, fields! {}));
        }
        let is_final = setup::turn(cx.plan, job.turn()).answer == Answer::Final;
        let answer = format!("[turn {} call {}]", job.turn(), job.call.0);
        let report = seen.shown["report"].as_str();
        let is_complete = report.is_some_and(|report| !is_final || report.contains(&answer))
            || may_forget_news_of_job(story, job, look.at);
        (!is_complete).then(|| violation("job_end_is_true", job, look.at, &NO_REPORT, fields! {}))
    });
    let stopped = jobs.jobs.values().filter_map(|job| not_cancelled(story, job));
    untrue.chain(stopped).collect()
}

/// A job whose worker a user stopped while its turn ran, and that is not cancelled.
fn not_cancelled(story: &Story<'_>, job: &Job<'_>) -> Option<Violation> {
    let (cx, jobs) = (story.cx, &story.jobs);
    let (stopped, ended) = (job.stopped?, job.worker_ended()?);
    let (look, seen) = jobs.sights(job).find(|(look, _)| look.since > ended)?;
    let (started, ..) = started(&job.notes)?;
    let known = stopped + news(cx);
    let ran = job.named().is_some_and(|named| named + news(cx) < stopped)
        && job.over().is_none_or(|over| over > known)
        && job.asked_to_interrupt().is_none_or(|asked| asked >= stopped)
        && !job.ended_by_itself()
        && known < ended
        && ended < job.asked + deadline(cx, job.turn(), started.since(job.asked))
        && too_much(&job.notes).is_none();
    let is_alone = job.killed.is_none()
        && job.damaged.is_none()
        && jobs.disturbed_turn.is_none_or(|fault| fault > ended)
        && story.shutdowns.iter().all(|asked| *asked > ended)
        && story.ended.iter().all(|over| *over > ended);
    if !ran || !is_alone {
        return None;
    }
    cx.judges("job_end_is_true");
    let data = fields! { stopped, state: seen.state.as_str() };
    (seen.state != StateName::Cancelled)
        .then(|| violation("job_end_is_true", job, look.at, &NOT_CANCELLED, data))
}

pub(in super::super) fn cancel_interrupts(story: &Story<'_>) -> Vec<Violation> {
    let jobs = &story.jobs;
    let mut all = Vec::new();
    for job in jobs.jobs.values() {
        for (at, cancel) in &job.cancels {
            if cancel.had_thread {
                story.cx.judges("cancel_interrupts");
                if !cancel.interrupts {
                    let kind = &NOT_INTERRUPTED;
                    all.push(violation("cancel_interrupts", job, *at, kind, fields! {}));
                }
            }
            if story.is_calm_until(*at) && may_end(story, job) {
                story.cx.judges("cancel_interrupts");
                if cancel.killed {
                    all.push(violation("cancel_interrupts", job, *at, &KILLED, fields! {}));
                }
            }
        }
    }
    all
}

/// Whether the worker of a cancelled job has the time to end by itself: for the interrupt, and for its
/// app-server.
fn may_end(story: &Story<'_>, job: &Job<'_>) -> bool {
    let set = story.cx.limits;
    let interrupt = turn::turn(set).interrupt * 2;
    let needs = interrupt + ends(set) + turn::connection(set).terminate + news(story.cx) * 2;
    let own = setup::app_server(story.cx.plan, job.host);
    let turn = setup::turn(story.cx.plan, job.turn());
    let is_slow = turn.interrupt_answered_last
        || turn.refused_interrupts > 0
        || !turn.waits().is_zero()
        || own.outlives_input
        || own.ignores_terminate
        || !own.input_takes.0.is_zero()
        || !own.terminate_takes.0.is_zero();
    !is_slow || limits::cancel(story.cx.limits).grace >= needs
}

pub(in super::super) fn cancels_reach_all(story: &Story<'_>) -> Vec<Violation> {
    let jobs = &story.jobs;
    let mut all = Vec::new();
    for wish in jobs.wishes.values() {
        all.extend(jobs.jobs.values().filter_map(|job| spared(story, wish, job)));
    }
    all
}

/// A job that was recorded before a user ended all jobs of its session or turn, and is active after that. The
/// state of a job never leaves its end, so no fault excuses it. The end of a session says if it could not
/// cancel a job. A cancel does not say that: another process may hold the lock for too long.
fn spared(story: &Story<'_>, wish: &Wish<'_>, job: &Job<'_>) -> Option<Violation> {
    let jobs = &story.jobs;
    let done = wish.done?;
    let is_meant = match wish.session {
        Some(session) => job.session() == Some(session),
        None => {
            let is_quiet = jobs.disturbed.is_none_or(|fault| fault > done)
                && !jobs.is_locked(wish.host, wish.asked, done);
            wish.turn == Some(job.turn()) && is_quiet
        }
    };
    let was_there = job.accepted.is_some_and(|accepted| accepted < wish.asked);
    if job.host != wish.host || !is_meant || !was_there || job.damaged.is_some() {
        return None;
    }
    let later = jobs.sights(job).filter(|(look, _)| look.since > done);
    let mut later = later.inspect(|_| story.cx.judges("cancels_reach_all"));
    let (look, seen) = later.find(|(_, seen)| !seen.state.is_terminal())?;
    let data = fields! { done, state: seen.state.as_str() };
    Some(violation("cancels_reach_all", job, look.at, &ACTIVE, data))
}

pub(in super::super) fn ended_job_stops(story: &Story<'_>) -> Vec<Violation> {
    let (cx, jobs) = (story.cx, &story.jobs);
    let until = Time::from(cx.plan.horizon);
    let runs = jobs.jobs.values().filter_map(|job| {
        let ended = job.unwanted()?;
        // A worker that has not seen the cancel learns of it with the next news of its turn.
        let every = setup::turn(cx.plan, job.turn()).every.0;
        // The app-server takes no interrupt before the turn begins.
        let begins = job.named()? + setup::turn(cx.plan, job.turn()).waits();
        let bound = ended.max(begins) + STOPS + every * 4 + cx.plan.latency.1 * 2;
        // The worker waits for the end of the turn, and then the broker repeats the interrupt.
        let interrupt = turn::turn(cx.limits).interrupt;
        let refused = job.interrupt_refused().map(|at| at + interrupt * 2 + STOPS + news(cx));
        let bound = refused.map_or(bound, |refused| bound.max(refused));
        let is_calm = jobs.disturbed.is_none_or(|fault| fault > bound)
            && story.shutdowns.iter().all(|shutdown| *shutdown > bound);
        let was_over = job.over().is_some_and(|over| over <= ended);
        // A command that cannot read the record cannot end the job.
        let is_found = job.damaged.is_none_or(|at| at > bound) || !job.cancels.is_empty();
        let is_judged =
            is_calm && is_found && !was_over && !waits_too_long(cx, job.turn()) && bound < until;
        if !is_judged {
            return None;
        }
        cx.judges("ended_job_stops");
        let is_over = job.over().is_some_and(|over| over <= bound);
        let data = fields! { ended };
        (!is_over).then(|| violation("ended_job_stops", job, bound, &RUNS_ON, data))
    });
    runs.chain(jobs.jobs.values().filter_map(|job| outlives(story, job))).collect()
}

/// A worker that outlives the command that ended its job. The command waits for the worker, and kills it at last.
/// SIGKILL also ends a process that is stopped or hangs, so no fault excuses the worker. The command does not know
/// a worker that has not claimed its job, or whose record is damaged.
fn outlives(story: &Story<'_>, job: &Job<'_>) -> Option<Violation> {
    let worker = job.worker.as_ref().filter(|_| job.damaged.is_none())?;
    let is_worker = |to: &ProcessNote| worker.began.process == *to;
    // A worker asks an app-server only after it has claimed its job.
    let has_worked = job.notes.first().is_some_and(|(at, _)| Some(*at) <= job.cancelled);
    let is_known = has_worked || job.signals.iter().any(|(_, signalled)| is_worker(&signalled.to));
    let cancels = job.cancels.iter().filter(|_| is_known).map(|(at, _)| *at);
    // The end of a session spares a job that is over, and its worker ends by itself.
    let wishes = story.jobs.wishes.values();
    // Processes of two hosts may have one id.
    let wishes = wishes
        .filter(|wish| wish.host == job.host && wish.signalled.iter().any(|to| is_worker(to)));
    let done = cancels.chain(wishes.filter_map(|wish| wish.done)).min()?;
    let bound = done + DIES;
    if bound >= Time::from(story.cx.plan.horizon) {
        return None;
    }
    story.cx.judges("ended_job_stops");
    let Some(ended) = worker.ended.filter(|ended| *ended <= bound) else {
        let data = fields! { done };
        return Some(violation("ended_job_stops", job, bound, &LIVES_ON, data));
    };
    // A cancel sends no signal only if the worker has ended before. It looks for the worker in the process table, so
    // no fault deceives it.
    let spared = job.spared.filter(|_| has_worked)?;
    let data = fields! { ended };
    Some(violation("ended_job_stops", job, spared, &NOT_ASKED, data))
}

pub(in super::super) fn no_stranger_is_signalled(story: &Story<'_>) -> Vec<Violation> {
    let jobs = &story.jobs;
    let is_worker = |job: &Job<'_>, to: &ProcessNote| {
        job.worker.as_ref().is_some_and(|worker| worker.began.process == *to)
    };
    let mut strangers = Vec::new();
    for job in jobs.jobs.values() {
        let all = job.signals.iter().inspect(|_| story.cx.judges("no_stranger_is_signalled"));
        let others = all.filter(|(_, signalled)| !is_worker(job, &signalled.to));
        strangers.extend(others.copied());
    }
    for (at, on, signalled) in &jobs.signals {
        story.cx.judges("no_stranger_is_signalled");
        let mut own = jobs.jobs.values().filter(|job| job.host == *on);
        if !own.any(|job| job.session_ended.is_some() && is_worker(job, &signalled.to)) {
            strangers.push((*at, signalled));
        }
    }
    strangers
        .into_iter()
        .map(|(at, signalled)| {
            let data =
                fields! { number: signalled.number.to_string(), pid: signalled.to.pid.to_string() };
            Violation::new("no_stranger_is_signalled", Call::NONE, at, &STRANGER, data)
        })
        .collect()
}

/// How long a look at a record may take.
const LOOKS: Duration = Duration::from_secs(1);

pub(in super::super) fn job_waits_are_true(story: &Story<'_>) -> Vec<Violation> {
    let jobs = &story.jobs;
    let lock = limits::jobs(story.cx.limits).lock;
    let untrue = jobs.jobs.values().filter_map(|job| {
        let waits = jobs.sights(job).filter_map(|(look, seen)| Some((look, seen, look.wait?)));
        waits
            .filter(|(look, ..)| story.runs_between(look.host, look.since, look.at))
            .inspect(|_| story.cx.judges("job_waits_are_true"))
            .find_map(|(look, seen, wait)| {
                let took = look.at.since(look.since);
                let (since, waited) = (look.since, Time::from(wait));
                if took < wait && !seen.state.is_terminal() {
                    let data = fields! { wait: waited, since, state: seen.state.as_str() };
                    return Some(violation("job_waits_are_true", job, look.at, &TOO_SHORT, data));
                }
                let data = fields! { wait: waited, since };
                (took > wait + lock * 2 + LOOKS)
                    .then(|| violation("job_waits_are_true", job, look.at, &TOO_LONG, data))
            })
    });
    untrue.collect()
}

pub(in super::super) fn old_jobs_are_pruned(story: &Story<'_>) -> Vec<Violation> {
    let kept = limits::jobs(story.cx.limits).kept;
    let all = story.jobs.looks.iter().filter(|look| look.saw.all);
    let too_many = all.filter_map(|look| too_many(story, look, kept));
    let jobs = &story.jobs;
    let newer = jobs.jobs.values().filter_map(|job| pruned_before(story, job));
    let few = jobs.jobs.values().filter_map(|job| pruned_early(story, job, kept));
    too_many.chain(newer).chain(few).collect()
}

/// A job that was pruned although fewer other jobs than the limit can have kept their records as jobs that are over. A
/// job whose worker begins later waits for it, so it is not over. All other jobs count, also those that are active, or
/// that no user can read: the end of a job may be recorded some time before its turn or its worker ends.
fn pruned_early(story: &Story<'_>, job: &Job<'_>, kept: usize) -> Option<Violation> {
    let jobs = &story.jobs;
    let at = jobs.pruned(job)?;
    // After a fault, the record of a job may be over before its worker begins.
    if !story.is_calm_until(at) {
        return None;
    }
    story.cx.judges("old_jobs_are_pruned");
    let others = jobs.jobs.values().filter(|other| {
        let is_pruned = jobs.pruned(other).is_some_and(|pruned| pruned <= at);
        let is_queued = jobs.waited(other, job) && other.unwanted().is_none_or(|asked| asked > at);
        let is_there = other.asked <= at && !is_pruned && !is_queued;
        other.call != job.call && other.host == job.host && is_there
    });
    let count = others.count();
    let data = fields! { count: count as u64, kept: kept as u64 };
    (count < kept).then(|| violation("old_jobs_are_pruned", job, at, &FEW, data))
}

/// A job that was pruned although another one, which ended before it, kept its record.
fn pruned_before(story: &Story<'_>, job: &Job<'_>) -> Option<Violation> {
    let jobs = &story.jobs;
    let at = jobs.pruned(job)?;
    let active = jobs.sights(job).filter(|(_, seen)| !seen.state.is_terminal());
    let active = active.map(|(look, _)| look.since).max()?;
    let others = jobs.jobs.values().filter(|other| {
        other.call != job.call && other.host == job.host && other.damaged.is_none()
    });
    let older = others.filter(|other| {
        let over = jobs.sights(other).find(|(_, seen)| seen.state.is_terminal());
        over.is_some_and(|(look, _)| look.at < active)
    });
    let mut older = older.inspect(|_| story.cx.judges("old_jobs_are_pruned"));
    let is_kept = |other: &&Job<'_>| jobs.sights(other).any(|(look, _)| look.since > at);
    let other = older.find(is_kept)?.call.to_string();
    Some(violation("old_jobs_are_pruned", job, at, &NEWER, fields! { other }))
}

/// Judges a look at all jobs of a machine.
fn too_many(story: &Story<'_>, look: &Look<'_>, kept: usize) -> Option<Violation> {
    let jobs = &story.jobs;
    let own = || jobs.jobs.values().filter(|job| job.host == look.host);
    if own().count() <= kept {
        return None;
    }
    // Each new job prunes the old ones.
    let recorded = own().filter(|job| job.accepted.is_some_and(|at| at < look.since));
    let newest = recorded.map(|job| job.asked).max()?;
    let was_over = |job: &Job<'_>| {
        let mut sights = jobs.sights(job);
        sights.any(|(earlier, seen)| earlier.at < newest && seen.state.is_terminal())
    };
    let seen = |job: &&Job<'_>| look.saw.jobs.iter().any(|seen| seen.call == job.call);
    let over: Vec<_> = own().filter(|job| job.damaged.is_none() && was_over(job)).collect();
    if over.len() <= kept || !story.runs_between(look.host, newest, look.at) {
        return None;
    }
    story.cx.judges("old_jobs_are_pruned");
    let count = over.into_iter().filter(seen).count();
    let data = fields! { count: count as u64, on: look.host.to_owned(), kept: kept as u64 };
    (count > kept).then(|| Violation::new("old_jobs_are_pruned", Call::NONE, look.at, &KEPT, data))
}
