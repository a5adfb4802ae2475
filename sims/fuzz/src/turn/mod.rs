//! The protocol of turns.
//!
//! - [`broker`]: the core of a broker, hostile clients, an app-server that may be hostile, and a
//!   well-behaved client. [`wire`]: lines of a hostile peer, for the parsers and for both ends of real
//!   connections.
//! - `message`: what clients and app-servers say. `model`: an app-server that works correctly. `user`: the
//!   well-behaved client of the core. `peer`: one end of a hostile connection.

pub mod broker;
mod message;
mod model;
mod peer;
mod user;
pub mod wire;
