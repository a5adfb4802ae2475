//! One run of many, examined: it is [judged](mod@super::judge), and a share of all runs is repeated, or has a twin. What broke is
//! asked again of a fresh process.

use crate::history::History;
use crate::property::violation::{ViolationEntry, fields, kinds};
use crate::property::{
    About, Phrase, SAME_DIGEST, Violation, ViolationFields, ViolationKind, ViolationValue,
};
use crate::schedule::Plan;
use crate::schedule::keyed::below;
use crate::world::{Detail, Engine, Options, RunError};

use super::fresh::Fresh;
use super::judge::{Judged, JudgedRun, judge};

kinds! {
    RUN_PARTS = "run-parts": "the run came out another way when it was repeated: after {before} came {once} once, and {again} the other time";
    CONTROL_PARTS = "twin-parts": "its twin came out another way when it was repeated: after {before} came {once} once, and {again} the other time";
    SEEN_NO_MORE = "seen-no-more": "the run came out another way when it was repeated, and the same again when it was looked at closely";
    OTHER_IN_FRESH = "other-in-fresh": "the run came out another way in a fresh process: here `{here}`, there `{there}`";
    NOT_VERIFIED = "not-verified": "the run could not be verified: {why}";
}

// A part of these sentences: what stands for an entry that is not there.
kinds! {
    NOTHING = "nothing": "nothing";
}

/// How a run is not the same again.
type Unlike = (&'static ViolationKind, ViolationFields);

/// How much is checked besides the properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// A thirty-second of the runs is repeated; a run to which packets of an older generation came late has a twin, for in no
    /// other could the twin differ. Which they are, depends on the run alone.
    #[default]
    Share,
    /// Every run is repeated and has a twin.
    All,
    /// None is, and none has.
    None,
}

/// One run of so many is repeated, where a share is.
const SHARE: u64 = 32;

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

/// A run, examined.
#[derive(Debug)]
pub struct Examined {
    /// The record of the run.
    pub history: History,
    /// What broke in it.
    pub broken: Vec<Violation>,
    /// Whether a failure in it is neither surely justified nor surely not.
    pub inconclusive: bool,
    /// Whether it was repeated.
    pub repeated: bool,
}

/// Runs a plan, judges the run, and checks that it comes out the same again.
///
/// # Errors
/// If it could not be carried out.
pub fn examine(case: JudgedRun<'_>, checks: &Checks) -> Result<Examined, RunError> {
    let options = Options { engine: checks.engine, ..Options::default() };
    let chosen = |by_share: bool| match checks.check {
        Check::All => true,
        Check::None => false,
        Check::Share => by_share,
    };
    let judged = judge(case, &options, |history| chosen(history.stale > 0))?;
    let statement = judged.statement();
    let Judged { history, mut broken, inconclusive, control, .. } = judged;
    let rendered = Said { statement, has_control: control.is_some() };
    // It has been judged, and a run that is repeated brings two more records.
    drop(control);
    let repeated = chosen(below(case.plan.seed, "repeat", &[history.digest.value()], SHARE) == 0);
    let mut unlike = if repeated { repeat(case, &options, &rendered)? } else { None };
    if let (false, None, Some(fresh)) = (broken.is_empty(), &unlike, &checks.fresh) {
        unlike = second_opinion(fresh, case, checks.engine, &rendered);
    }
    broken
        .extend(unlike.map(|(kind, data)| {
            Violation::new(SAME_DIGEST.0, About::Run, history.end, kind, data)
        }));
    Ok(Examined { history, broken, inconclusive, repeated })
}

/// What was said of a run, and has to be said again.
struct Said {
    statement: String,
    has_control: bool,
}

/// Judges the plan again; says where the second run differs, if it does.
fn repeat(
    case: JudgedRun<'_>,
    options: &Options,
    first: &Said,
) -> Result<Option<Unlike>, RunError> {
    let again = |options: &Options| judge(case, options, |_| first.has_control);
    if again(options)?.statement() == first.statement {
        return Ok(None);
    }
    let full = Options { detail: Detail::Full, ..*options };
    let (a, b) = (again(&full)?, again(&full)?);
    let twins = a.control.as_ref().zip(b.control.as_ref());
    let parted = where_they_part(case.plan, &RUN_PARTS, &a.history, &b.history)
        .or_else(|| twins.and_then(|(a, b)| where_they_part(case.plan, &CONTROL_PARTS, a, b)));
    Ok(Some(parted.unwrap_or_else(|| (&SEEN_NO_MORE, ViolationFields::default()))))
}

/// Where two runs part that should be the same, if they do.
fn where_they_part(
    plan: &Plan,
    kind: &'static ViolationKind,
    a: &History,
    b: &History,
) -> Option<Unlike> {
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

/// Asks a fresh process; says how it differs, if it does.
fn second_opinion(
    fresh: &Fresh,
    case: JudgedRun<'_>,
    engine: Engine,
    rendered: &Said,
) -> Option<Unlike> {
    let here = &rendered.statement;
    match fresh.ask(case.plan, case.expect, engine, rendered.has_control) {
        Ok(there) if there == *here => None,
        Ok(there) => {
            let difference = here.lines().zip(there.lines()).find(|(here, there)| here != there);
            let (here, there) = difference.unwrap_or(("more", "less"));
            Some((&OTHER_IN_FRESH, fields! { here, there }))
        }
        Err(why) => Some((&NOT_VERIFIED, fields! { why })),
    }
}
