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
    limit("client.ping-interval", secs(5), millis(100), "the silence after which a client pings; its least is more than a packet's way there and back"),
    limit("client.pong-deadline", secs(20), millis(100), "the silence after that ping which ends the connection"),
    limit("client.write-deadline", secs(25), millis(100), "how long a connection may take nothing that a client wants to write"),
    limit("client.message-bytes", Bytes(16 << 20), Bytes(12 << 20), "the longest message that a client reads; its least holds the longest answer to a handshake by default"),
    limit("client.outbox-bytes", Bytes(32 << 20), Bytes(1 << 20), "how many bytes of messages a client lets wait for one connection"),
    limit("client.connect-timeout", secs(10), millis(100), "how long one attempt may take to connect"),
    limit("client.handshake-timeout", secs(20), millis(100), "how long the host may take to answer each step of the handshake"),
    limit("client.back-off-min", secs(1), millis(1), "the pause after the first attempt that failed; doubles with each"),
    limit("client.back-off-max", secs(30), millis(1), "the longest pause between two attempts"),
    limit("client.request-deadline", secs(60), millis(100), "how long a request may go without an answer, held without a connection included"),
    limit("client.held", Count(1024), Count(1), "how many requests and actions may wait for a connection"),
    limit("client.unconfirmed", Count(1024), Count(1), "how many actions may wait for their echo"),
    limit("client.subscriptions", Count(256), Count(1), "how many channels it may subscribe to"),
    limit("client.channel-bytes", Bytes(32 << 20), Bytes(4 << 20), "how many bytes what is known of one channel may have; more, and it is let go; its least is a host's default"),
    limit("client.begun-calls", Count(4096), Count(1), "how many calls it remembers to have begun"),
    limit("client.running-tools", Count(16), Count(1), "how many tools may run at once; those after them wait"),
    limit("host.ping-interval", secs(5), millis(100), "the silence after which a host pings"),
    limit("host.pong-deadline", secs(20), millis(100), "the silence after that ping which ends the connection"),
    limit("host.write-deadline", secs(25), millis(100), "how long a connection may take nothing that a host wants to write"),
    limit("host.message-bytes", Bytes(16 << 20), Bytes(1 << 20), "the longest message that a host reads; half of it is the longest answer to a handshake"),
    limit("host.outbox-bytes", Bytes(32 << 20), Bytes(12 << 20), "how many bytes of messages a host lets wait for one connection; its least holds the longest answer"),
    limit("host.handshake-deadline", secs(15), millis(100), "how long a new connection may take to say whose it is, restores included"),
    limit("host.grace", secs(30), millis(1), "how long the owner of a call is waited for; at its least, a lost connection is a lost call"),
    limit("host.client-retention", secs(300), millis(1), "how long a client that nothing depends on is remembered"),
    limit("host.restore-deadline", secs(10), millis(1), "how long the restore of a channel may take"),
    limit("host.reverse-deadline", secs(30), millis(1), "how long a client may take to answer the host"),
    limit("host.log-actions", Count(1000), Count(8), "how many actions are kept for clients that come back; its least is what comes at once"),
    limit("host.log-bytes", Bytes(4 << 20), Bytes(4 << 10), "how many bytes these hold; its least is more than what comes at once"),
    limit("host.outcomes", Count(256), Count(1), "how many outcomes of a client's actions are kept, to answer a repetition"),
    limit("host.connections", Count(4096), Count(8), "how many connections there may be"),
    limit("host.clients", Count(1024), Count(8), "how many clients are remembered"),
    limit("host.sessions", Count(1024), Count(1), "how many sessions there may be"),
    limit("host.chats", Count(64), Count(1), "how many chats in one session"),
    limit("host.subscriptions", Count(256), Count(1), "how many channels one connection may subscribe to"),
    limit("host.active-clients", Count(64), Count(1), "how many clients may be active in one session"),
    limit("host.tools", Count(128), Count(1), "how many tools one of them may offer"),
    limit("host.parts", Count(1024), Count(1), "how many parts one turn may have"),
    limit("host.turns", Count(256), Count(1), "how many turns one chat may have"),
    limit("host.channel-bytes", Bytes(4 << 20), Bytes(64 << 10), "how many bytes the state of one channel may have"),
    limit("host.replies", Count(1024), Count(8), "how many answers and notices may wait to be said on one connection"),
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
