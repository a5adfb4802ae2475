//! Where a host keeps sessions and chats that are not in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reknit_seams::net::BoxFuture;

use super::Stored;

/// A place for what is not in memory. A restore that never ends is given up by the host, at its deadline.
pub trait Archive: Send + Sync {
    /// What is kept of a channel.
    fn load(&self, channel: String) -> BoxFuture<'static, Option<Stored>>;

    /// Keeps a channel as it is now. Saves come in order; one that fails is the archive's to report.
    fn save(&self, channel: &str, stored: Stored);

    /// Keeps a channel no more: there is none of that name now.
    fn forget(&self, channel: &str);
}

/// An archive in memory: it lives as long as somebody holds it, a host that is restarted with it included.
#[derive(Clone, Debug, Default)]
pub struct MemoryArchive(Arc<Mutex<BTreeMap<String, Stored>>>);

impl Archive for MemoryArchive {
    fn load(&self, channel: String) -> BoxFuture<'static, Option<Stored>> {
        let stored = self.0.lock().expect("nothing panics under the lock").get(&channel).cloned();
        Box::pin(std::future::ready(stored))
    }

    fn save(&self, channel: &str, stored: Stored) {
        self.0.lock().expect("nothing panics under the lock").insert(channel.to_owned(), stored);
    }

    fn forget(&self, channel: &str) {
        self.0.lock().expect("nothing panics under the lock").remove(channel);
    }
}
