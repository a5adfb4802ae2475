//! Tests of the whole server over a network in memory, with processes that the test plays.

mod defects;
mod machine;
mod peer;
mod refusals;
mod resume;
mod sessions;
mod start;
mod walk;

use std::sync::Arc;
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_seams::net::memory::{Fate, Memory};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::machine::Machine;
use self::peer::{Answer, Peer};
use super::*;
use crate::wire::CommandStatus;

const SECOND: Duration = Duration::from_secs(1);

/// A running server.
struct World {
    net: Memory,
    machine: Machine,
    resources: ServerResources,
    server: JoinHandle<()>,
}

impl World {
    async fn new(limits: ServerLimits) -> Self {
        Self::configured(ServerConfig::default(), limits).await
    }

    async fn configured(config: ServerConfig, limits: ServerLimits) -> Self {
        let (net, machine) = (Memory::default(), Machine::default());
        let env =
            Env { net: Arc::new(net.clone()), launch: Arc::new(machine.clone()), ..Env::real() };
        let listener = env.net.listen(&Endpoint::tcp("server", 80)).await.unwrap();
        let server = Server::new(&env, config, limits);
        let resources = server.resources();
        Self { net, machine, resources, server: tokio::spawn(server.serve(listener)) }
    }

    /// Opens a connection.
    async fn peer(&self) -> Peer {
        Peer::connect(&self.net).await
    }

    /// Sends a request on a new connection.
    async fn send(&self, request: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.peer().await.send(request, headers, body).await
    }

    /// Starts a command with the id `c` in the foreground.
    async fn start(&self) -> Answer {
        self.send("POST /command", &[], r#"{"operation_id":"c","command":"run"}"#).await
    }

    /// Starts a second command, with the id `d`, in the foreground.
    async fn start_other(&self) -> Answer {
        self.send("POST /command", &[], r#"{"operation_id":"d","command":"d"}"#).await
    }

    /// Returns the state of a command.
    async fn status(&self, command: &str) -> CommandStatus {
        let status = self.send(&format!("GET /command/status/{command}"), &[], "").await;
        serde_json::from_str(&status.text().await).unwrap()
    }

    /// Returns the position of the last event of a command.
    async fn last(&self, command: &str) -> u64 {
        self.status(command).await.last
    }

    async fn resume(&self, after: u64, owner: Option<&str>) -> Answer {
        let headers: Vec<_> = owner.iter().map(|owner| ("x-reknit-owner", *owner)).collect();
        self.send(&format!("GET /command/c/resume?after_eid={after}"), &headers, "").await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}
