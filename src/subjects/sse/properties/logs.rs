//! The logs of commands in the background.

use std::collections::BTreeSet;
use std::time::Duration;

use super::asked::process;
use super::gaps::{Events, may_drop};
use crate::history::{Content, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Violation, ViolationFields, ViolationKind};
use crate::subjects::judging::peers_may_lie;
use crate::subjects::sse::notes::SeenLogs;
use crate::subjects::sse::operations::SseOperation;
use crate::subjects::sse::requests::READS;
use crate::subjects::sse::story::{Process, Question, Story};

kinds! {
    pub(super) LOGS_ARE_TRUE;
    OTHER_TEXT = "other-text": "{subject:}the logs are not what the process printed {moment}";
    NOT_WHOLE = "not-whole": "{subject:}the logs end after {read} bytes, but the process printed {printed} {moment}";
    BEHIND = "behind": "{subject:}the user read the logs until there was nothing new, and they end after {read} bytes, but the process had printed {printed} before {since} {moment}";
    RETAINED = "retained": "{subject:}the logs have a gap up to event {last}, but the server still had to have that event {moment}";
    NEVER_WAS = "never-was": "{subject:}the logs have a gap up to event {last}, but there were only {events} events {moment}";
    NO_RUN = "no-run": "{subject:}the cursor after a part of the logs names no run {moment}";
    FOREGROUND = "foreground": "{subject:}the server gave the logs of a command in the foreground {moment}";
}

pub(super) fn logs_are_true(story: &Story<'_>) -> Vec<Violation> {
    let wrong = story.questions.iter().filter_map(|question| {
        let (at, answer) = question.answer?;
        let logs = answer.done::<SeenLogs>()?;
        let violation =
            |kind, data| Some(Violation::new("logs_are_true", question.call, at, kind, data));
        let mut starts = story
            .questions
            .iter()
            .filter(|other| other.is_run() && story.was_launched(&other.record));
        let started = starts.find(|other| other.record == question.record);
        if matches!(
            started.map(|started| &started.operation),
            Some(SseOperation::Run { background: false, .. })
        ) {
            story.cx.judges("logs_are_true");
            return violation(&FOREGROUND, fields! {});
        }
        if !peers_may_lie(story.cx) {
            story.cx.judges("logs_are_true");
            if !logs.has_run {
                return violation(&NO_RUN, fields! {});
            }
        }
        let process = process(story, question)?;
        let untrue = untrue(story, question, process, logs, at);
        let (kind, data) = untrue.or_else(|| behind(story, question, process, logs, at))?;
        violation(kind, data)
    });
    wrong.collect()
}

/// Judges the text and the gaps of logs: they contain each event that no gap names, in order.
fn untrue(
    story: &Story<'_>,
    question: &Question<'_>,
    process: &Process<'_>,
    logs: &SeenLogs,
    at: Time,
) -> Option<(&'static ViolationKind, ViolationFields)> {
    let events = Events::of(process, story.server.line_bytes);
    let [stdout, stderr] = &process.lines;
    // The history says which positions the lines have only if each line is an event of one pipe.
    let (has_gaps, is_ordered) = (!logs.gaps.is_empty(), stderr.is_empty());
    if has_gaps && !(events.is_plain && is_ordered) {
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
    let there = there.map(|(line, _)| line).chain(stderr);
    let printed: Vec<u8> = there.flat_map(|(_, line)| line.whole().into_owned()).collect();
    // The user has read text. A process that is killed may leave a part of a character.
    let printed = String::from_utf8_lossy(&printed);
    if is_ordered && !printed.starts_with(&logs.output) {
        return Some((&OTHER_TEXT, fields! {}));
    }
    if !is_ordered && events.is_plain && !is_merged(logs.output.as_bytes(), &process.lines) {
        return Some((&OTHER_TEXT, fields! {}));
    }
    // The server does not keep what a process prints after its end, nor what a fault held up until then.
    let is_kept =
        !has_gaps || story.setup(&question.record).late_output.is_none() && story.is_prompt(at);
    let is_whole = logs.whole && process.ended.is_some() && is_kept;
    let (read, printed) = (logs.output.len(), printed.len());
    (is_whole && read != printed).then(|| (&NOT_WHOLE, fields! { read, printed }))
}

/// How long the server may take to put output into the log.
const LEARNS: Duration = Duration::from_secs(1);

/// Judges the logs of a command that runs: their user asks again and again until an answer brings nothing new.
/// Then the logs have all that was printed before.
fn behind(
    story: &Story<'_>,
    question: &Question<'_>,
    process: &Process<'_>,
    logs: &SeenLogs,
    at: Time,
) -> Option<(&'static ViolationKind, ViolationFields)> {
    let SseOperation::Logs { wait, .. } = &question.operation else { return None };
    // A user with too many pages to read stops before the last one.
    let may_have_stopped = at >= question.asked + wait.0 + READS;
    // The last two requests were the last page and the state. Without a fault, each takes a connection and an
    // answer.
    let is_calm = story.first_fault.is_none_or(|fault| fault > at);
    let since = at.before(story.cx.plan.latency.1 * 10 + LEARNS);
    // The server does not keep what is printed after the end.
    let ran = process.ended.is_none_or(|(ended, _)| ended > since);
    // Output may wait for a stream with a hold, and a gap leaves out a part of the text.
    let is_judged = story.server.hold.is_zero() && logs.gaps.is_empty() && !peers_may_lie(story.cx);
    if logs.whole || may_have_stopped || !is_calm || !ran || !is_judged {
        return None;
    }
    // A line without an end may have more bytes to come.
    let is_there =
        |(printed, line): &&(Time, &Content)| *printed < since && line.whole().ends_with(b"\n");
    let lines = process.lines.iter().flatten().filter(is_there);
    let printed = lines.map(|(_, line)| line.len()).sum::<usize>();
    let read = logs.output.len();
    (read < printed).then(|| (&BEHIND, fields! { read, printed, since }))
}

/// Whether a text has first lines of both pipes, each in its order, and nothing else.
fn is_merged(text: &[u8], [stdout, stderr]: &[Vec<(Time, &Content)>; 2]) -> bool {
    let is = |pipe: &[(Time, &Content)], n: usize, line: &[u8]| {
        pipe.get(n).is_some_and(|(_, printed)| *printed.whole() == *line)
    };
    // How many of the lines so far can be of the standard output: both pipes may have the same line.
    let mut firsts = BTreeSet::from([0]);
    for (n, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let of_stdout = firsts.iter().filter(|first| is(stdout, **first, line)).map(|n| n + 1);
        let of_stderr = firsts.iter().filter(|first| is(stderr, n - **first, line)).copied();
        firsts = of_stdout.chain(of_stderr).collect();
    }
    !firsts.is_empty()
}
