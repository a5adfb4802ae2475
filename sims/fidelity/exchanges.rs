//! The exchanges, by topic.

use crate::stage::Exchange;

mod closing;
mod flow;
mod opening;
mod resets;

/// Returns all exchanges.
pub fn all() -> impl Iterator<Item = &'static Exchange> {
    [opening::ALL, flow::ALL, closing::ALL, resets::ALL].into_iter().flatten()
}
