//! Connections as ribbons between two lanes, coloured by generation. A bar at each end shows how
//! long that end was open.

use std::collections::BTreeMap;

use crate::history::{ConnIndex, Event, EventKind, Flags, History, Side, Time};
use crate::report::{phrases, rendering};
use crate::schedule::Plan;

use super::axis::Axis;
use super::lanes::{BAR, BARS, HostLanes, Lane, at_side};
use super::markup::{Drawing, spot};

/// The number of colours for generations.
const COLOURS: u64 = 6;

/// The lifetime of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRibbon {
    /// The connection.
    pub conn: ConnIndex,
    /// The time at which it was opened.
    pub opened: Time,
    /// When the connection was established, for its client and its server; `None` if never.
    pub up: (Option<Time>, Option<Time>),
    /// The time at which each end ended; the end of the run if it never did.
    pub over: (Time, Time),
    /// The position of its bar among simultaneous connections.
    pub slot: usize,
}

impl ConnectionRibbon {
    /// Returns the start and end of one end of the connection, if that end ever existed.
    fn of(&self, side: Side) -> Option<(Time, Time)> {
        match side {
            Side::Client => Some((self.opened, self.over.0)),
            Side::Server => self.up.1.map(|up| (up, self.over.1.max(up))),
        }
    }
}

/// Returns the ribbons of all connections.
pub fn conn_ribbons(history: &History) -> Vec<ConnectionRibbon> {
    let mut up: BTreeMap<(ConnIndex, Side), Time> = BTreeMap::new();
    for event in &history.events {
        if let EventKind::ConnUp { conn, side } = event.what {
            up.entry((conn, side)).or_insert(event.at);
        }
    }
    let mut conn_ribbons: Vec<ConnectionRibbon> = Vec::new();
    for (n, conn) in history.conns.iter().enumerate() {
        let index = ConnIndex(n);
        let up = (up.get(&(index, Side::Client)).copied(), up.get(&(index, Side::Server)).copied());
        let over = (conn.over.0.unwrap_or(history.end), conn.over.1.unwrap_or(history.end));
        let beside = conn_ribbons.iter().filter(|ribbon| {
            let other = &history.conns[ribbon.conn.0];
            (&other.client, &other.server) == (&conn.client, &conn.server)
                && ribbon.over.0.max(ribbon.over.1) >= conn.opened
        });
        let taken: Vec<_> = beside.map(|ribbon| ribbon.slot).collect();
        let slot = (0..BARS).find(|slot| !taken.contains(slot)).unwrap_or(BARS - 1);
        conn_ribbons.push(ConnectionRibbon { conn: index, opened: conn.opened, up, over, slot });
    }
    conn_ribbons
}

/// Returns the colour class of a connection.
pub fn colour(history: &History, conn: ConnIndex) -> String {
    let generation = history.conns.get(conn.0).and_then(|conn| conn.generation);
    generation.map_or("g0".into(), |generation| {
        format!("g{}", generation.saturating_sub(1) % COLOURS + 1)
    })
}

/// Returns the x position of a connection's bar at a lane, on the side of the other lane.
pub fn bar(lanes: &HostLanes, ribbon: &ConnectionRibbon, lane: Lane, other: Lane) -> i32 {
    let off = 3 + ribbon.slot as i32 * (BAR + 1);
    if lane < other { lanes.x(lane) + off } else { lanes.x(lane) - off - BAR }
}

/// Draws all ribbons.
pub fn draw(
    drawing: &mut Drawing,
    history: &History,
    lanes: &HostLanes,
    axis: &Axis,
    conn_ribbons: &[ConnectionRibbon],
) {
    for ribbon in conn_ribbons {
        let Some((client, server)) = lanes.ends(history, ribbon.conn) else { continue };
        let colour = colour(history, ribbon.conn);
        let name = phrases::conn(history, ribbon.conn);
        let bars = (bar(lanes, ribbon, client, server), bar(lanes, ribbon, server, client));
        let inner = (bars.0.min(bars.1) + BAR, bars.0.max(bars.1));
        let title = title(history, ribbon, &name);
        drawing.group(&format!("ribbon {colour}"), &title, |parts| {
            let here = (axis.y(ribbon.opened), axis.y(ribbon.over.0));
            if let Some((from, to)) = ribbon.of(Side::Server) {
                let there = (axis.y(from), axis.y(to));
                let (left, right) = if client < server { (here, there) } else { (there, here) };
                let corners = [
                    spot(inner.0, left.0),
                    spot(inner.1, right.0),
                    spot(inner.1, right.1),
                    spot(inner.0, left.1),
                ];
                parts.surface(&corners, "band");
                parts.rect(
                    spot(bars.1, there.0),
                    spot(bars.1 + BAR, there.1.max(there.0 + 3)),
                    "bar",
                );
            }
            let bottom = here.1.max(here.0 + 3);
            parts.rect(spot(bars.0, here.0), spot(bars.0 + BAR, bottom), "bar");
        });
    }
}

fn title(history: &History, ribbon: &ConnectionRibbon, name: &str) -> String {
    let conn = history.conn(ribbon.conn);
    let up = ribbon.up.0.map_or("never up".into(), |at| format!("up at {at}"));
    let over = |host: &crate::schedule::Host, over: Option<Time>| match over {
        Some(at) => format!("closed at {host} at {at}"),
        None => format!("never closed at {host}"),
    };
    format!(
        "{name}: opened at {}, {up}, {}, {}",
        ribbon.opened,
        over(&conn.client, conn.over.0),
        over(&conn.server, conn.over.1)
    )
}

/// Draws a tick for each segment that opens, closes or resets a connection.
pub fn draw_ticks(
    drawing: &mut Drawing,
    plan: &Plan,
    history: &History,
    lanes: &HostLanes,
    axis: &Axis,
) {
    for event in &history.events {
        let Event { at, what: EventKind::Packet(packet), .. } = event else { continue };
        let Flags { syn, fin, rst, .. } = packet.flags;
        let Some(ends) = lanes.ends(history, packet.conn).filter(|_| syn || fin || rst) else {
            continue;
        };
        let (lane, other) = (at_side(ends, packet.from), at_side(ends, packet.from.other()));
        let (x, y) = (lanes.x(lane), axis.y(*at));
        let to = if lane < other { x + 14 } else { x - 14 };
        let title = format!("{at}  {}", rendering::entry(plan, history, event).text);
        drawing.group(&format!("tick {}", colour(history, packet.conn)), &title, |parts| {
            parts.path(&[spot(x, y), spot(to, y + 3)], if rst { "way rst" } else { "way" });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Connection;

    fn conn(generation: u64, opened: u64, over: Option<u64>) -> Connection {
        let (name, over) = (format!("client#{generation}"), over.map(Time));
        let conn = Connection::new(name, "client".into(), "server".into(), Time(opened));
        Connection { generation: Some(generation), over: (over, over), ..conn }
    }

    #[test]
    fn overlapping_connections_are_drawn_side_by_side() {
        let conns = vec![conn(1, 0, Some(100)), conn(2, 50, Some(200)), conn(3, 150, None)];
        let history = History { conns, end: Time(300), ..History::default() };
        let slots: Vec<_> =
            conn_ribbons(&history).iter().map(|ribbon| (ribbon.slot, ribbon.over.0)).collect();
        assert_eq!(slots, [(0, Time(100)), (1, Time(200)), (0, Time(300))]);
    }

    #[test]
    fn colours_are_reused_in_order() {
        let history =
            History { conns: vec![conn(1, 0, None), conn(7, 0, None)], ..History::default() };
        assert_eq!(
            (colour(&history, ConnIndex(0)), colour(&history, ConnIndex(1))),
            ("g1".into(), "g1".into())
        );
        assert_eq!(colour(&history, ConnIndex(9)), "g0");
    }
}
