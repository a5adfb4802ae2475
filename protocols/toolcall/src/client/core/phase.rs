//! The state of the connection.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::client::Failure;

/// The state of the connection.
#[derive(Debug)]
pub(super) enum Line {
    /// There is no connection; the next attempt starts at this time.
    Waiting {
        /// The time of the next attempt.
        until: Instant,
    },
    /// A connection is being opened.
    Opening,
    /// The handshake is in progress.
    Shaking {
        /// The deadline of the handshake.
        until: Instant,
    },
    /// The subscriptions are restored; tokens are being sent.
    Settling {
        /// The requests that carry the tokens.
        waiting: BTreeSet<i64>,
        /// The deadline of the answers.
        until: Instant,
    },
    /// Connected and up to date.
    Connected {
        /// The time at which this state began.
        since: Instant,
    },
    /// Closed for good.
    Closed(Failure),
}
