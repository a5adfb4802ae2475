//! The implementation of [`net`](super) with tokio: real sockets.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::{TcpListener, TcpStream};

use super::{Accept, BoxFuture, ConnId, Connect, Endpoint, Listener, Network, Stream};

/// The real network: TCP over the operating system's sockets, without Nagle's delay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

fn stream(socket: TcpStream) -> io::Result<Stream> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    socket.set_nodelay(true)?;
    Ok(Stream::new(socket, ConnId(NEXT.fetch_add(1, Ordering::Relaxed))))
}

impl Connect for Tcp {
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async move { stream(TcpStream::connect((to.host(), to.port())).await?) })
    }
}

impl Network for Tcp {
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async move {
            let socket = TcpListener::bind((at.host(), at.port())).await?;
            let at = Endpoint::tcp(at.host(), socket.local_addr()?.port());
            Ok(Box::new(Listening { socket, at }) as Listener)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

    use super::*;

    /// Written data arrives, port 0 becomes a real port, and no two connections have the same
    /// number.
    #[tokio::test]
    async fn an_echo_over_loopback() {
        let mut listener = Tcp.listen(&Endpoint::tcp("127.0.0.1", 0)).await.unwrap();
        let at = listener.endpoint();
        assert_ne!(at.port(), 0);
        let (near, far) = tokio::join!(Tcp.connect(&at), listener.accept());
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
        assert_eq!(Tcp.connect(&at).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
