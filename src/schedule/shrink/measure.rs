//! What is smaller: one order over all plans, in which no plan has endlessly many below it.

use std::time::Duration;

use serde_json::Value as Json;

use super::values::{TextValue, read};
use crate::schedule::words::FieldValue;
use crate::schedule::{Action, Learns, Plan, Step, TieOrder, Trigger, When};

/// How large a plan is. The first figure that differs decides: what a person has to read comes before how large it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Measure {
    /// Steps.
    pub steps: usize,
    /// Defects that are on, clients, puppets and lines of their scripts, entries of the subject's own tables, limits that are set,
    /// and latency or order where they are not the default.
    pub stage: usize,
    /// Fields of faults, operations and entries.
    pub fields: usize,
    /// How much there is to say of when things happen: whole seconds are less than a trigger, a trigger is less than
    /// milliseconds.
    pub when: u64,
    /// How far lengths of time are from whole seconds.
    pub roughness: u64,
    /// The sum of all lengths of time, in milliseconds.
    pub time: u128,
    /// The sum of all numbers and lengths of texts.
    pub values: u128,
}

impl Measure {
    /// The measure of a plan.
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

    /// What a trigger says besides its mark.
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
            | FieldValue::Orphans(_) => {}
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

/// How far a length of time is from a whole number of seconds: 0, or 1 for tenths, 2 for hundredths, 3 for milliseconds.
fn roughness(length: Duration) -> u64 {
    let ms = length.as_millis();
    [1000, 100, 10].iter().position(|grid| ms.is_multiple_of(*grid)).map_or(3, |at| at as u64)
}
