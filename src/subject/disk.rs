//! What a host keeps through its deaths: [`Disk`].
//!
//! It belongs to the simulated outside world, not to product code: the glue of a subject keeps there what a real server would have
//! written to a file, and finds it when the host starts again. Whatever was written is kept, at once and whole.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Texts by name. A copy is the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<BTreeMap<String, String>>>);

impl Disk {
    /// Keeps a text under a name, in the place of the one before.
    pub fn write(&self, name: &str, text: impl Into<String>) {
        self.all().insert(name.to_owned(), text.into());
    }

    /// What is kept under a name.
    pub fn read(&self, name: &str) -> Option<String> {
        self.all().get(name).cloned()
    }

    /// Forgets what is kept under a name.
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
    fn what_was_written_last_is_kept_by_every_copy() {
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
