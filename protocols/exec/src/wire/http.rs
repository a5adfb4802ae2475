//! The HTTP family: a request that the server sends from its machine, and the body of its response
//! in pieces.

use serde::{Deserialize, Serialize};

use super::Base64;

/// The parameters of `http/request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpParams {
    /// `GET`, `POST`, …
    pub method: String,
    /// The URL: `http://host:port/path`.
    pub url: String,
    /// The headers, in order.
    #[serde(default)]
    pub headers: Vec<Header>,
    /// The body of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<Base64>,
    /// How long the response may take, in milliseconds; without it, there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Identifies the pieces of the body. It must be unique among the open requests of the
    /// connection.
    pub request_id: String,
    /// Whether the body follows the result in pieces; otherwise the result contains it.
    #[serde(default)]
    pub stream_response: bool,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// The result of `http/request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpResult {
    /// The status code, such as 200.
    pub status: u16,
    /// The headers, in order.
    pub headers: Vec<Header>,
    /// The body; empty if it follows in pieces.
    #[serde(default)]
    pub body_base64: Base64,
}

/// The server's message for a request whose deadline has passed.
pub const TOO_LATE: &str = "it took too long";

/// The parameters of `http/request/bodyDelta`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyDelta {
    /// The request that the body belongs to.
    pub request_id: String,
    /// The number of the piece, from 1.
    pub seq: u64,
    /// The bytes. The last piece may carry bytes too.
    #[serde(default)]
    pub delta_base64: Base64,
    /// Whether this is the last piece.
    #[serde(default)]
    pub done: bool,
    /// Why the body is incomplete; only in the last piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
