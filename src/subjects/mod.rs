//! The glue: how each protocol that reknit ships is put into a world.
//!
//! A subject starts the two ends of its protocol, plays the user of the client and the world behind the server, and says in
//! tables what the protocol has and promises. None of it is product code, and no product code knows it.

use std::sync::Arc;

use crate::subject::DynSubject;

#[cfg(any(test, feature = "counter"))]
pub mod counter;
#[cfg(feature = "exec")]
pub mod exec;
#[cfg(feature = "toolcall")]
pub mod toolcall;

#[cfg(any(test, feature = "counter"))]
pub use counter::Counter;
#[cfg(feature = "exec")]
pub use exec::Exec;
#[cfg(feature = "toolcall")]
pub use toolcall::Toolcall;

#[cfg(any(feature = "exec", feature = "toolcall"))]
mod judging;
#[cfg(any(feature = "exec", feature = "toolcall"))]
mod label;
#[cfg(any(test, feature = "counter", feature = "exec", feature = "toolcall"))]
mod records;
#[cfg(test)]
mod tests;
#[cfg(any(feature = "exec", feature = "toolcall"))]
mod wire;

/// The harness's own subject, for tests of the harness.
#[cfg(test)]
pub(crate) fn counter() -> Arc<dyn DynSubject> {
    Arc::new(Counter)
}

/// The subjects that reknit ships.
pub fn built_in() -> Vec<Arc<dyn DynSubject>> {
    vec![
        #[cfg(any(test, feature = "counter"))]
        Arc::new(Counter),
        #[cfg(feature = "exec")]
        Arc::new(Exec),
        #[cfg(feature = "toolcall")]
        Arc::new(Toolcall),
    ]
}
