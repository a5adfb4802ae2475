//! Requests of the host to a client, and their outcomes.

use reknit_seams::net::ConnId;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The outcome of a request.
pub type Answer = Result<Box<RawValue>, Unanswered>;

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The client is not connected.
    #[error("the client is not connected")]
    Away,
    /// The connection that carried the request is closed.
    #[error("the connection of the request ended")]
    Lost,
    /// The client did not answer before the deadline.
    #[error("the client took too long to answer")]
    Late,
    /// The client refused.
    #[error("refused ({code}): {message}")]
    Refused {
        /// The error code.
        code: i64,
        /// The error message.
        message: String,
    },
}

/// A request that waits for its answer.
pub(super) struct HostRequest {
    pub(super) conn: ConnId,
    pub(super) until: Instant,
    pub(super) answer: oneshot::Sender<Answer>,
}
