//! Something that counts itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Adds one to a counter for as long as it lives.
#[derive(Debug)]
pub struct Counted(Arc<AtomicU64>);

impl Counted {
    /// One more.
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
