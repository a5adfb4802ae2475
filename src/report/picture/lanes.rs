//! The lanes: the order of the hosts and the space between them.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{ConnIndex, Connection, EventKind, History, Side};
use crate::schedule::{Host, Plan};

use super::markup::Alignment;

/// The right edge of the time column.
const TIMES: i32 = 78;
/// The approximate width of a character, in hundredths of a pixel.
const CHARACTER: i32 = 640;
/// The distance from a lane to its text.
const PAD: i32 = 10;
/// The width of a connection's bar, including the gap to the next bar.
pub const BAR: i32 = 5;
/// The maximum number of bars next to each other.
pub const BARS: usize = 4;

/// A lane, by its number from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane(pub usize);

/// The placement of a text. Two texts on the same line collide if they are in the same
/// [zone](Placement::zone).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// The text ends at the left side of a lane.
    Left(Lane),
    /// The text begins at the right side of a lane.
    Right(Lane),
    /// The text is centred between a lane and the next one on its right.
    Middle(Lane),
    /// The text uses the full width.
    Across,
}

/// A strip of the drawing: between two lanes, or beside the outermost lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Zone {
    /// The strip to the left of the lane with this number. The last strip is to the right of the
    /// last lane.
    Number(usize),
    /// All strips.
    All,
}

impl Placement {
    /// Returns the zone that a text occupies.
    pub fn zone(self) -> Zone {
        match self {
            Placement::Left(Lane(n)) => Zone::Number(n),
            Placement::Right(Lane(n)) | Placement::Middle(Lane(n)) => Zone::Number(n + 1),
            Placement::Across => Zone::All,
        }
    }
}

/// The active hosts of a run, from left to right. A client is to the left of its servers.
#[derive(Clone, Debug)]
pub struct HostLanes {
    hosts: Vec<Host>,
}

impl HostLanes {
    /// Creates the lanes of a run.
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
            // A server of several clients goes into the middle, so that few arrows cross a lane.
            let middle = (hosts.len() - 1).div_ceil(2);
            hosts[middle..].rotate_right(1);
        }
        Self { hosts }
    }

    /// Returns the hosts, from left to right.
    pub fn hosts(&self) -> impl Iterator<Item = (Lane, &Host)> {
        self.hosts.iter().enumerate().map(|(n, host)| (Lane(n), host))
    }

    /// Whether there are so many lanes that ribbons overlap.
    pub fn are_many(&self) -> bool {
        self.hosts.len() > 4
    }

    /// Returns the lane of a host.
    pub fn lane(&self, host: &Host) -> Option<Lane> {
        self.hosts.iter().position(|known| known == host).map(Lane)
    }

    /// Returns the lanes of both ends of a connection: the client's, then the server's.
    pub fn ends(&self, history: &History, conn: ConnIndex) -> Option<(Lane, Lane)> {
        let conn = history.conns.get(conn.0)?;
        Some((self.lane(&conn.client)?, self.lane(&conn.server)?))
    }

    /// Returns the placement of the texts for a host.
    pub fn beside(&self, lane: Lane) -> Placement {
        if lane.0 == 0 { Placement::Left(lane) } else { Placement::Right(lane) }
    }

    /// Returns the placement of a message label: at the sender's lane, on the side of the receiver.
    pub fn toward(from: Lane, to: Lane) -> Placement {
        if from < to { Placement::Right(from) } else { Placement::Left(from) }
    }

    /// Returns the x position of a lane.
    pub fn x(&self, lane: Lane) -> i32 {
        TIMES + self.beside_all() + lane.0 as i32 * self.gap()
    }

    /// Returns the right edge of the times.
    pub fn times(&self) -> i32 {
        TIMES - 12
    }

    /// Returns the left and right edges of the zones.
    pub fn room(&self) -> (i32, i32) {
        (TIMES, self.x(Lane(self.hosts.len().saturating_sub(1))) + self.beside_all())
    }

    /// Returns the x position of a text and its alignment.
    pub fn set(&self, placement: Placement) -> (i32, Alignment) {
        let pad = PAD + if self.hosts.len() > 1 { 2 * BAR } else { 0 };
        match placement {
            Placement::Left(Lane(0)) => (self.x(Lane(0)) - PAD, Alignment::Ends),
            Placement::Left(lane) => (self.x(lane) - pad, Alignment::Ends),
            Placement::Right(lane) if lane.0 + 1 == self.hosts.len() => {
                (self.x(lane) + PAD, Alignment::Begins)
            }
            Placement::Right(lane) => (self.x(lane) + pad, Alignment::Begins),
            Placement::Middle(lane) => (self.x(lane) + self.gap() / 2, Alignment::Centred),
            Placement::Across => (self.room().0 + 4, Alignment::Begins),
        }
    }

    /// Returns the number of characters that fit into a line with this placement.
    pub fn characters(&self, placement: Placement) -> usize {
        let wide = match placement.zone() {
            Zone::All => self.room().1 - self.room().0 - 60,
            Zone::Number(n) if n == 0 || n == self.hosts.len() => self.beside_all() - PAD - 6,
            Zone::Number(_) => self.gap() - 3 * PAD - 4 * BAR,
        };
        (wide * 100 / CHARACTER).max(12) as usize
    }

    /// Returns the distance between two lanes.
    fn gap(&self) -> i32 {
        match self.hosts.len() {
            0..=2 => 420,
            3 | 4 => 280,
            _ => 210,
        }
    }

    /// Returns the space beside the outermost lanes.
    fn beside_all(&self) -> i32 {
        match self.hosts.len() {
            0..=2 => 300,
            3 => 212,
            _ => 225,
        }
    }
}

/// Returns the lane of one side of a connection.
pub fn at_side((client, server): (Lane, Lane), side: Side) -> Lane {
    match side {
        Side::Client => client,
        Side::Server => server,
    }
}

/// Whether an entry justifies a lane for its host.
fn has_effect(what: &EventKind) -> bool {
    !matches!(what, EventKind::Started | EventKind::ResourceCounts { .. } | EventKind::Gauge { .. })
}

/// Returns the depth of each host: the length of the longest chain of connections that leads to it.
fn depths(conns: &[Connection]) -> BTreeMap<Host, usize> {
    let mut depths: BTreeMap<Host, usize> = BTreeMap::new();
    // A path is not longer than the number of hosts. The limit also ends the loop if connections
    // form a cycle.
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
        Connection::new(format!("{client}#1"), client.into(), server.into(), Time(0))
    }

    fn lanes(conns: Vec<Connection>, clients: u32) -> HostLanes {
        HostLanes::of(&Plan { clients, ..Plan::new("x") }, &History { conns, ..History::default() })
    }

    #[test]
    fn a_client_is_left_of_its_server() {
        let lanes = lanes(
            vec![conn("server", "web"), conn("client", "server"), conn("client2", "server")],
            2,
        );
        let names: Vec<_> = lanes.hosts().map(|(_, host)| host.as_str()).collect();
        assert_eq!(names, ["client", "client2", "server", "web"]);
    }

    #[test]
    fn a_server_of_two_clients_is_between_them() {
        let lanes = lanes(vec![conn("client", "server"), conn("client2", "server")], 2);
        let names: Vec<_> = lanes.hosts().map(|(_, host)| host.as_str()).collect();
        assert_eq!(names, ["client", "server", "client2"]);
    }

    #[test]
    fn a_server_of_many_clients_is_in_the_middle() {
        let clients = ["client", "client2", "client3", "client4", "client5", "client6"];
        let lanes = lanes(clients.iter().map(|client| conn(client, "server")).collect(), 6);
        assert_eq!(lanes.hosts().position(|(_, host)| host.as_str() == "server"), Some(3));
        let (left, right) = lanes.room();
        assert!(right - left < 1_750, "{}", right - left);
    }

    #[test]
    fn texts_are_placed_on_the_side_with_space() {
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
