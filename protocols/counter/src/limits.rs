//! Every size and deadline of the two ends.

use std::time::Duration;

/// How an end notices that its peer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// After this much silence the peer is pinged.
    pub ping_interval: Duration,
    /// After this much more silence the connection is given up.
    pub pong_deadline: Duration,
    /// A connection that takes no byte for this long, while there is something to write, is given up.
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
    /// How it notices a dead server.
    pub liveness: Liveness,
    /// How long it tries to get a connection back before everything that waits for one fails.
    pub recovery_deadline: Duration,
    /// How long one attempt may take, from the first packet to the server's welcome.
    pub attempt_timeout: Duration,
    /// The pause after the first attempt that failed; it doubles with each.
    pub back_off_min: Duration,
    /// The longest pause. A connection must live this long before pauses start small again.
    pub back_off_max: Duration,
    /// How long a call waits for its answer, over all connections.
    pub call_wait: Duration,
    /// How many calls may wait for an answer; those after them wait to be taken.
    pub pending_calls: usize,
    /// How many numbers of one stream may wait for the user. A stream whose user is slower fails, alone.
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
    /// How it notices a dead client.
    pub liveness: Liveness,
    /// How long a new connection may take to say hello.
    pub hello_deadline: Duration,
    /// How long a session without a connection is kept.
    pub session_lifetime: Duration,
    /// How many sessions there may be; the next one is refused.
    pub sessions: usize,
    /// How many streams one session may open in its life.
    pub streams: usize,
    /// How many of its newest numbers each stream keeps.
    pub retained_items: usize,
    /// How long a stream is kept after its end.
    pub closed_retention: Duration,
    /// How many replies may wait for one connection. One that asks more without reading is closed.
    pub queued_replies: usize,
    /// The longest lease.
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
