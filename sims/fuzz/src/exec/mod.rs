//! The exec protocol.
//!
//! - [`server`]: a real server, a hostile client, and a well-behaved one. [`file_server`]: the same,
//!   only with requests for files. [`client`]: a real client, its user, and a hostile server.
//! - `files`: the requests of a hostile client for files.

pub mod client;
pub mod file_server;
mod files;
pub mod server;
