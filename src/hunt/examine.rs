//! Examines one run of many. The run is [judged](mod@super::judge); a share of all runs is repeated
//! or gets a control run. A violation is confirmed in a fresh process.

use crate::history::History;
use crate::property::violation::{ViolationEntry, fields, kinds};
use crate::property::{
    About, Phrase, SAME_DIGEST, Violation, ViolationFields, ViolationKind, ViolationValue,
};
use crate::schedule::Plan;
use crate::schedule::keyed::below;
use crate::world::{Detail, Engine, Options, RunError};

use super::fresh::FreshProcess;
use super::judge::{Judged, JudgedRun, judge};

kinds! {
    RUN_PARTS = "run-diverges": "the run diverged when it was repeated: after {before}, the first run had {once}, and the second had {again}";
    CONTROL_PARTS = "control-diverges": "the control run diverged when it was repeated: after {before}, the first run had {once}, and the second had {again}";
    SEEN_NO_MORE = "diverges-once": "the run diverged when it was repeated, but not when it was repeated again with every message recorded";
    OTHER_IN_FRESH = "other-in-fresh": "the result differed in a new process: here `{here}`, there `{there}`";
    NOT_VERIFIED = "not-verified": "the run could not be verified: {why}";
}

// Used in these sentences in place of a missing history entry.
kinds! {
    NOTHING = "nothing": "nothing";
}

/// A divergence: how a repeated run differs from the first.
type Divergence = (&'static ViolationKind, ViolationFields);

/// Which runs are checked beyond the properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// One run in 32 is repeated. A run gets a control run if packets of an older generation
    /// arrived late in it; in any other run the control run could not differ. The choice depends
    /// only on the run.
    #[default]
    Share,
    /// Every run is repeated and has a control run.
    All,
    /// No run is repeated or has a control run.
    None,
}

/// With [`Check::Share`], one run in this many is repeated.
const SHARE: u64 = 32;

/// Options for [`examine`].
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// Which runs are checked beyond the properties.
    pub check: Check,
    /// The engine that carries the segments.
    pub engine: Engine,
    /// The program that repeats a failed run in a fresh process. With `None`, there is no second
    /// opinion.
    pub fresh: Option<FreshProcess>,
}

/// The result of [`examine`].
#[derive(Debug)]
pub struct Examined {
    /// The history of the run.
    pub history: History,
    /// The violations in the run.
    pub broken: Vec<Violation>,
    /// Whether the run had an inconclusive failure: either outcome would have been correct.
    pub inconclusive: bool,
    /// Whether the run was repeated.
    pub repeated: bool,
    /// The properties that judged a case.
    pub judging: Vec<&'static str>,
}

/// Runs a plan, judges the run, and checks that the run is deterministic.
///
/// # Errors
/// If the run could not be carried out.
pub fn examine(case: JudgedRun<'_>, checks: &Checks) -> Result<Examined, RunError> {
    let options = Options { engine: checks.engine, ..Options::default() };
    let chosen = |by_share: bool| match checks.check {
        Check::All => true,
        Check::None => false,
        Check::Share => by_share,
    };
    let judged = judge(case, &options, |history| chosen(history.stale > 0))?;
    let statement = judged.statement();
    let Judged { history, mut broken, inconclusive, control, judging, .. } = judged;
    let expected = RunStatement { statement, has_control: control.is_some() };
    // The control run is judged by now. Repeating the run allocates two more histories, so free
    // this one first.
    drop(control);
    let repeated = chosen(below(case.plan.seed, "repeat", &[history.digest.value()], SHARE) == 0);
    let mut divergence = if repeated { repeat(case, &options, &expected)? } else { None };
    if let (false, None, Some(fresh)) = (broken.is_empty(), &divergence, &checks.fresh) {
        divergence = repeat_in_fresh_process(fresh, case, checks.engine, &expected);
    }
    broken
        .extend(divergence.map(|(kind, data)| {
            Violation::new(SAME_DIGEST.0, About::Run, history.end, kind, data)
        }));
    Ok(Examined { history, broken, inconclusive, repeated, judging })
}

/// The statement of a run that a repetition must reproduce.
struct RunStatement {
    statement: String,
    has_control: bool,
}

/// Judges the plan again and returns the divergence, if any.
fn repeat(
    case: JudgedRun<'_>,
    options: &Options,
    first: &RunStatement,
) -> Result<Option<Divergence>, RunError> {
    let again = |options: &Options| judge(case, options, |_| first.has_control);
    if again(options)?.statement() == first.statement {
        return Ok(None);
    }
    let full = Options { detail: Detail::Full, ..*options };
    let (a, b) = (again(&full)?, again(&full)?);
    let controls = a.control.as_ref().zip(b.control.as_ref());
    let found = first_divergence(case.plan, &RUN_PARTS, &a.history, &b.history)
        .or_else(|| controls.and_then(|(a, b)| first_divergence(case.plan, &CONTROL_PARTS, a, b)));
    Ok(Some(found.unwrap_or_else(|| (&SEEN_NO_MORE, ViolationFields::default()))))
}

/// Returns where two runs that should be identical diverge, if they do.
fn first_divergence(
    plan: &Plan,
    kind: &'static ViolationKind,
    a: &History,
    b: &History,
) -> Option<Divergence> {
    let at = a.parts_from(b)?;
    let entry = |history: &History, n: Option<usize>| match n.and_then(|n| history.events.get(n)) {
        Some(event) => ViolationValue::from(ViolationEntry {
            plan: plan.clone(),
            conns: history.conns.clone(),
            event: event.clone(),
        }),
        None => ViolationValue::from(Phrase::new(&NOTHING, ViolationFields::default())),
    };
    let (before, once, again) =
        (entry(a, at.checked_sub(1)), entry(a, Some(at)), entry(b, Some(at)));
    Some((kind, fields! { before, once, again }))
}

/// Repeats the run in a fresh process and returns the divergence, if any.
fn repeat_in_fresh_process(
    fresh: &FreshProcess,
    case: JudgedRun<'_>,
    engine: Engine,
    expected: &RunStatement,
) -> Option<Divergence> {
    let here = &expected.statement;
    match fresh.ask(case.plan, case.expect, engine, expected.has_control) {
        Ok(there) if there == *here => None,
        Ok(there) => {
            let difference = here.lines().zip(there.lines()).find(|(here, there)| here != there);
            let (here, there) = difference.unwrap_or(("more", "less"));
            Some((&OTHER_IN_FRESH, fields! { here, there }))
        }
        Err(why) => Some((&NOT_VERIFIED, fields! { why })),
    }
}
