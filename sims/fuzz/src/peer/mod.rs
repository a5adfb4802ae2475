//! Hostile ends of connections, whatever protocol the other end speaks.
//!
//! - [`caller`]: one that opens its connection, a client. [`callee`]: one that takes it, a server; [`place`]: all that one client comes to.

pub mod callee;
pub mod caller;
pub mod place;
