//! The simulated host's storage for its session and chats: on the host's disk, which survives a
//! restart of the host. The scenario declares the duration of a restore.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::sleep;

use super::setup::{self, CHANNEL, ChannelSetup, SESSION};
use crate::net::BoxFuture;
use crate::schedule::Plan;
use crate::subject::Disk;
use reknit_toolcall::host::{Archive, Stored};
use reknit_toolcall::state::{chat, session};
use reknit_toolcall::wire::SnapshotState;

/// The creation time of everything that exists at the start.
const AT_FIRST: &str = "2026-01-01T00:00:00.000Z";

/// The stored value of a removed channel.
const FORGOTTEN: &str = "";

/// The name of the host's kind of agent, and of the resource that requires a token.
pub const PROVIDER: &str = "agent";

/// The session, its chats, and their saved states.
pub(super) struct DiskArchive {
    plan: Arc<Plan>,
    disk: Disk,
    /// The number of restores of each channel.
    restored: Mutex<BTreeMap<String, u64>>,
}

impl DiskArchive {
    pub(super) fn new(plan: Arc<Plan>, disk: Disk) -> Self {
        Self { plan, disk, restored: Mutex::default() }
    }
}

impl Archive for DiskArchive {
    fn load(&self, channel: String) -> BoxFuture<'static, Option<Stored>> {
        let setup: ChannelSetup = self.plan.entry(CHANNEL, &channel).unwrap_or_default();
        let stored = match self.disk.read(&channel) {
            Some(kept) => read(&kept),
            None => at_first(&self.plan, &channel),
        };
        let mut restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
        let before = restored.entry(channel).or_default();
        let takes = setup.restore(*before);
        *before += 1;
        Box::pin(async move {
            sleep(takes).await;
            stored
        })
    }

    fn save(&self, channel: &str, stored: Stored) {
        let kept =
            serde_json::to_string(&(stored.session, stored.state)).expect("a state is plain data");
        self.disk.write(channel, kept);
    }

    fn forget(&self, channel: &str) {
        self.disk.write(channel, FORGOTTEN);
    }
}

fn read(kept: &str) -> Option<Stored> {
    serde_json::from_str(kept).ok().map(|(session, state)| Stored { session, state })
}

/// Returns whether a channel existed earlier and was removed.
pub(super) fn is_gone(disk: &Disk, channel: &str) -> bool {
    disk.read(channel).is_some_and(|kept| kept == FORGOTTEN)
}

/// The saved state of a channel, if it exists and was ever saved.
pub(super) fn kept(disk: &Disk, channel: &str) -> Option<SnapshotState> {
    read(&disk.read(channel)?).map(|stored| stored.state)
}

/// The initial state: one session, with empty chats.
fn at_first(plan: &Plan, channel: &str) -> Option<Stored> {
    let chats = setup::chats(plan);
    let empty = |name: &str| chat::new(name, name, AT_FIRST.to_owned());
    if channel == SESSION {
        let mut state = session::new(PROVIDER, SESSION);
        state.chats = chats.iter().map(|name| session::summary(&empty(name))).collect();
        return Some(Stored { session: None, state: SnapshotState::Session(Box::new(state)) });
    }
    let is_there = chats.iter().any(|name| name == channel);
    let state = || SnapshotState::Chat(Box::new(empty(channel)));
    is_there.then(|| Stored { session: Some(SESSION.to_owned()), state: state() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_saved_channel_is_loaded_unchanged() {
        let disk = Disk::default();
        let archive = DiskArchive::new(Arc::new(Plan::new("toolcall")), disk.clone());
        for channel in ["s1", "c1"] {
            let first = archive.load(channel.to_owned()).await.unwrap();
            archive.save(channel, first.clone());
            let again = DiskArchive::new(Arc::new(Plan::new("toolcall")), disk.clone());
            assert_eq!(again.load(channel.to_owned()).await, Some(first));
        }
        assert_eq!(archive.load("c9".to_owned()).await, None);
        archive.forget("c1");
        assert_eq!(archive.load("c1".to_owned()).await, None);
    }
}
