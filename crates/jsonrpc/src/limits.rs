//! What both ends keep to on one connection, with defaults.

use std::time::Duration;

/// What both ends keep to on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// After this much inbound silence the peer is pinged.
    pub ping_interval: Duration,
    /// After this much more silence the connection is given up.
    pub pong_deadline: Duration,
    /// A connection that takes no byte for this long, while there is something to write, is given up.
    pub write_deadline: Duration,
    /// The longest message that is read, in bytes. A longer one ends the connection.
    pub message_bytes: usize,
    /// How many bytes of messages may wait to be written. A peer that makes this end say more, and reads nothing, is given up.
    pub outbox_bytes: usize,
}

impl Default for WireLimits {
    fn default() -> Self {
        let eight = Duration::from_secs(8);
        Self {
            ping_interval: eight,
            pong_deadline: eight,
            write_deadline: eight,
            message_bytes: 16 << 20,
            outbox_bytes: 32 << 20,
        }
    }
}
