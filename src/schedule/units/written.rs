//! Durations and sizes as fields of operations and setup tables, in the usual syntax of files:
//! `500ms`, `64KiB`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NotAUnit;

/// A duration in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("format" = "duration"))]
pub struct WrittenDuration(pub Duration);

impl WrittenDuration {
    /// Whether the duration is zero.
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }
}

impl TryFrom<String> for WrittenDuration {
    type Error = NotAUnit;

    fn try_from(text: String) -> Result<Self, NotAUnit> {
        super::read_duration(&text).map(Self)
    }
}

impl From<WrittenDuration> for String {
    fn from(span: WrittenDuration) -> Self {
        super::duration(span.0)
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("format" = "size"))]
pub struct Size(pub u64);

impl TryFrom<String> for Size {
    type Error = NotAUnit;

    fn try_from(text: String) -> Result<Self, NotAUnit> {
        super::read_size(&text).map(Self)
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        super::size(size.0)
    }
}
