//! reknit's exec server beside the real one: codex exec-server, version [`VERSION`](install::VERSION).
//!
//! - [`install`]: the program `codex`, from npm.
//! - [`servers`]: either server as a process, or ours in this process.
//! - [`raw`]: a client that sends frames as they are.
//! - [`agent`]: the client of codex: `codex exec`. [`model`]: the scripted model that it asks.
//!
//! The tests `turn` run our turn client and broker with the real app-server, `codex app-server`.
//!
//! Everything runs over the loopback interface. Without codex the tests pass, and print why they
//! compared nothing.
#![deny(missing_docs, unsafe_code)]

pub mod agent;
pub mod install;
pub mod model;
pub mod raw;
pub mod servers;
