//! A sweep that is to be drawn, and the letter of each outcome.

use std::collections::BTreeMap;

use crate::hunt::Swept;
use crate::hunt::sweep::Outcome;

/// A sweep that is to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Map<'a> {
    /// The sweep.
    pub swept: &'a Swept,
    /// What the scenario shows, in a line.
    pub title: &'a str,
    /// The command that sweeps again; with ` --trial N`, it makes one run of it.
    pub again: &'a str,
    /// The stories of some trials, by number.
    pub stories: &'a BTreeMap<usize, String>,
}

/// An outcome's letter: the class that gives it its colour and its sign.
pub(super) fn letter(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "x",
        Some(Outcome::Untouched) => "u",
        Some(Outcome::Recovered) => "r",
        Some(Outcome::Failed) => "f",
        Some(Outcome::Broken) => "b",
    }
}
