//! Readers of a command of which a history has no open stream: users that read on after a gap, and clients
//! of users that follow nothing.

use super::super::notes::SseNote;
use super::super::operations::SseOperation;
use super::super::story::{Story, pipe};
use crate::history::{Stream, Time};
use crate::property::{CheckContext, ReadingHost};

/// Returns the intervals in which hosts read a command, whether they opened its stream in the history or
/// not. `stream` is that of the command or of one of its pipes.
pub(in crate::subjects::sse) fn also_reads(
    cx: &CheckContext<'_>,
    stream: &Stream,
) -> Vec<ReadingHost> {
    let story = Story::of(cx);
    let record = pipe(stream).map_or(stream.0.as_ref(), |(record, _)| record);
    let opened = story.readers.get(record).into_iter().flatten();
    let opened = opened.map(|reader| (reader.host, reader.since, reader.until));
    let after_gaps = story.notes.iter().filter(|((_, of), _)| *of == record);
    let after_gaps = after_gaps.flat_map(|((on, _), notes)| {
        let began = notes.iter().filter(|(_, note)| matches!(note, SseNote::Continues(_)));
        began.map(|(began, _)| (*on, *began, Time::from(cx.plan.horizon)))
    });
    let readers = opened.chain(after_gaps).map(|(on, from, to)| ReadingHost {
        host: on.to_owned(),
        from,
        to: to.min(end(&story, on, record, from)),
    });
    readers.collect()
}

/// Returns when a host stopped to read a command after a gap: at its ending, at a failure, or when its user
/// left it or read it anew.
fn end(story: &Story<'_>, on: &str, record: &str, from: Time) -> Time {
    let notes = story.notes.get(&(on, record)).into_iter().flatten();
    let over = notes.filter(|(at, note)| {
        *at >= from
            && matches!(note, SseNote::Ended { .. } | SseNote::EndedSomehow | SseNote::Failed(_))
    });
    let asked = story.questions.iter().filter(|question| {
        let is_other = question.follows() || matches!(question.operation, SseOperation::Leave(_));
        is_other && question.host == on && question.record == record && question.asked > from
    });
    let ends = over.map(|(at, _)| *at).chain(asked.map(|question| question.asked));
    ends.min().unwrap_or(Time::from(story.cx.plan.horizon))
}
