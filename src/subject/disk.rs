//! Storage of a host that persists across crashes: [`Disk`].
//!
//! It belongs to the simulated outside world, not to product code. The adapter of a subject stores
//! here the data that a real server would write to a file, and reads it when the host starts again.
//! Every write is durable at once and never partial.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Named texts. All copies share the same storage.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<BTreeMap<String, String>>>);

impl Disk {
    /// Stores a text under a name, and replaces the previous text.
    pub fn write(&self, name: &str, text: impl Into<String>) {
        self.all().insert(name.to_owned(), text.into());
    }

    /// Returns the text stored under a name.
    pub fn read(&self, name: &str) -> Option<String> {
        self.all().get(name).cloned()
    }

    /// Removes the text stored under a name.
    pub fn remove(&self, name: &str) {
        self.all().remove(name);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_reads_the_text_written_last() {
        let disk = Disk::default();
        let copy = disk.clone();
        disk.write("a", "1");
        copy.write("a", "2");
        drop(copy);
        assert_eq!(disk.read("a").as_deref(), Some("2"));
        disk.remove("a");
        assert_eq!(disk.read("a"), None);
    }
}
