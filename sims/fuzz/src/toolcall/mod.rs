//! The Agent Host Protocol.
//!
//! - [`host`]: a real host, a hostile client, and a well-behaved one. [`client`]: a real client, its
//!   user, and a hostile host.
//! - `action`: actions that a client dispatches, or that a host reports.

mod action;
pub mod client;
pub mod host;
