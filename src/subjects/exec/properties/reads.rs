//! `reads_are_true`: what reads and further subscriptions of a process return, compared with what it printed and
//! with what the server retains.

use std::collections::BTreeMap;

use super::served::UserOperation;
use crate::history::{Answer, Call, Content, EventKind, Stream};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation, ViolationFields, ViolationKind};
use crate::subjects::exec::answers::{NotRetained, Read, StreamTotals, WrongAnswer};
use crate::subjects::exec::limits::server_limits;
use crate::subjects::exec::operations::retained;
use crate::subjects::exec::sum::Sum;
use crate::subjects::judging::{judged, peers_may_lie};

kinds! {
    pub(super) READS_ARE_TRUE;
    READ_NOTHING = "nothing-new": "{subject:}a long-poll read after event {after} was answered at once, with nothing new {moment}";
    READ_BACKWARD = "backward": "{subject:}event {event} after event {after} {moment}";
    READ_CHANGED = "changed": "{subject:}event {event} has other bytes than the first time {moment}";
    READ_NOT_KEPT = "not-kept": "{subject:}the subscription ended after event {after}, because the client did not keep the next one {moment}";
    OTHER_ERROR = "other-error": "{subject:}the error of the byte stream does not have the kind of its failure {moment}";
    WRITTEN_BEHIND_MISSING = "written-behind-missing": "{subject:}the byte stream accepted bytes behind bytes that were not written {moment}";
    READ_END_OF_FAILED = "end-of-failed": "{subject:}the byte stream of a failed process ended without an error {moment}";
    READ_LEFT_OUT = "left-out": "{subject:}the answer leaves out events after event {after}, although the server must still have them {moment}";
    READ_NOT_RETAINED = "not-retained": "{subject:}{gone} chunks were gone, although the server must still have them {moment}";
    READ_OTHER = "other": "{subject:}it read {stream} {read}, but the process printed {stream} {really} {moment}";
}

/// See the module.
pub(super) fn reads_are_true(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let retention = retained(&server_limits(cx.limits));
    let mut truth: Truth<'_> = BTreeMap::new();
    // The output of all processes so far.
    let (mut lines, mut printed) = (0, 0);
    let mut has_died = false;
    let mut asked: BTreeMap<Call, UserOperation<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Asked { .. } => asked.extend(UserOperation::of(event)),
            EventKind::Died { .. } => has_died = true,
            EventKind::Produced { stream, bytes } => {
                truth.entry(stream).or_default().push(bytes);
                (lines, printed) = (lines + 1, printed + bytes.len() as u64);
            }
            EventKind::Answered { call, answer } => {
                let has_all = !has_died && !retention.is_exceeded(lines, printed);
                // The user itself compares what it reads with the events that it knows.
                if answer.done::<WrongAnswer>().is_some()
                    || answer.done::<StreamTotals>().is_some()
                    || answer.done::<Read>().is_some()
                {
                    cx.judges("reads_are_true");
                }
                let wrong = match (answer.done::<WrongAnswer>(), answer.done::<StreamTotals>()) {
                    (Some(WrongAnswer::NothingNew { after }), _) => {
                        Some((&READ_NOTHING, fields! { after: *after }))
                    }
                    (Some(WrongAnswer::Backward { event, after }), _) => {
                        Some((&READ_BACKWARD, fields! { event: *event, after: *after }))
                    }
                    (Some(WrongAnswer::Changed { event }), _) => {
                        Some((&READ_CHANGED, fields! { event: *event }))
                    }
                    (Some(WrongAnswer::NotKept { after }), _) => {
                        Some((&READ_NOT_KEPT, fields! { after: *after }))
                    }
                    (Some(WrongAnswer::WrittenBehindMissing), _) => {
                        Some((&WRITTEN_BEHIND_MISSING, ViolationFields::default()))
                    }
                    (Some(WrongAnswer::OtherError), _) => {
                        Some((&OTHER_ERROR, ViolationFields::default()))
                    }
                    (Some(WrongAnswer::EndOfFailed), _) => {
                        Some((&READ_END_OF_FAILED, ViolationFields::default()))
                    }
                    (None, Some(totals)) => untrue(totals, &truth),
                    (None, None) if has_all => left_out(cx, *call, answer, &asked),
                    (None, None) => None,
                };
                found.extend(wrong.map(|(kind, data)| {
                    Violation::new("reads_are_true", *call, event.at, kind, data)
                }));
            }
            _ => {}
        }
    }
    found
}

/// The real output of the processes so far, in pieces.
type Truth<'a> = BTreeMap<&'a Stream, Vec<&'a Content>>;

/// The first total of a read that differs from the real output.
fn untrue(
    totals: &StreamTotals,
    truth: &Truth<'_>,
) -> Option<(&'static ViolationKind, ViolationFields)> {
    totals.0.iter().find_map(|(stream, read)| {
        let mut printed = Sum::default();
        truth.get(stream).into_iter().flatten().for_each(|piece| printed.put(piece.reading()));
        let really = printed.total();
        (*read != really).then(|| {
            (&READ_OTHER, fields! { stream, read: read.to_string(), really: really.to_string() })
        })
    })
}

/// Returns how the answer to a read is incomplete, if the server has all output. Besides output there are only the
/// exit and the close. A user that started two processes of one name may have read both.
fn left_out(
    cx: &CheckContext<'_>,
    call: Call,
    answer: &Answer,
    asked: &BTreeMap<Call, UserOperation<'_>>,
) -> Option<(&'static ViolationKind, ViolationFields)> {
    let own = asked.get(&call)?;
    let is_start =
        |other: &&UserOperation<'_>| other.verb() == "start" && other.is_about_the_process_of(own);
    if asked.values().filter(is_start).count() > 1 {
        return None;
    }
    if let Some(NotRetained(gone)) = answer.refusal() {
        cx.judges("reads_are_true");
        return Some((&READ_NOT_RETAINED, fields! { gone: *gone }));
    }
    let read = answer.done::<Read>()?;
    let after = read.after.unwrap_or_else(|| own.after());
    let (first, last) = read.chunks.unwrap_or((after, after));
    let leaves_out = first > after.saturating_add(2) || read.next > last.saturating_add(3);
    leaves_out.then(|| (&READ_LEFT_OUT, fields! { after }))
}
