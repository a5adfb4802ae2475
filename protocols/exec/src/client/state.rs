//! What a client says of itself.

/// Whether a client has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has one.
    Connected,
    /// It tries to get one, until its recovery deadline.
    Recovering,
    /// It gave up, or was closed.
    Failed,
}

/// What a client holds at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientResources {
    /// Calls that wait or are in flight.
    pub calls: usize,
    /// Processes that are followed.
    pub processes: usize,
    /// Processes that are to be ended on the server, and are not yet.
    pub endings: usize,
    /// HTTP bodies that are still to come.
    pub bodies: usize,
    /// Early events that wait for a lower number: the most of any process.
    pub held_back_events: usize,
    /// Their bytes: the most of any process.
    pub held_back_bytes: usize,
}
