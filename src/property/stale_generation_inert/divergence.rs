//! From when on the users of two runs, or their faults, may differ. The runs diverge at each of these
//! events:
//!
//! - A call in flight fails or is abandoned, or a durable call ends with its client. Its request may
//!   be a packet that takes effect in one run and is dropped in the other.
//! - A call is made at different times. It waits for an event that came earlier in one run.
//! - A call is answered differently because one user was ahead of the other when the call was made.
//!   That user had seen everything of a stream that the other had seen, and more, and the other saw
//!   something of that stream later.
//! - A step was executed, or a hold of a task ended, at different times. The step or hold waits for
//!   a milestone that an older packet causes. From then on the two runs have different faults.
//! - A call or a stream ends differently while it depends on a part of the outside world that is not
//!   the same in both runs (`outside`).
//! - The servers begin to have different knowledge of a client, because they learn at different
//!   times that an older connection of the client is over (`lingering`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::pairs::{Pairs, differs};
use crate::history::{Answer, Class, Data, Ending, EventKind, Stream, Time};
use crate::property::facts::{CallEnding, CallFacts, Facts};
use crate::property::path::NEVER;
use crate::schedule::Fault;

mod lingering;
mod outside;
#[cfg(test)]
mod tests;

/// Returns when two runs diverged.
pub(super) fn diverged_at((facts, control): (&Facts<'_>, &Facts<'_>), pairs: &Pairs<'_>) -> Time {
    let parts = |(here, there): &&(&CallFacts<'_>, &CallFacts<'_>)| {
        here.at != there.at || differs(here, there) && is_ahead((facts, here), (control, there))
    };
    let asked = pairs.calls.iter().filter(parts).map(|(here, there)| here.at.min(there.at));
    let unsure =
        |run: &Facts<'_>| run.calls.iter().filter_map(|call| unsure_since(run, call)).min();
    let unsure = [facts, control].into_iter().filter_map(unsure);
    asked
        .chain(unsure)
        .chain(fault_divergences(facts, control))
        .chain(outside::since((facts, control), pairs))
        .chain(lingering::since(facts, control))
        .min()
        .unwrap_or(NEVER)
}

/// Returns the times from which the runs have different faults: a step was executed, or a hold
/// ended, earlier in one run than in the other.
fn fault_divergences<'f>(
    facts: &'f Facts<'_>,
    control: &'f Facts<'_>,
) -> impl Iterator<Item = Time> + 'f {
    let (here, there) = (first_carried_out(facts), first_carried_out(control));
    let steps = here.into_iter().filter_map(move |(step, at)| Some((at, *there.get(&step)?)));
    let (here, there) = (hold_ends(facts), hold_ends(control));
    let holds = here.into_iter().filter_map(move |(number, at)| Some((at, *there.get(&number)?)));
    let moments = steps.chain(holds);
    moments.filter(|(here, there)| here != there).map(|(here, there)| here.min(there))
}

/// Returns when each step was executed.
fn first_carried_out(facts: &Facts<'_>) -> BTreeMap<usize, Time> {
    let mut first = BTreeMap::new();
    for event in &facts.cx.history.events {
        if let EventKind::Stepped { step, .. } = event.what {
            first.entry(step).or_insert(event.at);
        }
    }
    first
}

/// Returns when each hold of a task ended, by the number of the fault.
fn hold_ends(facts: &Facts<'_>) -> BTreeMap<usize, Time> {
    let holds = facts.faults.iter().filter(|fault| matches!(fault.what, Fault::Hold { .. }));
    holds.map(|fault| (fault.number, fault.ended)).collect()
}

/// Returns from when on the user does not know whether a call took effect: the call failed, or its
/// user abandoned it. A client retransmits a durable call unless the client ends, too.
fn unsure_since(facts: &Facts<'_>, call: &CallFacts<'_>) -> Option<Time> {
    let is_in_flight = call.class == Class::InFlight;
    let unknown = match call.endings.first() {
        Some((_, at, CallEnding::Failed(_))) => Some(*at).filter(|_| is_in_flight),
        Some((_, at, CallEnding::Answered(Answer::GivenUp))) => Some(*at),
        Some(_) => None,
        None => call.gave_up.into_iter().chain(call.orphaned).min(),
    };
    let unknown = unknown.and_then(|at| match is_in_flight {
        true => Some(at),
        false => facts.begins_anew(call.host, at),
    });
    // Other users can see the effect one millisecond later at the earliest.
    unknown.map(|at| at + Duration::from_millis(1))
}

/// Returns whether one user was only ahead of the other when both made the same call. For every
/// stream, what one user had seen must begin with what the other had seen. For at least one stream,
/// one user must have seen more. For each such stream, the user who was behind must have seen
/// something later, or its client answered on its own.
fn is_ahead(
    (facts, call): (&Facts<'_>, &CallFacts<'_>),
    (others, control): (&Facts<'_>, &CallFacts<'_>),
) -> bool {
    let (here, there) = (SeenBefore::at(facts, call), SeenBefore::at(others, control));
    let streams: BTreeSet<_> = here.before.keys().chain(there.before.keys()).copied().collect();
    let mut some_ahead = false;
    for stream in streams {
        let is_less = here.of(stream).len() < there.of(stream).len();
        let (behind, ahead) = if is_less { (&here, &there) } else { (&there, &here) };
        let (less, more) = (behind.of(stream), ahead.of(stream));
        let is_ahead = less.len() < more.len();
        if !more.starts_with(less)
            || is_ahead && !behind.later.contains(stream) && !behind.answers_alone
        {
            return false;
        }
        some_ahead |= is_ahead;
    }
    some_ahead
}

/// The things that a user had seen when it made a call: for each stream, everything except items,
/// in order.
/// `gap_free` already checks the order of items.
struct SeenBefore<'a> {
    before: BTreeMap<&'a Stream, Vec<Seen<'a>>>,
    /// The streams of which the user saw something later.
    later: BTreeSet<&'a Stream>,
    /// Whether the client answered on its own, at the time of the call. It then used only what it
    /// had seen.
    answers_alone: bool,
}

/// One thing that a user saw of a stream.
#[derive(PartialEq)]
enum Seen<'a> {
    Opened,
    Ended(&'a Ending),
    Saw(&'a Data),
}

impl<'a> SeenBefore<'a> {
    fn of(&self, stream: &Stream) -> &[Seen<'a>] {
        self.before.get(stream).map_or(&[], Vec::as_slice)
    }

    fn at(facts: &Facts<'a>, call: &CallFacts<'_>) -> Self {
        let mut seen_before = Self {
            before: BTreeMap::new(),
            later: BTreeSet::new(),
            answers_alone: call.is_answered_alone(),
        };
        let events = facts.cx.history.events.iter().enumerate();
        for (index, event) in events
            .filter(|(_, event)| event.host.as_ref().is_some_and(|host| host.as_str() == call.host))
        {
            let (stream, seen) = match &event.what {
                EventKind::Opened { stream, .. } => (stream, Seen::Opened),
                EventKind::StreamEnded { stream, ending } => (stream, Seen::Ended(ending)),
                EventKind::Observed { stream, saw } => (stream, Seen::Saw(saw)),
                _ => continue,
            };
            if index < call.index {
                seen_before.before.entry(stream).or_default().push(seen);
            } else {
                seen_before.later.insert(stream);
            }
        }
        seen_before
    }
}
