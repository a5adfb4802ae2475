//! The proxy: it accepts connections and forwards each to the server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::book::{Book, Event, Happening};
use super::connection::Connection;
use super::door::{DoorHandle, Doorway};
use super::ending::reset;
use super::network::NetworkState;
use super::script::Script;

/// A proxy in front of one server. Dropping it resets all its connections.
pub struct Proxy {
    address: SocketAddr,
    book: Arc<Book>,
    network: watch::Sender<NetworkState>,
    /// The number of connections that it forwards.
    carried: watch::Sender<usize>,
    _task: JoinSet<()>,
}

impl Proxy {
    /// Listens on `listen`, where port 0 selects any free port, and forwards to `server`.
    ///
    /// # Errors
    /// If the address is not free.
    pub async fn start(listen: SocketAddr, server: SocketAddr, script: Script) -> io::Result<Self> {
        let (doorway, door) = Doorway::bind(listen)?;
        let address = doorway.address();
        let book = Arc::new(Book::new(&script));
        let (network, carried) = (watch::Sender::default(), watch::Sender::new(0));
        let desk = Desk {
            server,
            script: Arc::new(script),
            book: book.clone(),
            door,
            network: network.subscribe(),
            carried: carried.clone(),
        };
        let mut task = JoinSet::new();
        task.spawn(desk.serve(doorway));
        Ok(Self { address, book, network, carried, _task: task })
    }

    /// Starts a proxy on any free port of the loopback interface, without a script.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn before(server: SocketAddr) -> io::Result<Self> {
        Self::start((Ipv4Addr::LOCALHOST, 0).into(), server, Script::default()).await
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the state of the network. If the new state ends connections, all existing ones have
    /// ended when this returns.
    pub async fn turn(&self, state: NetworkState) {
        self.network.send_replace(state);
        if state.ends_connections() {
            // This cannot fail: `self` holds the sender.
            let _ = self.carried.subscribe().wait_for(|carried| *carried == 0).await;
        }
    }

    /// Resets every existing connection. New ones are forwarded.
    pub async fn cut(&self) {
        self.turn(NetworkState::Resets).await;
        self.turn(NetworkState::Fair).await;
    }

    /// Returns how many connections the proxy has accepted.
    pub fn connections(&self) -> u32 {
        self.book.connections()
    }

    /// Returns what has happened, oldest first; at most the newest 10,000 events.
    pub fn events(&self) -> Vec<Event> {
        self.book.events()
    }
}

/// Everything that a new connection needs.
struct Desk {
    server: SocketAddr,
    script: Arc<Script>,
    book: Arc<Book>,
    door: DoorHandle,
    network: watch::Receiver<NetworkState>,
    carried: watch::Sender<usize>,
}

impl Desk {
    async fn serve(self, mut doorway: Doorway) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(_) = connections.join_next() => {}
                client = doorway.next() => drop(connections.spawn(self.forward(client))),
            }
        }
    }

    /// Forwards one connection of a client to the server.
    fn forward(&self, client: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        let number = self.book.accepted();
        let carried = Carried::new(&self.carried);
        let (server, book) = (self.server, self.book.clone());
        let connection = Connection::new(
            number,
            self.script.clone(),
            book.clone(),
            self.door.clone(),
            self.network.clone(),
        );
        async move {
            let reached = TcpStream::connect(server).await;
            let sockets = reached.and_then(|server| {
                client.set_nodelay(true)?;
                server.set_nodelay(true)?;
                Ok(server)
            });
            match sockets {
                Ok(server) => connection.run(client, server, carried).await,
                Err(_) => {
                    book.note(number, Happening::Unreachable);
                    reset(client);
                }
            }
        }
    }
}

/// Counts a connection while it exists.
struct Carried(watch::Sender<usize>);

impl Carried {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
