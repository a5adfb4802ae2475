//! The exchanges, by what they are about.

use crate::stage::Exchange;

mod closing;
mod flow;
mod opening;
mod resets;

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Exchange> {
    [opening::ALL, flow::ALL, closing::ALL, resets::ALL].into_iter().flatten()
}
