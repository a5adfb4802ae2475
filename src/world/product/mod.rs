//! The parts of a world that product code uses: sockets, processes, files, clocks, points and milestones. Each reaches
//! its world through [`local`](super::local).

pub(super) mod machine;
pub(super) mod outside;
pub(super) mod prober;
pub(super) mod stream;
mod tampering;
pub(super) mod tracing_layer;
