//! The Agent Host Protocol, limited to sessions, chats, turns and client tool calls. A host keeps
//! the state of working agents; clients watch it, and run tools for it. No turn or tool call is
//! lost when a connection is lost.
//!
//! The protocol is JSON-RPC over WebSocket, with the types of the crate `ahp-types`.
//!
//! - [`wire`]: the names, numbers and limits of the messages.
//! - [`state`]: the effect of an action on a session or a chat; both ends apply the same rules.
//! - [`limits`]: every size and deadline.
//! - [`host`]: the server. [`client`]: one logical client over a sequence of connections.
//!
//! # Ownership of state
//! The host's core owns everything: sessions, chats, and for each client the list of its live
//! connections ([`Presence`](reknit_resume::Presence)). One sequence numbers all actions, and one
//! bounded log keeps them ([`Retention`](reknit_resume::Retention)). Each connection has a cursor
//! into the log, and pulls the next actions of the channels that it subscribes to. So every
//! connection is a complete stream by itself: when the newer of two connections ends, the older one
//! has missed nothing. The core has no socket and no clock: each input carries the current time,
//! and [`HostCore::due`](host::HostCore::due) returns the time of the next timeout.
//!
//! A client's core owns one replica per channel: the state that the host confirmed, and the actions
//! that it has not confirmed yet.
//!
//! # Clocks
//! Every deadline is a `tokio::time::Instant`, so a step of the wall clock does not move it. The
//! wall clock only provides time stamps for records.
//!
//! # When a call's owner disconnects
//! A call that a client runs has an owner. While the owner has any live connection, no call fails
//! as disconnected. A connection is live until it closes, or until it was silent for 25 s although
//! it was pinged after 5 s. (So a client that only watches stays live: its WebSocket answers the
//! pings.) When the last connection ends, a lease of 30 s begins, and nothing prolongs it. The host
//! checks it only where a call, or the client's place in a session, depends on it. The lease counts
//! as over at its end, not when a timer fires. Then everything that depends on it fails, once. A
//! client that returns and names the channel keeps its calls. A client that unsubscribes, or
//! returns by `reconnect` without naming the channel, loses them at once. A client that returns by
//! `initialize` has the length of a lease from then on to subscribe.
//!
//! # Epochs
//! A restarted host numbers its actions from the beginning again. So each incarnation of a host has
//! a name. The host sends it under [`wire::EPOCH`] in the `_meta` of the answer to `initialize`,
//! and the client repeats it when it reconnects. If the name is another host's, the host answers as
//! it answers an unknown client: the client starts over, and its replicas come from snapshots.
//!
//! # Long messages
//! A host closes a connection that carries a message above its limit, and a client repeats an action
//! without an answer over the next connection. So the host sends its limit under [`wire::LONGEST`]
//! beside the epoch, and the client does not send an action that is longer: its caller gets a
//! refusal, or its call fails.
//!
//! # Not implemented
//! - Of the protocol: terminals, changesets, annotations, automations, canvases, resource watches,
//!   telemetry, MCP with its authentication of calls, lists of sessions, completions; of chats:
//!   questions to the user, queued messages, drafts, forks, moves, truncation, windows onto long
//!   histories. The host answers them as unknown methods, or as unsupported actions.
//! - A session's own list of the chats that wait for input: clients read it from the chats.
//! - Channels that do not exist yet: subscribing to one is an error; the request does not wait for
//!   its creation.
//! - Work in progress at a restart of the host: the host restores sessions and finished turns.
//! - A repetition that arrives after the host has forgotten the client (five minutes): it takes
//!   effect again, unless its action can take effect only once, as with turns and results.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

pub mod client;
pub mod host;
pub mod limits;
pub mod state;
#[cfg(test)]
mod tests;
pub mod wire;

/// The example of the README, compiled with the examples of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
