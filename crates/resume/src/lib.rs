//! Building blocks that every resumable protocol needs.
//!
//! All of them are sans-IO: no clock (whoever asks says what time it is), no socket, no task; and generic over what they carry.
//! A protocol's session is made of them, and its driver moves inputs in and outputs out.
//!
//! The serving side:
//! - [`Attachment`]: who is attached to a session, or until when it waits for somebody.
//! - [`Presence`]: the same of somebody who may come over several connections at once.
//! - [`Lease`]: how long somebody who was lost is waited for; both have one.
//! - [`Retention`]: the newest items of a numbered sequence, within bounds.
//! - [`Seen`]: the ids of what took effect, so that a repetition does not.
//! - [`Counted`]: one of so many connections or tasks, for a census.
//!
//! The receiving side:
//! - [`Sequence`]: numbered items that come in any order, more than once, or not at all, and go out in order.
//! - [`Recovery`] and [`BackOff`]: how long to try to get a connection back, and how long to pause between two attempts.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

use std::time::Duration;

mod attachment;
mod counted;
mod lease;
mod presence;
mod recovery;
mod retention;
mod seen;
mod sequence;

pub use attachment::{Attachment, Refused};
pub use counted::Counted;
pub use lease::Lease;
pub use presence::{Left, Presence};
pub use recovery::{BackOff, Recovery};
pub use retention::{Bounds, Retention};
pub use seen::Seen;
pub use sequence::{Sequence, Taken};

/// Longer than anybody waits, and short enough for a timer.
pub const EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The example of the README, compiled with those of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
