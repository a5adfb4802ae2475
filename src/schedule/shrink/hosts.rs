//! Fewer clients: only the first ones, or only one other client, renamed to the first.

use super::edit::Edit;
use crate::schedule::words::{FaultFields, FieldValue};
use crate::schedule::{Action, Conn, Fault, Host, Plan, Step, Trigger, When};

/// Removes clients, and everything that names them.
pub fn fewer(plan: &Plan) -> Vec<Edit> {
    let clients = plan.clients;
    let first = [1, clients / 2, clients.saturating_sub(1)]
        .into_iter()
        .filter(|count| (1..clients).contains(count));
    let first =
        first.map(|count| Box::new(move |plan: &mut Plan| only(plan, |n| n <= count)) as Edit);
    let other = (2..=clients)
        .map(|other| Box::new(move |plan: &mut Plan| in_the_first_place(plan, other)) as Edit);
    first.chain(other).collect()
}

/// Keeps only the clients whose numbers match.
fn only(plan: &mut Plan, stays: impl Fn(u32) -> bool) {
    let gone: Vec<Host> = (1..=plan.clients).filter(|n| !stays(*n)).map(Host::client).collect();
    plan.clients -= gone.len() as u32;
    plan.puppets.retain(|host, _| !gone.contains(host));
    plan.steps.retain(|step| !hosts_of(step).iter().any(|host| gone.contains(host)));
}

/// Keeps only this client, under the name of the first.
fn in_the_first_place(plan: &mut Plan, other: u32) {
    only(plan, |n| n == other);
    let renamed =
        |host: &Host| if *host == Host::client(other) { Host::client(1) } else { host.clone() };
    plan.puppets = std::mem::take(&mut plan.puppets)
        .into_iter()
        .map(|(host, puppet)| (renamed(&host), puppet))
        .collect();
    plan.steps.iter_mut().for_each(|step| rename(step, &renamed));
}

/// The hosts that a step names.
fn hosts_of(step: &Step) -> Vec<Host> {
    let named = std::cell::RefCell::new(Vec::new());
    rename(&mut step.clone(), &|host| {
        named.borrow_mut().push(host.clone());
        host.clone()
    });
    named.into_inner()
}

/// Renames every host in a step.
fn rename(step: &mut Step, name: &dyn Fn(&Host) -> Host) {
    if let When::After(trigger) = &mut step.when {
        *trigger = of_trigger(trigger, name);
    }
    match &mut step.action {
        Action::Operation(operation) => operation.client = name(&operation.client),
        Action::Fault(fault) => *fault = of_fault(fault, name),
    }
}

fn of_fault(fault: &Fault, name: &dyn Fn(&Host) -> Host) -> Fault {
    let fields = fault.fields().into_iter().map(|(field, value)| (field, of_value(value, name)));
    fault
        .word()
        .build(&FaultFields(fields.collect()))
        .expect("other names make the same kinds of fields")
}

fn of_value(value: FieldValue, name: &dyn Fn(&Host) -> Host) -> FieldValue {
    match value {
        FieldValue::Host(host) => FieldValue::Host(name(&host)),
        FieldValue::Hosts(one, other) => FieldValue::Hosts(name(&one), name(&other)),
        FieldValue::Conn(conn) => FieldValue::Conn(of_conn(&conn, name)),
        FieldValue::Learns(ends) => FieldValue::Learns(
            ends.into_iter().map(|(host, learns)| (name(&host), learns)).collect(),
        ),
        FieldValue::Trigger(trigger) => FieldValue::Trigger(of_trigger(&trigger, name)),
        FieldValue::Duration(_)
        | FieldValue::Jump(_)
        | FieldValue::Size(_)
        | FieldValue::Count(_)
        | FieldValue::Name(..) => value,
    }
}

fn of_trigger(trigger: &Trigger, name: &dyn Fn(&Host) -> Host) -> Trigger {
    let (host, conn) =
        (trigger.host.as_ref().map(name), trigger.conn.as_ref().map(|conn| of_conn(conn, name)));
    Trigger { host, conn, ..trigger.clone() }
}

fn of_conn(conn: &Conn, name: &dyn Fn(&Host) -> Host) -> Conn {
    Conn { host: name(&conn.host), ..conn.clone() }
}
