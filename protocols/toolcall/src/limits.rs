//! Every size and deadline of the two ends, with its default.

use std::time::Duration;

pub use reknit_jsonrpc::WireLimits;

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// What both ends keep to on one connection: pinged after 5 s of inbound silence, given up after 25 s.
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
    /// What it keeps to on one connection. Inbound silence of a ping interval and a pong deadline ends a connection.
    pub wire: WireLimits,
    /// How long a new connection may take to say who it is, the HTTP part and the restore of its channels included.
    pub handshake_deadline: Duration,
    /// How long the owner of a call is waited for, from the moment at which its last connection was lost.
    pub grace: Duration,
    /// How long a client that nothing depends on is remembered, so that it can be told what it missed.
    pub client_retention: Duration,
    /// How long the restore of a channel may take. One that takes longer is missing.
    pub restore_deadline: Duration,
    /// How long a client may take to answer a request of the host's.
    pub reverse_deadline: Duration,
    /// How many actions are kept for clients that come back.
    pub log_actions: usize,
    /// How many bytes these may hold.
    pub log_bytes: usize,
    /// How many outcomes of a client's own actions are kept, to answer a repetition.
    pub outcomes: usize,
    /// How many connections there may be.
    pub connections: usize,
    /// How many clients are remembered.
    pub clients: usize,
    /// How many sessions there may be.
    pub sessions: usize,
    /// How many chats in one session.
    pub chats: usize,
    /// How many channels one connection may subscribe to.
    pub subscriptions: usize,
    /// How many active clients one session may have.
    pub active_clients: usize,
    /// How many tools one of them may offer.
    pub tools: usize,
    /// How many parts one turn may have.
    pub parts: usize,
    /// How many turns a chat keeps; older ones go.
    pub turns: usize,
    /// How many bytes the state of one channel may have, counted from what was said about it. Less than half of a message, so
    /// that a snapshot can be said.
    pub channel_bytes: usize,
    /// How many answers and notices may wait to be said on one connection. With more, it is given up.
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
    /// What it keeps to on one connection. Inbound silence of a ping interval and a pong deadline ends a connection.
    pub wire: WireLimits,
    /// How long one attempt may take to connect, the WebSocket handshake included.
    pub connect_timeout: Duration,
    /// How long the host may take to answer each step of the handshake.
    pub handshake_timeout: Duration,
    /// The pause after the first attempt that failed; it doubles with each.
    pub back_off_min: Duration,
    /// The longest pause.
    pub back_off_max: Duration,
    /// How long a request may go without an answer, held while there is no connection included.
    pub request_deadline: Duration,
    /// How many requests and actions may be held while there is no connection.
    pub held: usize,
    /// How many actions may wait for their echo.
    pub unconfirmed: usize,
    /// How many channels it may subscribe to.
    pub subscriptions: usize,
    /// How many bytes what is known of one channel may have, counted from what was said about it. More, and it is let go.
    pub channel_bytes: usize,
    /// How many calls it remembers to have begun, so as not to begin one again.
    pub begun_calls: usize,
    /// How many tools may run at once; those after them wait.
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
