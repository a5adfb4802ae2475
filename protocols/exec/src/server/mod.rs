//! The server: it keeps sessions and their processes, and lends them to connections.
//!
//! - `log`, `stdin`: the two directions of one process. `process`: both, and what its task is to do. `session`: who is attached,
//!   and everything that changes in one step with that. All of them without clock, socket or task.
//! - `lifecycle`: the task of one process. `registry`: the sessions, and when each is over.
//! - `connection`: one connection, one task. `requests`: what clients ask for. `fetch`: the HTTP requests that they have sent
//!   from here.
//!
//! A connection pulls what it sends from its session, along a cursor a process, so that a client which reads slowly stops its
//! own processes, and nobody else. Tasks are owned: those of connections by [`Server::serve`], those of processes by their
//! session. Dropping [`Server::serve`] ends all of them, and kills every process.
//!
//! Where upstream of June 2026 has a hole, this server does better:
//! - a dead peer is noticed by ping, within 16 s: it does not keep its session "still attached" for the whole recovery;
//! - a long-poll wakes by a permit that is kept, so no event between its look and its wait is missed, and it does not hold up
//!   the requests behind it;
//! - a closed process is kept long enough for a client that noticed a cut late (`session` says how that is counted);
//! - what was kept through an outage is held for the catch-up read, though output goes on;
//! - a bounded read tells of exit and close only when it reaches them;
//! - a flood of output does not hold up replies, nor one process another.
//!
//! What it does not do: authenticate (a session's id is 122 random bits, and that is all), encrypt, limit what processes may do.

use std::sync::Arc;
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::net::Listener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::limits::ServerLimits;

mod connection;
mod fetch;
mod lifecycle;
mod log;
mod process;
mod refusal;
mod registry;
mod requests;
mod resources;
mod session;
mod stdin;
#[cfg(test)]
mod tests;

pub use log::CHUNK;
pub use resources::{Counts, ServerResources};
pub use session::exit_code;

use registry::Shared;

/// How long the server waits after it could not accept a connection: whatever is short then (files, memory) stays short for a
/// moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server: sessions, and who serves them.
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// A server that launches its processes, and makes its connections, by `env`.
    pub fn new(env: &Env, limits: ServerLimits) -> Self {
        Self { shared: Arc::new(Shared::new(env, limits)) }
    }

    /// What it holds, to be asked at any time. Does not keep it alive.
    pub fn resources(&self) -> ServerResources {
        ServerResources::of(&self.shared)
    }

    /// Serves whoever connects, until it is dropped.
    pub async fn serve(self, mut listener: Listener) {
        let shared = &self.shared;
        let mut connections = JoinSet::new();
        loop {
            let due = shared.sweep(Instant::now());
            tokio::select! {
                biased;
                accepted = listener.accept(), if connections.len() < shared.limits.connections => match accepted {
                    Ok(stream) => drop(connections.spawn(connection::serve(shared.clone(), stream))),
                    Err(error) => {
                        tracing::warn!(%error, "accept");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                () = shared.changed.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }
}

/// Kills every process, though the tasks of connections hold their sessions for a moment longer.
impl Drop for Server {
    fn drop(&mut self) {
        self.shared.shut_down();
    }
}
