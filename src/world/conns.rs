//! The connections of a world: who opened them, what each direction carries, and what each end knows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::BytesMut;
use turmoil_net::TcpSegment;

use crate::history::{ConnEnd, ConnIndex, Connection, Side, Time};
use crate::schedule::{Conn, Which};
use crate::subject::Dissector;

use super::engine::RawSocket;
use super::held::HeldSegments;
use super::local::HostIx;

/// What an end of a connection shares with the stream that its user holds.
pub(super) struct Endpoint {
    /// The socket; gone once its user dropped the stream.
    pub socket: Option<Box<dyn RawSocket>>,
    /// Bytes that had arrived, unread, when the connection was reset: they are read before the error is.
    pub rescued: BytesMut,
    /// What arrived before anybody accepted the connection: a reset would throw it away, too.
    pub early: BytesMut,
    /// The error that the connection ended with. Linux reports it once, and an end of stream from then on.
    pub error: Option<std::io::ErrorKind>,
    /// Whether the user has been told of the error.
    pub reported: bool,
    /// Whether the user has dropped its stream.
    pub dropped: bool,
    /// Which connection it belongs to, once that is known.
    pub conn: Option<ConnIndex>,
    /// Wakes whoever waits for the connection to be opened.
    pub opener: Option<Waker>,
    /// Wakes whoever waits for something to read, where the engine's sockets need not be asked.
    pub reader: Option<Waker>,
    /// Wakes whoever waits for room to write, where the engine's sockets have no windows.
    pub writer: Option<Waker>,
    /// Payload bytes that the socket was given, and that were read from it.
    pub received: u64,
    pub read: u64,
}

impl Endpoint {
    /// Wakes whoever waits for it.
    pub fn wake(&mut self) {
        if let Some(socket) = &mut self.socket {
            socket.wake();
        }
        [&mut self.opener, &mut self.reader, &mut self.writer]
            .into_iter()
            .filter_map(Option::take)
            .for_each(Waker::wake);
    }
}

/// A handle of an [`Endpoint`]: the user's stream has one, the world has another. One thread uses both; the lock is what lets a
/// stream be `Send`.
#[derive(Clone)]
pub(super) struct SharedEnd(Arc<Mutex<Endpoint>>);

impl SharedEnd {
    /// A new end, without a socket yet.
    pub fn new() -> Self {
        let end = Endpoint {
            socket: None,
            rescued: BytesMut::new(),
            early: BytesMut::new(),
            error: None,
            reported: false,
            dropped: false,
            conn: None,
            opener: None,
            reader: None,
            writer: None,
            received: 0,
            read: 0,
        };
        SharedEnd(Arc::new(Mutex::new(end)))
    }

    /// Whether both are handles of one end.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The end.
    pub fn lock(&self) -> MutexGuard<'_, Endpoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One direction of a connection, named by the end that sends.
#[derive(Default)]
pub(super) struct Direction {
    /// How many segments were sent: the key of the next draw.
    pub sent: u64,
    /// The sequence number of the first payload byte.
    pub base: u32,
    /// The sequence number after all that was sent, the newest acknowledgement and window that were sent along.
    pub next: u32,
    pub ack: u32,
    pub window: u16,
    /// The arrival of the last segment that occupies sequence space: none of these overtakes another.
    pub last_arrival: Time,
    /// Until when a slow link is busy with what was sent before, in microseconds.
    pub busy_until: u64,
    /// What faults hold, and when the first of it was lost.
    pub held: HeldSegments,
    pub lost_since: Option<Time>,
    /// Payload bytes written by the user, and given to the receiver.
    pub written: u64,
    pub delivered: u64,
    /// Where the world keeps the windows: what waits for room, the payload bytes that have left and that were acknowledged, and the
    /// receiver's window as the sender was told it; a SYN tells the largest.
    pub unsent: VecDeque<TcpSegment>,
    pub left: u64,
    pub acked: u64,
    pub room: Option<u64>,
    /// The newest acknowledgement and window that the receiver of this direction was given, with the number of their segment.
    pub seen_ack: Option<(u64, u32, u16)>,
    /// The newest acknowledgement that has come, where the receiver's kernel was not given it: nobody there could notice.
    pub owed: Option<TcpSegment>,
    /// Whether a FIN was sent.
    pub closed: bool,
    /// Whether the sender's user dropped its stream with bytes unread: an RST is sent in the place of a FIN.
    pub aborts: bool,
    /// Whether the sender's kernel was made to forget it, with its FIN sent: the world answers in its place.
    pub forgotten: bool,
    /// Whether a FIN was given to the receiver.
    pub finished: bool,
    /// Reads what is written, where somebody wants to know of messages; from the first byte on.
    pub dissector: Option<Box<dyn Dissector>>,
    /// Where messages end.
    pub messages: Vec<MessageSent>,
}

/// A message that was written to a direction.
pub(super) struct MessageSent {
    pub end: u64,
    pub delivered: Option<Time>,
}

/// A connection.
pub(super) struct ConnState {
    pub client: HostIx,
    pub server: HostIx,
    /// Ports of the two ends.
    pub ports: (u16, u16),
    /// Its number among those of its host, and among those of its label.
    pub number: u32,
    pub label: Option<&'static str>,
    pub number_of_label: u32,
    pub generation: Option<u64>,
    /// The client that it was installed by, where that has a name.
    pub of: Option<String>,
    /// Whether packets of it pass no more (it was cut).
    pub dead: bool,
    /// Whether both ends are sockets of stock turmoil's own, which the world was not asked for: it cannot end them.
    pub foreign: bool,
    /// Whether a middleman plays the server's part (accept-then-close).
    pub middleman: bool,
    /// Whether the SYN was handed to the server's kernel. Before that, the server's end does not exist.
    pub arrived: bool,
    /// Whether a newer generation is installed: its segments are stale, and dropped in a twin run.
    pub stale: bool,
    ends: [SharedEnd; 2],
    pub directions: [Direction; 2],
    /// How each end was over.
    pub over: [Option<ConnEnd>; 2],
    /// Whether each end is established.
    pub up: [bool; 2],
}

impl ConnState {
    /// The direction in which an end sends.
    pub fn from(&mut self, side: Side) -> &mut Direction {
        &mut self.directions[side as usize]
    }

    /// What an end shares with its user's stream.
    pub fn end(&self, side: Side) -> &SharedEnd {
        &self.ends[side as usize]
    }

    /// The host of an end.
    pub fn host(&self, side: Side) -> HostIx {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }

    /// The port of an end.
    pub fn port(&self, side: Side) -> u16 {
        match side {
            Side::Client => self.ports.0,
            Side::Server => self.ports.1,
        }
    }

    /// The end on a host, if it has one there.
    pub fn side_on(&self, host: HostIx) -> Option<Side> {
        if host == self.client {
            Some(Side::Client)
        } else {
            (host == self.server).then_some(Side::Server)
        }
    }

    /// Whether an end is established.
    pub fn is_up(&self, side: Side) -> bool {
        self.up[side as usize]
    }

    /// Whether the user at the other end still has it, toward which an end sends: what nobody waits for any more makes no fault last longer.
    pub fn is_waited_for(&self, from: Side) -> bool {
        self.over[from.other() as usize].is_none()
    }

    /// Whether the server's host has no part in it yet: its SYN is on its way, and nobody has answered in the place of the server.
    pub fn is_unheard(&self) -> bool {
        !self.arrived && self.over[Side::Server as usize].is_none()
    }

    /// Whether both ends are over.
    pub fn is_over(&self) -> bool {
        self.over.iter().all(Option::is_some)
    }
}

/// All connections, by number and by address.
#[derive(Default)]
pub(super) struct Conns {
    all: Vec<ConnState>,
    by_address: BTreeMap<(HostIx, u16, HostIx, u16), ConnIndex>,
}

impl Conns {
    /// A new connection from a port of `client` to a port of `server`.
    pub fn open(
        &mut self,
        client: HostIx,
        server: HostIx,
        ports: (u16, u16),
        label: Option<&'static str>,
        end: SharedEnd,
    ) -> ConnIndex {
        let index = ConnIndex(self.all.len());
        let before = |same: &dyn Fn(&ConnState) -> bool| {
            1 + self.all.iter().filter(|conn| conn.client == client && same(conn)).count() as u32
        };
        let (number, number_of_label) = (before(&|_| true), before(&|conn| conn.label == label));
        end.lock().conn = Some(index);
        let far = SharedEnd::new();
        far.lock().conn = Some(index);
        self.all.push(ConnState {
            client,
            server,
            ports,
            number,
            label,
            number_of_label,
            generation: None,
            of: None,
            dead: false,
            foreign: false,
            middleman: false,
            arrived: false,
            stale: false,
            ends: [end, far],
            directions: Default::default(),
            over: [None, None],
            up: [false, false],
        });
        self.by_address.insert((client, ports.0, server, ports.1), index);
        index
    }

    /// The connection, and the end that sends, of a segment.
    pub fn of_segment(&self, from: (HostIx, u16), to: (HostIx, u16)) -> Option<(ConnIndex, Side)> {
        let find = |a: (HostIx, u16), b: (HostIx, u16)| {
            self.by_address.get(&(a.0, a.1, b.0, b.1)).copied()
        };
        find(from, to)
            .map(|conn| (conn, Side::Client))
            .or_else(|| find(to, from).map(|conn| (conn, Side::Server)))
    }

    /// The connection of this index.
    pub fn get(&mut self, index: ConnIndex) -> &mut ConnState {
        &mut self.all[index.0]
    }

    /// The same, to look at.
    pub fn look(&self, index: ConnIndex) -> &ConnState {
        &self.all[index.0]
    }

    /// All of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (ConnIndex, &ConnState)> {
        self.all.iter().enumerate().map(|(n, conn)| (ConnIndex(n), conn))
    }

    /// All indices.
    pub fn indices(&self) -> impl Iterator<Item = ConnIndex> + use<> {
        (0..self.all.len()).map(ConnIndex)
    }

    /// Whether a name of a schedule means this connection, as things stand.
    pub fn is_named(&self, index: ConnIndex, host: HostIx, name: &Conn) -> bool {
        let conn = self.look(index);
        let labelled = |label: &String| conn.label == Some(label.as_str());
        conn.client == host
            && name.label.as_ref().is_none_or(labelled)
            && match name.which {
                Which::Number(n) if name.label.is_some() => n == conn.number_of_label,
                Which::Number(n) => n == conn.number,
                Which::Generation(generation) => conn.generation == Some(generation),
                Which::Last => self.newest(host, name.label.as_deref()) == Some(index),
            }
    }

    /// The connection that a host opened last (of a label).
    pub fn newest(&self, host: HostIx, label: Option<&str>) -> Option<ConnIndex> {
        let of_label = |conn: &ConnState| label.is_none() || conn.label == label;
        self.iter()
            .rev()
            .find(|(_, conn)| conn.client == host && of_label(conn))
            .map(|(index, _)| index)
    }

    /// What the history says of a connection when it is opened.
    pub fn describe(
        &self,
        index: ConnIndex,
        hosts: &super::hosts::Hosts,
        opened: Time,
    ) -> Connection {
        let conn = self.look(index);
        let client = hosts.get(conn.client).name.clone();
        let name = match conn.label {
            Some(label) => format!("{client}/{label}#{}", conn.number_of_label),
            None => format!("{client}#{}", conn.number),
        };
        Connection {
            name,
            client,
            server: hosts.get(conn.server).name.clone(),
            generation: None,
            opened,
            over: (None, None),
        }
    }
}
