//! Linux: the loopback interface, through the tokio implementation of [`reknit::net`].

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use reknit::net::{
    Accept, BoxFuture, ConnId, Connect, Endpoint, Listener, Network, Stream, System,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use crate::stage::{Exchange, Stage};

/// Returns addresses of the loopback interface, one per exchange. On a shared address, a port that
/// one exchange has closed could be assigned to another's listener.
pub fn addresses() -> impl Iterator<Item = Ipv4Addr> {
    (1..).map(|nth| Ipv4Addr::from_bits(Ipv4Addr::new(127, 0, 1, 0).to_bits() + nth))
}

/// Runs an exchange on an address of the loopback interface; returns what the ends observed. It
/// uses the network of product code, and resettable sockets only if the exchange needs a reset.
pub async fn play(exchange: &Exchange, address: Ipv4Addr) -> Vec<String> {
    let at = Endpoint::tcp(address.to_string(), 0);
    if exchange.reset.is_none() {
        return exchange
            .on(Stage::new(
                Arc::new(System),
                Arc::new(System),
                at,
                Arc::new(|_| unreachable!("it has no reset")),
            ))
            .await;
    }
    let net = Arc::new(Resettable::default());
    let reset_net = net.clone();
    exchange
        .on(Stage::new(net.clone(), net, at, Arc::new(move |stream| reset_net.reset(stream))))
        .await
}

/// A network whose connections can be reset from either end. A socket with a linger time of zero
/// sends an RST instead of a FIN.
#[derive(Clone, Default)]
struct Resettable {
    made: Arc<AtomicU64>,
    abrupt: Arc<Mutex<BTreeMap<ConnId, Arc<AtomicBool>>>>,
}

impl Resettable {
    fn stream(&self, socket: TcpStream) -> io::Result<Stream> {
        socket.set_nodelay(true)?;
        let id = ConnId(self.made.fetch_add(1, Ordering::Relaxed));
        let abrupt = Arc::new(AtomicBool::new(false));
        self.abrupt.lock().unwrap().insert(id, abrupt.clone());
        Ok(Stream::new(Socket { socket, abrupt }, id))
    }

    fn reset(&self, stream: Stream) {
        self.abrupt.lock().unwrap()[&stream.id()].store(true, Ordering::Relaxed);
        drop(stream);
    }
}

impl Connect for Resettable {
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async move { self.stream(TcpStream::connect(to.to_string()).await?) })
    }
}

impl Network for Resettable {
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async move {
            let socket = TcpListener::bind(at.to_string()).await?;
            Ok(Box::new(Listening { socket, net: self.clone() }) as Listener)
        })
    }
}

struct Listening {
    socket: TcpListener,
    net: Resettable,
}

impl Accept for Listening {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async { self.net.stream(self.socket.accept().await?.0) })
    }

    fn endpoint(&self) -> Endpoint {
        let address = self.socket.local_addr().expect("a listener has an address");
        Endpoint::tcp(address.ip().to_string(), address.port())
    }
}

/// A socket that can be closed abruptly.
struct Socket {
    socket: TcpStream,
    abrupt: Arc<AtomicBool>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.abrupt.load(Ordering::Relaxed) {
            self.socket.set_zero_linger().expect("the socket is open");
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
