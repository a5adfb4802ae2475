//! Whether there is a connection, and the progress of an attempt to get one.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use reknit_resume::Recovery;
use tokio::time::Instant;

use super::connection::Connection;
use crate::client::Failure;
use crate::wire::Message;

/// The connection state of the core.
pub(super) enum Phase {
    /// No connection is available to calls. The client connects before the recovery deadline or
    /// fails.
    Recovering { recovery: Recovery, step: Step },
    /// A connection is installed.
    Connected { connection: Connection, since: Instant },
    /// The client has failed permanently.
    Failed(Failure),
}

/// The current step of a recovery.
pub(super) enum Step {
    /// The pause before the next attempt.
    Pausing { until: Instant },
    /// An attempt with a new connection.
    Attempting { connection: Connection, progress: Progress },
}

/// The progress of an attempt.
pub(super) enum Progress {
    /// The connection is being opened.
    Opening { until: Instant },
    /// The handshake has begun. Notifications that arrive before its end are kept in `early` if
    /// there is room; the later reads return the others.
    Initializing { until: Instant, early: VecDeque<Message> },
    /// The handshake is over, and these processes have not caught up yet.
    CatchingUp { owed: BTreeSet<Arc<str>>, answered: bool, until: Instant },
    /// All processes have caught up: the connection can be installed.
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
