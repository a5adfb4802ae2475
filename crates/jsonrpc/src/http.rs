//! The entry of a server: HTTP/1.1, until a connection becomes a WebSocket.
//!
//! `GET /readyz` reports that the server is ready. `/` opens a WebSocket, for programs only: a
//! browser names the origin of its page in `Origin`, and is refused. Otherwise any page could act
//! on this server in the name of the person who views the page.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use reknit_seams::defect;
use reknit_seams::net::{ConnId, Stream};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{Link, WireLimits};

/// The maximum size of a request head in bytes.
const LONGEST_HEAD: usize = 16 * 1024;

/// The result of a connection's HTTP phase.
pub enum HttpOutcome {
    /// The connection is a WebSocket.
    Link(Box<Link>),
    /// The connection is over.
    Over {
        /// The number of requests that were answered.
        answered: u64,
    },
}

/// The requests on a connection so far.
#[derive(Default)]
struct RequestCount {
    upgrade: Option<OnUpgrade>,
    answered: u64,
}

/// Answers HTTP requests until one opens a WebSocket. Calls `refused` for each browser that it
/// refuses.
pub async fn accept_websocket(
    stream: Stream,
    limits: WireLimits,
    refused: fn(ConnId),
) -> HttpOutcome {
    let conn = stream.id();
    let asked = Arc::new(Mutex::new(RequestCount::default()));
    let answer = |mut request: Request<Incoming>| {
        let status = status(&request);
        if status == StatusCode::FORBIDDEN {
            refused(conn);
        }
        let mut asked = asked.lock().expect("nothing panics under the lock");
        asked.answered += 1;
        if status == StatusCode::SWITCHING_PROTOCOLS {
            asked.upgrade = Some(hyper::upgrade::on(&mut request));
        }
        std::future::ready(Ok::<_, Infallible>(response(status, request.headers())))
    };
    let mut http = http1::Builder::new();
    let longest = if defect!(HeadHasAnyLength) { 1 << 20 } else { LONGEST_HEAD };
    http.auto_date_header(false).header_read_timeout(None).max_buf_size(longest);
    let served =
        http.serve_connection(TokioIo::new(stream), service_fn(answer)).with_upgrades().await;
    let (upgrade, answered) = {
        let mut asked = asked.lock().expect("nothing panics under the lock");
        (asked.upgrade.take(), asked.answered)
    };
    let (Ok(()), Some(upgrade)) = (served, upgrade) else { return HttpOutcome::Over { answered } };
    let Ok(upgraded) = upgrade.await else { return HttpOutcome::Over { answered } };
    let parts =
        upgraded.downcast::<TokioIo<Stream>>().expect("it is the stream that hyper was given");
    HttpOutcome::Link(Box::new(
        Link::accepted(parts.io.into_inner(), &parts.read_buf, limits).await,
    ))
}

fn status(request: &Request<Incoming>) -> StatusCode {
    if request.headers().contains_key(ORIGIN) {
        return StatusCode::FORBIDDEN;
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/readyz") => StatusCode::OK,
        (&Method::GET, "/") if asks_for_websocket(request.headers()) => {
            StatusCode::SWITCHING_PROTOCOLS
        }
        (_, "/") => StatusCode::UPGRADE_REQUIRED,
        _ => StatusCode::NOT_FOUND,
    }
}

fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let has = |name, wanted: &str| {
        let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    let version = has(SEC_WEBSOCKET_VERSION, "13");
    has(CONNECTION, "upgrade")
        && has(UPGRADE, "websocket")
        && version
        && headers.contains_key(SEC_WEBSOCKET_KEY)
}

fn response(status: StatusCode, asked: &HeaderMap) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status);
    let response = match (status, asked.get(SEC_WEBSOCKET_KEY)) {
        (StatusCode::SWITCHING_PROTOCOLS, Some(key)) => response
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes())),
        (StatusCode::UPGRADE_REQUIRED, _) => response
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13"),
        _ => response,
    };
    response.body(Full::default()).expect("the parts of a response are well-formed")
}
