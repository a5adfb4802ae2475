//! From when on the users of two runs, or their faults, may differ. The runs diverge at each of these
//! events:
//!
//! - A call in flight fails or is abandoned, or a durable call ends with its client. Its request may
//!   be a packet that takes effect in one run and is dropped in the other.
//! - A call is made at different times. It waits for an event that came earlier in one run.
//! - A call is answered differently because one user was ahead of the other when the call was made.
//!   That user had seen everything of a stream that the other had seen, and more, and the other saw
//!   something of that stream later.
//! - A durable call is refused in one run and done in the other, and its user made another call before the
//!   answer, and after its client had opened a newer connection. The request took effect before that other call in
//!   one run, and after it in the other.
//! - A client opens a newer connection during a durable call, a call of another user is in progress
//!   after that, and one of these calls is refused in one run only. The first request took effect before
//!   the second one in one run, and after it in the other.
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
        .chain(pairs.calls.iter().filter_map(|(here, there)| passed(facts, here, there)))
        .chain(pairs.calls.iter().filter_map(|pair| passed_another_user(facts, *pair, pairs)))
        .chain(fault_divergences(facts, control))
        .chain(outside::since((facts, control), pairs))
        .chain(lingering::since(facts, control))
        .min()
        .unwrap_or(NEVER)
}

/// Returns when the user of a call made another one that the request passed in one of two runs: it took
/// effect over the connection that it was made on in one of them, and over a newer one in the other.
fn passed(facts: &Facts<'_>, call: &CallFacts<'_>, control: &CallFacts<'_>) -> Option<Time> {
    let ((at, here), (then, there)) = (answer(call)?, answer(control)?);
    let newer = newer_connection(facts, call)?;
    let others = facts.calls.iter().filter(|other| other.host == call.host);
    let others =
        others.map(|other| other.at).filter(|other| *other > newer && *other < at.min(then));
    others.min().filter(|_| here != there)
}

/// Returns when a call first met one of another user that its request passed in one of two runs, in
/// the same way. Either of the two calls may be the refused one.
fn passed_another_user(
    facts: &Facts<'_>,
    (call, control): (&CallFacts<'_>, &CallFacts<'_>),
    pairs: &Pairs<'_>,
) -> Option<Time> {
    let ((at, here), (then, there)) = (answer(call)?, answer(control)?);
    let newer = newer_connection(facts, call).filter(|newer| *newer < at.max(then))?;
    let others = pairs.calls.iter().filter(|(other, _)| other.host != call.host);
    let met = others.filter_map(|(other, same)| {
        let ((ended, one), (later, two)) = (answer(other)?, answer(same)?);
        let is_met = other.at < at.max(then) && ended.max(later) > newer;
        (is_met && (here != there || one != two)).then_some(other.at.max(newer))
    });
    met.min()
}

/// Returns when a call was answered, and whether it was refused.
fn answer(call: &CallFacts<'_>) -> Option<(Time, bool)> {
    match call.endings.first()? {
        (_, at, CallEnding::Answered(answer)) => Some((*at, matches!(answer, Answer::Refused(_)))),
        _ => None,
    }
}

/// Returns when the client of a durable call first opened another connection after the call. It sends no
/// other call again.
fn newer_connection(facts: &Facts<'_>, call: &CallFacts<'_>) -> Option<Time> {
    if call.class != Class::Durable {
        return None;
    }
    let own = facts.cx.history.conns.iter().filter(|conn| conn.client.as_str() == call.host);
    own.map(|conn| conn.opened).filter(|opened| *opened > call.at).min()
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
