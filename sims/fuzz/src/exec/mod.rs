//! The exec protocol.
//!
//! - [`server`]: a real server, a hostile client, and a well-behaved one. [`client`]: a real client,
//!   its user, and a hostile server.
//! - `machine`: the processes of the server. `files`: the requests of a hostile client for files.

pub mod client;
mod files;
mod machine;
pub mod server;
