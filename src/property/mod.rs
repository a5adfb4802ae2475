//! What must hold over a history.
//!
//! A [`Property`] is a name, a sentence, and a function from the [`Evidence`] of a run to what broke in it. The generic ones
//! stand in [`GENERIC`]; subjects add their own. All figures come from the subject's [`Promise`] under the limits of the run,
//! the schedule, and the ground truth; never from the protocol's own word.

use std::time::Duration;

use crate::history::{History, Stream, Time};
use crate::schedule::Plan;
use crate::subject::MilestoneDoc;

/// What must hold over the history of a run.
#[derive(Clone, Copy)]
pub struct Property {
    /// Its name: `gap_free`.
    pub name: &'static str,
    /// What it says, in one sentence.
    pub doc: &'static str,
    /// Everything in the evidence that breaks it.
    pub check: fn(&Evidence<'_>) -> Vec<Broken>,
}

impl std::fmt::Debug for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A property that broke, where it broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The property's name.
    pub property: &'static str,
    /// When.
    pub at: Time,
    /// The stream it is about, if it is about one.
    pub stream: Option<Stream>,
    /// One sentence with stream, item, time and generation: `s1: item 42 was delivered after item 40; 41 never was`.
    pub sentence: String,
}

/// What a property is given.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The plan that was run.
    pub plan: &'a Plan,
    /// The record of the run.
    pub history: &'a History,
    /// What the subject promises under the limits of the plan.
    pub promise: &'a Promise,
    /// The subject's milestones.
    pub milestones: &'a [MilestoneDoc],
    /// Under the subject's own names of its server hosts.
    pub servers: &'a [&'static str],
    /// The record of the twin run, if there was one: the same plan, in which packets of an older generation are dropped
    /// once a newer one is installed.
    pub twin: Option<&'a History>,
}

/// What a protocol promises under given limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// How long an end takes to notice, by itself, that its peer is silent: ping interval plus pong deadline.
    pub detection: Duration,
    /// How long the client tries to recover before it fails what is durable.
    pub recovery: Duration,
    /// How long one attempt to connect, or one call without a wait of its own, may take.
    pub attempt: Duration,
    /// How many times packets go there and back from the first SYN to the end of one catch-up.
    pub round_trips: u32,
    /// The longest pause between two attempts to connect.
    pub back_off: Duration,
    /// How long the server keeps what is detached.
    pub session: Duration,
    /// What the server keeps of a stream for a client that is away.
    pub retention: Retention,
    /// How long after its end a stream can still be caught up with.
    pub closed_retention: Duration,
    /// How much work is acceptable.
    pub work: Work,
    /// The gauges of the census that have a bound at all times, with it.
    pub memory: Vec<(&'static str, u64)>,
    /// How long after the clients are closed everything is gone.
    pub settle: Duration,
}

/// What is kept for a client that is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// So many items at least; all where none is given.
    pub items: Option<u64>,
    /// So many bytes at least; all where none is given.
    pub bytes: Option<u64>,
}

/// How much work a protocol may do, whatever the network does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Connections opened by one host in any virtual second.
    pub attempts: u64,
    /// Segments with payload sent by one host in any virtual second, besides two for each item produced in it.
    pub frames: u64,
    /// Polls of all tasks over the run, for each segment, item and virtual second (whichever are there), on average.
    pub polls: u64,
}

/// The generic properties, in the order in which they are reported.
pub const GENERIC: &[Property] = &[];
