//! The properties of `turn` beyond the generic ones. P1 to P9 name the properties of the issue that
//! the protocol comes from; the generic `bounded_ending` is P1.
//!
//! | property | evidence |
//! |---|---|
//! | `success_is_true` (P2) | the verdict of a user, and what the app-server really reported or answered before |
//! | `failure_is_true` (P2) | the same, in a run without faults up to the verdict |
//! | `status_is_the_verdict` (P2) | the exit status of a command, and its verdict |
//! | `answer_is_the_answer` (P3, P9) | the answer that a command printed, and the final answer of the agent |
//! | `interruption_is_true` (P2) | the verdict of a user, and who interrupted the turn |
//! | `busy_is_true` (P5) | a command or an interrupt that was refused as busy, and the turns that ran then |
//! | `ending_is_prompt` (P1) | when the app-server was done with a turn, and when the user saw the verdict |
//! | `abandoned_is_interrupted` (P6) | the end of a client or its verdict, and when the app-server learned of it |
//! | `exit_is_true` (P7) | the exit statuses of the broker, and the requests to end it |
//! | `ends_in_order` (P8) | the app-servers that were killed |
//! | `no_thread_is_left` (P8) | the threads of a command, and the thread of its turn |
//! | `one_broker_serves` | when the brokers of a client's machine began and ended to serve |
//! | `account_is_own` | the account of a command, and that of the app-server that it asked |
//! | `fallback_is_taken` | a command that was refused, and whether the broker was ever ready |
//! | `fallback_is_needed` | where a turn ran, and whether the broker was ready and idle |
//! | `refusals_are_true` | a command that got no turn, and what was in its way |
//! | `interrupts_have_a_cause` | an interrupt that the app-server got, and what users asked before |
//! | `report_counts` | what the app-server reported first, and the verdict of the user |
//! | `ended_is_left_alone` | an interrupt that came after the app-server had reported the end of its turn |
//! | `reports_are_whole` | the work that the app-server reported, and the work that a command listed |
//! | `cancel_is_prompt` | when a user cancelled a command, and when it ended |
//! | `one_client_works`, `threads_are_free` | when the app-server started turns, and when they ended |
//! | `start_is_prompt` | when the app-server started a turn, and what else was at work |
//! | `broker_lets_go` | what a broker holds, and the clients that are connected to it |
//!
//! The properties of jobs are in [`jobs::properties`](super::jobs).

use std::time::Duration;

pub(super) mod interrupts;
mod refusals;
mod reports;
pub(super) mod shared;
mod starts;
#[cfg(test)]
mod tests;
mod works;

use self::shared::{ends, is_busy, is_in_use, may_forget_subagents, news, seen};
use super::jobs::{ends, logs, properties as jobs};
use super::limits::{self, LIMITS};
use super::notes::{Reported, Tag, TurnNote};
use super::outcome::SeenVerdict;
use super::setup::{
    self, Answer as AgentAnswer, AppServerSetup, BROKER, End, Initialize, Noise, Open, Start,
    Threads, TurnSetup,
};
use super::story::{Run, Story};
use crate::history::{Answer, Call, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::{Action, Step};
use crate::subjects::judging::story_properties;

kinds! {
    SUCCESS_IS_TRUE;
    WORKED = "worked": "{subject:}the user saw a completed turn, but it had had open work since {since}, and had no report {moment}";
    NOT_COMPLETED = "not-completed": "{subject:}the user saw a completed turn, but the app-server had neither reported that nor given a final answer {moment}";
    CANCELLED = "cancelled": "{subject:}the user saw a completed turn without a report, but had cancelled it at {cancelled} {moment}";
    CONTRADICTED = "contradicted": "{subject:}the user saw a completed turn, but the app-server had reported at {reported} that it {how} {moment}";
}

kinds! {
    FAILURE_IS_TRUE;
    COMPLETED = "completed": "{subject:}the user saw a turn that {seen}, but the app-server had reported at {reported} that it completed, and nothing was in the way {moment}";
    EARLY = "early": "{subject:}the user saw a turn that {seen}, because its client had interrupted it at {interrupted}, before any deadline {moment}";
    ANSWERED = "answered": "{subject:}the user saw a turn that {seen}, but the agent had given its final answer at {answered}, and then the app-server exited {moment}";
}

kinds! {
    STATUS_IS_THE_VERDICT;
    WRONG_STATUS = "wrong-status": "{subject:}the turn {seen}, but the command exited with {status} {moment}";
}

kinds! {
    ANSWER_IS_THE_ANSWER;
    OTHER_TURN = "other-turn": "{subject:}the command printed the answer of another turn: {printed} {moment}";
    LOST = "lost": "{subject:}the command printed no answer, but the agent had given its final answer at {answered} {moment}";
    OTHER_TEXT = "other-text": "{subject:}the command printed {printed}, but the final answer is {answer} {moment}";
}

kinds! {
    BUSY_IS_TRUE;
    IDLE = "idle": "{subject:}the broker refused the command as busy, but no other turn ran {moment}";
    ADMITTED = "admitted": "{subject:}the broker refused the command as busy, but had admitted it at {admitted} {moment}";
    INTERRUPT = "interrupt": "{subject:}the broker refused an interrupt as busy {moment}";
}

kinds! {
    ABANDONED_IS_INTERRUPTED;
    RUNS_ON = "runs-on": "{subject:}its client was gone at {gone}, but its turn still ran {moment}";
    CANCELLED_RUNS_ON = "cancelled-runs-on": "{subject:}the user cancelled it at {cancelled}, but its turn still ran {moment}";
    GIVEN_UP = "given-up": "{subject:}the client gave up the turn ({seen}) and did not interrupt it {moment}";
}

kinds! {
    INTERRUPTION_IS_TRUE;
    OWN_CLIENT = "own": "{subject:}the user saw that another client interrupted the turn, but its own client had interrupted it at {interrupted} {moment}";
}

kinds! {
    ENDING_IS_PROMPT;
    LATE = "late": "{subject:}the app-server was done with the turn at {over}, but the user still had no verdict {moment}";
}

kinds! {
    EXIT_IS_TRUE;
    UNASKED = "unasked": "the broker exited with 0, but no user had asked it to end {moment}";
    CRASHED = "crashed": "the broker was asked to end at {asked} and accepted that, but it did not exit with 0 {moment}";
}

kinds! {
    ENDS_IN_ORDER;
    KILLED = "killed": "an app-server on {on} was killed, although it would have ended by itself {moment}";
}

kinds! {
    NO_THREAD_IS_LEFT;
    LEFT_BEHIND = "left-behind": "{subject:}the command left {thread} behind, and started its turn on {other} {moment}";
    UNUSED = "unused": "{subject:}the user cancelled the command before its turn, but it left {thread} behind {moment}";
    UNNAMED = "unnamed": "{thread} has no name since {made}, and no command uses it {moment}";
}

kinds! {
    ONE_BROKER_SERVES;
    SECOND = "second": "a broker began to serve the machine {on}, but another one served it {moment}";
}

kinds! {
    ACCOUNT_IS_OWN;
    OTHER_ACCOUNT = "other-account": "{subject:}the command of the account {own} asked an app-server of the account {other} {moment}";
}

kinds! {
    FALLBACK_IS_TAKEN;
    BUSY = "busy": "{subject:}the broker was busy, but the command failed instead of running on an app-server of its own {moment}";
    NOT_READY = "not-ready": "{subject:}the broker was never ready, but the command failed instead of running on an app-server of its own {moment}";
}

story_properties! {
    Story;
    "success_is_true" as success_is_true, SUCCESS_IS_TRUE:
        "a turn completes for its user only if the app-server reported that, or the agent gave its final answer and no work was open";
    "failure_is_true" as failure_is_true, FAILURE_IS_TRUE:
        "without a fault, a turn that the app-server completed does not fail for its user; nor does a turn whose app-server exited after the final answer";
    "status_is_the_verdict" as status_is_the_verdict, STATUS_IS_THE_VERDICT:
        "a command exits with 0 if and only if its turn completed";
    "answer_is_the_answer" as answer_is_the_answer, ANSWER_IS_THE_ANSWER:
        "a command prints the final answer of its own turn, and no other text";
    "busy_is_true" as busy_is_true, BUSY_IS_TRUE:
        "the broker refuses a command as busy only while a turn of another client runs";
    "abandoned_is_interrupted" as abandoned_is_interrupted, ABANDONED_IS_INTERRUPTED:
        "a turn whose client is gone, or has cancelled it or given it up, does not run on";
    "interruption_is_true" as interruption_is_true, INTERRUPTION_IS_TRUE:
        "a turn that its own client interrupted because of a deadline fails; it does not count as interrupted by another";
    "ending_is_prompt" as ending_is_prompt, ENDING_IS_PROMPT:
        "without a fault, the user of a turn has its verdict soon after the app-server is done with it";
    "exit_is_true" as exit_is_true, EXIT_IS_TRUE:
        "the broker exits with 0 if and only if it was asked to end, and then it exits in time";
    "ends_in_order" as ends_in_order, ENDS_IN_ORDER:
        "without a fault, an app-server that ends after the end of its input, or after SIGTERM, is not killed";
    "no_thread_is_left" as no_thread_is_left, NO_THREAD_IS_LEFT:
        "a command that moves to another app-server removes its thread from the first";
    "one_broker_serves" as one_broker_serves, ONE_BROKER_SERVES:
        "at most one broker serves a machine at a time";
    "account_is_own" as account_is_own, ACCOUNT_IS_OWN:
        "a command asks only an app-server of its own account";
    "fallback_is_taken" as fallback_is_taken, FALLBACK_IS_TAKEN:
        "a command that may run without the broker does so if the broker is busy, or its app-server is never ready";
    "fallback_is_needed" as refusals::fallback_is_needed, refusals::FALLBACK_IS_NEEDED:
        "a command leaves a broker only if it is busy or not ready, and starts the broker of its machine if there is none";
    "refusals_are_true" as refusals::refusals_are_true, refusals::REFUSALS_ARE_TRUE:
        "a command that gets no turn was refused, cancelled, or found no server";
    "interrupts_have_a_cause" as interrupts::interrupts_have_a_cause, interrupts::INTERRUPTS_HAVE_A_CAUSE:
        "a turn is interrupted only if a user asked for its end, its client is gone, or a deadline has passed";
    "report_counts" as interrupts::report_counts, interrupts::REPORT_COUNTS:
        "the verdict of a turn is what the app-server reports, unless something else ended the turn before";
    "reports_are_whole" as reports::reports_are_whole, reports::REPORTS_ARE_WHOLE:
        "the report of a completed turn lists the commands and changes of its agent and subagents";
    "ended_is_left_alone" as interrupts::ended_is_left_alone, interrupts::ENDED_IS_LEFT_ALONE:
        "a turn is not interrupted after the app-server has reported its end";
    "cancel_is_prompt" as interrupts::cancel_is_prompt, interrupts::CANCEL_IS_PROMPT:
        "a command that its user cancelled ends in the time that its client has for that";
    "one_client_works" as works::one_client_works, works::ONE_CLIENT_WORKS:
        "one client of a broker works at a time";
    "start_is_prompt" as starts::start_is_prompt, starts::START_IS_PROMPT:
        "the turn of a command starts soon if no other command is at work";
    "threads_are_free" as works::threads_are_free, works::THREADS_ARE_FREE:
        "a turn starts on a thread only after the turn before it has ended there";
    "broker_lets_go" as works::broker_lets_go, works::BROKER_LETS_GO:
        "a broker holds nothing of clients that are gone, once their turns have had the time to end";
    "end_absorbs" as ends::end_absorbs, ends::END_ABSORBS:
        "a job that is over never changes";
    "dead_is_over" as jobs::dead_is_over, jobs::DEAD_IS_OVER:
        "a user does not see a job as active once its worker has ended";
    "no_job_is_lost" as jobs::no_job_is_lost, jobs::NO_JOB_IS_LOST:
        "a user sees each job that was started and not pruned, and finds it by its id; no active job is pruned";
    "cancel_is_asked" as jobs::cancel_is_asked, jobs::CANCEL_IS_ASKED:
        "a job is cancelled only if a user cancelled it or ended its session";
    "job_end_is_true" as jobs::job_end_is_true, jobs::JOB_END_IS_TRUE:
        "a job that completed has the answer of its turn, which the app-server really completed or answered";
    "cancel_interrupts" as jobs::cancel_interrupts, jobs::CANCEL_INTERRUPTS:
        "the cancel of a job interrupts its turn, and lets its worker end by itself";
    "ended_job_stops" as jobs::ended_job_stops, jobs::ENDED_JOB_STOPS:
        "the turn of a job that was cancelled, or whose worker was killed, does not run on";
    "job_waits_are_true" as jobs::job_waits_are_true, jobs::JOB_WAITS_ARE_TRUE:
        "a user who waits for a job sees it when it is over, or when the wait is";
    "old_jobs_are_pruned" as jobs::old_jobs_are_pruned, jobs::OLD_JOBS_ARE_PRUNED:
        "no more jobs that are over keep their records than the limit says";
    "log_is_complete" as logs::log_is_complete, logs::LOG_IS_COMPLETE:
        "the log of a completed job has a line for each item of its turn";
    "job_is_undisturbed" as jobs::job_is_undisturbed, jobs::JOB_IS_UNDISTURBED:
        "a job that its user leaves alone is not interrupted, and completes if its turn does";
    "no_stranger_is_signalled" as jobs::no_stranger_is_signalled, jobs::NO_STRANGER_IS_SIGNALLED:
        "a command that ends a job sends signals only to its worker";
}

fn success_is_true(story: &Story<'_>) -> Vec<Violation> {
    story.runs.iter().filter_map(|run| untrue_success(story, run)).collect()
}

fn untrue_success(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let (at, outcome) = run.outcome()?;
    if outcome.verdict != SeenVerdict::Completed {
        return None;
    }
    let violation = |kind, data| Some(Violation::new("success_is_true", run.call, at, kind, data));
    // The end of the connection can take seconds after that.
    let decided = run.decided.unwrap_or(at);
    let reported = run.reported().filter(|(reported, _)| *reported <= decided);
    let answered = run.final_answer().filter(|answered| *answered <= decided);
    match reported {
        Some((_, Reported::Completed)) => None,
        Some((reported, how)) if answered.is_none() || reported + news(story.cx) < decided => {
            let how = if how == Reported::Failed { "failed" } else { "was interrupted" };
            let is_calm = story.is_calm_until(decided) || answered.is_none();
            is_calm.then(|| violation(&CONTRADICTED, fields! { reported, how })).flatten()
        }
        _ if answered.is_none() => violation(&NOT_COMPLETED, fields! {}),
        _ => {
            if let Some(cancelled) = cancelled_before(story, run, decided) {
                return violation(&CANCELLED, fields! { cancelled });
            }
            let since = open_since(story, run, run.decided?)?;
            violation(&WORKED, fields! { since })
        }
    }
}

/// Returns when the user of a turn cancelled it, if its client certainly knew of that at this time.
fn cancelled_before(story: &Story<'_>, run: &Run<'_>, at: Time) -> Option<Time> {
    let cancelled = run.cancelled?;
    (cancelled + news(story.cx) < at && story.is_calm_until(at)).then_some(cancelled)
}

/// Returns since when work of a turn was open, if it was at this time and its client could know.
fn open_since(story: &Story<'_>, run: &Run<'_>, at: Time) -> Option<Time> {
    let is_known = |since: &Time| *since + news(story.cx) < at && story.is_calm_until(at);
    works_since(run, at).filter(is_known)
}

/// Returns since when a turn has open work at this time, if it has.
fn works_since(run: &Run<'_>, at: Time) -> Option<Time> {
    let works = run.notes.iter().rev().find_map(|(noted, note)| match note {
        TurnNote::Works if *noted <= at => Some(Some(*noted)),
        TurnNote::Rests if *noted <= at => Some(None),
        _ => None,
    });
    works.flatten()
}

fn failure_is_true(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let untrue = story.runs.iter().filter_map(|run| {
        let (at, outcome) = run.outcome()?;
        if outcome.verdict == SeenVerdict::Completed || !story.is_calm_until(at) {
            return None;
        }
        let seen = seen(&outcome.verdict);
        // Nothing names the thread of a detached review but the answer to its start.
        let is_named = run.named().is_some_and(|named| named <= at);
        let violation =
            |kind, data| Some(Violation::new("failure_is_true", run.call, at, kind, data));
        match run.reported() {
            // Before that, the report can still be on its way.
            Some((reported, Reported::Completed))
                if is_named && reported + news(cx) < run.resolved? =>
            {
                violation(&COMPLETED, fields! { seen, reported })
            }
            _ if is_early(cx, run) => {
                let interrupted = run.interrupted()?;
                violation(&EARLY, fields! { seen, interrupted })
            }
            None if is_named => {
                let answered = answered_before_the_exit(story, run, at)?;
                violation(&ANSWERED, fields! { seen, answered })
            }
            _ => None,
        }
    });
    untrue.collect()
}

/// Returns when the agent of a turn gave its final answer, if the app-server then exited while nothing
/// was open, and nothing else can have ended the turn.
fn answered_before_the_exit(story: &Story<'_>, run: &Run<'_>, at: Time) -> Option<Time> {
    let cx = story.cx;
    let set = cx.plan.limits.over(LIMITS);
    let answered = run.final_answer().filter(|answered| *answered <= at)?;
    let setup = setup::turn(cx.plan, run.turn());
    let was_left_alone = run.interrupted().is_none() && run.cancelled.is_none();
    // The end of another turn may be the exit, while subagents of this one work.
    let works = run.gone().and_then(|gone| works_since(run, gone)).is_some();
    let is_quiet = !setup.late_work && setup.noise != Noise::Work && !works;
    // The client may interrupt a turn that is silent for so long.
    let idle = limits::turn(&set).idle;
    let was_silent = run.resolved.is_some_and(|resolved| answered + idle <= resolved);
    // The client may give up a start that takes too long.
    let (started, ..) = run.started()?;
    let held = started.since(run.asked);
    let was_prompt = held + news(cx) < limits::connection(&set).request;
    // The client then does not know that the subagents have ended.
    let is_known = !may_forget_subagents(story, run, at);
    // The client may learn of the exit only after a deadline.
    let patience = interrupts::deadline(cx, run.turn(), held);
    let was_in_time = run.gone()? + news(cx) < run.asked + patience;
    let is_exit = setup.end.exits() && was_left_alone && is_quiet && was_prompt && was_in_time;
    (is_exit && !was_silent && is_known).then_some(answered)
}

/// Whether only the client of a turn can have interrupted it, and no deadline was near.
fn is_early(cx: &CheckContext<'_>, run: &Run<'_>) -> bool {
    let turn = limits::turn(&cx.plan.limits.over(LIMITS));
    let setup = setup::turn(cx.plan, run.turn());
    let failed = matches!(run.outcome(), Some((_, outcome)) if matches!(outcome.verdict, SeenVerdict::Failed(_)));
    let deadline = run.asked + turn.idle.min(turn.absolute);
    failed
        && setup.start == Start::Answered
        && setup.end != End::Error
        && !setup.errors
        && run.too_much().is_none()
        && run.route() == "direct"
        && run.cancelled.is_none()
        && run.interrupted().is_some_and(|interrupted| interrupted < deadline)
}

fn status_is_the_verdict(story: &Story<'_>) -> Vec<Violation> {
    let wrong = story.runs.iter().filter_map(|run| {
        let (at, outcome) = run.outcome()?;
        let is_right = (outcome.status == 0) == (outcome.verdict == SeenVerdict::Completed);
        let data = fields! { seen: seen(&outcome.verdict), status: outcome.status.to_string() };
        (!is_right)
            .then(|| Violation::new("status_is_the_verdict", run.call, at, &WRONG_STATUS, data))
    });
    wrong.collect()
}

fn answer_is_the_answer(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let wrong = story.runs.iter().filter_map(|run| {
        let (at, outcome) = run.outcome()?;
        let violation =
            |kind, data| Some(Violation::new("answer_is_the_answer", run.call, at, kind, data));
        let Some(printed) = outcome.answer.as_deref() else {
            let answered = run.final_answer().filter(|answered| *answered <= at)?;
            let is_lost = outcome.verdict == SeenVerdict::Completed;
            return is_lost.then(|| violation(&LOST, fields! { answered })).flatten();
        };
        let tag = Tag { turn: run.turn().to_owned(), call: run.call };
        if Tag::find(printed).is_some_and(|other| other != tag) {
            return violation(&OTHER_TURN, fields! { printed: printed.to_owned() });
        }
        let is_final = setup::turn(cx.plan, run.turn()).answer == AgentAnswer::Final;
        let is_complete = outcome.verdict == SeenVerdict::Completed;
        let answer = tag.answer();
        let is_wrong = is_final && is_complete && printed.trim() != answer;
        let data = fields! { printed: printed.to_owned(), answer };
        is_wrong.then(|| violation(&OTHER_TEXT, data)).flatten()
    });
    wrong.collect()
}

fn busy_is_true(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let wrong = story.runs.iter().filter_map(|run| {
        let (at, Answer::Refused(why)) = run.answer? else { return None };
        if !is_busy(&why.to_string()) {
            return None;
        }
        let violation = |kind, data| Some(Violation::new("busy_is_true", run.call, at, kind, data));
        // A client that has a thread at the broker keeps its admission for its turn, unless the
        // app-server refuses the turn.
        let admitted = run.thread().map(|(at, _)| at);
        let reserve = cx.plan.limits.over(LIMITS).duration("broker.reserve");
        let is_refused = setup::turn(cx.plan, run.turn()).start == Start::Refused;
        if let Some(admitted) = admitted
            && !is_refused
            && story.is_calm_until(at)
            && at <= admitted + reserve
        {
            return violation(&ADMITTED, fields! { admitted });
        }
        let is_idle = !is_in_use(story, run, run.asked, at);
        is_idle.then(|| violation(&IDLE, fields! {})).flatten()
    });
    let interrupts = story.refused_interrupts.iter().filter(|(_, _, why)| is_busy(why));
    let interrupts = interrupts
        .map(|(call, at, _)| Violation::new("busy_is_true", *call, *at, &INTERRUPT, fields! {}));
    wrong.chain(interrupts).collect()
}

fn abandoned_is_interrupted(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let until = Time::from(cx.plan.horizon);
    let wrong = story.runs.iter().filter_map(|run| {
        let violation = |at, kind, data| {
            Some(Violation::new("abandoned_is_interrupted", run.call, at, kind, data))
        };
        let named = run.named()?;
        let is_over = |at| run.gone().is_some_and(|over| over <= at) || run.left().is_some();
        if let Some(gone) = run.abandoned {
            let bound = gone.max(named) + LEARNS + news(cx);
            let bound = refused(cx, run).map_or(bound, |refused| bound.max(refused));
            // The crash that ended the client may be the first fault.
            let is_calm = story.first_fault.is_none_or(|fault| fault == gone || fault > bound)
                && story.first_other_fault.is_none_or(|fault| fault > bound);
            if is_calm && !is_over(bound) && bound < until {
                return violation(bound, &RUNS_ON, fields! { gone });
            }
        }
        if let Some(cancelled) = run.cancelled {
            let bound = cancelled.max(named) + LEARNS + news(cx);
            let bound = refused(cx, run).map_or(bound, |refused| bound.max(refused));
            if story.is_calm_until(bound) && !is_over(bound) && bound < until {
                return violation(bound, &CANCELLED_RUNS_ON, fields! { cancelled });
            }
        }
        let (at, outcome) = run.outcome()?;
        let decided = run.decided?;
        let knew = named + news(cx) < decided && story.is_calm_until(decided);
        let own_verdict = match outcome.verdict {
            SeenVerdict::Failed(_) => true,
            SeenVerdict::Interrupted => run.cancelled.is_some(),
            SeenVerdict::Completed => false,
        };
        let is_given_up = own_verdict
            && knew
            && run.asked_to_interrupt().is_none_or(|asked| asked > decided)
            && run.reported().is_none_or(|(reported, _)| reported > decided)
            && !is_over(decided);
        let seen = seen(&outcome.verdict);
        is_given_up.then(|| violation(at, &GIVEN_UP, fields! { seen })).flatten()
    });
    wrong.collect()
}

/// Returns when a turn must be interrupted whose first interrupt the app-server refused: its client waits
/// for the end of the turn, and then the broker repeats the interrupt.
fn refused(cx: &CheckContext<'_>, run: &Run<'_>) -> Option<Time> {
    let interrupt = limits::turn(&cx.plan.limits.over(LIMITS)).interrupt;
    Some(run.interrupt_refused()? + interrupt * 2 + LEARNS + news(cx))
}

fn interruption_is_true(story: &Story<'_>) -> Vec<Violation> {
    let wrong = story.runs.iter().filter_map(|run| {
        let (at, outcome) = run.outcome()?;
        let interrupted = run.interrupted()?;
        let is_own = run.route() == "direct" && run.cancelled.is_none();
        let is_wrong = outcome.verdict == SeenVerdict::Interrupted && is_own;
        let data = fields! { interrupted };
        (is_wrong && story.is_calm_until(at))
            .then(|| Violation::new("interruption_is_true", run.call, at, &OWN_CLIENT, data))
    });
    wrong.collect()
}

fn ending_is_prompt(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let until = Time::from(cx.plan.horizon);
    let late = story.runs.iter().filter_map(|run| {
        let (over, allowed) = done(story, run)?;
        let bound = over + allowed + news(cx) * 2;
        let in_time = run.answer.is_some_and(|(at, _)| at <= bound);
        let is_open = run.abandoned.is_none() && !in_time;
        (is_open && bound < until && story.is_calm_until(bound)).then(|| {
            let data = fields! { over };
            Violation::new("ending_is_prompt", run.call, bound, &LATE, data)
        })
    });
    late.collect()
}

/// Returns when the app-server was done with a turn, and how long the client may then take. A refused
/// turn did not run: its client removes the thread first, and the broker can be busy meanwhile.
fn done(story: &Story<'_>, run: &Run<'_>) -> Option<(Time, Duration)> {
    let cx = story.cx;
    let set = cx.plan.limits.over(LIMITS);
    let (turn, connection) = (limits::turn(&set), limits::connection(&set));
    let setup = setup::turn(cx.plan, run.turn());
    if setup.start == Start::Refused {
        return None;
    }
    if setup.start == Start::Silent {
        let (asked, _) = run.thread()?;
        return Some((asked, connection.request + turn.interrupt * 2 + ends(&set)));
    }
    // The broker gives up a start that takes too long. Then only the deadlines of the client count.
    if setup.answers_after() + news(cx) >= connection.request {
        return None;
    }
    let ends = ends(&set);
    if let Some((reported, _)) = run.reported() {
        return Some((reported, ends + turn.interrupt));
    }
    if let Some(left) = run.left() {
        let deadline = match setup.end {
            End::Error => turn.follow_up,
            _ if infers(&setup) && !may_forget_subagents(story, run, left) => turn.inference,
            _ => turn.idle.min(turn.absolute),
        };
        return Some((left, deadline + turn.interrupt + ends));
    }
    Some((run.gone()?, ends))
}

/// Whether the client infers the end of a turn without a report.
fn infers(setup: &TurnSetup) -> bool {
    setup.answer == AgentAnswer::Final
        && !setup.answer_at_end
        && !setup.late_work
        && setup.noise != Noise::Work
        && setup.open == Open::None
}

fn exit_is_true(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let until = Time::from(cx.plan.horizon);
    let set = cx.plan.limits.over(LIMITS);
    let (broker, connection) = (limits::broker(&set), limits::connection(&set));
    let ends = broker.shutdown + connection.close + connection.terminate * 2 + broker.linger * 2;
    let zeros = || story.exits.iter().filter(|(_, status)| *status == 0).map(|(at, _)| *at);
    let unasked = zeros().filter(|exit| !story.shutdowns.iter().any(|asked| asked <= exit));
    let unasked =
        unasked.map(|exit| Violation::new("exit_is_true", Call::NONE, exit, &UNASKED, fields! {}));
    let crashed = story.accepted.iter().filter_map(|&(asked, answered)| {
        let bound = answered + ends + Duration::from_secs(1);
        let is_alive = story.broker_died.is_none_or(|died| died > bound);
        let has_ended = zeros().any(|exit| asked <= exit && exit <= bound);
        // A host that does not run cannot exit in time.
        let is_held = story.first_host_fault.is_some_and(|fault| fault <= bound);
        (is_alive && !has_ended && !is_held && bound < until)
            .then(|| Violation::new("exit_is_true", Call::NONE, bound, &CRASHED, fields! { asked }))
    });
    unasked.chain(crashed).collect()
}

fn ends_in_order(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let until = Time::from(cx.plan.horizon);
    let killed = story.killed.iter().filter(|kill| {
        let (at, on) = kill;
        let stubborn = setup::app_server(cx.plan, on);
        // A user who abandons a command or a job kills its app-server. So does a command that is cancelled
        // while it connects: its app-server has no work.
        let mut runs = story.runs.iter().filter(|run| run.host == *on);
        let abandoned = story.jobs.killed_on(on, *at)
            || story.cancels.contains(kill)
            || runs.any(|run| run.abandoned == Some(*at));
        *at < until
            && story.first_fault.is_none_or(|fault| fault > *at)
            && !abandoned
            && stubborn.initialize == Initialize::Answered
            && !(stubborn.outlives_input && stubborn.ignores_terminate)
    });
    killed
        .map(|(at, on)| {
            let data = fields! { on: (*on).to_owned() };
            Violation::new("ends_in_order", Call::NONE, *at, &KILLED, data)
        })
        .collect()
}

fn no_thread_is_left(story: &Story<'_>) -> Vec<Violation> {
    let left = story.runs.iter().filter_map(|run| {
        let (_, first) = run.thread()?;
        let (at, other) = run.notes.iter().find_map(|(at, note)| match note {
            TurnNote::Started { thread, .. } if thread != first => Some((*at, thread)),
            _ => None,
        })?;
        let removed = run.notes.iter().any(|(removed, note)| {
            *removed <= at && matches!(note, TurnNote::Removed(thread) if thread == first)
        });
        let data = fields! { thread: first.to_owned(), other: other.clone() };
        (!removed).then(|| Violation::new("no_thread_is_left", run.call, at, &LEFT_BEHIND, data))
    });
    let unused = story.runs.iter().filter_map(|run| unused_thread(story, run));
    left.chain(unused).chain(unnamed_threads(story)).collect()
}

/// The thread of a new task that its user cancelled before the turn, or whose turn was refused. While
/// the turn of another command runs, the broker refuses to delete a thread.
fn unused_thread(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let (at, Answer::Refused(_)) = run.answer? else { return None };
    let has = |wanted: &TurnNote| run.notes.iter().any(|(_, note)| *note == wanted);
    let is_alone = story.runs.iter().all(|other| {
        let is_over = other.answer.is_some_and(|(over, _)| over < run.asked);
        other.call == run.call || is_over || other.asked > at
    });
    let is_unused = match has(&TurnNote::Refused) {
        true => is_alone && story.jobs.jobs.is_empty(),
        false => run.cancelled.is_some(),
    };
    let (_, thread) = run.thread()?;
    let bound = at + news(story.cx);
    let may_stay = !is_unused
        || run.started().is_some()
        || has(&TurnNote::Removed(thread.to_owned()))
        || !story.is_calm_until(bound);
    let data = fields! { thread: thread.to_owned() };
    (!may_stay).then(|| Violation::new("no_thread_is_left", run.call, at, &UNUSED, data))
}

/// The longest time for which a command leaves its thread without a name.
const NAMES: Duration = Duration::from_secs(10);

/// The threads that a command made and neither named nor removed, in a run in which no command and no
/// broker is killed.
fn unnamed_threads(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let kills = ["abandon", "kill-broker", "shutdown", "end-session"];
    let ends = |step: &Step| match &step.action {
        Action::Operation(operation) => kills.contains(&operation.verb.as_str()),
        Action::Fault(_) => true,
    };
    let is_told = |host: &str| {
        let AppServerSetup { threads, threads_take, .. } = setup::app_server(cx.plan, host);
        threads != Threads::Omitted
            && threads_take.0 + news(cx) < limits::connection(&cx.plan.limits.over(LIMITS)).request
    };
    let mut hosts = cx.plan.client_hosts().map(|host| host.as_str().to_owned()).collect::<Vec<_>>();
    hosts.push(BROKER.to_owned());
    if cx.plan.steps.iter().any(ends) || !hosts.iter().all(|host| is_told(host)) {
        return Vec::new();
    }
    let unnamed = story.unnamed.iter().filter_map(|(thread, made)| {
        let bound = *made + NAMES;
        let data = fields! { thread: (*thread).to_owned(), made: *made };
        (bound < Time::from(cx.plan.horizon))
            .then(|| Violation::new("no_thread_is_left", Call::NONE, bound, &UNNAMED, data))
    });
    unnamed.collect()
}

fn one_broker_serves(story: &Story<'_>) -> Vec<Violation> {
    let second = story.second_brokers.iter().map(|(at, on)| {
        let data = fields! { on: (*on).to_owned() };
        Violation::new("one_broker_serves", Call::NONE, *at, &SECOND, data)
    });
    second.collect()
}

fn account_is_own(story: &Story<'_>) -> Vec<Violation> {
    let others = story.runs.iter().filter_map(|run| {
        let (at, own, other) = run.other_account()?;
        let data = fields! { own: own.to_owned(), other: other.to_owned() };
        Some(Violation::new("account_is_own", run.call, at, &OTHER_ACCOUNT, data))
    });
    others.collect()
}

fn fallback_is_taken(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let wrong = story.runs.iter().filter_map(|run| {
        let (at, Answer::Refused(why)) = run.answer? else { return None };
        let was_ready = story.initialized.is_some_and(|initialized| initialized <= at);
        let own = setup::app_server(cx.plan, run.host);
        let can_run = own.initialize == Initialize::Answered
            && setup::turn(cx.plan, run.turn()).start != Start::Refused
            && run.route() == "broker-or-direct"
            && run.cancelled.is_none();
        if !can_run || !story.is_calm_until(at) {
            return None;
        }
        let violation =
            |kind| Some(Violation::new("fallback_is_taken", run.call, at, kind, fields! {}));
        // A client that has a thread at the broker stays there.
        let resumes = run.operation.fields.get("resume").and_then(|is| is.as_bool());
        let is_free =
            run.thread().is_none() && run.operation.verb == "task" && resumes != Some(true);
        match was_ready {
            false => violation(&NOT_READY),
            true if is_free && is_busy(&why.to_string()) => violation(&BUSY),
            true => None,
        }
    });
    wrong.collect()
}

/// The longest time from the end of a client to the interruption of its turn.
const LEARNS: Duration = Duration::from_secs(3);
