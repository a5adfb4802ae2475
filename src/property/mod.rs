//! What must hold over a history.
//!
//! A [`Property`] is a name, a sentence, and a function from the [`CheckContext`] of a run to the [`Violation`]s in it. The generic ones
//! stand in [`GENERIC`]; subjects add their own. All figures come from the subject's [`Guarantees`] under the limits of the run,
//! the schedule, and the ground truth; never from the protocol's own word.
//!
//! The generic properties share what they read: [`facts`] sorts the entries of a history by stream and call in one pass, and
//! [`path`](mod@path) knows when which path was faulty. Each property is a file of its own.
//! `cx`: what a property is, and what it is given. `guarantees`: the figures. `findings`: what broke. `generic`: the table.
//!
//! [What a driver must record](crate::subject::Subject#what-a-driver-must-record) stands where a driver is written.

mod at_most_once;
mod bounded_ending;
mod bounded_memory;
mod bounded_work;
mod context;
pub mod facts;
mod findings;
mod gap_free;
mod generic;
mod guarantees;
mod isolation;
mod justified_failure;
mod no_panic;
mod no_residue;
mod one_ending;
pub mod path;
#[cfg(test)]
pub(crate) mod scripted;
mod stale_generation_inert;
pub mod view;
pub mod violation;

pub use context::{CheckContext, Property};
pub use generic::{GENERIC, SAME_DIGEST, check, list};
pub use guarantees::{Guarantees, Retention, WorkBounds};
pub use justified_failure::inconclusive;
pub use no_panic::stuck;
pub use violation::{About, Phrase, Violation, ViolationFields, ViolationKind, ViolationValue};
