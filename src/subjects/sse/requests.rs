//! Single requests of a user, without the product's client.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::names::{Named, TOKEN, server_endpoint};
use super::notes::{SeenLogs, SeenRefusal, SeenStatus};
use crate::history::{Answer, Call, Data, ProcessOutcome};
use crate::process::KILL;
use crate::subject::HostContext;
use reknit_sse::wire::{
    CommandStatus, Cursor, Decoder, Ending, Event, Record, RefusalBody, RunInSession,
    SessionCreated, header, path,
};

/// How long one request may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How long a user waits before it asks for more logs.
const POLL: Duration = Duration::from_millis(500);

/// How long a user reads a page of logs.
const PAGE: Duration = Duration::from_millis(50);

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
    Lost(String),
}

impl Unanswered {
    fn lost(error: impl ToString) -> Self {
        Self::Lost(error.to_string())
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
    request = request.header(header::ACCESS_TOKEN, TOKEN);
    for (name, value) in headers {
        request = request.header(*name, *value);
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
    let lost = |why: String| host.record.failed(call, why);
    match timeout(at_most, asked).await {
        Ok(Ok(answer)) => host.record.answered(call, answer),
        Ok(Err(Unanswered::Refused(refusal))) => host.record.refused(call, refusal),
        Ok(Err(Unanswered::Lost(why))) => lost(why),
        Err(_) => lost("no answer in time".to_owned()),
    }
}

/// Asks a command to end.
pub(super) async fn interrupt(host: HostContext, call: Call, named: Named) {
    let asked = async {
        open(&host, Method::DELETE, &path::interrupt(&named.id), String::new(), &[]).await?;
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

async fn status_of(host: &HostContext, named: &Named) -> Result<CommandStatus, Unanswered> {
    let open = open(host, Method::GET, &path::status(&named.id), String::new(), &[]).await?;
    serde_json::from_slice(&open.body().await?).map_err(Unanswered::lost)
}

/// Asks for the state of a command.
pub(super) async fn status(host: HostContext, call: Call, named: Named) {
    let asked = async { Ok(Data::from(SeenStatus(status_of(&host, &named).await?))) };
    answer(&host, call, PATIENCE, asked).await;
}

/// Reads the logs of a command, page by page, until it has ended or `wait` has passed.
pub(super) async fn logs(host: HostContext, call: Call, named: Named, wait: Duration) {
    let until = Instant::now() + wait;
    let asked = async {
        let mut seen = SeenLogs { output: String::new(), gap: None, next: 0, whole: false };
        loop {
            if page(&host, &named, &mut seen).await? > 0 {
                sleep(PAGE).await;
            } else if seen.whole {
                return Ok(Data::from(seen));
            } else {
                // What the command printed before its end is there when its state says so.
                seen.whole = !status_of(&host, &named).await?.running;
                if !seen.whole && Instant::now() >= until {
                    return Ok(Data::from(seen));
                }
                sleep(if seen.whole { PAGE } else { POLL }).await;
            }
        }
    };
    answer(&host, call, wait + PATIENCE, asked).await;
}

/// Reads one page of logs. Returns by how many events the cursor moved.
async fn page(host: &HostContext, named: &Named, seen: &mut SeenLogs) -> Result<u64, Unanswered> {
    let cursor = Cursor { epoch: None, after: seen.next };
    let path = path::logs(&named.id, cursor);
    let open = open(host, Method::GET, &path, String::new(), &[]).await?;
    let next = open.header(header::TAIL_CURSOR).and_then(|next| next.parse().ok());
    let gap = open.header(header::GAP);
    seen.output.push_str(&String::from_utf8_lossy(&open.body().await?));
    seen.gap = seen.gap.take().or(gap);
    let before = std::mem::replace(&mut seen.next, next.unwrap_or(cursor.after));
    Ok(seen.next.saturating_sub(before))
}

/// Asks for the stream of a command, and reads the head of the answer.
pub(super) async fn ask(host: HostContext, call: Call, named: Named, cursor: String) {
    let asked = async {
        let path = format!("/command/{}/resume?after_eid={cursor}", named.id);
        let open = open(&host, Method::GET, &path, String::new(), &[]).await?;
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

/// Runs a process in a new shell session, and records its output as the stream of the process.
pub(super) async fn session(host: HostContext, call: Call, process: String) {
    let started = async {
        let created = open(&host, Method::POST, "/session", String::new(), &[]).await?;
        let created = created.body().await?;
        let created: SessionCreated = serde_json::from_slice(&created).map_err(Unanswered::lost)?;
        let run = RunInSession { command: process.clone(), ..RunInSession::default() };
        let body = serde_json::to_string(&run).map_err(Unanswered::lost)?;
        let path = format!("/session/{}", created.session_id);
        let stream = open(&host, Method::POST, &format!("{path}/run"), body, &[]).await?;
        Ok((path, stream))
    };
    let (path, stream) = match timeout(PATIENCE, started).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(unanswered)) => {
            return answer(&host, call, PATIENCE, async { Err::<Data, _>(unanswered) }).await;
        }
        Err(_) => return host.record.failed(call, "no answer in time"),
    };
    let named = Named::nth("client", &process, 1, None);
    named.all().iter().for_each(|stream| host.record.opened(stream, call));
    read_session(&host, &named, stream).await;
    // A session without a command holds no resources but its name.
    let _ = timeout(PATIENCE, open(&host, Method::DELETE, &path, String::new(), &[])).await;
}

async fn read_session(host: &HostContext, named: &Named, stream: Open) {
    let Open { response, _connection } = stream;
    let mut body = response.into_body();
    let mut decoder = Decoder::new(1 << 20);
    while let Some(frame) = body.frame().await {
        let data = frame.ok().and_then(|frame| frame.into_data().ok());
        if data.is_none_or(|data| decoder.feed(&data).is_err()) {
            break;
        }
        for Record { event, .. } in std::iter::from_fn(|| decoder.next()).map(|next| next.record) {
            match event {
                Event::Output(pipe, bytes) => {
                    host.record.delivered(&named.pipe(pipe), bytes, None);
                }
                Event::Ended { ending: Ending::Exited(code), .. } => {
                    return named.completed(&host.record, ProcessOutcome::Exit(code));
                }
                Event::Ended { ending: Ending::Killed(signal), .. } => {
                    return named.completed(&host.record, ProcessOutcome::Signal(signal));
                }
                Event::Ended { .. } => {
                    return named.completed(&host.record, ProcessOutcome::Signal(KILL));
                }
                _ => {}
            }
        }
    }
    named.failed(&host.record, &Data::from("the connection ended"));
}
