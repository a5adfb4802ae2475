//! The exec-server protocol: a client runs commands on another machine, and a lost connection loses
//! neither the commands nor their output.
//!
//! The protocol is JSON-RPC over WebSocket. Client and server follow the wire of the codex
//! exec-server of June 2026, and that of version 0.169.0 in the session family, `process/*`, `fs/*`,
//! `environment/info` and `environment/status`. The server confines a command to the sandbox
//! that the client wants (on Linux), or refuses to start it. It confines requests for files in the
//! same way. It answers the other later methods as unknown.
//! Relays and their encryption are not implemented. The crate extends the protocol by flow control
//! ([`wire::flow`]), which is used only between a client and a server that both announce it.
//!
//! - [`wire`]: the messages between client and server.
//! - [`limits`]: every size and deadline.
//! - [`server`]: keeps sessions and processes.
//! - [`client`]: one logical client over successive connections.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

pub mod client;
pub mod limits;
pub mod server;
pub mod wire;

pub use server::{Server, ServerResources};

/// Compiles the example of the README together with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
