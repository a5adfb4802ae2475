//! The broker: it owns one app-server and shares it among clients.
//!
//! - [`Broker`]: the broker with sockets. [`BrokerCore`]: the broker without sockets.
//!   `connection`: one client, one task. `tickets`: the requests on the way to the app-server.
//! - [`BrokerExit`]: how it ended.
//! - [`BrokerSearch`]: a client finds the broker of a directory, or starts one. [`Publication`]: a
//!   broker serves a directory.
//!
//! A client speaks with the broker as with an app-server. Three methods differ: the broker answers
//! `initialize` itself, while the app-server is initialized; `broker/shutdown` ends the broker; and a
//! request may be refused as busy (-32001), because one client works at a time. Notifications of
//! clients are dropped. A client that ends its output has disconnected: answers that come later are
//! dropped, and its turn is interrupted.
//!
//! Each notification goes to the client that started its turn, also if that turn is a subagent's.
//! The broker drops the notifications of a turn that has lost its client.

mod connection;
pub mod core;
mod driver;
mod lifecycle;
mod shared;
#[cfg(test)]
mod tests;
mod tickets;

pub use self::core::{
    BrokerCore, BrokerCounts, BrokerEffect, BrokerExit, ClientId, CutReason, Ticket,
};
pub use driver::{Broker, BrokerHandle};
pub use lifecycle::{BrokerRecord, BrokerSearch, NoBroker, NotPublished, Publication};
