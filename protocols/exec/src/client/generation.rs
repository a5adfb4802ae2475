//! One connection, from the attempt to its end: a task that moves messages, and tags what it reports with whose it is.
//!
//! The task begins before the handshake of the protocol does, and reports everything in order through one bounded queue, so a
//! busy server cannot hold up the answer to `initialize`. What it reports is true of *its* connection alone: whoever hears it
//! compares the [`Generation`] first.
//!
//! When the connection is over, for whatever reason, [`Wire::is_alive`] says so before the report comes: replies that were read
//! stand in the queue by then, and the report behind them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reknit_jsonrpc::{Heard, Link, LinkError};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_seams::{defect, milestone, point};
use tokio::sync::mpsc;

use crate::limits::ClientLimits;
use crate::wire::{Message, RequestId, method};

/// Which connection of a client something is about.
///
/// The number is the one that it has, or would have, among the installed ones; the attempt tells those apart that tried for the
/// same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) attempt: u64,
}

/// What a connection reports.
#[derive(Debug)]
pub(super) enum Report {
    /// The WebSocket is open.
    Opened {
        /// The connection's number in the network.
        conn: u64,
    },
    /// A message came.
    Message(Message),
    /// It is over. Nothing follows.
    Over(CloseReason),
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CloseReason {
    /// There was none: nobody answered, or nobody who speaks WebSocket.
    #[error("no connection")]
    Unconnected,
    /// It died.
    #[error("{0}")]
    Lost(LinkError),
    /// The server sent what is no message of this protocol.
    #[error("the server sent what is not a message")]
    Malformed,
    /// The server says that the transport behind it is closed, or that another connection has the session.
    #[error("the server calls it closed")]
    Renounced,
    /// It died, and how is not known yet.
    #[error("dead")]
    FoundDead,
    /// It was given up on this side.
    #[error("given up")]
    GivenUp,
}

/// What is reported, and by whom.
pub(super) type Reported = (Generation, Report);

enum Outgoing {
    Message(Message),
    Farewell,
}

/// How long a farewell may take.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// The driver's end of a connection. Dropping it ends the connection.
pub(super) struct Wire {
    pub(super) generation: Generation,
    /// Unbounded, so that the driver never waits for a connection; what is in it is bounded by the calls in flight.
    outgoing: mpsc::UnboundedSender<Outgoing>,
    dead: Arc<AtomicBool>,
}

impl Wire {
    /// A connection, and the task that it needs.
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
            notes: 0,
            initialized: false,
        };
        (Self { generation, outgoing: sender, dead }, task.run(env, server))
    }

    /// Whether its end is not known yet.
    pub(super) fn is_alive(&self) -> bool {
        !self.dead.load(Ordering::Acquire)
    }

    /// Sends a message, if the connection lives.
    pub(super) fn send(&self, message: Message) {
        // Where nobody takes it, the connection is over, and its report is on its way.
        let _ = self.outgoing.send(Outgoing::Message(message));
    }

    /// Says that nothing follows, and ends the connection in order.
    pub(super) fn finish(&self) {
        let _ = self.outgoing.send(Outgoing::Farewell);
    }
}

/// The connection's own end.
struct Task {
    generation: Generation,
    limits: ClientLimits,
    outgoing: mpsc::UnboundedReceiver<Outgoing>,
    reports: mpsc::Sender<Reported>,
    dead: Arc<AtomicBool>,
    /// How many notifications came, and whether the handshake is over: only a defect asks.
    notes: usize,
    initialized: bool,
}

impl Task {
    async fn run(mut self, env: Env, server: Endpoint) {
        let (over, conn) = match self.open(&env, &server).await {
            Ok(link) => {
                let conn = link.id();
                (self.converse(link).await, conn)
            }
            Err(over) => (over, 0),
        };
        // The link is gone by now, and its socket closed.
        self.dead.store(true, Ordering::Release);
        point!("exec.client.close.unreported", generation = self.generation.number, conn = conn)
            .await;
        self.report(Report::Over(over)).await;
    }

    async fn open(&mut self, env: &Env, server: &Endpoint) -> Result<Link, CloseReason> {
        let opening = async {
            let stream = env.net.connect(server).await.map_err(|_| CloseReason::Unconnected)?;
            Link::connect(stream, &server.to_string(), self.limits.wire)
                .await
                .map_err(|_| CloseReason::Unconnected)
        };
        tokio::select! {
            biased;
            // Nothing is sent before it is open: this is the driver, which lets go.
            _ = self.outgoing.recv() => Err(CloseReason::GivenUp),
            opened = opening => opened,
        }
    }

    async fn converse(&mut self, mut link: Link) -> CloseReason {
        point!("exec.client.opened", generation = self.generation.number, conn = link.id()).await;
        self.report(Report::Opened { conn: link.id() }).await;
        loop {
            tokio::select! {
                biased;
                outgoing = self.outgoing.recv() => match outgoing {
                    Some(Outgoing::Message(message)) => link.send(&message),
                    Some(Outgoing::Farewell) => {
                        link.finish(FAREWELL).await;
                        return CloseReason::GivenUp;
                    }
                    None => return CloseReason::GivenUp,
                },
                heard = link.next(), if !self.is_stuck() => match heard {
                    Ok(Heard::Room) => {}
                    Ok(Heard::Frame(frame)) => match Message::parse(&frame) {
                        Ok(message) => {
                            self.notify(&message, link.id());
                            self.count(&message);
                            self.report(Report::Message(message)).await;
                        }
                        Err(_) => return CloseReason::Malformed,
                    },
                    Err(LinkError::Silent) if defect!(OldGenerationHeard) || defect!(RepliesMatchAcrossGenerations) => {
                        // It is over for everybody, and what comes yet is listened to.
                        self.report(Report::Over(CloseReason::Lost(LinkError::Silent))).await;
                        link.listen_for_ever();
                    }
                    Err(lost) => return CloseReason::Lost(lost),
                },
            }
        }
    }

    /// An answer that was read counts, however soon the connection ends.
    fn notify(&self, message: &Message, conn: u64) {
        if let Message::Response { id: RequestId::Number(id), .. }
        | Message::Error { id: RequestId::Number(id), .. } = message
        {
            milestone!("exec.client.heard", conn, id = *id);
        }
    }

    async fn report(&self, report: Report) {
        // Where nobody listens, the client is gone.
        let _ = self.reports.send((self.generation, report)).await;
    }

    /// What a client does that looks at notifications only after the handshake, out of a bounded queue.
    fn is_stuck(&self) -> bool {
        defect!(ConsumerAfterHandshake)
            && !self.initialized
            && self.notes >= self.limits.event_queue
    }

    fn count(&mut self, message: &Message) {
        match message {
            Message::Notification { method, .. } if method != method::HTTP_BODY => self.notes += 1,
            Message::Response { .. } => self.initialized = true,
            _ => {}
        }
    }
}
