//! The HTTP server behind a simulated exec server. It answers `GET /b1?as=h7&call=7` with the body
//! that `[web.b1]` declares. The body that it sends is the stream `h7`, and the receipt of the
//! request is the effect of call 7.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream as Pieces;
use futures_util::stream::unfold;
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::header::CONTENT_LENGTH;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::history::content::PADDING;
use crate::history::{Call, Stream};
use crate::net::Endpoint;
use crate::schedule::Plan;
use crate::schedule::units::{Size, WrittenDuration};
use crate::subject::{HostContext, Recorder};

/// The host of the HTTP server.
pub(super) const HOST: &str = "web";

/// The port of both servers: the exec server and this one.
pub(super) const PORT: u16 = 80;

/// The key of its table in a scenario: `web`, as in `[web.b1]`.
pub const TABLE: &str = "web";

/// The ending of a body that was sent completely.
pub(super) const COMPLETE: &str = "complete";

/// The ending of a body that its server broke off.
pub(super) const BROKEN_OFF: &str = "broken off";

/// Longer than any run.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// The suffix of the target of a request's effect.
pub(super) const EFFECT: &str = "/request";

/// The response of the HTTP server: an entry of `[web.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = some(3, 100), example = some(30, 50), example = some(200, 5), example = unsized_(20, 20))]
pub struct WebSetup {
    /// The number of pieces of the body.
    pub pieces: u64,
    /// The pause before each piece.
    pub every: WrittenDuration,
    /// The size of each piece.
    pub bytes: Size,
    /// Whether the response declares the length of the body. The client then recognizes the last
    /// piece.
    pub sized: bool,
    /// Whether the server breaks off after the last piece instead of ending the body.
    pub breaks_off: bool,
}

impl Default for WebSetup {
    fn default() -> Self {
        some(5, 100)
    }
}

fn some(pieces: u64, every_ms: u64) -> WebSetup {
    let every = WrittenDuration(Duration::from_millis(every_ms));
    WebSetup { pieces, every, bytes: Size(100), sized: true, breaks_off: false }
}

fn unsized_(pieces: u64, every_ms: u64) -> WebSetup {
    WebSetup { sized: false, ..some(pieces, every_ms) }
}

impl WebSetup {
    /// The body with this name, as the plan declares it.
    pub(super) fn declared(plan: &Plan, body: &str) -> Self {
        plan.entry(TABLE, body).unwrap_or_default()
    }

    /// The length of the body in bytes.
    pub(super) fn length(&self) -> u64 {
        self.pieces.saturating_mul(self.bytes.0)
    }

    /// The time that the server needs to produce the body, at most a day.
    pub(super) fn lasts(&self) -> Duration {
        self.every.0.saturating_mul(u32::try_from(self.pieces).unwrap_or(u32::MAX)).min(A_DAY)
    }

    fn is_sized(&self) -> bool {
        self.sized && !self.breaks_off
    }
}

/// The URL of a body, for a call and the stream that records it.
pub(super) fn url(port: u16, body: &str, record: &Stream, call: Call) -> String {
    format!("http://{HOST}:{port}/{body}?as={record}&call={}", call.0)
}

/// Serves until dropped.
pub(super) async fn serve(host: HostContext, port: u16) {
    let at = Endpoint::tcp(host.name.as_str(), port);
    let mut listener = match host.env.net.listen(&at).await {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen at {at}"),
    };
    let mut conns = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = conns.join_next() => {}
            Ok(stream) = listener.accept() => {
                let host = host.clone();
                let answer = service_fn(move |request| std::future::ready(Ok::<_, Infallible>(answer(&host, &request))));
                let mut http = http1::Builder::new();
                http.auto_date_header(false).header_read_timeout(None).keep_alive(false).max_buf_size(BUFFER);
                conns.spawn(async move { drop(http.serve_connection(TokioIo::new(stream), answer).await) });
            }
        }
    }
}

type Piece = io::Result<Frame<Bytes>>;

fn answer(
    host: &HostContext,
    request: &Request<Incoming>,
) -> Response<StreamBody<impl Pieces<Item = Piece> + Send + use<>>> {
    let (body, query) =
        (request.uri().path().trim_start_matches('/'), request.uri().query().unwrap_or_default());
    let field =
        |key: &str| query.split('&').find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
    let stream = Stream::from(field("as").unwrap_or(body));
    if let Some(call) = field("call").and_then(|call| call.parse().ok()) {
        host.record.effect(Call(call), format!("{stream}{EFFECT}"));
    }
    let setup = WebSetup::declared(&host.plan, body);
    let mut response = Response::builder();
    if setup.is_sized() {
        response = response.header(CONTENT_LENGTH, setup.length());
    }
    let making = BodyInProgress::new(setup, stream, host.record.clone());
    response
        .body(StreamBody::new(unfold(making, BodyInProgress::next)))
        .expect("a length is a header's value")
}

/// The minimum time that a body that breaks off waits after its last piece.
const BREAK_OFF_DELAY: Duration = Duration::from_secs(3);

/// The maximum number of body bytes that the HTTP server buffers before it asks for the next piece:
/// the minimum that the library permits.
const BUFFER: usize = 8 << 10;

/// A body in production.
struct BodyInProgress {
    setup: WebSetup,
    made: u64,
    record: Recorder,
    stream: Stream,
    over: bool,
}

impl BodyInProgress {
    fn new(setup: WebSetup, stream: Stream, record: Recorder) -> Self {
        let mut making = Self { setup, made: 0, record, stream, over: false };
        making.end_if_known();
        making
    }

    /// Records the end together with the last piece if the length is declared, because the HTTP
    /// library then asks for no further piece. Does the same for a body that breaks off, because it
    /// has no further data.
    fn end_if_known(&mut self) {
        if self.made == self.setup.pieces && (self.setup.is_sized() || self.setup.breaks_off) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.over = true;
        self.record.ended(&self.stream, if self.setup.breaks_off { BROKEN_OFF } else { COMPLETE });
    }

    async fn next(mut self) -> Option<(Piece, Self)> {
        if self.made == self.setup.pieces && self.setup.breaks_off {
            // By then the last piece has been sent. The HTTP library discards its buffer when the
            // body fails.
            sleep(self.setup.every.0.max(BREAK_OFF_DELAY)).await;
            return Some((Err(io::ErrorKind::BrokenPipe.into()), self));
        }
        if self.over {
            return None;
        }
        sleep(self.setup.every.0).await;
        if self.made == self.setup.pieces {
            self.end();
            return None;
        }
        self.made += 1;
        let mut text = format!("{} {}", self.made, self.stream).into_bytes();
        text.resize(usize::try_from(self.setup.bytes.0).unwrap_or(usize::MAX), PADDING);
        let bytes = Bytes::from(text);
        self.record.produced(&self.stream, bytes.clone());
        self.end_if_known();
        Some((Ok(Frame::data(bytes)), self))
    }
}

/// The client has stopped reading before the end.
impl Drop for BodyInProgress {
    fn drop(&mut self) {
        if !self.over {
            self.record.ended(&self.stream, format!("stopped after {}", self.made));
        }
    }
}
