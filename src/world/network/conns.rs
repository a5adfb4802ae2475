//! The connections of a world: who opened them, the state of each direction, and the state of each
//! end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::BytesMut;
use turmoil_net::TcpSegment;

use crate::history::{ConnEnd, ConnIndex, Connection, Side, Time};
use crate::schedule::{Conn, Which};
use crate::subject::Dissector;

use super::directory::Directory;
use super::held::HeldSegments;
use super::stack::RawSocket;
use crate::world::thread::HostIx;

/// The state that an end of a connection shares with the stream of its user.
pub(in crate::world) struct Endpoint {
    /// The socket, or `None` after the user has dropped the stream.
    pub socket: Option<Box<dyn RawSocket>>,
    /// Bytes that had arrived but were unread when the connection was reset. The user reads them
    /// before the error.
    pub saved: BytesMut,
    /// Bytes that arrived before the server accepted the connection. A reset would discard these,
    /// too.
    pub early: BytesMut,
    /// The error that ended the connection. Linux reports it once, and an end of stream from then
    /// on.
    pub error: Option<std::io::ErrorKind>,
    /// Whether the error was reported to the user.
    pub reported: bool,
    /// Whether the user has dropped its stream.
    pub dropped: bool,
    /// The connection of this end, once it is known.
    pub conn: Option<ConnIndex>,
    /// Wakes the task that waits for the connection to open.
    pub opener: Option<Waker>,
    /// Wakes the task that waits for room to write, if the engine's sockets have no windows.
    pub writer: Option<Waker>,
    /// Whether the user waits for room to write.
    pub is_blocked: bool,
    /// Number of payload bytes that were delivered to the socket (`received`) and read from it
    /// (`read`).
    pub received: u64,
    pub read: u64,
}

impl Endpoint {
    /// Wakes all tasks that wait for this end.
    pub fn wake(&mut self) {
        if let Some(socket) = &mut self.socket {
            socket.wake();
        }
        [&mut self.opener, &mut self.writer]
            .into_iter()
            .filter_map(Option::take)
            .for_each(Waker::wake);
    }
}

/// A handle to an [`Endpoint`]. The user's stream and the world each have one. Only one thread uses
/// them; the lock makes the stream `Send`.
#[derive(Clone)]
pub(in crate::world) struct SharedEnd(Arc<Mutex<Endpoint>>);

impl SharedEnd {
    /// Creates an end that has no socket yet.
    pub fn new() -> Self {
        let end = Endpoint {
            socket: None,
            saved: BytesMut::new(),
            early: BytesMut::new(),
            error: None,
            reported: false,
            dropped: false,
            conn: None,
            opener: None,
            writer: None,
            is_blocked: false,
            received: 0,
            read: 0,
        };
        SharedEnd(Arc::new(Mutex::new(end)))
    }

    /// Returns whether both handles belong to the same end.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Locks the end.
    pub fn lock(&self) -> MutexGuard<'_, Endpoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection attempt.
pub(in crate::world) struct PendingConnect {
    /// The server and its port.
    pub to: (HostIx, u16),
    pub label: Option<&'static str>,
    pub end: SharedEnd,
}

/// One direction of a connection, identified by the end that sends.
#[derive(Default)]
pub(in crate::world) struct Direction {
    /// Number of segments sent. It is also the key of the next draw.
    pub sent: u64,
    /// The sequence number of the first payload byte.
    pub base: u32,
    /// The next sequence number, and the newest ack number and window that were sent.
    pub next: u32,
    pub ack: u32,
    pub window: u16,
    /// The arrival time of the last segment that occupies sequence space. Such segments never
    /// overtake each other.
    pub last_arrival: Time,
    /// The time until which earlier segments occupy a slow link, in microseconds.
    pub busy_until: u64,
    /// The segments that faults hold, and the time when the first of them was lost.
    pub held: HeldSegments,
    pub lost_since: Option<Time>,
    /// Number of payload bytes that the user wrote (`written`), and that were delivered to the
    /// receiver (`delivered`).
    pub written: u64,
    pub delivered: u64,
    /// Used only if the world keeps the windows: the segments that wait for room, the number of
    /// payload bytes that have left and that were acknowledged, and the receiver's window as last
    /// advertised to the sender. A SYN advertises the largest window.
    pub unsent: VecDeque<TcpSegment>,
    pub left: u64,
    pub acked: u64,
    pub room: Option<u64>,
    /// The newest ack number and window that were delivered to the receiver of this direction, with
    /// the number of their segment.
    pub seen_ack: Option<(u64, u32, u16)>,
    /// The newest acknowledgement that has arrived but was not yet passed to the receiver's kernel.
    /// The delay has no visible effect.
    pub owed: Option<TcpSegment>,
    /// Whether a FIN was sent.
    pub closed: bool,
    /// Whether the sender's user dropped its stream with unread bytes. The end then sends an RST
    /// instead of a FIN.
    pub aborts: bool,
    /// Whether the world made the sender's kernel forget the connection after its FIN was sent. The
    /// world then answers for that end.
    pub forgotten: bool,
    /// Whether a FIN was delivered to the receiver.
    pub finished: bool,
    /// Reads all written bytes, from the first one on, if the run counts messages.
    pub dissector: Option<Box<dyn Dissector>>,
    /// The positions at which messages end.
    pub messages: Vec<MessageSent>,
}

impl Direction {
    /// Updates an acknowledgement, the n-th segment, that a newer one has overtaken: it gets the ack
    /// number and the window of the newer one.
    pub fn update_overtaken_ack(&mut self, n: u64, tcp: &mut TcpSegment) {
        if !tcp.flags.ack {
            return;
        }
        match self.seen_ack {
            Some((newest, ack, window)) if newest > n => (tcp.ack, tcp.window) = (ack, window),
            _ => self.seen_ack = Some((n, tcp.ack, tcp.window)),
        }
    }
}

/// A message that was written in a direction.
pub(in crate::world) struct MessageSent {
    pub end: u64,
    pub delivered: Option<Time>,
}

/// A connection.
pub(in crate::world) struct ConnState {
    pub client: HostIx,
    pub server: HostIx,
    /// The ports of the two ends.
    pub ports: (u16, u16),
    /// The connection's number among the connections of its host, and among those with its label.
    pub number: u32,
    pub label: Option<&'static str>,
    pub number_of_label: u32,
    pub generation: Option<u64>,
    /// The name of the client that installed the connection, if that client has a name.
    pub of: Option<String>,
    /// Whether the connection was cut: its packets no longer pass.
    pub dead: bool,
    /// Whether both ends are sockets of stock turmoil that the subject opened without the world.
    /// The world cannot end such a connection.
    pub foreign: bool,
    /// Whether a middlebox answers instead of the server (accept-then-close).
    pub middleman: bool,
    /// Whether the SYN reached the server's kernel. Before that, the server's end does not exist.
    pub arrived: bool,
    /// Whether a newer generation is installed. The segments of this connection are then stale; a
    /// control run drops them, except late requests if the server accepts these.
    pub stale: bool,
    ends: [SharedEnd; 2],
    pub directions: [Direction; 2],
    /// How each end was closed, or `None` while it is open.
    pub over: [Option<ConnEnd>; 2],
    /// Whether each end is established.
    pub up: [bool; 2],
}

impl ConnState {
    /// Returns the direction in which an end sends.
    pub fn from(&mut self, side: Side) -> &mut Direction {
        &mut self.directions[side as usize]
    }

    /// Returns the state that an end shares with its user's stream.
    pub fn end(&self, side: Side) -> &SharedEnd {
        &self.ends[side as usize]
    }

    /// Returns the host of an end.
    pub fn host(&self, side: Side) -> HostIx {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }

    /// Returns the port of an end.
    pub fn port(&self, side: Side) -> u16 {
        match side {
            Side::Client => self.ports.0,
            Side::Server => self.ports.1,
        }
    }

    /// Returns the end on a host, if there is one.
    pub fn side_on(&self, host: HostIx) -> Option<Side> {
        if host == self.client {
            Some(Side::Client)
        } else {
            (host == self.server).then_some(Side::Server)
        }
    }

    /// Returns whether an end is established.
    pub fn is_up(&self, side: Side) -> bool {
        self.up[side as usize]
    }

    /// Returns whether the receiver of the segments sent by `from` still has the connection open. A
    /// fault does not wait for segments whose receiver has closed.
    pub fn is_waited_for(&self, from: Side) -> bool {
        self.over[from.other() as usize].is_none()
    }

    /// Returns whether the SYN is still in flight: the server's host does not know the connection,
    /// and no fault answered the SYN for the server.
    pub fn is_syn_in_flight(&self) -> bool {
        !self.arrived && self.over[Side::Server as usize].is_none()
    }

    /// Returns whether both ends are closed.
    pub fn is_over(&self) -> bool {
        self.over.iter().all(Option::is_some)
    }
}

/// All connections, by index and by address.
#[derive(Default)]
pub(in crate::world) struct Conns {
    all: Vec<ConnState>,
    by_address: BTreeMap<(HostIx, u16, HostIx, u16), ConnIndex>,
}

impl Conns {
    /// Adds a connection from a port of `client` to a port of `server`.
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

    /// Returns the connection of a segment, and the end that sent it.
    pub fn of_segment(&self, from: (HostIx, u16), to: (HostIx, u16)) -> Option<(ConnIndex, Side)> {
        let find = |a: (HostIx, u16), b: (HostIx, u16)| {
            self.by_address.get(&(a.0, a.1, b.0, b.1)).copied()
        };
        find(from, to)
            .map(|conn| (conn, Side::Client))
            .or_else(|| find(to, from).map(|conn| (conn, Side::Server)))
    }

    /// Returns the connection with this index, mutably.
    pub fn get_mut(&mut self, index: ConnIndex) -> &mut ConnState {
        &mut self.all[index.0]
    }

    /// Returns the connection with this index.
    pub fn get(&self, index: ConnIndex) -> &ConnState {
        &self.all[index.0]
    }

    /// Iterates over all connections.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (ConnIndex, &ConnState)> {
        self.all.iter().enumerate().map(|(n, conn)| (ConnIndex(n), conn))
    }

    /// Iterates over the indices of all connections.
    pub fn indices(&self) -> impl Iterator<Item = ConnIndex> + use<> {
        (0..self.all.len()).map(ConnIndex)
    }

    /// Returns whether a name from the schedule currently refers to this connection.
    pub fn is_named(&self, index: ConnIndex, host: HostIx, name: &Conn) -> bool {
        let conn = self.get(index);
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

    /// Returns the connection that a host opened last, with the given label if there is one.
    pub fn newest(&self, host: HostIx, label: Option<&str>) -> Option<ConnIndex> {
        let of_label = |conn: &ConnState| label.is_none() || conn.label == label;
        self.iter()
            .rev()
            .find(|(_, conn)| conn.client == host && of_label(conn))
            .map(|(index, _)| index)
    }

    /// Returns the history's description of a newly opened connection.
    pub fn describe(&self, index: ConnIndex, directory: &Directory, opened: Time) -> Connection {
        let conn = self.get(index);
        let client = directory.name(conn.client).clone();
        let name = match conn.label {
            Some(label) => format!("{client}/{label}#{}", conn.number_of_label),
            None => format!("{client}#{}", conn.number),
        };
        Connection::new(name, client, directory.name(conn.server).clone(), opened)
    }
}
