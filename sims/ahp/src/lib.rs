//! The client of the crate `ahp` against reknit's agent host: a peer written by other people.
//! `tests/peer.rs` runs it over real sockets, `tests/suite.rs` in a world.
//!
//! - [`subject`]: the world with our host, its agents, and their client. [`window`]: a user of
//!   their client.
//! - [`known`]: the state that their reducers compute from our host's messages. [`transport`]: a
//!   WebSocket with the interface that the crate expects.
//!
//! The crate receives its transports from its user, uses tokio for time, and runs its tasks where
//! they are spawned. So it runs in a world without changes. Two things do not come from the world:
//! the jitter of its pauses uses the wall clock, so windows disable jitter; and the time stamp of a
//! connection, which affects nothing.
#![deny(missing_docs, unsafe_code)]

pub mod known;
pub mod subject;
pub mod transport;
pub mod window;
