//! Runs one command to its report: on its own app-server, or through a broker.
//!
//! - [`Client`], [`Route`]: the client, and where it runs its commands. [`ClientError`]: why a command
//!   got no turn. [`News`]: what happens meanwhile.
//! - `connect`: a connection whose app-server is initialized. `start`: the requests up to the turn.
//!   `follow`: the turn, up to its verdict. `cancel`: the wish of the user to end the command.
//!
//! The future of [`Client::run`] owns everything that it starts, and starts no tasks. Dropping it
//! disconnects from the broker, which then interrupts the turn, or kills the app-server.

mod cancel;
mod connect;
mod error;
mod follow;
mod start;
#[cfg(test)]
mod tests;

pub use error::{ClientError, Place};

use std::future::Future;

use reknit_seams::net::Endpoint;
use reknit_seams::{Env, defect, milestone, point, process};

use crate::broker::BrokerSearch;
use crate::capture::{Progress, Report};
use crate::command::{Command, Settings};
use crate::limits::ClientLimits;
use cancel::Cancel;
use error::Stop;

/// Where a client runs its commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// On its own app-server.
    Direct {
        /// The command that starts it. It needs no `stdio`.
        app_server: process::Command,
    },
    /// Through a broker.
    Broker {
        /// The address of the broker.
        endpoint: Endpoint,
    },
    /// Through a broker, or, if that is busy or absent, on its own app-server.
    BrokerOrDirect {
        /// The address of the broker.
        endpoint: Endpoint,
        /// The command that starts the app-server. It needs no `stdio`.
        app_server: process::Command,
    },
    /// Through the broker of a workspace, which the client finds or starts, or, if that is busy or
    /// absent, on its own app-server.
    Workspace {
        /// The broker.
        broker: Box<BrokerSearch>,
        /// The command that starts the app-server. It needs no `stdio`.
        app_server: process::Command,
    },
}

/// One server of a route.
#[derive(Clone, Copy)]
enum Server<'a> {
    Broker(&'a Endpoint),
    Workspace(&'a BrokerSearch),
    Own(&'a process::Command),
}

impl Server<'_> {
    fn place(self) -> Place {
        match self {
            Self::Broker(endpoint) => Place::Broker(endpoint.clone()),
            Self::Workspace(broker) => Place::Workspace(broker.directory.clone()),
            Self::Own(_) => Place::AppServer,
        }
    }
}

impl Route {
    /// Returns the server to try first, and the one to try if that is busy or absent.
    fn servers(&self) -> (Server<'_>, Option<Server<'_>>) {
        match self {
            Self::Direct { app_server } => (Server::Own(app_server), None),
            Self::Broker { endpoint } => (Server::Broker(endpoint), None),
            // The bug: the client starts its own app-server first.
            Self::BrokerOrDirect { endpoint, app_server } if defect!(PrefersItsOwnServer) => {
                (Server::Own(app_server), Some(Server::Broker(endpoint)))
            }
            Self::BrokerOrDirect { endpoint, app_server } => {
                (Server::Broker(endpoint), Some(Server::Own(app_server)))
            }
            Self::Workspace { broker, app_server } => {
                (Server::Workspace(broker), Some(Server::Own(app_server)))
            }
        }
    }
}

/// An event while a command runs.
#[derive(Clone, Debug)]
pub enum News {
    /// The client is connected, and starts the turn.
    Connected(Place),
    /// The broker is busy or absent. The client starts its own app-server.
    FellBack {
        /// Why.
        why: ClientError,
    },
    /// The client asks for its turn on this thread.
    Thread(String),
    /// The turn goes on.
    Turn(Progress),
}

/// Runs commands.
#[derive(Clone, Debug)]
pub struct Client {
    env: Env,
    route: Route,
    limits: ClientLimits,
}

impl Client {
    /// Creates a client. It starts nothing.
    pub fn new(env: &Env, route: Route, limits: ClientLimits) -> Self {
        Self { env: env.clone(), route, limits }
    }

    /// Runs a command. When `cancel` completes, the client interrupts the turn and returns in bounded
    /// time; a turn that ended first keeps its verdict.
    ///
    /// The connection is closed, and an app-server of the client has ended, when this returns.
    /// [`Report::exit_status`] and [`ClientError::exit_status`] are the exit status for the user.
    ///
    /// # Errors
    /// If the turn did not start: see [`ClientError`].
    pub async fn run(
        &self,
        command: Command,
        settings: Settings,
        cancel: impl Future<Output = ()>,
        news: impl FnMut(News),
    ) -> Result<Report, ClientError> {
        let cancel = std::pin::pin!(cancel);
        let cancel = Cancel::new(cancel, self.limits.turn.interrupt);
        let Self { env, limits, .. } = self;
        let mut run = Run { env, limits: *limits, command, settings, cancel, news };
        let (first, second) = self.route.servers();
        match (run.on(first, second.is_some()).await, second) {
            (Err(Stop { error, may_move: true }), Some(second)) if !run.cancel.has_come() => {
                milestone!("turn.client.fell_back", why = %error);
                (run.news)(News::FellBack { why: error });
                run.on(second, false).await
            }
            (result, _) => result,
        }
        .map_err(|stop| stop.error)
    }
}

/// One command, while it runs.
struct Run<'a, C, N> {
    env: &'a Env,
    limits: ClientLimits,
    command: Command,
    settings: Settings,
    cancel: Cancel<'a, C>,
    news: N,
}

impl<C: Future<Output = ()>, N: FnMut(News)> Run<'_, C, N> {
    /// Runs the command on one server. `can_move` is whether there is another one.
    async fn on(&mut self, server: Server<'_>, can_move: bool) -> Result<Report, Stop> {
        let mut upstream = match self.connect(server).await {
            Ok(upstream) => upstream,
            // Nothing happened on this server yet.
            Err(error) => return Err(Stop { error, may_move: true }),
        };
        (self.news)(News::Connected(server.place()));
        point!("turn.client.connected").await;
        let result = self.turn(&mut upstream, can_move).await;
        point!("turn.client.closing").await;
        upstream.finish().await;
        milestone!("turn.client.closed");
        match result {
            // The bug: a busy broker counts as a broken one.
            Err(stop) if defect!(TakesBusyForAFailure) => Err(Stop { may_move: false, ..stop }),
            result => result,
        }
    }
}
