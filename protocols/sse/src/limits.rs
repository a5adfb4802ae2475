//! Every size and deadline of the server and of the client, with its default.
//!
//! A server holds at most the logs of the running commands
//! ([`running_commands`](ServerLimits::running_commands) ×
//! ([`retained_bytes`](ServerLimits::retained_bytes) + [`body_bytes`](ServerLimits::body_bytes))), those of the ended commands
//! ([`ended_bytes`](ServerLimits::ended_bytes)), and for each of the
//! [`connections`](ServerLimits::connections) one request and the buffers of one connection.

use std::time::Duration;

use reknit_resume::Bounds;

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// How many bytes of its newest output each command retains. Each event counts with its output
    /// and a fixed size for the rest. The newest event always stays.
    pub retained_bytes: usize,
    /// How many events each command retains.
    pub retained_events: usize,
    /// How long a command may wait for its client, if the log has no room for output without the
    /// loss of events that the client may not have. Zero: a command never waits, and a client that is
    /// too slow, or away, receives a gap. Otherwise a cut loses nothing if the client returns in this
    /// time. The time counts from the last progress of the stream: a stream that is only slow holds its
    /// command back, one that is stuck or lost holds it for this time. A command does not wait before
    /// its first stream. Its ending never waits. Output leaves room in the log for the ending, so a log
    /// should hold at least two events. A smaller one loses the last output to the ending.
    pub hold: Duration,
    /// How many bytes the buffers between server and client may hold. They are lost if the connection
    /// breaks, so with [`hold`](Self::hold) they do not count as received. Linux buffers up to 10 MB
    /// for each connection, by default, and a proxy makes two connections of one. Should be at most half
    /// of [`retained_bytes`](Self::retained_bytes): a command with less room goes in step with its
    /// client, and a cut can cause a gap.
    pub in_flight: usize,
    /// How long a command retains its log after its terminal event.
    pub ended_retention: Duration,
    /// How many commands may run at the same time. Further starts are refused.
    pub running_commands: usize,
    /// How many ended commands retain their logs. Beyond that, the log of the command that ended
    /// first is dropped early.
    pub ended_commands: usize,
    /// How many bytes the logs and the requests of all ended commands may hold, in the same way.
    pub ended_bytes: usize,
    /// How many commands without a log the server remembers, so that a late repetition of a start does
    /// not run a command again.
    pub forgotten_commands: usize,
    /// How many shell sessions may exist. Further ones are refused.
    pub sessions: usize,
    /// The maximum size of one output event. A longer line becomes several events. At least 4.
    pub line_bytes: usize,
    /// The pause between two signs of life on a stream without events.
    pub heartbeat: Duration,
    /// After how long without progress a stream can be replaced by another client. Progress means
    /// that the connection took bytes. Should be longer than [`heartbeat`](Self::heartbeat).
    pub takeover_after: Duration,
    /// How long a connection may refuse to take more bytes before the server closes it.
    pub write_deadline: Duration,
    /// How long a client may take to send the head of a request, also on a connection that it uses
    /// again.
    pub head_deadline: Duration,
    /// How long a client may take to send the body of a request.
    pub body_deadline: Duration,
    /// The maximum size of the body of a request.
    pub body_bytes: usize,
    /// How many connections may be open. Beyond that, a new connection is closed at once.
    pub connections: usize,
    /// How many bytes wait in the server for one connection to take them. At least 8192.
    pub write_buffer: usize,
    /// How many bytes of output a stream takes from the log at a time. At least one event.
    pub batch_bytes: usize,
    /// How many bytes of output one answer with logs holds. At least one event.
    pub logs_bytes: usize,
    /// How long an interrupted command may take to end before it is killed.
    pub interrupt_grace: Duration,
    /// After what time a standard client should reconnect: the field `retry:`.
    pub retry: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            retained_bytes: 8 << 20,
            retained_events: 65_536,
            hold: Duration::ZERO,
            in_flight: 4 << 20,
            ended_retention: Duration::from_secs(300),
            running_commands: 64,
            ended_commands: 256,
            ended_bytes: 128 << 20,
            forgotten_commands: 4096,
            sessions: 64,
            line_bytes: 16 << 10,
            heartbeat: Duration::from_secs(3),
            takeover_after: Duration::from_secs(10),
            write_deadline: Duration::from_secs(30),
            head_deadline: Duration::from_secs(10),
            body_deadline: Duration::from_secs(10),
            body_bytes: 1 << 20,
            connections: 256,
            write_buffer: 64 << 10,
            batch_bytes: 32 << 10,
            logs_bytes: 1 << 20,
            interrupt_grace: Duration::from_secs(3),
            retry: Duration::from_secs(1),
        }
    }
}

impl ServerLimits {
    /// Returns what the log of one command retains.
    pub fn log_bounds(&self) -> Bounds {
        Bounds { items: self.retained_events, weight: self.retained_bytes }
    }
}

/// The limits of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// How long a follower tries to make progress before it fails. Progress is a new event or gap, the
    /// confirmation of a start, or a sign of life on a stream. The time counts from the loss, and starts
    /// anew with each progress. A stream that begins before its end has [`silence`](Self::silence) for that.
    pub budget: Duration,
    /// How long one attempt may take, from its connection to the head of the answer; for a request with a
    /// short answer, to its end.
    pub open_timeout: Duration,
    /// After how long without a byte a connection counts as dead. Should be several times the
    /// [`heartbeat`](ServerLimits::heartbeat) of the server.
    pub silence: Duration,
    /// The shortest pause between two attempts, except the first: that one follows at once.
    pub min_pause: Duration,
    /// The longest pause between two attempts, unless the server asks for a longer one.
    pub max_pause: Duration,
    /// The maximum size of one event on the wire. A larger one ends its connection.
    pub frame_bytes: usize,
    /// The maximum size of an answer that is not a stream.
    pub answer_bytes: usize,
    /// How many bytes hyper reads from a connection at a time. At least 8192.
    pub read_buffer: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            budget: Duration::from_secs(60),
            open_timeout: Duration::from_secs(10),
            silence: Duration::from_secs(10),
            min_pause: Duration::from_millis(100),
            max_pause: Duration::from_secs(5),
            frame_bytes: 1 << 20,
            answer_bytes: 8 << 20,
            read_buffer: 64 << 10,
        }
    }
}
