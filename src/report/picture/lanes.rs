//! The lanes: which host stands where, and how much room is between them.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{ConnIndex, Connection, EventKind, History, Side};
use crate::schedule::{Host, Plan};

use super::markup::Lean;

/// The column of times ends here.
const TIMES: i32 = 78;
/// A character is about so wide, in hundredths of a pixel.
const CHARACTER: i32 = 640;
/// From a lane to the text that hangs at it.
const PAD: i32 = 10;
/// A ribbon's bar is so wide, with the gap to the next one.
pub const BAR: i32 = 5;
/// The most bars beside each other.
pub const BARS: usize = 4;

/// A lane, by its number from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane(pub usize);

/// Where a text hangs. Two texts in one line collide if they hang in the same [zone](Hang::zone).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hang {
    /// It ends at the left of a lane.
    Left(Lane),
    /// It begins at the right of a lane.
    Right(Lane),
    /// It stands in the middle of the room at the right of a lane.
    Middle(Lane),
    /// It has all the room.
    Across,
}

/// A strip of the drawing between two lanes, or beside the outermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Zone {
    /// The one at the left of the lane with this number; the last one is at the right of the last lane.
    Number(usize),
    /// All of them.
    All,
}

impl Hang {
    /// The zone that a text takes room in.
    pub fn zone(self) -> Zone {
        match self {
            Hang::Left(Lane(n)) => Zone::Number(n),
            Hang::Right(Lane(n)) | Hang::Middle(Lane(n)) => Zone::Number(n + 1),
            Hang::Across => Zone::All,
        }
    }
}

/// The hosts of a run that did anything, from left to right: who opens connections stands before whom they lead to.
#[derive(Clone, Debug)]
pub struct HostLanes {
    hosts: Vec<Host>,
}

impl HostLanes {
    /// The lanes of a run.
    pub fn of(plan: &Plan, history: &History) -> Self {
        let depths = depths(&history.conns);
        let mut hosts: Vec<Host> = plan.client_hosts().collect();
        let seen = history
            .events
            .iter()
            .filter(|event| has_effect(&event.what))
            .filter_map(|event| event.host.as_ref());
        let ends = history.conns.iter().flat_map(|conn| [&conn.client, &conn.server]);
        let mut known: BTreeSet<Host> = hosts.iter().cloned().collect();
        for host in ends.chain(seen) {
            if known.insert(host.clone()) {
                hosts.push(host.clone());
            }
        }
        hosts.sort_by_key(|host| depths.get(host).copied().unwrap_or_default());
        if let [_, _, .., server] = &hosts[..]
            && history.conns.iter().all(|conn| conn.server == *server)
        {
            // Several that connect to one: it stands in their middle, and little crosses a lane.
            let middle = (hosts.len() - 1).div_ceil(2);
            hosts[middle..].rotate_right(1);
        }
        Self { hosts }
    }

    /// Their hosts, from left to right.
    pub fn hosts(&self) -> impl Iterator<Item = (Lane, &Host)> {
        self.hosts.iter().enumerate().map(|(n, host)| (Lane(n), host))
    }

    /// Whether there are so many that ribbons lie over each other.
    pub fn are_many(&self) -> bool {
        self.hosts.len() > 4
    }

    /// The lane of a host.
    pub fn lane(&self, host: &Host) -> Option<Lane> {
        self.hosts.iter().position(|known| known == host).map(Lane)
    }

    /// The lanes of both ends of a connection: its client's, its server's.
    pub fn ends(&self, history: &History, conn: ConnIndex) -> Option<(Lane, Lane)> {
        let conn = history.conns.get(conn.0)?;
        Some((self.lane(&conn.client)?, self.lane(&conn.server)?))
    }

    /// Where what a host does is told.
    pub fn beside(&self, lane: Lane) -> Hang {
        if lane.0 == 0 { Hang::Left(lane) } else { Hang::Right(lane) }
    }

    /// Where a message is named: at its sender, toward its receiver.
    pub fn toward(from: Lane, to: Lane) -> Hang {
        if from < to { Hang::Right(from) } else { Hang::Left(from) }
    }

    /// Where a lane is.
    pub fn x(&self, lane: Lane) -> i32 {
        TIMES + self.beside_all() + lane.0 as i32 * self.gap()
    }

    /// Where times end.
    pub fn times(&self) -> i32 {
        TIMES - 12
    }

    /// Where the zones begin and end.
    pub fn room(&self) -> (i32, i32) {
        (TIMES, self.x(Lane(self.hosts.len().saturating_sub(1))) + self.beside_all())
    }

    /// Where a text is set, and how it leans.
    pub fn set(&self, hang: Hang) -> (i32, Lean) {
        let pad = PAD + if self.hosts.len() > 1 { 2 * BAR } else { 0 };
        match hang {
            Hang::Left(Lane(0)) => (self.x(Lane(0)) - PAD, Lean::Ends),
            Hang::Left(lane) => (self.x(lane) - pad, Lean::Ends),
            Hang::Right(lane) if lane.0 + 1 == self.hosts.len() => {
                (self.x(lane) + PAD, Lean::Begins)
            }
            Hang::Right(lane) => (self.x(lane) + pad, Lean::Begins),
            Hang::Middle(lane) => (self.x(lane) + self.gap() / 2, Lean::Centred),
            Hang::Across => (self.room().0 + 4, Lean::Begins),
        }
    }

    /// How many characters of a text that hangs there fit into a line.
    pub fn characters(&self, hang: Hang) -> usize {
        let wide = match hang.zone() {
            Zone::All => self.room().1 - self.room().0 - 60,
            Zone::Number(n) if n == 0 || n == self.hosts.len() => self.beside_all() - PAD - 6,
            Zone::Number(_) => self.gap() - 3 * PAD - 4 * BAR,
        };
        (wide * 100 / CHARACTER).max(12) as usize
    }

    /// The room between two lanes.
    fn gap(&self) -> i32 {
        match self.hosts.len() {
            0..=2 => 420,
            3 | 4 => 280,
            _ => 210,
        }
    }

    /// The room beside the outermost lanes.
    fn beside_all(&self) -> i32 {
        match self.hosts.len() {
            0..=2 => 300,
            3 => 212,
            _ => 225,
        }
    }
}

/// The side of a connection's end as a lane.
pub fn at_side((client, server): (Lane, Lane), side: Side) -> Lane {
    match side {
        Side::Client => client,
        Side::Server => server,
    }
}

/// Whether an entry is a reason to give its host a lane.
fn has_effect(what: &EventKind) -> bool {
    !matches!(what, EventKind::Started | EventKind::Census { .. } | EventKind::Gauge { .. })
}

/// How many connections lie between a host and those to whom none leads.
fn depths(conns: &[Connection]) -> BTreeMap<Host, usize> {
    let mut depths: BTreeMap<Host, usize> = BTreeMap::new();
    // A path is no longer than there are hosts; and where connections go in a circle, that ends it.
    for _ in 0..8 {
        for conn in conns {
            let from = depths.get(&conn.client).copied().unwrap_or_default();
            let to = depths.entry(conn.server.clone()).or_default();
            *to = (*to).max(from + 1).min(8);
        }
    }
    depths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Time;

    fn conn(client: &str, server: &str) -> Connection {
        let (name, opened, over) = (format!("{client}#1"), Time(0), (None, None));
        Connection {
            name,
            client: client.into(),
            server: server.into(),
            generation: None,
            opened,
            over,
        }
    }

    fn lanes(conns: Vec<Connection>, clients: u32) -> HostLanes {
        HostLanes::of(&Plan { clients, ..Plan::new("x") }, &History { conns, ..History::default() })
    }

    #[test]
    fn who_opens_connections_stands_before_whom_they_lead_to() {
        let lanes = lanes(
            vec![conn("server", "web"), conn("client", "server"), conn("client2", "server")],
            2,
        );
        let names: Vec<_> = lanes.hosts().map(|(_, host)| host.as_str()).collect();
        assert_eq!(names, ["client", "client2", "server", "web"]);
    }

    #[test]
    fn one_that_two_connect_to_stands_between_them() {
        let lanes = lanes(vec![conn("client", "server"), conn("client2", "server")], 2);
        let names: Vec<_> = lanes.hosts().map(|(_, host)| host.as_str()).collect();
        assert_eq!(names, ["client", "server", "client2"]);
    }

    #[test]
    fn one_that_many_connect_to_stands_in_their_middle() {
        let clients = ["client", "client2", "client3", "client4", "client5", "client6"];
        let lanes = lanes(clients.iter().map(|client| conn(client, "server")).collect(), 6);
        assert_eq!(lanes.hosts().position(|(_, host)| host.as_str() == "server"), Some(3));
        let (left, right) = lanes.room();
        assert!(right - left < 1_750, "{}", right - left);
    }

    #[test]
    fn texts_hang_where_there_is_room() {
        let lanes = lanes(vec![conn("client", "server")], 1);
        let (client, server) = (Lane(0), Lane(1));
        assert_eq!(lanes.beside(client).zone(), Zone::Number(0));
        assert_eq!(lanes.beside(server).zone(), Zone::Number(2));
        assert_eq!(
            HostLanes::toward(client, server).zone(),
            HostLanes::toward(server, client).zone()
        );
    }
}
