//! What both sides of a connection see of each fault, and what the engine promises; with bare roots in the place of a protocol.

mod bare;
mod census;
mod engine;
mod engines;
mod faults;
mod hosts;
mod mended;
mod processes;
mod quiet;

pub(super) use bare::*;
