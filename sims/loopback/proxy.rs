//! The proxy between client and server. It forwards bytes, and breaks connections as bad networks
//! do.

use std::io;

use reknit_seams::net::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The condition of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkState {
    /// All data is forwarded.
    Fair,
    /// Every connection is reset, including new ones.
    Resets,
    /// Every connection is closed gracefully, including new ones.
    Closes,
    /// No data is forwarded, and none is lost: it arrives when the network works again.
    Still,
}

impl NetworkState {
    fn ends_connections(&self) -> bool {
        matches!(self, Self::Resets | Self::Closes)
    }
}

/// A proxy in front of one server. At first, the network works.
pub struct Proxy {
    at: Endpoint,
    network_state: watch::Sender<NetworkState>,
    /// The number of connections that it forwards.
    carried: watch::Receiver<usize>,
    _task: JoinSet<()>,
}

impl Proxy {
    pub async fn before(server: Endpoint) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = Endpoint::tcp("127.0.0.1", listener.local_addr().unwrap().port());
        let (network_state, forecast) = watch::channel(NetworkState::Fair);
        let (count, carried) = watch::channel(0);
        let mut task = JoinSet::new();
        task.spawn(accept(listener, server, forecast, count));
        Self { at, network_state, carried, _task: task }
    }

    /// Returns the address for clients.
    pub fn endpoint(&self) -> Endpoint {
        self.at.clone()
    }

    /// Changes the network state. If the new state ends connections, all existing ones have ended when
    /// this returns.
    pub async fn turns(&self, network_state: NetworkState) {
        self.network_state.send_replace(network_state);
        if network_state.ends_connections() {
            self.carried.clone().wait_for(|carried| *carried == 0).await.unwrap();
        }
    }

    /// Resets every existing connection. New ones are forwarded.
    pub async fn cut(&self) {
        self.turns(NetworkState::Resets).await;
        self.turns(NetworkState::Fair).await;
    }
}

async fn accept(
    listener: TcpListener,
    server: Endpoint,
    network_state: watch::Receiver<NetworkState>,
    carried: watch::Sender<usize>,
) {
    let mut pairs = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = pairs.join_next() => {}
            accepted = listener.accept() => drop(pairs.spawn(pair(accepted.unwrap().0, server.clone(), network_state.clone()))),
        }
        carried.send_replace(pairs.len());
    }
}

/// Forwards one connection of a client to the server.
async fn pair(
    mut near: TcpStream,
    server: Endpoint,
    mut network_state: watch::Receiver<NetworkState>,
) {
    let Ok(mut far) = TcpStream::connect((server.host(), server.port())).await else { return };
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let ((near_in, near_out), (far_in, far_out)) = (near.split(), far.split());
    let (there, back) = (network_state.clone(), network_state.clone());
    let resets = tokio::select! {
        biased;
        storm = network_state.wait_for(NetworkState::ends_connections) => storm.is_ok_and(|storm| *storm == NetworkState::Resets),
        over = async { tokio::try_join!(carry(near_in, far_out, there), carry(far_in, near_out, back)) } => over.is_err(),
    };
    if resets {
        near.set_zero_linger().unwrap();
        far.set_zero_linger().unwrap();
    }
}

async fn carry(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut network_state: watch::Receiver<NetworkState>,
) -> io::Result<()> {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut bytes).await?;
        network_state
            .wait_for(|network_state| *network_state != NetworkState::Still)
            .await
            .map_err(io::Error::other)?;
        match count {
            0 => return to.shutdown().await,
            count => to.write_all(&bytes[..count]).await?,
        }
    }
}
