//! Command output over HTTP that survives its connection, without a gap.
//!
//! The protocol is that of OpenSandbox execd. The original loses events in several windows; this
//! crate closes them, and stays compatible on the wire.
//!
//! - [`wire`]: the events, requests and answers, in both framings.
//! - [`limits`]: every size and deadline.
//! - [`server`]: runs commands, and keeps their output.
//! - [`client`]: runs and follows commands: one logical stream over many connections.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

pub mod client;
pub mod limits;
pub mod server;
pub mod wire;

/// Compiles the example of the README together with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
