//! The HTTP family: a request that the server sends from its machine, and the body of its response
//! in pieces. The fields and their defaults are those of codex 0.169.0.

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
    pub headers: Vec<RequestHeader>,
    /// The body of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<Base64>,
    /// How long the response may take, in milliseconds; without it, there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How the server handles a redirect.
    #[serde(default)]
    pub redirect_policy: RedirectPolicy,
    /// Identifies the pieces of the body. It must be unique among the open requests of the
    /// connection.
    pub request_id: String,
    /// Whether the body follows the result in pieces; otherwise the result contains it.
    #[serde(default)]
    pub stream_response: bool,
}

/// How the server handles the answers 301, 302, 303, 307 and 308.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedirectPolicy {
    /// The server sends the request to the target, through at most 10 redirects.
    #[default]
    Follow,
    /// The server returns the redirect as the answer.
    Stop,
}

/// A header of a request. Its value may end with a secret that only the server knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHeader {
    /// The name.
    pub name: String,
    /// The value, or its beginning.
    pub value: String,
    /// The environment variable of the server whose value follows `value`. The server refuses the
    /// request if the variable is missing or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_env_var: Option<String>,
}

impl RequestHeader {
    /// Creates a header with this value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), value_env_var: None }
    }

    /// Appends the value of an environment variable of the server.
    #[must_use]
    pub fn then_variable(self, variable: impl Into<String>) -> Self {
        Self { value_env_var: Some(variable.into()), ..self }
    }
}

/// A header of an answer.
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
    /// Why the body is incomplete; only in the last piece. Otherwise it is null on the wire.
    #[serde(default)]
    pub error: Option<String>,
}
