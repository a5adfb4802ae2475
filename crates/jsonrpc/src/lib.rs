//! JSON-RPC over WebSocket: the common part of the protocols that use it.
//!
//! - [`Message`]: a request, a response, an error, or a notification. Its content stays unparsed
//!   until the receiver knows its type ([`Message::parse`], [`read`]).
//! - [`Link`]: one WebSocket, for both ends: with bounded queues and a keepalive ([`WireLimits`]).
//! - [`accept_websocket`]: the entry of a server: HTTP, until a connection becomes a WebSocket.
//!
//! It does not match answers to requests. A request also belongs to its connection, and each
//! protocol has its own rule for requests whose connection was lost.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

mod http;
mod limits;
mod link;
mod message;
mod strict;

pub use http::{HttpOutcome, accept_websocket};
pub use limits::WireLimits;
pub use link::{Link, LinkError, LinkEvent, NoWebSocket};
pub use message::{
    ErrorBody, Malformed, Message, RequestId, notification_text, read, response_text,
};

/// The example of the README, compiled with the examples of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
