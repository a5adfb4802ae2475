//! Clients for standard server-sent events, written by other people, against reknit's sse server.
//! `tests/loopback.rs` runs `eventsource-client` and `reqwest-eventsource` over real sockets,
//! `tests/suite.rs` the former in a world.
//!
//! - [`subject`]: the world with our server, its processes, and users of the client. `user`: one user.
//! - [`transport`]: the HTTP of `eventsource-client`, over the connections of the seams.
//! - [`record`]: an event as these clients see it.
#![deny(missing_docs, unsafe_code)]

pub mod record;
pub mod subject;
pub mod transport;
mod user;
