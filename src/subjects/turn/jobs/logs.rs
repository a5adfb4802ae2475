//! The property `log_is_complete`: the log of a completed job, and the items of its turn. The log may
//! lack lines only if they came faster than the worker could write them, by the plan, the outside world,
//! and the time for which a command held the lock of the records.

use std::time::Duration;

use super::limits;
use super::notes::SeenJob;
use super::properties::violation;
use super::story::Job;
use crate::history::Time;
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::schedule::{Action, Fault, HoldEnd};
use crate::subjects::turn::extras;
use crate::subjects::turn::items::GARBLED;
use crate::subjects::turn::properties::shared::may_forget_news_of_job;
use crate::subjects::turn::setup::{self, Answer, Edits, Noise, Start, TurnSetup};
use crate::subjects::turn::story::Story;
use reknit_turn::jobs::StateName;

kinds! {
    pub(in super::super) LOG_IS_COMPLETE;
    LINES = "lines": "{subject:}a user saw the job completed, and in its log {lines}, but its turn completed {items} {moment}";
    BYTES = "bytes": "{subject:}the log of the job has {bytes} bytes, more than {most} {moment}";
    GAPS = "gaps": "{subject:}the log of the job says that {missing} lines are left out, but they did not come too fast {moment}";
}

/// How many lines may wait for the log. Beyond that, lines are left out.
const KEPT: u64 = 1024;

/// The lines of a log that no item has, at most: of the connections, the thread, the turn, and errors.
const OTHERS: u64 = 20;

/// The messages that an app-server sends at once, at most, unless it sends all at once.
const AT_ONCE: u64 = 30;

/// How long a worker may take to write, while no command holds the lock.
const WRITES: Duration = Duration::from_millis(100);

/// The start of the line of a log for a completed item.
const DONE: &str = "done: ";

/// The log of a completed job whose worker has ended has a line for each item that its turn completed.
pub(in super::super) fn log_is_complete(story: &Story<'_>) -> Vec<Violation> {
    story.jobs.jobs.values().filter_map(|job| incomplete(story, job)).collect()
}

fn incomplete(story: &Story<'_>, job: &Job<'_>) -> Option<Violation> {
    let (cx, jobs) = (story.cx, &story.jobs);
    let ended = job.worker_ended()?;
    let setup = setup::turn(cx.plan, job.turn());
    if setup.subagents > 0 || job.damaged.is_some() {
        return None;
    }
    let mut sights = jobs.sights(job);
    let (look, seen) = sights.find(|(look, seen)| {
        look.since > ended
            && seen.state == StateName::Completed
            && look.at < Time::from(cx.plan.horizon)
            // A user reads the log after the record. Both may be pruned between the two.
            && jobs.pruned(job).is_none_or(|pruned| pruned > look.at)
    })?;
    if may_forget_news_of_job(story, job, look.at) {
        return None;
    }
    let violation = |kind, data| Some(violation("log_is_complete", job, look.at, kind, data));
    cx.judges("log_is_complete");
    let bytes = seen.log.iter().map(|line| line.len() + 1).sum::<usize>() as u64;
    let most = limits::jobs(cx.limits).log_bytes as u64;
    if bytes > most {
        return violation(&BYTES, fields! { bytes, most });
    }
    let is_calm = jobs.disturbed_worker.is_none_or(|fault| fault > look.at)
        && story.shutdowns.iter().all(|shutdown| *shutdown > look.at);
    if !is_calm {
        return None;
    }
    cx.judges("log_is_complete");
    let items = items(&setup, job);
    let parts = Parts::of(seen);
    if parts.missing > 0 && !comes_too_fast(story, job, &setup, items.len() as u64) {
        return violation(&GAPS, fields! { missing: parts.missing });
    }
    let lines = parts.lines.concat();
    let data = || fields! { lines: listed(&lines), items: listed(&items) };
    (!parts.fit(&items)).then(|| violation(&LINES, data())).flatten()
}

/// The items in the lines of a log.
struct Parts<'l> {
    /// The kinds of the items, cut where lines are left out.
    lines: Vec<Vec<&'l str>>,
    /// How many lines are left out, as the log says.
    missing: u64,
    /// Whether the log is full, and lacks the rest.
    is_full: bool,
}

impl<'l> Parts<'l> {
    fn of(seen: &'l SeenJob) -> Self {
        let mut parts = Self { lines: vec![Vec::new()], missing: 0, is_full: seen.has_full_log() };
        for line in &seen.log {
            if let Some(missing) = gap(line) {
                parts.missing += missing;
                parts.lines.push(Vec::new());
            } else if let (Some(item), Some(last)) =
                (line.strip_prefix(DONE), parts.lines.last_mut())
            {
                last.push(item);
            }
        }
        parts
    }

    /// Whether the parts are those of these items, in order, and the log says of enough lines that
    /// they are left out.
    fn fit(&self, items: &[&str]) -> bool {
        let Some((last, before)) = self.lines.split_last() else { return false };
        let mut rest = items;
        for (n, part) in before.iter().enumerate() {
            // The first lines are never left out.
            let begins = if n == 0 { Some(0) } else { place(rest, part) };
            let Some(begin) = begins.filter(|_| n > 0 || rest.starts_with(part)) else {
                return false;
            };
            rest = &rest[begin + part.len()..];
        }
        let is_last = match (self.is_full, before.is_empty()) {
            (false, true) => rest == last.as_slice(),
            (false, false) => rest.ends_with(last),
            (true, true) => rest.starts_with(last),
            (true, false) => place(rest, last).is_some(),
        };
        let lines = self.lines.iter().map(Vec::len).sum::<usize>();
        is_last && (self.is_full || items.len() as u64 <= lines as u64 + self.missing)
    }
}

/// Returns the first place of a part in a list.
fn place(list: &[&str], part: &[&str]) -> Option<usize> {
    (0..=list.len().checked_sub(part.len())?).find(|begin| list[*begin..].starts_with(part))
}

/// Returns how many lines a line says are left out.
fn gap(line: &str) -> Option<u64> {
    line.strip_prefix('(')?.strip_suffix(" lines are left out)")?.parse().ok()
}

/// Whether more lines than a worker keeps may have come while it could not write the log. Each item has
/// one line, and another one if it begins a phase.
fn comes_too_fast(story: &Story<'_>, job: &Job<'_>, setup: &TurnSetup, items: u64) -> bool {
    let all = items * 2 + setup.unreadable + OTHERS;
    // A client reads the news from before the answer to the start all at once.
    let is_at_once = setup.burst
        || setup.every.0.is_zero()
        || matches!(setup.start, Start::Last | Start::Ended | Start::Unanswered);
    let within =
        u128::from(AT_ONCE) + blocked(story, job).as_millis() / setup.every.0.as_millis().max(1);
    let lines = u64::try_from(within).unwrap_or(u64::MAX).saturating_mul(2);
    all > KEPT && (is_at_once || lines.saturating_add(setup.unreadable + OTHERS) > KEPT)
}

/// Returns how long the worker of a job could not write the log, at most: while a command held the lock,
/// while a task was held, and while news were on their way.
fn blocked(story: &Story<'_>, job: &Job<'_>) -> Duration {
    let plan = story.cx.plan;
    let held = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Fault(Fault::Hold(hold)) => Some(match &hold.end {
            HoldEnd::After(lasts) => *lasts,
            HoldEnd::Until { at_most, .. } => *at_most,
        }),
        _ => None,
    });
    let locked = story.jobs.locked_for(job.host);
    held.sum::<Duration>() + locked + plan.latency.1 * 2 + WRITES
}

/// Returns the kinds of the items that the app-server completes before the end of a turn, in order. It may
/// exit at the end of another turn, before the last of them.
fn items(setup: &TurnSetup, job: &Job<'_>) -> Vec<&'static str> {
    let work = (1..=setup.work).map(|n| match n % 3 {
        1 => "agentMessage",
        2 => "commandExecution",
        _ => "reasoning",
    });
    let letters = ["agentMessage", "commandExecution", "fileChange"];
    let letters = letters.into_iter().filter(|_| setup.letters > 0);
    let extras = extras::kinds().filter(|_| setup.extras);
    let answer = match job.is_review() && setup.answer == Answer::Final && !setup.answer_at_end {
        true => "exitedReviewMode",
        false => "agentMessage",
    };
    let after = [
        (setup.edits != Edits::None, "fileChange"),
        (setup.answer != Answer::None && !setup.answer_at_end, answer),
        (setup.late_message, "agentMessage"),
        (setup.late_work, "commandExecution"),
        (setup.noise == Noise::Work && job.has_run(GARBLED), "commandExecution"),
    ];
    let before = work.chain(letters).chain(extras);
    before.chain(after.into_iter().filter(|(is, _)| *is).map(|(_, kind)| kind)).collect()
}

fn listed(kinds: &[&str]) -> String {
    if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<'l>(lines: &[&[&'l str]], missing: u64, is_full: bool) -> Parts<'l> {
        Parts { lines: lines.iter().map(|part| part.to_vec()).collect(), missing, is_full }
    }

    #[test]
    fn the_parts_of_a_log_are_those_of_the_items_in_order() {
        let items = ["a", "b", "c", "a", "b"];
        assert!(parts(&[&items], 0, false).fit(&items));
        assert!(!parts(&[&items[..4]], 0, false).fit(&items));
        assert!(parts(&[&items[..4]], 0, true).fit(&items));
        assert!(!parts(&[&items[1..]], 0, true).fit(&items));
        assert!(parts(&[&["a"], &["a", "b"]], 2, false).fit(&items));
        assert!(!parts(&[&["a"], &["a", "b"]], 1, false).fit(&items), "too few are missing");
        assert!(!parts(&[&["b"], &["a", "b"]], 9, false).fit(&items), "the first are missing");
        assert!(!parts(&[&["a"], &["a"]], 9, false).fit(&items), "the last are missing");
        assert!(parts(&[&["a"], &["c"], &["b"]], 2, false).fit(&items));
        assert!(!parts(&[&["a"], &["c"], &["c"]], 9, true).fit(&items));
        assert!(parts(&[&["a"], &["c", "a"]], 1, true).fit(&items));
        assert!(parts(&[&[], &[]], 5, false).fit(&items));
    }

    #[test]
    fn a_line_says_how_many_are_left_out() {
        assert_eq!(gap("(17 lines are left out)"), Some(17));
        assert_eq!(gap("done: (17 lines are left out)"), None);
        assert_eq!(gap("( lines are left out)"), None);
    }
}
