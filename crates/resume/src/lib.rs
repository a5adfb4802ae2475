//! Building blocks for every resumable protocol.
//!
//! All of them are sans-IO: no clock (the caller passes the current time), no socket, no task. They
//! are generic over their content. A protocol builds its session from them, and its driver moves
//! inputs in and outputs out.
//!
//! The serving side:
//! - [`Attachment`]: the connection of a session, or the deadline until which the session waits for
//!   one.
//! - [`Presence`]: the same for a client that may have several connections at once.
//! - [`Lease`]: how long a lost client is kept; both of the above have one.
//! - [`Holder`]: the one connection of a stream that a newer connection may take over.
//! - [`Retention`]: the newest items of a numbered sequence, within limits.
//! - [`SeenIds`]: the ids of the requests that took effect, so that a repetition has no effect.
//! - [`Counted`]: counts one of many connections or tasks, for resource counts.
//!
//! The receiving side:
//! - [`Sequence`]: numbered items that arrive in any order, with duplicates and gaps, and are
//!   released in order.
//! - [`Recovery`] and [`BackOff`]: how long to try to reconnect, and how long to pause between
//!   attempts.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

use std::time::Duration;

mod attachment;
mod counted;
mod holder;
mod lease;
mod presence;
mod recovery;
mod retention;
mod seen;
mod sequence;

pub use attachment::{Attachment, Refused};
pub use counted::Counted;
pub use holder::{Held, Holder};
pub use lease::Lease;
pub use presence::{Left, Presence};
pub use recovery::{BackOff, Recovery};
pub use retention::{Bounds, Retention};
pub use seen::SeenIds;
pub use sequence::{InsertOutcome, Sequence};

/// Longer than any wait, and short enough for a timer.
pub const EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The example of the README, compiled with the examples of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
