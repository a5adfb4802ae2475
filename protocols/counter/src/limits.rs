//! Every size and deadline of the client and the server.

use std::time::Duration;

/// The limits for the detection of a lost peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// The inbound silence after which the peer is pinged.
    pub ping_interval: Duration,
    /// The further silence after which the connection is given up.
    pub pong_deadline: Duration,
    /// The time without progress after which a connection with data to write is given up.
    pub write_deadline: Duration,
}

impl Default for Liveness {
    fn default() -> Self {
        let eight = Duration::from_secs(8);
        Self { ping_interval: eight, pong_deadline: eight, write_deadline: eight }
    }
}

/// The limits of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// How the client detects a lost server.
    pub liveness: Liveness,
    /// How long the client tries to reconnect before everything that waits for a connection fails.
    pub recovery_deadline: Duration,
    /// The maximum duration of one attempt, from the first packet to the server's welcome.
    pub attempt_timeout: Duration,
    /// The pause after the first failed attempt; doubles with each further one.
    pub back_off_min: Duration,
    /// The maximum pause. A connection must last this long before the pauses start at the minimum
    /// again.
    pub back_off_max: Duration,
    /// The maximum time that a call waits for its answer, over all connections.
    pub call_wait: Duration,
    /// The maximum number of calls that wait for an answer. Further calls wait until the driver
    /// accepts them.
    pub pending_calls: usize,
    /// The maximum numbers of one stream that wait for the user. If the user reads more slowly,
    /// only that stream fails.
    pub queued_numbers: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            liveness: Liveness::default(),
            recovery_deadline: Duration::from_secs(25),
            attempt_timeout: Duration::from_secs(5),
            back_off_min: Duration::from_millis(50),
            back_off_max: Duration::from_secs(1),
            call_wait: Duration::from_secs(45),
            pending_calls: 64,
            queued_numbers: 4096,
        }
    }
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// How the server detects a lost client.
    pub liveness: Liveness,
    /// The time within which a new connection must send its hello.
    pub hello_deadline: Duration,
    /// How long the server keeps a session without a connection.
    pub session_lifetime: Duration,
    /// The maximum number of sessions. The server refuses further ones.
    pub sessions: usize,
    /// The maximum number of streams that one session may open in its lifetime.
    pub streams: usize,
    /// The number of newest numbers that the server keeps of each stream.
    pub retained_items: usize,
    /// How long the server keeps a stream after the stream's end.
    pub closed_retention: Duration,
    /// The maximum replies that wait for one connection. The server closes a connection that sends
    /// further requests without reading.
    pub queued_replies: usize,
    /// The maximum duration of a lease.
    pub longest_lease: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            liveness: Liveness::default(),
            hello_deadline: Duration::from_secs(5),
            session_lifetime: Duration::from_secs(30),
            sessions: 1024,
            streams: 64,
            retained_items: 1000,
            closed_retention: Duration::from_secs(30),
            queued_replies: 128,
            longest_lease: Duration::from_secs(10),
        }
    }
}
