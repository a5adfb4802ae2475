//! The seams between product code and the outside world. This is the only crate of reknit that
//! product code needs.
//!
//! - [`net`]: connections. [`process`]: launching processes. [`files`]: files. [`env`](mod@env):
//!   all of them, plus clock, randomness and the machine, in one value.
//! - [`probe`]: milestones, points, defects; the last two are constants unless a simulator enables
//!   the feature `sim`.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

pub mod env;
pub mod files;
pub mod net;
pub mod probe;
pub mod process;

pub use env::Env;

/// The example of the README, compiled with the examples of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
