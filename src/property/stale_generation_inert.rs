//! `stale_generation_inert`: once a generation is installed, no packet of an older generation
//! delivers, ends or pauses anything.
//!
//! The control run shows this: it runs the same plan, but drops such packets instead of delivering
//! them. Users must see the same items, endings and call results in both runs, possibly at other
//! times. The property ignores every difference that times alone could explain:
//! - All differences, if either run is inconclusive, or if the runs executed different steps of the
//!   schedule.
//! - A failure in one run, if the faults left so little time that failure or success was a matter
//!   of chance.
//! - A stream that is still open in one run, and that ended so late in the other that it could
//!   still have ended. Then only the items seen in both runs must agree. A stream that its user
//!   gives up is open until then.
//! - The answer of a call that may fail with its connection, and the reason for its failure. Only
//!   whether the call failed is compared.
//! - Everything that users saw after the runs *diverged*. From then on users may ask for different
//!   things, and other users may see the results.
//! - Everything that users saw after a step was executed, or a hold of a task ended, at different
//!   times. The step or hold waits for a milestone that an older packet causes. From then on the
//!   two runs have different faults.
//! - The result of a call that its user gave up in one run. In the other run the answer may have
//!   arrived just before.
//!
//! The runs diverge at each of these events:
//! - A call in flight fails or is abandoned. Its request may be a packet that takes effect in one
//!   run and is dropped in the other.
//! - A call is made at different times. It waits for an event that came earlier in one run.
//! - A call is answered differently because one user was ahead of the other when the call was made.
//!   That user had seen everything of a stream that the other had seen, and more, and the other saw
//!   something of that stream later.
//! - The product waits for the outside world in one run, for longer than a packet takes, and not at
//!   that time in the other. For that time it lacks something in one run only.
//! - The outside world gets no answer in one run, and not at the same time in the other. From then
//!   on it acts differently.
//! - The servers begin to have different knowledge of a client, because they learn at different
//!   times that an older connection of the client is over (`lingering`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Buf;

use crate::history::{Answer, Call, Class, Data, Ending, EventKind, Stream, Time};
use crate::schedule::Fault;

use super::facts::{CallEnding, CallFacts, Facts};
use super::findings::Findings;
use super::justified_failure::{failures, is_inconclusive};
use super::path::NEVER;
use super::view::{Item, View};
use super::violation::{fields, kinds};
use super::{CheckContext, Phrase, ViolationFields, one_ending};

mod lingering;

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
    let mut others: BTreeMap<_, VecDeque<_>> = BTreeMap::new();
    control
        .views
        .iter()
        .for_each(|view| others.entry(key(&control, view)).or_default().push_back(view));
    let calls: Vec<_> =
        facts.calls.iter().filter_map(|call| Some((call, same_call(&control, call)?))).collect();
    let diverged = diverged_at((facts, &control), &calls);
    for view in &facts.views {
        // A stream that its user opened again has a second view. Match the views in the order of
        // opening.
        if let Some(other) = others.get_mut(&key(facts, view)).and_then(VecDeque::pop_front) {
            compare_views((facts, view), (&control, other), diverged, broken);
        }
    }
    for (call, other) in calls {
        compare_calls((facts, call), (&control, other), diverged, broken);
    }
}

/// Returns the call that the same step made in the other run.
fn same_call<'t, 'a>(control: &'t Facts<'a>, call: &CallFacts<'_>) -> Option<&'t CallFacts<'a>> {
    match call.step {
        Some(_) => control.calls.iter().find(|other| other.step == call.step),
        None => control.call(call.call),
    }
}

/// Returns the key that identifies a view in both runs: its stream, its host, and the step that
/// opened it.
fn key<'v>(
    facts: &Facts<'_>,
    view: &'v View<'_>,
) -> (&'v Stream, &'v str, Option<(Option<usize>, Call)>) {
    let opener = view.opened.map(|(.., call)| match facts.call(call).and_then(|call| call.step) {
        Some(step) => (Some(step), Call(0)),
        None => (None, call),
    });
    (view.stream, view.host, opener)
}

/// Returns when the users of both runs, or their faults, diverged.
fn diverged_at(
    (facts, control): (&Facts<'_>, &Facts<'_>),
    calls: &[(&CallFacts<'_>, &CallFacts<'_>)],
) -> Time {
    let parts = |(here, there): &&(&CallFacts<'_>, &CallFacts<'_>)| {
        here.at != there.at || differs(here, there) && is_ahead((facts, here), (control, there))
    };
    let asked = calls.iter().filter(parts).map(|(here, there)| here.at.min(there.at));
    let unsure = facts.calls.iter().chain(&control.calls).filter_map(unsure_since);
    asked
        .chain(unsure)
        .chain(fault_divergences(facts, control))
        .chain(fetched_in_one(facts, control))
        .chain(unanswered_in_one(facts, control))
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

/// Something that the product waited for.
struct Fetch<'a> {
    at: Time,
    what: &'a str,
    takes: Duration,
}

impl<'a> Fetch<'a> {
    /// Returns those that take longer than a packet.
    fn all_slow(facts: &Facts<'a>) -> Vec<Self> {
        let packet = facts.cx.plan.latency.1;
        let events = facts.cx.history.events.iter();
        let fetches = events.filter_map(|event| match &event.what {
            EventKind::Fetched { what, takes } => Some(Self { at: event.at, what, takes: *takes }),
            _ => None,
        });
        fetches.filter(|fetch| fetch.takes > packet).collect()
    }

    /// Returns whether the other run fetched the same at the same time, or nearly so.
    fn is_in(&self, others: &[Self]) -> bool {
        let overlaps =
            |other: &Self| self.at < other.at + self.takes && other.at < self.at + self.takes;
        others
            .iter()
            .any(|other| (self.what, self.takes) == (other.what, other.takes) && overlaps(other))
    }
}

/// Returns when the product first waited for the outside world in one of the runs only.
fn fetched_in_one(facts: &Facts<'_>, control: &Facts<'_>) -> Option<Time> {
    let (here, there) = (Fetch::all_slow(facts), Fetch::all_slow(control));
    let only_here = here.iter().filter(|fetch| !fetch.is_in(&there));
    let only_there = there.iter().filter(|fetch| !fetch.is_in(&here));
    only_here.chain(only_there).map(|fetch| fetch.at).min()
}

/// Returns when the outside world first got no answer in one of the runs only.
fn unanswered_in_one(facts: &Facts<'_>, control: &Facts<'_>) -> Option<Time> {
    let (here, there) = (unanswered(facts), unanswered(control));
    here.symmetric_difference(&there).map(|(at, _)| *at).min()
}

fn unanswered<'a>(facts: &Facts<'a>) -> BTreeSet<(Time, &'a str)> {
    let events = facts.cx.history.events.iter();
    let unanswered = events.filter_map(|event| match &event.what {
        EventKind::Unanswered { what } => Some((event.at, what.as_str())),
        _ => None,
    });
    unanswered.collect()
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

/// Returns from when on the user does not know whether a call in flight took effect.
fn unsure_since(call: &CallFacts<'_>) -> Option<Time> {
    let is_unknown = |how: &CallEnding<'_>| {
        matches!(how, CallEnding::Failed(_) | CallEnding::Answered(Answer::GivenUp))
    };
    let failed = call.endings.first().filter(|(.., how)| is_unknown(how)).map(|(_, at, _)| *at);
    let abandoned = if call.endings.is_empty() {
        call.gave_up.into_iter().chain(call.orphaned).min()
    } else {
        None
    };
    // Other users can see the effect one millisecond later at the earliest.
    failed
        .or(abandoned)
        .filter(|_| call.class == Class::InFlight)
        .map(|at| at + Duration::from_millis(1))
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

/// What a user had seen when it made a call: for each stream, everything except items, in order.
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
    let differs = differs && [&here, &there].into_iter().flatten().all(|(at, _)| *at < diverged);
    if differs && !view.is_abandoned(facts.judged_until()) && !is_chance_failure() {
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

/// Returns whether a call ended differently in two runs.
fn differs(call: &CallFacts<'_>, control: &CallFacts<'_>) -> bool {
    match (call.endings.first(), control.endings.first()) {
        (Some((.., CallEnding::Answered(here))), Some((.., CallEnding::Answered(there)))) => {
            call.class == Class::Durable && here != there
        }
        (Some((.., CallEnding::Failed(_))), Some((.., CallEnding::Failed(_))))
        | (None, _)
        | (_, None) => false,
        _ => true,
    }
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
    if *at.max(then) >= diverged || given_up {
        return;
    }
    let is_chance_failure = || {
        call.class == Class::Durable
            && (is_chance_failure(facts, Some(*index)) || is_chance_failure(others, Some(*other)))
    };
    if differs(call, control) && call.gave_up.is_none() && !is_chance_failure() {
        let data = fields! { here: one_ending::render_call(*here), there: one_ending::render_call(*there) };
        broken.push(call, *at, &OTHER_ENDING, data);
    }
}

#[cfg(test)]
mod tests {
    use crate::history::{Class, EventKind};

    use super::super::scripted::{BOUND, ScriptedRun, history};
    use crate::history::Answer;

    /// `s1` across a cut, with one item in each generation.
    fn cut() -> ScriptedRun {
        let scripted = history()
            .opened("s1", 1, 0)
            .produced("s1", 500, "a")
            .delivered("s1", 520, "a")
            .kills(1_000, 1_500);
        scripted
            .produced("s1", 2_000, "b")
            .delivered_in(2, "s1", 2_020, "b")
            .ended("s1", 3_000, "total 2")
    }

    fn completed() -> ScriptedRun {
        cut().completed("s1", 3_020, "total 2")
    }

    #[test]
    fn the_same_at_other_times_is_fine() {
        completed()
            .control(cut().completed("s1", 3_999, "total 2"))
            .holds("stale_generation_inert");
    }

    #[test]
    fn without_a_control_run_nothing_is_checked() {
        completed().holds("stale_generation_inert");
    }

    #[test]
    fn a_different_ending_is_reported() {
        assert_eq!(
            cut()
                .failed_stream("s1", 3_020, "detached")
                .control(completed())
                .violations("stale_generation_inert"),
            [
                "s1: it failed (detached), but in the control run, which drops packets of older generations, it completed (total 2) (generation 2, at 3.020 s)"
            ]
        );
    }

    #[test]
    fn a_missing_ending_is_reported_if_there_was_time_for_it() {
        assert_eq!(
            cut().end(600_000).control(completed()).violations("stale_generation_inert"),
            [
                "s1: it did not end, but in the control run, which drops packets of older generations, it completed (total 2) (generation 2, at 3.020 s)"
            ]
        );
        cut().horizon(4_000).control(completed().horizon(4_000)).holds("stale_generation_inert");
    }

    #[test]
    fn a_failure_by_chance_is_not_compared() {
        let scripted = || {
            history()
                .opened("s1", 1, 0)
                .produced("s1", 500, "a")
                .delivered("s1", 520, "a")
                .ended("s1", 600, "total 1")
        };
        let scripted = || scripted().kills(700, 20_000).kills(20_500, 45_000);
        let lucky = || scripted().completed("s1", 20_400, "total 1");
        lucky()
            .control(scripted().failed_stream("s1", 30_000, "deadline"))
            .holds("stale_generation_inert");
        scripted()
            .failed_stream("s1", 30_000, "deadline")
            .control(lucky())
            .holds("stale_generation_inert");
    }

    #[test]
    fn a_different_item_is_reported() {
        let scripted = history()
            .opened("s1", 1, 0)
            .delivered("s1", 520, "a")
            .delivered_in(2, "s1", 2_020, "x");
        assert_eq!(
            scripted.control(cut()).violations("stale_generation_inert"),
            [
                "s1: delivery 2 differs in the control run, which drops packets of older generations (generation 2, at 2.020 s)"
            ]
        );
    }

    #[test]
    fn streams_are_not_compared_after_a_call_at_a_different_time() {
        let opened = || history().opened("s1", 1, 0);
        let scripted = |asked, item| {
            opened().asked_as(7, asked, Class::Durable, "write", "{}").delivered("s1", 2_020, item)
        };
        scripted(900, "x").control(scripted(1_900, "y")).holds("stale_generation_inert");
        let scripted = |asked, item| {
            opened().delivered("s1", 2_020, item).asked_as(7, asked, Class::Durable, "write", "{}")
        };
        assert_eq!(
            scripted(2_500, "x")
                .control(scripted(2_900, "y"))
                .violations("stale_generation_inert")
                .len(),
            1
        );
    }

    #[test]
    fn fewer_items_of_an_open_stream_and_other_boundaries_are_fine() {
        let scripted = history()
            .opened("s1", 1, 0)
            .produced("s1", 500, "a")
            .produced("s1", 2_000, "b")
            .horizon(4_000);
        scripted
            .clone()
            .delivered("s1", 2_020, "ab")
            .control(scripted.delivered("s1", 520, "a"))
            .holds("stale_generation_inert");
    }

    #[test]
    fn a_stream_that_its_user_gave_up_may_have_ended_later() {
        let scripted = || {
            let scripted = history().opened("s1", 1, 0).kills(1_000, 1_500);
            scripted.ended("s1", 2_000, "total 0").end(600_000)
        };
        let here = || scripted().completed("s1", 2_020, "total 0");
        let gave_up = |ms| scripted().gave_up(2, Some("s1"), ms);
        here().control(gave_up(3_000)).holds("stale_generation_inert");
        here().control(gave_up(2_020 + BOUND)).holds("stale_generation_inert");
        let late = here().control(gave_up(2_021 + BOUND));
        assert_eq!(
            late.violations("stale_generation_inert").len(),
            1,
            "it would have ended before"
        );
        here().control(scripted().died("client", 3_000)).holds("stale_generation_inert");
    }

    #[test]
    fn the_outcome_of_a_call_is_compared() {
        let scripted = |class| history().kills(1_000, 1_500).asked_as(7, 900, class, "add", "{}");
        let differ = |class| {
            scripted(class).answered(7, 2_000, "5").control(scripted(class).answered(7, 2_000, "6"))
        };
        assert_eq!(
            differ(Class::Durable).violations("stale_generation_inert"),
            [
                "call 7 (add): it was answered (5), but in the control run, which drops packets of older generations, it was answered (6) (at 2.000 s)"
            ]
        );
        differ(Class::InFlight).holds("stale_generation_inert");
        let scripted = scripted(Class::InFlight)
            .answered(7, 2_000, "5")
            .control(scripted(Class::InFlight).failed(7, 2_000, "lost"));
        assert_eq!(scripted.violations("stale_generation_inert").len(), 1);
    }

    #[test]
    fn a_call_that_its_user_gave_up_may_have_been_answered_a_moment_before() {
        let scripted = |result| {
            history()
                .kills(1_000, 1_500)
                .asked_as(7, 900, Class::Durable, "read", "{}")
                .answered(7, 2_000, result)
        };
        scripted(Answer::GivenUp).control(scripted("5".into())).holds("stale_generation_inert");
    }

    #[test]
    fn a_call_made_at_a_different_time_is_not_compared() {
        let scripted =
            |asked| history().kills(1_000, 1_500).asked_as(7, asked, Class::Durable, "read", "{}");
        let differ = |asked| {
            scripted(900).answered(7, 2_000, "5").control(scripted(asked).answered(7, 2_000, "6"))
        };
        assert_eq!(differ(900).violations("stale_generation_inert").len(), 1);
        differ(1_900).holds("stale_generation_inert");
    }

    /// Step 1 makes call 1 and step 2 makes call 2; the step `first` comes first.
    fn numbered(first: usize) -> ScriptedRun {
        let (one, other) = if first == 1 { (1, 2) } else { (2, 1) };
        let scripted = history().kills(1_000, 1_500).stepped(one, 900).asked_as(
            1,
            900,
            Class::Durable,
            "read",
            "{}",
        );
        scripted.stepped(other, 900).asked_as(2, 900, Class::Durable, "read", "{}")
    }

    #[test]
    fn a_call_is_identified_by_its_step_and_not_by_its_number() {
        let scripted = numbered(1).answered(1, 2_000, "5").answered(2, 2_000, "6");
        scripted
            .clone()
            .control(numbered(2).answered(2, 2_000, "5").answered(1, 2_000, "6"))
            .holds("stale_generation_inert");
        assert_eq!(
            scripted
                .control(numbered(2).answered(1, 2_000, "5").answered(2, 2_000, "6"))
                .violations("stale_generation_inert")
                .len(),
            2
        );
    }

    #[test]
    fn a_call_may_be_answered_differently_after_the_runs_diverged() {
        let scripted = |asked: u64, then: u64, result: &'static str| {
            let scripted = history()
                .kills(1_000, 1_500)
                .asked_as(7, asked, Class::Durable, "write", "{}")
                .answered(7, 3_000, "done");
            scripted.asked_as(8, 900, Class::Durable, "read", "{}").answered(8, then, result)
        };
        scripted(2_000, 2_500, "5")
            .control(scripted(2_100, 2_500, "6"))
            .holds("stale_generation_inert");
        assert_eq!(
            scripted(2_000, 1_900, "5")
                .control(scripted(2_100, 1_900, "6"))
                .violations("stale_generation_inert")
                .len(),
            1
        );
    }

    #[test]
    fn a_request_in_flight_may_have_taken_effect_in_one_run_only() {
        let scripted = |class, result| {
            let scripted = history()
                .kills(1_000, 1_500)
                .asked_as(7, 900, class, "remove", "{}")
                .failed(7, 2_000, "lost");
            scripted.asked_as(8, 950, Class::Durable, "read", "{}").answered(8, 2_500, result)
        };
        scripted(Class::InFlight, "5")
            .control(scripted(Class::InFlight, "gone"))
            .holds("stale_generation_inert");
        assert_eq!(
            scripted(Class::Durable, "5")
                .control(scripted(Class::Durable, "gone"))
                .violations("stale_generation_inert")
                .len(),
            1
        );
    }

    #[test]
    fn a_request_in_flight_that_its_user_gave_up_may_have_taken_effect_in_one_run_only() {
        let scripted = |class, result| {
            let scripted = history()
                .kills(1_000, 1_500)
                .asked_as(7, 900, class, "remove", "{}")
                .answered(7, 2_000, Answer::GivenUp);
            scripted.asked_as(8, 950, Class::Durable, "read", "{}").answered(8, 2_500, result)
        };
        let violations = |class| {
            let control = scripted(class, "gone");
            scripted(class, "5").control(control).violations("stale_generation_inert").len()
        };
        assert_eq!(violations(Class::InFlight), 0);
        assert_eq!(violations(Class::Durable), 1);
    }

    #[test]
    fn a_user_that_is_ahead_of_the_other_may_be_answered_differently() {
        let saw = |scripted: ScriptedRun, stream: &str, ms| {
            scripted.user(ms, EventKind::Observed { stream: stream.into(), saw: "known".into() })
        };
        let read = |scripted: ScriptedRun, result: &'static str| {
            scripted.asked_as(7, 2_000, Class::Durable, "read", "{}").answered(7, 2_010, result)
        };
        let early = || read(saw(history().kills(1_000, 1_500), "c1", 1_900), "there is one");
        let late = |scripted: ScriptedRun| {
            saw(read(scripted.kills(1_000, 1_500), "there is none"), "c1", 2_100)
        };
        early().control(late(history())).holds("stale_generation_inert");
        late(history()).control(early()).holds("stale_generation_inert");
        let never = || read(history().kills(1_000, 1_500), "there is none");
        assert_eq!(early().control(never()).violations("stale_generation_inert").len(), 1);
        let astray = || late(saw(history(), "c2", 1_900));
        assert_eq!(early().control(astray()).violations("stale_generation_inert").len(), 1);
        let alone = |scripted: ScriptedRun| {
            scripted.asked_as(7, 2_000, Class::Durable, "read", "{}").answered(
                7,
                2_000,
                "there is none",
            )
        };
        early().control(alone(history().kills(1_000, 1_500))).holds("stale_generation_inert");
        let same = || read(saw(history().kills(1_000, 1_500), "c1", 1_900), "there is none");
        assert_eq!(early().control(same()).violations("stale_generation_inert").len(), 1);
    }

    /// At 3.02 s, a stream fails in one run and completes in the other, and a call is answered
    /// differently. `other` extends both runs, with a time for each. Returns the number of
    /// violations.
    fn differ(other: impl Fn(ScriptedRun, u64) -> ScriptedRun, here: u64, there: u64) -> usize {
        let scripted = |moment| other(cut(), moment).asked_as(7, 900, Class::Durable, "read", "{}");
        let scripted = scripted(here)
            .failed_stream("s1", 3_020, "gap")
            .answered(7, 3_020, "5")
            .control(scripted(there).completed("s1", 3_020, "total 2").answered(7, 3_020, "6"));
        scripted.violations("stale_generation_inert").len()
    }

    #[test]
    fn events_are_not_compared_after_a_step_at_a_different_time() {
        let stepped = |scripted: ScriptedRun, ms| scripted.stepped(3, ms);
        assert_eq!(differ(stepped, 2_500, 2_900), 0);
        assert_eq!(differ(stepped, 2_900, 2_500), 0);
        assert_eq!(differ(stepped, 2_500, 2_500), 2);
        assert_eq!(differ(stepped, 3_021, 3_500), 2, "it came before both");
    }

    #[test]
    fn events_are_not_compared_after_a_hold_ends_at_a_different_time() {
        let held = |scripted: ScriptedRun, ms| scripted.slows(2_000, ms);
        assert_eq!(differ(held, 2_100, 2_200), 0);
        assert_eq!(differ(held, 2_100, 2_100), 2);
        assert_eq!(differ(held, 3_021, 3_500), 2, "it came before both");
    }

    #[test]
    fn events_are_not_compared_after_the_product_waits_for_the_outside_world_in_one_run() {
        let fetched = |scripted: ScriptedRun, ms| scripted.fetched(ms, "c1", 300);
        assert_eq!(differ(fetched, 2_500, 2_900), 0);
        assert_eq!(differ(fetched, 2_900, 2_500), 0);
        assert_eq!(differ(fetched, 2_500, 2_799), 2, "it waited in both runs");
        assert_eq!(differ(fetched, 3_021, 3_500), 2, "it came before both");
        let once = |scripted: ScriptedRun, ms| match ms {
            2_500 => scripted.fetched(ms, "c1", 300),
            _ => scripted,
        };
        assert_eq!(differ(once, 2_500, 2_501), 0);
        assert_eq!(differ(once, 2_501, 2_500), 0);
        let other = |scripted: ScriptedRun, ms| match ms {
            2_500 => scripted.fetched(2_500, "c1", 300),
            _ => scripted.fetched(2_500, "c2", 300),
        };
        assert_eq!(differ(other, 2_500, 2_501), 0, "it fetched something else");
        let slower = |scripted: ScriptedRun, ms| scripted.fetched(2_500, "c1", ms - 2_200);
        assert_eq!(differ(slower, 2_500, 2_501), 0);
        let fast = |scripted: ScriptedRun, ms| scripted.fetched(ms, "c1", 5);
        assert_eq!(differ(fast, 2_500, 2_900), 2, "a packet takes as long");
    }

    #[test]
    fn events_are_not_compared_after_the_outside_world_gets_no_answer_in_one_run() {
        let unanswered = |scripted: ScriptedRun, ms| scripted.unanswered(ms, "question-1");
        assert_eq!(differ(unanswered, 2_500, 2_900), 0);
        assert_eq!(differ(unanswered, 2_500, 2_500), 2, "it got none in both runs");
        assert_eq!(differ(unanswered, 3_021, 3_500), 2, "it came before both");
    }

    #[test]
    fn nothing_is_compared_after_a_fault_at_a_different_time() {
        let scripted = |stepped, ms, total: &'static str| {
            history().opened("s1", 1, 0).stepped(0, stepped).completed("s1", ms, total)
        };
        scripted(1_000, 2_000, "1")
            .control(scripted(1_500, 2_000, "2"))
            .holds("stale_generation_inert");
        assert_eq!(
            scripted(1_000, 2_000, "1")
                .control(scripted(1_000, 2_000, "2"))
                .violations("stale_generation_inert")
                .len(),
            1
        );
        assert_eq!(
            scripted(1_000, 999, "1")
                .control(scripted(1_500, 999, "2"))
                .violations("stale_generation_inert")
                .len(),
            1
        );
    }

    /// At these times, the server learns that the first and the second connection of a window are
    /// over. The window is then reloaded, and a stream fails or completes.
    fn loaded_again(first: u64, second: u64) -> ScriptedRun {
        let scripted = history()
            .opened("s1", 1, 0)
            .conn_closed(1, 10, first, Some(1_000))
            .conn_closed(2, 1_000, second, Some(2_000));
        scripted.conn(1, 2_000, None)
    }

    #[test]
    fn a_server_may_treat_a_client_with_only_an_older_connection_as_connected() {
        let scripted = |first, second, ms| {
            loaded_again(first, second).failed_stream("s1", ms, "nobody is there")
        };
        let completed =
            |first, second, ms| loaded_again(first, second).completed("s1", ms, "total 2");
        scripted(2_500, 2_010, 3_000)
            .control(completed(6_000, 2_010, 3_000))
            .holds("stale_generation_inert");
        completed(6_000, 2_010, 3_000)
            .control(scripted(2_500, 2_010, 3_000))
            .holds("stale_generation_inert");
        let violations = |here: ScriptedRun, there: ScriptedRun| {
            assert_eq!(here.control(there).violations("stale_generation_inert").len(), 1)
        };
        // Both servers have learned of it at the same time, or neither has; or the newer connection
        // is still open, or outlives both.
        violations(scripted(2_500, 2_010, 3_000), completed(2_500, 2_010, 3_000));
        violations(scripted(2_500, 2_010, 2_499), completed(6_000, 2_010, 2_499));
        violations(scripted(1_500, 4_000, 3_000), completed(6_000, 4_000, 3_000));
        violations(scripted(1_500, 7_000, 8_000), completed(6_000, 7_000, 8_000));
        // The newer connection is over earlier in one run, because an older packet ended it.
        violations(scripted(2_500, 2_010, 3_000), completed(6_000, 2_500, 3_000));
    }

    #[test]
    fn a_server_may_have_only_an_older_connection_between_two_newer_ones() {
        let scripted = |heard, next| {
            let scripted = history()
                .opened("s1", 1, 0)
                .conn_closed(1, 10, heard, Some(1_000))
                .conn(2, 1_000, Some(50_000));
            scripted.conn(3, next, None).completed(
                "s1",
                51_000,
                if heard < 50_000 { "1" } else { "2" },
            )
        };
        scripted(1_500, 50_500).control(scripted(60_000, 50_500)).holds("stale_generation_inert");
        let overlaps = scripted(1_500, 10_000).control(scripted(60_000, 10_000));
        assert_eq!(overlaps.violations("stale_generation_inert").len(), 1);
    }

    #[test]
    fn a_server_may_still_serve_a_given_up_stream_on_an_older_connection() {
        let scripted = |heard, gave_up, ms| {
            let scripted = history()
                .opened("s1", 1, 0)
                .opened("s2", 2, 0)
                .conn_closed(1, 10, heard, Some(1_000))
                .conn(2, 1_000, None);
            scripted.gave_up(7, Some("s2"), gave_up).completed(
                "s1",
                ms,
                if heard < 2_000 { "1" } else { "2" },
            )
        };
        let differ =
            |gave_up, ms| scripted(1_500, gave_up, ms).control(scripted(6_000, gave_up, ms));
        differ(2_000, 3_000).holds("stale_generation_inert");
        assert_eq!(
            differ(2_000, 1_999).violations("stale_generation_inert").len(),
            1,
            "it was not given up yet"
        );
        assert_eq!(
            differ(1_200, 1_499).violations("stale_generation_inert").len(),
            1,
            "neither server has heard"
        );
        assert_eq!(
            differ(6_000, 7_000).violations("stale_generation_inert").len(),
            1,
            "both servers have heard"
        );
        assert_eq!(
            differ(500, 3_000).violations("stale_generation_inert").len(),
            1,
            "it was given up over the older one"
        );
    }

    #[test]
    fn a_fault_may_hold_the_message_that_gives_a_stream_up() {
        let scripted = |fault: fn(ScriptedRun) -> ScriptedRun, heard| {
            let scripted = fault(history().opened("s1", 1, 0).opened("s2", 2, 0));
            let scripted = scripted.conn_closed(1, 10, heard, Some(1_000)).conn(2, 1_000, None);
            let total = if heard < 2_000 { "1" } else { "2" };
            scripted.gave_up(7, Some("s2"), 500).completed("s1", 3_000, total)
        };
        let broken = |fault: fn(ScriptedRun) -> ScriptedRun| {
            let control = scripted(fault, 6_000);
            scripted(fault, 1_500).control(control).violations("stale_generation_inert").len()
        };
        assert_eq!(broken(|run| run.partition(450, Some(1_500))), 0);
        assert_eq!(broken(|run| run.kills(450, 1_500)), 0, "it blocks packets to the server");
        assert_eq!(broken(|run| run.delayed(450, Some(1_500), 500)), 0);
        assert_eq!(broken(|run| run), 1, "nothing held the message");
        assert_eq!(broken(|run| run.partition(450, Some(999))), 1, "it ended before the loss");
        assert_eq!(broken(|run| run.partition(600, Some(1_500))), 1, "the message had arrived");
        assert_eq!(broken(|run| run.delayed(450, Some(1_500), 300)), 1, "the delay was shorter");
        assert_eq!(broken(|run| run.slows(450, 1_500)), 1, "the network held nothing");
        let other_link =
            |run: ScriptedRun| run.by("client2").partition(450, Some(1_500)).by("client");
        assert_eq!(broken(other_link), 1, "it was on the link of another client");
    }

    #[test]
    fn a_stream_that_is_opened_again_is_compared_with_the_one_opened_again() {
        let scripted = |again: &'static str| {
            let scripted = history()
                .opened("s1", 1, 0)
                .failed_stream("s1", 1_000, "lost")
                .opened("s1", 1, 2_000);
            scripted.completed("s1", 3_000, again)
        };
        scripted("total 2").control(scripted("total 2")).holds("stale_generation_inert");
        assert_eq!(
            scripted("total 2")
                .control(scripted("total 3"))
                .violations("stale_generation_inert")
                .len(),
            1
        );
    }

    #[test]
    fn runs_with_different_executed_steps_are_not_compared() {
        let scripted =
            cut().failed_stream("s1", 3_020, "detached").stepped(0, 1_000).control(completed());
        scripted.holds("stale_generation_inert");
    }
}
