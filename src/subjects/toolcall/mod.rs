//! The tables of `toolcall`: its limits, what its product code says, where it can be held, and the bugs that it can be
//! told to have.
//!
//! This is not a subject yet: its operations, user, properties and dissector are to be written, and `built_in` does not name it.
//! The tables are kept true against the product code meanwhile.

pub mod defects;
pub mod limits;
pub mod marks;

pub use defects::{DEFECTS, VARIANTS};
pub use limits::LIMITS;
pub use marks::{MILESTONES, POINTS};

#[cfg(test)]
mod tests;
