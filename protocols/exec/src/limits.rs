//! Every size and deadline of the two ends, with its default.

use std::time::Duration;

pub use reknit_jsonrpc::WireLimits;

/// The limits of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// What it keeps to on one connection.
    pub wire: WireLimits,
    /// How long one attempt may take to connect, the WebSocket handshake included.
    pub connect_timeout: Duration,
    /// How long the answer to `initialize` may take.
    pub initialize_timeout: Duration,
    /// How long the client tries to get a connection back, from the moment in which it knows of the loss.
    pub recovery_deadline: Duration,
    /// The pause after the first attempt that failed; it doubles with each.
    pub back_off_min: Duration,
    /// The longest pause.
    pub back_off_max: Duration,
    /// Whether a write that was in flight at a cut is sent again, under the same id. The rule of June 2026 is not to.
    pub retry_writes: bool,
    /// How many messages of one connection may wait to be looked at. Reading stops until there is room.
    pub event_queue: usize,
    /// How many events of one process may wait for a lower number.
    pub reorder_events: usize,
    /// How many bytes of output these may hold.
    pub reorder_bytes: usize,
    /// How long a lower number may be missing, while connected, before it is asked for.
    pub gap_wait: Duration,
    /// How many events of one process are kept for its subscribers.
    pub log_events: usize,
    /// How many bytes of output these may hold.
    pub log_bytes: usize,
    /// How often a read is repeated that was refused for a reason that may pass.
    pub read_retries: u32,
    /// How long a call may go without an answer, over all connections; what it asks the server to wait comes on top.
    pub call_wait: Duration,
    /// How many calls may be in flight; those after them wait.
    pub calls: usize,
    /// How many pieces of one HTTP body may wait for its reader. A slower reader's body fails, alone.
    pub body_frames: usize,
    /// How many bytes these may hold.
    pub body_bytes: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            wire: WireLimits::default(),
            connect_timeout: Duration::from_secs(10),
            initialize_timeout: Duration::from_secs(10),
            recovery_deadline: Duration::from_secs(25),
            back_off_min: Duration::from_millis(100),
            back_off_max: Duration::from_secs(1),
            retry_writes: false,
            event_queue: 128,
            reorder_events: 256,
            reorder_bytes: 1 << 20,
            gap_wait: Duration::from_secs(1),
            log_events: 65_536,
            log_bytes: 4 << 20,
            read_retries: 5,
            call_wait: Duration::from_secs(60),
            calls: 1024,
            body_frames: 256,
            body_bytes: 16 << 20,
        }
    }
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// What it keeps to on one connection.
    pub wire: WireLimits,
    /// How long a new connection may take to say `initialize`, the HTTP part included.
    pub handshake_deadline: Duration,
    /// How long a session without a connection is kept.
    pub detached_lifetime: Duration,
    /// After a resume, how long output that was kept from before is held for a client that has not read it yet.
    pub catch_up_grace: Duration,
    /// How long a closed process is readable.
    pub closed_retention: Duration,
    /// How many bytes of the newest output each process keeps; the newest chunk is kept, however long.
    pub retained_bytes: usize,
    /// How many chunks.
    pub retained_chunks: usize,
    /// How many events of one process may wait to be sent, while somebody is there to send them to. Output waits, then.
    pub outbound_queue: usize,
    /// How many bytes may wait for the standard input of one process. Writes wait, then.
    pub stdin_bytes: usize,
    /// How many ids of writes each process remembers.
    pub write_ids: usize,
    /// How many connections there may be.
    pub connections: usize,
    /// How many sessions.
    pub sessions: usize,
    /// How many processes in one session, closed ones that are still readable included.
    pub processes: usize,
    /// How many requests of one connection may wait for something.
    pub waiting_requests: usize,
    /// How many bytes of one HTTP response are read where it is not streamed.
    pub http_body_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        let thirty = Duration::from_secs(30);
        Self {
            wire: WireLimits::default(),
            handshake_deadline: Duration::from_secs(10),
            detached_lifetime: thirty,
            catch_up_grace: Duration::from_secs(5),
            closed_retention: thirty,
            retained_bytes: 1 << 20,
            retained_chunks: 50_000,
            outbound_queue: 128,
            stdin_bytes: 256 << 10,
            write_ids: 4096,
            connections: 4096,
            sessions: 1024,
            processes: 1024,
            waiting_requests: 128,
            http_body_bytes: 8 << 20,
        }
    }
}
