//! Every size and deadline of the two ends, with its default.

use std::time::Duration;

pub use reknit_jsonrpc::WireLimits;

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns the limits of both ends for one connection: a ping after 5 s of inbound silence, and a
/// close after 25 s.
pub fn wire() -> WireLimits {
    WireLimits {
        ping_interval: seconds(5),
        pong_deadline: seconds(20),
        write_deadline: seconds(25),
        message_bytes: 16 << 20,
        outbox_bytes: 32 << 20,
    }
}

/// The limits of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// The limits of one connection. A connection ends after inbound silence of a ping interval
    /// plus a pong deadline.
    pub wire: WireLimits,
    /// The time limit of the handshake of a new connection, including the HTTP part and the restore
    /// of its channels.
    pub handshake_deadline: Duration,
    /// How long the host waits for the owner of a call, from the loss of its last connection.
    pub grace: Duration,
    /// How long the host remembers a client on which nothing depends, so that it can replay what
    /// the client missed.
    pub client_retention: Duration,
    /// The time limit of the restore of a channel. After it, the channel counts as missing.
    pub restore_deadline: Duration,
    /// The time limit of a client's answer to a request of the host.
    pub reverse_deadline: Duration,
    /// The maximum number of actions that are kept for clients that reconnect.
    pub log_actions: usize,
    /// The maximum size of these actions in bytes.
    pub log_bytes: usize,
    /// The maximum number of outcomes that are kept per client, to answer repetitions.
    pub outcomes: usize,
    /// The maximum number of connections.
    pub connections: usize,
    /// The maximum number of remembered clients.
    pub clients: usize,
    /// The maximum number of sessions.
    pub sessions: usize,
    /// The maximum number of chats per session.
    pub chats: usize,
    /// The maximum number of subscriptions per connection.
    pub subscriptions: usize,
    /// The maximum number of active clients per session.
    pub active_clients: usize,
    /// The maximum number of tools per active client.
    pub tools: usize,
    /// The maximum number of parts per turn.
    pub parts: usize,
    /// The maximum number of turns per chat; the host refuses further ones.
    pub turns: usize,
    /// The maximum size of the state of one channel in bytes, counted from the actions. It is less
    /// than half of a message, so that a snapshot fits into one.
    pub channel_bytes: usize,
    /// The maximum number of queued answers and notices per connection. Above it, the connection is
    /// closed.
    pub replies: usize,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            wire: wire(),
            handshake_deadline: seconds(15),
            grace: seconds(30),
            client_retention: seconds(300),
            restore_deadline: seconds(10),
            reverse_deadline: seconds(30),
            log_actions: 1000,
            log_bytes: 4 << 20,
            outcomes: 256,
            connections: 4096,
            clients: 1024,
            sessions: 1024,
            chats: 64,
            subscriptions: 256,
            active_clients: 64,
            tools: 128,
            parts: 1024,
            turns: 256,
            channel_bytes: 4 << 20,
            replies: 1024,
        }
    }
}

/// The limits of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// The limits of one connection. A connection ends after inbound silence of a ping interval
    /// plus a pong deadline.
    pub wire: WireLimits,
    /// The time limit of one attempt to connect, including the WebSocket handshake.
    pub connect_timeout: Duration,
    /// The time limit of the host's answer to each step of the handshake.
    pub handshake_timeout: Duration,
    /// The pause after the first failed attempt; it doubles after each further one.
    pub back_off_min: Duration,
    /// The longest pause.
    pub back_off_max: Duration,
    /// The time limit of a request without an answer, including the time that it waits for a
    /// connection.
    pub request_deadline: Duration,
    /// The maximum number of requests and actions that wait for a connection.
    pub held: usize,
    /// The maximum number of actions that wait for their echo.
    pub unconfirmed: usize,
    /// The maximum number of subscriptions.
    pub subscriptions: usize,
    /// The maximum size of the local state of one channel in bytes, counted from the actions. Above
    /// it, the client drops the channel.
    pub channel_bytes: usize,
    /// The maximum number of started calls that the client remembers, so that it does not start one
    /// again.
    pub begun_calls: usize,
    /// The maximum number of tools that run at once; further ones wait.
    pub running_tools: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            wire: wire(),
            connect_timeout: seconds(10),
            handshake_timeout: seconds(20),
            back_off_min: seconds(1),
            back_off_max: seconds(30),
            request_deadline: seconds(60),
            held: 1024,
            unconfirmed: 1024,
            subscriptions: 256,
            channel_bytes: 32 << 20,
            begun_calls: 4096,
            running_tools: 16,
        }
    }
}
