//! The effects of the requests of a connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Request, Response, Uri};
use reknit_seams::process::{self, Stdio};
use reknit_seams::{defect, milestone, point};
use tokio::time::{Instant, timeout};

use super::answer::{self, Body};
use super::command::{Attached, Command};
use super::link::{Closed, Link};
use super::log::CommandLog;
use super::process::ProcessTask;
use super::registry::{Running, Started};
use super::route::{self, Route};
use super::shared::{Shared, milliseconds};
use super::stream::{EventStream, StreamDefects, head};
use crate::wire::{CommandId, Cursor, Epoch, Event, Framing, Record, Refusal, RunCommand, header};

#[path = "defects/requests.rs"]
mod defects;

/// The streams that a connection has opened: at most one, unless a defect is on.
pub(super) type Attachments = Arc<Mutex<Vec<(Arc<Running>, u64)>>>;

/// The requests of one connection.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) shared: Arc<Shared>,
    pub(super) link: Arc<Link>,
    pub(super) attachments: Attachments,
}

impl Requests {
    /// Returns the answer to a request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let answered = match self.authorize(request.headers()) {
            // The bug: a client without the token learns which paths exist.
            Err(_) if defect!(PathsBeforeToken) && leads_nowhere(&request) => {
                self.perform(request).await
            }
            Ok(()) => {
                self.link.serve(true);
                self.perform(request).await
            }
            Err(refusal) => Err(refusal),
        };
        let is_stream = answered.as_ref().is_ok_and(|(_, is_stream)| *is_stream);
        if !is_stream && !defect!(AnsweredStaysBusy) {
            self.link.serve(false);
        }
        match answered {
            Ok((response, _)) => response,
            Err(refusal) => {
                self.report(&refusal);
                answer::refused(&refusal)
            }
        }
    }

    fn authorize(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match &self.shared.config.access_token {
            Some(token) if !route::is_authorized(headers, token) => Err(Refusal::Unauthorized),
            _ => Ok(()),
        }
    }

    /// Performs an authorized request. Returns the answer, and whether it is a stream.
    async fn perform(&self, request: Request<Incoming>) -> Result<(Response<Body>, bool), Refusal> {
        let (parts, body) = request.into_parts();
        let (uri, headers) = (&parts.uri, &parts.headers);
        Ok(match Route::of(&parts.method, uri)? {
            Route::Ping => (answer::empty(), false),
            Route::Start => (self.start(uri, headers, body).await?, true),
            Route::Resume(id) => (self.resume(&id, uri, headers)?, true),
            Route::Status(id) => {
                let status = self.shared.registry().status(&id)?;
                let json = serde_json::to_string(&status).expect("a status is plain data");
                (answer::json(json), false)
            }
            Route::Logs(id) => (self.logs(&id, uri)?, false),
            Route::Interrupt(id) => (self.interrupt(id)?, false),
            Route::CreateSession => (self.create_session(body).await?, false),
            Route::RunInSession(id) => (self.run_in_session(&id, headers, body).await?, true),
            Route::DeleteSession(id) => (self.delete_session(&id).await?, false),
        })
    }

    /// Reads a body.
    pub(super) async fn body(&self, body: Incoming) -> Result<Bytes, Refusal> {
        let limits = &self.shared.limits;
        if defect!(EachPieceHasItsTime) {
            return defects::body_by_pieces(body, limits).await;
        }
        // The bug: only a body that says its length has a limit.
        let is_free = body.size_hint().exact().is_none() && defect!(ChunkedBodiesAreFree);
        let most = if is_free { usize::MAX } else { limits.body_bytes };
        let collected = Limited::new(body, most).collect();
        match timeout(limits.body_deadline, collected).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                Err(Refusal::BodyTooLarge(limits.body_bytes))
            }
            Ok(Err(_)) => Err(Refusal::NotSupported("the body is not complete")),
            Err(_) => Err(Refusal::BodyTooSlow(limits.body_deadline)),
        }
    }

    async fn start(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        let cursor = route::stream_cursor(uri, headers)?;
        route::owner(headers)?;
        let request = RunCommand::from_json(&self.body(body).await?)?;
        if request.uid.is_some() || request.gid.is_some() {
            return Err(Refusal::NotSupported("this server runs commands as its own user only"));
        }
        let id = request.id()?.unwrap_or_else(|| CommandId::random(self.random()));
        // A client may have sent this start to an earlier server.
        let age = route::age(headers);
        let answers = route::asked(headers).filter(|question| self.shared.has_asked(question));
        let is_older = self.shared.is_older(&self.link, answers, age);
        // The bug: a client that has only the name of a run may start another one.
        let is_start =
            cursor == Cursor::START || cursor.after == 0 && defect!(RunWithoutEventsIsNew);
        let is_known = !is_start || is_older && !defect!(RestartForgetsTheStart);
        // The server may have learned of the connection so late that the age says nothing.
        if !is_known && !age.is_zero() && answers.is_none() && !self.knows(&id) {
            return Err(Refusal::TooEarly { id, question: self.shared.ask_age() });
        }
        let started = self
            .shared
            .registry()
            .start(id.clone(), request, is_known, || self.new_command(None))?;
        let running = match started {
            Started::New(running) => {
                milestone!("sse.command.started", command = id.as_str(), conn = self.link.conn().0);
                self.launch(&running, self.argv(&running.request), Some(&running.request.cwd));
                running
            }
            Started::Known(running) => running,
        };
        point!("sse.server.started", conn = self.link.conn().0).await;
        if running.request.background {
            return Ok(self.detached(&running, headers));
        }
        self.open(&running, cursor, Some(id.as_str()), headers)
    }

    /// Whether the server knows the command, even if its output is no longer kept.
    fn knows(&self, id: &CommandId) -> bool {
        !matches!(self.shared.registry().find(id), Err(Refusal::UnknownCommand(_)))
    }

    fn resume(
        &self,
        id: &CommandId,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Refusal> {
        let cursor = route::stream_cursor(uri, headers)?;
        if self.shared.sessions().has(id.as_str()) {
            return Err(Refusal::NotResumable(id.clone()));
        }
        let running = self.shared.registry().find(id)?;
        self.open(&running, cursor, None, headers)
    }

    /// Asks a command to end; also that of a session, because its stream names the session.
    fn interrupt(&self, id: CommandId) -> Result<Response<Body>, Refusal> {
        let in_session = {
            let sessions = self.shared.sessions();
            sessions.has(id.as_str()).then(|| sessions.running(id.as_str()))
        };
        // The bug: a session that runs nothing is no session.
        let in_session = in_session.filter(|runs| runs.is_some() || !defect!(IdleSessionIsUnknown));
        let running = match in_session {
            Some(running) => running,
            None => Some(self.shared.registry().find(&id)?),
        };
        // The bug: the task of the process is not woken.
        let ask = |running: Arc<Running>| match defect!(InterruptWakesNoTask) {
            true => running.command().interrupt(),
            false => running.change(Command::interrupt),
        };
        if !running.is_some_and(ask) {
            return Err(Refusal::NotRunning(id));
        }
        milestone!("sse.command.interrupted", command = id.as_str());
        Ok(answer::empty())
    }

    /// Returns the answer to the start of a background command: a stream that is complete.
    fn detached(&self, running: &Running, headers: &HeaderMap) -> Response<Body> {
        let framing = match defect!(DetachedInFramesOfExecd) {
            true => Framing::Execd,
            false => self.framing(headers),
        };
        let start = Cursor::new(running.command().log.epoch(), 0);
        let mut bytes = head(
            framing,
            &self.shared.limits,
            start,
            Some(&self.init(running, running.id.as_str())),
        )
        .to_vec();
        let timestamp = milliseconds(&*self.shared.env.clock);
        let detached = Record::unlogged(timestamp, Event::Detached);
        bytes.extend_from_slice(&framing.encode(start, &detached));
        answer::stream(answer::whole(Bytes::from(bytes)))
    }

    /// Attaches a stream to a command. `named`: the id in its first event, if the client has started
    /// the command with this request.
    pub(super) fn open(
        &self,
        running: &Arc<Running>,
        cursor: Cursor,
        named: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Refusal> {
        let (limits, conn) = (self.shared.limits, self.link.conn().0);
        let owner = route::owner(headers)?;
        let framing = self.framing(headers);
        let changes = running.changes();
        let (attached, epoch) = {
            let mut command = running.command();
            // A client of execd does not know this answer.
            let knows =
                framing == Framing::Standard || owner.is_some() || defect!(AllKnowNoContent);
            if knows && command.is_complete_after(cursor) {
                return Ok(answer::nothing_follows());
            }
            let (link, now) = (self.link.clone(), Instant::now());
            link.begin_stream(now);
            let attached =
                command.attach(&running.id, cursor, owner, link, now, limits.takeover_after)?;
            (attached, command.log.epoch())
        };
        if !defect!(CursorFreesNothing) {
            running.was_read(); // the cursor says what the client has
        }
        let Attached { generation, replaced, oldest, next } = attached;
        self.attachments
            .lock()
            .expect("nothing panics under the lock")
            .push((running.clone(), generation));
        milestone!("sse.server.attached", generation, conn, after = cursor.after, next);
        if let Some(old) = replaced {
            milestone!("sse.server.fenced", generation, conn, old = old.conn().0);
            if !defect!(LoserEndsCleanly) && !defect!(ReplacedStaysOpen) {
                old.close(Closed::Replaced);
            }
            running.change(|_| ());
        }
        let init = named.map(|id| self.init(running, id));
        let is_fresh = cursor == Cursor::START && init.is_some();
        let stream = EventStream {
            running: running.clone(),
            generation,
            after: cursor.after,
            epoch,
            framing,
            head: head(framing, &limits, Cursor::new(epoch, cursor.after), init.as_ref()),
            clock: self.shared.env.clock.clone(),
            limits,
            changes,
            heartbeat: Instant::now() + limits.heartbeat,
            defects: StreamDefects::new((!is_fresh).then_some(next - 1)),
        };
        let mut response = answer::stream(stream.into_body());
        for (name, value) in [
            (header::EPOCH, epoch.to_string()),
            (header::OLDEST, oldest.to_string()),
            (header::NEXT, next.to_string()),
            (header::GENERATION, generation.to_string()),
        ] {
            insert(response.headers_mut(), name, &value);
        }
        Ok(response)
    }

    fn logs(&self, id: &CommandId, uri: &Uri) -> Result<Response<Body>, Refusal> {
        let cursor = route::cursor(uri, "cursor")?;
        let running = self.shared.registry().find(id)?;
        if !running.request.background {
            return Err(Refusal::NotBackground(id.clone()));
        }
        let (logs, epoch) = {
            let command = running.command();
            let mut logs = command.logs(cursor, self.shared.limits.logs_bytes)?;
            if defect!(LogsSkipTheRest) {
                logs.next = command.log.last();
            }
            (logs, command.log.epoch())
        };
        let mut response = answer::plain(logs.output);
        let headers = response.headers_mut();
        insert(headers, header::TAIL_CURSOR, &logs.next.to_string());
        insert(headers, header::EPOCH, &epoch.to_string());
        if let Some(gap) = logs.gap {
            insert(headers, header::GAP, &format!("{}-{}", gap.first, gap.last));
        }
        Ok(response)
    }

    fn framing(&self, headers: &HeaderMap) -> Framing {
        self.shared.config.framing.unwrap_or_else(|| route::framing(headers))
    }

    /// Returns the first event of a start.
    fn init(&self, running: &Running, id: &str) -> Record {
        let command = id.to_owned();
        let epoch = Some(running.command().log.epoch());
        Record::unlogged(milliseconds(&*self.shared.env.clock), Event::Init { command, epoch })
    }

    pub(super) fn new_command(&self, session: Option<String>) -> Command {
        let epoch = Epoch(self.random() as u64);
        let log = CommandLog::new(epoch, self.shared.limits.log_bounds());
        Command::new(log, session, milliseconds(&*self.shared.env.clock), Instant::now())
    }

    pub(super) fn random(&self) -> u128 {
        let mut bytes = [0; 16];
        self.shared.env.entropy.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }

    /// Returns the program and the arguments that run a request.
    fn argv(&self, request: &RunCommand) -> Vec<String> {
        request.argv.clone().unwrap_or_else(|| {
            let line = std::iter::once(request.command.clone());
            self.shared.config.shell.iter().cloned().chain(line).collect()
        })
    }

    /// Launches the process of a new command.
    pub(super) fn launch(&self, running: &Arc<Running>, argv: Vec<String>, cwd: Option<&str>) {
        let (env, limits) = (&self.shared.env, &self.shared.limits);
        let request = &running.request;
        let mut variables: BTreeMap<String, String> = env.machine.variables.clone();
        variables.extend(request.envs.clone().unwrap_or_default());
        let command = process::Command {
            argv,
            arg0: None,
            cwd: cwd.filter(|cwd| !cwd.is_empty() && !defect!(FolderIgnored)).map(str::to_owned),
            env: variables.into_iter().collect(),
            stdio: Stdio::Pipes { stdin: false },
            confinement: None,
        };
        let task = ProcessTask {
            running: running.clone(),
            command,
            launch: env.launch.clone(),
            clock: env.clock.clone(),
            time_limit: request.time_limit(),
            interrupt_grace: limits.interrupt_grace,
            line_bytes: limits.line_bytes,
            hold: limits.hold,
            in_flight: limits.in_flight,
            ended: self.shared.changed.clone(),
        };
        running.own(self.shared.spawn(task.run()));
    }

    fn report(&self, refusal: &Refusal) {
        let conn = self.link.conn().0;
        match refusal {
            Refusal::Active { .. } => milestone!("sse.server.refused-active", conn),
            Refusal::Superseded(_) => milestone!("sse.server.refused-superseded", conn),
            Refusal::MalformedCursor(_) => milestone!("sse.server.refused-malformed-cursor", conn),
            Refusal::Cursor(crate::wire::CursorError::Foreign { .. }) => {
                milestone!("sse.server.refused-foreign-cursor", conn)
            }
            Refusal::Cursor(crate::wire::CursorError::Future { .. }) => {
                milestone!("sse.server.refused-future-cursor", conn)
            }
            Refusal::UnknownCommand(id) => {
                milestone!("sse.server.refused-unknown", conn, command = id.as_str())
            }
            Refusal::Expired(_) => milestone!("sse.server.refused-expired", conn),
            Refusal::TooMany(_) => milestone!("sse.server.refused-busy", conn),
            Refusal::Unauthorized => milestone!("sse.server.refused-unauthorized", conn),
            Refusal::BodyTooSlow(_) => milestone!("sse.server.slow-body", conn),
            other => milestone!("sse.server.refused", conn, code = other.code()),
        }
    }
}

/// Whether a request has no path, or not this method.
fn leads_nowhere(request: &Request<Incoming>) -> bool {
    Route::of(request.method(), request.uri()).is_err()
}

/// Inserts a header whose value this server has made.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    let value = HeaderValue::from_str(value).expect("numbers and hex digits are valid");
    headers.insert(name, value);
}
