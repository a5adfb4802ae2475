//! The calls and views of a run and of its control run, matched.

use std::collections::{BTreeMap, VecDeque};

use crate::history::{Call, Class, Stream};
use crate::property::facts::{CallEnding, CallFacts, Facts};
use crate::property::view::View;

/// The calls and views of a run, each with the same one of the control run.
pub(super) struct Pairs<'p> {
    pub(super) calls: Vec<(&'p CallFacts<'p>, &'p CallFacts<'p>)>,
    pub(super) views: Vec<(&'p View<'p>, &'p View<'p>)>,
}

impl<'p> Pairs<'p> {
    pub(super) fn of(facts: &'p Facts<'p>, control: &'p Facts<'p>) -> Self {
        let mut others: BTreeMap<_, VecDeque<_>> = BTreeMap::new();
        control
            .views
            .iter()
            .for_each(|view| others.entry(key(control, view)).or_default().push_back(view));
        let calls = facts.calls.iter().filter_map(|call| Some((call, same_call(control, call)?)));
        // A stream that its user opened again has a second view. Match the views in the order of
        // opening.
        let views = facts.views.iter().filter_map(|view| {
            Some((view, others.get_mut(&key(facts, view)).and_then(VecDeque::pop_front)?))
        });
        Self { calls: calls.collect(), views: views.collect() }
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

/// Returns whether a call ended differently in two runs.
pub(super) fn differs(call: &CallFacts<'_>, control: &CallFacts<'_>) -> bool {
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
