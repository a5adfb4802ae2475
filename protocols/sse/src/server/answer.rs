//! Answers: their bodies and headers.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
};
use hyper::{Response, StatusCode};

use crate::wire::{Framing, Refusal};

/// The body of any answer.
pub(super) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Why a body does not end properly. The client receives an incomplete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error("another stream has taken over")]
    Replaced,
}

impl From<Infallible> for BodyError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

const JSON: &str = "application/json; charset=utf-8";

/// Returns a success with a JSON body.
pub(super) fn json(text: String) -> Response<Body> {
    with_type(StatusCode::OK, JSON, Bytes::from(text))
}

/// Returns a success with a text.
pub(super) fn plain(text: Vec<u8>) -> Response<Body> {
    with_type(StatusCode::OK, "text/plain; charset=utf-8", Bytes::from(text))
}

/// Returns a success without a body.
pub(super) fn empty() -> Response<Body> {
    Response::new(Empty::new().map_err(BodyError::from).boxed_unsync())
}

/// Returns a stream. Its connection is not used for another request, so that the server can close the
/// connection to end the stream.
pub(super) fn stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    for (name, value) in [
        (CONTENT_TYPE, Framing::MEDIA_TYPE),
        (CACHE_CONTROL, "no-cache"),
        (CONNECTION, "close"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns the answer to a standard client that has the ending. After any other answer the
/// client reconnects forever.
pub(super) fn nothing_follows() -> Response<Body> {
    let mut response = empty();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Returns the body of a stream that is complete.
pub(super) fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(BodyError::from).boxed_unsync()
}

/// Returns the answer of a refusal.
pub(super) fn refused(refusal: &Refusal) -> Response<Body> {
    let status = StatusCode::from_u16(refusal.status()).expect("the table has valid codes");
    let mut response = with_type(status, JSON, Bytes::from(refusal.to_json()));
    if let Some(retry) = refusal.retry_after() {
        let seconds = retry.max(Duration::from_secs(1)).as_millis().div_ceil(1000) as u64;
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn with_type(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_with_a_time_tells_it_in_whole_seconds_too() {
        for (retry, seconds) in [(0, "1"), (1000, "1"), (1001, "2"), (9500, "10")] {
            let id = "a".parse().unwrap();
            let refusal = Refusal::Active { id, retry: Duration::from_millis(retry) };
            assert_eq!(refused(&refusal).headers()[RETRY_AFTER], seconds, "{retry} ms");
        }
    }
}
