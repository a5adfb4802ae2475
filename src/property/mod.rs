//! The properties that must hold over a history.
//!
//! A [`Property`] consists of a name, a sentence, and a function from the [`CheckContext`] of a run
//! to its [`Violation`]s. [`GENERIC`] lists the generic properties; subjects add their own. All
//! values come from the subject's [`Guarantees`] under the limits of the run, from the schedule,
//! and from the ground truth; never from what the protocol reports.
//!
//! The generic properties share their input: [`facts`] sorts the entries of a history by stream and
//! call in one pass, and [`path`](mod@path) computes when each path was faulty. Each property has a
//! separate file. `context`: the definition of a property, and its input. `guarantees`: the values.
//! `findings`: the violations. `generic`: the table.
//!
//! For authors of drivers, see [what a driver must
//! record](crate::subject::Subject#what-a-driver-must-record).

mod at_most_once;
mod bounded_delivery;
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
mod judgements;
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
pub use guarantees::{
    Dependent, Guarantees, InFlightLimit, ReadingHost, Retention, SlowUsers, Thing, WorkBounds,
    attempts_a_minute,
};
pub use judgements::Judgements;
pub use justified_failure::inconclusive;
pub use no_panic::stuck;
pub use violation::{About, Phrase, Violation, ViolationFields, ViolationKind, ViolationValue};
