//! What a history says of the network: connections and their ends, segments, and where faults are in force.

use super::Time;
use crate::schedule::{Host, MilestoneValue, Side};

/// The number of a connection in its run, from 0, in order of opening. The [`ConnId`](crate::net::ConnId) that product code
/// sees is one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnIndex(pub usize);

impl ConnIndex {
    /// The connection that product code names in the field `conn` of a milestone or point.
    pub fn from_fields(fields: &[(&str, MilestoneValue)]) -> Option<Self> {
        MilestoneValue::number(fields, "conn")
            .and_then(|id| usize::try_from(id).ok()?.checked_sub(1))
            .map(Self)
    }
}

/// What is known of a connection besides its events.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its name, by number: `client#2`.
    pub name: String,
    /// The host that opened it.
    pub client: Host,
    /// The host that it was opened to.
    pub server: Host,
    /// The generation that it carries, once a milestone told so.
    pub generation: Option<u64>,
    /// When it was opened.
    pub opened: Time,
    /// When each end's user first dropped it, shut it or learned of its death: (client, server).
    pub over: (Option<Time>, Option<Time>),
}

/// How one end of a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnEnd {
    /// Its user dropped or shut it first.
    Closed,
    /// Its user read the end of the stream.
    Eof,
    /// Its user got an error.
    Error(std::io::ErrorKind),
    /// It could not be opened.
    NotOpened(std::io::ErrorKind),
}

/// Where a fault is in force: everything that is in one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Links: pairs of hosts.
    pub links: Vec<(Host, Host)>,
    /// Connections. A connection that is not open yet when the fault begins is added by name only.
    pub conns: Vec<ConnIndex>,
}

/// What a fault does to what is in its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nature {
    /// It kills connections, or keeps new ones from coming up.
    Kills,
    /// It slows or holds what passes, or a task; nothing dies by it alone.
    Slows,
    /// It does neither (a jump of the wall clock).
    Harmless,
}

/// A segment on its way.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// On which connection.
    pub conn: ConnIndex,
    /// Sent by which end.
    pub from: Side,
    /// Its flags.
    pub flags: Flags,
    /// Its first byte in its direction, counted from 0.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// What becomes of it.
    pub fate: Fate,
}

/// The flags of a segment that matter to a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Opens.
    pub syn: bool,
    /// Acknowledges.
    pub ack: bool,
    /// Closes.
    pub fin: bool,
    /// Resets.
    pub rst: bool,
}

/// What becomes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives then.
    Arrives(Time),
    /// It is held: it arrives when a fault is over (then it stands here again, with its arrival).
    Held,
    /// It never arrives.
    Lost,
}
