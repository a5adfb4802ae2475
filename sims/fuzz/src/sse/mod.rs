//! The sse protocol.
//!
//! - [`server`]: a real server, hostile clients, and a well-behaved one. [`client`]: a real client, its
//!   user, and a hostile server.
//! - `ask`: the requests of hostile clients. `peer`: one connection of a hostile client. `answers`: what
//!   the server may say. `door`: the network of the tested client. `host`: the hostile server. `event`:
//!   its events. `user`: the user of the client.

mod answers;
mod ask;
pub mod client;
mod door;
mod event;
mod host;
mod peer;
pub mod server;
mod user;
