//! What product code lets a simulator see and do: milestones, points, defects.
//!
//! - [`milestone!`](crate::milestone): a `tracing` event with a stable name. An operator reads it in the log; a schedule hangs faults on it.
//! - [`point!`](crate::point): a place where a multi-threaded runtime could pre-empt the task. Nothing in production.
//! - [`defect!`](crate::defect): whether a named, historical bug is switched on. A constant `false` in production.
//!
//! The last two ask whoever [attached](attach) itself to this thread (a world does). Product code that runs on a thread
//! without a world, also in a build with the simulator, gets production's answers.

/// The `tracing` target that all milestones have, so that a subscriber can filter for them.
pub const MILESTONE: &str = "milestone";

/// Says that the product reached a place that is worth knowing: an info-level `tracing` event with a stable name, dotted
/// from the subject down (`counter.client.connected`), and fields.
///
/// The field `conn` is the [`ConnId`](crate::net::ConnId) of the connection it is about, `generation` the product's own
/// count of its connections: schedules know connections by both.
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

/// Marks a place where a multi-threaded runtime could pre-empt this task between two steps; must be awaited.
///
/// A point stands at the boundary of a lock (before it is taken, after it is released), never inside one, and in code that
/// nothing drops midway, or where being dropped there is possible already.
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
    /// Nothing: a production build has no points.
    #[inline(always)]
    pub fn point(_: &'static str, _: &[(&'static str, u64)]) -> std::future::Ready<()> {
        std::future::ready(())
    }

    /// `false`: a production build has no defects.
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
