//! Readers of a command of which a history has no open stream: users that read on after a gap, clients
//! of users that follow nothing, and connections that the server does not know to be lost.

use super::super::notes::SseNote;
use super::super::operations::SseOperation;
use super::super::story::{Story, pipe};
use crate::history::{ConnIndex, EventKind, Stream, Time};
use crate::property::{CheckContext, ReadingHost};
use crate::subjects::judging::host;

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
        is_follower: true,
    });
    readers.chain(at_the_server(&story, record)).collect()
}

/// Returns the intervals in which connections have the stream of a command at the server. A connection has
/// it until its end at the server, also if its user is gone: a server that learns nothing of a lost
/// connection sends heartbeats into it.
fn at_the_server(story: &Story<'_>, record: &str) -> Vec<ReadingHost> {
    let attached = story.attached.iter().filter_map(|(conn, attached)| {
        let is_follower = reads(story, *conn, record)?;
        let conn = story.cx.history.conns.get(conn.0)?;
        let to = conn.over.1.unwrap_or(Time::from(story.cx.plan.horizon));
        Some(ReadingHost { host: conn.client.to_string(), from: attached.at, to, is_follower })
    });
    attached.collect()
}

/// Returns whether a connection is that of a follower, or `None` if its host did not ask for a stream of the
/// command before. A connection for a single request has a label.
fn reads(story: &Story<'_>, conn: ConnIndex, record: &str) -> Option<bool> {
    let conn = story.cx.history.conns.get(conn.0)?;
    let is_follower = !conn.is_labelled();
    let is_its = story.questions.iter().any(|question| {
        let opens = if is_follower { question.follows() } else { question.takes_events() };
        let is_before = question.asked <= conn.opened;
        opens && is_before && question.host == conn.client.as_str() && question.record == record
    });
    is_its.then_some(is_follower)
}

/// Returns when a host stopped to read a command after a gap: at its ending, at a failure, at its own death,
/// or when its user left it or read it anew.
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
    let events = story.cx.history.events.iter().filter(|event| event.at >= from);
    let died = events
        .filter(|event| host(event) == on && matches!(event.what, EventKind::Died { .. }))
        .map(|event| event.at);
    let ends = over.map(|(at, _)| *at).chain(asked.map(|question| question.asked)).chain(died);
    ends.min().unwrap_or(Time::from(story.cx.plan.horizon))
}
