//! Hostile ends of connections, whatever protocol the other end speaks.
//!
//! - [`caller`]: one that opens its connection, a client. [`callee`]: one that takes it, a server.

pub mod callee;
pub mod caller;
