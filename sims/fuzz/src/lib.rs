//! Peers that say anything: what a fuzzer drives the two ends of the exec protocol with, as they are deployed, without the
//! simulator.
//!
//! A script is drawn out of any bytes. [`server`] has a real server, and a hostile client that carries the script out; [`client`]
//! has a real client, its user, and a hostile server. Connections are in memory, processes are scripted, time is paused. What
//! must hold stands at the top of each.
//!
//! - [`script`]: what both kinds of peers can say: noise, bent messages, pieces of frames.
//! - `frames`: WebSocket frames, right and wrong. `stage`: network, processes, randomness; and how a script is run.
//!
//! What it does not do: explore interleavings of threads, or faults of a network. The worlds of the simulator are there for that.
#![deny(missing_docs, unsafe_code)]

pub mod client;
mod frames;
mod machine;
pub mod script;
pub mod server;
mod stage;
