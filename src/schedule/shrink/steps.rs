//! Fewer steps.

use super::edit::{Edit, RunObservations};
use crate::schedule::Plan;

/// Removes all steps, halves, quarters, …, single steps.
pub fn fewer(plan: &Plan, _: &RunObservations) -> Vec<Edit> {
    let count = plan.steps.len();
    let mut edits = Vec::new();
    let mut chunk = count;
    while chunk > 0 {
        edits.extend((0..count).step_by(chunk).map(|at| without(at, (at + chunk).min(count))));
        chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
    }
    edits
}

fn without(from: usize, to: usize) -> Edit {
    Box::new(move |plan| drop(plan.steps.drain(from..to)))
}

/// The maximum number of steps for which pairs are tried.
const FEW: usize = 8;

/// Removes each pair of steps, if there are few: a step that depends on another can often be
/// removed only together with it.
pub fn pairs(plan: &Plan, _: &RunObservations) -> Vec<Edit> {
    let count = plan.steps.len();
    if count > FEW {
        return Vec::new();
    }
    let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other)));
    pairs
        .map(|(one, other)| Box::new(move |plan: &mut Plan| take_both(plan, one, other)) as Edit)
        .collect()
}

fn take_both(plan: &mut Plan, one: usize, other: usize) {
    plan.steps.remove(other);
    plan.steps.remove(one);
}
