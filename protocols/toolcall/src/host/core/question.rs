//! What the host asks of a client, and what comes of that.

use reknit_seams::net::ConnId;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// What came of asking.
pub type Answer = Result<Box<RawValue>, Unanswered>;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The client is not connected.
    #[error("the client is not connected")]
    Away,
    /// The connection that was asked is over.
    #[error("the connection that was asked is over")]
    Lost,
    /// It took too long.
    #[error("the client took too long to answer")]
    Late,
    /// The client refused.
    #[error("refused ({code}): {message}")]
    Refused {
        /// The number of its error.
        code: i64,
        /// What it says.
        message: String,
    },
}

/// A request that waits for its answer.
pub(super) struct Reverse {
    pub(super) conn: ConnId,
    pub(super) until: Instant,
    pub(super) answer: oneshot::Sender<Answer>,
}
