//! The storage of sessions and chats that are not in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reknit_seams::net::BoxFuture;

use super::Stored;

/// An archive of sessions and chats. If a load never completes, the host gives up at its deadline.
pub trait Archive: Send + Sync {
    /// Loads the stored state of a channel.
    fn load(&self, channel: String) -> BoxFuture<'static, Option<Stored>>;

    /// Stores the current state of a channel. Saves arrive in order. The archive itself reports a
    /// failed save.
    fn save(&self, channel: &str, stored: Stored);

    /// Deletes the stored state of a channel that no longer exists.
    fn forget(&self, channel: &str);
}

/// An archive in memory. It lives while any clone exists, so it survives a restart of the host.
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
