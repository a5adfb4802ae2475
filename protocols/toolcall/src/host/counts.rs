//! How much of everything a host holds.

/// The counts of one moment; all of them zero where the host is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections.
    pub connections: u64,
    /// Clients that are remembered.
    pub clients: u64,
    /// Sessions.
    pub sessions: u64,
    /// Chats that are in memory.
    pub chats: u64,
    /// Subscriptions, each client's counted once a channel.
    pub holds: u64,
    /// Channels in which something depends on a client.
    pub causes: u64,
    /// Waits for clients, each counted once a channel in which something depends on it.
    pub waits: u64,
    /// Turns that are under way.
    pub turns: u64,
    /// Questions to clients without an answer.
    pub questions: u64,
    /// Actions that are kept.
    pub actions: u64,
    /// Actions that connections are owed and the log has dropped, each counted once a connection.
    pub owed: u64,
}
