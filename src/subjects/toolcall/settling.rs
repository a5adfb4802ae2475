//! What a host's channels really are, for those who compare: noted whenever nothing has changed for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::notes::{OfChannel, digest};
use crate::protocols::toolcall::host::Census;
use crate::subject::Recorder;

/// For how long nothing must change until a state is weighed.
pub(super) const SETTLES: Duration = Duration::from_millis(200);

/// Watches the channels of a host, until it is dropped.
pub(super) async fn observe(census: Census, channels: Vec<String>, record: Recorder) {
    let Some(mut changes) = census.changes() else { return };
    let (mut settles, mut weighed): (Option<Instant>, BTreeMap<String, String>) = (None, BTreeMap::new());
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
                    if let Some(state) = census.state(channel) {
                        weighed.insert(channel.clone(), digest(&state));
                    }
                    if let Some(digest) = weighed.get(channel) {
                        OfChannel::Settles { second: false, digest }.note(&record, channel);
                    }
                }
            }
        }
    }
}
