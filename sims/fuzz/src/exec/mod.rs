//! The exec protocol.
//!
//! - [`server`]: a real server, a hostile client, and a well-behaved one. [`client`]: a real client,
//!   its user, and a hostile server.
//! - `machine`: the processes of the server.

pub mod client;
mod machine;
pub mod server;
