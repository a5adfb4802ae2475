//! The network in a history: connections and their ends, segments, and the scope of faults.

use super::Time;
use crate::schedule::{Host, MilestoneValue, Side};

/// The index of a connection in its run: connections are numbered from 0, in order of opening. The
/// [`ConnId`](crate::net::ConnId) in product code is larger by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnIndex(pub usize);

impl ConnIndex {
    /// Returns the connection that product code names in the field `conn` of a milestone or point.
    pub fn from_fields(fields: &[(&str, MilestoneValue)]) -> Option<Self> {
        MilestoneValue::number(fields, "conn")
            .and_then(|id| usize::try_from(id).ok()?.checked_sub(1))
            .map(Self)
    }
}

/// The facts about a connection that are not events.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The name with its number: `client#2`.
    pub name: String,
    /// The host that opened it.
    pub client: Host,
    /// The host that accepts it.
    pub server: Host,
    /// The generation that it carries, once a milestone has reported it.
    pub generation: Option<u64>,
    /// The name of the client that installed that generation, if the client has a name.
    pub of: Option<String>,
    /// When it was opened.
    pub opened: Time,
    /// When the user of each end first dropped it, shut it down or learned of its death: (client,
    /// server).
    pub over: (Option<Time>, Option<Time>),
    /// When data last arrived at each end: (client, server).
    pub received: (Option<Time>, Option<Time>),
    /// When the user of each end last wrote after it had waited for room: (client, server). Then the
    /// end knows that its peer acknowledged data.
    pub unblocked: (Option<Time>, Option<Time>),
}

impl Connection {
    /// Returns a connection that is opened at a time. Nothing has happened to it yet.
    pub fn new(name: String, client: Host, server: Host, opened: Time) -> Self {
        let never = (None, None);
        Self {
            name,
            client,
            server,
            generation: None,
            of: None,
            opened,
            over: never,
            received: never,
            unblocked: never,
        }
    }

    /// Returns whether its client opened it under a label, besides its own: `client/second#1`.
    pub fn is_labelled(&self) -> bool {
        self.name.contains('/')
    }
}

/// How one end of a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnEnd {
    /// The user dropped it or shut it down first.
    Closed,
    /// The user read the end of the stream.
    Eof,
    /// The user got an error.
    Error(std::io::ErrorKind),
    /// The connection could not be opened.
    NotOpened(std::io::ErrorKind),
}

/// The scope of a fault: it affects everything in one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Links: pairs of hosts.
    pub links: Vec<(Host, Host)>,
    /// Connections. A connection that opens after the fault began is not listed; only the name in
    /// the fault covers it.
    pub conns: Vec<ConnIndex>,
}

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The connection.
    pub conn: ConnIndex,
    /// The end that sent it.
    pub from: Side,
    /// The flags of the segment.
    pub flags: Flags,
    /// The position of its first byte in its direction, counted from 0.
    pub offset: u64,
    /// The length in bytes.
    pub len: u32,
    /// The fate of the segment.
    pub fate: Fate,
}

/// The flags of a segment that are relevant for a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// The segment opens the connection.
    pub syn: bool,
    /// The segment acknowledges data.
    pub ack: bool,
    /// The segment closes the direction.
    pub fin: bool,
    /// The segment resets the connection.
    pub rst: bool,
}

/// The fate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The segment arrives at this time.
    Arrives(Time),
    /// A fault holds the segment; it arrives when the fault is over. A second entry then records
    /// its arrival.
    Held,
    /// The segment never arrives.
    Lost,
}
