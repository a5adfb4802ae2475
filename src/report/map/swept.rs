//! A sweep that is to be drawn, and the letter of each outcome.

use std::collections::BTreeMap;

use crate::hunt::SweepProgress;
use crate::hunt::sweep::FaultOutcome;

/// A sweep that is to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Map<'a> {
    /// The sweep.
    pub swept: &'a SweepProgress,
    /// What the scenario shows, in a line.
    pub title: &'a str,
    /// The command that sweeps again; with ` --trial N`, it makes one run of it.
    pub again: &'a str,
    /// The stories of some trials, by number.
    pub stories: &'a BTreeMap<usize, String>,
}

/// An outcome's letter: the class that gives it its colour and its sign.
pub(super) fn letter(outcome: Option<FaultOutcome>) -> &'static str {
    match outcome {
        None => "x",
        Some(FaultOutcome::Untouched) => "u",
        Some(FaultOutcome::Recovered) => "r",
        Some(FaultOutcome::Failed) => "f",
        Some(FaultOutcome::Broken) => "b",
    }
}
