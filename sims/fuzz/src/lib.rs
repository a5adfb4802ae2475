//! Peers that send arbitrary data. A fuzzer uses them to drive the ends of the protocols, as deployed,
//! without the simulator.
//!
//! A script is generated from arbitrary bytes and run against a real end. Connections are in
//! memory, the resources behind a server are scripted, and time is paused. Each module lists its
//! invariants at the top.
//!
//! - [`exec`]: a server with a hostile client and a well-behaved one, and a client with a hostile
//!   server.
//! - [`toolcall`]: the same for an agent host and its client.
//! - [`turn`]: a broker of turns with hostile clients and a hostile app-server, and its connections.
//! - [`sse`]: a server of commands with hostile clients and a well-behaved one, and a client with a
//!   hostile server.
//! - [`script`]: the data of all kinds of peers: noise, malformed messages, pieces of frames.
//!   `peer`: their ends of connections.
//! - `frames`: valid and invalid WebSocket frames. `machine`: the processes of a server. `stage`:
//!   network, randomness; and running a script.
//!
//! It does not explore interleavings of threads, or faults of a network. The worlds of the
//! simulator do.
#![deny(missing_docs, unsafe_code)]

pub mod exec;
mod frames;
mod machine;
mod peer;
pub mod script;
pub mod sse;
mod stage;
pub mod toolcall;
pub mod turn;
