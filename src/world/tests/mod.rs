//! What both sides of a connection see of each fault, and what the engine promises; with bare roots in the place of a protocol.

mod bare;
mod engine;
mod engines;
mod faults;
mod hosts;
mod mended;
mod processes;
mod quiet;
mod resources;

pub(super) use bare::*;
