//! The exec-server protocol: a client runs commands on another machine, and neither they nor their output are lost when the
//! connection is.
//!
//! JSON-RPC over WebSocket, wire-compatible with the codex exec-server of June 2026: the session family, `process/*` and
//! `http/request`. The families `fs/*` and `environment/*` are answered as unknown methods; relays and their encryption are
//! left out.
//!
//! - [`wire`]: what the two ends say to each other.
//! - [`limits`]: every size and deadline.
//! - [`server`]: keeps sessions and processes.
//! - [`client`]: one logical client over connections that come and go.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

pub mod client;
pub mod limits;
pub mod server;
pub mod wire;

pub use server::{Server, ServerResources};

/// The example of the README, compiled with those of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
