//! How the connection is.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::client::Failure;

/// How the connection is.
#[derive(Debug)]
pub(super) enum Line {
    /// There is none; the next attempt is at this time.
    Waiting {
        /// When.
        until: Instant,
    },
    /// One is being opened.
    Opening,
    /// The handshake is under way.
    Shaking {
        /// When it has to be over.
        until: Instant,
    },
    /// The channels are there; these tokens are being handed over.
    Settling {
        /// The requests that do it.
        waiting: BTreeSet<i64>,
        /// When it has to be over.
        until: Instant,
    },
    /// Everything that was missed is known.
    Connected {
        /// Since when.
        since: Instant,
    },
    /// It is over, for good.
    Closed(Failure),
}
