//! `stale_generation_inert`: once a generation is installed, nothing is delivered, ended or paused by a packet of an older one.
//!
//! The twin run shows it: the same plan, in which such packets are dropped instead of delivered. Users must see the same items,
//! endings and outcomes of calls, times apart. Where times alone may make the difference, nothing is compared:
//! - if either run is grey, or other steps of the schedule were carried out;
//! - what failed in one run, where the faults left so little time that it was luck to fail or not;
//! - what is still open in one run, and ended so late in the other that it may yet have ended: then only the items that both saw
//!   must agree. A stream that its user gives up is open until then;
//! - what a call was answered that may fail with its connection, and why it failed: only whether it did;
//! - what users saw after they *parted*: after a call in flight failed or was abandoned, because its request may have been a packet
//!   that is dropped in one of the runs, and takes effect in the other; after a call was asked for at different moments, because it
//!   waits for something that came earlier in one of them; or after a call was answered differently because one user was ahead of the other when
//!   it was asked: it had seen of a stream what the other had, and more, and the other saw something of it later; or after
//!   their servers began to know different things of a client, because they hear at different times that an older connection of it is
//!   over (`lingering`). From then on the two runs may differ in what is asked for, and others may see it, too;
//! - what users saw after a step was carried out, or a hold of a task ended, at different moments: it waits for a milestone that such
//!   a packet brings about. From then on the two runs have different faults;
//! - what came of a call that its user gave up in one run: in the other the answer may have come a moment before.

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

// A part of these sentences: how a stream did not end.
kinds! {
    OPEN = "open": "did not end";
}

/// The views and calls that came out differently.
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
    let parted = parted((facts, &control), &calls);
    for view in &facts.views {
        // A stream that its user opened again is another view: the first one stands for the first one.
        if let Some(other) = others.get_mut(&key(facts, view)).and_then(VecDeque::pop_front) {
            compare_views((facts, view), (&control, other), parted, broken);
        }
    }
    for (call, other) in calls {
        compare_calls((facts, call), (&control, other), parted, broken);
    }
}

/// The call of another run that the same step asked for.
fn same_call<'t, 'a>(control: &'t Facts<'a>, call: &CallFacts<'_>) -> Option<&'t CallFacts<'a>> {
    match call.step {
        Some(_) => control.calls.iter().find(|other| other.step == call.step),
        None => control.call(call.call),
    }
}

/// What a view is known by in both runs: its stream, its host, and the step that opened it.
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

/// When the users of both runs, or their faults, parted.
fn parted(
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
        .chain(faults_parted(facts, control))
        .chain(lingering::since(facts, control))
        .min()
        .unwrap_or(NEVER)
}

/// The moments from which on the runs have different faults: a step was carried out, or a hold ended, in one, and later in the other.
fn faults_parted<'f>(
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

/// When each step was carried out.
fn first_carried_out(facts: &Facts<'_>) -> BTreeMap<usize, Time> {
    let mut first = BTreeMap::new();
    for event in &facts.cx.history.events {
        if let EventKind::Stepped { step, .. } = event.what {
            first.entry(step).or_insert(event.at);
        }
    }
    first
}

/// When each hold of a task ended, by the number of the fault.
fn hold_ends(facts: &Facts<'_>) -> BTreeMap<usize, Time> {
    let holds = facts.faults.iter().filter(|fault| matches!(fault.what, Fault::Hold { .. }));
    holds.map(|fault| (fault.number, fault.ended)).collect()
}

/// Since when its user does not know whether a call in flight took effect.
fn unsure_since(call: &CallFacts<'_>) -> Option<Time> {
    let failed = call
        .endings
        .first()
        .filter(|(.., how)| matches!(how, CallEnding::Failed(_)))
        .map(|(_, at, _)| *at);
    let abandoned = if call.endings.is_empty() {
        call.gave_up.into_iter().chain(call.orphaned).min()
    } else {
        None
    };
    // Others can see it in the next moment at the earliest.
    failed
        .or(abandoned)
        .filter(|_| call.class == Class::InFlight)
        .map(|at| at + Duration::from_millis(1))
}

/// Whether users were only ahead of each other when they asked for the same: what one had seen of a stream begins with what the
/// other had, for every stream. Of at least one stream, one had seen more; of each such stream, the other saw something later, or its
/// client answered by itself.
fn is_ahead(
    (facts, call): (&Facts<'_>, &CallFacts<'_>),
    (others, control): (&Facts<'_>, &CallFacts<'_>),
) -> bool {
    let (here, there) = (Sight::at(facts, call), Sight::at(others, control));
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

/// What a user had seen when it asked for something: of each stream, what it saw besides items, in order. Items need no look:
/// `gap_free` has them in order.
struct Sight<'a> {
    before: BTreeMap<&'a Stream, Vec<Seen<'a>>>,
    /// The streams of which it saw something later.
    later: BTreeSet<&'a Stream>,
    /// Whether its client answered by itself, in the moment of the asking, and so from nothing but what it had seen.
    answers_alone: bool,
}

/// One thing that a user saw of a stream.
#[derive(PartialEq)]
enum Seen<'a> {
    Opened,
    Ended(&'a Ending),
    Saw(&'a Data),
}

impl<'a> Sight<'a> {
    fn of(&self, stream: &Stream) -> &[Seen<'a>] {
        self.before.get(stream).map_or(&[], Vec::as_slice)
    }

    fn at(facts: &Facts<'a>, call: &CallFacts<'_>) -> Self {
        let mut sight = Self {
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
                EventKind::Saw { stream, saw } => (stream, Seen::Saw(saw)),
                _ => continue,
            };
            if index < call.index {
                sight.before.entry(stream).or_default().push(seen);
            } else {
                sight.later.insert(stream);
            }
        }
        sight
    }
}

/// The steps that were carried out, and what came of them.
fn steps<'a>(facts: &Facts<'a>) -> Vec<(usize, Option<&'a str>)> {
    let stepped = facts.cx.history.events.iter().filter_map(|event| match &event.what {
        EventKind::Stepped { step, note } => Some((*step, note.as_deref())),
        _ => None,
    });
    let mut steps: Vec<_> = stepped.collect();
    steps.sort_unstable();
    steps
}

/// Whether the failure at this entry was luck.
fn is_luck(facts: &Facts<'_>, index: Option<usize>) -> bool {
    index.is_some_and(|index| {
        failures(facts).any(|failure| failure.index == index && failure.is_chance(facts))
    })
}

fn compare_views(
    (facts, view): (&Facts<'_>, &View<'_>),
    (others, control): (&Facts<'_>, &View<'_>),
    parted: Time,
    broken: &mut Findings,
) {
    if let Some((item, at)) = first_difference(&view.delivered, &control.delivered) {
        if at >= parted {
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
    let is_luck = || is_luck(facts, entry(view)) || is_luck(others, entry(control));
    let differs = differs && [&here, &there].into_iter().flatten().all(|(at, _)| *at < parted);
    if differs && !view.is_abandoned(facts.judged_until()) && !is_luck() {
        let at = here.as_ref().or(there.as_ref()).map_or(Time::ZERO, |(at, _)| *at);
        let generation =
            view.generation_before(view.ending().map_or(usize::MAX, |(index, ..)| index));
        let data = fields! { here: report(here.map(|(_, ending)| ending)), there: report(there.map(|(_, ending)| ending)) };
        broken.push(view.stream, at, &OTHER_ENDING, data.with("generation", generation));
    }
}

/// The first delivery at which two runs differ, as far as both go; deliveries may have other borders.
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

/// Whether a call came back differently in two runs.
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
    parted: Time,
    broken: &mut Findings,
) {
    let (Some((index, at, here)), Some((other, then, there))) =
        (call.endings.first(), control.endings.first())
    else {
        return;
    };
    let given_up =
        [here, there].iter().any(|how| matches!(how, CallEnding::Answered(Answer::GivenUp)));
    if *at.max(then) >= parted || given_up {
        return;
    }
    let is_luck = || {
        call.class == Class::Durable
            && (is_luck(facts, Some(*index)) || is_luck(others, Some(*other)))
    };
    if differs(call, control) && call.gave_up.is_none() && !is_luck() {
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
    fn without_a_twin_nothing_is_known() {
        completed().holds("stale_generation_inert");
    }

    #[test]
    fn another_ending_is_told() {
        assert_eq!(
            cut()
                .broke("s1", 3_020, "detached")
                .control(completed())
                .breaks("stale_generation_inert"),
            [
                "s1: it failed (detached), but in the control run, which drops packets of older generations, it completed (total 2) (generation 2, at 3.020 s)"
            ]
        );
    }

    #[test]
    fn an_ending_that_never_came_is_told_if_there_was_time_for_it() {
        assert_eq!(
            cut().end(600_000).control(completed()).breaks("stale_generation_inert"),
            [
                "s1: it did not end, but in the control run, which drops packets of older generations, it completed (total 2) (generation 2, at 3.020 s)"
            ]
        );
        cut().horizon(4_000).control(completed().horizon(4_000)).holds("stale_generation_inert");
    }

    #[test]
    fn to_fail_where_there_was_hardly_a_chance_is_luck() {
        let scripted = || {
            history()
                .opened("s1", 1, 0)
                .produced("s1", 500, "a")
                .delivered("s1", 520, "a")
                .ended("s1", 600, "total 1")
        };
        let scripted = || scripted().kills(700, 20_000).kills(20_500, 45_000);
        let lucky = || scripted().completed("s1", 20_400, "total 1");
        lucky().control(scripted().broke("s1", 30_000, "deadline")).holds("stale_generation_inert");
        scripted().broke("s1", 30_000, "deadline").control(lucky()).holds("stale_generation_inert");
    }

    #[test]
    fn another_item_is_told() {
        let scripted = history()
            .opened("s1", 1, 0)
            .delivered("s1", 520, "a")
            .delivered_in(2, "s1", 2_020, "x");
        assert_eq!(
            scripted.control(cut()).breaks("stale_generation_inert"),
            [
                "s1: delivery 2 differs in the control run, which drops packets of older generations (generation 2, at 2.020 s)"
            ]
        );
    }

    #[test]
    fn what_streams_say_after_a_call_that_was_asked_for_at_another_moment_is_another_thing() {
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
                .breaks("stale_generation_inert")
                .len(),
            1
        );
    }

    #[test]
    fn fewer_items_of_an_open_stream_and_other_borders_are_times() {
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
        assert_eq!(late.breaks("stale_generation_inert").len(), 1, "it would have ended before");
        here().control(scripted().died("client", 3_000)).holds("stale_generation_inert");
    }

    #[test]
    fn the_outcome_of_a_call_is_compared() {
        let scripted = |class| history().kills(1_000, 1_500).asked_as(7, 900, class, "add", "{}");
        let differ = |class| {
            scripted(class).answered(7, 2_000, "5").control(scripted(class).answered(7, 2_000, "6"))
        };
        assert_eq!(
            differ(Class::Durable).breaks("stale_generation_inert"),
            [
                "call 7 (add): it was answered (5), but in the control run, which drops packets of older generations, it was answered (6) (at 2.000 s)"
            ]
        );
        differ(Class::InFlight).holds("stale_generation_inert");
        let scripted = scripted(Class::InFlight)
            .answered(7, 2_000, "5")
            .control(scripted(Class::InFlight).failed(7, 2_000, "lost"));
        assert_eq!(scripted.breaks("stale_generation_inert").len(), 1);
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
    fn a_call_that_was_asked_for_at_another_moment_asks_for_another_thing() {
        let scripted =
            |asked| history().kills(1_000, 1_500).asked_as(7, asked, Class::Durable, "read", "{}");
        let differ = |asked| {
            scripted(900).answered(7, 2_000, "5").control(scripted(asked).answered(7, 2_000, "6"))
        };
        assert_eq!(differ(900).breaks("stale_generation_inert").len(), 1);
        differ(1_900).holds("stale_generation_inert");
    }

    /// Call 1 is asked for by step 1, and call 2 by step 2, in this order or in the other.
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
    fn a_call_is_known_by_its_step_whatever_its_number_is() {
        let scripted = numbered(1).answered(1, 2_000, "5").answered(2, 2_000, "6");
        scripted
            .clone()
            .control(numbered(2).answered(2, 2_000, "5").answered(1, 2_000, "6"))
            .holds("stale_generation_inert");
        assert_eq!(
            scripted
                .control(numbered(2).answered(1, 2_000, "5").answered(2, 2_000, "6"))
                .breaks("stale_generation_inert")
                .len(),
            2
        );
    }

    #[test]
    fn a_call_may_be_answered_differently_after_the_users_parted() {
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
                .breaks("stale_generation_inert")
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
                .breaks("stale_generation_inert")
                .len(),
            1
        );
    }

    #[test]
    fn a_user_that_is_ahead_of_the_other_may_be_answered_differently() {
        let saw = |scripted: ScriptedRun, stream: &str, ms| {
            scripted.user(ms, EventKind::Saw { stream: stream.into(), saw: "known".into() })
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
        assert_eq!(early().control(never()).breaks("stale_generation_inert").len(), 1);
        let astray = || late(saw(history(), "c2", 1_900));
        assert_eq!(early().control(astray()).breaks("stale_generation_inert").len(), 1);
        let alone = |scripted: ScriptedRun| {
            scripted.asked_as(7, 2_000, Class::Durable, "read", "{}").answered(
                7,
                2_000,
                "there is none",
            )
        };
        early().control(alone(history().kills(1_000, 1_500))).holds("stale_generation_inert");
        let same = || read(saw(history().kills(1_000, 1_500), "c1", 1_900), "there is none");
        assert_eq!(early().control(same()).breaks("stale_generation_inert").len(), 1);
    }

    /// A stream fails in one run and completes in the other, at 3.02 s, and so does a call. `other` is told to both, with a moment.
    fn differ(other: impl Fn(ScriptedRun, u64) -> ScriptedRun, here: u64, there: u64) -> usize {
        let scripted = |moment| other(cut(), moment).asked_as(7, 900, Class::Durable, "read", "{}");
        let scripted = scripted(here)
            .broke("s1", 3_020, "gap")
            .answered(7, 3_020, "5")
            .control(scripted(there).completed("s1", 3_020, "total 2").answered(7, 3_020, "6"));
        scripted.breaks("stale_generation_inert").len()
    }

    #[test]
    fn what_comes_after_a_step_that_was_carried_out_at_another_moment_is_another_thing() {
        let stepped = |scripted: ScriptedRun, ms| scripted.stepped(3, ms);
        assert_eq!(differ(stepped, 2_500, 2_900), 0);
        assert_eq!(differ(stepped, 2_900, 2_500), 0);
        assert_eq!(differ(stepped, 2_500, 2_500), 2);
        assert_eq!(differ(stepped, 3_021, 3_500), 2, "it came before both");
    }

    #[test]
    fn what_comes_after_the_end_of_a_hold_at_another_moment_is_another_thing() {
        let held = |scripted: ScriptedRun, ms| scripted.slows(2_000, ms);
        assert_eq!(differ(held, 2_100, 2_200), 0);
        assert_eq!(differ(held, 2_100, 2_100), 2);
        assert_eq!(differ(held, 3_021, 3_500), 2, "it came before both");
    }

    #[test]
    fn a_fault_that_came_at_another_moment_makes_another_run() {
        let scripted = |stepped, ms, total: &'static str| {
            history().opened("s1", 1, 0).stepped(0, stepped).completed("s1", ms, total)
        };
        scripted(1_000, 2_000, "1")
            .control(scripted(1_500, 2_000, "2"))
            .holds("stale_generation_inert");
        assert_eq!(
            scripted(1_000, 2_000, "1")
                .control(scripted(1_000, 2_000, "2"))
                .breaks("stale_generation_inert")
                .len(),
            1
        );
        assert_eq!(
            scripted(1_000, 999, "1")
                .control(scripted(1_500, 999, "2"))
                .breaks("stale_generation_inert")
                .len(),
            1
        );
    }

    /// The server hears at these times that the first and the second connection of a window are over; the window is loaded again
    /// then, and a stream fails or does not.
    fn loaded_again(first: u64, second: u64) -> ScriptedRun {
        let scripted = history()
            .opened("s1", 1, 0)
            .conn_closed(1, 10, first, Some(1_000))
            .conn_closed(2, 1_000, second, Some(2_000));
        scripted.conn(1, 2_000, None)
    }

    #[test]
    fn a_server_may_take_a_client_for_connected_that_has_only_an_older_connection() {
        let scripted =
            |first, second, ms| loaded_again(first, second).broke("s1", ms, "nobody is there");
        let completed =
            |first, second, ms| loaded_again(first, second).completed("s1", ms, "total 2");
        scripted(2_500, 2_010, 3_000)
            .control(completed(6_000, 2_010, 3_000))
            .holds("stale_generation_inert");
        completed(6_000, 2_010, 3_000)
            .control(scripted(2_500, 2_010, 3_000))
            .holds("stale_generation_inert");
        let breaks = |here: ScriptedRun, there: ScriptedRun| {
            assert_eq!(here.control(there).breaks("stale_generation_inert").len(), 1)
        };
        // Both have heard of it at the same time, or not yet; or the newer one is still there, or outlives both.
        breaks(scripted(2_500, 2_010, 3_000), completed(2_500, 2_010, 3_000));
        breaks(scripted(2_500, 2_010, 2_499), completed(6_000, 2_010, 2_499));
        breaks(scripted(1_500, 4_000, 3_000), completed(6_000, 4_000, 3_000));
        breaks(scripted(1_500, 7_000, 8_000), completed(6_000, 7_000, 8_000));
        // The newer one is over in one run only, as an older packet ended it.
        breaks(scripted(2_500, 2_010, 3_000), completed(6_000, 2_500, 3_000));
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
        assert_eq!(overlaps.breaks("stale_generation_inert").len(), 1);
    }

    #[test]
    fn a_server_may_take_an_older_connection_for_one_that_wants_what_was_given_up() {
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
            differ(2_000, 1_999).breaks("stale_generation_inert").len(),
            1,
            "it was not given up yet"
        );
        assert_eq!(
            differ(1_200, 1_499).breaks("stale_generation_inert").len(),
            1,
            "neither server has heard"
        );
        assert_eq!(
            differ(6_000, 7_000).breaks("stale_generation_inert").len(),
            1,
            "both servers have heard"
        );
        assert_eq!(
            differ(500, 3_000).breaks("stale_generation_inert").len(),
            1,
            "it was given up over the older one"
        );
    }

    #[test]
    fn a_stream_that_is_opened_again_is_compared_with_the_one_opened_again() {
        let scripted = |again: &'static str| {
            let scripted =
                history().opened("s1", 1, 0).broke("s1", 1_000, "lost").opened("s1", 1, 2_000);
            scripted.completed("s1", 3_000, again)
        };
        scripted("total 2").control(scripted("total 2")).holds("stale_generation_inert");
        assert_eq!(
            scripted("total 2").control(scripted("total 3")).breaks("stale_generation_inert").len(),
            1
        );
    }

    #[test]
    fn runs_in_which_other_steps_were_carried_out_cannot_be_compared() {
        let scripted = cut().broke("s1", 3_020, "detached").stepped(0, 1_000).control(completed());
        scripted.holds("stale_generation_inert");
    }
}
