//! A simpler setup: fewer hosts, puppets, entries and limits, and default values.

use std::collections::BTreeMap;

use super::edit::{Edit, RunObservations};
use super::hosts;
use crate::schedule::{Limits, Plan, PuppetStep, TieOrder};

/// Removes parts of the plan other than steps.
pub fn plainer(plan: &Plan, _: &RunObservations) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    edits.extend(hosts::fewer(plan));
    puppets(plan, &mut edits);
    entries(plan, &mut edits);
    edits.push(Box::new(|plan| plan.limits = Limits::default()));
    for name in plan.limits.0.keys().cloned() {
        edits.push(Box::new(move |plan| plan.limits.0.retain(|limit, _| *limit != name)));
    }
    for name in plan.defects.clone() {
        edits.push(Box::new(move |plan| plan.defects.retain(|defect| *defect != name)));
    }
    edits.push(Box::new(|plan| plan.latency = Plan::new("").latency));
    edits.push(Box::new(|plan| plan.order = TieOrder::default()));
    edits
}

/// Removes puppets, then lines of their scripts.
fn puppets(plan: &Plan, edits: &mut Vec<Edit>) {
    edits.push(Box::new(|plan| plan.puppets = BTreeMap::new()));
    for (host, puppet) in &plan.puppets {
        let key = host.clone();
        edits.push(Box::new(move |plan| drop(plan.puppets.remove(&key))));
        let mut of = |change: fn(&mut Vec<PuppetStep>, usize), line: usize| {
            let key = host.clone();
            edits.push(Box::new(move |plan: &mut Plan| {
                if let Some(puppet) = plan.puppets.get_mut(&key) {
                    change(&mut puppet.script, line);
                }
            }));
        };
        (0..puppet.script.len())
            .for_each(|line| of(|script, line| drop(script.remove(line)), line));
        let key = host.clone();
        edits.push(Box::new(move |plan| {
            if let Some(puppet) = plan.puppets.get_mut(&key) {
                (puppet.again, puppet.connections) = (None, None);
            }
        }));
    }
}

/// Removes tables, then single entries.
fn entries(plan: &Plan, edits: &mut Vec<Edit>) {
    for (table, entries) in &plan.setup {
        let key = table.clone();
        edits.push(Box::new(move |plan| drop(plan.setup.shift_remove(&key))));
        for name in entries.as_object().into_iter().flat_map(|entries| entries.keys().cloned()) {
            let key = table.clone();
            edits.push(Box::new(move |plan| {
                if let Some(entries) =
                    plan.setup.get_mut(&key).and_then(|entries| entries.as_object_mut())
                {
                    entries.shift_remove(&name);
                }
            }));
        }
    }
}
