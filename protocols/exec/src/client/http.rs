//! HTTP requests that the server sends from its machine.
//!
//! A request belongs to the connection that carried it. The client does not resend any part of it,
//! and its answer does not survive a lost connection. A request made during a recovery waits for
//! the next connection; the preceding loss does not affect it.

use std::time::Duration;

use bytes::Bytes;
use reknit_resume::EVER;
use reknit_seams::defect;

use super::body::{Body, BodyWindow, body, request_id};
use super::command::RetryPolicy;
use super::{Client, Failure};
use crate::wire::http::{Header, HttpParams, HttpResult, RedirectPolicy, RequestHeader};
use crate::wire::method;

/// An HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// The URL, as the server resolves it: `http://host:port/path`.
    pub url: String,
    /// The headers, in order.
    pub headers: Vec<RequestHeader>,
    /// The body of the request, if any.
    pub body: Option<Bytes>,
    /// How the server handles a redirect.
    pub redirect_policy: RedirectPolicy,
    /// How long the server may take to receive the answer, including all redirects and a streamed
    /// body. Without it, the usual call timeout applies to the answer, and a streamed body has no timeout.
    pub timeout: Option<Duration>,
}

impl HttpRequest {
    /// Creates a `GET` request without headers, body or timeout, which follows redirects.
    pub fn get(url: impl Into<String>) -> Self {
        Self {
            method: "GET".into(),
            url: url.into(),
            headers: Vec::new(),
            body: None,
            redirect_policy: RedirectPolicy::Follow,
            timeout: None,
        }
    }

    fn params(self, number: u64, stream_response: bool) -> HttpParams {
        HttpParams {
            method: self.method,
            url: self.url,
            headers: self.headers,
            body_base64: self.body.map(Into::into),
            timeout_ms: self
                .timeout
                .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            redirect_policy: if defect!(RedirectPolicyLost) {
                RedirectPolicy::Follow
            } else {
                self.redirect_policy
            },
            request_id: request_id(number),
            stream_response,
        }
    }
}

/// An answer with its complete body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code, such as 200.
    pub status: u16,
    /// Names and values of the headers, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// An answer whose body follows in pieces.
pub struct Streaming {
    /// The status code, such as 200.
    pub status: u16,
    /// Names and values of the headers, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
}

impl Client {
    /// Makes the server send a request, and waits for the whole answer. An answer with an error
    /// status is returned like any other answer.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`] if the connection died before the answer arrived: the server may
    /// have sent the request. [`Failure::Refused`] if the server received no answer, or an answer
    /// that is too long. And the errors of every call.
    pub async fn http(&self, request: HttpRequest) -> Result<Response, Failure> {
        let wait = request.timeout.filter(|_| !defect!(HttpWaitsAsACall)).unwrap_or_default();
        let kind = if defect!(HttpReplayed) { RetryPolicy::Read } else { RetryPolicy::Other };
        let params = request.params(self.line.http_number(), false);
        let result: HttpResult =
            self.line.call(kind, method::HTTP_REQUEST, &params, None, wait).await?;
        Ok(Response {
            status: if defect!(StatusAlwaysGood) { 200 } else { result.status },
            headers: pairs(result.headers),
            body: result.body_base64.0,
        })
    }

    /// Makes the server send a request, and returns its answer with a body that arrives piece by
    /// piece.
    ///
    /// # Errors
    /// The errors of [`http`](Client::http). [`Body::next`] returns errors that happen after the
    /// answer.
    pub async fn http_stream(&self, request: HttpRequest) -> Result<Streaming, Failure> {
        let wait = request.timeout.filter(|_| !defect!(StreamWaitsAsACall)).unwrap_or_default();
        let wait = if defect!(StreamWaitsForEver) { EVER } else { wait };
        let number = self.line.http_number();
        let room =
            BodyWindow { pieces: self.line.limits.body_frames, bytes: self.line.limits.body_bytes };
        // Dropping this future drops the body too, and so discards the pieces that have arrived.
        let (feed, body) = body(number, room, self.line.commands.clone());
        let params = request.params(number, true);
        let result: HttpResult = self
            .line
            .call(RetryPolicy::Body(feed), method::HTTP_REQUEST, &params, None, wait)
            .await?;
        let mut headers = pairs(result.headers);
        if defect!(StreamedHeadersLost) {
            headers.clear();
        }
        Ok(Streaming { status: result.status, headers, body })
    }
}

fn pairs(headers: Vec<Header>) -> Vec<(String, String)> {
    headers.into_iter().map(|Header { name, value }| (name, value)).collect()
}
