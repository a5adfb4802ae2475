//! One connection, from the attempt to its end: a task that moves messages and tags its reports
//! with their [`Generation`].
//!
//! The task starts before the protocol handshake. It reports everything in order through one
//! bounded queue, and the driver always drains that queue, so a busy server cannot delay the answer
//! to `initialize`. A report is valid only for its own connection: the receiver compares the
//! [`Generation`] first.
//!
//! When the connection ends, for any reason, [`Wire::is_alive`] returns `false` before the final
//! report arrives. All replies that were read are in the queue by then, and the final report
//! follows them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reknit_jsonrpc::{Link, LinkError, LinkEvent};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_seams::{defect, milestone, point};
use tokio::sync::mpsc;

use super::defects::TaskDefects;
use crate::limits::{ClientLimits, without_deadline};
use crate::wire::{Message, RequestId};

/// Identifies a connection of a client.
///
/// `number` is the connection's position among the installed connections; an attempt has the number
/// that it would get if installed. `attempt` distinguishes several attempts for the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) attempt: u64,
}

/// A report of a connection.
#[derive(Debug)]
pub(super) enum Report {
    /// The WebSocket is open.
    Opened {
        /// The connection's number in the network.
        conn: u64,
    },
    /// A message arrived.
    Message(Message),
    /// The connection is over. This is its last report.
    Over(CloseReason),
}

/// The reason why a connection closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CloseReason {
    /// The connection was not established: no server answered, or the server does not speak
    /// WebSocket.
    #[error("no connection")]
    Unconnected,
    /// The connection died.
    #[error("{0}")]
    Lost(LinkError),
    /// The server sent a message that is invalid in this protocol.
    #[error("the server sent an invalid message")]
    Malformed,
    /// The server reports that the transport behind it is closed, or that another connection has
    /// the session.
    #[error("the server reported the connection closed")]
    Renounced,
    /// The connection died; the cause is not known yet.
    #[error("dead")]
    FoundDead,
    /// The client gave up the connection.
    #[error("given up")]
    GivenUp,
}

/// A report, with the connection that it is from.
pub(super) type Reported = (Generation, Report);

enum Outgoing {
    Message(Message),
    Close,
}

/// How long a graceful close may take.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The driver's end of a connection. Dropping it ends the connection.
pub(super) struct Wire {
    pub(super) generation: Generation,
    /// Unbounded, so that the driver never waits for a connection. The number of calls in flight
    /// bounds its length.
    outgoing: mpsc::UnboundedSender<Outgoing>,
    dead: Arc<AtomicBool>,
}

impl Wire {
    /// Creates a connection, and the task that runs it.
    pub(super) fn new(
        generation: Generation,
        env: Env,
        server: Endpoint,
        limits: ClientLimits,
        reports: mpsc::Sender<Reported>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, outgoing) = mpsc::unbounded_channel();
        let dead = Arc::new(AtomicBool::new(false));
        let task = Task {
            generation,
            limits,
            outgoing,
            reports,
            dead: dead.clone(),
            defects: TaskDefects::default(),
        };
        (Self { generation, outgoing: sender, dead }, task.run(env, server))
    }

    /// Whether the connection has not ended yet.
    pub(super) fn is_alive(&self) -> bool {
        !self.dead.load(Ordering::Acquire)
    }

    /// Sends a message if the connection is alive.
    pub(super) fn send(&self, message: Message) {
        // If the task has ended, the connection is over, and its report is on the way.
        let _ = self.outgoing.send(Outgoing::Message(message));
    }

    /// Closes the connection gracefully after the messages that were already sent.
    pub(super) fn finish(&self) {
        let _ = self.outgoing.send(Outgoing::Close);
    }
}

/// The state of the connection's task.
struct Task {
    generation: Generation,
    limits: ClientLimits,
    outgoing: mpsc::UnboundedReceiver<Outgoing>,
    reports: mpsc::Sender<Reported>,
    dead: Arc<AtomicBool>,
    defects: TaskDefects,
}

impl Task {
    async fn run(mut self, env: Env, server: Endpoint) {
        let (over, conn) = match self.open(&env, &server).await {
            Ok(link) => {
                let conn = link.id();
                (self.transfer(link).await, conn)
            }
            Err(over) => (over, 0),
        };
        // The link has been dropped, and its socket is closed.
        self.dead.store(true, Ordering::Release);
        point!("exec.client.close.unreported", generation = self.generation.number, conn = conn)
            .await;
        self.report(Report::Over(over)).await;
    }

    async fn open(&mut self, env: &Env, server: &Endpoint) -> Result<Link, CloseReason> {
        let opening = async {
            let stream = env.net.connect(server).await.map_err(|_| CloseReason::Unconnected)?;
            let wire = self.limits.wire;
            let mut wire =
                if defect!(ClientPingWithoutDeadline) { without_deadline(wire) } else { wire };
            if defect!(PongDeadlineDoubled) {
                wire.pong_deadline *= 2;
            }
            Link::connect(stream, &server.to_string(), wire)
                .await
                .map_err(|_| CloseReason::Unconnected)
        };
        tokio::select! {
            biased;
            // The driver sends nothing before the connection is open, so this means that the driver
            // dropped the connection.
            _ = self.outgoing.recv() => Err(CloseReason::GivenUp),
            opened = opening => opened,
        }
    }

    async fn transfer(&mut self, mut link: Link) -> CloseReason {
        point!("exec.client.opened", generation = self.generation.number, conn = link.id()).await;
        self.report(Report::Opened { conn: link.id() }).await;
        loop {
            tokio::select! {
                biased;
                outgoing = self.outgoing.recv() => match outgoing {
                    Some(Outgoing::Message(message)) => link.send(&message),
                    Some(Outgoing::Close) => {
                        link.finish(CLOSE_TIMEOUT).await;
                        return CloseReason::GivenUp;
                    }
                    None => return CloseReason::GivenUp,
                },
                received = link.next(), if !self.defects.is_stuck(self.limits.event_queue) => match received {
                    Ok(LinkEvent::Room | LinkEvent::Reached(_)) => {}
                    Ok(LinkEvent::Frame(frame)) => match Message::parse(&frame) {
                        Ok(message) => {
                            self.notify(&message, link.id());
                            self.defects.received(&message);
                            self.report(Report::Message(message)).await;
                        }
                        Err(_) if defect!(MalformedSkipped) => {}
                        Err(_) => return CloseReason::Malformed,
                    },
                    Err(LinkError::Silent) if defect!(OldGenerationAccepted) || defect!(RepliesMatchAcrossGenerations) => {
                        // Reports the end of the connection, but continues to read from it.
                        self.report(Report::Over(CloseReason::Lost(LinkError::Silent))).await;
                        link.disable_keepalive();
                    }
                    Err(lost) => return CloseReason::Lost(lost),
                },
            }
        }
    }

    /// Records an answer that was read. Such an answer counts, even if the connection ends right
    /// after it.
    fn notify(&self, message: &Message, conn: u64) {
        if let Message::Response { id: RequestId::Number(id), .. }
        | Message::Error { id: RequestId::Number(id), .. } = message
        {
            milestone!("exec.client.received", conn, id = *id);
        }
    }

    async fn report(&self, report: Report) {
        // If the driver has ended, the client is closed.
        let _ = self.reports.send((self.generation, report)).await;
    }
}
