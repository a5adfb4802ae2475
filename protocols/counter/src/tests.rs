//! Tests of client and server together, on paused time, over in-memory connections that a test can
//! cut and freeze; one test uses real sockets.
//!
//! - [`client`]: the user's view of the client. [`server`]: the server's reactions to its peers.
//! - [`environment`]: a server, its world, and a raw peer. The network is `reknit_seams::net::memory`.

use std::sync::Arc;

use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::*;
use environment::{World, name};

mod client;
mod environment;
mod server;

/// Runs the same client and server over real sockets.
#[tokio::test]
async fn over_loopback() {
    let env = Env::real();
    let world = Arc::new(World::default());
    let at = Endpoint::tcp("127.0.0.1", 0);
    let server =
        Server::bind(&env, &at, ServerLimits::default(), world.clone(), world).await.unwrap();
    let at = server.endpoint();
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run());
    let client = Client::start(&env, at.clone(), ClientLimits::default());
    let mut watch = client.watch(name("s1")).await;
    assert_eq!(watch.next().await, Some(Number { index: 1, value: 10, generation: 1 }));
    assert_eq!(client.add(name("c1"), 7, name("m")).await, Ok(7));
    assert_eq!(client.peek(name("c1")).await, Ok(7));
    client.close().await;
    let mut rest = Vec::new();
    let mut raw = tokio::net::TcpStream::connect(at.to_string()).await.unwrap();
    raw.write_all(b"rubbish\n").await.unwrap();
    raw.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
}
