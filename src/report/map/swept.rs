//! A sweep to draw, and the letter of each outcome.

use std::collections::BTreeMap;

use crate::hunt::SweepProgress;
use crate::hunt::sweep::FaultOutcome;

/// A sweep to draw.
#[derive(Clone, Copy, Debug)]
pub struct Map<'a> {
    /// The sweep.
    pub swept: &'a SweepProgress,
    /// The title of the scenario.
    pub title: &'a str,
    /// The command that repeats the sweep. With ` --trial N` it makes only one run of it.
    pub again: &'a str,
    /// The stories of some trials, by trial number.
    pub stories: &'a BTreeMap<usize, String>,
}

/// Returns the letter of an outcome. It is the class that determines the colour and the symbol.
pub(super) fn letter(outcome: Option<FaultOutcome>) -> &'static str {
    match outcome {
        None => "x",
        Some(FaultOutcome::Untouched) => "u",
        Some(FaultOutcome::Recovered) => "r",
        Some(FaultOutcome::Failed) => "f",
        Some(FaultOutcome::Broken) => "b",
    }
}
