//! A server, a proxy in front of it, and what a follower receives.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use reknit_proxy::{End, Fault, Moment, Proxy, Rule, Script};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_sse::client::{Client, ClientConfig, Dialect, Failure, Follower, Item};
use reknit_sse::limits::{ClientLimits, ServerLimits};
use reknit_sse::server::{Server, ServerConfig, ServerResources};
use reknit_sse::wire::{Ending, Gap, OutputStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a test may take.
pub(super) const LONG: Duration = Duration::from_secs(120);

/// A server, and a proxy in front of it.
pub(super) struct World {
    pub(super) proxy: Proxy,
    /// Where the server listens, behind the proxy.
    pub(super) server: Endpoint,
    serving: JoinHandle<()>,
    pub(super) resources: ServerResources,
}

impl World {
    pub(super) async fn new(limits: ServerLimits, rules: Vec<Rule>) -> Self {
        let env = Env::real();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.unwrap();
        let at = SocketAddr::new(any.ip(), listener.endpoint().port().unwrap());
        let server = Server::new(&env, ServerConfig::default(), limits);
        let resources = server.resources();
        let serving = tokio::spawn(server.serve(listener));
        let server = Endpoint::tcp("127.0.0.1", at.port());
        let proxy = Proxy::start(any, at, Script { rules }).await.unwrap();
        Self { proxy, server, serving, resources }
    }

    pub(super) fn client(&self, dialect: Dialect) -> Client {
        let limits = ClientLimits {
            silence: Duration::from_secs(1),
            budget: Duration::from_secs(20),
            ..ClientLimits::default()
        };
        self.configured(ClientConfig { dialect, ..ClientConfig::default() }, limits)
    }

    pub(super) fn limited(&self, limits: ClientLimits) -> Client {
        self.configured(ClientConfig::default(), limits)
    }

    fn configured(&self, config: ClientConfig, limits: ClientLimits) -> Client {
        let at = Endpoint::tcp("127.0.0.1", self.proxy.address().port());
        Client::new(&Env::real(), at, config, limits)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The items of a follower, up to its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) gaps: Vec<Gap>,
    pub(super) end: Option<Result<Ending, Failure>>,
}

impl Received {
    pub(super) async fn rest(&mut self, follower: &mut Follower) {
        while self.one(follower).await {}
    }

    /// Receives one item. Returns whether more follow.
    pub(super) async fn one(&mut self, follower: &mut Follower) -> bool {
        match timeout(LONG, follower.next()).await.expect("it makes progress") {
            Ok(Some(Item::Output(OutputStream::Stdout, bytes))) => self.stdout.extend(bytes),
            Ok(Some(Item::Output(OutputStream::Stderr, bytes))) => self.stderr.extend(bytes),
            Ok(Some(Item::Gap(gap))) => self.gaps.push(gap),
            Ok(Some(Item::Ended { ending, .. })) => self.end = Some(Ok(ending)),
            Ok(None) => return false,
            Err(failure) => {
                self.end = Some(Err(failure));
                return false;
            }
        }
        true
    }
}

pub(super) async fn received(mut follower: Follower) -> Received {
    let mut received = Received::default();
    received.rest(&mut follower).await;
    received
}

/// A fault on a connection, after so many bytes to the client.
pub(super) fn cut(conn: Option<u32>, count: u64, fault: Fault) -> Rule {
    Rule { conn, times: None, at: Moment::Bytes { toward: End::Client, count }, fault }
}

/// The lines that `seq` prints for a shell.
pub(super) fn lines(range: RangeInclusive<u64>, width: usize) -> Vec<u8> {
    range.flat_map(|line| format!("{line:0width$}\n").into_bytes()).collect()
}
