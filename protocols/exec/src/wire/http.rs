//! The HTTP family: a request that the server sends from where it is, and the body of its response in pieces.

use serde::{Deserialize, Serialize};

use super::Base64;

/// The parameters of `http/request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpParams {
    /// `GET`, `POST`, …
    pub method: String,
    /// Where to: `http://host:port/path`.
    pub url: String,
    /// The headers, in order.
    #[serde(default)]
    pub headers: Vec<Header>,
    /// The body of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<Base64>,
    /// How long the response may take; for ever where nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What the pieces of the body are known by; one request of a connection at a time may have it.
    pub request_id: String,
    /// Whether the body comes in pieces after the result, or whole in the result.
    #[serde(default)]
    pub stream_response: bool,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The result of `http/request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpResult {
    /// The status: 200.
    pub status: u16,
    /// The headers, in order.
    pub headers: Vec<Header>,
    /// The body; empty where it comes in pieces.
    #[serde(default)]
    pub body_base64: Base64,
}

/// What a server says of a request whose deadline has passed.
pub const TOO_LATE: &str = "it took too long";

/// What `http/request/bodyDelta` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyDelta {
    /// Whose body.
    pub request_id: String,
    /// The number of the piece, from 1.
    pub seq: u64,
    /// The bytes. The last piece may carry some, too.
    #[serde(default)]
    pub delta_base64: Base64,
    /// Whether it is the last one.
    #[serde(default)]
    pub done: bool,
    /// Why the body ends before its end, in the last piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
