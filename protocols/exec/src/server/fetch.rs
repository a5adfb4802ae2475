//! HTTP requests that the server sends for its clients, over separate connections, and the bodies
//! of the answers.
//!
//! A request belongs to the connection that requested it, and ends with that connection: its bytes
//! cannot be resumed. Each connection has one short queue for all answers, so the head of an answer
//! precedes the first piece of its body. While the client does not read, the queue stays full, and
//! the server does not read the body.
//!
//! A request follows redirects (`hop`) unless the client forbids it. All hops share one deadline, and
//! the server reads no body but that of the last answer.
//!
//! A bounded number of the requests of a connection is in progress. Further ones wait, up to their
//! own timeouts.
//!
//! Not supported: TLS (the server refuses an `https` URL, also as the target of a redirect), and
//! connection pooling.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use reknit_resume::Counted;
use reknit_resume::EVER;
use reknit_seams::net::{Endpoint, Net};
use reknit_seams::{defect, milestone};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::defects::FetchDefects;
use super::request_error::RequestError;
use crate::wire::http::{BodyDelta, Header, HttpParams, HttpResult, RedirectPolicy, TOO_LATE};
use crate::wire::{RequestId, method, notification_text, response_text};

mod hop;

use hop::{Hop, MAX_REDIRECTS, UrlError};

/// How many messages of all HTTP requests of a connection may wait to be sent.
const QUEUE: usize = 4;

/// The maximum size of one body piece in bytes.
const PIECE: usize = 64 * 1024;

/// The HTTP requests of one connection. Dropping it ends all of them.
pub(super) struct Fetches {
    tasks: JoinSet<()>,
    /// The requests that are in progress or wait, with the sizes of their bodies in bytes.
    in_progress: BTreeMap<String, usize>,
    sender: mpsc::Sender<Fetched>,
    queue: mpsc::Receiver<Fetched>,
    pub(super) defects: FetchDefects,
    counter: Arc<AtomicU64>,
    /// How many more requests may be in progress.
    permits: Arc<Semaphore>,
}

/// A message to the client.
struct Fetched {
    text: String,
    /// Whether this is the answer to a request, with or without its body.
    is_answer: bool,
    /// The request that ends with this message, if it is the last one.
    over: Option<String>,
}

impl Fetches {
    /// Creates an empty set, of which at most `most` requests are in progress. `counter` counts the
    /// requests of all connections.
    pub(super) fn new(counter: &Arc<AtomicU64>, most: usize) -> Self {
        let (sender, queue) = mpsc::channel(QUEUE);
        Self {
            tasks: JoinSet::new(),
            in_progress: BTreeMap::new(),
            sender,
            queue,
            defects: FetchDefects::default(),
            counter: counter.clone(),
            permits: Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    /// Returns how many requests are in progress or wait.
    pub(super) fn len(&self) -> usize {
        self.in_progress.len()
    }

    /// Returns the bytes of their bodies.
    pub(super) fn bytes(&self) -> usize {
        if defect!(HttpBytesUncounted) { 0 } else { self.in_progress.values().sum() }
    }

    /// Sends a request; [`next`](Self::next) returns its answer. `variables` is the environment of
    /// the server.
    pub(super) fn start(
        &mut self,
        net: &Net,
        variables: &BTreeMap<String, String>,
        id: RequestId,
        params: HttpParams,
        most: usize,
    ) -> Result<(), RequestError> {
        if self.in_progress.contains_key(&params.request_id) {
            return Err(RequestError::Params(format!(
                "request id {} is already in use",
                params.request_id
            )));
        }
        let hop = Hop::first(&params, variables)?;
        let bytes = params.body_base64.as_ref().map_or(0, |body| body.0.len());
        self.in_progress.insert(params.request_id.clone(), bytes);
        self.defects.unanswered += 1;
        let wait = params.timeout_ms.map_or(EVER, Duration::from_millis).min(EVER);
        let is_queued = self.permits.available_permits() == 0;
        let wait = if is_queued && defect!(QueuedFetchHasHalfTime) { wait / 2 } else { wait };
        let is_uncounted = params.stream_response && defect!(StreamsUncounted);
        let counter = if is_uncounted { Arc::default() } else { self.counter.clone() };
        let fetch = Fetch {
            net: net.clone(),
            id,
            redirects: params.redirect_policy,
            request_id: params.request_id,
            streams: params.stream_response,
            deadline: Instant::now() + wait,
            most,
            sender: self.sender.clone(),
            permits: self.permits.clone(),
            _counted: Counted::new(&counter),
        };
        while self.tasks.try_join_next().is_some() {} // discard the results of finished tasks
        self.tasks.spawn(fetch.run(hop));
        Ok(())
    }

    /// Returns the next serialized message for the client. Cancel safe: dropping the future loses
    /// nothing.
    pub(super) async fn next(&mut self) -> String {
        let fetched = self.queue.recv().await.expect("there is a sender as long as there is this");
        self.taken(fetched)
    }

    /// Returns the next message if one is available.
    pub(super) fn try_next(&mut self) -> Option<String> {
        let fetched = self.queue.try_recv().ok()?;
        Some(self.taken(fetched))
    }

    fn taken(&mut self, fetched: Fetched) -> String {
        self.defects.unanswered -= usize::from(fetched.is_answer);
        if let Some(over) = fetched.over {
            self.in_progress.remove(&over);
        }
        fetched.text
    }

    /// Handles the end of the connection.
    pub(super) fn end(mut self) {
        if defect!(HttpOutlivesConnection) {
            self.tasks.detach_all();
        }
    }
}

/// One request in progress.
struct Fetch {
    net: Net,
    /// The id of the client's `http/request`.
    id: RequestId,
    redirects: RedirectPolicy,
    /// The id in the pieces of the body.
    request_id: String,
    streams: bool,
    deadline: Instant,
    /// The maximum size of a body that is not streamed.
    most: usize,
    sender: mpsc::Sender<Fetched>,
    permits: Arc<Semaphore>,
    _counted: Counted,
}

/// The reason why the answer is missing or incomplete.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("no connection to {0}: {1}")]
    Connect(Endpoint, std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("more than {} redirects", MAX_REDIRECTS)]
    Redirects,
    #[error("the target of a redirect: {0}")]
    Redirect(#[from] UrlError),
    #[error("{}", TOO_LATE)]
    Late,
    #[error("the body has more than {0} bytes")]
    Long(usize),
}

impl Fetch {
    async fn run(self, hop: Hop) {
        let mut driver = JoinSet::new();
        let turn = async { Ok(self.permits.acquire().await.ok()) };
        let turn = if defect!(TurnIsUntimed) { turn.await } else { self.in_time(turn).await };
        let Ok(permit) = turn else { return self.answer(Err(Failed::Late), true).await };
        let permit = permit.filter(|_| !defect!(HttpRequestsUnbounded));
        match self.in_time(self.exchange(hop, &mut driver)).await {
            Ok(response) if self.streams => {
                let _permit = permit.filter(|_| !defect!(TurnEndsWithHead));
                self.stream(response).await
            }
            Ok(response) => {
                let whole = self.whole(response);
                let result =
                    if defect!(BodyIsUntimed) { whole.await } else { self.in_time(whole).await };
                self.answer(result, true).await;
            }
            Err(failed) => self.answer(Err(failed), true).await,
        }
    }

    async fn in_time<T>(&self, act: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
        timeout_at(self.deadline, act).await.unwrap_or(Err(Failed::Late))
    }

    /// Sends the request to each hop in turn, and returns the head of the last answer.
    async fn exchange(
        &self,
        mut hop: Hop,
        driver: &mut JoinSet<()>,
    ) -> Result<Response<Incoming>, Failed> {
        let most = if defect!(RedirectsUnbounded) { usize::MAX } else { MAX_REDIRECTS };
        let most = most - usize::from(defect!(LastRedirectRefused));
        for _ in 0..=most {
            let response = self.send_to(&hop, driver).await?;
            let next = match self.redirects {
                RedirectPolicy::Follow => hop.after(response.status(), response.headers())?,
                RedirectPolicy::Stop => None,
            };
            match next {
                Some(next) => hop = next,
                None => return Ok(response),
            }
            milestone!("exec.http.redirected");
            driver.abort_all(); // closes the connection, whatever its body is
        }
        Err(Failed::Redirects)
    }

    /// Connects, sends the request, and waits for the head of the answer. The driver task moves the
    /// bytes while it is alive.
    async fn send_to(
        &self,
        hop: &Hop,
        driver: &mut JoinSet<()>,
    ) -> Result<Response<Incoming>, Failed> {
        let to = hop.endpoint();
        let connected = self.net.connect(&to).await;
        let stream = connected.map_err(|error| Failed::Connect(to, error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        driver.spawn(async move { drop(connection.await) }); // the answer returns its error
        Ok(sender.send_request(hop.request()).await?)
    }

    /// Reads the answer with its whole body.
    async fn whole(&self, response: Response<Incoming>) -> Result<HttpResult, Failed> {
        let mut result = head(&response);
        let (mut body, mut bytes) = (response.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue }; // trailers are not passed on
            let size =
                if defect!(BodyLimitPerFrame) { data.len() } else { bytes.len() + data.len() };
            if size > self.most {
                return Err(Failed::Long(self.most));
            }
            bytes.extend_from_slice(&data);
        }
        result.body_base64 = Bytes::from(bytes).into();
        Ok(result)
    }

    /// Sends the head as the answer, then the body in pieces. The last piece is marked as such and
    /// may carry bytes.
    async fn stream(&self, response: Response<Incoming>) {
        let result = head(&response);
        let early = defect!(HttpBodyBeforeResponse);
        if !early {
            self.answer(Ok(result.clone()), false).await;
        }
        let (mut body, mut seq) = (response.into_body(), 0);
        loop {
            let (data, done, failed) =
                match self.in_time(async { Ok(body.frame().await.transpose()?) }).await {
                    Ok(Some(frame)) => {
                        (frame.into_data().unwrap_or_default(), body.is_end_stream(), None)
                    }
                    Ok(None) => (Bytes::new(), true, None),
                    Err(_) if defect!(HttpCutIsEnd) => (Bytes::new(), true, None),
                    Err(failed) => {
                        milestone!("exec.http.cut", seq);
                        (Bytes::new(), true, Some(failed.to_string()))
                    }
                };
            self.pieces(&mut seq, data, done, failed).await;
            if early && seq == 1 {
                self.answer(Ok(result.clone()), false).await;
            }
            if done {
                return;
            }
        }
    }

    /// Sends bytes in pieces. If `done` is set, the last of them is the last piece of the body.
    async fn pieces(&self, seq: &mut u64, mut data: Bytes, done: bool, error: Option<String>) {
        loop {
            let piece = data.split_to(data.len().min(PIECE));
            let last = done && data.is_empty();
            if piece.is_empty() && !last {
                return;
            }
            *seq += 1;
            let piece = if last && defect!(HttpLastBytesDropped) { Bytes::new() } else { piece };
            let delta = BodyDelta {
                request_id: self.request_id.clone(),
                seq: *seq,
                delta_base64: piece.into(),
                done: last,
                error: error.clone().filter(|_| last),
            };
            self.send(notification_text(method::HTTP_BODY, &delta), false, last).await;
            if data.is_empty() {
                return;
            }
        }
    }

    async fn answer(&self, result: Result<HttpResult, Failed>, over: bool) {
        let over = over && !(result.is_err() && defect!(FailedFetchKeepsPlace));
        let text = match result {
            Ok(result) => {
                milestone!("exec.http.responded", status = u64::from(result.status));
                response_text(&self.id, &result)
            }
            Err(failed) => {
                milestone!("exec.http.failed");
                RequestError::HttpFailed(failed.to_string()).answer(self.id.clone())
            }
        };
        self.send(text, true, over).await;
    }

    async fn send(&self, text: String, is_answer: bool, over: bool) {
        let over = over.then(|| self.request_id.clone());
        // If the connection has ended, this task is about to end too.
        let _ = self.sender.send(Fetched { text, is_answer, over }).await;
    }
}

/// Returns the head of an answer. A header value that is not valid text is converted lossily.
fn head(response: &Response<Incoming>) -> HttpResult {
    let header =
        |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| Header {
            name: name.as_str().to_owned(),
            value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
        };
    let headers = response.headers().iter().map(header).collect();
    HttpResult { status: response.status().as_u16(), headers, body_base64: Bytes::new().into() }
}
