//! Calls of users, and their results.

use crate::history::{Answer, Call, Class, Data, Time};
use crate::property::About;
use crate::schedule::Operation;

/// A call, from its start to its ending.
#[derive(Debug)]
pub struct CallFacts<'a> {
    /// The number of the call.
    pub call: Call,
    /// The index of its entry in the history.
    pub index: usize,
    /// The time of the call.
    pub at: Time,
    /// The host of the call.
    pub host: &'a str,
    /// The number of the schedule's step that made the call, if a step did. Calls are numbered in
    /// the order in which a run reaches their steps, so the same call may have another number in
    /// another run of the same schedule.
    pub step: Option<usize>,
    /// The incarnation of the host: how often the host had died before the call. Each incarnation
    /// is a different client.
    pub incarnation: usize,
    /// The class of the operation: what the protocol guarantees for it.
    pub class: Class,
    /// The requested operation.
    pub operation: &'a Operation,
    /// The index of its path.
    pub path: usize,
    /// The endings: entry, time, result.
    pub endings: Vec<(usize, Time, CallEnding<'a>)>,
    /// Whether it opened a stream. The stream's ending then counts as the call's ending.
    pub opened: bool,
    /// When its user gave it up, by closing its stream or the client.
    pub gave_up: Option<Time>,
    /// When its user's host died.
    pub orphaned: Option<Time>,
    /// Whether the call closed a stream or the client.
    pub closes: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallEnding<'a> {
    /// It was answered.
    Answered(&'a Answer),
    /// It failed, for this reason.
    Failed(&'a Data),
}

impl CallFacts<'_> {
    /// Returns whether its user had given up or died by a given time, so that nothing is due any
    /// more.
    pub fn is_abandoned(&self, at: Time) -> bool {
        [self.gave_up, self.orphaned].into_iter().flatten().any(|since| since <= at)
    }

    /// Returns whether the client answered the call on its own: at the time of the call, so that
    /// nothing crossed the network.
    pub fn is_answered_alone(&self) -> bool {
        self.endings.first().is_some_and(|(_, at, _)| *at == self.at)
    }

    /// Returns the name of the call in a sentence: `call 7 (add)`.
    pub fn name(&self) -> String {
        About::from(self).to_string()
    }
}

impl From<&CallFacts<'_>> for About {
    fn from(call: &CallFacts<'_>) -> Self {
        Self::Call(call.call, Some(call.operation.verb.clone()))
    }
}

/// The effect of a mutating call.
#[derive(Clone, Copy, Debug)]
pub struct Effect<'a> {
    /// The time of the effect.
    pub at: Time,
    /// The call that caused the effect.
    pub call: Call,
    /// The target of the effect.
    pub target: &'a str,
    /// The host on which the effect occurred.
    pub host: Option<&'a str>,
}
