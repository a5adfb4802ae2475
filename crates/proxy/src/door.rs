//! Whether the proxy takes new connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::lane::Until;

/// How many connections the kernel holds until they are accepted.
const BACKLOG: u32 = 1024;
/// How long the door pauses after it failed to accept: the missing resource is usually still missing
/// a moment later.
const PAUSE: Duration = Duration::from_millis(50);

/// The treatment of new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Open,
    Refuses(Until),
    ClosesAtOnce(Until),
}

/// Changes the state of a door.
#[derive(Clone)]
pub(crate) struct DoorHandle(mpsc::UnboundedSender<(Door, oneshot::Sender<()>)>);

impl DoorHandle {
    /// Changes the state, and returns when it has changed.
    pub(crate) async fn set(&self, door: Door) {
        let (done, changed) = oneshot::channel();
        if self.0.send((door, done)).is_ok() {
            // An error means that the proxy ends.
            let _ = changed.await;
        }
    }
}

/// The listening socket of a proxy.
pub(crate) struct Doorway {
    address: SocketAddr,
    socket: Listening,
    door: Door,
    changes: mpsc::UnboundedReceiver<(Door, oneshot::Sender<()>)>,
}

/// A socket that keeps the port.
enum Listening {
    Yes(TcpListener),
    /// Only bound: the kernel refuses connections.
    No(TcpSocket),
    /// Between two states, or after an error.
    Broken,
}

impl Doorway {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<(Self, DoorHandle)> {
        let listener = bound(address)?.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let (change, changes) = mpsc::unbounded_channel();
        let socket = Listening::Yes(listener);
        Ok((Self { address, socket, door: Door::Open, changes }, DoorHandle(change)))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next connection that the door lets in.
    pub(crate) async fn next(&mut self) -> TcpStream {
        loop {
            if self.follow().is_err() {
                sleep(PAUSE).await;
                continue;
            }
            let end = match self.door {
                Door::Refuses(Until::Time(end)) | Door::ClosesAtOnce(Until::Time(end)) => Some(end),
                _ => None,
            };
            tokio::select! {
                biased;
                Some((door, done)) = self.changes.recv() => {
                    self.door = door;
                    // An error is reported by the next round.
                    let _ = self.follow();
                    let _ = done.send(());
                }
                () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => self.door = Door::Open,
                accepted = accept(&self.socket) => match accepted {
                    Ok(socket) if self.door == Door::Open => return socket,
                    Ok(socket) => drop(socket),
                    Err(_) => sleep(PAUSE).await,
                },
            }
        }
    }

    /// Brings the socket into the state of the door.
    fn follow(&mut self) -> io::Result<()> {
        let refuses = matches!(self.door, Door::Refuses(_));
        self.socket = match std::mem::replace(&mut self.socket, Listening::Broken) {
            Listening::Yes(listener) if refuses => {
                drop(listener);
                Listening::No(bound(self.address)?)
            }
            Listening::No(socket) if !refuses => Listening::Yes(socket.listen(BACKLOG)?),
            Listening::Broken if refuses => Listening::No(bound(self.address)?),
            Listening::Broken => Listening::Yes(bound(self.address)?.listen(BACKLOG)?),
            same => same,
        };
        Ok(())
    }
}

async fn accept(socket: &Listening) -> io::Result<TcpStream> {
    match socket {
        Listening::Yes(listener) => listener.accept().await.map(|(socket, _)| socket),
        _ => std::future::pending().await,
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // The address may still have connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
