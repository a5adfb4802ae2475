//! How soon a turn starts that nothing is in the way of.

use std::time::Duration;

use super::shared::news;
use crate::history::{Answer, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::turn::jobs::has_jobs;
use crate::subjects::turn::limits;
use crate::subjects::turn::setup::{self, BROKER, Start};
use crate::subjects::turn::story::{Run, Story};

kinds! {
    pub(in super::super) START_IS_PROMPT;
    LATE = "late": "{subject:}its turn had not started by {at}, although no other command was at work since it was asked for";
}

/// The time that a command needs for its start, besides what its app-server takes.
const STARTS: Duration = Duration::from_secs(2);

/// The turn of a command starts soon if no other command is at work, and every earlier turn is over.
pub(in super::super) fn start_is_prompt(story: &Story<'_>) -> Vec<Violation> {
    if has_jobs(story.cx.plan) {
        return Vec::new();
    }
    story.runs.iter().filter_map(|run| late(story, run)).collect()
}

/// Returns how long after the end of its client a broker may wait for the end of a turn. It holds the next
/// start on the thread back for so long.
fn winds_down(story: &Story<'_>, run: &Run<'_>) -> Duration {
    let set = story.cx.limits;
    let (settle, request) = (limits::broker(set).settle, limits::connection(set).request);
    let setup = setup::turn(story.cx.plan, run.turn());
    match setup.start {
        // The app-server may still start the turn, or answer.
        Start::Silent | Start::Unanswered => settle + request,
        Start::Mute => settle,
        // The app-server refuses to interrupt it before it begins.
        _ if !setup.waits().is_zero() => settle,
        // The app-server does not report the end of the subagents of a turn that was interrupted. It refuses
        // to interrupt them, and the broker tries that five times. One that starts before the turn accepts
        // its own interrupt has five times from then on.
        _ if setup.subagents > 0 && run.interrupted().is_some() => {
            settle.min(limits::broker(set).retry * 10)
        }
        _ => Duration::ZERO,
    }
}

fn late(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let cx = story.cx;
    let takes = |host| setup::app_server(cx.plan, host).threads_take.0 * 3;
    let waits = setup::turn(cx.plan, run.turn()).waits();
    let bound = run.asked + STARTS + waits + takes(run.host).max(takes(BROKER)) + news(cx) * 8;
    let is_over = |other: &Run<'_>| {
        let answered = other.answer.is_some_and(|(at, _)| at + news(cx) < run.asked);
        let has_begun = other.started().is_some();
        let is_gone = !has_begun || other.gone().is_some_and(|gone| gone + news(cx) < run.asked);
        let waits = STARTS.max(winds_down(story, other));
        let is_known = story.broker_learned(other).is_some_and(|at| at + waits < run.asked);
        answered && is_gone && is_known && other.left().is_none()
    };
    let mut others =
        story.runs.iter().filter(|other| other.call != run.call && other.asked <= bound);
    let was_ready = || story.initialized.is_some_and(|initialized| initialized <= run.asked);
    let is_alone = run.route() == "broker"
        && was_ready()
        && others.all(is_over)
        && story.is_calm_until(bound)
        && run.cancelled.is_none_or(|cancelled| cancelled > bound)
        && run.abandoned.is_none_or(|abandoned| abandoned > bound);
    let has_ended = matches!(run.answer, Some((at, Answer::Refused(_))) if at <= bound);
    let has_started = run.started().is_some_and(|(at, ..)| at <= bound);
    let is_played = !matches!(
        setup::turn(cx.plan, run.turn()).start,
        Start::Refused | Start::Silent | Start::Mute
    );
    let is_judged = is_alone && is_played && !has_ended && bound < Time::from(cx.plan.horizon);
    if !is_judged {
        return None;
    }
    cx.judges("start_is_prompt");
    (!has_started).then(|| Violation::new("start_is_prompt", run.call, bound, &LATE, fields! {}))
}
