//! The world behind the server: where numbers come from, and where sums are kept.
//!
//! Both outlive the server: a server that starts again finds the same ledger, and new sessions open new streams.

use reknit_seams::net::BoxFuture;

use super::wire::Name;

/// Makes streams of numbers.
pub trait Source: Send + Sync {
    /// Starts a stream of this name; `None` if there is none.
    fn open(&self, stream: &Name) -> Option<Box<dyn Numbers>>;
}

/// One stream of numbers. Dropping it stops whoever makes them.
pub trait Numbers: Send {
    /// Waits for the next number; `None` at the end of the stream. A number is made when this returns it.
    fn next(&mut self) -> BoxFuture<'_, Option<u64>>;
}

/// Keeps sums.
pub trait Ledger: Send + Sync {
    /// Adds `amount` to a counter, and notes `memo` beside it. Returns the new sum.
    fn add(&self, counter: &Name, amount: u32, memo: &Name) -> u64;

    /// The sum of a counter; 0 where nothing was added.
    fn sum(&self, counter: &Name) -> u64;
}
