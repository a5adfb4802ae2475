//! The parts that several properties of `turn` share: times, texts, and the use of the broker.

use std::time::Duration;

use crate::history::{Call, Time};
use crate::property::CheckContext;
use crate::schedule::{Limits, Operation};
use crate::subjects::turn::jobs::story::Job;
use crate::subjects::turn::limits::{self, LIMITS};
use crate::subjects::turn::outcome::SeenVerdict;
use crate::subjects::turn::setup::{self, BROKER, Start, Subagent, TurnSetup};
use crate::subjects::turn::story::{Run, Story};
use reknit_turn::limits::ConnectionLimits;
use reknit_turn::wire::code;

/// The time that news needs from the app-server to a user, at most, if nothing is in the way.
pub(in super::super) fn news(cx: &CheckContext<'_>) -> Duration {
    cx.plan.latency.1 * 2 + Duration::from_millis(10)
}

/// Returns a verdict as text.
pub(super) fn seen(verdict: &SeenVerdict) -> String {
    match verdict {
        SeenVerdict::Completed => "completed".to_owned(),
        SeenVerdict::Failed(reason) => format!("failed ({reason})"),
        SeenVerdict::Interrupted => "was interrupted".to_owned(),
    }
}

/// The time that a connection needs to end, at most.
pub(in super::super) fn ends(set: &Limits) -> Duration {
    let connection = limits::connection(set);
    connection.close + connection.terminate + limits::broker(set).linger
}

/// Whether another command or a job may have owned the broker in this span.
pub(super) fn is_in_use(story: &Story<'_>, run: &Run<'_>, since: Time, until: Time) -> bool {
    let news = news(story.cx);
    let others = story.runs.iter().filter(|other| other.call != run.call);
    // A command owns the broker from its first request, not only while its turn runs.
    let runs = |other: &Run<'_>| {
        let answered = other.answer.map(|(at, _)| at);
        // The broker does not know that the app-server has left a turn without a report, so the
        // turn lasts for it until its client has disconnected. After a fault, that also holds for a
        // turn that did not end, and the report may be on its way until the user has an answer. If a
        // fault holds the report back, it may come later than the answer of a client that was cut off.
        let is_calm = story.is_calm_until(until);
        let is_unanswered = setup::turn(story.cx.plan, other.turn()).start == Start::Unanswered;
        let ended = match other.gone() {
            _ if other.left().is_some() || is_unanswered => story.broker_learned(other),
            None if !is_calm => story.broker_learned(other),
            Some(gone) if is_held_back(story, other, gone) => {
                let seen = answered.map(|answered| answered.max(gone));
                story.broker_learned(other).or(seen)
            }
            Some(gone) if !is_calm => answered.map(|answered| answered.max(gone)),
            gone => gone.or(answered),
        };
        other.asked <= until && ended.is_none_or(|ended| ended + news >= since)
    };
    others.into_iter().any(runs) || story.works_on_a_job(since, until, news)
}

/// Whether a fault held back what the app-server of a command sent at this time. The app-server is a child of
/// a broker, or of the command.
fn is_held_back(story: &Story<'_>, run: &Run<'_>, sent: Time) -> bool {
    [BROKER, run.host].iter().any(|on| !story.runs_between(on, sent, sent + news(story.cx)))
}

/// Whether the broker may have dropped news of a command by this time. It remembers only so many threads.
/// While an abandoned turn winds down, or the answer to an earlier start may still come, it drops the news of
/// threads that it does not know: those of subagents, and that of a detached review up to its answer.
pub(super) fn may_forget_news(story: &Story<'_>, run: &Run<'_>, at: Time) -> bool {
    let began = run.started().map_or(run.asked, |(began, ..)| began);
    may_forget_news_of(story, (run.call, run.operation), began, at)
}

/// The same for a job.
pub(in super::super) fn may_forget_news_of_job(story: &Story<'_>, job: &Job<'_>, at: Time) -> bool {
    let began = job.started().unwrap_or(job.asked);
    may_forget_news_of(story, (job.call, job.operation), began, at)
}

fn may_forget_news_of(
    story: &Story<'_>,
    (call, operation): (Call, &Operation),
    began: Time,
    at: Time,
) -> bool {
    let text = |name: &str| operation.fields.get(name).and_then(|value| value.as_str());
    let own = setup::turn(story.cx.plan, text("turn").unwrap_or_default());
    let adversarial = operation.fields.get("adversarial").and_then(|is| is.as_bool());
    let is_review = operation.verb == "review" && adversarial != Some(true);
    let is_named_late =
        matches!(own.start, Start::NotifiedFirst | Start::Last | Start::Ended | Start::Unanswered);
    let has_unknown_threads = own.subagents > 0 || (is_review && own.detached && is_named_late);
    let counts = |other: &Run<'_>| other.call != call && !is_over(story, other, began);
    let is_alone = story.runs.iter().all(|other| other.asked > at || !counts(other))
        && story.jobs.jobs.values().all(|job| job.call == call || job.asked > at);
    text("route") != Some("direct") && has_unknown_threads && !is_alone && may_forget(story, at)
}

/// Whether a broker certainly knows at this time that a turn and all that it started are over.
pub(super) fn is_over(story: &Story<'_>, run: &Run<'_>, at: Time) -> bool {
    let cx = story.cx;
    let setup = setup::turn(cx.plan, run.turn());
    let request = limits::connection(cx.limits).request;
    let was_prompt = setup.answers_after() + news(cx) < request;
    let is_reported = run.reported().is_some_and(|(reported, _)| reported + news(cx) < at);
    is_reported && was_prompt && !setup.stranger
}

/// Whether the turns up to this time have more threads than the broker remembers.
pub(super) fn may_forget(story: &Story<'_>, at: Time) -> bool {
    let plan = story.cx.plan;
    let most = limits::broker(&plan.limits.over(LIMITS)).threads as u64;
    let runs = story.runs.iter().filter(|run| run.asked <= at).map(Run::turn);
    let jobs = story.jobs.jobs.values().filter(|job| job.asked <= at).map(Job::turn);
    let all = runs.chain(jobs).map(|turn| threads(&setup::turn(plan, turn)));
    all.sum::<u64>() > most
}

/// Whether news of the subagents of a turn may be lost at all in this run: the broker or the client remembers
/// too few threads, or the broker has little room for news of threads that nothing has named yet.
pub(super) fn may_lose_news(story: &Story<'_>, setup: &TurnSetup) -> bool {
    let set = story.cx.limits;
    may_forget(story, Time::from(story.cx.plan.horizon))
        || limits::connection(set).outbox_bytes < ConnectionLimits::default().outbox_bytes
        || (limits::turn(set).threads as u64) < threads(setup)
}

/// Returns how many threads the broker learns of from a turn.
fn threads(setup: &TurnSetup) -> u64 {
    let of_each = if setup.subagent == Subagent::Nested { 2 } else { 1 };
    1 + setup.subagents * of_each + u64::from(setup.stranger)
}

/// Whether the reason of a refusal is that the broker is busy.
pub(super) fn is_busy(why: &str) -> bool {
    why.contains(&code::BUSY.to_string())
}
