//! Steps of a schedule that do nothing in any of its runs. Such a step shows nothing, and the file looks as if it did: its
//! trigger has another name now, or its connection another number.

use std::collections::BTreeMap;

use crate::history::{ConnIndex, EventKind, History};
use crate::property::violation::{fields, kinds};
use crate::property::{About, Phrase, Violation, ViolationFields, ViolationValue};
use crate::scenario::file::{Body, ScenarioFile};
use crate::schedule::{Action, Step, When, words};

use super::over_all;

kinds! {
    IDLE = "idle": "{subject}, `{verb}`, did nothing: {why}; a step that may do so says `may-miss = true`";
    IDLE_IN_ALL = "idle-in-all": "{subject}, `{verb}`, did nothing in any of {runs} runs: {why}; a step that may do so says `may-miss = true`";
}

// Parts of these sentences: why a step did nothing.
kinds! {
    NOT_REACHED = "not-reached": "what it waits for was not reached";
    TOO_SOON = "too-soon": "its time did not come";
    NEVER_CAME = "never-came": "{conn} never came";
}

/// Which steps of a schedule did nothing in its runs so far. It keeps no history.
#[derive(Clone, Debug)]
pub struct Idle<'s> {
    runs: u64,
    /// The steps that did nothing yet and must do something, by number, with why each did nothing, the last time.
    steps: BTreeMap<usize, (&'s Step, Option<ViolationValue>)>,
    lines: &'s [usize],
}

impl<'s> Idle<'s> {
    /// No step did anything yet. A swarm has no steps of its own.
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

    /// Adds one more run.
    pub fn add(&mut self, history: &History) {
        self.runs += 1;
        let stepped = history.events.iter().filter_map(|event| match &event.what {
            EventKind::Stepped { step, note } => Some((*step, note)),
            _ => None,
        });
        // A step that misses is carried out, and then noted.
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

    /// The steps that did nothing.
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

/// A fault that lasts waits for its connection: whether that ever came.
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
