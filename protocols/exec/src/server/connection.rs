//! One connection of the server, in one task: the handshake, then incoming requests, and outgoing
//! answers and events.
//!
//! The server handles requests in order. A request that has to wait (for output, for room, for a
//! launch, for a file, for an HTTP server) is set aside. Later requests do not wait behind it, except
//! later writes to the same process. So a `terminate` passes any number of long-polls, and nothing
//! waits for a request of another process. When the connection ends, its waiting requests end too.
//!
//! The number of waiting requests and their bytes are bounded. Beyond the bound the server refuses
//! further requests that have to wait. It does not stop reading instead: then it would see neither a
//! `terminate`, which makes the others end, nor the end of the connection.
//!
//! While the client does not read its answers, the server does not handle its next requests, and
//! after a bounded number of them it stops reading the socket. Meanwhile it still writes, so a
//! client that reads again continues, and a dead client is noticed at the write deadline.
//!
//! The server sends answers first. Then it sends one event at a time, alternating between
//! processes, and interleaves the answers of HTTP requests.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reknit_jsonrpc::{HttpOutcome, Link, LinkError, LinkEvent, accept_websocket};
use reknit_resume::Counted;
use reknit_seams::net::{ConnId, Stream};
use reknit_seams::{defect, milestone, point};
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::defects::ConnectionDefects;
use super::fetch::Fetches;
use super::files::FileRequests;
use super::flow;
use super::lobby::LobbyPlace;
use super::log::{EntryKind, LogEntry};
use super::peer::Peer;
use super::process::ProcessId;
use super::registry::{RetainedSession, Shared};
use super::request_error::RequestError;
use super::requests::{RequestOutcome, Waiting};
use super::session::ClientConnection;
use crate::limits::without_deadline;
use crate::wire::process::{Closed, Exited, Output};
use crate::wire::session::{InitializeParams, InitializeResult};
use crate::wire::{Message, RequestId, code, method, notification_text, read, response_text};

/// How long the server waits for a graceful close after a client broke the protocol.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum length of a request id that is a string.
const LONGEST_ID: usize = 256;

/// How many received frames may wait to be handled while the client does not read its answers.
const BACKLOG: usize = 1024;

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionError {
    Lost(LinkError),
    /// The client did not complete the handshake in time.
    NoHandshake,
    /// Another connection needs its place.
    Crowded,
    /// Another connection has the session.
    Resumed,
    /// The client broke the protocol.
    Broke(&'static str),
}

impl From<LinkError> for ConnectionError {
    fn from(lost: LinkError) -> Self {
        ConnectionError::Lost(lost)
    }
}

/// The progress of the handshake.
pub(super) enum HandshakeStage {
    /// The client has not initialized the connection yet. The connection has a place in the lobby,
    /// and may be closed to make room for another one.
    Fresh(LobbyPlace),
    /// The server has accepted `initialize`.
    Attached(Arc<RetainedSession>),
    /// The client has sent `initialized`.
    Ready(Arc<RetainedSession>),
}

impl HandshakeStage {
    /// Completes when another connection takes the place of this one in the lobby.
    async fn taken(&self) {
        match self {
            Self::Fresh(place) => place.taken().await,
            Self::Attached(_) | Self::Ready(_) => std::future::pending().await,
        }
    }
}

/// A connection after its WebSocket handshake.
pub(super) struct ConnectionTask {
    pub(super) shared: Arc<Shared>,
    pub(super) link: Link,
    pub(super) conn: ConnId,
    stage: HandshakeStage,
    /// The deadline of the handshake.
    deadline: Instant,
    /// Notified when the session has something for this connection.
    pub(super) wake: Arc<Notify>,
    /// Received frames that are not handled yet.
    backlog: VecDeque<Bytes>,
    backlog_bytes: usize,
    /// The requests that were set aside, in order.
    pub(super) waiting: Vec<(RequestId, Waiting)>,
    /// The HTTP requests of this connection.
    pub(super) fetches: Fetches,
    /// The requests for files of this connection, and its open files.
    pub(super) files: FileRequests,
    /// Whether the next answer about files comes before the next request.
    files_turn: bool,
    defects: ConnectionDefects,
}

/// Serves one connection until it ends.
pub(super) async fn serve(shared: Arc<Shared>, stream: Stream, place: LobbyPlace) {
    let _counted = Counted::new(&shared.connections);
    let conn = stream.id();
    let deadline = Instant::now() + shared.limits.handshake_deadline;
    let wire = shared.limits.wire;
    let wire = if defect!(ServerPingWithoutDeadline) { without_deadline(wire) } else { wire };
    let upgrade = timeout_at(deadline, accept_websocket(stream, wire, refused_origin));
    let upgraded = tokio::select! {
        biased;
        upgraded = upgrade => upgraded.ok(),
        () = place.taken() => None,
    };
    match upgraded {
        Some(HttpOutcome::Link(link)) => {
            let mut conversation = ConnectionTask::new(shared, *link, conn, place, deadline);
            let over = conversation.run().await;
            conversation.end(over).await;
        }
        Some(HttpOutcome::Over { answered }) if answered > 0 => {}
        _ => milestone!("exec.server.no-handshake", conn = conn.0),
    }
}

fn refused_origin(conn: ConnId) {
    milestone!("exec.server.refused-origin", conn = conn.0);
}

impl ConnectionTask {
    fn new(
        shared: Arc<Shared>,
        link: Link,
        conn: ConnId,
        place: LobbyPlace,
        deadline: Instant,
    ) -> Self {
        let fetches = Fetches::new(&shared.http_requests, shared.limits.http_requests);
        let files = FileRequests::new(&shared);
        Self {
            shared,
            link,
            conn,
            stage: HandshakeStage::Fresh(place),
            deadline,
            wake: Arc::default(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            waiting: Vec::new(),
            fetches,
            files,
            files_turn: false,
            defects: ConnectionDefects::default(),
        }
    }

    async fn run(&mut self) -> ConnectionError {
        loop {
            if let Err(over) = self.step().await {
                return self.delayed(over).await;
            }
        }
    }

    /// Sends all pending answers and events that there is room for, and waits for the next input.
    async fn step(&mut self) -> Result<(), ConnectionError> {
        let flooded = defect!(FloodBlocksReplies) && !self.send_events()?;
        if !flooded {
            if !self.takes_turns().await? {
                self.answer_waiting()?;
            }
            self.handle_backlog().await?;
            self.mark_answers();
        }
        self.send_events()?;
        let (due, room) = (self.due(), self.link.has_room());
        tokio::select! {
            biased;
            received = self.link.next() => match received? {
                LinkEvent::Frame(frame) => {
                    self.queue_frame(frame);
                    self.deadlock().await;
                }
                LinkEvent::Room => {}
                LinkEvent::Reached(number) => self.answers_reached(number),
            },
            // No wake-up is lost between the last look at the session and this wait: only this task
            // waits, so `Notify` stores the permit of a change that comes before the wait.
            () = self.wake.notified() => {}
            text = self.fetches.next(), if room => self.link.send_text(text),
            text = self.files.next(), if room => self.link.send_text(text),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            () = self.stage.taken() => return Err(ConnectionError::Crowded),
        }
        let is_over = match &self.stage {
            HandshakeStage::Fresh(_) => false,
            HandshakeStage::Attached(_) => defect!(AttachedHasNoDeadline),
            HandshakeStage::Ready(_) => true,
        };
        let late = !is_over && self.deadline <= Instant::now();
        if late { Err(ConnectionError::NoHandshake) } else { Ok(()) }
    }

    /// Returns when the connection must act without an input.
    fn due(&mut self) -> Option<Instant> {
        match &self.stage {
            HandshakeStage::Ready(kept) if self.link.has_room() => {
                let waits = self.waiting.iter().filter_map(|(_, waiting)| waiting.until()).min();
                let ends = self.repetition_ends(kept).into_iter().chain(self.defects.flush());
                waits.into_iter().chain(ends).min()
            }
            HandshakeStage::Ready(_) => None, // there is no room for an answer
            HandshakeStage::Attached(_) if defect!(AttachedHasNoDeadline) => None,
            _ => Some(self.deadline),
        }
    }

    /// Returns when ids of earlier connections are forgotten, so that a waiting write may have room.
    fn repetition_ends(&self, kept: &RetainedSession) -> Option<Instant> {
        let writes = self.waiting.iter().any(|(_, waiting)| waiting.writes_to().is_some());
        let end = if writes { kept.core().repetition_ends() } else { None };
        end.filter(|end| *end > Instant::now())
    }

    /// Marks the answers to writes in the outbox, if it is time to know which of them have reached
    /// the client.
    fn mark_answers(&mut self) {
        let HandshakeStage::Ready(kept) = &self.stage else { return };
        let mark = kept.core().answers_to_mark();
        mark.into_iter().for_each(|number| self.link.mark(number));
    }

    fn answers_reached(&mut self, number: u64) {
        if let HandshakeStage::Ready(kept) = &self.stage {
            kept.core().answers_reached(self.conn, number);
        }
    }

    /// Queues a received frame. Frames stay in the queue only while there is no room for answers.
    fn queue_frame(&mut self, frame: Bytes) {
        self.backlog_bytes += frame.len();
        self.backlog.push_back(frame);
        self.read_if_backlog_has_room();
    }

    fn read_if_backlog_has_room(&mut self) {
        let full = self.backlog.len() >= BACKLOG
            || self.backlog_bytes >= self.shared.limits.wire.message_bytes;
        self.link.set_reading(!full);
    }

    /// For a defect: whether more requests than this wait to be handled.
    pub(super) fn has_backlog(&self, more_than: usize) -> bool {
        self.backlog.len() > more_than
    }

    /// Handles requests while there is room, in turns with the answers about files. Otherwise the answers to
    /// later requests would take all room, and an answer about a file would wait for them.
    pub(super) async fn handle_backlog(&mut self) -> Result<(), ConnectionError> {
        let polls = if defect!(ManyPollsBlockRequests) { 256 } else { usize::MAX };
        while !self.is_blocked() && self.waiting.len() < polls && self.link.has_room() {
            let files_turn = std::mem::take(&mut self.files_turn) && !defect!(FilesStartLast);
            if files_turn && let Some(text) = self.files.try_next() {
                self.link.send_text(text);
                continue;
            }
            let Some(frame) = self.backlog.pop_front() else { break };
            self.files_turn = true;
            if !defect!(HandledFramesCount) {
                self.backlog_bytes -= frame.len();
            }
            self.read_if_backlog_has_room();
            self.handle_frame(&frame).await?;
        }
        Ok(())
    }

    async fn handle_frame(&mut self, frame: &[u8]) -> Result<(), ConnectionError> {
        match Message::parse(frame) {
            Ok(Message::Request { id: RequestId::Text(id), .. }) if id.len() > LONGEST_ID => {
                self.malformed("an id that is too long")
            }
            Ok(Message::Request { id, method, params }) => {
                return self.request(id, &method, params.as_deref()).await;
            }
            Ok(Message::Notification { method, .. }) => return self.notified(&method),
            Ok(Message::Response { .. } | Message::Error { .. })
                if defect!(UnexpectedResponseIgnored) => {}
            Ok(Message::Response { .. } | Message::Error { .. }) => {
                return Err(ConnectionError::Broke("an unexpected response"));
            }
            Err(_) if defect!(MalformedEndsConnection) => {
                return Err(ConnectionError::Broke("an invalid message"));
            }
            Err(malformed) => self.malformed(&malformed.to_string()),
        }
        Ok(())
    }

    /// Answers a malformed message with an error, and ignores it otherwise.
    fn malformed(&mut self, why: &str) {
        milestone!("exec.server.malformed", conn = self.conn.0);
        self.link.send(&Message::error(RequestId::Number(-1), code::INVALID_REQUEST, why));
    }

    fn notified(&mut self, method: &str) -> Result<(), ConnectionError> {
        match &self.stage {
            HandshakeStage::Attached(kept) if method == method::INITIALIZED => {
                self.stage = HandshakeStage::Ready(kept.clone());
                Ok(())
            }
            // Codex 0.169.0 ignores a repetition, too.
            HandshakeStage::Ready(_) if method == method::INITIALIZED => Ok(()),
            HandshakeStage::Fresh(_) if method == method::INITIALIZED => {
                Err(ConnectionError::Broke("initialized before initialize"))
            }
            _ if defect!(UnknownNotificationIgnored) => Ok(()),
            _ => Err(ConnectionError::Broke("an unknown notification")),
        }
    }

    async fn request(
        &mut self,
        id: RequestId,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<(), ConnectionError> {
        let asked = match &self.stage {
            HandshakeStage::Fresh(place) if method == method::INITIALIZE => {
                let peer = place.peer();
                self.initialize(&id, params, peer).await?
            }
            HandshakeStage::Fresh(_) => Err(RequestError::NotInitialized),
            _ if method == method::INITIALIZE => Err(RequestError::InitializedTwice),
            HandshakeStage::Attached(_) if !defect!(ServesBeforeInitialized) => {
                Err(RequestError::NotReady)
            }
            HandshakeStage::Attached(kept) | HandshakeStage::Ready(kept) => {
                let kept = kept.clone();
                let asked = self.handle_request(&kept, &id, method, params);
                self.emulate_defects(&kept, method, params, asked).await?
            }
        };
        match asked {
            Ok(RequestOutcome::Answered(text)) => self.link.send_text(text),
            Ok(RequestOutcome::Waits(waiting)) => self.waiting.push((id, waiting)),
            Ok(RequestOutcome::Started) => {}
            Err(RequestError::UnknownMethod(_)) if defect!(UnknownMethodUnanswered) => {}
            Err(refusal) => self.link.send_text(refusal.answer(id)),
        }
        Ok(())
    }

    /// Attaches the connection to a session. If the server refuses, the client may try again.
    async fn initialize(
        &mut self,
        id: &RequestId,
        params: Option<&RawValue>,
        peer: Peer,
    ) -> Result<Result<RequestOutcome, RequestError>, ConnectionError> {
        let params: InitializeParams = match read(params) {
            Ok(params) => params,
            Err(error) => return Ok(Err(error.into())),
        };
        let resumed = params.resume_session_id.is_some();
        let window = params.reknit_flow.and_then(|offered| self.shared.limits.flow_window(offered));
        let line = ClientConnection { wake: self.wake.clone(), signs: self.link.signs(), window };
        let kept = match self.shared.attach(params.resume_session_id, self.conn, peer, line) {
            Ok(kept) => kept,
            Err(refusal) => {
                self.refused(&refusal);
                return Ok(Err(refusal));
            }
        };
        if !resumed || !defect!(FileRequestsPerConnection) {
            self.files.attach(&kept.files);
        }
        self.stage = HandshakeStage::Attached(kept.clone());
        point!("exec.server.attach.unlocked", conn = self.conn.0).await;
        milestone!("exec.server.attached", conn = self.conn.0, resumed);
        // The attachment starts the events, so an event that happened before the answer is sent
        // before it.
        self.send_events()?;
        let result = InitializeResult {
            session_id: kept.id.clone(),
            environment_info: Some(self.shared.description.clone()),
            reknit_flow: window.map(flow::reports),
        };
        Ok(Ok(RequestOutcome::Answered(response_text(id, &result))))
    }

    fn refused(&self, refusal: &RequestError) {
        match refusal {
            RequestError::StillAttached(_) => {
                milestone!("exec.server.refused-still-attached", conn = self.conn.0)
            }
            RequestError::UnknownSession(_) => {
                milestone!("exec.server.refused-unknown-session", conn = self.conn.0)
            }
            _ => milestone!("exec.server.refused-full", conn = self.conn.0),
        }
    }

    /// Answers the waiting requests that can be answered now.
    fn answer_waiting(&mut self) -> Result<(), ConnectionError> {
        let HandshakeStage::Ready(kept) = &self.stage else { return Ok(()) };
        let kept = kept.clone();
        let mut writes = BTreeSet::new(); // processes with an earlier write that still waits
        for (id, mut waiting) in std::mem::take(&mut self.waiting) {
            let answer = if self.link.has_room() {
                self.try_again(&kept, &id, &mut waiting, &writes)
            } else {
                None
            };
            match answer {
                Some(Ok(text)) => self.link.send_text(text),
                Some(Err(refusal)) => self.link.send_text(refusal.answer(id)),
                None => {
                    writes.extend(waiting.writes_to().cloned());
                    self.waiting.push((id, waiting));
                }
            }
        }
        kept.core().check(self.conn).map_err(|_| ConnectionError::Resumed)
    }

    /// Sends events, and answers of requests for HTTP and files, in turns, while there is room.
    /// Returns whether all were sent.
    fn send_events(&mut self) -> Result<bool, ConnectionError> {
        let (HandshakeStage::Attached(kept) | HandshakeStage::Ready(kept)) = &self.stage else {
            return Ok(true);
        };
        let kept = kept.clone();
        let is_held = self.defects.hold_output(|| kept.core().may_owe_events());
        while self.link.has_room() {
            let pulled = if is_held { Ok(None) } else { kept.core().pull(self.conn) };
            let pulled = pulled.map_err(|_| ConnectionError::Resumed)?;
            let fetched = self.fetches.try_next();
            let filed = self.files.try_next();
            if pulled.is_none() && fetched.is_none() && filed.is_none() {
                return Ok(true);
            }
            if let Some((process, event)) = pulled {
                if event.what == EntryKind::Closed && !defect!(CloseStartsNoTimer) {
                    kept.changed(); // the retention of the process starts now
                }
                self.link.send_text(notification(&process, event));
            }
            fetched.into_iter().chain(filed).for_each(|text| self.link.send_text(text));
        }
        Ok(false)
    }

    /// Waits for a future. Meanwhile, it queues received frames and notices the end of the link.
    pub(super) async fn busy(
        &mut self,
        until: impl Future<Output = ()>,
    ) -> Result<(), ConnectionError> {
        tokio::pin!(until);
        loop {
            tokio::select! {
                biased;
                () = &mut until => return Ok(()),
                received = self.link.next() => match received? {
                    LinkEvent::Frame(frame) => self.queue_frame(frame),
                    LinkEvent::Room => {}
                    LinkEvent::Reached(number) => self.answers_reached(number),
                },
            }
        }
    }

    /// The defect `LongPollHoldsDetach`: the end of a connection takes effect only after its last
    /// long-poll.
    async fn delayed(&mut self, over: ConnectionError) -> ConnectionError {
        if defect!(LongPollHoldsDetach)
            && let Some(until) =
                self.waiting.iter().filter_map(|(_, waiting)| waiting.until()).max()
        {
            sleep_until(until).await;
        }
        over
    }

    async fn end(self, over: ConnectionError) {
        let Self { shared, link, conn, stage, fetches, files, .. } = self;
        files.end();
        fetches.end(); // HTTP requests end with the connection, even if the session lives on
        tracing::debug!(?over, conn = conn.0, "connection over");
        match over {
            ConnectionError::Lost(LinkError::Silent) => {
                milestone!("exec.server.silent", conn = conn.0)
            }
            ConnectionError::Lost(LinkError::Stuck) => {
                milestone!("exec.server.stuck", conn = conn.0)
            }
            ConnectionError::NoHandshake | ConnectionError::Crowded => {
                milestone!("exec.server.no-handshake", conn = conn.0)
            }
            ConnectionError::Broke(_)
            | ConnectionError::Lost(LinkError::Malformed | LinkError::TooLong) => {
                milestone!("exec.server.broke-protocol", conn = conn.0)
            }
            ConnectionError::Lost(_) | ConnectionError::Resumed => {}
        }
        let last_words = match over {
            ConnectionError::Lost(_) | ConnectionError::Crowded => {
                drop(link);
                None
            }
            _ => Some(link),
        };
        if let HandshakeStage::Attached(kept) | HandshakeStage::Ready(kept) = stage {
            shared.detach(&kept, conn).await;
        }
        if let Some(link) = last_words {
            link.finish(CLOSE_TIMEOUT).await;
        }
    }
}

/// Renders an event as a notification.
fn notification(process: &ProcessId, event: LogEntry) -> String {
    let (process_id, seq) = (process.as_str().to_owned(), event.seq);
    match event.what {
        EntryKind::Output(stream, bytes) => notification_text(
            method::OUTPUT,
            &Output { process_id, seq, stream, chunk: bytes.into() },
        ),
        EntryKind::Exited(exit) => {
            let (exit_code, sandbox_denied) = (exit.code, exit.denied);
            let exited = Exited { process_id, seq, exit_code, sandbox_denied };
            notification_text(method::EXITED, &exited)
        }
        EntryKind::Closed => notification_text(method::CLOSED, &Closed { process_id, seq }),
    }
}
