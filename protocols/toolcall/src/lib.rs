//! The Agent Host Protocol, as far as sessions, chats, turns and client tool calls go: a host keeps the state of agents that
//! work, clients watch it, and run tools for it; and neither a turn nor a tool call is lost when a connection is.
//!
//! JSON-RPC over WebSocket, with the types of the crate `ahp-types`.
//!
//! - [`wire`]: the names, numbers and bounds of what the two ends say to each other.
//! - [`state`]: what an action makes of a session or a chat; both ends apply the same rules.
//! - [`limits`]: every size and deadline.
//! - [`host`]: the server. [`client`]: one logical client over connections that come and go.
//!
//! # State, and who owns it
//! The host's core owns everything: sessions, chats, and of each client the list of its live connections
//! ([`Presence`](reknit_resume::Presence)). Actions are numbered by one sequence and kept in one bounded log
//! ([`Retention`](reknit_resume::Retention)); each connection has a cursor into it, and pulls what comes next of the channels
//! that it subscribes to. So every connection is a stream without holes of its own, and when the newer of two ends, the older
//! one has missed nothing. The core knows no socket, and no clock: whatever comes in says what time it is, and
//! [`Core::due`](host::HostCore::due) says when to come back.
//!
//! A client's core owns one replica a channel: the state that the host confirmed, and the actions that it did not confirm yet.
//!
//! # Clocks
//! Every deadline is a `tokio::time::Instant`, so a step of the wall clock moves none; the wall clock only stamps records.
//!
//! # When a call's owner is gone
//! A call that a client runs has an owner. While the owner has any live connection, nothing fails the call as disconnected. A
//! connection is live until it says otherwise, or was silent for 25 s though it was pinged after 5 s (so a client that only
//! watches lives: its WebSocket answers). When the last one ends, a lease of 30 s begins, which nothing prolongs; it is looked at
//! only where a call, or the client's place in a session, depends on it, and counts as over at its end, not when a timer
//! notices. Then what depends on it is failed, once. A client that returns and names the channel keeps its calls; one that
//! unsubscribes, or returns by `reconnect` without naming the channel, loses them at once; one that returns by `initialize` has
//! a lease's time from then on to subscribe.
//!
//! # Epochs
//! A host that was restarted counts from the beginning again. So each life of a host has a name, which stands under
//! [`wire::EPOCH`] in the `_meta` of the answer to `initialize`, and which a client says again when it reconnects. Another
//! host's name is answered like an unknown client: the client starts over, and its replicas come from snapshots.
//!
//! # What is not here
//! - Of the protocol: terminals, changesets, annotations, automations, canvases, resource watches, telemetry, MCP with its
//!   authentication of calls, lists of sessions, completions; of chats: questions to the user, queued messages, drafts, forks,
//!   moves, truncation, windows onto long histories. They are answered as unknown methods, or as actions that are not supported.
//! - A session's own list of what waits for input: clients find it in the chats.
//! - Channels that do not exist yet: to subscribe to one is an error, not a wait for it.
//! - What was under way when a host was restarted: it restores sessions and the turns that were over.
//! - A repetition that comes after the host has forgotten the client (five minutes): it takes effect once more, unless what it does
//!   can be done only once, as with turns and results.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

pub mod client;
pub mod host;
pub mod limits;
pub mod state;
#[cfg(test)]
mod tests;
pub mod wire;

/// The example of the README, compiled with those of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
