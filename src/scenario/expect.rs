//! The expectations of a scenario, in addition to the properties.
//!
//! Every run of a schedule must meet them ([`Expect::unmet`]). One rule is weaker: each step must
//! do something ([`Idle`]) in at least one of the schedule's seeds. All runs of a swarm must meet
//! them together ([`SwarmTally`]). All expectations are checked against the history: the ground
//! truth, and the data and outcomes that the user saw. The code that computes the verdict checks
//! the property that a canary must violate ([`Expect::breaks`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::history::{Call, History, Stream, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{About, CheckContext, Violation, ViolationFields, ViolationKind};
use crate::schedule::{Trigger, TriggerMark};
use trigger_query::{TriggerQuery, times};

mod ends;
mod idle;
mod process;
mod trigger_query;

pub use idle::Idle;

/// The expectations of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expect {
    /// Milestones and points that must be reached, each at least `nth` times.
    pub reaches: Vec<Trigger>,
    /// Milestones and points that must not be reached `nth` times.
    pub never: Vec<Trigger>,
    /// The property that a canary must violate in at least one seed.
    pub breaks: Option<String>,
    /// Milestones and points, each with the share of a swarm's runs that must reach it.
    pub at_least: Vec<(TriggerMark, f64)>,
    /// The indices of steps of a schedule that may do nothing in all runs.
    pub may_miss: BTreeSet<usize>,
    /// The expectations for streams, by name.
    pub streams: BTreeMap<String, ExpectStream>,
    /// The expectations for processes, by name.
    pub processes: BTreeMap<String, ExpectProcess>,
    /// The expectations for calls, by number.
    pub calls: BTreeMap<u64, ExpectCall>,
}

/// The expectations for a stream. A field that is `None` is not checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectStream {
    /// The expected end for the user.
    pub ends: Option<StreamEnds>,
    /// The exact outcome of a completed stream.
    pub outcome: Option<String>,
    /// A text that the failure reason must contain.
    pub reason: Option<String>,
    /// The expected amount of delivered data.
    pub output: Option<ExpectedOutput>,
    /// A text that the delivered data must contain.
    pub says: Option<String>,
    /// Texts, each of which one observation of the user must contain.
    pub shows: Vec<String>,
    /// The maximum time between the stream's real end and its end for the user.
    pub within: Option<Duration>,
    /// At least one byte produced after this generation connected must be delivered over this
    /// generation or a later one.
    pub live_from: Option<u64>,
}

/// The end of a stream for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnds {
    /// The stream completed.
    Completed,
    /// The stream failed.
    Failed,
    /// The stream did not end.
    Open,
}

/// The part of the produced data that was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedOutput {
    /// All data.
    All,
    /// A prefix of the data.
    Prefix,
    /// No data.
    None,
}

/// The expectations for a process: for the stream with its name, and for the parts of that stream
/// that the user opened. A field that is `None` is not checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectProcess {
    /// The expected end of all its streams for the user. A process completes with its exit; a pipe
    /// completes when it is closed.
    pub ends: Option<StreamEnds>,
    /// The expected exit of the process.
    pub exit: Option<ProcessExit>,
    /// A text that the failure reason must contain.
    pub reason: Option<String>,
    /// The expected amount of delivered data, for each part.
    pub output: Option<ExpectedOutput>,
    /// The maximum time between the real end of the process and its pipes, and the end of all its
    /// streams for the user.
    pub within: Option<Duration>,
    /// At least one byte of any part that was produced after this generation connected must be
    /// delivered over this generation or a later one.
    pub live_from: Option<u64>,
    /// The earliest and the latest time of the run at which the process really ends.
    pub really_ends: Option<(Duration, Duration)>,
}

/// The exit of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// The process exited with this code.
    Code(u8),
    /// A signal ended the process; any signal matches.
    Signal,
}

/// The expectations for a call. A field that is `None` is not checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectCall {
    /// The expected end for the user.
    pub ends: Option<CallEnds>,
    /// The exact result.
    pub result: Option<String>,
    /// A text that the result must contain.
    pub says: Option<String>,
    /// A text that the failure reason must contain.
    pub reason: Option<String>,
    /// The shortest and the longest time between the request and its end for the user.
    pub takes: Option<(Duration, Duration)>,
}

/// The end of a call for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnds {
    /// The call returned a result.
    Answered,
    /// The call failed.
    Failed,
    /// The call did not end.
    Open,
}

/// The ends of streams, by their names in files.
pub(super) const STREAM_ENDS: [(&str, StreamEnds); 3] = [
    ("completed", StreamEnds::Completed),
    ("failed", StreamEnds::Failed),
    ("open", StreamEnds::Open),
];

/// The ends of processes, by their names in files.
pub(super) const PROCESS_ENDS: [(&str, StreamEnds); 3] =
    [("closed", StreamEnds::Completed), ("failed", StreamEnds::Failed), ("open", StreamEnds::Open)];

/// The exits of processes without a code, by their names in files.
pub(super) const EXITS: [(&str, ProcessExit); 1] = [("signal", ProcessExit::Signal)];

/// The amounts of delivered data, by their names in files.
pub(super) const OUTPUTS: [(&str, ExpectedOutput); 3] = [
    ("all", ExpectedOutput::All),
    ("prefix", ExpectedOutput::Prefix),
    ("none", ExpectedOutput::None),
];

/// The ends of calls, by their names in files.
pub(super) const CALL_ENDS: [(&str, CallEnds); 3] =
    [("answered", CallEnds::Answered), ("failed", CallEnds::Failed), ("open", CallEnds::Open)];

/// The name that reports unmet expectations, in place of a property's name.
pub const EXPECT: &str = "expect";

/// The field of a violation that contains the file's table of the expectation: `stream.s1`.
pub const TABLE: &str = "table";

kinds! {
    NOT_REACHED = "not-reached": "{subject} was not reached";
    NOT_REACHED_SO_OFTEN = "not-reached-so-often": "{subject} was not reached {times} times";
    REACHED = "reached": "{subject} was reached at {at}, but must never be";
    REACHED_IN_NONE = "reached-in-none": "{subject} was reached in none of {runs} runs";
    REACHED_IN_SOME = "reached-in-some": "{subject} was reached in {times} of {runs} runs, but must never be";
    TOO_SELDOM = "too-seldom": "{subject} was reached in {times} of {runs} runs; the required share is {share}";
}

impl Expect {
    /// Returns the expectations that one run of a schedule did not meet.
    pub fn unmet(&self, cx: &CheckContext<'_>) -> Vec<Violation> {
        let history = cx.history;
        let reaches = self.reaches.iter().filter(|trigger| !trigger.seen(history)).map(|trigger| {
            let kind = if trigger.nth == 1 { &NOT_REACHED } else { &NOT_REACHED_SO_OFTEN };
            unmet(of(trigger), history.end, kind, fields! { times: trigger.nth })
        });
        let never = self.never.iter().filter_map(|trigger| {
            let event = trigger.matches(history).nth(trigger.nth as usize - 1)?;
            Some(unmet(of(trigger), event.at, &REACHED, ViolationFields::default()))
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

/// The observations of a swarm's runs so far. It keeps no history, so the caller can drop each run
/// after adding it.
#[derive(Clone, Debug)]
pub struct SwarmTally<'e> {
    expect: &'e Expect,
    runs: u64,
    reached: Vec<u64>,
    never: Vec<u64>,
    shares: Vec<u64>,
}

impl<'e> SwarmTally<'e> {
    /// Creates an empty tally.
    pub fn new(expect: &'e Expect) -> Self {
        let zeros = |n| vec![0; n];
        let (reached, never, shares) =
            (zeros(expect.reaches.len()), zeros(expect.never.len()), zeros(expect.at_least.len()));
        Self { expect, runs: 0, reached, never, shares }
    }

    /// Adds the observations of a run.
    pub fn add(&mut self, history: &History) {
        self.runs += 1;
        count(&mut self.reached, &self.expect.reaches, |trigger| trigger.seen(history));
        count(&mut self.never, &self.expect.never, |trigger| trigger.seen(history));
        count(&mut self.shares, &self.expect.at_least, |(mark, _)| times(mark, history) > 0);
    }

    /// Returns the expectations that all runs together did not meet.
    pub fn unmet(&self) -> Vec<Violation> {
        let runs = self.runs;
        let reaches =
            self.expect.reaches.iter().zip(&self.reached).filter(|(_, times)| **times == 0);
        let reaches =
            reaches.map(|(trigger, _)| over_all(of(trigger), &REACHED_IN_NONE, fields! { runs }));
        let never = self.expect.never.iter().zip(&self.never).filter(|(_, times)| **times > 0);
        let never = never.map(|(trigger, times)| {
            over_all(of(trigger), &REACHED_IN_SOME, fields! { times: *times, runs })
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

/// Returns the milestone or point that a file names.
fn of(trigger: &Trigger) -> About {
    About::Mark(trigger.mark.name().to_owned(), trigger.text())
}

/// Returns an unmet expectation of one run.
fn unmet(
    subject: impl Into<About>,
    at: Time,
    kind: &'static ViolationKind,
    data: ViolationFields,
) -> Violation {
    Violation::new(EXPECT, subject, at, kind, data)
}

/// Returns an unmet expectation of all runs together.
fn over_all(subject: About, kind: &'static ViolationKind, data: ViolationFields) -> Violation {
    unmet(subject, Time::ZERO, kind, data)
}

/// Adds the table of the file that contains the expectation: `stream.s1`.
fn in_table(unmet: Violation, table: String) -> Violation {
    Violation { data: unmet.data.with(TABLE, Some(table)), ..unmet }
}
