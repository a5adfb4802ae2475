//! Judges one run. The checks of a run, its replay, and the fresh process that gives a second
//! opinion all use this module, so all of them reach the same verdict.
//!
//! This module does not choose which runs are repeated or have a control run;
//! [`examine`](mod@super::examine) does.

use std::sync::Arc;

use crate::history::History;
use crate::property::{self, CheckContext, Judgements, Violation};
use crate::scenario::Expect;
use crate::schedule::Plan;
use crate::subject::{DynSubject, mistake};
use crate::world::{Engine, Options, RunError, run};

use super::pool::pulse;

/// The run to judge, and what to judge it by.
#[derive(Clone, Copy)]
pub struct JudgedRun<'a> {
    /// The protocol under test.
    pub subject: &'a Arc<dyn DynSubject>,
    /// The plan to run.
    pub plan: &'a Plan,
    /// The expectations of this run, besides the properties.
    pub expect: &'a Expect,
}

/// The result of [`judge`].
#[derive(Debug)]
pub struct Judged {
    /// The history of the run.
    pub history: History,
    /// The subject's own tracing output, if requested.
    pub log: Vec<String>,
    /// The history of its control run, if it had one.
    pub control: Option<History>,
    /// The violations in the run.
    pub broken: Vec<Violation>,
    /// Whether the run had an inconclusive failure: either outcome would have been correct.
    pub inconclusive: bool,
    /// The properties that judged a case.
    pub judging: Vec<&'static str>,
}

/// Runs a plan and judges the run against the properties and the expectations. Adds a control run
/// if `has_control` asks for one and the subject and engine support it.
///
/// # Errors
/// If a run could not be carried out, or its driver recorded something that no protocol can do.
pub fn judge(
    case: JudgedRun<'_>,
    options: &Options,
    has_control: impl FnOnce(&History) -> bool,
) -> Result<Judged, RunError> {
    let JudgedRun { subject, plan, expect } = case;
    pulse();
    let outcome = run(subject, plan, options)?;
    let history = outcome.history;
    let (milestones, servers) = (subject.milestones(), subject.servers());
    if let Some(mistake) = mistake(&history, servers) {
        return Err(RunError::Recording { seed: plan.seed, mistake });
    }
    let control = match can_have_control(subject, options.engine) && has_control(&history) {
        true => Some(control(subject, plan, options.engine)?),
        false => None,
    };
    if let Some(mistake) = control.iter().find_map(|control| mistake(control, servers)) {
        return Err(RunError::Recording { seed: plan.seed, mistake });
    }
    let limits = plan.limits.over(subject.limits());
    let guarantees = subject.guarantees(&limits);
    let judgements = Judgements::default();
    let cx = CheckContext {
        plan,
        limits: &limits,
        history: &history,
        guarantees: &guarantees,
        milestones,
        servers,
        control: control.as_ref(),
        judgements: &judgements,
    };
    let mut broken = property::check(&cx);
    broken.extend(subject.violations(&cx));
    broken.extend(expect.unmet(&cx));
    let inconclusive = property::inconclusive(&cx);
    let judging = judgements.properties();
    Ok(Judged { history, log: outcome.log, control, broken, inconclusive, judging })
}

/// Returns whether packets of an older generation can be recognised and dropped.
fn can_have_control(subject: &Arc<dyn DynSubject>, engine: Engine) -> bool {
    engine == Engine::Event && subject.generation_milestone().is_some()
}

/// Runs the control run: packets of an older generation are dropped once a newer generation is
/// installed.
fn control(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    engine: Engine,
) -> Result<History, RunError> {
    pulse();
    Ok(run(subject, plan, &Options { control: true, engine, ..Options::default() })?.history)
}

impl Judged {
    /// Returns the part of the result that every repetition must reproduce, as text: the digests
    /// and the violations. The violations are in JSON.
    pub fn statement(&self) -> String {
        let control = self
            .control
            .as_ref()
            .map_or(String::new(), |control| format!("control {}\n", control.digest));
        let json = |broken: &Violation| {
            serde_json::to_string(broken).unwrap_or_else(|error| error.to_string())
        };
        let verdict = self.broken.iter().map(|broken| json(broken) + "\n");
        format!("digest {}\n{control}{}", self.history.digest, verdict.collect::<String>())
    }
}
