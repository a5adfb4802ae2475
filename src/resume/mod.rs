//! Building blocks that every resumable protocol needs, without clock, socket or task.
//!
//! Each is a small state machine over what it carries. Time comes in as an argument, randomness as a number, and what is to be
//! done comes out as a value: so each edge can be tested by hand, and a protocol's driver has nothing left to decide.
//!
//! For who receives:
//! - [`sequence`]: numbered items that come in any order, more than once, or not at all, and go out in order.
//! - [`recovery`]: how long to try to get a connection back, and how long to pause between two attempts.
//!
//! What it does not do: speak any wire, or keep any protocol's names.

pub mod recovery;
pub mod sequence;
