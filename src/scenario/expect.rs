//! What must come out of a scenario, besides the properties.
//!
//! Of a schedule it must come out of every run ([`Expect::unmet`]); of a swarm, out of all its runs together
//! ([`Expect::unmet_over`]). Everything is read from the history: what was really so, and what the user saw. Which property
//! a canary must break ([`Expect::breaks`]) is for whoever has the verdict to ask.

use std::time::Duration;

use super::Named;
use crate::history::{Call, Connection, Ending, Event, History, Stream, Time, What};
use crate::property::Broken;
use crate::schedule::{Conn, FieldValue, Host, Mark, Trigger, Which, units};

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
    pub at_least: Vec<(Mark, f64)>,
    /// What must come out of streams, by name.
    pub streams: Named<ExpectStream>,
    /// What must come of calls, by number.
    pub calls: std::collections::BTreeMap<u64, ExpectCall>,
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
    pub output: Option<Output>,
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
pub enum Output {
    /// All of it.
    All,
    /// A part of it, from the beginning.
    Prefix,
    /// Nothing.
    None,
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
pub(super) const STREAM_ENDS: [(&str, StreamEnds); 3] =
    [("completed", StreamEnds::Completed), ("failed", StreamEnds::Failed), ("open", StreamEnds::Open)];

/// How much was delivered, by name.
pub(super) const OUTPUTS: [(&str, Output); 3] = [("all", Output::All), ("prefix", Output::Prefix), ("none", Output::None)];

/// The endings of calls by their names in files.
pub(super) const CALL_ENDS: [(&str, CallEnds); 3] =
    [("answered", CallEnds::Answered), ("failed", CallEnds::Failed), ("open", CallEnds::Open)];

/// The name under which what did not come out is reported, as if it were a property.
pub const EXPECT: &str = "expect";

impl Expect {
    /// What did not come out of one run of a schedule.
    pub fn unmet(&self, history: &History) -> Vec<Broken> {
        let reaches = self.reaches.iter().filter(|sight| !sight.seen(history)).map(|sight| {
            let times = if sight.nth == 1 { String::new() } else { format!(" {} times", sight.nth) };
            broken(history.end, None, format!("{} was not reached{times}", sight.told()))
        });
        let never = self.never.iter().filter_map(|sight| {
            let event = sight.sightings(history).nth(sight.nth as usize - 1)?;
            Some(broken(event.at, None, format!("{} was reached at {}, and must never be", sight.told(), event.at)))
        });
        let streams = self.streams.iter().flat_map(|(name, expect)| expect.unmet(&Stream::from(name.as_str()), history));
        let calls = self.calls.iter().flat_map(|(call, expect)| expect.unmet(Call(*call), history));
        reaches.chain(never).chain(streams).chain(calls).collect()
    }

    /// What did not come out of all runs of a swarm together, in sentences.
    pub fn unmet_over<'h>(&self, runs: impl Iterator<Item = &'h History>) -> Vec<String> {
        let mut tally = Tally::new(self);
        runs.for_each(|history| tally.add(history));
        tally.unmet()
    }
}

/// What was seen in the runs of a swarm so far. It keeps no history, so runs can be thrown away as they come.
#[derive(Clone, Debug)]
pub struct Tally<'e> {
    expect: &'e Expect,
    runs: u64,
    reached: Vec<u64>,
    never: Vec<u64>,
    shares: Vec<u64>,
}

impl<'e> Tally<'e> {
    /// Nothing was seen yet.
    pub fn new(expect: &'e Expect) -> Self {
        let zeros = |n| vec![0; n];
        let (reached, never, shares) = (zeros(expect.reaches.len()), zeros(expect.never.len()), zeros(expect.at_least.len()));
        Self { expect, runs: 0, reached, never, shares }
    }

    /// Adds what was seen in one more run.
    pub fn add(&mut self, history: &History) {
        self.runs += 1;
        count(&mut self.reached, &self.expect.reaches, |sight| sight.seen(history));
        count(&mut self.never, &self.expect.never, |sight| sight.seen(history));
        count(&mut self.shares, &self.expect.at_least, |(mark, _)| times(mark, history) > 0);
    }

    /// What did not come out of all of them together, in sentences.
    pub fn unmet(&self) -> Vec<String> {
        let runs = self.runs;
        let reaches = self.expect.reaches.iter().zip(&self.reached).filter(|(_, times)| **times == 0);
        let reaches = reaches.map(|(sight, _)| format!("{} was reached in none of {runs} runs", sight.told()));
        let never = self.expect.never.iter().zip(&self.never).filter(|(_, times)| **times > 0);
        let never =
            never.map(|(sight, times)| format!("{} was reached in {times} of {runs} runs, and must never be", sight.told()));
        let shares = self.expect.at_least.iter().zip(&self.shares);
        let shares = shares.filter(|((_, share), times)| (**times as f64) < share * runs as f64);
        let shares = shares.map(|((mark, share), times)| {
            format!("{mark} was reached in {times} of {runs} runs, and must be in a share of {share}")
        });
        reaches.chain(never).chain(shares).collect()
    }
}

fn count<T>(counters: &mut [u64], what: &[T], seen: impl Fn(&T) -> bool) {
    counters.iter_mut().zip(what).filter(|(_, what)| seen(what)).for_each(|(counter, _)| *counter += 1);
}

fn times(mark: &Mark, history: &History) -> u64 {
    match mark {
        Mark::Milestone(name) => history.milestones.get(name.as_str()).copied().unwrap_or(0),
        Mark::Point(name) => history.points.get(name.as_str()).copied().unwrap_or(0),
    }
}

/// A trigger that is looked for in a history, after the fact.
trait Sight {
    fn sightings<'h>(&'h self, history: &'h History) -> impl Iterator<Item = &'h Event>;
    fn seen(&self, history: &History) -> bool;
    fn told(&self) -> String;
}

impl Sight for Trigger {
    fn sightings<'h>(&'h self, history: &'h History) -> impl Iterator<Item = &'h Event> {
        history.events.iter().filter(move |event| {
            let (name, fields) = match (&event.what, &self.mark) {
                (What::Milestone { name, fields }, Mark::Milestone(wanted)) if name == wanted => (name, fields),
                (What::Point { name, fields, .. }, Mark::Point(wanted)) if name == wanted => (name, fields),
                _ => return false,
            };
            debug_assert_eq!(*name, self.mark.name());
            let field = |wanted: &str| fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
            self.host.as_ref().is_none_or(|host| event.host.as_ref() == Some(host))
                && self.fields.iter().all(|(name, value)| field(name) == Some(value))
                && self.conn.as_ref().is_none_or(|conn| names(conn, field("conn"), event.at, history))
        })
    }

    fn seen(&self, history: &History) -> bool {
        times(&self.mark, history) >= self.nth && self.sightings(history).nth(self.nth as usize - 1).is_some()
    }

    fn told(&self) -> String {
        let fields = self.fields.iter().map(|(name, value)| format!("{name} {value}"));
        let conn = self.conn.iter().map(|conn| format!("on {conn}"));
        let host = self.host.iter().map(|host| format!("at {host}"));
        let details: Vec<_> = fields.chain(conn).chain(host).collect();
        if details.is_empty() { self.mark.to_string() } else { format!("{} ({})", self.mark, details.join(", ")) }
    }
}

/// Whether a schedule's name of a connection names the one whose number a milestone told.
fn names(conn: &Conn, told: Option<&FieldValue>, at: Time, history: &History) -> bool {
    let Some(FieldValue::Number(id)) = told else { return false };
    let Some(index) = usize::try_from(*id).ok().and_then(|id| id.checked_sub(1)) else { return false };
    let Some(found) = history.conns.get(index) else { return false };
    let kind = match &conn.label {
        Some(label) => format!("{}/{label}#", conn.host),
        None => format!("{}#", conn.host),
    };
    let of_kind = |other: &Connection| other.name.starts_with(&kind);
    of_kind(found)
        && match conn.which {
            Which::Number(_) => found.name == conn.to_string(),
            Which::Generation(generation) => found.generation == Some(generation),
            Which::Last => !history.conns[index + 1..].iter().any(|later| of_kind(later) && later.opened <= at),
        }
}

impl ExpectStream {
    fn unmet(&self, stream: &Stream, history: &History) -> Vec<Broken> {
        let seen = SeenStream::of(stream, history);
        if !seen.opened {
            return vec![broken(history.end, Some(stream), format!("{stream}: it was never opened"))];
        }
        let at = seen.ended.map_or(history.end, |(at, _)| at);
        let sentences =
            [self.ends_unmet(&seen), self.output_unmet(&seen), self.within_unmet(&seen), self.live_unmet(&seen, stream, history)];
        sentences.into_iter().flatten().map(|sentence| broken(at, Some(stream), format!("{stream}: {sentence}"))).collect()
    }

    fn ends_unmet(&self, seen: &SeenStream) -> Option<String> {
        let told = match seen.ended {
            None => "it is still open".into(),
            Some((at, Ending::Completed { outcome })) => format!("it completed at {at} with `{outcome}`"),
            Some((at, Ending::Failed { reason })) => format!("it failed at {at}: {reason}"),
        };
        let (ends, outcome, reason) = match seen.ended {
            None => (StreamEnds::Open, None, None),
            Some((_, Ending::Completed { outcome })) => (StreamEnds::Completed, Some(outcome), None),
            Some((_, Ending::Failed { reason })) => (StreamEnds::Failed, None, Some(reason)),
        };
        let wanted = match self.ends {
            Some(StreamEnds::Completed) => "it must complete",
            Some(StreamEnds::Failed) => "it must fail",
            Some(StreamEnds::Open) => "it must stay open",
            None => "",
        };
        if self.ends.is_some_and(|wanted| wanted != ends) {
            return Some(format!("{wanted}, but {told}"));
        }
        wrong_text(&self.outcome, outcome, &self.reason, reason).map(|wanted| format!("{told}, and must {wanted}"))
    }

    fn output_unmet(&self, seen: &SeenStream) -> Option<String> {
        let (produced, delivered) = (&seen.produced, &seen.delivered);
        let figures = format!("{} of {} bytes were delivered", delivered.len(), produced.len());
        match self.output? {
            Output::All if delivered == produced => None,
            Output::All if delivered.len() == produced.len() => Some("what was delivered is not what was produced".into()),
            Output::All => Some(format!("{figures}, and all must be")),
            Output::Prefix if produced.starts_with(delivered) => None,
            Output::Prefix => Some("what was delivered is not the beginning of what was produced".into()),
            Output::None if delivered.is_empty() => None,
            Output::None => Some(format!("{figures}, and none may be")),
        }
    }

    fn within_unmet(&self, seen: &SeenStream) -> Option<String> {
        let within = self.within?;
        let limit = units::duration(within);
        match (seen.really_ended, seen.ended) {
            (_, None) => Some(format!("it is still open, and must end within {limit} of its real end")),
            (None, Some(_)) => Some(format!("it has no real end, and must end within {limit} of it")),
            (Some(real), Some((at, _))) if at.since(real) > within => Some(format!(
                "it ended at {at}, {} after its real end at {real}; {limit} are allowed",
                units::duration(at.since(real))
            )),
            _ => None,
        }
    }

    fn live_unmet(&self, seen: &SeenStream, stream: &Stream, history: &History) -> Option<String> {
        let from = self.live_from?;
        let client = seen.client.as_ref()?;
        let carries = |conn: &&Connection| conn.client == *client && conn.generation.is_some_and(|generation| generation >= from);
        let unmet = || Some(format!("nothing was delivered live over generation {from} or a later one"));
        let Some(connected) = history.conns.iter().filter(carries).map(|conn| conn.opened).min() else { return unmet() };
        let mut delivered = 0;
        let live = history.of_stream(stream).any(|(_, event)| {
            let What::Delivered { bytes, generation, .. } = &event.what else { return false };
            delivered += bytes.len();
            generation.is_some_and(|generation| generation >= from) && seen.produced_at(delivered) >= Some(connected)
        });
        if live { None } else { unmet() }
    }
}

/// What a history says of a stream.
struct SeenStream<'h> {
    opened: bool,
    /// The host whose user it was delivered to.
    client: Option<Host>,
    produced: Vec<u8>,
    /// When each item was produced, by the number of bytes up to its end.
    items: Vec<(usize, Time)>,
    really_ended: Option<Time>,
    delivered: Vec<u8>,
    ended: Option<(Time, &'h Ending)>,
}

impl<'h> SeenStream<'h> {
    fn of(stream: &'h Stream, history: &'h History) -> Self {
        let mut seen = Self {
            opened: false,
            client: None,
            produced: vec![],
            items: vec![],
            really_ended: None,
            delivered: vec![],
            ended: None,
        };
        for (_, event) in history.of_stream(stream) {
            match &event.what {
                What::Opened { .. } => {
                    seen.opened = true;
                    seen.client = event.host.clone();
                }
                What::Produced { bytes, .. } => {
                    seen.produced.extend_from_slice(bytes);
                    seen.items.push((seen.produced.len(), event.at));
                }
                What::Ended { .. } => seen.really_ended = seen.really_ended.or(Some(event.at)),
                What::Delivered { bytes, .. } => seen.delivered.extend_from_slice(bytes),
                What::StreamEnded { ending, .. } => seen.ended = seen.ended.or(Some((event.at, ending))),
                _ => {}
            }
        }
        seen
    }

    /// When the byte was produced that is the n-th, from 1.
    fn produced_at(&self, n: usize) -> Option<Time> {
        self.items.iter().find(|(end, _)| *end >= n).map(|(_, at)| *at)
    }
}

impl ExpectCall {
    fn unmet(&self, call: Call, history: &History) -> Vec<Broken> {
        let about = |what: &What| match what {
            What::Asked { call, .. } | What::Answered { call, .. } | What::Failed { call, .. } => Some(*call),
            _ => None,
        };
        let mut events = history.events.iter().filter(|event| about(&event.what) == Some(call)).peekable();
        if events.peek().is_none() {
            return vec![broken(history.end, None, format!("{call}: it was never asked for"))];
        }
        let ended = events.find(|event| !matches!(event.what, What::Asked { .. }));
        let (ends, result, reason, told) = match ended.map(|event| (event.at, &event.what)) {
            Some((at, What::Answered { result, .. })) => {
                (CallEnds::Answered, Some(result), None, format!("it was answered at {at} with `{result}`"))
            }
            Some((at, What::Failed { reason, .. })) => {
                (CallEnds::Failed, None, Some(reason), format!("it failed at {at}: {reason}"))
            }
            _ => (CallEnds::Open, None, None, "it is still open".into()),
        };
        let wanted = match self.ends {
            Some(CallEnds::Answered) => "it must be answered",
            Some(CallEnds::Failed) => "it must fail",
            Some(CallEnds::Open) => "it must stay open",
            None => "",
        };
        let sentence = if self.ends.is_some_and(|wanted| wanted != ends) {
            Some(format!("{wanted}, but {told}"))
        } else {
            wrong_text(&self.result, result, &self.reason, reason).map(|wanted| format!("{told}, and must {wanted}"))
        };
        let at = ended.map_or(history.end, |event| event.at);
        sentence.map(|sentence| broken(at, None, format!("{call}: {sentence}"))).into_iter().collect()
    }
}

/// What an ending must do that it does not: have exactly this text, or a reason that contains this one.
fn wrong_text(
    exact: &Option<String>,
    is: Option<&String>,
    contained: &Option<String>,
    reason: Option<&String>,
) -> Option<String> {
    if let Some(exact) = exact.as_ref().filter(|exact| is != Some(exact)) {
        return Some(format!("end with `{exact}`"));
    }
    let contained = contained.as_ref().filter(|contained| !reason.is_some_and(|reason| reason.contains(contained.as_str())))?;
    Some(format!("fail with a reason that contains `{contained}`"))
}

fn broken(at: Time, stream: Option<&Stream>, sentence: String) -> Broken {
    Broken { property: EXPECT, at, stream: stream.cloned(), sentence }
}
