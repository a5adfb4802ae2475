//! Every size and deadline of the client and the server, with its default.
//!
//! The windows are those of codex 0.169.0: a client tries to reconnect for 45 s, and a server keeps
//! a detached session and a closed process for 80 s. Each side starts its clock when it detects the
//! loss itself, and the server may detect it earlier than the client. So the client's window must be
//! shorter than the server's, by more than the difference: a link with the default
//! [`WireLimits`] is detected as dead after at most 16 s.

use std::time::Duration;

pub use reknit_jsonrpc::WireLimits;
use reknit_resume::EVER;
use reknit_seams::defect;

/// For defects: the same limits for an end that sends pings, but needs no answer to them.
pub(crate) fn without_deadline(limits: WireLimits) -> WireLimits {
    WireLimits { pong_deadline: EVER, write_deadline: EVER, ..limits }
}

use crate::wire::flow::FlowWindow;

/// The limits of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Limits of one connection.
    pub wire: WireLimits,
    /// The timeout of one connection attempt, including the WebSocket handshake.
    pub connect_timeout: Duration,
    /// The timeout of the answer to `initialize`.
    pub initialize_timeout: Duration,
    /// How long the client tries to reconnect, counted from the moment it detects the loss. It must
    /// be shorter than the server's [`detached_lifetime`](ServerLimits::detached_lifetime).
    pub recovery_deadline: Duration,
    /// The pause after the first failed attempt; it doubles with each further failure.
    pub back_off_min: Duration,
    /// The longest pause.
    pub back_off_max: Duration,
    /// Whether the client resends a write that was in flight when the connection was lost, with the
    /// same id. The rule of June 2026 is not to resend.
    pub retry_writes: bool,
    /// How many received messages of one connection may wait to be processed. The client stops
    /// reading until there is room.
    pub event_queue: usize,
    /// How many early events of one process may wait for an event with a lower number.
    pub reorder_events: usize,
    /// How many bytes of output these early events may hold.
    pub reorder_bytes: usize,
    /// How long a lower number may be missing, while connected, before the client reads it from the
    /// server.
    pub gap_wait: Duration,
    /// How many events of one process the client keeps for its subscribers. Beyond that, the slowest
    /// subscriber slows its process down, or the client reads the events again later: see
    /// [`client`](crate::client#slow-subscribers).
    pub log_events: usize,
    /// How many bytes of output these events may hold. A single event always fits.
    pub log_bytes: usize,
    /// How often the client retries a read that the server refused for a transient reason, or whose
    /// answer may be too long.
    pub read_retries: u32,
    /// How long a call may wait for its answer, over all connections. The wait that the call
    /// requests from the server is added to this.
    pub call_wait: Duration,
    /// How many calls may be in flight; further calls wait.
    pub calls: usize,
    /// How many pieces of one HTTP body may wait for its reader. If a reader is slower, only its
    /// body fails.
    pub body_frames: usize,
    /// How many bytes these pieces may hold.
    pub body_bytes: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            wire: WireLimits::default(),
            connect_timeout: Duration::from_secs(10),
            initialize_timeout: Duration::from_secs(10),
            recovery_deadline: Duration::from_secs(45),
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

impl ClientLimits {
    /// Returns the window that the client offers for flow control: what its log holds, besides the
    /// exit and the close.
    pub fn flow_window(&self) -> FlowWindow {
        let (bytes, events) = (self.log_bytes as u64, self.log_events as u64);
        let ends = if defect!(WindowWithoutEnds) { 0 } else { 2 };
        FlowWindow { window_bytes: bytes, window_chunks: events.saturating_sub(ends) }
    }
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Limits of one connection.
    pub wire: WireLimits,
    /// How long a new connection may take to send `initialize`, including the HTTP handshake.
    pub handshake_deadline: Duration,
    /// How long the server keeps a session that has no connection, counted from the moment it
    /// detects the loss.
    pub detached_lifetime: Duration,
    /// How long after a resume the server holds earlier output for a client that has not read it
    /// yet.
    pub catch_up_grace: Duration,
    /// How long a closed process remains readable.
    pub closed_retention: Duration,
    /// How many bytes of its newest output each process retains. The newest chunk is always
    /// retained, whatever its size.
    pub retained_bytes: usize,
    /// How many chunks of output each process retains.
    pub retained_chunks: usize,
    /// Whether the server controls the flow of each process if the client supports it: see
    /// [`flow`](crate::wire::flow).
    pub flow_control: bool,
    /// How many events of one process may wait to be sent while a client is attached. Beyond that
    /// the server stops reading the process's output.
    pub outbound_queue: usize,
    /// How many bytes may wait for the standard input of one process. Beyond that, writes wait.
    pub stdin_bytes: usize,
    /// How many ids of accepted writes each process remembers, because their client may repeat
    /// them. Beyond that, writes wait.
    pub write_ids: usize,
    /// How long a connection must last until its client no longer repeats writes of earlier
    /// connections: longer than a client waits for the answer to a call.
    pub write_repetition: Duration,
    /// The maximum number of connections. Beyond it, a new connection takes the place of one that is
    /// not initialized yet.
    pub connections: usize,
    /// The maximum number of sessions. Beyond it, a new session takes the place of a detached one of
    /// a host that has more than its share.
    pub sessions: usize,
    /// The maximum number of sessions of one host.
    pub peer_sessions: usize,
    /// The maximum number of processes in one session, including closed ones that are still
    /// readable.
    pub processes: usize,
    /// How many requests of one connection may wait. The server refuses further requests that have
    /// to wait; it still answers all others.
    pub waiting_requests: usize,
    /// How many bytes these requests may hold, if they are more than one.
    pub waiting_bytes: usize,
    /// How many HTTP requests of one connection are in progress at a time; further ones wait.
    pub http_requests: usize,
    /// How many bytes of one HTTP response the server reads if the response is not streamed.
    pub http_body_bytes: usize,
    /// The maximum number of open files of one connection.
    pub file_handles: usize,
    /// How many bytes of a file the server reads for one answer. In base64 it must fit into a
    /// message of the client.
    pub file_bytes: usize,
    /// How many entries of a directory the server lists for one answer.
    pub directory_entries: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        let eighty = Duration::from_secs(80);
        Self {
            wire: WireLimits::default(),
            handshake_deadline: Duration::from_secs(10),
            detached_lifetime: eighty,
            catch_up_grace: Duration::from_secs(5),
            closed_retention: eighty,
            retained_bytes: 1 << 20,
            retained_chunks: 50_000,
            flow_control: true,
            outbound_queue: 128,
            stdin_bytes: 256 << 10,
            write_ids: 4096,
            write_repetition: Duration::from_secs(60),
            connections: 4096,
            sessions: 2048,
            peer_sessions: 1024,
            processes: 1024,
            waiting_requests: 4096,
            waiting_bytes: 32 << 20,
            http_requests: 128,
            http_body_bytes: 8 << 20,
            file_handles: 128,
            file_bytes: 11 << 20,
            directory_entries: 50_000,
        }
    }
}

/// The smallest window for flow control. A process with a smaller one would wait for its client
/// after every few chunks, so the server does not control its flow.
const LEAST_WINDOW: FlowWindow = FlowWindow { window_bytes: 64 << 10, window_chunks: 256 };

impl ServerLimits {
    /// Returns the window for flow control with a client that offers this one: at most what the
    /// server retains of a process. `None` if the server does not control the flow.
    pub fn flow_window(&self, offered: FlowWindow) -> Option<FlowWindow> {
        let retained = FlowWindow {
            window_bytes: offered.window_bytes.min(self.retained_bytes as u64),
            window_chunks: offered.window_chunks.min(self.retained_chunks as u64),
        };
        let window = if defect!(WindowBeyondRetention) { offered } else { retained };
        let has_bytes = window.window_bytes >= LEAST_WINDOW.window_bytes;
        let has_chunks = window.window_chunks >= LEAST_WINDOW.window_chunks;
        let is_enough =
            has_bytes && has_chunks || defect!(HalfAWindowIsEnough) && (has_bytes || has_chunks);
        (self.flow_control && is_enough).then_some(window)
    }
}
