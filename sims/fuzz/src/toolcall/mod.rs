//! The Agent Host Protocol.
//!
//! - [`host`]: a real host, a hostile client, and an innocent one. [`client`]: a real client, its user, and a hostile host.
//! - `action`: what is done to channels, or said to have been.

mod action;
pub mod client;
pub mod host;
