//! Whether there is a connection, and how far an attempt to get one has come.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use reknit_resume::Recovery;
use tokio::time::Instant;

use super::connection::Connection;
use crate::client::Failure;
use crate::wire::Message;

/// Whether there is a connection.
pub(super) enum Phase {
    /// There is no connection that calls may use; there will be one before the budget is spent, or never.
    Recovering { recovery: Recovery, step: Step },
    /// There is one.
    Connected { connection: Connection, since: Instant },
    /// There will never be one again.
    Failed(Failure),
}

/// What a recovery is doing.
pub(super) enum Step {
    /// It waits before the next attempt.
    Pausing { until: Instant },
    /// It tries a connection.
    Attempting { connection: Connection, progress: Progress },
}

/// How far an attempt has come.
pub(super) enum Progress {
    /// The connection is being opened.
    Opening { until: Instant },
    /// The handshake was begun. Notifications that come before its end are kept, as far as there is room; those beyond it are
    /// in the answers of the reads that follow.
    Initializing { until: Instant, early: VecDeque<Message> },
    /// The handshake is over, and these processes have not caught up yet.
    CatchingUp { owed: BTreeSet<Arc<str>>, answered: bool, until: Instant },
    /// All have: it can be installed.
    Ready,
}

impl Progress {
    pub(super) fn due(&self) -> Option<Instant> {
        match self {
            Self::Opening { until } | Self::Initializing { until, .. } => Some(*until),
            Self::CatchingUp { until, answered: true, .. } => Some(*until),
            Self::CatchingUp { .. } | Self::Ready => None,
        }
    }

    pub(super) fn is_initialized(&self) -> bool {
        matches!(self, Self::CatchingUp { .. } | Self::Ready)
    }
}
