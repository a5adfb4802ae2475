//! The limits of both ends for one connection, with defaults.

use std::time::Duration;

/// The limits of both ends for one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// After this much inbound silence, the end pings its peer.
    pub ping_interval: Duration,
    /// After this much further silence, the end closes the connection.
    pub pong_deadline: Duration,
    /// The end closes the connection if the peer accepts no byte for this long while there is
    /// something to write.
    pub write_deadline: Duration,
    /// The maximum size of a received message in bytes. A longer one closes the connection.
    pub message_bytes: usize,
    /// The maximum number of bytes of messages that wait to be written. If a peer causes more
    /// output and does not read it, the end closes the connection.
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
