//! The ids of jobs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The id of a job: 1 to 64 lower-case letters, digits and dashes. It is a safe name for a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

/// The longest id in bytes.
const LONGEST: usize = 64;

impl JobId {
    /// Returns the id, if it is one.
    pub fn new(text: &str) -> Option<Self> {
        let is_known =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_known);
        fits.then(|| Self(text.to_owned()))
    }

    /// Returns its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for JobId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text).ok_or_else(|| format!("'{text}' is not the id of a job"))
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.0
    }
}
