//! The limits of `exec`, as a table, their profiles, and the conversions into the limits of the client and the
//! server.

use crate::schedule::{Limit, LimitProfile, LimitValue, Limits};
use crate::subject::tables::{limit, limit_profile, millis, secs};
use crate::subjects::wire::wire;
use reknit_exec::limits::{ClientLimits, ServerLimits};

use LimitValue::{Bytes, Count, Flag};

/// All sizes and deadlines.
#[rustfmt::skip]
pub const LIMITS: &[Limit] = &[
    limit("client.ping-interval", secs(8), millis(100), "time without inbound data before the client sends a ping; the minimum is longer than a round trip"),
    limit("client.pong-deadline", secs(8), millis(100), "time without inbound data after the ping before the connection is closed"),
    limit("client.write-deadline", secs(8), millis(100), "how long a client's write may make no progress before the client closes the connection"),
    limit("client.message-bytes", Bytes(16 << 20), Bytes(8 << 20), "the longest message that the client accepts; the minimum holds all output that a server retains for a process by default"),
    limit("client.outbox-bytes", Bytes(32 << 20), Bytes(1 << 20), "the maximum number of bytes of messages that the client queues for one connection; the minimum exceeds the largest write of the scenarios"),
    limit("client.connect-timeout", secs(10), millis(100), "the timeout of one connection attempt"),
    limit("client.initialize-timeout", secs(10), millis(100), "the timeout of the response to `initialize`"),
    limit("client.recovery-deadline", secs(45), millis(0), "how long the client tries to reconnect, counted from its detection of the loss; less than `server.detached-lifetime`, because each side counts from its own detection; 0: it does not try"),
    limit("client.back-off-min", millis(100), millis(1), "the pause after the first failed attempt; it doubles after each further failure"),
    limit("client.back-off-max", secs(1), millis(1), "the maximum pause between two attempts"),
    limit("client.retry-writes", Flag(false), Flag(false), "whether the client sends a write again, with the same id, if the connection was lost while it was in flight; false is the rule of June 2026"),
    limit("client.event-queue", Count(128), Count(1), "the maximum number of messages of a connection that wait to be processed; reading pauses while the queue is full"),
    limit("client.reorder-events", Count(256), Count(1), "the maximum number of events of a process that wait for an event with a lower number; above it, the client drops the highest ones and reads them again"),
    limit("client.reorder-bytes", Bytes(1 << 20), Bytes(1), "the maximum number of bytes of output in these events"),
    limit("client.gap-wait", secs(1), millis(1), "how long an event number may be missing, while connected, before the client reads the event"),
    limit("client.log-events", Count(65_536), Count(1), "the maximum number of events of a process that the client keeps for its subscribers; above it, a slow subscriber holds its process, or the client reads the events again later"),
    limit("client.log-bytes", Bytes(4 << 20), Bytes(16 << 10), "the maximum number of bytes of output in these events; at least two chunks, so that the client can read on while its user takes an event"),
    limit("client.read-retries", Count(5), Count(0), "how often the client repeats a read after a temporary error, or after a message that was too long; 0: never"),
    limit("client.call-wait", secs(60), millis(100), "the timeout of a call, over all connections"),
    limit("client.calls", Count(1024), Count(1), "the maximum number of calls in flight; further calls wait"),
    limit("client.body-frames", Count(256), Count(256), "the maximum number of pieces of an HTTP body that wait for their reader; the minimum, and default, exceeds what arrives before the reader runs"),
    limit("client.body-bytes", Bytes(16 << 20), Bytes(1 << 20), "the maximum number of bytes in these pieces; the same minimum applies"),
    limit("server.ping-interval", secs(8), millis(100), "time without inbound data before the server sends a ping"),
    limit("server.pong-deadline", secs(8), millis(100), "time without inbound data after the ping before the connection is closed"),
    limit("server.write-deadline", secs(8), millis(100), "how long a server's write may make no progress before the server closes the connection"),
    limit("server.message-bytes", Bytes(16 << 20), Bytes(1 << 20), "the longest message that the server accepts; the minimum exceeds the largest write of the scenarios"),
    limit("server.outbox-bytes", Bytes(32 << 20), Bytes(8 << 20), "the maximum number of bytes of messages that the server queues for one connection; the minimum holds the longest response"),
    limit("server.handshake-deadline", secs(10), millis(100), "how long a new connection may take to send `initialize`"),
    limit("server.detached-lifetime", secs(80), millis(1), "how long the server keeps a session without a connection; at the minimum, a lost connection ends its session"),
    limit("server.catch-up-grace", secs(5), millis(0), "how long after a resume the server keeps older output for a client that has not read it yet; 0: not at all"),
    limit("server.closed-retention", secs(80), millis(1), "how long the server keeps a closed process readable"),
    limit("server.retained-bytes", Bytes(1 << 20), Bytes(1), "the maximum number of bytes of output that the server retains for a process; 1: only the newest chunk"),
    limit("server.retained-chunks", Count(50_000), Count(1), "the maximum number of chunks of output that the server retains for a process; 1: only the newest"),
    limit("server.flow-control", Flag(true), Flag(false), "whether the server holds a process whose output its client does not consume, instead of dropping output; false is the rule of codex"),
    limit("server.outbound-queue", Count(128), Count(1), "the maximum number of unsent events of a process while connected; above it, the server stops reading the output of the process"),
    limit("server.stdin-bytes", Bytes(256 << 10), Bytes(1), "the maximum number of bytes queued for the standard input of a process; further writes wait"),
    limit("server.write-ids", Count(4096), Count(1), "the maximum number of write ids that the server remembers for a process, because their client may repeat the writes; further writes wait"),
    limit("server.write-repetition", secs(60), millis(100), "how long a connection must last until the server forgets the write ids of earlier connections; as long as `client.call-wait`, or longer"),
    limit("server.connections", Count(4096), Count(8), "the maximum number of connections; above it, a new connection takes the place of one that is not initialized yet"),
    limit("server.sessions", Count(2048), Count(8), "the maximum number of sessions; above it, a new session takes the place of a detached one of a host that has more than its share"),
    limit("server.peer-sessions", Count(1024), Count(4), "the maximum number of sessions of one client host"),
    limit("server.processes", Count(1024), Count(1), "the maximum number of processes of one session, including closed processes that are still readable"),
    limit("server.waiting-requests", Count(4096), Count(1), "the maximum number of requests of a connection that wait for something; the server refuses further ones that have to wait"),
    limit("server.waiting-bytes", Bytes(32 << 20), Bytes(1), "the maximum number of bytes in these requests, if they are more than one"),
    limit("server.http-requests", Count(128), Count(1), "the maximum number of HTTP requests of a connection that are in progress at a time; further ones wait"),
    limit("server.http-body-bytes", Bytes(8 << 20), Bytes(1), "the maximum number of bytes of an HTTP response that is not streamed"),
    limit("server.file-handles", Count(128), Count(1), "the maximum number of open files of one connection"),
    limit("server.file-bytes", Bytes(11 << 20), Bytes(1), "the maximum number of bytes of a file that is read in one response"),
    limit("server.directory-entries", Count(50_000), Count(1), "the maximum number of entries of a directory that is listed in one response"),
];

/// The profiles of these limits.
pub const PROFILES: &[LimitProfile] = &[limit_profile(
    "seed",
    "the windows of June 2026, when the original learned to reconnect",
    &[
        ("client.recovery-deadline", secs(25)),
        ("server.detached-lifetime", secs(30)),
        ("server.closed-retention", secs(30)),
    ],
)];

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
        flow_control: limits.flag("server.flow-control"),
        outbound_queue: count("server.outbound-queue"),
        stdin_bytes: count("server.stdin-bytes"),
        write_ids: count("server.write-ids"),
        write_repetition: limits.duration("server.write-repetition"),
        connections: count("server.connections"),
        sessions: count("server.sessions"),
        peer_sessions: count("server.peer-sessions"),
        processes: count("server.processes"),
        waiting_requests: count("server.waiting-requests"),
        waiting_bytes: count("server.waiting-bytes"),
        http_requests: count("server.http-requests"),
        http_body_bytes: count("server.http-body-bytes"),
        file_handles: count("server.file-handles"),
        file_bytes: count("server.file-bytes"),
        directory_entries: count("server.directory-entries"),
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

    /// Each side starts its clock at its own detection, so the client's window is the shorter one.
    #[test]
    fn the_windows_of_each_profile_fit_together() {
        let profiles = PROFILES.iter().map(|profile| profile.limits().collect());
        for limits in profiles.chain([Limits::default().0]) {
            let limits = Limits(limits).over(LIMITS);
            let (client, server) = (client_limits(&limits), server_limits(&limits));
            assert!(client.recovery_deadline < server.detached_lifetime);
            assert!(client.recovery_deadline < server.closed_retention);
        }
    }
}
