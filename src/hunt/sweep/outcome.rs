//! What came of a fault: the user's record of the run, compared with that of the run without it.
//!
//! Times do not count, nor the borders of items: of a stream, its bytes and how it ended; of a call, how it came back.

use std::collections::BTreeMap;

use bytes::BufMut;

use crate::history::{Answer, Call, Data, Ending, EventKind, History, Stream};
use crate::schedule::Host;
use crate::subject::DynSubject;

/// What came of a fault, from the best to the worst. Each run has one: it is broken if a property broke, or else the first of the others
/// that is true of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultOutcome {
    /// The users' record is the same, and no client needed a generation more.
    Untouched,
    /// All that came out without the fault came out with it.
    Recovered,
    /// Something that came out without the fault did not, and no property broke: it was justified.
    Failed,
    /// A property broke.
    Broken,
}

impl FaultOutcome {
    /// All of them, each with what a person calls it and what it means.
    pub const ALL: [(FaultOutcome, &'static str, &'static str); 4] = [
        (
            FaultOutcome::Untouched,
            "untouched",
            "its users saw the same, times and the borders of items apart, and no client needed a generation more",
        ),
        (
            FaultOutcome::Recovered,
            "recovered",
            "nothing came to less: what had completed completed, what had been answered was answered, and not with a refusal unless it had \
             been, and what had been open did not fail",
        ),
        (
            FaultOutcome::Failed,
            "failed",
            "some stream or call came to less, and no property broke: it was justified",
        ),
        (FaultOutcome::Broken, "broken", "a property broke"),
    ];

    /// What a person calls it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(outcome, ..)| *outcome == self).expect("each has a name").1
    }
}

/// What the users of a run had of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserView {
    /// What was delivered of each stream to the user on a host, and how it ended.
    streams: BTreeMap<(Host, Stream), (Vec<u8>, Option<Ending>)>,
    /// How the call of each step came back.
    calls: BTreeMap<usize, Return>,
}

/// How a call came back.
#[derive(Clone, Debug, PartialEq)]
enum Return {
    Open,
    Answered(Answer),
    Failed(Data),
}

impl UserView {
    /// The record of a run.
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
                        // It may be asked again how it ended.
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

    /// A call came back, the first time.
    fn came_back(&mut self, steps: &BTreeMap<Call, usize>, call: Call, how: Return) {
        if let Some(open) = steps
            .get(&call)
            .and_then(|step| self.calls.get_mut(step))
            .filter(|it| **it == Return::Open)
        {
            *open = how;
        }
    }

    /// Whether all that came out in another run came out in this one, too.
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

/// How many generations the clients of a run installed; of a protocol that counts none, how many connections they opened.
pub fn generations(subject: &dyn DynSubject, history: &History) -> u64 {
    let counted = |name| history.milestones.get(name).copied().unwrap_or(0);
    subject.generation_milestone().map_or(history.conns.len() as u64, counted)
}
