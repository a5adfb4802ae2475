//! The implementation of [`net`](super) with tokio: real sockets.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::{TcpListener, TcpStream};

use super::{Accept, Address, BoxFuture, ConnId, Connect, Endpoint, Io, Listener, Network, Stream};

/// The real network: the operating system's sockets. TCP is without Nagle's delay. Unix sockets need
/// a Unix system.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

pub(super) fn numbered(socket: impl Io + 'static) -> Stream {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Stream::new(socket, ConnId(NEXT.fetch_add(1, Ordering::Relaxed)))
}

fn stream(socket: TcpStream) -> io::Result<Stream> {
    socket.set_nodelay(true)?;
    Ok(numbered(socket))
}

impl Connect for System {
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async move {
            match to.address() {
                Address::Tcp { host, port } => {
                    stream(TcpStream::connect((host.as_str(), *port)).await?)
                }
                Address::Unix(path) => unix::connect(path).await,
            }
        })
    }
}

impl Network for System {
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async move {
            match at.address() {
                Address::Tcp { host, port } => {
                    let socket = TcpListener::bind((host.as_str(), *port)).await?;
                    let at = Endpoint::tcp(host, socket.local_addr()?.port());
                    Ok(Box::new(Listening { socket, at }) as Listener)
                }
                Address::Unix(path) => unix::listen(path),
            }
        })
    }
}

struct Listening {
    socket: TcpListener,
    at: Endpoint,
}

impl Accept for Listening {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async {
            let (socket, from) = self.socket.accept().await?;
            Ok(stream(socket)?.opened_by(from.ip()))
        })
    }

    fn endpoint(&self) -> Endpoint {
        self.at.clone()
    }
}

#[cfg(unix)]
use super::unix;

/// Unix sockets on systems without them.
#[cfg(not(unix))]
mod unix {
    use super::*;

    pub(super) async fn connect(_: &std::path::Path) -> io::Result<Stream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn listen(_: &std::path::Path) -> io::Result<Listener> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

    use super::*;

    /// Written data arrives, port 0 becomes a real port, and no two connections have the same
    /// number.
    #[tokio::test]
    async fn an_echo_over_loopback() {
        let mut listener = System.listen(&Endpoint::tcp("127.0.0.1", 0)).await.unwrap();
        let at = listener.endpoint();
        assert_ne!(at.port(), Some(0));
        let (near, far) = tokio::join!(System.connect(&at), listener.accept());
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        assert_ne!(near.id(), far.id());
        assert_eq!((near.peer(), far.peer()), (None, Some([127, 0, 0, 1].into())));
        near.write_all(b"hello").await.unwrap();
        let mut received = [0; 5];
        far.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"hello");
    }

    /// The port stays bound, so that no other process can listen there.
    #[tokio::test]
    async fn connecting_without_a_listener_is_refused() {
        let held = TcpSocket::new_v4().unwrap();
        held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = Endpoint::tcp("127.0.0.1", held.local_addr().unwrap().port());
        assert_eq!(System.connect(&at).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
