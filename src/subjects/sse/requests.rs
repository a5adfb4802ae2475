//! Single requests of a user: with the product's client, or, for what it cannot do, without it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::limits;
use super::names::{Named, SERVER, TOKEN, server_endpoint};
use super::notes::{SeenEvents, SeenLogs, SeenRefusal, SeenStatus, SseFailure, SseNote};
use super::wrong::WrongRequest;
use crate::history::{Answer, Call, Data, ProcessOutcome, Stream};
use crate::process::KILL;
use crate::subject::HostContext;
use crate::world::process::{UNKNOWN_EXIT, calls};
use reknit_sse::client::{Client, Failure, Refused, RequestError};
use reknit_sse::wire::{
    CommandId, Cursor, Decoder, Ending, Event, Record, RefusalBody, RunInSession, SessionCreated,
    header, path,
};

/// How long one request may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How long a user waits before it asks for more logs.
const POLL: Duration = Duration::from_millis(500);

/// How long a user reads a page of logs.
const PAGE: Duration = Duration::from_millis(50);

/// How long a user reads the pages of logs that are there, after its wait is over.
pub(super) const READS: Duration = Duration::from_secs(5);

/// How long a user that leaves waits before it asks again.
const SOON: Duration = Duration::from_millis(300);

/// An answer whose head has arrived.
struct Open {
    response: Response<Incoming>,
    /// The task of the connection. Dropping it closes the connection.
    _connection: JoinSet<()>,
}

/// Why a request brought no success.
enum Unanswered {
    Refused(SeenRefusal),
    Lost(Data),
}

impl Unanswered {
    fn lost(error: impl ToString) -> Self {
        Self::Lost(error.to_string().into())
    }
}

impl From<RequestError> for Unanswered {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Lost(loss) => Self::lost(loss),
            RequestError::Refused(Refused { status, code, .. }) => {
                Self::Refused(SeenRefusal { status, code })
            }
            // `server_keeps_the_protocol` judges it.
            RequestError::Protocol(what) => Self::Lost(SseFailure(Failure::Protocol(what)).into()),
        }
    }
}

async fn open(
    host: &HostContext,
    method: Method,
    path: &str,
    body: String,
    headers: &[(&str, &str)],
) -> Result<Open, Unanswered> {
    let server = server_endpoint().labelled("request");
    let stream = host.env.net.connect(&server).await.map_err(Unanswered::lost)?;
    let (mut sender, task) =
        http1::handshake(TokioIo::new(stream)).await.map_err(Unanswered::lost)?;
    let mut connection = JoinSet::new();
    connection.spawn(async { drop(task.await) });
    let mut request = Request::builder().method(method).uri(path).header("host", "server");
    let own_token = headers.iter().any(|(name, _)| *name == header::ACCESS_TOKEN);
    let token = (!own_token).then_some((header::ACCESS_TOKEN, TOKEN));
    for (name, value) in headers.iter().copied().chain(token) {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(body))).map_err(Unanswered::lost)?;
    let response = sender.send_request(request).await.map_err(Unanswered::lost)?;
    let open = Open { response, _connection: connection };
    if open.response.status().is_success() { Ok(open) } else { Err(open.refusal().await) }
}

impl Open {
    /// Returns a header of the answer.
    fn header(&self, name: &str) -> Option<String> {
        let value = self.response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    }

    async fn body(self) -> Result<Bytes, Unanswered> {
        let body = self.response.into_body().collect().await;
        body.map(|body| body.to_bytes()).map_err(Unanswered::lost)
    }

    async fn refusal(self) -> Unanswered {
        let status = self.response.status().as_u16();
        match self.body().await {
            Ok(body) => {
                let body: RefusalBody = serde_json::from_slice(&body).unwrap_or_default();
                Unanswered::Refused(SeenRefusal { status, code: body.code })
            }
            Err(lost) => lost,
        }
    }
}

/// Performs a request, and records its outcome.
async fn answer<T: Into<Answer>>(
    host: &HostContext,
    call: Call,
    at_most: Duration,
    asked: impl Future<Output = Result<T, Unanswered>>,
) {
    let lost = |why: Data| host.record.failed(call, why);
    match timeout(at_most, asked).await {
        Ok(Ok(answer)) => host.record.answered(call, answer),
        Ok(Err(Unanswered::Refused(refusal))) => host.record.refused(call, refusal),
        Ok(Err(Unanswered::Lost(why))) => lost(why),
        Err(_) => lost(Data::from("no answer in time".to_owned())),
    }
}

/// Asks a command, or what a shell session runs, to end, with the product's client.
pub(super) async fn interrupt(host: HostContext, call: Call, client: Client, id: CommandId) {
    let asked = async {
        client.interrupt(&id).await?;
        Ok(Answer::queued("interrupted"))
    };
    answer(&host, call, PATIENCE, asked).await;
}

/// Ends a command of a user that leaves. A start may still be on its way, so the user asks again while the
/// server does not know the command.
pub(super) async fn end(host: HostContext, named: Named) {
    let path = path::interrupt(&named.id);
    loop {
        let asked = open(&host, Method::DELETE, &path, String::new(), &[]).await;
        match asked {
            Ok(_) => return,
            Err(Unanswered::Refused(refusal)) if refusal.code != "COMMAND_NOT_FOUND" => return,
            Err(_) => sleep(SOON).await,
        }
    }
}

/// Asks for the state of a command, with the product's client.
pub(super) async fn status(host: HostContext, call: Call, client: Client, named: Named) {
    let asked = async { Ok(Data::from(SeenStatus(client.status(&named.id).await?))) };
    answer(&host, call, PATIENCE, asked).await;
}

/// Reads the logs of a command with the product's client, page by page, until it has ended or `wait` has
/// passed. A user that has too many pages to read has no failure: it stops.
pub(super) async fn logs(
    host: HostContext,
    call: Call,
    client: Client,
    named: Named,
    wait: Duration,
) {
    let until = Instant::now() + wait;
    let asked = async {
        let mut seen = SeenLogs {
            output: String::new(),
            gaps: Vec::new(),
            next: 0,
            has_run: true,
            whole: false,
        };
        let mut cursor = Cursor::START;
        loop {
            let page = client.logs(&named.id, cursor).await?;
            seen.output.push_str(&String::from_utf8_lossy(&page.output));
            seen.gaps.extend(page.gap);
            let moved = page.next.after > cursor.after;
            (cursor, seen.next) = (page.next, page.next.after);
            seen.has_run &= cursor.epoch.is_some();
            if moved && Instant::now() >= until + READS {
                return Ok(Data::from(SeenLogs { whole: false, ..seen }));
            } else if moved {
                sleep(PAGE).await;
            } else if seen.whole {
                return Ok(Data::from(seen));
            } else {
                // Once the status says that the command has ended, the log has its whole output.
                seen.whole = !client.status(&named.id).await?.running;
                if !seen.whole && Instant::now() >= until {
                    return Ok(Data::from(seen));
                }
                sleep(if seen.whole { PAGE } else { POLL }).await;
            }
        }
    };
    answer(&host, call, wait + PATIENCE, asked).await;
}

/// Sends a request that the server must refuse.
pub(super) async fn wrong(host: HostContext, call: Call, named: Named, request: WrongRequest) {
    let asked = async {
        let row = request.row();
        let path = row.path.replace("ID", named.id.as_str());
        let body = row.body.replace("ID", named.id.as_str());
        open(&host, row.method(), &path, body, row.headers).await?;
        Ok(Answer::queued("accepted"))
    };
    answer(&host, call, PATIENCE, asked).await;
}

/// Asks for the stream of a command, and reads the head of the answer.
pub(super) async fn ask(
    host: HostContext,
    call: Call,
    named: Named,
    cursor: String,
    parameter: Option<String>,
) {
    let asked = async {
        let in_query = parameter.as_ref().unwrap_or(&cursor);
        let path = format!("/command/{}/resume?after_eid={in_query}", named.id);
        let in_header = parameter.is_some().then_some((header::LAST_EVENT_ID, cursor.as_str()));
        let headers: Vec<_> = in_header.into_iter().collect();
        let open = open(&host, Method::GET, &path, String::new(), &headers).await?;
        let next = open.header(header::NEXT).unwrap_or_default();
        Ok(Answer::queued(format!("a stream; the next new event is {next}")))
    };
    answer(&host, call, PATIENCE, asked).await;
}

/// Opens the stream of a command, and reads nothing for this long.
pub(super) async fn stick(host: HostContext, call: Call, named: Named, wait: Duration) {
    let asked = async {
        let path = path::resume(&named.id, Cursor::START);
        let held = open(&host, Method::GET, &path, String::new(), &[]).await?;
        sleep(wait).await;
        drop(held);
        Ok(Answer::queued("read nothing"))
    };
    answer(&host, call, wait + PATIENCE, asked).await;
}

/// Reads the stream of a command for this long, as a standard client of server-sent events does.
pub(super) async fn listen(
    host: HostContext,
    call: Call,
    named: Named,
    last: Option<String>,
    wait: Duration,
) {
    let asked = async {
        let path = path::resume(&named.id, Cursor::START);
        let last = last.as_deref().map(|last| (header::LAST_EVENT_ID, last));
        let headers: Vec<_> = [("accept", "text/event-stream")].into_iter().chain(last).collect();
        let Open { response, _connection } =
            open(&host, Method::GET, &path, String::new(), &headers).await?;
        let (mut body, mut read) = (response.into_body(), Vec::new());
        let reads = async {
            while let Some(Ok(frame)) = body.frame().await {
                read.extend(frame.into_data().unwrap_or_default());
            }
        };
        let _ = timeout(wait, reads).await; // the stream may go on
        Ok(Data::from(SeenEvents(String::from_utf8_lossy(&read).into_owned())))
    };
    answer(&host, call, wait + PATIENCE, asked).await;
}

/// The paths of the shell sessions of a host, by the processes that run in them.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<BTreeMap<String, String>>>);

impl Sessions {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of the session in which a process runs.
    pub(super) fn path(&self, process: &str) -> Option<String> {
        self.all().get(process).cloned()
    }
}

/// Deletes a shell session.
pub(super) async fn delete_session(host: HostContext, call: Call, path: String) {
    let asked = async {
        open(&host, Method::DELETE, &path, String::new(), &[]).await?;
        Ok(Answer::queued("deleted"))
    };
    answer(&host, call, PATIENCE, asked).await;
}

/// The key of the paths of all shell sessions in which a host ran commands.
const SESSIONS: &str = "all sessions";

fn remember(host: &HostContext, path: &str) {
    let all = host.disk.read(SESSIONS).unwrap_or_default();
    host.disk.write(SESSIONS, format!("{all}{path}\n"));
}

/// Returns the paths of all shell sessions in which a host ran commands, also before a crash.
pub(super) fn all_sessions(host: &HostContext) -> Vec<String> {
    let all = host.disk.read(SESSIONS).unwrap_or_default();
    all.lines().map(str::to_owned).collect()
}

/// Deletes a shell session of a user that leaves: the server may not learn that its streams are lost.
pub(super) async fn end_session(host: HostContext, path: String) {
    while let Err(Unanswered::Lost(_)) =
        open(&host, Method::DELETE, &path, String::new(), &[]).await
    {
        sleep(SOON).await;
    }
}

/// Deletes the shell session of a command that has ended. Then the user tries it again: no server can
/// delete a session twice.
async fn delete_own(host: &HostContext, path: String) {
    let delete = || timeout(PATIENCE, open(host, Method::DELETE, &path, String::new(), &[]));
    if let (Ok(Ok(_)), Ok(Ok(_))) = (delete().await, delete().await) {
        let note = SseNote::DeletedAgain { session: path };
        host.record.observed(&Stream::from(SERVER), note);
    }
}

/// A command that a user runs in a shell session.
pub(super) struct SessionRun {
    pub(super) named: Named,
    pub(super) process: String,
    /// The path of the session. By default, the command gets a new one.
    pub(super) session: Option<String>,
    pub(super) time_limit: Option<Duration>,
    /// The owner that the request names.
    pub(super) owner: Option<String>,
}

/// Creates a shell session. Returns its path.
async fn create_session(host: &HostContext) -> Result<String, Unanswered> {
    let created = open(host, Method::POST, "/session", String::new(), &[]).await?;
    let created = created.body().await?;
    let created: SessionCreated = serde_json::from_slice(&created).map_err(Unanswered::lost)?;
    Ok(format!("/session/{}", created.session_id))
}

/// Runs a process in a shell session, and records its output as the stream of the process.
pub(super) async fn session(host: HostContext, call: Call, run: SessionRun, sessions: Sessions) {
    let SessionRun { named, process, session, time_limit, owner } = run;
    let is_own = session.is_none();
    let started = async {
        let path = match session {
            Some(path) => path,
            None => create_session(&host).await?,
        };
        sessions.all().insert(process.clone(), path.clone());
        remember(&host, &path);
        host.record.observed(&named.whole(), SseNote::RunsIn { call, session: path.clone() });
        let command = calls::command_line(&named.record, call, &process);
        let timeout = time_limit.map(|limit| limit.as_millis() as i64);
        let run = RunInSession { command, timeout, ..RunInSession::default() };
        let body = serde_json::to_string(&run).map_err(Unanswered::lost)?;
        let headers: Vec<_> = owner.iter().map(|owner| (header::OWNER, owner.as_str())).collect();
        let run = format!("{path}/run");
        let stream = open(&host, Method::POST, &run, body, &headers).await?;
        Ok((path, stream))
    };
    let (path, stream) = match timeout(PATIENCE, started).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(unanswered)) => {
            return answer(&host, call, PATIENCE, async { Err::<Data, _>(unanswered) }).await;
        }
        Err(_) => return host.record.failed(call, "no answer in time"),
    };
    named.all().iter().for_each(|stream| host.record.opened(stream, call));
    // A session without a command holds no resources but its name. The server itself ends a command whose
    // stream is lost.
    if read_session(&host, call, &named, stream).await && is_own {
        delete_own(&host, path).await;
    }
}

/// Reads the stream of a command to its end. Returns whether it was complete. After a gap, the user reads
/// on, and has given the command up. The stream of a session cannot be resumed, so it fails if an event is
/// missing or comes twice.
async fn read_session(host: &HostContext, call: Call, named: &Named, stream: Open) -> bool {
    let silence = limits::client(&host.limits).silence;
    let Open { response, _connection } = stream;
    let mut body = response.into_body();
    let mut decoder = Decoder::new(1 << 20);
    let (mut has_gap, mut last) = (false, 0);
    while let Ok(Some(frame)) = timeout(silence, body.frame()).await {
        let data = frame.ok().and_then(|frame| frame.into_data().ok());
        if data.is_none_or(|data| decoder.feed(&data).is_err()) {
            break;
        }
        let records = std::iter::from_fn(|| decoder.next()).map(|next| next.record);
        for Record { position, event, .. } in records {
            match position {
                Some(position) if position != last + 1 && !has_gap => {
                    named.failed(&host.record, &Data::from("events are missing or come twice"));
                    return false;
                }
                Some(position) => last = position,
                None => {}
            }
            match event {
                Event::Output(pipe, bytes) if !has_gap => {
                    host.record.delivered(&named.pipe(pipe), bytes, None);
                }
                Event::Gap(gap) if !has_gap => {
                    has_gap = true; // the positions of the later events jump
                    named.given_up(&host.record, call, &Data::from(gap.to_string()));
                }
                Event::Ended { ending, took } => {
                    host.record.observed(&named.whole(), SseNote::Took(took));
                    if !has_gap {
                        named.completed(host, call, outcome(&ending));
                    }
                    return true;
                }
                _ => {}
            }
        }
    }
    if !has_gap {
        named.failed(&host.record, &Data::from("the connection ended"));
    }
    false
}

fn outcome(ending: &Ending) -> ProcessOutcome {
    match ending {
        Ending::Exited(code) => ProcessOutcome::Exit(*code),
        Ending::Killed(signal) => ProcessOutcome::Signal(*signal),
        Ending::Lost(_) => ProcessOutcome::Exit(UNKNOWN_EXIT),
        _ => ProcessOutcome::Signal(KILL),
    }
}
