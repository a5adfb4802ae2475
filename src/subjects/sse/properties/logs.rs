//! The logs of commands in the background.

use super::asked::process;
use super::gaps::{Events, may_drop};
use crate::history::Time;
use crate::property::violation::{fields, kinds};
use crate::property::{Violation, ViolationFields, ViolationKind};
use crate::subjects::judging::has_puppet;
use crate::subjects::sse::notes::SeenLogs;
use crate::subjects::sse::operations::SseOperation;
use crate::subjects::sse::story::{Process, Question, Story};

kinds! {
    pub(super) LOGS_ARE_TRUE;
    OTHER_TEXT = "other-text": "{subject:}the logs are not what the process printed {moment}";
    NOT_WHOLE = "not-whole": "{subject:}the logs end after {read} bytes, but the process printed {printed} {moment}";
    RETAINED = "retained": "{subject:}the logs have a gap up to event {last}, but the server still had to have that event {moment}";
    NEVER_WAS = "never-was": "{subject:}the logs have a gap up to event {last}, but there were only {events} events {moment}";
    NO_RUN = "no-run": "{subject:}the cursor after a part of the logs names no run {moment}";
    FOREGROUND = "foreground": "{subject:}the server gave the logs of a command in the foreground {moment}";
}

pub(super) fn logs_are_true(story: &Story<'_>) -> Vec<Violation> {
    let untrue = story.questions.iter().filter_map(|question| {
        let (at, answer) = question.answer?;
        let logs = answer.done::<SeenLogs>()?;
        let violation =
            |kind, data| Some(Violation::new("logs_are_true", question.call, at, kind, data));
        let started = story.questions.iter().find(|other| {
            other.record == question.record && matches!(other.operation, SseOperation::Run { .. })
        });
        if matches!(
            started.map(|started| &started.operation),
            Some(SseOperation::Run { background: false, .. })
        ) {
            return violation(&FOREGROUND, fields! {});
        }
        if !logs.has_run && !has_puppet(story.cx) {
            return violation(&NO_RUN, fields! {});
        }
        let process = process(story, question)?;
        if !logs.gaps.is_empty() {
            let (kind, data) = untrue_with_gaps(story, question, process, logs, at)?;
            return violation(kind, data);
        }
        let all: usize = process.lines.iter().flatten().map(|(_, line)| line.len()).sum();
        if logs.whole && logs.output.len() != all && process.ended.is_some() {
            let data = fields! { read: logs.output.len(), printed: all };
            return violation(&NOT_WHOLE, data);
        }
        let [stdout, stderr] = &process.lines;
        if !stderr.is_empty() {
            return None;
        }
        let printed: Vec<u8> =
            stdout.iter().flat_map(|(_, line)| line.whole().into_owned()).collect();
        let is_other = !printed.starts_with(logs.output.as_bytes());
        is_other.then(|| violation(&OTHER_TEXT, fields! {})).flatten()
    });
    untrue.collect()
}

/// Judges logs with gaps: they contain each event that no gap names, in order.
fn untrue_with_gaps(
    story: &Story<'_>,
    question: &Question<'_>,
    process: &Process<'_>,
    logs: &SeenLogs,
    at: Time,
) -> Option<(&'static ViolationKind, ViolationFields)> {
    let events = Events::of(process, story.server.line_bytes);
    let [stdout, stderr] = &process.lines;
    // Otherwise the history does not say which positions the lines have.
    if !events.is_plain || !stderr.is_empty() {
        return None;
    }
    let known = events.until(at, process.ended.map(|(ended, _)| ended));
    for gap in &logs.gaps {
        if gap.last > known {
            return Some((&NEVER_WAS, fields! { last: gap.last, events: known }));
        }
        if !may_drop(story, &events, *gap, known) {
            return Some((&RETAINED, fields! { last: gap.last }));
        }
    }
    let is_lost =
        |position: u64| logs.gaps.iter().any(|gap| (gap.first..=gap.last).contains(&position));
    let there = stdout.iter().zip(1..).filter(|(_, position)| !is_lost(*position));
    let printed: Vec<u8> = there.flat_map(|((_, line), _)| line.whole().into_owned()).collect();
    if !printed.starts_with(logs.output.as_bytes()) {
        return Some((&OTHER_TEXT, fields! {}));
    }
    // The server does not keep what a process prints after its end, nor what a fault held up until then.
    let is_kept = story.setup(&question.record).late_output.is_none() && story.is_prompt(at);
    let is_whole = logs.whole && process.ended.is_some() && is_kept;
    let (read, printed) = (logs.output.len(), printed.len());
    (is_whole && read != printed).then(|| (&NOT_WHOLE, fields! { read, printed }))
}
