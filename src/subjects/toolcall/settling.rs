//! Records the true states of a host's channels whenever they have not changed for a while, to
//! compare the clients' states with them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::archive;
use super::contents::Contents;
use super::digests::digest;
use super::notes::OfChannel;
use super::setup::SESSION;
use crate::schedule::Plan;
use crate::subject::{Disk, Recorder};
use reknit_toolcall::host::HostResources;
use reknit_toolcall::state::session;
use reknit_toolcall::wire::SnapshotState;

/// The time without changes after which the digest of a state is recorded.
pub const SETTLES: Duration = Duration::from_millis(200);

/// Notes the chats that the session lists, and each chat in memory whose entry in the session is not
/// its summary. `stored`: the session in the storage.
fn note_entries(resources: &HostResources, record: &Recorder, stored: Option<SnapshotState>) {
    let Some(SnapshotState::Session(listed)) = resources.state(SESSION) else { return };
    let chats = listed.chats.iter().map(|entry| entry.resource.clone()).collect();
    OfChannel::Lists { chats, stored: stored.map(Contents::of) }.note(record, SESSION);
    for entry in &listed.chats {
        let Some(SnapshotState::Chat(chat)) = resources.state(&entry.resource) else { continue };
        let own = session::summary(&chat);
        if (own.status, &own.modified_at) != (entry.status, &entry.modified_at) {
            OfChannel::EntryDiffers(entry.resource.clone()).note(record, SESSION);
        }
    }
}

/// Observes the channels of a host until dropped.
pub(super) async fn observe(
    resources: HostResources,
    channels: Vec<String>,
    record: Recorder,
    (plan, disk): (Arc<Plan>, Disk),
) {
    let Some(mut changes) = resources.changes() else { return };
    let mut settles: Option<Instant> = None;
    loop {
        tokio::select! {
            biased;
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                if settles.is_none() {
                    channels.iter().for_each(|channel| OfChannel::Changed.note(&record, channel));
                }
                settles = Some(Instant::now() + SETTLES);
            }
            () = sleep_until(settles.unwrap_or_else(Instant::now)), if settles.is_some() => {
                settles = None;
                let number = resources.seq();
                for channel in &channels {
                    // A channel that is not in memory has its saved state.
                    let held = resources.state(channel);
                    if let Some(state) = held.clone().or_else(|| archive::kept(&disk, channel)) {
                        let (digest, contents) = (digest(&state), held.map(Contents::of));
                        OfChannel::Stable { second: false, digest, contents, number }
                            .note(&record, channel);
                    } else if archive::is_gone(&disk, channel) {
                        OfChannel::Removed.note(&record, channel);
                    }
                }
                note_entries(&resources, &record, archive::restorable(&plan, &disk, SESSION));
            }
        }
    }
}
