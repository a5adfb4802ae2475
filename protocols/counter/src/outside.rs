//! The world behind the server: the source of the numbers, and the ledger of the sums.
//!
//! Both outlive the server: a restarted server uses the same ledger, and new sessions open new
//! streams.

use reknit_seams::net::BoxFuture;

use super::wire::Name;

/// Opens streams of numbers.
pub trait Source: Send + Sync {
    /// Opens the stream with this name. Returns `None` if there is none.
    fn open(&self, stream: &Name) -> Option<Box<dyn Numbers>>;
}

/// One stream of numbers. Dropping it stops the production of numbers.
pub trait Numbers: Send {
    /// Waits for the next number. Returns `None` at the end of the stream. A number counts as
    /// produced when this returns it.
    fn next(&mut self) -> BoxFuture<'_, Option<u64>>;
}

/// Stores sums.
pub trait Ledger: Send + Sync {
    /// Adds `amount` to a counter, and stores `memo` with it. Returns the new sum.
    fn add(&self, counter: &Name, amount: u32, memo: &Name) -> u64;

    /// Returns the sum of a counter, which is initially 0.
    fn sum(&self, counter: &Name) -> u64;
}
