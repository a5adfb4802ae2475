//! Steps of a schedule that do nothing in any of its runs. Such a step shows nothing, and the file looks as if it did: its
//! trigger has another name now, or its connection another number.

use std::collections::BTreeMap;

use crate::history::{ConnIndex, History, What};
use crate::scenario::{Body, Scenario};
use crate::schedule::words::Value;
use crate::schedule::{Action, Step, When};

/// Which steps of a schedule did nothing in its runs so far. It keeps no history.
#[derive(Clone, Debug)]
pub struct Idle<'s> {
    runs: u64,
    /// The steps that did nothing yet and must do something, by number, with why each did nothing, the last time.
    steps: BTreeMap<usize, (&'s Step, Option<String>)>,
    lines: &'s [usize],
}

impl<'s> Idle<'s> {
    /// No step did anything yet. A swarm has no steps of its own.
    pub fn new(scenario: &'s Scenario) -> Self {
        let steps = match &scenario.body {
            Body::Schedule(plan) => plan.steps.as_slice(),
            Body::Swarm(_) => &[],
        };
        let must = steps.iter().enumerate().filter(|(n, _)| !scenario.expect.may_miss.contains(n));
        Self { runs: 0, steps: must.map(|(n, step)| (n, (step, None))).collect(), lines: &scenario.step_lines }
    }

    /// Adds one more run.
    pub fn add(&mut self, history: &History) {
        self.runs += 1;
        let stepped = history.events.iter().filter_map(|event| match &event.what {
            What::Stepped { step, note } => Some((*step, note)),
            _ => None,
        });
        // A step that misses is carried out, and then noted.
        let last: BTreeMap<_, _> = stepped.collect();
        for (number, note) in last {
            let Some((step, noted)) = self.steps.get_mut(&number) else { continue };
            match note.clone().or_else(|| aims_at_nothing(step, history)) {
                None => drop(self.steps.remove(&number)),
                why => *noted = why,
            }
        }
    }

    /// The steps that did nothing, in sentences.
    pub fn unmet(&self) -> Vec<String> {
        let runs = if self.runs == 1 { String::new() } else { format!(" in any of {} runs", self.runs) };
        let sentence = |(n, (step, why)): (&usize, &(&Step, Option<String>))| {
            let line = self.lines.get(*n).map_or(String::new(), |line| format!(" in line {line}"));
            let why = why.as_deref().unwrap_or(match step.when {
                When::After(_) => "what it waits for was not reached",
                When::At(_) => "its time did not come",
            });
            format!(
                "step {}{line}, `{}`, did nothing{runs}: {why}; a step that may do so says `may-miss = true`",
                n + 1,
                verb(step)
            )
        };
        self.steps.iter().map(sentence).collect()
    }
}

/// A fault that lasts waits for its connection: whether that ever came.
fn aims_at_nothing(step: &Step, history: &History) -> Option<String> {
    let Action::Fault(fault) = &step.action else { return None };
    let conn = fault.fields().into_iter().find_map(|(_, value)| match value {
        Value::Conn(conn) => Some(conn),
        _ => None,
    })?;
    let came = (0..history.conns.len()).any(|found| history.is_named(ConnIndex(found), &conn));
    (!came).then(|| format!("{conn} never came"))
}

fn verb(step: &Step) -> &str {
    match &step.action {
        Action::Operation(operation) => &operation.verb,
        Action::Fault(fault) => fault.word().name,
    }
}
