//! What a user asked for, and what came of it.

use crate::history::{Answer, Call, Class, Data, Time};
use crate::property::About;
use crate::schedule::Operation;

/// A call, from its asking to its ending.
#[derive(Debug)]
pub struct CallFacts<'a> {
    /// Its number.
    pub call: Call,
    /// Its entry.
    pub index: usize,
    /// When it was asked for.
    pub at: Time,
    /// On which host.
    pub host: &'a str,
    /// The number of the schedule's step that asked for it, if one did: calls are numbered by the order in which a run reaches
    /// their steps, which may be another one in another run of the same schedule.
    pub step: Option<usize>,
    /// How often its host had died before: the lives of a host are different clients.
    pub contact: usize,
    /// What the protocol promises of it.
    pub class: Class,
    /// What was asked for.
    pub operation: &'a Operation,
    /// Its path, by number.
    pub path: usize,
    /// How it came back, each time: entry, time, how.
    pub endings: Vec<(usize, Time, CallEnding<'a>)>,
    /// Whether it opened a stream, which then stands for it.
    pub opened: bool,
    /// When its user gave it up, by closing its stream or the client.
    pub gave_up: Option<Time>,
    /// When its user's host died.
    pub orphaned: Option<Time>,
    /// Whether it closed a stream or the client.
    pub closes: bool,
}

/// How a call came back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallEnding<'a> {
    /// With a result.
    Answered(&'a Answer),
    /// With a failure, for this reason.
    Failed(&'a Data),
}

impl CallFacts<'_> {
    /// Whether nothing is owed to its user any more at a moment.
    pub fn is_abandoned(&self, at: Time) -> bool {
        [self.gave_up, self.orphaned].into_iter().flatten().any(|since| since <= at)
    }

    /// Whether its client answered by itself: in the moment of the asking, so that nothing crossed the network.
    pub fn is_answered_alone(&self) -> bool {
        self.endings.first().is_some_and(|(_, at, _)| *at == self.at)
    }

    /// How a sentence names it: `call 7 (add)`.
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
    /// When.
    pub at: Time,
    /// The call that asked for it.
    pub call: Call,
    /// On what.
    pub target: &'a str,
    /// On which host.
    pub host: Option<&'a str>,
}
