//! A server that runs holds no more than it must, and no less.

use std::time::Duration;

use super::asked::is_crowded;
use crate::history::Time;
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::census::EVERY;
use crate::subjects::sse::names::{OVERHEAD, SERVER};
use crate::subjects::sse::operations::SseOperation;
use crate::subjects::sse::story::{Process, Story};
use crate::world::process::{Setup, TABLE};
use reknit_sse::server::Counts;

kinds! {
    pub(super) SERVER_LETS_GO;
    CONNECTIONS = "connections": "{subject:}the server counted {count} connections, but only {open} were open since {since} {moment}";
    LOGS = "logs": "{subject:}the server kept {count} logs, but only {most} commands ran or had ended at most {retention} before {moment}";
    NO_LOGS = "no-logs": "{subject:}the server kept {count} logs, but {least} commands ran or had just ended {moment}";
    RUNNING = "running": "{subject:}the server counted {count} running commands, but only {most} processes ran {moment}";
    BYTES = "bytes": "{subject:}the logs held {count} bytes, but the commands of these logs had printed less than {most} {moment}";
}

/// How long after its end something may count.
const LEARNS: Duration = Duration::from_secs(2);

pub(super) fn server_lets_go(story: &Story<'_>) -> Vec<Violation> {
    // The history does not say when a command ended whose process does not exist.
    let is_unknown = |operation: &SseOperation| match operation {
        SseOperation::Run { process, .. } | SseOperation::Session { process, .. } => {
            story.cx.plan.entry::<Setup>(TABLE, process).is_none()
        }
        _ => false,
    };
    if story.questions.iter().any(|question| is_unknown(&question.operation)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (n, (counted, counts)) in story.counted.iter().enumerate() {
        let next =
            story.counted.get(n + 1).map_or(Time::from(story.cx.plan.horizon), |next| next.0);
        // The last time at which the counts were still the same.
        let at = next.before(EVERY);
        if at >= *counted + EVERY && story.is_prompt(at) {
            story.cx.judges("server_lets_go");
            found.extend(held(story, counts, at));
        }
    }
    found
}

/// Judges what the server held at a time, and for a second before.
fn held(story: &Story<'_>, counts: &Counts, at: Time) -> Option<Violation> {
    let violation = |kind, data| Some(Violation::new("server_lets_go", SERVER, at, kind, data));
    let since = at.before(LEARNS);
    let is_open = |over: Option<Time>| over.is_none_or(|over| over >= since);
    let open = story.connections.values().filter(|conn| conn.opened <= at && is_open(conn.over));
    let open = open.count();
    if counts.connections > open {
        let (count, open) = (counts.connections as u64, open as u64);
        return violation(&CONNECTIONS, fields! { count, open, since });
    }
    let runs = |record: &str, process: &Process<'_>, since: Time| {
        process.ended.is_none_or(|(ended, _)| story.waits_until(record, ended) >= since)
    };
    let there = || {
        // A command counts while its process is being launched.
        let begun = |record: &str, launch: Time| {
            let takes = story.setup(record).launch_takes.map_or(Duration::ZERO, |takes| takes.0);
            launch.before(takes) <= at
        };
        let all = story.processes.iter();
        all.filter(move |(record, process)| process.launched.iter().any(|at| begun(record, *at)))
    };
    let running = there().filter(|(record, process)| runs(record, process, since)).count();
    if counts.running > running {
        let (count, most) = (counts.running as u64, running as u64);
        return violation(&RUNNING, fields! { count, most });
    }
    let retention = story.server.ended_retention;
    let kept =
        || there().filter(|(record, process)| runs(record, process, since.before(retention)));
    let most = kept().count().min(running + story.server.ended_commands);
    if counts.commands > most {
        let (count, most) = (counts.commands as u64, most as u64);
        let retention = Time::from(retention);
        return violation(&LOGS, fields! { count, most, retention });
    }
    let bytes: u64 = kept().map(|(_, process)| weight(process, story.piece_bytes)).sum();
    if counts.log_bytes as u64 > bytes {
        let (count, most) = (counts.log_bytes as u64, bytes);
        return violation(&BYTES, fields! { count, most });
    }
    let is_due = |(_, process): &(&&str, &Process<'_>)| {
        let is_kept = process.ended.is_none_or(|(ended, _)| at.since(ended) + LEARNS < retention);
        is_kept && process.launched.iter().all(|launch| *launch + LEARNS <= at)
    };
    // The log of a command of a session goes with its stream.
    let in_session = |(record, _): &(&&str, &Process<'_>)| {
        let mut own = story.questions.iter().filter(|question| question.record == **record);
        own.any(|question| story.sessions.contains_key(&question.call))
    };
    let least = there().filter(|there| is_due(there) && !in_session(there)).count();
    if counts.commands < least && !is_crowded(story, at) {
        let (count, least) = (counts.commands as u64, least as u64);
        return violation(&NO_LOGS, fields! { count, least });
    }
    None
}

/// Returns the weight of the log of a command, at most.
fn weight(process: &Process<'_>, piece_bytes: usize) -> u64 {
    let lines = process.lines.iter().flatten().map(|(_, line)| {
        let events = line.len().div_ceil(piece_bytes).max(1) as u64;
        line.len() as u64 + OVERHEAD * (events + 1)
    });
    lines.sum::<u64>() + OVERHEAD
}
