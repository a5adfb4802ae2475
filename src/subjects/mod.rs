//! The adapters that run each protocol shipped with reknit in a world.
//!
//! A subject starts the two ends of its protocol, simulates the user of the client and the outside
//! world of the server, and lists in tables what the protocol has and guarantees. None of this is
//! product code, and product code does not depend on it.

use std::sync::Arc;

use crate::subject::DynSubject;

#[cfg(any(test, feature = "counter"))]
pub mod counter;
#[cfg(feature = "exec")]
pub mod exec;
#[cfg(feature = "sse")]
pub mod sse;
#[cfg(feature = "toolcall")]
pub mod toolcall;
#[cfg(feature = "turn")]
pub mod turn;

#[cfg(any(test, feature = "counter"))]
pub use counter::Counter;
#[cfg(feature = "exec")]
pub use exec::Exec;
#[cfg(feature = "sse")]
pub use sse::Sse;
#[cfg(feature = "toolcall")]
pub use toolcall::Toolcall;
#[cfg(feature = "turn")]
pub use turn::Turn;

#[cfg(any(feature = "sse", feature = "turn"))]
mod census;
#[cfg(any(feature = "exec", feature = "sse", feature = "toolcall", feature = "turn"))]
mod judging;
#[cfg(any(feature = "exec", feature = "toolcall"))]
mod label;
#[cfg(any(feature = "exec", feature = "sse"))]
mod pace;
#[cfg(any(test, feature = "counter", feature = "exec", feature = "sse", feature = "toolcall"))]
mod records;
#[cfg(any(feature = "exec", feature = "toolcall"))]
mod tampering;
#[cfg(test)]
mod tests;
#[cfg(any(feature = "exec", feature = "toolcall"))]
mod wire;

/// The subject for tests of the harness itself.
#[cfg(test)]
pub(crate) fn counter() -> Arc<dyn DynSubject> {
    Arc::new(Counter)
}

/// Returns the subjects that reknit ships.
pub fn built_in() -> Vec<Arc<dyn DynSubject>> {
    vec![
        #[cfg(any(test, feature = "counter"))]
        Arc::new(Counter),
        #[cfg(feature = "exec")]
        Arc::new(Exec),
        #[cfg(feature = "sse")]
        Arc::new(Sse),
        #[cfg(feature = "toolcall")]
        Arc::new(Toolcall),
        #[cfg(feature = "turn")]
        Arc::new(Turn),
    ]
}
