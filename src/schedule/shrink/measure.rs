//! The size of plans: a total order without infinite descending chains.

use std::time::Duration;

use serde_json::Value as Json;

use super::values::{TextValue, read};
use crate::schedule::words::FieldValue;
use crate::schedule::{Action, Learns, Plan, Step, TieOrder, Trigger, When};

/// The size of a plan. The first figure that differs decides: the amount of text to read comes
/// before the size of the values.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Measure {
    /// The number of steps.
    pub steps: usize,
    /// The number of active defects, clients, puppets and lines of their scripts, entries of the
    /// subject's own tables, and limits that are set, plus one each for a latency or order that
    /// differs from the default.
    pub stage: usize,
    /// The number of fields of faults, operations and entries.
    pub fields: usize,
    /// The complexity of times and triggers: whole seconds count less than a trigger, and a trigger
    /// less than milliseconds.
    pub when: u64,
    /// How much the durations deviate from whole seconds.
    pub roughness: u64,
    /// The sum of all durations, in milliseconds.
    pub time: u128,
    /// The sum of all numbers and text lengths.
    pub values: u128,
}

impl Measure {
    /// Computes the measure of a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut measure = Self { steps: plan.steps.len(), ..Self::default() };
        measure.stage(plan);
        measure.length(plan.horizon);
        measure.length(plan.heal);
        plan.steps.iter().for_each(|step| measure.step(step));
        measure
    }

    fn stage(&mut self, plan: &Plan) {
        let default = Plan::new("");
        let lines = |puppet: &crate::schedule::Puppet| {
            let again = puppet.again.as_ref().map_or(0, |again| again.len() + 1);
            1 + puppet.script.len() + again + usize::from(puppet.connections.is_some())
        };
        self.stage = plan.defects.len()
            + plan.clients as usize
            + plan.puppets.values().map(lines).sum::<usize>()
            + plan.limits.0.len()
            + usize::from(plan.latency != default.latency)
            + usize::from(plan.order != TieOrder::default());
        for entries in plan.setup.values().filter_map(Json::as_object) {
            self.stage += 1 + entries.len();
            entries.values().for_each(|entry| self.json(entry));
        }
    }

    fn step(&mut self, step: &Step) {
        match &step.when {
            When::At(at) => {
                self.when += 2 * roughness(*at);
                self.time += at.as_millis();
            }
            When::After(trigger) => self.when += 1 + self.trigger(trigger),
        }
        match &step.action {
            Action::Operation(operation) => operation.fields.values().for_each(|value| {
                self.fields += 1;
                self.json(value);
            }),
            Action::Fault(fault) => fault.fields().iter().for_each(|(_, value)| self.field(value)),
        }
    }

    /// Adds a trigger, and returns the complexity of everything except the milestone or point.
    fn trigger(&mut self, trigger: &Trigger) -> u64 {
        self.values += u128::from(trigger.nth);
        self.time += trigger.delay.as_millis();
        let filters = trigger.fields.len()
            + usize::from(trigger.host.is_some())
            + usize::from(trigger.conn.is_some());
        let delay = if trigger.delay.is_zero() { 0 } else { 1 + roughness(trigger.delay) };
        filters as u64 + delay + 2 * u64::from(trigger.nth > 1)
    }

    fn field(&mut self, value: &FieldValue) {
        self.fields += 1;
        match value {
            FieldValue::Duration(length) => self.length(*length),
            FieldValue::Jump(ms) => self.length(Duration::from_millis(ms.unsigned_abs())),
            FieldValue::Count(n) => self.values += u128::from(*n),
            FieldValue::Trigger(trigger) => self.when += self.trigger(trigger),
            FieldValue::Learns(ends) => {
                self.fields += ends.len();
                for learns in ends.values() {
                    if let Learns::After(length) = learns {
                        self.length(*length);
                    }
                }
            }
            FieldValue::Host(_)
            | FieldValue::Hosts(..)
            | FieldValue::Conn(_)
            | FieldValue::Size(_)
            | FieldValue::Name(..) => {}
        }
    }

    fn length(&mut self, length: Duration) {
        self.roughness += roughness(length);
        self.time += length.as_millis();
    }

    fn json(&mut self, value: &Json) {
        match value {
            Json::Object(fields) => {
                self.fields += fields.len();
                fields.values().for_each(|value| self.json(value));
            }
            Json::Array(items) => {
                self.fields += items.len();
                items.iter().for_each(|item| self.json(item));
            }
            Json::Number(number) => {
                self.values += number.as_i64().map_or(0, |n| u128::from(n.unsigned_abs()))
            }
            Json::String(text) => match read(text) {
                TextValue::Duration(length) => self.length(length),
                TextValue::Size(bytes) => self.values += u128::from(bytes),
                TextValue::Other => self.values += text.chars().count() as u128,
            },
            Json::Bool(_) | Json::Null => {}
        }
    }
}

/// The precision of a duration: 0 for whole seconds, 1 for tenths, 2 for hundredths, 3 for
/// milliseconds.
fn roughness(length: Duration) -> u64 {
    let ms = length.as_millis();
    [1000, 100, 10].iter().position(|grid| ms.is_multiple_of(*grid)).map_or(3, |at| at as u64)
}
