//! HTTP requests that the server sends from where it is.
//!
//! A request belongs to the connection that it went out over: nothing of it is sent again, and nothing of its answer survives a
//! lost connection. One that is asked for during a recovery waits for the next connection, and has nothing to do with the loss
//! before it.

use std::time::Duration;

use bytes::Bytes;
use reknit_seams::defect;

use super::body::{Body, BodyWindow, body, request_id};
use super::command::RetryPolicy;
use super::{Client, Failure};
use crate::wire::http::{Header, HttpParams, HttpResult};
use crate::wire::method;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// Where to, as the server sees it: `http://host:port/path`.
    pub url: String,
    /// Names and values of the headers, in order.
    pub headers: Vec<(String, String)>,
    /// What is sent, if anything.
    pub body: Option<Bytes>,
    /// How long the server may take to get the answer, a streamed body included; without it, the time of any call holds for what
    /// is not streamed, and nothing holds for the body.
    pub timeout: Option<Duration>,
}

impl HttpRequest {
    /// `GET`, and no more than that.
    pub fn get(url: impl Into<String>) -> Self {
        Self {
            method: "GET".into(),
            url: url.into(),
            headers: Vec::new(),
            body: None,
            timeout: None,
        }
    }

    fn params(self, number: u64, stream_response: bool) -> HttpParams {
        HttpParams {
            method: self.method,
            url: self.url,
            headers: self.headers.into_iter().map(|(name, value)| Header { name, value }).collect(),
            body_base64: self.body.map(Into::into),
            timeout_ms: self
                .timeout
                .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            request_id: request_id(number),
            stream_response,
        }
    }
}

/// An answer with all of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status: 200.
    pub status: u16,
    /// Names and values of the headers, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// An answer whose body is still to come.
pub struct Streaming {
    /// The status: 200.
    pub status: u16,
    /// Names and values of the headers, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
}

impl Client {
    /// Has the server send a request, and waits for the whole answer. A status that is no success is an answer like any other.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`] where the connection died before the answer came: the request may have been sent.
    /// [`Failure::Refused`] where the server got no answer, or one that is too long. And those of every call.
    pub async fn http(&self, request: HttpRequest) -> Result<Response, Failure> {
        let wait = request.timeout.unwrap_or_default();
        let kind = if defect!(HttpReplayed) { RetryPolicy::Read } else { RetryPolicy::Other };
        let params = request.params(self.line.http_number(), false);
        let result: HttpResult =
            self.line.call(kind, method::HTTP_REQUEST, &params, None, wait).await?;
        Ok(Response {
            status: result.status,
            headers: pairs(result.headers),
            body: result.body_base64.0,
        })
    }

    /// The same, with a body that comes piece by piece behind the answer.
    ///
    /// # Errors
    /// As [`http`](Client::http); what goes wrong after the answer, [`Body::next`] says.
    pub async fn http_stream(&self, request: HttpRequest) -> Result<Streaming, Failure> {
        let (wait, number) = (request.timeout.unwrap_or_default(), self.line.http_number());
        let room =
            BodyWindow { pieces: self.line.limits.body_frames, bytes: self.line.limits.body_bytes };
        // Dropping this future drops the body, too, and with it what has come of it.
        let (feed, body) = body(number, room, self.line.commands.clone());
        let params = request.params(number, true);
        let result: HttpResult = self
            .line
            .call(RetryPolicy::Body(feed), method::HTTP_REQUEST, &params, None, wait)
            .await?;
        Ok(Streaming { status: result.status, headers: pairs(result.headers), body })
    }
}

fn pairs(headers: Vec<Header>) -> Vec<(String, String)> {
    headers.into_iter().map(|Header { name, value }| (name, value)).collect()
}
