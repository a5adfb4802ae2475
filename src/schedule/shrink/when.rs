//! Simpler times and triggers: first occurrences without a delay, round times, and a trigger
//! instead of a time that must be exact to the millisecond.

use std::time::Duration;

use super::edit::{Edit, RunObservations};
use super::plainer::lengths;
use crate::schedule::{Plan, Trigger, When};

/// Replaces the time or trigger of a step by a simpler one.
pub fn plainer(plan: &Plan, seen: &RunObservations) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (n, step) in plan.steps.iter().enumerate() {
        let others = match &step.when {
            When::At(at) => times(*at).chain(triggered(*at, seen)).collect(),
            When::After(trigger) => triggers(trigger, seen.steps.get(&n).copied()),
        };
        edits.extend(others.into_iter().map(|when| at_step(n, when)));
    }
    edits
}

fn at_step(n: usize, when: When) -> Edit {
    Box::new(move |plan| plan.steps[n].when = when.clone())
}

fn times(at: Duration) -> impl Iterator<Item = When> {
    lengths(at).into_iter().map(When::At)
}

/// Returns triggers at the last milestone before this time, without a delay or with the delay that
/// gives the same time.
fn triggered(at: Duration, seen: &RunObservations) -> Vec<When> {
    let before: Vec<_> = seen.milestones.iter().take_while(|(time, _)| *time <= at).collect();
    let Some((time, name)) = before.last() else { return Vec::new() };
    let nth = before.iter().filter(|(_, other)| other == name).count() as u64;
    let trigger = Trigger::milestone(name.as_str());
    let delay = at.saturating_sub(*time);
    let all = [
        trigger.clone(),
        trigger.clone().nth(nth),
        trigger.clone().delay(delay),
        trigger.nth(nth).delay(delay),
    ];
    all.into_iter().map(When::After).collect()
}

/// Returns simpler triggers, and times based on the time at which the step really happened.
fn triggers(trigger: &Trigger, happened: Option<Duration>) -> Vec<When> {
    let mut others = vec![Trigger {
        fields: Default::default(),
        host: None,
        conn: None,
        nth: 1,
        delay: Duration::ZERO,
        ..trigger.clone()
    }];
    others.push(trigger.clone().nth(1).delay(Duration::ZERO));
    others.push(trigger.clone().nth(1));
    others.push(trigger.clone().delay(Duration::ZERO));
    others.push(Trigger { host: None, ..trigger.clone() });
    others.push(Trigger { conn: None, ..trigger.clone() });
    for name in trigger.fields.keys() {
        let mut fields = trigger.fields.clone();
        fields.remove(name);
        others.push(Trigger { fields, ..trigger.clone() });
    }
    others.push(trigger.clone().nth((trigger.nth / 2).max(1)));
    others.push(trigger.clone().nth(trigger.nth.saturating_sub(1).max(1)));
    if !trigger.delay.is_zero() {
        others.extend(lengths(trigger.delay).into_iter().map(|delay| trigger.clone().delay(delay)));
    }
    let times = happened.into_iter().flat_map(|at| std::iter::once(When::At(at)).chain(times(at)));
    others.into_iter().map(When::After).chain(times).collect()
}
