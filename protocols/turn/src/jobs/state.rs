//! The states of a job, and the allowed transitions.

use std::fmt;

use reknit_seams::process::Identity;
use serde::{Deserialize, Serialize};

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The job waits for its worker.
    Queued {
        /// The process that has to bring the job to a worker: first the launcher, then the worker
        /// itself.
        starter: Identity,
    },
    /// The worker does the job.
    Running {
        /// The worker.
        worker: Identity,
    },
    /// The turn completed.
    Completed,
    /// The turn failed, or the process of the job died.
    Failed {
        /// Why.
        message: String,
    },
    /// The user cancelled the job.
    Cancelled,
}

/// The name of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // see `State`
pub enum StateName {
    Queued,
    Running,
    Completed,
    Failed,
    Cancelled,
}

/// The states that may follow each state. No state follows a terminal one.
const TRANSITIONS: [(StateName, &[StateName]); 5] = [
    (StateName::Queued, &[StateName::Running, StateName::Failed, StateName::Cancelled]),
    (StateName::Running, &[StateName::Completed, StateName::Failed, StateName::Cancelled]),
    (StateName::Completed, &[]),
    (StateName::Failed, &[]),
    (StateName::Cancelled, &[]),
];

impl StateName {
    /// Returns the states that may follow this one.
    pub fn successors(self) -> &'static [StateName] {
        TRANSITIONS.iter().find(|(from, _)| *from == self).map_or(&[], |(_, to)| to)
    }

    /// Whether the job is over. Then its state never changes again.
    pub fn is_terminal(self) -> bool {
        self.successors().is_empty()
    }

    /// Returns the name in records and for users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl State {
    /// Returns its name.
    pub fn name(&self) -> StateName {
        match self {
            Self::Queued { .. } => StateName::Queued,
            Self::Running { .. } => StateName::Running,
            Self::Completed => StateName::Completed,
            Self::Failed { .. } => StateName::Failed,
            Self::Cancelled => StateName::Cancelled,
        }
    }

    /// Returns the process on which the job depends. If it dies, the job fails. A terminal state has
    /// none.
    pub fn process(&self) -> Option<&Identity> {
        match self {
            Self::Queued { starter: process } | Self::Running { worker: process } => Some(process),
            Self::Completed | Self::Failed { .. } | Self::Cancelled => None,
        }
    }

    /// Returns the exit status of a job that is over: 0 if and only if the turn completed, 1 if it
    /// failed, 130 if the user cancelled it. The statuses are those of a
    /// [`Report`](crate::capture::Report).
    pub fn exit_status(&self) -> Option<i32> {
        match self {
            Self::Queued { .. } | Self::Running { .. } => None,
            Self::Completed => Some(0),
            Self::Failed { .. } => Some(1),
            Self::Cancelled => Some(130),
        }
    }
}
