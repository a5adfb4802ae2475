//! What a host's channels really are, for those who compare: noted whenever nothing has changed for a while.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::archive;
use super::digests::digest;
use super::notes::OfChannel;
use crate::subject::{Disk, Recorder};
use reknit_toolcall::host::HostResources;

/// For how long nothing must change until a state is weighed.
pub const SETTLES: Duration = Duration::from_millis(200);

/// Watches the channels of a host, until it is dropped.
pub(super) async fn observe(
    resources: HostResources,
    channels: Vec<String>,
    record: Recorder,
    disk: Disk,
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
                    channels.iter().for_each(|channel| OfChannel::Stirs.note(&record, channel));
                }
                settles = Some(Instant::now() + SETTLES);
            }
            () = sleep_until(settles.unwrap_or_else(Instant::now)), if settles.is_some() => {
                settles = None;
                for channel in &channels {
                    // What is not in memory is as it was kept.
                    if let Some(state) = resources.state(channel).or_else(|| archive::kept(&disk, channel)) {
                        OfChannel::Settles { second: false, digest: digest(&state) }.note(&record, channel);
                    } else if archive::is_gone(&disk, channel) {
                        OfChannel::Gone.note(&record, channel);
                    }
                }
            }
        }
    }
}
