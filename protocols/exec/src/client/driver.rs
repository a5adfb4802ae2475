//! The client's main task; each connection has another one. The driver passes inputs to the core
//! and carries out the effects.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_seams::{defect, point};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::command::Command;
use super::core::{Core, Effect};
use super::generation::{CLOSE_TIMEOUT, Report, Reported, Wire};
use super::state::{ClientResources, State};
use crate::limits::ClientLimits;
use crate::wire::Message;

/// The task behind a [`Client`](super::Client).
pub(super) struct Driver {
    env: Env,
    server: Endpoint,
    limits: ClientLimits,
    core: Core,
    commands: mpsc::UnboundedReceiver<Command>,
    resources: Arc<Mutex<ClientResources>>,
    /// The channel on which all connections report.
    reports: mpsc::Receiver<Reported>,
    report: mpsc::Sender<Reported>,
    /// The current connection.
    wire: Option<Wire>,
    /// Closed connections that a defect keeps.
    stale_wires: Vec<Wire>,
    /// The tasks of all connections; dropping it ends them.
    connections: JoinSet<()>,
}

/// The user closed or dropped the client. Contains the sender that reports the completed close, if
/// the user waits for it.
struct Closed(Option<oneshot::Sender<()>>);

impl Driver {
    pub(super) fn new(
        env: Env,
        server: Endpoint,
        limits: ClientLimits,
        commands: mpsc::UnboundedReceiver<Command>,
        state: watch::Sender<State>,
        resources: Arc<Mutex<ClientResources>>,
    ) -> Self {
        let core = Core::new(limits, env.entropy.clone(), state, Instant::now());
        let (report, reports) = mpsc::channel(limits.event_queue.max(1));
        let (stale_wires, connections) = (Vec::new(), JoinSet::new());
        Self {
            env,
            server,
            limits,
            core,
            commands,
            resources,
            reports,
            report,
            wire: None,
            stale_wires,
            connections,
        }
    }

    pub(super) async fn run(mut self) {
        let Err(Closed(done)) = self.run_until_closed().await;
        self.close_gracefully().await;
        if let Some(done) = done {
            // The caller of `close` may have stopped waiting.
            let _ = done.send(());
        }
    }

    async fn run_until_closed(&mut self) -> Result<Infallible, Closed> {
        loop {
            self.carry_out().await;
            self.publish_counts();
            let stepped = self.step().await;
            self.publish_counts();
            stepped?;
        }
    }

    fn publish_counts(&self) {
        *self.resources.lock().expect("nothing panics under the lock") = self.core.resources();
    }

    /// Waits for one input and passes it to the core.
    async fn step(&mut self) -> Result<(), Closed> {
        let due = self.core.due();
        tokio::select! {
            biased;
            reported = self.reports.recv(), if !(defect!(SlowUserStopsConnection) && self.core.is_held()) => {
                if let Some(reported) = reported {
                    self.on_report(reported);
                }
                Ok(())
            }
            command = self.commands.recv() => self.on_command(command),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                self.core.wake(Instant::now());
                Ok(())
            }
            Some(_) = self.connections.join_next() => Ok(()),
        }
    }

    fn on_report(&mut self, (generation, report): Reported) {
        let is_reply = matches!(report, Report::Message(Message::Response { .. }));
        if is_reply
            && defect!(CloseBeatsReply)
            && self.wire.as_ref().is_some_and(|wire| !wire.is_alive())
        {
            return self.core.found_dead(generation, Instant::now());
        }
        self.core.on_report(generation, report, Instant::now());
    }

    fn on_command(&mut self, command: Option<Command>) -> Result<(), Closed> {
        let command = command.ok_or(Closed(None))?;
        let dead = self.wire.as_ref().filter(|wire| !wire.is_alive()).map(|wire| wire.generation);
        if let Some(generation) = dead {
            // The connection is over, but its report has not arrived yet. Process the messages that
            // it read first; after that, send nothing to it.
            while let Ok((whose, report)) = self.reports.try_recv() {
                self.core.on_report(whose, report, Instant::now());
            }
            self.core.found_dead(generation, Instant::now());
        }
        let command = match command {
            Command::Call(call) if dead.is_some() && defect!(CallAfterDrain) => {
                self.core.leak_call(call);
                return Ok(());
            }
            command => command,
        };
        match self.core.on_command(command, Instant::now()) {
            Some(done) => Err(Closed(Some(done))),
            None => Ok(()),
        }
    }

    async fn carry_out(&mut self) {
        while let Some(effect) = self.core.effect() {
            match effect {
                Effect::Open(generation) => {
                    let (env, server) = (self.env.clone(), self.server.clone());
                    let (wire, task) =
                        Wire::new(generation, env, server, self.limits, self.report.clone());
                    self.wire = Some(wire);
                    self.connections.spawn(task);
                }
                Effect::Send(generation, message) => {
                    if let Some(wire) =
                        self.wire.as_ref().filter(|wire| wire.generation == generation)
                    {
                        wire.send(message);
                    }
                }
                Effect::Close(generation) => {
                    let closed = self.wire.take_if(|wire| wire.generation == generation);
                    if defect!(OldGenerationAccepted) || defect!(RepliesMatchAcrossGenerations) {
                        self.stale_wires.extend(closed);
                    }
                }
                Effect::Install(generation) => {
                    let conn = self.core.conn();
                    point!("exec.client.install", generation = generation.number, conn = conn)
                        .await;
                    let alive = self.wire.as_ref().is_some_and(Wire::is_alive);
                    self.core.install(generation, alive, Instant::now());
                }
            }
        }
    }

    /// Closes the connection gracefully, and waits up to [`CLOSE_TIMEOUT`] for the close to complete.
    async fn close_gracefully(&mut self) {
        let Some(wire) = self.wire.take() else { return };
        wire.finish();
        let over = async {
            while self
                .reports
                .recv()
                .await
                .is_some_and(|(_, report)| !matches!(report, Report::Over(_)))
            {}
        };
        // If the server does not answer, the connection is dropped.
        let _ = timeout(CLOSE_TIMEOUT, over).await;
    }
}
