//! The effects of the broker's core, and the ends of a broker.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::upstream::UpstreamEnd;

/// The number of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// The number of a request to the app-server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

/// An effect for the driver.
#[derive(Debug)]
pub enum BrokerEffect {
    /// Send a request to the app-server, and report its answer with the ticket.
    Request {
        /// The number of the request.
        ticket: Ticket,
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Box<RawValue>>,
    },
    /// Send a notification to the app-server.
    Notify {
        /// The method.
        method: &'static str,
    },
    /// Close the connection to the app-server.
    CloseUpstream,
}

/// The reason why the broker closes a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutReason {
    /// The client does not read its messages.
    #[error("the client reads too slowly")]
    Slow,
    /// The client sent a line that is too long.
    #[error("the client sent a line that is too long")]
    TooLong,
    /// The client has no work, and has said nothing for too long.
    #[error("the client has said nothing for too long")]
    Idle,
    /// The broker ends.
    #[error("the broker ends")]
    BrokerEnds,
}

/// How a broker ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokerExit {
    /// A client or a signal asked for it.
    #[error("the broker was asked to end")]
    Asked,
    /// The app-server ended first.
    #[error("{0}")]
    UpstreamEnded(Arc<UpstreamEnd>),
    /// The app-server did not accept the broker.
    #[error("the app-server did not initialize: {0}")]
    NotInitialized(String),
}

impl BrokerExit {
    /// Returns the exit status of a broker's program: 0 if it was asked to end, otherwise 1.
    pub fn status(&self) -> u8 {
        match self {
            Self::Asked => 0,
            Self::UpstreamEnded(_) | Self::NotInitialized(_) => 1,
        }
    }
}
