//! `counter`: streams of numbers, and sums, over connections that come and go.
//!
//! A client asks a server for numbered streams of numbers, and has it add amounts to counters. Connections die; the session
//! does not: the client connects again, names its session, and resumes each stream from the last number that it saw. It is
//! small, but a whole reconnect protocol: what is told to be exact here is exact.
//!
//! # The wire
//!
//! Lines of text over TCP, at most [`wire::LONGEST_LINE`] bytes each, words parted by one space ([`wire`] has the exact form).
//! A line that is not exactly one of these ends the connection.
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
//! # What is promised
//!
//! - A stream's numbers are indexed 1, 2, 3, … in the order in which they were made, by the one lock under which they enter the
//!   log. The sender pulls from the log by position, so catching up and going on live are one loop.
//! - A session has one attachment. The greatest [`Ticket`] wins it; whatever an older connection still says, or how late it
//!   ends, changes nothing.
//! - An `add` takes effect at most once, in the order of issue; once it was acknowledged, exactly once. A `peek` may fail when
//!   its connection dies between question and answer. A `lease` is held by a connection, and dies with it.
//! - What the server no longer has is told by name: a gap, a lost stream, an unknown session. Each stream ends exactly once.
//! - Everything has a bound: lines, queues, retention, sessions, silence, and how long a client tries.
//!
//! What it does not do: authenticate (a session's name is 128 random bits, and that is all), encrypt, persist.
//!
//! - [`wire`]: the lines. [`limits`]: every size and deadline. [`outside`]: where numbers come from, and where sums are kept.
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

/// The example of the README, compiled with those of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
