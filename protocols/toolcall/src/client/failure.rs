//! Why something that was asked for did not come to pass.

/// Why a request, an action or a subscription came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The host refused the action: nothing has changed, and what was assumed is taken back.
    #[error("refused: {0}")]
    Rejected(
        /// Why.
        String,
    ),
    /// The host answered the request with an error.
    #[error("refused ({code}): {message}")]
    Refused {
        /// The number of the error.
        code: i64,
        /// What a person reads.
        message: String,
    },
    /// The connection was lost before the answer came: whether the host did it is not known. Ask again.
    #[error("the connection was lost before the answer came")]
    Lost,
    /// There was no answer in time, with or without a connection.
    #[error("no answer in time")]
    Late,
    /// There is no such channel, or not any more.
    #[error("there is no such channel")]
    Gone,
    /// It was taken back: unsubscribed before the answer came.
    #[error("unsubscribed")]
    Unsubscribed,
    /// Too much is waiting already.
    #[error("too much is waiting")]
    Full,
    /// The host sent what is no answer.
    #[error("the host sent what is no answer: {0}")]
    Malformed(
        /// What is wrong with it.
        String,
    ),
    /// The host speaks no version that this client speaks. This does not pass.
    #[error("the host speaks another version")]
    Incompatible,
    /// The client is closed.
    #[error("closed")]
    Closed,
}
