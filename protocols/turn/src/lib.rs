//! Turns of the codex app-server. A client starts a turn, follows its notifications, and reports
//! exactly one verdict. The client starts its own app-server, or shares one with other clients
//! through a broker.
//!
//! The protocol is JSON-RPC without a version, one message a line, over the standard streams of the
//! app-server, a unix socket or TCP.
//!
//! - [`wire`]: the methods, notifications and types of the app-server. [`limits`]: every size and
//!   deadline.
//! - [`upstream`]: the client end of a connection to an app-server, or to a broker. [`broker`]: one
//!   app-server for several clients.
//! - [`client`]: runs a command to its report. [`command`]: the commands of a user, as requests.
//!   [`capture`]: one turn, from the start request to its verdict.
//! - [`jobs`]: the records of jobs, for the processes of a workspace. [`runner`]: commands as jobs, also
//!   in the background.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

pub mod broker;
pub mod capture;
pub mod client;
pub mod command;
pub mod jobs;
pub mod limits;
pub mod runner;
pub mod upstream;
pub mod wire;

#[cfg(test)]
mod testing;

/// The example of the README, compiled with the examples of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
