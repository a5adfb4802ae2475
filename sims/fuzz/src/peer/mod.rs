//! Hostile ends of connections, for any protocol of the other end.
//!
//! - [`caller`]: a client, which opens its connection. [`callee`]: a server, which accepts one.
//!   [`server`]: the server that one client connects to, again and again.

pub mod callee;
pub mod caller;
pub mod server;
