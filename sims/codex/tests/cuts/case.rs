//! A script of cuts, as the file `cuts.toml` describes it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use reknit_proxy::{Fault, MessagePattern, Moment, Place, Rule, Script};
use serde::Deserialize;

use crate::work::Work;

/// All scripts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    pub case: Vec<Case>,
}

/// A script, and its result with each pair of ends.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    pub name: String,
    /// The fault, in words for the table.
    pub does: String,
    /// Whether it also runs in short test runs.
    #[serde(default)]
    pub quick: bool,
    /// Whether the number of generations is the same in every run.
    #[serde(default = "yes")]
    pub counted: bool,
    /// The command that runs.
    pub work: Work,
    /// How long a run may take.
    #[serde(default = "deadline", with = "seconds")]
    pub deadline: Duration,
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
    /// The results that differ from `complete`.
    #[serde(default)]
    pub expect: BTreeMap<Pairing, Expectation>,
}

fn yes() -> bool {
    true
}

fn deadline() -> Duration {
    Duration::from_secs(100)
}

/// The allowed results of one pairing.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    pub outcomes: Vec<Outcome>,
    /// Why the result is not `complete`: a rule of the protocol, or a bug of codex.
    pub because: String,
}

/// Which client talks to which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    OursCodex,
    CodexOurs,
    OursOurs,
}

impl Pairing {
    pub const ALL: [Self; 3] = [Self::OursCodex, Self::CodexOurs, Self::OursOurs];

    pub fn needs_codex(self) -> bool {
        self != Self::OursOurs
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// All output arrived once and in order, and the exit status.
    Complete,
    /// The client reported a failure of the command, and its reason. The output before it is correct.
    Failed,
    /// Anything else: a gap, a duplicate, a wrong status, no end.
    Broken,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Broken => "broken",
        })
    }
}

impl Case {
    /// Returns the allowed outcomes.
    pub fn allowed(&self, pairing: Pairing) -> &[Outcome] {
        self.expect.get(&pairing).map_or(&[Outcome::Complete], |expected| &expected.outcomes)
    }

    /// Returns the rules for the proxy. The first one counts the generations: a client sends
    /// `initialized` only after an answer that lets it in.
    pub fn script(&self) -> Script {
        let initialized = MessagePattern {
            toward: reknit_proxy::End::Server,
            method: Some("initialized".into()),
            answer_to: None,
            nth: 1,
            place: Place::Before,
        };
        let count = Rule {
            conn: None,
            times: None,
            at: Moment::Message(initialized),
            fault: Fault::Note {},
        };
        Script { rules: [count].into_iter().chain(self.rules.clone()).collect() }
    }
}

/// Durations in seconds.
mod seconds {
    use super::*;
    use serde::Deserializer;

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_secs)
    }
}
