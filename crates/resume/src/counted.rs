//! A guard that counts itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Increments a counter while it exists.
#[derive(Debug)]
pub struct Counted(Arc<AtomicU64>);

impl Counted {
    /// Increments the counter.
    pub fn new(counter: &Arc<AtomicU64>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
