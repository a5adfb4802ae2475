//! Tests what both sides of a connection see of each fault, and the guarantees of the engine, with
//! plain roots instead of a protocol.

mod bare;
mod children;
mod engine;
mod engines;
mod faults;
mod hosts;
mod lossy;
mod mended;
mod outside;
mod processes;
mod quiet;
mod resources;
mod several;
mod stale;
mod tampering;

pub(super) use bare::*;
