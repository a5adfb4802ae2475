//! Simpler faults: without optional fields, and with shorter durations. Both passes use only the
//! fault table.

use std::time::Duration;

use super::edit::{Edit, RunObservations};
use super::plainer::{lengths, numbers};
use crate::schedule::words::{FaultFields, FieldValue, Need};
use crate::schedule::{Action, Fault, Learns, Plan, Trigger};

/// Removes one optional field of one fault. `lasts` is kept: a fault without it lasts for the rest
/// of the run, so its text is shorter but its effect is not smaller.
pub fn fewer_fields(plan: &Plan, _: &RunObservations) -> Vec<Edit> {
    let optional = |need| matches!(need, Need::Else(_) | Need::WithElse(..) | Need::SomeOf);
    let mut edits = Vec::new();
    for (n, fault) in faults(plan) {
        for (name, value) in fault.fields() {
            let field = fault.word().field(name).expect("a fault has the fields of its row");
            if optional(field.need) && name != "lasts" {
                let mut fields = fields(fault);
                fields.0.remove(name);
                edits.extend(rebuilt(n, fault, &fields));
            }
            for value in fewer_inside(&value) {
                edits.extend(rebuilt(n, fault, &fields(fault).with(name, value)));
            }
        }
    }
    edits
}

/// Shortens faults, healed tail and horizon, and reduces numbers in faults.
pub fn shorter(plan: &Plan, _: &RunObservations) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    for (n, fault) in faults(plan) {
        for (name, value) in fault.fields() {
            for value in smaller(&value) {
                edits.extend(rebuilt(n, fault, &fields(fault).with(name, value)));
            }
        }
    }
    for heal in std::iter::once(Duration::ZERO).chain(lengths(plan.heal)) {
        edits.push(Box::new(move |plan| plan.heal = heal));
    }
    for horizon in lengths(plan.horizon) {
        edits.push(Box::new(move |plan| plan.horizon = horizon));
    }
    edits
}

/// The faults of a plan, with the numbers of their steps.
fn faults(plan: &Plan) -> impl Iterator<Item = (usize, &Fault)> {
    plan.steps.iter().enumerate().filter_map(|(n, step)| match &step.action {
        Action::Fault(fault) => Some((n, fault)),
        Action::Operation(_) => None,
    })
}

fn fields(fault: &Fault) -> FaultFields {
    FaultFields(fault.fields().into_iter().collect())
}

/// Changes the fields of a fault; `None` if the new fields do not form a fault.
fn rebuilt(n: usize, fault: &Fault, fields: &FaultFields) -> Option<Edit> {
    let fault = fault.word().build(fields).ok()?;
    Some(Box::new(move |plan| plan.steps[n].action = Action::Fault(fault.clone())))
}

/// Simplifies a value: it removes an end of `learns`, which then learns at once, or reduces a
/// trigger to the first occurrence.
fn fewer_inside(value: &FieldValue) -> Vec<FieldValue> {
    match value {
        FieldValue::Learns(ends) => (ends.keys())
            .map(|host| {
                let mut ends = ends.clone();
                ends.remove(host);
                FieldValue::Learns(ends)
            })
            .collect(),
        FieldValue::Trigger(trigger) => {
            let plain = Trigger {
                fields: Default::default(),
                host: None,
                conn: None,
                nth: 1,
                ..trigger.clone()
            };
            vec![FieldValue::Trigger(plain), FieldValue::Trigger(trigger.clone().nth(1))]
        }
        _ => Vec::new(),
    }
}

fn smaller(value: &FieldValue) -> Vec<FieldValue> {
    match value {
        FieldValue::Duration(length) => {
            lengths(*length).into_iter().map(FieldValue::Duration).collect()
        }
        FieldValue::Count(n) => numbers(*n).into_iter().map(FieldValue::Count).collect(),
        FieldValue::Jump(ms) => {
            let signed =
                |length: Duration| FieldValue::Jump(length.as_millis() as i64 * ms.signum());
            lengths(Duration::from_millis(ms.unsigned_abs())).into_iter().map(signed).collect()
        }
        FieldValue::Learns(ends) => {
            let each = ends.iter().flat_map(|(host, learns)| {
                let times = match learns {
                    Learns::After(length) => lengths(*length),
                    Learns::Never => Vec::new(),
                };
                times.into_iter().map(move |length| (host.clone(), Learns::After(length)))
            });
            each.map(|(host, learns)| {
                FieldValue::Learns(
                    ends.iter().map(|(h, l)| (h.clone(), *l)).chain([(host, learns)]).collect(),
                )
            })
            .collect()
        }
        _ => Vec::new(),
    }
}
