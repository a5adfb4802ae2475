//! What must come out of a scenario, besides the properties.
//!
//! Of a schedule it must come out of every run ([`Expect::unmet`]), but that each step does something ([`Idle`]): one of its seeds
//! is enough for that. Of a swarm it must come out of all its runs together ([`SwarmTally`]). Everything is read from the history: what
//! was really so, and what the user saw. Which property a canary must break ([`Expect::breaks`]) is for whoever has the verdict
//! to ask.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::history::{Call, History, Stream, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{About, CheckContext, Violation, ViolationFields, ViolationKind};
use crate::schedule::{Trigger, TriggerMark};
use sight::{Sight, times};

mod ends;
mod idle;
mod process;
mod sight;

pub use idle::Idle;

/// What must come out of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expect {
    /// Milestones and points that must be reached, each at least `nth` times.
    pub reaches: Vec<Trigger>,
    /// Milestones and points that must not be reached, not for the `nth` time.
    pub never: Vec<Trigger>,
    /// The property that a canary must break in at least one seed.
    pub breaks: Option<String>,
    /// Milestones and points that a share of a swarm's runs must reach.
    pub at_least: Vec<(TriggerMark, f64)>,
    /// The numbers, from 0, of steps of a schedule that may do nothing in any of its runs.
    pub may_miss: BTreeSet<usize>,
    /// What must come out of streams, by name.
    pub streams: BTreeMap<String, ExpectStream>,
    /// What must come of processes, by name.
    pub processes: BTreeMap<String, ExpectProcess>,
    /// What must come of calls, by number.
    pub calls: BTreeMap<u64, ExpectCall>,
}

/// What must come out of a stream. What is `None` may be anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectStream {
    /// How it ended for its user.
    pub ends: Option<StreamEnds>,
    /// The outcome with which it completed, exactly.
    pub outcome: Option<String>,
    /// A text that the reason of its failure contains.
    pub reason: Option<String>,
    /// How much was delivered.
    pub output: Option<ExpectedOutput>,
    /// It ended for its user so long after its real end, at most.
    pub within: Option<Duration>,
    /// Something that was produced after this generation was connected was delivered over it or a later one.
    pub live_from: Option<u64>,
}

/// How a stream ended for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnds {
    /// Complete.
    Completed,
    /// With a failure.
    Failed,
    /// Not.
    Open,
}

/// How much of what was really produced was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedOutput {
    /// All of it.
    All,
    /// A part of it, from the beginning.
    Prefix,
    /// Nothing.
    None,
}

/// What must come of a process: of the stream of its name, and of those that are parts of it, as far as its user opened them.
/// What is `None` may be anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectProcess {
    /// How all of it ended for its user: completed are a process that ended and pipes that were closed.
    pub ends: Option<StreamEnds>,
    /// How the process exited.
    pub exit: Option<ProcessExit>,
    /// A text that the reason of its failure contains.
    pub reason: Option<String>,
    /// How much of each part was delivered.
    pub output: Option<ExpectedOutput>,
    /// All of it ended for its user so long after the real end of the process and of its pipes, at most.
    pub within: Option<Duration>,
    /// Something of some part that was produced after this generation was connected was delivered over it or a later one.
    pub live_from: Option<u64>,
}

/// How a process exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// With this code.
    Code(u8),
    /// By a signal, whichever.
    Signal,
}

/// What must come of a call. What is `None` may be anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectCall {
    /// How it ended for its user.
    pub ends: Option<CallEnds>,
    /// The result with which it was answered, exactly.
    pub result: Option<String>,
    /// A text that the reason of its failure contains.
    pub reason: Option<String>,
}

/// How a call ended for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnds {
    /// With a result.
    Answered,
    /// With a failure.
    Failed,
    /// Not.
    Open,
}

/// The endings of streams by their names in files.
pub(super) const STREAM_ENDS: [(&str, StreamEnds); 3] = [
    ("completed", StreamEnds::Completed),
    ("failed", StreamEnds::Failed),
    ("open", StreamEnds::Open),
];

/// The endings of processes by their names in files.
pub(super) const PROCESS_ENDS: [(&str, StreamEnds); 3] =
    [("closed", StreamEnds::Completed), ("failed", StreamEnds::Failed), ("open", StreamEnds::Open)];

/// The exits of processes that have no code, by their names in files.
pub(super) const EXITS: [(&str, ProcessExit); 1] = [("signal", ProcessExit::Signal)];

/// How much was delivered, by name.
pub(super) const OUTPUTS: [(&str, ExpectedOutput); 3] = [
    ("all", ExpectedOutput::All),
    ("prefix", ExpectedOutput::Prefix),
    ("none", ExpectedOutput::None),
];

/// The endings of calls by their names in files.
pub(super) const CALL_ENDS: [(&str, CallEnds); 3] =
    [("answered", CallEnds::Answered), ("failed", CallEnds::Failed), ("open", CallEnds::Open)];

/// The name under which what did not come out is reported, as if it were a property.
pub const EXPECT: &str = "expect";

/// The value that says in which table of a file something is expected: `stream.s1`.
pub const TABLE: &str = "table";

kinds! {
    NOT_REACHED = "not-reached": "{subject} was not reached";
    NOT_REACHED_SO_OFTEN = "not-reached-so-often": "{subject} was not reached {times} times";
    REACHED = "reached": "{subject} was reached at {at}, and must never be";
    REACHED_IN_NONE = "reached-in-none": "{subject} was reached in none of {runs} runs";
    REACHED_IN_SOME = "reached-in-some": "{subject} was reached in {times} of {runs} runs, and must never be";
    TOO_SELDOM = "too-seldom": "{subject} was reached in {times} of {runs} runs, and must be in a share of {share}";
}

impl Expect {
    /// What did not come out of one run of a schedule.
    pub fn unmet(&self, cx: &CheckContext<'_>) -> Vec<Violation> {
        let history = cx.history;
        let reaches = self.reaches.iter().filter(|sight| !sight.seen(history)).map(|sight| {
            let kind = if sight.nth == 1 { &NOT_REACHED } else { &NOT_REACHED_SO_OFTEN };
            unmet(of(sight), history.end, kind, fields! { times: sight.nth })
        });
        let never = self.never.iter().filter_map(|sight| {
            let event = sight.sightings(history).nth(sight.nth as usize - 1)?;
            Some(unmet(of(sight), event.at, &REACHED, ViolationFields::default()))
        });
        let streams = self.streams.iter().flat_map(|(name, expect)| {
            let unmet = expect.unmet(&Stream::from(name.as_str()), history);
            unmet.into_iter().map(move |unmet| in_table(unmet, format!("stream.{name}")))
        });
        let processes = self.processes.iter().flat_map(|(name, expect)| {
            let unmet = expect.unmet(name, cx);
            unmet.into_iter().map(move |unmet| in_table(unmet, format!("process.{name}")))
        });
        let calls = self.calls.iter().flat_map(|(call, expect)| {
            let unmet = expect.unmet(Call(*call), history);
            unmet.into_iter().map(move |unmet| in_table(unmet, format!("call.{call}")))
        });
        reaches.chain(never).chain(streams).chain(processes).chain(calls).collect()
    }
}

/// What was seen in the runs of a swarm so far. It keeps no history, so runs can be thrown away as they come.
#[derive(Clone, Debug)]
pub struct SwarmTally<'e> {
    expect: &'e Expect,
    runs: u64,
    reached: Vec<u64>,
    never: Vec<u64>,
    shares: Vec<u64>,
}

impl<'e> SwarmTally<'e> {
    /// Nothing was seen yet.
    pub fn new(expect: &'e Expect) -> Self {
        let zeros = |n| vec![0; n];
        let (reached, never, shares) =
            (zeros(expect.reaches.len()), zeros(expect.never.len()), zeros(expect.at_least.len()));
        Self { expect, runs: 0, reached, never, shares }
    }

    /// Adds what was seen in one more run.
    pub fn add(&mut self, history: &History) {
        self.runs += 1;
        count(&mut self.reached, &self.expect.reaches, |sight| sight.seen(history));
        count(&mut self.never, &self.expect.never, |sight| sight.seen(history));
        count(&mut self.shares, &self.expect.at_least, |(mark, _)| times(mark, history) > 0);
    }

    /// What did not come out of all of them together.
    pub fn unmet(&self) -> Vec<Violation> {
        let runs = self.runs;
        let reaches =
            self.expect.reaches.iter().zip(&self.reached).filter(|(_, times)| **times == 0);
        let reaches =
            reaches.map(|(sight, _)| over_all(of(sight), &REACHED_IN_NONE, fields! { runs }));
        let never = self.expect.never.iter().zip(&self.never).filter(|(_, times)| **times > 0);
        let never = never.map(|(sight, times)| {
            over_all(of(sight), &REACHED_IN_SOME, fields! { times: *times, runs })
        });
        let shares = self.expect.at_least.iter().zip(&self.shares);
        let shares = shares.filter(|((_, share), times)| (**times as f64) < share * runs as f64);
        let shares = shares.map(|((mark, share), times)| {
            let subject = About::Mark(mark.name().to_owned(), mark.to_string());
            over_all(
                subject,
                &TOO_SELDOM,
                fields! { times: *times, runs, share: share.to_string() },
            )
        });
        reaches.chain(never).chain(shares).collect()
    }
}

fn count<T>(counters: &mut [u64], what: &[T], seen: impl Fn(&T) -> bool) {
    counters
        .iter_mut()
        .zip(what)
        .filter(|(_, what)| seen(what))
        .for_each(|(counter, _)| *counter += 1);
}

/// A milestone or point that a file names.
fn of(sight: &Trigger) -> About {
    About::Mark(sight.mark.name().to_owned(), sight.reported())
}

/// Something that is expected of one run.
fn unmet(
    subject: impl Into<About>,
    at: Time,
    kind: &'static ViolationKind,
    data: ViolationFields,
) -> Violation {
    Violation::new(EXPECT, subject, at, kind, data)
}

/// Something that is expected of all runs together.
fn over_all(subject: About, kind: &'static ViolationKind, data: ViolationFields) -> Violation {
    unmet(subject, Time::ZERO, kind, data)
}

/// The table of the file in which it is expected: `stream.s1`.
fn in_table(unmet: Violation, table: String) -> Violation {
    Violation { data: unmet.data.with(TABLE, Some(table)), ..unmet }
}
