//! JSON-RPC over WebSocket or lines: the common part of the protocols that use it.
//!
//! - [`Message`]: a request, a response, an error, or a notification. Its content stays unparsed
//!   until the receiver knows its type ([`Message::parse`], [`read`]).
//! - `Link` (feature `websocket`): one WebSocket, for both ends: with bounded queues and a keepalive
//!   (`WireLimits`). `accept_websocket`: the entry of a server: HTTP, until a connection becomes a
//!   WebSocket.
//! - `Lines` (feature `lines`): a byte stream with one message a line, for both ends: with bounded
//!   queues (`LineLimits`).
//!
//! It does not match answers to requests. A request also belongs to its connection, and each
//! protocol has its own rule for requests whose connection was lost.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

#[cfg(feature = "websocket")]
mod http;
#[cfg(feature = "websocket")]
mod limits;
#[cfg(feature = "lines")]
mod lines;
#[cfg(feature = "websocket")]
mod link;
mod message;
mod strict;

#[cfg(feature = "websocket")]
pub use http::{HttpOutcome, accept_websocket};
#[cfg(feature = "websocket")]
pub use limits::WireLimits;
#[cfg(feature = "lines")]
pub use lines::{LineError, LineEvent, LineLimits, Lines};
#[cfg(feature = "websocket")]
pub use link::{Link, LinkError, LinkEvent, NoWebSocket};
pub use message::{
    ErrorBody, Malformed, Message, RequestId, notification_text, read, response_text,
    unreadable_text,
};

/// The example of the README, compiled with the examples of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
