//! The limits of `sse`, and their conversion to those of the product code.

use crate::schedule::{Limit, LimitValue, Limits};
use crate::subject::tables::{limit, millis, secs};
use reknit_sse::limits::{ClientLimits, ServerLimits};

use LimitValue::{Bytes, Count};

/// All sizes and deadlines.
#[rustfmt::skip]
pub const LIMITS: &[Limit] = &[
    limit("client.budget", secs(60), millis(1), "how long a follower tries to make progress before it fails; longer than `server.takeover-after`"),
    limit("client.open-timeout", secs(10), millis(100), "how long one attempt may take, from its connection to the head of the answer"),
    limit("client.silence", secs(10), millis(100), "after how long without a byte a connection counts as dead; several times `server.heartbeat`"),
    limit("client.min-pause", millis(100), millis(1), "the shortest pause between two attempts, except the first"),
    limit("client.max-pause", secs(5), millis(1), "the longest pause between two attempts, unless the server asks for a longer one"),
    limit("client.frame-bytes", Bytes(1 << 20), Bytes(1 << 16), "the maximum size of one event on the wire; the minimum holds the longest line with its frame"),
    limit("client.answer-bytes", Bytes(8 << 20), Bytes(4096), "the maximum size of an answer that is not a stream"),
    limit("client.read-buffer", Bytes(64 << 10), Bytes(8192), "how many bytes are read from a connection at a time"),
    limit("server.retained-bytes", Bytes(8 << 20), Bytes(1), "how many bytes of its newest output a command retains; the newest event always stays"),
    limit("server.retained-events", Count(65_536), Count(1), "how many events a command retains; 1: only the newest"),
    limit("server.hold", millis(0), millis(0), "how long a command may wait for its stream; 0: never, so a slow reader receives a gap"),
    limit("server.in-flight", Bytes(4 << 20), Bytes(1), "how many bytes the buffers between server and client may hold; with `server.hold`, they do not count as received"),
    limit("server.ended-retention", secs(300), millis(1), "how long a command retains its log after its ending"),
    limit("server.running-commands", Count(64), Count(1), "how many commands may run at a time; further starts are refused"),
    limit("server.ended-commands", Count(256), Count(0), "how many ended commands retain their logs; 0: none"),
    limit("server.ended-bytes", Bytes(128 << 20), Bytes(1), "how many bytes the logs of all ended commands may hold"),
    limit("server.forgotten-commands", Count(4096), Count(1), "how many commands without a log the server remembers"),
    limit("server.sessions", Count(64), Count(1), "how many shell sessions may exist"),
    limit("server.line-bytes", Bytes(16 << 10), Bytes(4), "the maximum size of one output event; a longer line becomes several events"),
    limit("server.heartbeat", secs(3), millis(10), "the pause between two signs of life on a stream without events"),
    limit("server.takeover-after", secs(10), millis(1), "after how long without progress another client can replace a stream; longer than `server.heartbeat`"),
    limit("server.write-deadline", secs(30), millis(100), "how long a connection may refuse to take bytes before the server closes it"),
    limit("server.head-deadline", secs(10), millis(100), "how long a client may take to send the head of a request"),
    limit("server.body-deadline", secs(10), millis(100), "how long a client may take to send the body of a request"),
    limit("server.body-bytes", Bytes(1 << 20), Bytes(4096), "the maximum size of the body of a request"),
    limit("server.connections", Count(256), Count(4), "how many connections may be open"),
    limit("server.write-buffer", Bytes(64 << 10), Bytes(8192), "how many bytes wait in the server for one connection to take them"),
    limit("server.batch-bytes", Bytes(32 << 10), Bytes(1), "how many bytes of output a stream takes from the log at a time; at least one event"),
    limit("server.logs-bytes", Bytes(1 << 20), Bytes(1), "how many bytes of output one answer with logs holds; at least one event"),
    limit("server.interrupt-grace", secs(3), millis(1), "how long an interrupted command may take to end before it is killed"),
    limit("server.retry", secs(1), millis(1), "after what time a standard client should reconnect"),
];

/// Returns the limits of a client.
pub fn client(limits: &Limits) -> ClientLimits {
    ClientLimits {
        budget: limits.duration("client.budget"),
        open_timeout: limits.duration("client.open-timeout"),
        silence: limits.duration("client.silence"),
        min_pause: limits.duration("client.min-pause"),
        max_pause: limits.duration("client.max-pause"),
        frame_bytes: limits.count("client.frame-bytes") as usize,
        answer_bytes: limits.count("client.answer-bytes") as usize,
        read_buffer: limits.count("client.read-buffer") as usize,
    }
}

/// Returns the limits of a server.
pub fn server(limits: &Limits) -> ServerLimits {
    let count = |name: &str| limits.count(name) as usize;
    ServerLimits {
        retained_bytes: count("server.retained-bytes"),
        retained_events: count("server.retained-events"),
        hold: limits.duration("server.hold"),
        in_flight: count("server.in-flight"),
        ended_retention: limits.duration("server.ended-retention"),
        running_commands: count("server.running-commands"),
        ended_commands: count("server.ended-commands"),
        ended_bytes: count("server.ended-bytes"),
        forgotten_commands: count("server.forgotten-commands"),
        sessions: count("server.sessions"),
        line_bytes: count("server.line-bytes"),
        heartbeat: limits.duration("server.heartbeat"),
        takeover_after: limits.duration("server.takeover-after"),
        write_deadline: limits.duration("server.write-deadline"),
        head_deadline: limits.duration("server.head-deadline"),
        body_deadline: limits.duration("server.body-deadline"),
        body_bytes: count("server.body-bytes"),
        connections: count("server.connections"),
        write_buffer: count("server.write-buffer"),
        batch_bytes: count("server.batch-bytes"),
        logs_bytes: count("server.logs-bytes"),
        interrupt_grace: limits.duration("server.interrupt-grace"),
        retry: limits.duration("server.retry"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_defaults_of_the_product() {
        let limits = Limits::default().over(LIMITS);
        assert_eq!(client(&limits), ClientLimits::default());
        assert_eq!(server(&limits), ServerLimits::default());
    }
}
