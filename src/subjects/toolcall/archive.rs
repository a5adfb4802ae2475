//! The simulated host's storage for its session and chats: on the host's disk, which survives a
//! restart of the host. The scenario declares the duration of a restore.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::sleep;

use super::notes::OfChannel;
use super::setup::{self, AT_FIRST, CHANNEL, ChannelSetup, SESSION};
use crate::net::BoxFuture;
use crate::schedule::Plan;
use crate::subject::{Disk, Recorder};
use reknit_toolcall::host::{Archive, Stored};
use reknit_toolcall::state::{chat, session};
use reknit_toolcall::wire::SnapshotState;

/// The stored value of a removed channel.
const FORGOTTEN: &str = "";

/// The name of the host's kind of agent, and of the resource that requires a token.
pub const PROVIDER: &str = "agent";

/// The session, its chats, and their saved states.
pub(super) struct DiskArchive {
    plan: Arc<Plan>,
    record: Recorder,
    disk: Disk,
    /// The number of restores of each channel.
    restored: Mutex<BTreeMap<String, u64>>,
    /// The turns that were saved, by chat and name.
    turns: Mutex<BTreeSet<(String, String)>>,
}

impl DiskArchive {
    pub(super) fn new(plan: Arc<Plan>, record: Recorder, disk: Disk) -> Self {
        Self { plan, record, disk, restored: Mutex::default(), turns: Mutex::default() }
    }

    /// Notes the turns of a saved chat that were not saved before.
    fn note_turns(&self, channel: &str, state: &SnapshotState) {
        let SnapshotState::Chat(chat) = state else { return };
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        for turn in &chat.turns {
            if turns.insert((channel.to_owned(), turn.id.clone())) {
                OfChannel::TurnStored(turn.id.clone()).note(&self.record, channel);
            }
        }
    }

    fn contains(&self, channel: &str) -> bool {
        match self.disk.read(channel) {
            Some(kept) => kept != FORGOTTEN,
            None => is_there_at_first(&self.plan, channel),
        }
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
        let before = restored.entry(channel.clone()).or_default();
        let takes = setup.restore(*before);
        *before += 1;
        self.record.fetched(channel, takes);
        Box::pin(async move {
            sleep(takes).await;
            stored
        })
    }

    fn save(&self, channel: &str, stored: Stored) {
        if !self.contains(channel) {
            OfChannel::Stored.note(&self.record, channel);
        }
        self.note_turns(channel, &stored.state);
        let kept =
            serde_json::to_string(&(stored.session, stored.state)).expect("a state is plain data");
        self.disk.write(channel, kept);
    }

    fn forget(&self, channel: &str) {
        if self.contains(channel) {
            OfChannel::Deleted.note(&self.record, channel);
            let times = deletions(&self.disk, channel) + 1;
            self.disk.write(&deletions_key(channel), times.to_string());
        }
        self.disk.write(channel, FORGOTTEN);
    }
}

/// Returns how often a channel was deleted.
pub(super) fn deletions(disk: &Disk, channel: &str) -> u64 {
    disk.read(&deletions_key(channel)).and_then(|times| times.parse().ok()).unwrap_or(0)
}

fn deletions_key(channel: &str) -> String {
    format!("deletions {channel}")
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

/// The state of a channel that a restart of the host would restore now.
pub(super) fn restorable(plan: &Plan, disk: &Disk, channel: &str) -> Option<SnapshotState> {
    match disk.read(channel) {
        Some(kept) => read(&kept).map(|stored| stored.state),
        None => at_first(plan, channel).map(|stored| stored.state),
    }
}

/// Returns whether a channel exists at the start.
fn is_there_at_first(plan: &Plan, channel: &str) -> bool {
    channel == SESSION || setup::chats(plan).iter().any(|chat| chat == channel)
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
    let state = || SnapshotState::Chat(Box::new(empty(channel)));
    is_there_at_first(plan, channel)
        .then(|| Stored { session: Some(SESSION.to_owned()), state: state() })
}

#[cfg(test)]
mod tests {
    use crate::history::EventKind;
    use crate::schedule::Host;
    use crate::subject::{Gauges, Journal};

    use super::*;

    /// A journal that keeps the notes about channels.
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Journal for Notes {
        fn write(&self, _: &Host, what: EventKind) {
            if let EventKind::Observed { stream, saw } = what {
                self.0.lock().unwrap().push(format!("{stream}: {saw}"));
            }
        }

        fn gauges(&self, _: &Host, _: Gauges) {}
    }

    fn archive(disk: &Disk, notes: &Arc<Notes>) -> DiskArchive {
        let record = Recorder::new("server".into(), notes.clone());
        DiskArchive::new(Arc::new(Plan::new("toolcall")), record, disk.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn a_saved_channel_is_loaded_unchanged() {
        let (disk, notes) = (Disk::default(), Arc::default());
        let before = archive(&disk, &notes);
        for channel in ["s1", "c1"] {
            let first = before.load(channel.to_owned()).await.unwrap();
            before.save(channel, first.clone());
            assert_eq!(archive(&disk, &notes).load(channel.to_owned()).await, Some(first));
        }
        assert_eq!(before.load("c9".to_owned()).await, None);
        before.forget("c1");
        assert_eq!(before.load("c1".to_owned()).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_storage_notes_when_a_channel_begins_and_ceases_to_exist() {
        let (disk, notes) = (Disk::default(), Arc::default());
        let archive = archive(&disk, &notes);
        let chat = archive.load("c1".to_owned()).await.unwrap();
        archive.save("c1", chat.clone());
        archive.save("n7", chat);
        archive.forget("c1");
        archive.forget("c1");
        assert_eq!(*notes.0.lock().unwrap(), ["n7: stored", "c1: deleted from the storage"]);
    }
}
