//! Steps of a schedule that do nothing in any of its runs. The file seems to test something with
//! such a step, but does not. For example, its trigger was renamed, or its connection has another
//! number now.

use std::collections::BTreeMap;

use crate::history::{ConnIndex, EventKind, History};
use crate::property::violation::{fields, kinds};
use crate::property::{About, Phrase, Violation, ViolationFields, ViolationValue};
use crate::scenario::file::{Body, ScenarioFile};
use crate::schedule::{Action, Step, When, words};

use super::over_all;

kinds! {
    IDLE = "idle": "{subject}, `{verb}`, had no effect: {why}; add `may-miss = true` if that is intended";
    IDLE_IN_ALL = "idle-in-all": "{subject}, `{verb}`, had no effect in any of {runs} runs: {why}; add `may-miss = true` if that is intended";
}

// Parts of these sentences: the reason why a step did nothing.
kinds! {
    NOT_REACHED = "not-reached": "its trigger was not reached";
    TOO_SOON = "too-soon": "the run ended before its time";
    NEVER_CAME = "never-came": "{conn} never came";
}

/// The steps of a schedule that did nothing in its runs so far. It keeps no history.
#[derive(Clone, Debug)]
pub struct Idle<'s> {
    runs: u64,
    /// The required steps that have not done anything yet, by index, with the reason from the last
    /// run.
    steps: BTreeMap<usize, (&'s Step, Option<ViolationValue>)>,
    lines: &'s [usize],
}

impl<'s> Idle<'s> {
    /// Starts with all required steps. A swarm has no fixed steps.
    pub fn new(scenario: &'s ScenarioFile) -> Self {
        let steps = match &scenario.body {
            Body::Schedule(plan) => plan.steps.as_slice(),
            Body::Swarm(_) => &[],
        };
        let must = steps.iter().enumerate().filter(|(n, _)| !scenario.expect.may_miss.contains(n));
        Self {
            runs: 0,
            steps: must.map(|(n, step)| (n, (step, None))).collect(),
            lines: &scenario.step_lines,
        }
    }

    /// Adds a run.
    pub fn add(&mut self, history: &History) {
        self.runs += 1;
        let stepped = history.events.iter().filter_map(|event| match &event.what {
            EventKind::Stepped { step, note } => Some((*step, note)),
            _ => None,
        });
        // A step without effect has two entries: one for its execution, and then one with the
        // reason. The last one counts.
        let last: BTreeMap<_, _> = stepped.collect();
        for (number, note) in last {
            let Some((step, noted)) = self.steps.get_mut(&number) else { continue };
            match note.as_ref().map(ViolationValue::from).or_else(|| aims_at_nothing(step, history))
            {
                None => drop(self.steps.remove(&number)),
                why => *noted = why,
            }
        }
    }

    /// Returns a violation for each step that did nothing.
    pub fn unmet(&self) -> Vec<Violation> {
        let kind = if self.runs == 1 { &IDLE } else { &IDLE_IN_ALL };
        let unmet = |(n, (step, why)): (&usize, &(&Step, Option<ViolationValue>))| {
            let why = why.clone().unwrap_or_else(|| match step.when {
                When::After(_) => Phrase::new(&NOT_REACHED, ViolationFields::default()).into(),
                When::At(_) => Phrase::new(&TOO_SOON, ViolationFields::default()).into(),
            });
            let subject = About::Step(*n, self.lines.get(*n).copied());
            over_all(subject, kind, fields! { verb: verb(step), why, runs: self.runs })
        };
        self.steps.iter().map(unmet).collect()
    }
}

/// Returns a reason if the fault's connection was never opened. A fault with a duration waits for
/// its connection, so no note is recorded.
fn aims_at_nothing(step: &Step, history: &History) -> Option<ViolationValue> {
    let Action::Fault(fault) = &step.action else { return None };
    let conn = fault.fields().into_iter().find_map(|(_, value)| match value {
        words::FieldValue::Conn(conn) => Some(conn),
        _ => None,
    })?;
    let came = (0..history.conns.len()).any(|found| history.is_named(ConnIndex(found), &conn));
    (!came).then(|| Phrase::new(&NEVER_CAME, fields! { conn: conn.to_string() }).into())
}

fn verb(step: &Step) -> &str {
    match &step.action {
        Action::Operation(operation) => &operation.verb,
        Action::Fault(fault) => fault.word().name,
    }
}
