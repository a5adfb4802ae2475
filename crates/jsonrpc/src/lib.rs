//! JSON-RPC over WebSocket: what the protocols that speak it share.
//!
//! - [`Message`]: a request, a response, an error, or a notification; what it carries stays unread until somebody knows what to
//!   expect ([`Message::parse`], [`read`]).
//! - [`Link`]: one WebSocket, as both ends use it: bounded, and with a beat ([`WireLimits`]).
//! - [`enter`]: the door of a server: HTTP, until a connection is a WebSocket.
//!
//! What it does not do: match answers to requests. A request is known by its connection, too, and each protocol has its own
//! idea of what becomes of it when that is lost.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

mod door;
mod limits;
mod link;
mod message;

pub use door::{Entered, enter};
pub use limits::WireLimits;
pub use link::{Heard, Link, LinkError, NoWebSocket};
pub use message::{
    ErrorBody, Malformed, Message, RequestId, notification_text, read, response_text,
};

/// The example of the README, compiled with those of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
