//! The HTTP server behind a simulated exec server. It answers `GET /b1?as=h7&call=7` with the body
//! that `[web.b1]` declares. The body that it sends is the stream `h7`, and the receipt of the
//! request is the effect of call 7.
//!
//! If the entry declares redirects, `hop` in the query counts them. A `POST` takes effect where a
//! redirect answers it that changes it to a `GET`; `done` in the query then marks the page of its
//! result, and a second `POST` to that page is a second effect.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream as Pieces;
use futures_util::stream::unfold;
use http_body_util::{Either, Empty, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderName, HeaderValue, LOCATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::answers::ExecObservation;
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

/// The port of the other origin on the same host.
const OTHER_PORT: u16 = 81;

/// The key of its table in a scenario: `web`, as in `[web.b1]`.
pub const TABLE: &str = "web";

/// The ending of a body that was sent completely.
pub(super) const COMPLETE: &str = "complete";

/// The ending of a body that its server broke off.
pub(super) const BROKEN_OFF: &str = "broken off";

/// How many redirects an exec server follows.
pub(super) const MAX_REDIRECTS: u64 = 10;

/// The longest time that a redirect takes: two round trips over a long link.
const HOP: Duration = Duration::from_millis(500);

/// Longer than any run.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// The suffix of the target of a request's effect.
pub(super) const EFFECT: &str = "/request";

/// The response of the HTTP server: an entry of `[web.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = some(3, 100), example = some(30, 50), example = some(200, 5), example = unsized_(20, 20), example = moved(2))]
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
    /// The method with which users request it.
    pub method: WebMethod,
    /// The pause before each response.
    pub answers_after: WrittenDuration,
    /// The number of redirects that precede the body.
    pub redirects: u64,
    /// The status of these redirects.
    pub redirect_status: RedirectStatus,
    /// Whether the last redirect leads to another port, that is to another origin.
    pub leaves_origin: bool,
    /// The status of the response with the body.
    pub status: WebStatus,
    /// Whether the response has the header `x-request`, which shows the request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shows_request: bool,
}

/// Defines a status as one of a list.
macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident of $what:literal: $($status:literal),*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "u16", into = "u16")]
        pub struct $name(u16);

        impl $name {
            const ALL: &[u16] = &[$($status),*];
        }

        impl TryFrom<u16> for $name {
            type Error = String;

            fn try_from(status: u16) -> Result<Self, String> {
                let is_known = Self::ALL.contains(&status);
                is_known
                    .then_some(Self(status))
                    .ok_or_else(|| format!("{} has one of these statuses: {:?}", $what, Self::ALL))
            }
        }

        impl From<$name> for u16 {
            fn from(status: $name) -> Self {
                status.0
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "integer", "enum": Self::ALL })
            }
        }
    )*};
}

statuses! {
    /// The status of a response with a body.
    WebStatus of "a response": 200, 201, 403, 404, 500;
    /// The status of a redirect.
    RedirectStatus of "a redirect": 301, 302, 303, 307, 308;
}

impl RedirectStatus {
    /// Returns whether a client must send a `POST` that it answers again to the target.
    fn repeats(self) -> bool {
        self.0 >= 307
    }
}

/// The method of a request. A request that is no `get` has a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WebMethod {
    /// `GET`
    #[default]
    Get,
    /// `POST`
    Post,
    /// `PUT`
    Put,
}

impl WebMethod {
    /// Returns its name on the wire.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }

    /// Returns the method of the request to the target of a redirect (RFC 9110, 15.4).
    fn after(self, RedirectStatus(status): RedirectStatus) -> Self {
        match (status, self) {
            (303, _) | (301 | 302, Self::Post) => Self::Get,
            _ => self,
        }
    }
}

impl Default for WebSetup {
    fn default() -> Self {
        some(5, 100)
    }
}

fn some(pieces: u64, every_ms: u64) -> WebSetup {
    let every = WrittenDuration(Duration::from_millis(every_ms));
    WebSetup {
        pieces,
        every,
        bytes: Size(100),
        sized: true,
        breaks_off: false,
        method: WebMethod::Get,
        answers_after: WrittenDuration(Duration::ZERO),
        redirects: 0,
        redirect_status: RedirectStatus(302),
        leaves_origin: false,
        status: WebStatus(200),
        shows_request: false,
    }
}

fn moved(redirects: u64) -> WebSetup {
    WebSetup {
        redirects,
        method: WebMethod::Post,
        redirect_status: RedirectStatus(303),
        ..some(5, 100)
    }
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

    /// The time that the server needs to respond and to produce the body, at most a day. Redirects
    /// take time on the network, too.
    pub(super) fn lasts(&self) -> Duration {
        let times = |each: Duration, count: u64| {
            each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
        };
        let responses = self.redirects.min(MAX_REDIRECTS).saturating_add(1);
        times(self.every.0, self.pieces)
            .saturating_add(times(self.answers_after.0, responses))
            .saturating_add(times(HOP, responses - 1))
            .min(A_DAY)
    }

    /// The time for which a request occupies the server's connection to the web: a body that breaks
    /// off does so a while after its last piece.
    pub(super) fn occupies(&self) -> Duration {
        let delay = if self.breaks_off { BREAK_OFF_DELAY } else { Duration::ZERO };
        self.lasts().saturating_add(delay)
    }

    /// Returns whether a response has this status, and the length that it declares for its body.
    pub(super) fn answers_with(&self, status: u16, length: Option<&str>) -> bool {
        let declared = self.is_sized().then(|| self.length().to_string());
        status == self.status.0 && length == declared.as_deref()
    }

    fn is_sized(&self) -> bool {
        self.sized && !self.breaks_off
    }
}

/// The URL of a body, for a call and the stream that records it.
pub(super) fn url(port: u16, body: &str, record: &Stream, call: Call) -> String {
    format!("http://{HOST}:{port}/{body}?as={record}&call={}", call.0)
}

/// Serves both origins until dropped.
pub(super) async fn serve(host: HostContext) {
    tokio::join!(serve_origin(&host, PORT), serve_origin(&host, OTHER_PORT));
}

async fn serve_origin(host: &HostContext, port: u16) {
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
                let answer = service_fn(move |request| answer(host.clone(), port, request));
                let mut http = http1::Builder::new();
                http.auto_date_header(false).header_read_timeout(None).keep_alive(false).max_buf_size(BUFFER);
                conns.spawn(async move { drop(http.serve_connection(TokioIo::new(stream), answer).await) });
            }
        }
    }
}

type Piece = io::Result<Frame<Bytes>>;

type MovedOrBody<P> = Either<Empty<Bytes>, StreamBody<P>>;

async fn answer(
    host: HostContext,
    port: u16,
    request: Request<Incoming>,
) -> Result<Response<MovedOrBody<impl Pieces<Item = Piece> + Send>>, Infallible> {
    let asked = WebRequest::of(&request);
    let setup = WebSetup::declared(&host.plan, &asked.body);
    if port != PORT && request.headers().contains_key(AUTHORIZATION) {
        host.record.observed(&asked.stream, ExecObservation::ForeignCredentials);
    }
    let method = match asked.hop {
        0 => setup.method,
        _ => setup.method.after(setup.redirect_status),
    };
    if asked.call.is_some() && request.method() != method.name() {
        host.record.observed(&asked.stream, ExecObservation::OtherMethod);
    }
    // The body of a user is the name of its stream.
    let length = if method == WebMethod::Get { 0 } else { asked.stream.0.len() as u64 };
    if asked.call.is_some() && request.body().size_hint().exact() != Some(length) {
        host.record.observed(&asked.stream, ExecObservation::OtherBody);
    }
    let posts = request.method() == Method::POST;
    let target = asked.target(&setup, posts);
    let takes_effect = match &target {
        Some(_) => posts && !setup.redirect_status.repeats(),
        None => posts || !asked.done,
    };
    if let Some(call) = asked.call.filter(|_| takes_effect) {
        host.record.effect(call, format!("{}{EFFECT}", asked.stream));
    }
    if !setup.answers_after.0.is_zero() {
        sleep(setup.answers_after.0).await;
    }
    let mut response = Response::builder();
    if let Some(target) = target {
        response = response.status(setup.redirect_status.0).header(LOCATION, target);
        return Ok(response.body(Either::Left(Empty::new())).expect("a URL is a header's value"));
    }
    response = response.status(setup.status.0);
    if setup.is_sized() {
        response = response.header(CONTENT_LENGTH, setup.length());
    }
    if setup.shows_request {
        response = response.header("x-request", shown(&request));
    }
    let making = BodyInProgress::new(setup, asked.stream, host.record.clone());
    let body = StreamBody::new(unfold(making, BodyInProgress::next));
    Ok(response.body(Either::Right(body)).expect("a length is a header's value"))
}

/// Returns the method, the target and the headers of a request, as one line.
fn shown(request: &Request<Incoming>) -> String {
    let header = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
    };
    let mut headers: Vec<String> = request.headers().iter().map(header).collect();
    headers.sort();
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    format!("{} {target}; {}", request.method(), headers.join("; "))
}

/// A request, from its URL.
struct WebRequest {
    /// The name of the body.
    body: String,
    stream: Stream,
    call: Option<Call>,
    /// The number of redirects that led here.
    hop: u64,
    /// Whether the URL is the page of a result: the request has had its effect.
    done: bool,
}

impl WebRequest {
    fn of(request: &Request<Incoming>) -> Self {
        let body = request.uri().path().trim_start_matches('/');
        let query = request.uri().query().unwrap_or_default();
        let field = |key: &str| {
            query.split('&').find_map(|field| field.strip_prefix(key)?.strip_prefix('='))
        };
        let number = |key: &str| field(key).and_then(|number| number.parse().ok());
        Self {
            body: body.to_owned(),
            stream: Stream::from(field("as").unwrap_or(body)),
            call: number("call").map(Call),
            hop: number("hop").unwrap_or(0),
            done: field("done").is_some(),
        }
    }

    /// Returns the target to which the server redirects this request, if it does.
    fn target(&self, setup: &WebSetup, posts: bool) -> Option<String> {
        if self.hop >= setup.redirects {
            return None;
        }
        let hop = self.hop + 1;
        let origin = if hop == setup.redirects && setup.leaves_origin {
            format!("http://{HOST}:{OTHER_PORT}")
        } else {
            String::new()
        };
        let call = self.call.map_or(String::new(), |Call(call)| format!("&call={call}"));
        let done = self.done || posts && !setup.redirect_status.repeats();
        let done = if done { "&done=1" } else { "" };
        Some(format!("{origin}/{}?as={}{call}&hop={hop}{done}", self.body, self.stream))
    }
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
