//! `stale_generation_inert`: once a generation is installed, no packet of an older generation
//! delivers, ends or pauses anything.
//!
//! The control run shows this: it runs the same plan, but drops such packets instead of delivering
//! them. If the protocol lets a server
//! [accept late requests](crate::subject::Subject::accepts_late_requests), the control run delivers
//! what the client sent. Users must see the same items, endings and call results in both runs,
//! possibly at other times. The property ignores every difference that times alone could explain:
//! - All differences, if either run is inconclusive, or if the runs executed different steps of the
//!   schedule.
//! - A failure in one run, if the faults left so little time that failure or success was a matter
//!   of chance.
//! - A stream that is still open in one run, and that ended so late in the other that it could
//!   still have ended. Then only the items seen in both runs must agree. A stream that its user
//!   gives up is open until then.
//! - The answer of a call that may fail with its connection, and the reason for its failure. Only
//!   whether the call failed is compared.
//! - Everything that users saw after the runs [diverged](divergence). From then on users may ask for
//!   different things, and other users may see the results; or the two runs have different faults.
//! - The result of a call that its user gave up in one run. In the other run the answer may have
//!   arrived just before.

use std::time::Duration;

use bytes::Buf;

use crate::history::{Answer, Class, Ending, EventKind, Time};

use super::facts::{CallEnding, CallFacts, Facts};
use super::findings::Findings;
use super::justified_failure::{failures, is_inconclusive};
use super::view::{Item, View};
use super::violation::{fields, kinds};
use super::{CheckContext, Phrase, ViolationFields, one_ending};
use pairs::{Pairs, differs};

mod divergence;
mod pairs;
#[cfg(test)]
mod tests;

kinds! {
    pub(super) KINDS;
    OTHER_DELIVERY = "other-delivery": "{subject:}delivery {delivery} differs in the control run, which drops packets of older generations {moment}";
    OTHER_ENDING = "other-ending": "{subject:}it {here}, but in the control run, which drops packets of older generations, it {there} {moment}";
}

// A part of these sentences: a stream that did not end.
kinds! {
    OPEN = "open": "did not end";
}

/// Reports the views and calls that differ from the control run.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    let Some(history) = facts.cx.control else { return };
    let control = Facts::of(&CheckContext { history, control: None, ..facts.cx });
    if steps(facts) != steps(&control) || is_inconclusive(facts) || is_inconclusive(&control) {
        return;
    }
    let pairs = Pairs::of(facts, &control);
    let diverged = divergence::diverged_at((facts, &control), &pairs);
    for (view, other) in &pairs.views {
        compare_views((facts, view), (&control, other), diverged, broken);
    }
    for (call, other) in &pairs.calls {
        compare_calls((facts, call), (&control, other), diverged, broken);
    }
}

/// Returns the steps that were executed, with their notes.
fn steps<'a>(facts: &Facts<'a>) -> Vec<(usize, Option<&'a str>)> {
    let stepped = facts.cx.history.events.iter().filter_map(|event| match &event.what {
        EventKind::Stepped { step, note } => Some((*step, note.as_deref())),
        _ => None,
    });
    let mut steps: Vec<_> = stepped.collect();
    steps.sort_unstable();
    steps
}

/// Returns whether the failure at this entry was a matter of chance.
fn is_chance_failure(facts: &Facts<'_>, index: Option<usize>) -> bool {
    index.is_some_and(|index| {
        failures(facts).any(|failure| failure.index == index && failure.is_chance(facts))
    })
}

fn compare_views(
    (facts, view): (&Facts<'_>, &View<'_>),
    (others, control): (&Facts<'_>, &View<'_>),
    diverged: Time,
    broken: &mut Findings,
) {
    if let Some((item, at)) = first_difference(&view.delivered, &control.delivered) {
        if at >= diverged {
            return;
        }
        facts.cx.judges("stale_generation_inert");
        let data =
            fields! { delivery: item + 1 }.with("generation", view.delivered[item].generation);
        return broken.push(view.stream, at, &OTHER_DELIVERY, data);
    }
    let seen = |view: &View<'_>| {
        view.ending()
            .map(|(_, at, ending)| (at, ending.clone()))
            .filter(|(at, _)| *at < facts.horizon)
    };
    let (here, there) = (seen(view), seen(control));
    let open_until = |view: &View<'_>| {
        let left = [view.gave_up, view.orphaned].into_iter().flatten();
        left.fold(facts.judged_until(), Time::min)
    };
    let may_come = |at: Time, open: &View<'_>| {
        facts.path(view.path).bound(facts.guarantees(), at, Duration::ZERO) >= open_until(open)
    };
    let differs = match (&here, &there) {
        (Some((_, here)), Some((_, there))) => here != there,
        (Some((at, _)), None) => !may_come(*at, control),
        (None, Some((at, _))) => !may_come(*at, view),
        (None, None) => false,
    };
    let entry = |view: &View<'_>| view.ending().map(|(index, ..)| index);
    let is_chance_failure =
        || is_chance_failure(facts, entry(view)) || is_chance_failure(others, entry(control));
    let has_same_items = !control.delivered.is_empty()
        && view.delivered.first().is_some_and(|item| item.at < diverged);
    let is_ending_judged = (here.is_some() || there.is_some())
        && [&here, &there].into_iter().flatten().all(|(at, _)| *at < diverged)
        && !view.is_abandoned(facts.judged_until());
    if has_same_items || is_ending_judged {
        facts.cx.judges("stale_generation_inert");
    }
    if differs && is_ending_judged && !is_chance_failure() {
        let at = here.as_ref().or(there.as_ref()).map_or(Time::ZERO, |(at, _)| *at);
        let generation =
            view.generation_before(view.ending().map_or(usize::MAX, |(index, ..)| index));
        let data = fields! { here: report(here.map(|(_, ending)| ending)), there: report(there.map(|(_, ending)| ending)) };
        broken.push(view.stream, at, &OTHER_ENDING, data.with("generation", generation));
    }
}

/// Returns the first delivery at which two runs differ, up to the end of the shorter one. Item
/// boundaries may differ.
fn first_difference(here: &[Item<'_>], there: &[Item<'_>]) -> Option<(usize, Time)> {
    let mut others = there.iter().map(|item| item.bytes.reading()).filter(Buf::has_remaining);
    let mut other = None;
    for (number, item) in here.iter().enumerate() {
        let mut rest = item.bytes.reading();
        while rest.has_remaining() {
            let now = other.take().or_else(|| others.next())?;
            let same = rest.same_start(now);
            if same < rest.remaining().min(now.remaining()) {
                return Some((number, item.at));
            }
            (rest, other) = (rest.skip(same), Some(now.skip(same)).filter(Buf::has_remaining));
        }
    }
    None
}

fn report(ending: Option<Ending>) -> Phrase {
    ending.map_or(Phrase::new(&OPEN, ViolationFields::default()), |ending| {
        one_ending::report(&ending)
    })
}

fn compare_calls(
    (facts, call): (&Facts<'_>, &CallFacts<'_>),
    (others, control): (&Facts<'_>, &CallFacts<'_>),
    diverged: Time,
    broken: &mut Findings,
) {
    let (Some((index, at, here)), Some((other, then, there))) =
        (call.endings.first(), control.endings.first())
    else {
        return;
    };
    let given_up =
        [here, there].iter().any(|how| matches!(how, CallEnding::Answered(Answer::GivenUp)));
    if *at.max(then) >= diverged || given_up || call.gave_up.is_some() {
        return;
    }
    facts.cx.judges("stale_generation_inert");
    let is_chance_failure = || {
        call.class == Class::Durable
            && (is_chance_failure(facts, Some(*index)) || is_chance_failure(others, Some(*other)))
    };
    if differs(call, control) && !is_chance_failure() {
        let data = fields! { here: one_ending::render_call(*here), there: one_ending::render_call(*there) };
        broken.push(call, *at, &OTHER_ENDING, data);
    }
}
