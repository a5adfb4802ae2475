//! What several properties of `turn` share: times, texts, and the use of the broker.

use std::time::Duration;

use crate::history::Time;
use crate::property::CheckContext;
use crate::schedule::Limits;
use crate::subjects::turn::jobs::story::Job;
use crate::subjects::turn::limits::{self, LIMITS};
use crate::subjects::turn::outcome::SeenVerdict;
use crate::subjects::turn::setup::{self, TurnSetup};
use crate::subjects::turn::story::{Run, Story};
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
        // turn lasts for it until its client is gone. After a fault, that also holds for a turn that
        // did not end, and the report may be on its way until the user has an answer.
        let is_calm = story.is_calm_until(until);
        let ended = match other.gone() {
            _ if other.left().is_some() => story.broker_learned(other),
            None if !is_calm => story.broker_learned(other),
            Some(gone) if !is_calm => answered.map(|answered| answered.max(gone)),
            gone => gone.or(answered),
        };
        other.asked <= until && ended.is_none_or(|ended| ended + news >= since)
    };
    others.into_iter().any(runs) || story.works_on_a_job(since, until, news)
}

/// Whether the broker may have forgotten a thread of a command's subagents by this time. It remembers only
/// so many threads. While an abandoned turn winds down, it drops the news of a thread that it does not know.
pub(super) fn may_forget_subagents(story: &Story<'_>, run: &Run<'_>, at: Time) -> bool {
    let plan = story.cx.plan;
    let most = limits::broker(&plan.limits.over(LIMITS)).threads as u64;
    let own = setup::turn(plan, run.turn());
    let runs = story.runs.iter().filter(|other| other.asked <= at && other.call != run.call);
    let jobs = story.jobs.jobs.values().filter(|job| job.asked <= at);
    let others: Vec<u64> = runs
        .map(Run::turn)
        .chain(jobs.map(Job::turn))
        .map(|turn| threads(&setup::turn(plan, turn)))
        .collect();
    let is_full = threads(&own) + others.iter().sum::<u64>() > most;
    run.route() != "direct" && own.subagents > 0 && !others.is_empty() && is_full
}

/// Returns how many threads the broker learns of from a turn.
fn threads(setup: &TurnSetup) -> u64 {
    1 + setup.subagents + u64::from(setup.stranger)
}

/// Whether the reason of a refusal is that the broker is busy.
pub(super) fn is_busy(why: &str) -> bool {
    why.contains(&code::BUSY.to_string())
}
