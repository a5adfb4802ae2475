//! `counter`: streams of numbers, and sums, over connections that may fail.
//!
//! A client asks a server for numbered streams of numbers, and asks it to add amounts to counters.
//! A connection may end, but the session continues: the client reconnects, names its session, and
//! resumes each stream from the last number that it saw. The protocol is small but complete: every
//! statement below holds exactly.
//!
//! # The wire
//!
//! Lines of text over TCP, at most [`wire::LONGEST_LINE`] bytes each, with words separated by one
//! space ([`wire`] has the exact form). A line that does not exactly match one of these forms ends
//! the connection.
//!
//! | client → server | server → client |
//! |---|---|
//! | `hello <session or -> <generation> <attempt>` | `welcome <session> <new or resumed>`, or `refused <reason>` and the end |
//! | `watch <stream> <next>` | `n <stream> <index> <value>` …, `end <stream> <total>`, `gap <stream> <oldest>`, `lost <stream> <reason>` |
//! | `unwatch <stream>` | |
//! | `add <id> <counter> <amount> <memo>` | `added <id> <sum>`, `forgotten <id>` |
//! | `peek <id> <counter>` | `peeked <id> <sum>` |
//! | `lease <id> <counter> <milliseconds>` | `lease-over <id>` |
//! | `bye` | |
//! | `ping <n>`, `pong <n>` | `pong <n>`, `ping <n>` |
//!
//! # Guarantees
//!
//! - The numbers of a stream have the indices 1, 2, 3, … in the order in which they were produced.
//!   They enter the log under a single lock, which determines that order. The sender pulls from the
//!   log by position, so the same loop serves catch-up and live delivery.
//! - A session has one attached connection. The one with the greatest [`Ticket`] wins. Late
//!   requests of an older connection, or its late end, change nothing.
//! - An `add` takes effect at most once, in the order of the calls; an acknowledged one took effect
//!   exactly once. A `peek` may fail if its connection ends between request and answer. A `lease`
//!   belongs to a connection, and ends with it.
//! - The server reports explicitly what it no longer has: a gap, a lost stream, an unknown session.
//!   Each stream ends exactly once.
//! - Everything is bounded: lines, queues, retention, sessions, silence, and the time for which a
//!   client tries to reconnect.
//!
//! The protocol does not authenticate (the only protection of a session is its name, which has 128
//! random bits), encrypt, or persist.
//!
//! - [`wire`]: the lines. [`limits`]: every size and deadline. [`outside`]: the source of the
//!   numbers, and the ledger of the sums.
//! - [`server`], [`client`]: the two ends.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

pub mod client;
pub mod limits;
mod link;
pub mod outside;
pub mod server;
pub mod wire;

#[cfg(test)]
mod tests;

pub use client::{Client, Ending, Failure, Number, State, Watch};
pub use limits::{ClientLimits, Liveness, ServerLimits};
pub use outside::{Ledger, Numbers, Source};
pub use server::{Server, ServerResources};
pub use wire::{Name, SessionId, Ticket};

/// Compiles the example of the README together with the doc examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
