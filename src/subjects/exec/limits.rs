//! The limits of `exec`, as a table, and the conversions into the limits of the client and the
//! server.

use crate::schedule::{Limit, LimitValue, Limits};
use crate::subject::tables::{limit, millis, secs};
use crate::subjects::wire::wire;
use reknit_exec::limits::{ClientLimits, ServerLimits};

use LimitValue::{Bytes, Count, Flag};

/// All sizes and deadlines.
#[rustfmt::skip]
pub const LIMITS: &[Limit] = &[
    limit("client.ping-interval", secs(8), millis(100), "the silence after which a client pings; its least is more than a packet's way there and back"),
    limit("client.pong-deadline", secs(8), millis(100), "the silence after that ping which ends the connection"),
    limit("client.write-deadline", secs(8), millis(100), "how long a connection may take nothing that a client wants to write"),
    limit("client.message-bytes", Bytes(16 << 20), Bytes(8 << 20), "the longest message that a client reads; its least holds all that a server keeps of a process by default"),
    limit("client.outbox-bytes", Bytes(32 << 20), Bytes(1 << 20), "how many bytes of messages a client lets wait for one connection; its least is more than a write of these scenarios"),
    limit("client.connect-timeout", secs(10), millis(100), "how long one attempt may take to connect"),
    limit("client.initialize-timeout", secs(10), millis(100), "how long the answer to `initialize` may take"),
    limit("client.recovery-deadline", secs(25), millis(0), "how long a client tries to get a connection back; 0: it does not try"),
    limit("client.back-off-min", millis(100), millis(1), "the pause after the first attempt that failed; doubles with each"),
    limit("client.back-off-max", secs(1), millis(1), "the longest pause between two attempts"),
    limit("client.retry-writes", Flag(false), Flag(false), "whether a write in flight at a cut is sent again, under its id; false is the rule of June 2026"),
    limit("client.event-queue", Count(128), Count(1), "how many messages of a connection wait to be looked at; reading stops until there is room"),
    limit("client.reorder-events", Count(256), Count(1), "how many events of a process wait for a lower number; what is furthest is asked for again"),
    limit("client.reorder-bytes", Bytes(1 << 20), Bytes(1), "how many bytes of output these hold"),
    limit("client.gap-wait", secs(1), millis(1), "how long a number may be missing, while connected, before it is asked for"),
    limit("client.log-events", Count(65_536), Count(50_003), "how many events of a process are kept for its subscribers; its least is all that a server keeps by default, which may come at once"),
    limit("client.log-bytes", Bytes(4 << 20), Bytes(1152 << 10), "how many bytes of output these hold; its least, likewise"),
    limit("client.read-retries", Count(5), Count(0), "how often a read is repeated that was refused for a passing reason; 0: never"),
    limit("client.call-wait", secs(60), millis(100), "how long a call may go without an answer, over all connections"),
    limit("client.calls", Count(1024), Count(1), "how many calls may be in flight; those after them wait"),
    limit("client.body-frames", Count(256), Count(256), "how many pieces of an HTTP body wait for their reader; its least, and default, is more than comes before a reader has its turn"),
    limit("client.body-bytes", Bytes(16 << 20), Bytes(1 << 20), "how many bytes these hold; its least, likewise"),
    limit("server.ping-interval", secs(8), millis(100), "the silence after which a server pings"),
    limit("server.pong-deadline", secs(8), millis(100), "the silence after that ping which ends the connection"),
    limit("server.write-deadline", secs(8), millis(100), "how long a connection may take nothing that a server wants to write"),
    limit("server.message-bytes", Bytes(16 << 20), Bytes(1 << 20), "the longest message that a server reads; its least is more than a write of these scenarios"),
    limit("server.outbox-bytes", Bytes(32 << 20), Bytes(8 << 20), "how many bytes of messages a server lets wait for one connection; its least holds the longest answer"),
    limit("server.handshake-deadline", secs(10), millis(100), "how long a new connection may take to say `initialize`"),
    limit("server.detached-lifetime", secs(30), millis(1), "how long a session without a connection is kept; at its least, a lost connection is a lost session"),
    limit("server.catch-up-grace", secs(5), millis(0), "how long after a resume output from before is held for a client that has not read it yet; 0: not at all"),
    limit("server.closed-retention", secs(30), millis(1), "how long a closed process is readable"),
    limit("server.retained-bytes", Bytes(1 << 20), Bytes(1), "how many bytes of output a process keeps; 1: its newest chunk only"),
    limit("server.retained-chunks", Count(50_000), Count(1), "how many chunks of output a process keeps; 1: its newest only"),
    limit("server.outbound-queue", Count(128), Count(1), "how many events of a process wait to be sent, while connected; its output waits, then"),
    limit("server.stdin-bytes", Bytes(256 << 10), Bytes(1), "how many bytes wait for the standard input of a process; writes wait, then"),
    limit("server.write-ids", Count(4096), Count(1), "how many ids of writes a process remembers"),
    limit("server.connections", Count(4096), Count(8), "how many connections there may be"),
    limit("server.sessions", Count(1024), Count(8), "how many sessions there may be"),
    limit("server.processes", Count(1024), Count(8), "how many processes one session may have, closed ones that are readable included"),
    limit("server.waiting-requests", Count(128), Count(1), "how many requests of a connection may wait for something"),
    limit("server.http-body-bytes", Bytes(8 << 20), Bytes(1), "how many bytes of an HTTP response are read where it is not streamed"),
];

/// Converts the table into the limits of a client.
pub fn client_limits(limits: &Limits) -> ClientLimits {
    let count = |name: &str| limits.count(name) as usize;
    ClientLimits {
        wire: wire(limits, "client"),
        connect_timeout: limits.duration("client.connect-timeout"),
        initialize_timeout: limits.duration("client.initialize-timeout"),
        recovery_deadline: limits.duration("client.recovery-deadline"),
        back_off_min: limits.duration("client.back-off-min"),
        back_off_max: limits.duration("client.back-off-max"),
        retry_writes: limits.flag("client.retry-writes"),
        event_queue: count("client.event-queue"),
        reorder_events: count("client.reorder-events"),
        reorder_bytes: count("client.reorder-bytes"),
        gap_wait: limits.duration("client.gap-wait"),
        log_events: count("client.log-events"),
        log_bytes: count("client.log-bytes"),
        read_retries: count("client.read-retries") as u32,
        call_wait: limits.duration("client.call-wait"),
        calls: count("client.calls"),
        body_frames: count("client.body-frames"),
        body_bytes: count("client.body-bytes"),
    }
}

/// Converts the table into the limits of a server.
pub fn server_limits(limits: &Limits) -> ServerLimits {
    let count = |name: &str| limits.count(name) as usize;
    ServerLimits {
        wire: wire(limits, "server"),
        handshake_deadline: limits.duration("server.handshake-deadline"),
        detached_lifetime: limits.duration("server.detached-lifetime"),
        catch_up_grace: limits.duration("server.catch-up-grace"),
        closed_retention: limits.duration("server.closed-retention"),
        retained_bytes: count("server.retained-bytes"),
        retained_chunks: count("server.retained-chunks"),
        outbound_queue: count("server.outbound-queue"),
        stdin_bytes: count("server.stdin-bytes"),
        write_ids: count("server.write-ids"),
        connections: count("server.connections"),
        sessions: count("server.sessions"),
        processes: count("server.processes"),
        waiting_requests: count("server.waiting-requests"),
        http_body_bytes: count("server.http-body-bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_defaults_of_the_product() {
        let limits = Limits::default().over(LIMITS);
        assert_eq!(client_limits(&limits), ClientLimits::default());
        assert_eq!(server_limits(&limits), ServerLimits::default());
        assert!(
            LIMITS
                .iter()
                .all(|limit| limit.default.same_kind(&limit.least) && limit.least <= limit.default)
        );
    }
}
