//! The protocols that reknit ships: wire types, a client and a server each, as a person could deploy them.
//!
//! Nothing here knows the simulator. A protocol takes connections, randomness and the world behind its server from outside
//! ([`Env`](crate::Env), and small traits of its own), says where it is with [milestones](crate::milestone), and runs as well
//! over real sockets as in a world.
//!
//! - [`counter`]: a stream of numbers that is resumed from the last one seen. The harness's own test subject.
//! - [`exec`]: commands run on another machine, after the codex exec-server.
//! - `toolcall`: an agent host and its clients, which run tools for it, after the Agent Host Protocol. Behind a feature of its own.
//! - [`rpc`]: what those share that speak JSON-RPC over WebSocket.

mod counted;
pub mod counter;
#[cfg(feature = "exec")]
pub mod exec;
#[cfg(test)]
mod memory;
#[cfg(feature = "json-rpc")]
pub mod rpc;
#[cfg(feature = "toolcall")]
pub mod toolcall;
