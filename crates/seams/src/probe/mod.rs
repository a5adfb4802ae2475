//! The parts of product code that a simulator observes and controls: milestones, points, defects.
//!
//! - [`milestone!`](crate::milestone): a `tracing` event with a stable name. An operator reads it
//!   in the log; a schedule can bind faults to it.
//! - [`point!`](crate::point): a place where a multi-threaded runtime could pre-empt the task. Does
//!   nothing in production.
//! - [`defect!`](crate::defect): whether a named, historical bug is switched on. A constant `false`
//!   in production.
//!
//! The last two ask the prober that is [attached](attach) to this thread (a world attaches one).
//! Product code on a thread without a world behaves as in production, even in a build with the
//! simulator.

/// The `tracing` target of all milestones, so that a subscriber can filter for them.
pub const MILESTONE: &str = "milestone";

/// Reports that the product reached a notable place: an info-level `tracing` event with a stable
/// name and fields. The name is dotted and starts with the subject (`counter.client.connected`).
///
/// The field `conn` is the [`ConnId`](crate::net::ConnId) of the connection concerned, and
/// `generation` is the product's own count of its connections. Schedules identify connections by
/// both.
///
/// ```
/// # let generation = 2_u64;
/// reknit_seams::milestone!("counter.client.connected", generation, conn = 7_u64);
/// ```
#[macro_export]
macro_rules! milestone {
    ($name:literal $(, $($fields:tt)+)?) => {
        $crate::probe::tracing::info!(name: $name, target: "milestone", $($($fields)+,)? $name)
    };
}

/// Marks a place where a multi-threaded runtime could pre-empt this task between two steps; must be
/// awaited.
///
/// A point is at the boundary of a lock (before it is taken, or after it is released), never inside
/// one. The code around it must not be cancelled midway, or must already allow cancellation there.
///
/// ```
/// # async fn detach() {
/// reknit_seams::point!("counter.server.detach.unlocked").await;
/// # }
/// ```
#[macro_export]
macro_rules! point {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        $crate::probe::point($name, &[$((stringify!($field), ($value) as u64)),*])
    };
}

/// Whether the named historical bug is switched on, in builds that have the simulator; `false` otherwise.
///
/// ```
/// if reknit_seams::defect!(ForgetsTheCursor) {
///     // what the bug did
/// }
/// ```
#[macro_export]
macro_rules! defect {
    ($name:ident) => {
        $crate::probe::defect(stringify!($name))
    };
}

#[doc(hidden)]
pub use tracing;

#[cfg(not(feature = "sim"))]
mod production {
    /// Does nothing: a production build has no points.
    #[inline(always)]
    pub fn point(_: &'static str, _: &[(&'static str, u64)]) -> std::future::Ready<()> {
        std::future::ready(())
    }

    /// Returns `false`: a production build has no defects.
    #[inline(always)]
    pub const fn defect(_: &'static str) -> bool {
        false
    }
}

#[cfg(not(feature = "sim"))]
pub use production::{defect, point};

#[cfg(feature = "sim")]
mod simulated;

#[cfg(feature = "sim")]
pub use simulated::{Attached, Hold, Point, Prober, attach, defect, point};
