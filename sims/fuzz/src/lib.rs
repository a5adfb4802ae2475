//! Peers that say anything: what a fuzzer drives the ends of both JSON-RPC protocols with, as they are deployed, without the
//! simulator.
//!
//! A script is drawn out of any bytes, and carried out against a real end. Connections are in memory, what stands behind a server is
//! scripted, time is paused. What must hold stands at the top of each.
//!
//! - [`exec`]: a server with a hostile client and an innocent one, and a client with a hostile server.
//! - [`toolcall`]: the same for an agent host, and its client.
//! - [`script`]: what all kinds of peers can say: noise, bent messages, pieces of frames. `peer`: their ends of connections.
//! - `frames`: WebSocket frames, right and wrong. `stage`: network, processes, randomness; and how a script is run.
//!
//! What it does not do: explore interleavings of threads, or faults of a network. The worlds of the simulator are there for that.
#![deny(missing_docs, unsafe_code)]

pub mod exec;
mod frames;
mod peer;
pub mod script;
mod stage;
pub mod toolcall;
