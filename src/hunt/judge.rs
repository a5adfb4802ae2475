//! One run, judged. Whoever wants a verdict asks here, with the same words: the checks of a run, its replay, and the fresh
//! process that is asked for a second opinion. So what one of them sees, the others see, too.
//!
//! It does not choose: which runs have a twin, or are repeated, [`examine`](mod@super::examine) says.

use std::sync::Arc;

use crate::history::History;
use crate::property::{self, CheckContext, Violation};
use crate::scenario::Expect;
use crate::schedule::Plan;
use crate::subject::{DynSubject, mistake};
use crate::world::{Engine, Options, RunError, run};

use super::pool::pulse;

/// What is judged, and by what.
#[derive(Clone, Copy)]
pub struct JudgedRun<'a> {
    /// The protocol under test.
    pub subject: &'a Arc<dyn DynSubject>,
    /// The plan that is run.
    pub plan: &'a Plan,
    /// What must come out of this run, besides the properties.
    pub expect: &'a Expect,
}

/// A run, judged.
#[derive(Debug)]
pub struct Judged {
    /// The record of the run.
    pub history: History,
    /// The subject's own tracing output, where it was asked for.
    pub log: Vec<String>,
    /// The record of its twin, where it had one.
    pub control: Option<History>,
    /// What broke in it.
    pub broken: Vec<Violation>,
    /// Whether a failure in it is neither surely justified nor surely not.
    pub inconclusive: bool,
}

/// Runs a plan, and its twin where `has_control` wants one of that run and there can be one, and judges both: the properties, and
/// what is expected.
///
/// # Errors
/// If a run could not be carried out, or its driver recorded what no protocol can bring about.
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
    let guarantees = subject.guarantees(&plan.limits.over(subject.limits()));
    let cx = CheckContext {
        plan,
        history: &history,
        guarantees: &guarantees,
        milestones,
        servers,
        control: control.as_ref(),
    };
    let mut broken = property::check(&cx);
    broken.extend(subject.breaks(&cx));
    broken.extend(expect.unmet(&cx));
    let inconclusive = property::inconclusive(&cx);
    Ok(Judged { history, log: outcome.log, control, broken, inconclusive })
}

/// Whether the packets of an older generation can be told and dropped.
fn can_have_control(subject: &Arc<dyn DynSubject>, engine: Engine) -> bool {
    engine == Engine::Event && subject.generation_milestone().is_some()
}

/// The same run, in which packets of an older generation are dropped once a newer one is installed.
fn control(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    engine: Engine,
) -> Result<History, RunError> {
    pulse();
    Ok(run(subject, plan, &Options { control: true, engine, ..Options::default() })?.history)
}

impl Judged {
    /// What must be the same whenever and wherever it is run: the digests and the verdict, as text. The verdict is in the JSON form of
    /// its violations.
    pub fn statement(&self) -> String {
        let control = self
            .control
            .as_ref()
            .map_or(String::new(), |control| format!("twin {}\n", control.digest));
        let json = |broken: &Violation| {
            serde_json::to_string(broken).unwrap_or_else(|error| error.to_string())
        };
        let verdict = self.broken.iter().map(|broken| json(broken) + "\n");
        format!("digest {}\n{control}{}", self.history.digest, verdict.collect::<String>())
    }
}
