//! The verdicts of turns: whether they, the statuses and the answers are true.

use super::interrupts;
use super::shared::{may_forget_news, news, seen};
use crate::history::Time;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation, ViolationFields};
use crate::subjects::turn::limits;
use crate::subjects::turn::notes::{Reported, Tag, TurnNote};
use crate::subjects::turn::outcome::{SeenRefusal, SeenVerdict};
use crate::subjects::turn::setup::{self, Answer as AgentAnswer, End, Noise, Open, Start};
use crate::subjects::turn::story::{Run, Story};
use reknit_turn::client::ClientError;

kinds! {
    pub(in super::super) SUCCESS_IS_TRUE;
    WORKED = "worked": "{subject:}the user saw a completed turn, but it had had open work since {since}, and had no report {moment}";
    NOT_COMPLETED = "not-completed": "{subject:}the user saw a completed turn, but the app-server had neither reported that nor given a final answer {moment}";
    CANCELLED = "cancelled": "{subject:}the user saw a completed turn without a report, but had cancelled it at {cancelled} {moment}";
    CONTRADICTED = "contradicted": "{subject:}the user saw a completed turn, but the app-server had reported at {reported} that it {how} {moment}";
}

kinds! {
    pub(in super::super) FAILURE_IS_TRUE;
    COMPLETED = "completed": "{subject:}the user saw a turn that {seen}, but the app-server had reported at {reported} that it completed, and nothing was in the way {moment}";
    EARLY = "early": "{subject:}the user saw a turn that {seen}, because its client had interrupted it at {interrupted}, before any deadline {moment}";
    ANSWERED = "answered": "{subject:}the user saw a turn that {seen}, but the agent had given its final answer at {answered}, and then the app-server exited {moment}";
}

kinds! {
    pub(in super::super) STATUS_IS_THE_VERDICT;
    WRONG_STATUS = "wrong-status": "{subject:}the turn {seen}, but the command exited with {status} {moment}";
    UNASKED = "unasked": "{subject:}the command exited with {status}, but its user had not cancelled it {moment}";
    UNSAID = "unsaid": "{subject:}its user had cancelled the command, but it exited with {status} {moment}";
}

kinds! {
    pub(in super::super) ANSWER_IS_THE_ANSWER;
    OTHER_TURN = "other-turn": "{subject:}the command printed the answer of another turn: {printed} {moment}";
    LOST = "lost": "{subject:}the command printed no answer, but the agent had given its final answer at {answered} {moment}";
    OTHER_TEXT = "other-text": "{subject:}the command printed {printed}, but the final answer is {answer} {moment}";
}

kinds! {
    pub(in super::super) INTERRUPTION_IS_TRUE;
    OWN_CLIENT = "own": "{subject:}the user saw that another client interrupted the turn, but its own client had interrupted it at {interrupted} {moment}";
}

pub(in super::super) fn success_is_true(story: &Story<'_>) -> Vec<Violation> {
    story.runs.iter().filter_map(|run| untrue_success(story, run)).collect()
}

fn untrue_success(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let (at, outcome) = run.outcome()?;
    // A case is a verdict that would be untrue if it said that the turn completed.
    let violation = |kind, data| {
        story.cx.judges("success_is_true");
        let is_success = outcome.verdict == SeenVerdict::Completed;
        is_success.then(|| Violation::new("success_is_true", run.call, at, kind, data))
    };
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
            // The broker may have dropped the news of the work.
            if is_unread_until_the_exit(story.cx, run, since) || may_forget_news(story, run, at) {
                return None;
            }
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

/// Whether no client can read the start of the work of a turn that is open since this time, and its
/// app-server has exited before the verdict. Silence proves nothing after an unreadable line; an exit does.
/// The app-server of a turn may exit at the end of another one.
fn is_unread_until_the_exit(cx: &CheckContext<'_>, run: &Run<'_>, since: Time) -> bool {
    let setup = setup::turn(cx.plan, run.turn());
    let is_unread = setup.noise == Noise::Work
        && setup.open != Open::After
        && run.final_answer().is_some_and(|answered| answered <= since);
    let decided = run.decided;
    is_unread && run.gone().is_some_and(|gone| decided.is_some_and(|decided| gone <= decided))
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

pub(in super::super) fn failure_is_true(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let untrue = story.runs.iter().filter_map(|run| {
        let (at, outcome) = run.outcome()?;
        if !story.is_calm_until(at) {
            return None;
        }
        let is_failure = outcome.verdict != SeenVerdict::Completed;
        let seen = seen(&outcome.verdict);
        // Nothing names the thread of a detached review but the answer to its start.
        let is_named = run.named().is_some_and(|named| named <= at);
        let violation = |kind, data| {
            is_failure.then(|| Violation::new("failure_is_true", run.call, at, kind, data))
        };
        match run.reported() {
            // Before that, the report can still be on its way.
            Some((reported, Reported::Completed))
                if is_named
                    && reported + news(cx) < run.resolved?
                    && !interrupts::is_silent_start(cx, run.turn(), interrupts::held(run)) =>
            {
                cx.judges("failure_is_true");
                violation(&COMPLETED, fields! { seen, reported })
            }
            _ if is_early(cx, run) => {
                let interrupted = run.interrupted()?;
                violation(&EARLY, fields! { seen, interrupted })
            }
            None if is_named => {
                let answered = answered_before_the_exit(story, run, at)?;
                cx.judges("failure_is_true");
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
    let set = cx.limits;
    let answered = run.final_answer().filter(|answered| *answered <= at)?;
    let setup = setup::turn(cx.plan, run.turn());
    let was_left_alone = run.interrupted().is_none() && run.cancelled.is_none();
    // The end of another turn may be the exit, while subagents of this one work. Work that began after the answer
    // and is over takes nothing back. Silence proves nothing then. The exit does. A client that may have got too much
    // does not know what it missed.
    let works = run.gone().and_then(|gone| works_since(run, gone)).is_some();
    let is_quiet = !works && run.too_much().is_none();
    // The client may interrupt a turn that is silent for so long.
    let idle = limits::turn(set).idle;
    let was_silent = run.resolved.is_some_and(|resolved| answered + idle <= resolved);
    // The client may give up a start that takes too long.
    let (started, ..) = run.started()?;
    let held = started.since(run.asked);
    let was_prompt = held + news(cx) < limits::connection(set).request;
    // The client then does not know that the subagents have ended.
    let is_known = !may_forget_news(story, run, at);
    // The client may learn of the exit only after a deadline.
    let patience = interrupts::deadline(cx, run.turn(), held);
    let was_in_time = run.gone()? + news(cx) < run.asked + patience;
    let is_exit = setup.end.exits() && was_left_alone && is_quiet && was_prompt && was_in_time;
    (is_exit && !was_silent && is_known).then_some(answered)
}

/// Whether only the client of a turn can have interrupted it, and no deadline was near.
fn is_early(cx: &CheckContext<'_>, run: &Run<'_>) -> bool {
    let turn = limits::turn(cx.limits);
    let setup = setup::turn(cx.plan, run.turn());
    let failed = matches!(run.outcome(), Some((_, outcome)) if matches!(outcome.verdict, SeenVerdict::Failed(_)));
    let deadline = run.asked + turn.idle.min(turn.absolute);
    let is_judged = failed
        && setup.start == Start::Answered
        && setup.end != End::Error
        && !setup.errors
        && run.too_much().is_none()
        && run.route() == "direct"
        && run.cancelled.is_none();
    if !is_judged {
        return false;
    }
    cx.judges("failure_is_true");
    run.interrupted().is_some_and(|interrupted| interrupted < deadline)
}

pub(in super::super) fn status_is_the_verdict(story: &Story<'_>) -> Vec<Violation> {
    story.runs.iter().filter_map(|run| wrong_status(story.cx, run)).collect()
}

/// The exit status of a command that its user cancelled.
const CANCELLED_STATUS: i32 = 130;

/// A command exits with 0 if its turn completed, with 130 if its user cancelled it, and otherwise with 1. Its
/// client knows of a cancel at once, so a turn that was interrupted later is cancelled.
fn wrong_status(cx: &CheckContext<'_>, run: &Run<'_>) -> Option<Violation> {
    let (at, _) = run.answer?;
    let is_refused = run.refusal().is_some();
    let status = if is_refused { run.status? } else { run.outcome()?.1.status };
    cx.judges("status_is_the_verdict");
    let violation = |kind, data: ViolationFields| {
        let data = data.with("status", Some(status.to_string()));
        Some(Violation::new("status_is_the_verdict", run.call, at, kind, data))
    };
    if status == CANCELLED_STATUS && run.cancelled.is_none_or(|cancelled| cancelled > at) {
        return violation(&UNASKED, fields! {});
    }
    if let Some(SeenRefusal(why)) = run.refusal() {
        let is_cancelled = matches!(why, ClientError::Cancelled { .. });
        let is_right = match is_cancelled {
            true => status == CANCELLED_STATUS,
            false => status == 1,
        };
        let seen = format!("did not start ({why})");
        return (!is_right).then(|| violation(&WRONG_STATUS, fields! { seen })).flatten();
    }
    let (_, outcome) = run.outcome()?;
    let is_complete = outcome.verdict == SeenVerdict::Completed;
    if (status == 0) != is_complete || !matches!(status, 0 | 1 | CANCELLED_STATUS) {
        return violation(&WRONG_STATUS, fields! { seen: seen(&outcome.verdict) });
    }
    let cancelled = run.cancelled.filter(|cancelled| *cancelled <= at)?;
    let is_cancelled = outcome.verdict == SeenVerdict::Interrupted
        && run.reported().is_none_or(|(reported, _)| reported > cancelled);
    (is_cancelled && status != CANCELLED_STATUS).then(|| violation(&UNSAID, fields! {})).flatten()
}

pub(in super::super) fn answer_is_the_answer(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let wrong = story.runs.iter().filter_map(|run| {
        let (at, outcome) = run.outcome()?;
        let violation =
            |kind, data| Some(Violation::new("answer_is_the_answer", run.call, at, kind, data));
        let Some(printed) = outcome.answer.as_deref() else {
            let answered = run.final_answer().filter(|answered| *answered <= at)?;
            if outcome.verdict != SeenVerdict::Completed || may_forget_news(story, run, at) {
                return None;
            }
            cx.judges("answer_is_the_answer");
            return violation(&LOST, fields! { answered });
        };
        cx.judges("answer_is_the_answer");
        let tag = Tag { turn: run.turn().to_owned(), call: run.call };
        if Tag::find(printed).is_some_and(|other| other != tag) {
            return violation(&OTHER_TURN, fields! { printed: printed.to_owned() });
        }
        let is_final = setup::turn(cx.plan, run.turn()).answer == AgentAnswer::Final;
        let is_complete = outcome.verdict == SeenVerdict::Completed;
        let answer = tag.answer();
        let is_wrong =
            is_final && is_complete && printed.trim() != answer && !may_forget_news(story, run, at);
        let data = fields! { printed: printed.to_owned(), answer };
        is_wrong.then(|| violation(&OTHER_TEXT, data)).flatten()
    });
    wrong.collect()
}

pub(in super::super) fn interruption_is_true(story: &Story<'_>) -> Vec<Violation> {
    let wrong = story.runs.iter().filter_map(|run| {
        let (at, outcome) = run.outcome()?;
        let interrupted = run.interrupted()?;
        let is_own = run.route() == "direct" && run.cancelled.is_none();
        if !is_own || !story.is_calm_until(at) {
            return None;
        }
        story.cx.judges("interruption_is_true");
        let data = fields! { interrupted };
        (outcome.verdict == SeenVerdict::Interrupted)
            .then(|| Violation::new("interruption_is_true", run.call, at, &OWN_CLIENT, data))
    });
    wrong.collect()
}
