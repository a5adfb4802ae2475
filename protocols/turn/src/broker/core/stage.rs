//! How far the broker is.

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::outside::BrokerExit;

/// The reason in the answer to a request while the broker ends.
pub(super) const ENDS: &str = "the broker is shutting down";

/// How far the broker is.
pub(super) enum Stage {
    /// The app-server is not initialized yet. Requests wait.
    Starting,
    /// The app-server works. `hello` is its answer to `initialize`.
    Serving { hello: Box<RawValue> },
    /// The broker was asked to end, and waits for turns and requests.
    Stopping { until: Instant },
    /// The connection to the app-server ends.
    Closing(BrokerExit),
    /// The broker is over.
    Over(BrokerExit),
}

impl Stage {
    pub fn is_ending(&self) -> bool {
        !matches!(self, Self::Starting | Self::Serving { .. })
    }

    pub fn until(&self) -> Option<Instant> {
        match self {
            Self::Stopping { until } => Some(*until),
            _ => None,
        }
    }
}
