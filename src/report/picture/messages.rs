//! The journey of each message: delivered, held on its way, lost, or late.

use std::collections::BTreeMap;

use crate::history::{ConnIndex, Event, EventKind, Fate, History, Side, Time};
use crate::schedule::Host;

/// The journey of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    /// The connection.
    pub conn: ConnIndex,
    /// The sender.
    pub from: Side,
    /// The time when the sender wrote it to the connection.
    pub sent: Time,
    /// The end of the time in which a fault held the message, if one did: the message continued, or
    /// the connection ended.
    pub held: Option<Time>,
    /// The end of the journey.
    pub arrival: Arrival,
}

/// The end of a message's journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The message was delivered while its generation was the newest.
    InTime(Time),
    /// The message was delivered after a newer generation had connected.
    Late(Time),
    /// The message was never delivered.
    Lost,
}

impl Arrival {
    /// Returns the time of the delivery.
    pub fn at(self) -> Option<Time> {
        match self {
            Arrival::InTime(at) | Arrival::Late(at) => Some(at),
            Arrival::Lost => None,
        }
    }
}

/// Ranges of bytes, by their start: the end of each, and a time.
type Ranges = BTreeMap<u64, (u64, Time)>;

/// One direction of a connection, from its segments.
#[derive(Default)]
struct Direction {
    /// The held ranges, with the time at which each was first held.
    held: Ranges,
    /// The sent ranges, with the time at which each was last sent.
    left: Ranges,
    /// The end of the last message, in bytes.
    last_end: u64,
}

/// Returns the journeys of all messages, by the index of their entries.
pub fn journeys(history: &History) -> BTreeMap<usize, Journey> {
    let mut directions: BTreeMap<(ConnIndex, Side), Direction> = BTreeMap::new();
    for Event { at, what, .. } in &history.events {
        let EventKind::Packet(packet) = what else { continue };
        let direction = directions.entry((packet.conn, packet.from)).or_default();
        let (start, end) = (packet.offset, packet.offset + u64::from(packet.len));
        match packet.fate {
            _ if packet.len == 0 => {}
            Fate::Held => drop(direction.held.entry(start).or_insert((end, *at))),
            Fate::Arrives(_) => {
                // A segment that was sent again had been held before it arrived.
                if let Some(first) = direction.left.insert(start, (end, *at)) {
                    direction.held.entry(start).or_insert(first);
                }
            }
            Fate::Lost => {}
        }
    }
    let newest = generations(history);
    let mut journeys = BTreeMap::new();
    for (n, event) in history.events.iter().enumerate() {
        let EventKind::Message { conn, from, end, delivered, .. } = &event.what else { continue };
        let direction = directions.entry((*conn, *from)).or_default();
        let bytes = (direction.last_end, *end);
        direction.last_end = *end;
        let arrival = match delivered {
            Some(at) if is_late(history, &newest, *conn, *at) => Arrival::Late(*at),
            Some(at) => Arrival::InTime(*at),
            None => Arrival::Lost,
        };
        let held = moments(&direction.held, bytes).min().map(|since| {
            let on = moments(&direction.left, bytes).filter(|at| *at > since).max();
            let dead =
                [history.conn(*conn).over.0, history.conn(*conn).over.1].into_iter().flatten();
            arrival
                .at()
                .and(on)
                .or(arrival.at())
                .unwrap_or_else(|| dead.filter(|at| *at >= since).min().unwrap_or(history.end))
        });
        journeys.insert(n, Journey { conn: *conn, from: *from, sent: event.at, held, arrival });
    }
    journeys
}

/// Returns the times of all ranges that overlap these bytes.
fn moments(ranges: &Ranges, (start, end): (u64, u64)) -> impl Iterator<Item = Time> {
    ranges.range(..end).rev().take_while(move |(_, (to, _))| *to > start).map(|(_, (_, at))| *at)
}

/// Returns the connections of each client that carried a generation: the time at which each came
/// up, and its generation.
fn generations(history: &History) -> BTreeMap<&Host, Vec<(Time, u64)>> {
    let mut generations: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in &history.events {
        let EventKind::ConnUp { conn, side: Side::Client } = event.what else { continue };
        let Some(conn) = history.conns.get(conn.0) else { continue };
        if let Some(generation) = conn.generation {
            generations.entry(&conn.client).or_default().push((event.at, generation));
        }
    }
    generations
}

fn is_late(
    history: &History,
    newest: &BTreeMap<&Host, Vec<(Time, u64)>>,
    conn: ConnIndex,
    at: Time,
) -> bool {
    let Some(conn) = history.conns.get(conn.0) else { return false };
    let (Some(own), Some(up)) = (conn.generation, newest.get(&conn.client)) else { return false };
    up.iter().any(|(since, generation)| *generation > own && *since < at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Connection, Flags, Packet};

    fn packet(at: u64, offset: u64, fate: Fate) -> Event {
        let packet = Packet {
            conn: ConnIndex(0),
            from: Side::Server,
            flags: Flags::default(),
            offset,
            len: 10,
            fate,
        };
        Event { at: Time(at), host: None, what: EventKind::Packet(packet) }
    }

    fn message(at: u64, end: u64, delivered: Option<u64>) -> Event {
        let (label, delivered) = ("x".into(), delivered.map(Time));
        let what =
            EventKind::Message { conn: ConnIndex(0), from: Side::Server, label, end, delivered };
        Event { at: Time(at), host: None, what }
    }

    fn fates(mut events: Vec<Event>) -> Vec<(Option<Time>, Arrival)> {
        let conn = |n: u64, over| Connection {
            generation: Some(n),
            over: (over, None),
            ..Connection::new(format!("client#{n}"), "client".into(), "server".into(), Time(0))
        };
        events.push(Event {
            at: Time(500),
            host: None,
            what: EventKind::ConnUp { conn: ConnIndex(1), side: Side::Client },
        });
        let conns = vec![conn(1, Some(Time(400))), conn(2, None)];
        let history = History { events, conns, end: Time(900), ..History::default() };
        journeys(&history).into_values().map(|journey| (journey.held, journey.arrival)).collect()
    }

    #[test]
    fn a_message_is_delivered_held_late_or_lost() {
        let events = vec![
            message(1, 10, Some(5)),
            packet(1, 0, Fate::Arrives(Time(5))),
            message(2, 20, Some(610)),
            packet(2, 10, Fate::Held),
            packet(600, 10, Fate::Arrives(Time(610))),
            message(3, 30, None),
            packet(3, 20, Fate::Held),
            message(4, 40, None),
            packet(4, 30, Fate::Lost),
        ];
        let expected = [
            (None, Arrival::InTime(Time(5))),
            (Some(Time(600)), Arrival::Late(Time(610))),
            (Some(Time(400)), Arrival::Lost),
            (None, Arrival::Lost),
        ];
        assert_eq!(fates(events), expected);
    }
}
