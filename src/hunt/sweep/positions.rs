//! The positions of a run: each packet, each message, each milestone and each point of it, with where it was.
//!
//! They are read from a detailed history. What a file calls them is what a trigger or a count names: the n-th milestone of a name
//! on a host, the n-th message of a direction. A packet has no such name, and is known by the millisecond in which it left.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{
    ConnIndex, Connection, Event, EventKind, Fate, Flags, History, Packet, Side, Time,
};
use crate::schedule::{Conn, Fault, Host, MilestoneValue, Plan};
use crate::subject::DynSubject;

/// A moment and a place of a run, at which something could go wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// When it was reached.
    pub at: Time,
    /// On which host: of a packet or a message, the one that sent it.
    pub host: Host,
    /// What was reached.
    pub spot: PositionSite,
    /// The connection that it was about, or the newest one of its host.
    pub conn: Option<Site>,
    /// The server that it was on, or that its host had last connected to; none that a puppet plays.
    pub server: Option<Host>,
    /// What was tried there, by number. Where another position is the same moment of the same place, they share it.
    pub trials: Vec<usize>,
}

/// What was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PositionSite {
    /// A packet left.
    Packet {
        /// Toward this host.
        toward: Host,
        /// Which one of its direction of its connection, from 1.
        n: u64,
        /// Its flags.
        flags: Flags,
        /// How many bytes it carried.
        len: u32,
    },
    /// A whole message was handed to a connection.
    Message {
        /// Toward this host.
        toward: Host,
        /// Which one of its direction of its connection, from 1.
        n: u64,
        /// Its name, as the subject's dissector reads it.
        label: String,
        /// The bytes of its direction up to its first, and up to its last.
        bytes: (u64, u64),
    },
    /// Product code passed a milestone.
    Milestone {
        /// Its name.
        name: &'static str,
        /// Which time on its host, from 1.
        nth: u64,
    },
    /// A task passed a point.
    Point {
        /// Its name.
        name: &'static str,
        /// Which time on its host, from 1.
        nth: u64,
        /// Whether the schedule itself holds the task there.
        held: bool,
    },
}

/// The kinds of positions.
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
    /// All of them, each with what a person calls it.
    pub const NAMES: [(PositionKind, &'static str); 4] = [
        (PositionKind::Packet, "packet"),
        (PositionKind::Message, "message"),
        (PositionKind::Milestone, "milestone"),
        (PositionKind::Point, "point"),
    ];

    /// What a person calls it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).expect("each has a name").1
    }
}

/// A connection, as a position knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its number.
    pub index: ConnIndex,
    /// Its name, by number.
    pub conn: Conn,
    /// The host that opened it.
    pub client: Host,
    /// The host that it was opened to.
    pub server: Host,
    /// When it was opened.
    pub opened: Time,
    /// Whether its first packet had left, and there was anything left of it that a fault could hit.
    pub open: bool,
}

impl Position {
    /// Its kind.
    pub fn kind(&self) -> PositionKind {
        match self.spot {
            PositionSite::Packet { .. } => PositionKind::Packet,
            PositionSite::Message { .. } => PositionKind::Message,
            PositionSite::Milestone { .. } => PositionKind::Milestone,
            PositionSite::Point { .. } => PositionKind::Point,
        }
    }

    /// What it is counted by: the connection of a packet or a message, the host of anything else.
    pub fn place(&self) -> String {
        match (self.kind(), &self.conn) {
            (PositionKind::Packet | PositionKind::Message, Some(site)) => site.conn.to_string(),
            _ => self.host.to_string(),
        }
    }

    /// The connection by which it is counted, in the order of opening; none where it is counted by its host.
    pub fn conn_number(&self) -> Option<usize> {
        self.conn
            .as_ref()
            .filter(|_| matches!(self.kind(), PositionKind::Packet | PositionKind::Message))
            .map(|site| site.index.0)
    }

    /// Its connection, where a fault can hit that.
    pub fn open(&self) -> Option<&Site> {
        self.conn.as_ref().filter(|site| site.open)
    }
}

/// The positions of a run before a moment, in order. The history must be a [detailed](crate::world::Detail::Full) one.
pub fn of(subject: &dyn DynSubject, plan: &Plan, history: &History, until: Time) -> Vec<Position> {
    let mut lister = Lister {
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

/// What positions of one name are counted by: a direction of a connection, or a host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Packets(usize, Side),
    Messages(usize, Side),
    Milestones(Host, &'static str),
    Points(Host, &'static str),
}

struct Lister<'a> {
    subject: &'a dyn DynSubject,
    plan: &'a Plan,
    history: &'a History,
    counted: BTreeMap<Row, u64>,
    /// Where the last message of each direction ended.
    ends: BTreeMap<(usize, Side), u64>,
    /// The connections whose first packet has left, and that the schedule itself has not cut.
    alive: BTreeSet<usize>,
}

impl Lister<'_> {
    fn position(&mut self, event: &Event) -> Option<Position> {
        match &event.what {
            EventKind::ConnOpened { conn } => drop(self.alive.insert(conn.0)),
            // Its ends may learn of that much later.
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

    /// The connection that a milestone or point names, or else the newest one of its host.
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

    fn server(&self, host: &Host, conn: Option<&Site>) -> Option<Host> {
        let is_own = self.subject.servers().contains(&host.as_str());
        let server = if is_own { host.clone() } else { conn?.server.clone() };
        (!self.plan.puppets.contains_key(&server)).then_some(server)
    }

    fn site(&self, index: usize, at: Time, alive: bool) -> Option<Site> {
        let Connection { name, client, server, opened, over, .. } = &self.history.conns[index];
        let over = over.0.zip(over.1).is_some_and(|(client, server)| client.max(server) <= at);
        let (client, server) = (client.clone(), server.clone());
        Some(Site {
            index: ConnIndex(index),
            conn: name.parse().ok()?,
            client,
            server,
            opened: *opened,
            open: alive && !over,
        })
    }
}
