//! Why a command got no turn.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reknit_seams::net::Endpoint;

use crate::command::{NotStarted, and_left};

/// Where a turn runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On an app-server of the client.
    AppServer,
    /// Through the broker at this address.
    Broker(Endpoint),
    /// Through the broker of this directory.
    Workspace(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AppServer => f.write_str("the app-server"),
            Self::Broker(endpoint) => write!(f, "the broker at {endpoint}"),
            Self::Workspace(directory) => write!(f, "the broker in {}", directory.display()),
        }
    }
}

/// Why a command got no turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The program of the app-server does not start.
    #[error("cannot start the app-server `{program}`: {why}")]
    CannotLaunch {
        /// The program.
        program: String,
        /// The error of the system.
        why: String,
    },
    /// There is no connection to the broker.
    #[error("cannot connect to the broker at {endpoint}: {why}")]
    CannotConnect {
        /// Its address.
        endpoint: Endpoint,
        /// The error of the system.
        why: String,
    },
    /// There is no broker in the directory, and none could be started.
    #[error("no broker in {}: {why}", .directory.display())]
    NoBroker {
        /// The directory.
        directory: PathBuf,
        /// Why: see [`NoBroker`](crate::broker::NoBroker).
        why: String,
    },
    /// The server did not answer `initialize`, or refused it.
    #[error("{place} did not accept the client: {why}")]
    NotInitialized {
        /// The server.
        place: Place,
        /// Its message, or how it ended.
        why: String,
    },
    /// The connection took too long.
    #[error("{place} was not ready within {} s", .within.as_secs_f64())]
    NotReady {
        /// The server.
        place: Place,
        /// The limit.
        within: Duration,
    },
    /// The server refused the turn, or ended before it got the request for it.
    #[error(transparent)]
    NotStarted(NotStarted),
    /// The user cancelled the command before the turn started.
    #[error("cancelled before the turn started{}", and_left(.left_behind.as_deref()))]
    Cancelled {
        /// A thread that the client started and could not remove.
        left_behind: Option<String>,
    },
}

impl ClientError {
    /// Returns the exit status of the program that ran the command: 130 if the user cancelled it,
    /// otherwise 1.
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::Cancelled { .. } => 130,
            _ => 1,
        }
    }
}

/// Why the command got no turn on one server.
pub(super) struct Stop {
    pub error: ClientError,
    /// Whether it may run on another server: this one has nothing of it.
    pub may_move: bool,
}
