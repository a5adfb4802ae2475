//! One run, judged: is it as the properties say, does it come out the same again, and would it without late packets?

use std::sync::Arc;

use crate::history::History;
use crate::property::{self, Broken, Evidence};
use crate::report::parting;
use crate::schedule::Plan;
use crate::schedule::keyed::below;
use crate::subject::Erased;
use crate::world::{Detail, Engine, Options, RunError, run};

use super::fresh::{Fresh, statement};
use super::pool::pulse;

/// How much is checked besides the properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// A sixteenth of the runs is repeated, another has a twin. Which, depends on the run alone.
    #[default]
    Share,
    /// Every run is repeated and has a twin.
    All,
    /// None is, and none has.
    None,
}

/// One run of so many is repeated, where a share is.
const SHARE: u64 = 16;

/// How a run is examined.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// How much is checked besides the properties.
    pub check: Check,
    /// What carries the segments.
    pub engine: Engine,
    /// Who is asked for a second opinion of a run that failed; nobody where there is none.
    pub fresh: Option<Fresh>,
}

/// A run, judged.
#[derive(Debug)]
pub struct Examined {
    /// The record of the run.
    pub history: History,
    /// What broke in it.
    pub broken: Vec<Broken>,
    /// Whether a failure in it is neither surely justified nor surely not.
    pub grey: bool,
    /// Whether it was repeated.
    pub repeated: bool,
}

/// Runs a plan and judges the run.
///
/// # Errors
/// If it could not be carried out.
pub fn examine(subject: &Arc<dyn Erased>, plan: &Plan, checks: &Checks) -> Result<Examined, RunError> {
    let options = Options { engine: checks.engine, ..Options::default() };
    let history = once(subject, plan, &options)?;
    let (mut broken, grey) = judge(subject, plan, &history, None);
    let stated = statement(&history, &broken);
    let chosen = |what| match checks.check {
        Check::All => true,
        Check::None => false,
        Check::Share => below(plan.seed, what, &[history.digest.value()], SHARE) == 0,
    };
    let repeated = chosen("repeat");
    let mut unlike = if repeated { repeat(subject, plan, &options, &stated)? } else { None };
    if let (false, None, Some(fresh)) = (broken.is_empty(), &unlike, &checks.fresh) {
        pulse();
        unlike = second_opinion(fresh, plan, checks.engine, &stated);
    }
    let has_twin = checks.engine == Engine::Event && subject.generation_milestone().is_some();
    if has_twin && chosen("twin") {
        let twin = once(subject, plan, &Options { twin: true, ..options })?;
        broken = judge(subject, plan, &history, Some(&twin)).0;
    }
    broken.extend(unlike.map(|sentence| not_the_same(&history, sentence)));
    Ok(Examined { history, broken, grey, repeated })
}

fn once(subject: &Arc<dyn Erased>, plan: &Plan, options: &Options) -> Result<History, RunError> {
    pulse();
    Ok(run(subject, plan, options)?.history)
}

/// What broke in a run, and whether it is grey.
pub fn judge(subject: &Arc<dyn Erased>, plan: &Plan, history: &History, twin: Option<&History>) -> (Vec<Broken>, bool) {
    let promise = subject.promise(&plan.limits.over(subject.limits()));
    let (milestones, servers) = (subject.milestones(), subject.servers());
    let evidence = Evidence { plan, history, promise: &promise, milestones, servers, twin };
    (property::check(&evidence, subject.properties()), property::grey(&evidence))
}

/// Runs the plan again; says where the second run differs, if it does.
fn repeat(subject: &Arc<dyn Erased>, plan: &Plan, options: &Options, stated: &str) -> Result<Option<String>, RunError> {
    let again = once(subject, plan, options)?;
    let (broken, _) = judge(subject, plan, &again, None);
    if statement(&again, &broken) == stated {
        return Ok(None);
    }
    let full = Options { detail: Detail::Full, ..*options };
    let (a, b) = (once(subject, plan, &full)?, once(subject, plan, &full)?);
    Ok(Some(where_they_part(plan, &a, &b)))
}

/// Where two runs part that should be the same, in one sentence.
fn where_they_part(plan: &Plan, a: &History, b: &History) -> String {
    let Some(at) = parting::first(a, b) else {
        return "the run came out another way when it was repeated, and the same again when it was looked at closely".into();
    };
    let told = |history: &History, n: Option<usize>| {
        let event = n.and_then(|n| history.events.get(n));
        event.map_or("nothing".to_owned(), |event| {
            let line = crate::report::telling::entry(plan, history, event);
            format!("`{} {}: {}`", line.at, line.place, line.text)
        })
    };
    format!(
        "the run came out another way when it was repeated: after {} came {} once, and {} the other time",
        told(a, at.checked_sub(1)),
        told(a, Some(at)),
        told(b, Some(at))
    )
}

/// Asks a fresh process; says how it differs, if it does.
fn second_opinion(fresh: &Fresh, plan: &Plan, engine: Engine, stated: &str) -> Option<String> {
    match fresh.ask(plan, engine) {
        Ok(said) if said == stated => None,
        Ok(said) => {
            let difference = stated.lines().zip(said.lines()).find(|(here, there)| here != there);
            let (here, there) = difference.unwrap_or(("more", "less"));
            Some(format!("the run came out another way in a fresh process: here `{here}`, there `{there}`"))
        }
        Err(why) => Some(format!("the run could not be verified: {why}")),
    }
}

fn not_the_same(history: &History, sentence: String) -> Broken {
    Broken { property: "same_digest", at: history.end, stream: None, sentence }
}
