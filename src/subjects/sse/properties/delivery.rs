//! The way of output to users whom nothing is in the way of.

use std::time::Duration;

use super::followers::reads_alone;
use super::gaps::Events;
use super::refusals::MANY;
use crate::history::{Ending, EventKind, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::judging::{host, judged};
use crate::subjects::sse::names::PARTS;
use crate::subjects::sse::operations::{self, SseOperation};
use crate::subjects::sse::story::{Question, Story, pipe};
use crate::subjects::sse::tables::is_execd;

kinds! {
    pub(super) OUTPUT_IS_PROMPT;
    LATE = "late": "{subject:}{on} received line {line}, which was printed at {printed}, although nothing was in its way since {since} {moment}";
}

kinds! {
    pub(super) OUTPUT_IS_WHOLE;
    LOST = "lost": "{subject:}{on} followed it from its start to its end, and received {had} of {printed} bytes of pipe {pipe} {moment}";
}

/// The most bytes that a command may print so that all of them pass in one round trip, with their frames.
const SHORT: usize = 32 << 10;

/// The size of the frame of an event, at most.
const FRAME: usize = 256;

pub(super) fn output_is_prompt(story: &Story<'_>) -> Vec<Violation> {
    // A false server may leave output out, and a server with few connections may close one of a reader.
    let is_execd = is_execd(&story.cx.plan.defects);
    if !story.cx.is_honest() || story.server.connections < MANY || is_execd {
        return Vec::new();
    }
    story.questions.iter().filter_map(|question| late(story, question)).collect()
}

/// Whether a user follows a command from its start.
fn begins_at_the_start(question: &Question<'_>) -> bool {
    match &question.operation {
        SseOperation::Run { .. } => true,
        SseOperation::Follow { from, .. } => *from == operations::From::Start,
        _ => false,
    }
}

/// Returns the first line that a follower received too late.
fn late(story: &Story<'_>, question: &Question<'_>) -> Option<Violation> {
    let (on, record) = (question.host, question.record.as_str());
    let process = story.processes.get(record).filter(|process| process.launched.len() == 1)?;
    let readers = story.readers.get(record)?;
    let opened = readers.iter().find(|reader| reader.call == question.call)?.since;
    let all: usize = process.lines.iter().flatten().map(|(_, line)| line.len() + FRAME).sum();
    // Output may wait for its readers with a hold.
    let is_simple = Events::of(process, story.server.line_bytes).is_plain
        && all <= SHORT
        && story.server.hold.is_zero();
    let is_alone = begins_at_the_start(question)
        && story.only_follower(on, Time::from(story.cx.plan.horizon)).is_some()
        && reads_alone(story, on);
    if !is_simple || !is_alone {
        return None;
    }
    // A request, its answer, and a connection before that, if the answer to the start only reports it. Then the
    // same again, because a segment may wait for the acknowledgement of the one before.
    let takes = story.cx.plan.latency.1 * 8 + Duration::from_millis(200);
    let mut seen = [0, 0];
    judged(story.cx).filter(|event| host(event) == on).find_map(|event| {
        let EventKind::Delivered { stream, .. } = &event.what else { return None };
        let (_, pipe) = pipe(stream).filter(|(of, _)| *of == record)?;
        let (printed, _) = process.lines[pipe].get(seen[pipe])?;
        seen[pipe] += 1;
        let since = opened.max(*printed);
        let bound = since + takes;
        if !is_undisturbed(story, question, event.at.max(bound)) {
            return None;
        }
        story.cx.judges("output_is_prompt");
        if event.at <= bound {
            return None;
        }
        let data = fields! { on, line: seen[pipe], printed, since };
        Some(Violation::new("output_is_prompt", stream, event.at, &LATE, data))
    })
}

/// Whether no fault began until a time, and a follower has only had the connections that it needs.
fn is_undisturbed(story: &Story<'_>, question: &Question<'_>, until: Time) -> bool {
    let is_background = matches!(question.operation, SseOperation::Run { background: true, .. });
    let conns = story.followers_conns(question.host).filter(|conn| conn.opened <= until);
    story.first_fault.is_none_or(|fault| fault > until)
        && conns.count() <= 1 + usize::from(is_background)
}

pub(super) fn output_is_whole(story: &Story<'_>) -> Vec<Violation> {
    // A false server may leave output out.
    if !story.cx.is_honest() || is_execd(&story.cx.plan.defects) {
        return Vec::new();
    }
    let lost = judged(story.cx).filter_map(|event| {
        let EventKind::StreamEnded { stream, ending: Ending::Completed { .. } } = &event.what
        else {
            return None;
        };
        lost(story, host(event), stream.0.as_ref(), event.at)
    });
    lost.collect()
}

/// Judges what a host has of a command that it has followed from its start, without a gap, to its end at a time.
fn lost(story: &Story<'_>, on: &str, record: &str, at: Time) -> Option<Violation> {
    let process = story.processes.get(record).filter(|process| process.launched.len() == 1)?;
    let (ended, _) = process.ended?;
    let mut followers = story.questions.iter().filter(|question| {
        let is_own = question.host == on && question.record == record;
        is_own && question.follows() && question.asked <= at
    });
    let begins = followers.next().is_some_and(begins_at_the_start) && followers.next().is_none();
    // A child may print at the same time at which the process ends.
    let late = story.setup(record).late_output;
    let is_mixed = late.is_some_and(|late| late.after.0.is_zero());
    if !begins || is_mixed || !story.is_prompt(at) {
        return None;
    }
    let mut had = [0, 0];
    for event in judged(story.cx).filter(|event| host(event) == on && event.at <= at) {
        let EventKind::Delivered { stream, bytes, .. } = &event.what else { continue };
        if let Some((_, pipe)) = pipe(stream).filter(|(of, _)| *of == record) {
            had[pipe] += bytes.len() as u64;
        }
    }
    had.into_iter().zip(&process.lines).zip(PARTS).find_map(|((had, lines), pipe)| {
        let own = lines.iter().filter(|(printed, _)| *printed <= ended);
        let printed = own.map(|(_, line)| line.len() as u64).sum::<u64>();
        if printed > 0 {
            story.cx.judges("output_is_whole");
        }
        let data = fields! { on, had, printed, pipe: pipe.trim_start_matches('/') };
        (had < printed).then(|| Violation::new("output_is_whole", record, at, &LOST, data))
    })
}
