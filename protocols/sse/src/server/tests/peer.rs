//! A client for tests: one connection, and what it receives.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use reknit_seams::net::memory::Memory;
use reknit_seams::net::{Connect, Endpoint};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::wire::{Decoder, Event, OutputStream, Record};

/// One connection.
pub(super) struct Peer {
    sender: SendRequest<Full<Bytes>>,
    connection: AbortHandle,
}

/// The answer to a request.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Incoming,
    decoder: Decoder,
    connection: AbortHandle,
}

/// How a test sees the end of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The body is complete.
    Clean,
    /// The body is incomplete.
    Broken,
    /// Nothing arrives for a while.
    Open,
}

/// How long a test waits for something that does not arrive.
const WHILE: Duration = Duration::from_millis(100);

impl Peer {
    pub(super) async fn connect(net: &Memory) -> Self {
        let stream = net.connect(&Endpoint::tcp("server", 80)).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async { drop(connection.await) }).abort_handle();
        Self { sender, connection }
    }

    /// Sends a request, `METHOD URI`, and waits for the head of its answer.
    pub(super) async fn send(
        &mut self,
        request: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.try_send(request, headers, body).await.unwrap()
    }

    pub(super) async fn try_send(
        &mut self,
        request: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> hyper::Result<Answer> {
        let (method, uri) = request.split_once(' ').unwrap();
        let mut builder = Request::builder().method(method).uri(uri).header("host", "server");
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let request = builder.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let (parts, body) = self.sender.send_request(request).await?.into_parts();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
            decoder: Decoder::new(1 << 20),
            connection: self.connection.clone(),
        })
    }
}

impl Answer {
    /// Reads the whole body as a text.
    pub(super) async fn text(self) -> String {
        let body = self.body.collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    /// Returns the value of a header.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the code of a refusal.
    pub(super) async fn code(self) -> (u16, String) {
        let status = self.status.as_u16();
        let body: serde_json::Value = serde_json::from_str(&self.text().await).unwrap();
        (status, body["code"].as_str().unwrap_or_default().to_owned())
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        self.connection.abort();
    }

    /// Waits for the next event.
    pub(super) async fn next(&mut self) -> Result<Record, End> {
        loop {
            if let Some(decoded) = self.decoder.next() {
                return Ok(decoded.record);
            }
            match self.body.frame().await {
                None => return Err(End::Clean),
                Some(Err(_)) => return Err(End::Broken),
                Some(Ok(frame)) => self.decoder.feed(&frame.into_data().unwrap()).unwrap(),
            }
        }
    }

    /// Reads all events until nothing arrives for a moment. Signs of life are left out, and so is the
    /// start.
    pub(super) async fn read(&mut self) -> (Vec<String>, End) {
        let mut seen = Vec::new();
        loop {
            let end = match timeout(WHILE, self.next()).await {
                Err(_) => End::Open,
                Ok(Err(end)) => end,
                Ok(Ok(record)) => {
                    seen.extend(shown(&record));
                    continue;
                }
            };
            return (seen, end);
        }
    }
}

/// Renders an event: `1 a`, `2! b` for the standard error, `gap 1..=2`, `3 Exited(0)`.
fn shown(record: &Record) -> Option<String> {
    let at = record.position.unwrap_or(0);
    Some(match &record.event {
        Event::Init { .. } | Event::Ping => return None,
        Event::Output(stream, bytes) => {
            let mark = if *stream == OutputStream::Stderr { "!" } else { "" };
            format!("{at}{mark} {}", String::from_utf8_lossy(bytes).trim_end())
        }
        Event::Ended { ending, .. } => format!("{at} {ending:?}"),
        Event::Gap(gap) => format!("gap {}..={}", gap.first, gap.last),
        other => format!("{other:?}"),
    })
}
