//! The client of the crate `ahp` against reknit's agent host: a peer that nobody here wrote. `tests/peer.rs` has it over real sockets,
//! `tests/suite.rs` in a world.
//!
//! - [`subject`]: the world, made of our host, its agents, and their client. [`window`]: a user of their client.
//! - [`known`]: what their reducers make of what the host says. [`transport`]: a WebSocket, as the crate wants one.
//!
//! The crate takes its transports from whoever uses it, keeps its time with tokio, and its tasks run where they are spawned; so it lives
//! in a world as it is. Two things it takes by itself: the jitter of its pauses comes from the wall clock, so windows ask for none; and
//! the moment of a connection, which nothing depends on.
#![deny(missing_docs, unsafe_code)]

pub mod known;
pub mod subject;
pub mod transport;
pub mod window;
