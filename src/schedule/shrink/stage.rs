//! A plainer stage: fewer hosts, puppets, entries, limits, and nothing that is not the default.

use std::collections::BTreeMap;

use super::{Edit, Seen};
use crate::schedule::words::Value;
use crate::schedule::{Action, Fault, Host, Limits, Order, Plan, PuppetStep, Step, Trigger, When};

/// All that can be left out besides steps.
pub fn plainer(plan: &Plan, _: &Seen) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    let fewer = [1, plan.clients / 2, plan.clients.saturating_sub(1)];
    edits.extend(fewer.into_iter().filter(|count| (1..plan.clients).contains(count)).map(with_clients));
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
    edits.push(Box::new(|plan| plan.order = Order::default()));
    edits
}

/// Only the first clients, and what does not name the others.
fn with_clients(count: u32) -> Edit {
    Box::new(move |plan| {
        let gone: Vec<Host> = (count + 1..=plan.clients).map(Host::client).collect();
        plan.clients = count;
        plan.puppets.retain(|host, _| !gone.contains(host));
        plan.steps.retain(|step| !hosts_of(step).iter().any(|host| gone.contains(host)));
    })
}

/// The hosts that a step names.
fn hosts_of(step: &Step) -> Vec<Host> {
    let mut hosts = match &step.when {
        When::At(_) => Vec::new(),
        When::After(trigger) => hosts_of_trigger(trigger),
    };
    match &step.action {
        Action::Operation(operation) => hosts.push(operation.client.clone()),
        Action::Fault(fault) => hosts.extend(hosts_of_fault(fault)),
    }
    hosts
}

fn hosts_of_trigger(trigger: &Trigger) -> Vec<Host> {
    trigger.host.iter().cloned().chain(trigger.conn.iter().map(|conn| conn.host.clone())).collect()
}

fn hosts_of_fault(fault: &Fault) -> Vec<Host> {
    let of = |(_, value): (&str, Value)| match value {
        Value::Host(host) => vec![host],
        Value::Hosts(one, other) => vec![one, other],
        Value::Conn(conn) => vec![conn.host],
        Value::Learns(ends) => ends.into_keys().collect(),
        Value::Trigger(trigger) => hosts_of_trigger(&trigger),
        Value::Duration(_) | Value::Jump(_) | Value::Size(_) | Value::Count(_) | Value::Orphans(_) => Vec::new(),
    };
    fault.fields().into_iter().flat_map(of).collect()
}

/// No puppet, then shorter scripts.
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
        (0..puppet.script.len()).for_each(|line| of(|script, line| drop(script.remove(line)), line));
        let key = host.clone();
        edits.push(Box::new(move |plan| {
            if let Some(puppet) = plan.puppets.get_mut(&key) {
                (puppet.again, puppet.connections) = (None, None);
            }
        }));
    }
}

/// No table, then fewer entries of each.
fn entries(plan: &Plan, edits: &mut Vec<Edit>) {
    for (table, entries) in &plan.setup {
        let key = table.clone();
        edits.push(Box::new(move |plan| drop(plan.setup.shift_remove(&key))));
        for name in entries.as_object().into_iter().flat_map(|entries| entries.keys().cloned()) {
            let key = table.clone();
            edits.push(Box::new(move |plan| {
                if let Some(entries) = plan.setup.get_mut(&key).and_then(|entries| entries.as_object_mut()) {
                    entries.shift_remove(&name);
                }
            }));
        }
    }
}
