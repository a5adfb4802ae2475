//! Resource counts of a host.

/// The counts at one moment; all zero if the host no longer exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections.
    pub connections: u64,
    /// Known clients.
    pub clients: u64,
    /// Sessions.
    pub sessions: u64,
    /// Chats in memory.
    pub chats: u64,
    /// Subscriptions, counted once per client and channel.
    pub holds: u64,
    /// Subscriptions, counted once per connection and channel.
    pub subscriptions: u64,
    /// Channels that depend on a client.
    pub causes: u64,
    /// Waits for clients, counted once per client and dependent channel.
    pub waits: u64,
    /// Turns in progress.
    pub turns: u64,
    /// Requests to clients without an answer.
    pub questions: u64,
    /// Outcomes of actions, kept to answer repetitions.
    pub outcomes: u64,
    /// Restores in progress.
    pub restores: u64,
    /// Outcomes of calls whose chats were removed.
    pub left: u64,
    /// Actions in the log.
    pub actions: u64,
    /// Actions that the log has dropped but that are kept for a connection, counted once per
    /// connection.
    pub owed: u64,
}
