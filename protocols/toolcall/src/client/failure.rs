//! The reasons why a request fails.

/// The reason why a request, action or subscription failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The host rejected the action: nothing has changed, and the pending action is undone locally.
    #[error("refused: {0}")]
    Rejected(
        /// The reason.
        String,
    ),
    /// The host answered the request with an error.
    #[error("refused ({code}): {message}")]
    Refused {
        /// The error code.
        code: i64,
        /// The message for people.
        message: String,
    },
    /// The connection was lost before the answer arrived. It is unknown whether the host executed
    /// the request. Issue it again.
    #[error("the connection was lost before the answer came")]
    Lost,
    /// There was no answer before the deadline, with or without a connection.
    #[error("no answer in time")]
    Late,
    /// The channel does not exist, or no longer exists.
    #[error("there is no such channel")]
    Gone,
    /// Cancelled: the user unsubscribed before the answer arrived.
    #[error("unsubscribed")]
    Unsubscribed,
    /// Too many requests are waiting already.
    #[error("too many requests or actions are waiting")]
    Full,
    /// The host's answer is invalid.
    #[error("the host sent an invalid response: {0}")]
    Malformed(
        /// The reason why it is invalid.
        String,
    ),
    /// The host speaks no version that this client speaks. A retry cannot succeed.
    #[error("the host uses a different protocol version")]
    Incompatible,
    /// The client is closed.
    #[error("closed")]
    Closed,
}
