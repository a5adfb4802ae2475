//! Interrupts, cancels and reports: what ends a turn before its time, and how its user learns of its end.

use std::time::Duration;

use super::shared::{ends, may_forget, may_forget_news, news, seen};
use crate::history::Time;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::turn::limits;
use crate::subjects::turn::notes::{Reported, Silence};
use crate::subjects::turn::outcome::SeenVerdict;
use crate::subjects::turn::setup::{self, End, Start};
use crate::subjects::turn::story::{Run, Story};

kinds! {
    pub(in super::super) INTERRUPTS_HAVE_A_CAUSE;
    NO_CAUSE = "no-cause": "{subject:}the turn was interrupted, but no user had asked for that, and no deadline was near {moment}";
    ELSEWHERE = "elsewhere": "{subject:}an interrupt of the turn named another thread {moment}";
}

kinds! {
    pub(in super::super) REPORT_COUNTS;
    OTHER_VERDICT = "other-verdict": "{subject:}the app-server reported at {reported} that the turn {how}, but its user saw a turn that {seen} {moment}";
    OTHER_REASON = "other-reason": "{subject:}the app-server reported at {reported} why the turn failed, but its user saw another reason ({seen}) {moment}";
}

kinds! {
    pub(in super::super) ENDED_IS_LEFT_ALONE;
    OVER = "over": "{subject:}an interrupt of the turn arrived, but the app-server had reported its end at {reported} {moment}";
}

kinds! {
    pub(in super::super) CANCEL_IS_PROMPT;
    LATE = "late": "{subject:}the user cancelled the command at {cancelled}, but it had not ended {moment}";
}

/// How long before a turn its broker must be undisturbed.
const BEFORE: Duration = Duration::from_secs(6);

/// The message of the app-server for a failed turn.
const WHY: &str = "the model refused";

pub(in super::super) fn interrupts_have_a_cause(story: &Story<'_>) -> Vec<Violation> {
    let of_runs = story
        .runs
        .iter()
        .map(|run| (run.call, run.asked_to_interrupt(), run.interrupted_elsewhere()));
    let of_jobs = story
        .jobs
        .jobs
        .values()
        .map(|job| (job.call, job.asked_to_interrupt(), job.interrupted_elsewhere()));
    let elsewhere = of_runs.chain(of_jobs).filter_map(|(call, asked, at)| {
        // Each interrupt could name another thread.
        if asked.or(at).is_some() {
            story.cx.judges("interrupts_have_a_cause");
        }
        Some(Violation::new("interrupts_have_a_cause", call, at?, &ELSEWHERE, fields! {}))
    });
    let uncaused = story.runs.iter().filter_map(|run| {
        let at = run.interrupted()?;
        if may_forget_news(story, run, at) || !story.is_calm_between(run.asked.before(BEFORE), at) {
            return None;
        }
        story.cx.judges("interrupts_have_a_cause");
        let is_caused = is_asked_for(story, run, at)
            || at >= run.asked + deadline(story.cx, run.turn(), held(run))
            || run.too_much().is_some_and(|too_much| too_much <= at)
            || is_idle(story.cx, held(run), run.silent())
            || has_inferred(story.cx, run, at);
        (!is_caused)
            .then(|| Violation::new("interrupts_have_a_cause", run.call, at, &NO_CAUSE, fields! {}))
    });
    elsewhere.chain(uncaused).collect()
}

/// Whether a user asked for the end of a turn, or of its broker, before a time.
fn is_asked_for(story: &Story<'_>, run: &Run<'_>, at: Time) -> bool {
    let own = [run.cancelled, run.abandoned].into_iter().flatten();
    own.chain(story.shutdowns.iter().copied()).any(|asked| asked <= at)
        || is_interrupted_by_hand(story, run, at)
}

/// Whether a user interrupted a turn over a second connection before a time.
fn is_interrupted_by_hand(story: &Story<'_>, run: &Run<'_>, at: Time) -> bool {
    let is_own = |on: &str, turn: &str| on == run.host && turn == run.turn();
    story.interrupts.iter().any(|(asked, on, turn)| is_own(on, turn) && *asked <= at)
}

/// Whether the client may have inferred the end of a turn before a time. Then it leaves, and the broker
/// interrupts what is left.
fn has_inferred(cx: &CheckContext<'_>, run: &Run<'_>, at: Time) -> bool {
    let inference = limits::turn(cx.limits).inference;
    run.final_answer().is_some_and(|answered| answered + inference <= at)
}

/// Returns how long the start of a turn took. A broker holds a start back while an abandoned turn on its
/// thread winds down.
pub(super) fn held(run: &Run<'_>) -> Duration {
    run.started().map_or(Duration::ZERO, |(at, ..)| at.since(run.asked))
}

/// Whether an app-server was silent for as long as a client allows, before the interrupt of a turn. The
/// interrupt may cross the next message of the app-server.
pub(in super::super) fn is_idle(
    cx: &CheckContext<'_>,
    held: Duration,
    silent: Option<Silence>,
) -> bool {
    let idle = limits::turn(cx.limits).idle;
    let is_long = |ms: u64| Duration::from_millis(ms) + held >= idle;
    let crosses = |ago: u64| Duration::from_millis(ago) <= news(cx) * 2;
    silent.is_some_and(|silence| {
        is_long(silence.now) || is_long(silence.longest) && crosses(silence.ago)
    })
}

/// Whether a client may give a turn up as silent before the answer to its start. News that wait for the answer
/// do not end the silence. The start took `held`.
pub(super) fn is_silent_start(cx: &CheckContext<'_>, name: &str, held: Duration) -> bool {
    let set = cx.limits;
    let (idle, request) = (limits::turn(set).idle, limits::connection(set).request);
    let setup = setup::turn(cx.plan, name);
    let is_late = setup.start == Start::Silent || held + setup.answers_after() + news(cx) >= idle;
    idle <= request && is_late
}

/// Returns the shortest time after which a client or the broker gives a turn up, even if the app-server
/// is not silent. The start took `held`.
pub(in super::super) fn deadline(cx: &CheckContext<'_>, name: &str, held: Duration) -> Duration {
    let set = cx.limits;
    let (turn, request) = (limits::turn(set), limits::connection(set).request);
    let setup = setup::turn(cx.plan, name);
    let follows = setup.end == End::Error || setup.errors;
    let answers_late =
        setup.start == Start::Silent || held + setup.answers_after() + news(cx) >= request;
    [
        Some(turn.absolute),
        Some(limits::broker(set).turn),
        follows.then_some(turn.follow_up),
        answers_late.then_some(request),
        is_silent_start(cx, name, held).then_some(turn.idle),
    ]
    .into_iter()
    .flatten()
    .min()
    .unwrap_or_default()
}

pub(in super::super) fn report_counts(story: &Story<'_>) -> Vec<Violation> {
    story.runs.iter().filter_map(|run| lost_report(story, run)).collect()
}

fn lost_report(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let cx = story.cx;
    let (at, outcome) = run.outcome()?;
    let (reported, how) = run.reported()?;
    // Nothing names the thread of a detached review but the answer to its start.
    let named = run.named().filter(|named| *named <= at)?;
    let arrives = reported + news(cx) * 2;
    // A broker that is asked to end waits only so long for its turns.
    let set = cx.limits;
    let waits = limits::broker(set).shutdown;
    let (idle, request) = (limits::turn(set).idle, limits::connection(set).request);
    let is_waited_for = |asked: &Time| *asked > arrives || arrives <= *asked + waits;
    let may_be_first = run.cancelled.is_some()
        || named + news(cx) * 2 >= run.asked + request
        || arrives >= run.asked + deadline(cx, run.turn(), held(run)).min(idle)
        || run.too_much().is_some_and(|too_much| too_much <= reported)
        || has_inferred(cx, run, arrives)
        || (run.interrupted().is_some() && how != Reported::Interrupted)
        || !story.shutdowns.iter().all(is_waited_for)
        || !story.is_calm_between(run.asked.before(BEFORE), arrives);
    if may_be_first {
        return None;
    }
    cx.judges("report_counts");
    let violation = |kind, data| Some(Violation::new("report_counts", run.call, at, kind, data));
    let seen = seen(&outcome.verdict);
    match (how, &outcome.verdict) {
        (Reported::Completed, SeenVerdict::Completed)
        | (Reported::Interrupted, SeenVerdict::Interrupted) => None,
        (Reported::Failed, SeenVerdict::Failed(why))
            if why.contains(WHY) || setup::turn(cx.plan, run.turn()).end == End::Unexplained =>
        {
            None
        }
        (Reported::Failed, SeenVerdict::Failed(_)) => {
            violation(&OTHER_REASON, fields! { reported, seen })
        }
        _ => {
            let how = match how {
                Reported::Completed => "completed",
                Reported::Failed => "failed",
                Reported::Interrupted => "was interrupted",
            };
            violation(&OTHER_VERDICT, fields! { reported, how, seen })
        }
    }
}

pub(in super::super) fn ended_is_left_alone(story: &Story<'_>) -> Vec<Violation> {
    story.runs.iter().filter_map(|run| interrupted_late(story, run)).collect()
}

fn interrupted_late(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let (reported, _) = run.reported()?;
    let known = reported.max(run.named()?) + news(story.cx) * 2;
    let late = run.interrupted_late();
    // A turn without such an interrupt is a case if one would be wrong as soon as the end is known.
    let at = late.unwrap_or(known + Duration::from_millis(1));
    let is_known = known < at && at <= Time::from(story.cx.plan.horizon);
    // A client that waits for the answer to the start does not read the end.
    let is_cancelled = run.cancelled.is_some_and(|cancelled| cancelled <= at);
    let is_judged = is_known
        && !is_cancelled
        && !may_forget(story, at)
        && !is_silent_start(story.cx, run.turn(), held(run))
        && story.is_calm_between(run.asked.before(BEFORE), at)
        && !is_interrupted_by_hand(story, run, at);
    if !is_judged {
        return None;
    }
    story.cx.judges("ended_is_left_alone");
    let data = fields! { reported };
    Some(Violation::new("ended_is_left_alone", run.call, late?, &OVER, data))
}

pub(in super::super) fn cancel_is_prompt(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let set = cx.limits;
    // For the end of the turn, and then for the answer to the interrupt.
    let waits = limits::turn(set).interrupt * 2;
    let allowed = waits + ends(set) + limits::connection(set).terminate + news(cx) * 2;
    let late = story.runs.iter().filter_map(|run| {
        let cancelled = run.cancelled?;
        let bound = cancelled + allowed;
        let in_time = run.answer.is_some_and(|(at, _)| at <= bound);
        // The deadlines are the client's own, so the network excuses nothing.
        let runs = story.runs_between(run.host, run.asked, bound);
        if run.abandoned.is_some() || !runs || bound >= Time::from(cx.plan.horizon) {
            return None;
        }
        cx.judges("cancel_is_prompt");
        (!in_time).then(|| {
            Violation::new("cancel_is_prompt", run.call, bound, &LATE, fields! { cancelled })
        })
    });
    late.collect()
}
