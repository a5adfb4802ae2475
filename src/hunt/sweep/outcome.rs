//! The outcome of a fault: compares what the users saw in the run with what they saw in the run
//! without the fault.
//!
//! Times and item boundaries are ignored. A stream counts by its bytes and its ending, a call by
//! its result.

use std::collections::BTreeMap;

use bytes::BufMut;

use crate::history::{Answer, Call, Data, Ending, EventKind, History, Stream};
use crate::schedule::Host;
use crate::subject::DynSubject;

/// The outcome of a fault, from best to worst. Each run has exactly one: [`Broken`](Self::Broken)
/// if a property is violated, otherwise the first other outcome that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultOutcome {
    /// The users saw the same, and no client needed an additional generation.
    Untouched,
    /// Every stream and call came out at least as well as without the fault.
    Recovered,
    /// Some stream or call came out worse than without the fault, but no property was violated: the
    /// failure was justified.
    Failed,
    /// A property was violated.
    Broken,
}

impl FaultOutcome {
    /// All outcomes, each with its display name and its meaning.
    pub const ALL: [(FaultOutcome, &'static str, &'static str); 4] = [
        (
            FaultOutcome::Untouched,
            "untouched",
            "the users saw the same as without the fault, except for times and the division into items, and no client needed one more generation",
        ),
        (
            FaultOutcome::Recovered,
            "recovered",
            "no stream and no call did worse than without the fault: completed streams still completed, open streams did not fail, and \
             answered calls were answered, none with a refusal that it did not get before",
        ),
        (
            FaultOutcome::Failed,
            "failed",
            "some stream or call did worse than without the fault, but no property was violated: the failure was justified",
        ),
        (FaultOutcome::Broken, "broken", "a property was violated"),
    ];

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(outcome, ..)| *outcome == self).expect("each has a name").1
    }
}

/// The results of a run as its users saw them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserView {
    /// For each host and stream: the bytes delivered to the user, and how the stream ended.
    streams: BTreeMap<(Host, Stream), (Vec<u8>, Option<Ending>)>,
    /// The result of the call that each step made.
    calls: BTreeMap<usize, Return>,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
enum Return {
    Open,
    Answered(Answer),
    Failed(Data),
}

impl UserView {
    /// Extracts the users' view from a history.
    pub fn of(history: &History) -> Self {
        let mut record = Self::default();
        let (mut step, mut steps) = (0, BTreeMap::new());
        for event in &history.events {
            match &event.what {
                EventKind::Stepped { step: now, .. } => step = *now,
                EventKind::Asked { call, .. } => {
                    steps.insert(*call, step);
                    record.calls.insert(step, Return::Open);
                }
                EventKind::Answered { call, answer } => {
                    record.came_back(&steps, *call, Return::Answered(answer.clone()))
                }
                EventKind::Failed { call, reason } => {
                    record.came_back(&steps, *call, Return::Failed(reason.clone()))
                }
                EventKind::Opened { stream, .. }
                | EventKind::Delivered { stream, .. }
                | EventKind::StreamEnded { stream, .. } => {
                    let Some(host) = event.host.clone() else { continue };
                    let (delivered, ended) =
                        record.streams.entry((host, stream.clone())).or_default();
                    match &event.what {
                        EventKind::Delivered { bytes, .. } => delivered.put(bytes.reading()),
                        // A user may ask for the ending again; only the first answer counts.
                        EventKind::StreamEnded { ending, .. } if ended.is_none() => {
                            *ended = Some(ending.clone())
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        record
    }

    /// Records the result of a call, unless it already has one.
    fn came_back(&mut self, steps: &BTreeMap<Call, usize>, call: Call, how: Return) {
        if let Some(open) = steps
            .get(&call)
            .and_then(|step| self.calls.get_mut(step))
            .filter(|it| **it == Return::Open)
        {
            *open = how;
        }
    }

    /// Returns whether every stream and call came out at least as well as in another run.
    pub fn has_all_of(&self, other: &UserView) -> bool {
        let stream = |(key, (_, ending)): (_, &(Vec<u8>, Option<Ending>))| {
            let here = self.streams.get(key).and_then(|(_, ending)| ending.as_ref());
            match ending {
                Some(Ending::Completed { .. }) => matches!(here, Some(Ending::Completed { .. })),
                Some(Ending::Failed { .. }) => true,
                None => !matches!(here, Some(Ending::Failed { .. })),
            }
        };
        let call = |(step, how): (&usize, &Return)| match how {
            Return::Answered(there) => match self.calls.get(step) {
                Some(Return::Answered(here)) => there.is_refusal() || !here.is_refusal(),
                _ => false,
            },
            Return::Failed(_) => true,
            Return::Open => !matches!(self.calls.get(step), None | Some(Return::Failed(_))),
        };
        other.streams.iter().all(stream) && other.calls.iter().all(call)
    }
}

/// Returns the number of generations that the clients of a run installed. For a protocol without
/// generations, returns the number of connections opened.
pub fn generations(subject: &dyn DynSubject, history: &History) -> u64 {
    let counted = |name| history.milestones.get(name).copied().unwrap_or(0);
    subject.generation_milestone().map_or(history.conns.len() as u64, counted)
}
