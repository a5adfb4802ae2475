//! The positions of a run: each packet, message, milestone and point, with its moment and place.
//!
//! They are read from a detailed history. A file names a position by a trigger or a count: the n-th
//! milestone of a name on a host, or the n-th message in a direction. A packet has no such name; it
//! is identified by the millisecond in which it left.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{
    ConnIndex, Connection, Event, EventKind, Fate, Flags, History, Packet, Side, Time,
};
use crate::schedule::{Conn, Fault, Host, MilestoneValue, Plan};
use crate::subject::DynSubject;

/// A moment and a place in a run where a fault can be injected.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// The time of the event.
    pub at: Time,
    /// The host of the event. For a packet or a message, this is the sender.
    pub host: Host,
    /// The event.
    pub spot: PositionSite,
    /// The connection of the event, or the newest connection of its host.
    pub conn: Option<ConnSite>,
    /// The host itself if it is a server, otherwise the server of [`conn`](Self::conn). `None` if a
    /// puppet plays that server.
    pub server: Option<Host>,
    /// The numbers of the trials at this position. Positions at the same moment and place share
    /// trials.
    pub trials: Vec<usize>,
}

/// The event at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PositionSite {
    /// A packet left.
    Packet {
        /// The host that the packet is sent to.
        toward: Host,
        /// The packet's number in this direction of its connection, from 1.
        n: u64,
        /// The TCP flags.
        flags: Flags,
        /// The payload length in bytes.
        len: u32,
    },
    /// A whole message was handed to a connection.
    Message {
        /// The host that the message is sent to.
        toward: Host,
        /// The message's number in this direction of its connection, from 1.
        n: u64,
        /// The message's name, as the subject's dissector reads it.
        label: String,
        /// The byte range of the message in its direction: start offset and end offset.
        bytes: (u64, u64),
    },
    /// Product code passed a milestone.
    Milestone {
        /// The name of the milestone.
        name: &'static str,
        /// The occurrence on its host, from 1.
        nth: u64,
    },
    /// A task passed a point.
    Point {
        /// The name of the point.
        name: &'static str,
        /// The occurrence on its host, from 1.
        nth: u64,
        /// Whether the schedule itself holds the task there.
        held: bool,
    },
}

/// The kind of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PositionKind {
    /// A packet.
    Packet,
    /// A message.
    Message,
    /// A milestone.
    Milestone,
    /// A point.
    Point,
}

impl PositionKind {
    /// All kinds, each with its display name.
    pub const NAMES: [(PositionKind, &'static str); 4] = [
        (PositionKind::Packet, "packet"),
        (PositionKind::Message, "message"),
        (PositionKind::Milestone, "milestone"),
        (PositionKind::Point, "point"),
    ];

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).expect("each has a name").1
    }
}

/// The connection of a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnSite {
    /// The index of the connection in the history.
    pub index: ConnIndex,
    /// The name of the connection in a scenario file.
    pub conn: Conn,
    /// The host that opened it.
    pub client: Host,
    /// The host that it was opened to.
    pub server: Host,
    /// The time when it was opened.
    pub opened: Time,
    /// Whether a fault can still hit the connection: its first packet has left, and it is not over.
    pub open: bool,
}

impl Position {
    /// Returns the kind of the position.
    pub fn kind(&self) -> PositionKind {
        match self.spot {
            PositionSite::Packet { .. } => PositionKind::Packet,
            PositionSite::Message { .. } => PositionKind::Message,
            PositionSite::Milestone { .. } => PositionKind::Milestone,
            PositionSite::Point { .. } => PositionKind::Point,
        }
    }

    /// Returns the place that numbers the position: the connection for a packet or a message,
    /// otherwise the host.
    pub fn place(&self) -> String {
        match (self.kind(), &self.conn) {
            (PositionKind::Packet | PositionKind::Message, Some(site)) => site.conn.to_string(),
            _ => self.host.to_string(),
        }
    }

    /// Returns the index of the connection that numbers the position, in the order of opening.
    /// Returns `None` if the host numbers the position.
    pub fn conn_number(&self) -> Option<usize> {
        self.conn
            .as_ref()
            .filter(|_| matches!(self.kind(), PositionKind::Packet | PositionKind::Message))
            .map(|site| site.index.0)
    }

    /// Returns the connection, if a fault can hit it.
    pub fn open(&self) -> Option<&ConnSite> {
        self.conn.as_ref().filter(|site| site.open)
    }
}

/// Returns the positions of a run before a given time, in order. The history must be
/// [detailed](crate::world::Detail::Full).
pub fn of(subject: &dyn DynSubject, plan: &Plan, history: &History, until: Time) -> Vec<Position> {
    let mut lister = PositionLister {
        subject,
        plan,
        history,
        counted: BTreeMap::new(),
        ends: BTreeMap::new(),
        alive: BTreeSet::new(),
    };
    let before = history.events.iter().take_while(|event| event.at < until);
    before.filter_map(|event| lister.position(event)).collect()
}

/// The key for numbering positions: a direction of a connection, or a name on a host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Packets(usize, Side),
    Messages(usize, Side),
    Milestones(Host, &'static str),
    Points(Host, &'static str),
}

struct PositionLister<'a> {
    subject: &'a dyn DynSubject,
    plan: &'a Plan,
    history: &'a History,
    counted: BTreeMap<Row, u64>,
    /// The end offset of the last message in each direction.
    ends: BTreeMap<(usize, Side), u64>,
    /// The connections whose first packet has left and that the schedule itself has not cut.
    alive: BTreeSet<usize>,
}

impl PositionLister<'_> {
    fn position(&mut self, event: &Event) -> Option<Position> {
        match &event.what {
            EventKind::ConnOpened { conn } => drop(self.alive.insert(conn.0)),
            // The ends may learn of the cut much later, so do not wait for `ConnOver`.
            EventKind::FaultBegan { what, scope, .. } if matches!(**what, Fault::Cut { .. }) => {
                self.alive.retain(|it| !scope.conns.contains(&ConnIndex(*it)))
            }
            _ => {}
        }
        let host = event.host.clone()?;
        let (spot, conn, passes) = match &event.what {
            EventKind::Packet(packet) => {
                (self.packet(packet), Some(packet.conn.0), packet.fate != Fate::Lost)
            }
            EventKind::Message { conn, from, label, end, delivered } => {
                let n = self.next(Row::Messages(conn.0, *from));
                let start = self.ends.insert((conn.0, *from), *end).unwrap_or(0);
                let toward = self.end(conn.0, from.other());
                (
                    PositionSite::Message { toward, n, label: label.clone(), bytes: (start, *end) },
                    Some(conn.0),
                    delivered.is_some(),
                )
            }
            EventKind::Milestone { name, fields } => {
                let nth = self.next(Row::Milestones(host.clone(), name));
                (PositionSite::Milestone { name, nth }, self.about(&host, fields, event.at), true)
            }
            EventKind::Point { name, fields, held } => {
                let nth = self.next(Row::Points(host.clone(), name));
                (
                    PositionSite::Point { name, nth, held: *held },
                    self.about(&host, fields, event.at),
                    true,
                )
            }
            _ => return None,
        };
        let conn = conn
            .and_then(|index| self.site(index, event.at, passes && self.alive.contains(&index)));
        let server = self.server(&host, conn.as_ref());
        Some(Position { at: event.at, host, spot, conn, server, trials: Vec::new() })
    }

    fn packet(&mut self, packet: &Packet) -> PositionSite {
        let n = self.next(Row::Packets(packet.conn.0, packet.from));
        let toward = self.end(packet.conn.0, packet.from.other());
        PositionSite::Packet { toward, n, flags: packet.flags, len: packet.len }
    }

    fn next(&mut self, row: Row) -> u64 {
        let count = self.counted.entry(row).or_default();
        *count += 1;
        *count
    }

    fn end(&self, conn: usize, side: Side) -> Host {
        let conn = &self.history.conns[conn];
        match side {
            Side::Client => conn.client.clone(),
            Side::Server => conn.server.clone(),
        }
    }

    /// Returns the connection that a milestone or point names, otherwise the newest connection of
    /// its host.
    fn about(
        &self,
        host: &Host,
        fields: &[(&'static str, MilestoneValue)],
        at: Time,
    ) -> Option<usize> {
        let named = ConnIndex::from_fields(fields).map(|conn| conn.0);
        let named = named.filter(|index| *index < self.history.conns.len());
        let has =
            |conn: &Connection| conn.opened <= at && (conn.client == *host || conn.server == *host);
        named.or_else(|| self.history.conns.iter().rposition(has))
    }

    fn server(&self, host: &Host, conn: Option<&ConnSite>) -> Option<Host> {
        let is_own = self.subject.servers().contains(&host.as_str());
        let server = if is_own { host.clone() } else { conn?.server.clone() };
        (!self.plan.puppets.contains_key(&server)).then_some(server)
    }

    fn site(&self, index: usize, at: Time, alive: bool) -> Option<ConnSite> {
        let Connection { name, client, server, opened, over, .. } = &self.history.conns[index];
        let over = over.0.zip(over.1).is_some_and(|(client, server)| client.max(server) <= at);
        let (client, server) = (client.clone(), server.clone());
        Some(ConnSite {
            index: ConnIndex(index),
            conn: name.parse().ok()?,
            client,
            server,
            opened: *opened,
            open: alive && !over,
        })
    }
}
