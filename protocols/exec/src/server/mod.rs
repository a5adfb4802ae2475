//! The server: it keeps sessions and their processes, and attaches connections to them.
//!
//! - `log`, `stdin`: the output and the input of one process. `write_ids`: the writes that its
//!   client may repeat. `flow`: how much of the output its client has not consumed. `process`: all of
//!   them, and the pending
//!   actions of its task. `session`: the attached connection, and all state that must change
//!   together with it. These modules use no clock, socket or task.
//! - `lifecycle`: the task of one process. `registry`: the sessions, and when each expires.
//! - `connection`: one connection, one task. `requests`: the requests of clients; `blocking`: defects of
//!   their order; `start`: what a client asks to start; `variables`: its environment; `restrictions` and
//!   `policy`: what it may not do; `denial`: whether that made it fail.
//!   `description`: the machine, as clients see it. `fetch`: the HTTP
//!   requests that the server sends for its clients. `files`: the requests for files.
//!
//! - `peer`: the host of a client. `admission`, `lobby`: the share of each host in the sessions and
//!   in the connections, so that no host uses up what the others need.
//!
//! A connection pulls its events from its session, with one cursor per process. So a client that
//! reads slowly blocks only its own processes. Every task has an owner: [`Server::serve`] owns the
//! tasks of connections, and a session owns the tasks of its processes. Dropping [`Server::serve`]
//! ends all of them and kills every process.
//!
//! Where the upstream server of June 2026 has defects, this server improves on it:
//! - It detects a dead peer by ping within 16 s. Upstream keeps the session of a dead peer "still
//!   attached" for the client's whole recovery.
//! - A long-poll wakes by a stored permit, so it misses no event between its check and its wait. It
//!   does not delay the requests after it.
//! - It keeps a closed process long enough for a client that notices a cut late (`session`
//!   describes the retention).
//! - It holds output retained during an outage for the catch-up read, even while the process prints
//!   more.
//! - A bounded read reports exit and close only when it reaches them.
//! - A flood of output does not delay answers or other processes.
//! - If the client supports it, it holds a process whose output the client does not consume, and
//!   evicts no output that the client needs ([`flow`](crate::wire::flow)).
//!
//! The server does not authenticate clients (the 122 random bits of a session id are the only
//! secret) and does not encrypt. It limits what a process may do only as far as its client asks for it,
//! and refuses to start a process that it cannot limit so.

use std::sync::Arc;
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::net::Listener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::limits::ServerLimits;

mod admission;
mod blocking;
mod connection;
mod defects;
mod denial;
mod description;
mod fetch;
mod files;
mod flow;
mod lifecycle;
mod lobby;
mod log;
mod peer;
mod policy;
mod process;
mod registry;
mod request_error;
mod requests;
mod resources;
mod restrictions;
mod session;
mod start;
mod stdin;
#[cfg(test)]
mod tests;
mod variables;
mod write_ids;

pub use log::CHUNK;
pub use resources::{Counts, ServerResources};
pub use session::exit_code;

use peer::Peer;
use registry::Shared;

/// How long the server pauses after it failed to accept a connection. The missing resource (file
/// handles, memory) is usually still missing a moment later.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server: its sessions and their connections.
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Creates a server that launches its processes and opens its connections through `env`.
    pub fn new(env: &Env, limits: ServerLimits) -> Self {
        Self { shared: Arc::new(Shared::new(env, limits)) }
    }

    /// Returns a handle to the server's resource counts. The handle does not keep the server alive.
    pub fn resources(&self) -> ServerResources {
        ServerResources::of(&self.shared)
    }

    /// Serves all connections until the future is dropped.
    pub async fn serve(self, mut listener: Listener) {
        let shared = &self.shared;
        let mut connections = JoinSet::new();
        loop {
            let due = shared.sweep(Instant::now());
            tokio::select! {
                biased;
                accepted = listener.accept() => match accepted {
                    Ok(stream) => if let Some(place) = shared.lobby.enter(Peer::of(&stream), connections.len()) {
                        connections.spawn(connection::serve(shared.clone(), stream, place));
                    },
                    Err(error) => {
                        tracing::warn!(%error, "accept");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                // No wake-up is lost between `sweep` and this wait: only this task waits, so `Notify`
                // stores the permit of a change that comes before the wait.
                () = shared.changed.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }
}

/// Kills every process immediately, although the tasks of connections hold their sessions a little
/// longer.
impl Drop for Server {
    fn drop(&mut self) {
        self.shared.shut_down();
    }
}
