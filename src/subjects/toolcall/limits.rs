//! The limits of `toolcall`, as a table, and the conversions into the limits of the client and the
//! host.

use crate::schedule::{Limit, LimitValue, Limits};
use crate::subject::tables::{limit, millis, secs};
use crate::subjects::wire::wire;
use reknit_toolcall::limits::{ClientLimits, HostLimits};

use LimitValue::{Bytes, Count};

/// All sizes and deadlines.
#[rustfmt::skip]
pub const LIMITS: &[Limit] = &[
    limit("client.ping-interval", secs(5), millis(100), "time without inbound data before the client sends a ping; the minimum is longer than a round trip"),
    limit("client.pong-deadline", secs(20), millis(100), "time without inbound data after the ping before the connection is closed"),
    limit("client.write-deadline", secs(25), millis(100), "how long a client's write may make no progress before the client closes the connection"),
    limit("client.message-bytes", Bytes(16 << 20), Bytes(12 << 20), "the longest message that the client accepts; the minimum holds the longest handshake response by default"),
    limit("client.outbox-bytes", Bytes(32 << 20), Bytes(1 << 20), "the maximum number of bytes of messages that the client queues for one connection"),
    limit("client.connect-timeout", secs(10), millis(100), "the timeout of one connection attempt"),
    limit("client.handshake-timeout", secs(20), millis(100), "the timeout of each step of the handshake"),
    limit("client.back-off-min", secs(1), millis(1), "the pause after the first failed attempt; it doubles after each further failure"),
    limit("client.back-off-max", secs(30), millis(1), "the maximum pause between two attempts"),
    limit("client.request-deadline", secs(60), millis(100), "the timeout of a request, including the time without a connection"),
    limit("client.held", Count(1024), Count(1), "the maximum number of requests and actions that wait for a connection"),
    limit("client.unconfirmed", Count(1024), Count(1), "the maximum number of actions that wait for their echo"),
    limit("client.subscriptions", Count(256), Count(1), "the maximum number of channels that the client subscribes to"),
    limit("client.channel-bytes", Bytes(32 << 20), Bytes(4 << 20), "the maximum number of bytes of the state of one channel; above it, the client unsubscribes; the minimum is the host's default"),
    limit("client.begun-calls", Count(4096), Count(1), "the maximum number of started calls that the client remembers"),
    limit("client.running-tools", Count(16), Count(1), "the maximum number of tools that run at once; further calls wait"),
    limit("host.ping-interval", secs(5), millis(100), "time without inbound data before the host sends a ping"),
    limit("host.pong-deadline", secs(20), millis(100), "time without inbound data after the ping before the connection is closed"),
    limit("host.write-deadline", secs(25), millis(100), "how long a host's write may make no progress before the host closes the connection"),
    limit("host.message-bytes", Bytes(16 << 20), Bytes(1 << 20), "the longest message that the host accepts; half of it is the longest handshake response"),
    limit("host.outbox-bytes", Bytes(32 << 20), Bytes(12 << 20), "the maximum number of bytes of messages that the host queues for one connection; the minimum holds the longest response"),
    limit("host.handshake-deadline", secs(15), millis(100), "how long a new connection may take for its handshake, including restores"),
    limit("host.grace", secs(30), millis(1), "how long the host waits for the disconnected owner of a call; at the minimum, a lost connection fails its calls"),
    limit("host.client-retention", secs(300), millis(1), "how long the host remembers a disconnected client on which nothing depends"),
    limit("host.restore-deadline", secs(10), millis(1), "the timeout of the restore of a channel"),
    limit("host.reverse-deadline", secs(30), millis(1), "the timeout of a request from the host to a client"),
    limit("host.log-actions", Count(1000), Count(8), "the maximum number of actions that the host keeps for reconnecting clients; the minimum is the number that may occur at once"),
    limit("host.log-bytes", Bytes(4 << 20), Bytes(4 << 10), "the maximum number of bytes of these actions; the minimum exceeds what may occur at once"),
    limit("host.outcomes", Count(256), Count(1), "the maximum number of action outcomes per client that the host keeps to answer repeated actions"),
    limit("host.connections", Count(4096), Count(8), "the maximum number of connections"),
    limit("host.clients", Count(1024), Count(8), "the maximum number of clients that the host remembers"),
    limit("host.sessions", Count(1024), Count(1), "the maximum number of sessions"),
    limit("host.chats", Count(64), Count(1), "the maximum number of chats in one session"),
    limit("host.subscriptions", Count(256), Count(1), "the maximum number of channels that one connection subscribes to"),
    limit("host.active-clients", Count(64), Count(1), "the maximum number of active clients in one session"),
    limit("host.tools", Count(128), Count(1), "the maximum number of tools that one active client offers"),
    limit("host.parts", Count(1024), Count(1), "the maximum number of parts of one turn"),
    limit("host.turns", Count(256), Count(1), "the maximum number of turns of one chat"),
    limit("host.channel-bytes", Bytes(4 << 20), Bytes(64 << 10), "the maximum number of bytes of the state of one channel"),
    limit("host.replies", Count(1024), Count(8), "the maximum number of responses and notifications that wait to be sent on one connection"),
];

/// Converts the table into the limits of a client.
pub fn client_limits(limits: &Limits) -> ClientLimits {
    let count = |name: &str| limits.count(name) as usize;
    ClientLimits {
        wire: wire(limits, "client"),
        connect_timeout: limits.duration("client.connect-timeout"),
        handshake_timeout: limits.duration("client.handshake-timeout"),
        back_off_min: limits.duration("client.back-off-min"),
        back_off_max: limits.duration("client.back-off-max"),
        request_deadline: limits.duration("client.request-deadline"),
        held: count("client.held"),
        unconfirmed: count("client.unconfirmed"),
        subscriptions: count("client.subscriptions"),
        channel_bytes: count("client.channel-bytes"),
        begun_calls: count("client.begun-calls"),
        running_tools: count("client.running-tools"),
    }
}

/// Converts the table into the limits of a host.
pub fn host_limits(limits: &Limits) -> HostLimits {
    let count = |name: &str| limits.count(name) as usize;
    HostLimits {
        wire: wire(limits, "host"),
        handshake_deadline: limits.duration("host.handshake-deadline"),
        grace: limits.duration("host.grace"),
        client_retention: limits.duration("host.client-retention"),
        restore_deadline: limits.duration("host.restore-deadline"),
        reverse_deadline: limits.duration("host.reverse-deadline"),
        log_actions: count("host.log-actions"),
        log_bytes: count("host.log-bytes"),
        outcomes: count("host.outcomes"),
        connections: count("host.connections"),
        clients: count("host.clients"),
        sessions: count("host.sessions"),
        chats: count("host.chats"),
        subscriptions: count("host.subscriptions"),
        active_clients: count("host.active-clients"),
        tools: count("host.tools"),
        parts: count("host.parts"),
        turns: count("host.turns"),
        channel_bytes: count("host.channel-bytes"),
        replies: count("host.replies"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_defaults_of_the_product() {
        let limits = Limits::default().over(LIMITS);
        assert_eq!(client_limits(&limits), ClientLimits::default());
        assert_eq!(host_limits(&limits), HostLimits::default());
        assert!(
            LIMITS
                .iter()
                .all(|limit| limit.default.same_kind(&limit.least) && limit.least <= limit.default)
        );
    }
}
