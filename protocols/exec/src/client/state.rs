//! The client's connection state and resource counts.

/// The connection state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The client has a connection.
    Connected,
    /// The client tries to connect until its recovery deadline.
    Recovering,
    /// The client gave up, or was closed.
    Failed,
}

/// The client's current resource counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientResources {
    /// Calls that wait or are in flight.
    pub calls: usize,
    /// Processes that the client follows.
    pub processes: usize,
    /// Processes that the client has yet to terminate on the server.
    pub endings: usize,
    /// HTTP bodies that have not ended.
    pub bodies: usize,
    /// Early events that wait for a lower number: the maximum over all processes.
    pub held_back_events: usize,
    /// The bytes of these events: the maximum over all processes.
    pub held_back_bytes: usize,
    /// Events that the client keeps for the subscribers of a process: the maximum over all
    /// processes that it follows.
    pub kept_events: usize,
    /// The bytes of output of these events: the maximum over all processes that it follows.
    pub kept_bytes: usize,
}
