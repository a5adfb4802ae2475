//! The pace of a user that reads slowly.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schedule::units::{Size, WrittenDuration};

/// How slowly a user reads the output of a process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ReadingPace {
    /// How long the user pauses.
    pub pause: WrittenDuration,
    /// The number of bytes of output after which the user pauses.
    pub every: Size,
}
