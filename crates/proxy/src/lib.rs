//! A TCP proxy that breaks connections as bad networks do: real sockets, real time. It stands
//! between a client and a server that this crate knows nothing about.
//!
//! - [`Proxy`]: listens on one address and forwards every connection to another.
//! - [`Script`]: data that says which connection breaks, at which moment, and how. A moment is a
//!   time, a number of bytes, or a WebSocket message, found by its JSON-RPC method.
//! - [`Event`]: what the proxy records: connections, and the rules that fired.
//! - [`NetworkState`]: the condition of the whole network, which a test changes by hand.
//!
//! The proxy reads WebSocket frames and changes no byte of them.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use reknit_proxy::{Fault, MessagePattern, Moment, Place, Proxy, Rule, Script, End};
//!
//! let rule = Rule {
//!     conn: Some(1),
//!     times: None,
//!     at: Moment::Message(MessagePattern {
//!         toward: End::Client,
//!         method: None,
//!         answer_to: Some("initialize".into()),
//!         nth: 1,
//!         place: Place::Before,
//!     }),
//!     fault: Fault::Reset { toward: None },
//! };
//! let script = Script { rules: vec![rule] };
//! let proxy = Proxy::start(([127, 0, 0, 1], 0).into(), ([127, 0, 0, 1], 7777).into(), script).await?;
//! println!("connect to ws://{}", proxy.address());
//! # Ok(())
//! # }
//! ```
//!
//! A fault acts on the sockets of the proxy, so it differs from one in a real network:
//! - The proxy's kernel acknowledges every byte that an end sends, also the lost ones. A sender into
//!   a [half-open](Fault::HalfOpen) or [cut](Fault::Cut) connection is never blocked by a full
//!   window.
//! - A [stalled](Fault::Stall) sender is blocked after about 4 MiB, and the buffers of the kernel.
//! - Bytes that were forwarded just before an RST arrive on the loopback interface; elsewhere the
//!   RST may overtake them.
//!
//! `frames` finds messages, `marks` the moments in one direction, `lane` is the condition of a
//! direction, `connection` forwards, `ending` shows each end how the connection ends, `door` accepts
//! or refuses, `book` records.

mod book;
mod connection;
mod door;
mod ending;
mod frames;
mod lane;
mod marks;
mod network;
mod proxy;
mod script;
#[cfg(test)]
mod tests;

pub use book::{Event, Happening};
pub use network::NetworkState;
pub use proxy::Proxy;
pub use script::{End, Fault, LearnTimes, Learns, MessagePattern, Moment, Place, Rule, Script};
