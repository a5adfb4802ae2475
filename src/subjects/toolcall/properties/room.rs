//! Whether the link to a window can have been full, according to what happened outside the product.

use std::time::Duration;

use super::story::{Story, window};
use crate::history::{Data, EventKind, Time};
use crate::subjects::judging::judged;
use crate::subjects::toolcall::notes::{By, OfCall};
use crate::subjects::toolcall::setup::{CHANNEL, ChannelSetup, TOOL, ToolSetup};

/// More bytes than an action or a part of a state takes besides its text.
const AROUND: u64 = 2 << 10;

/// The bytes that a link takes at once.
const ROOM: u64 = 16 << 10;

/// Returns whether the link to a window may have had no room at a time, although no fault affects it, or
/// whether there was more for the window at once than the host keeps. All that happened in the moment
/// before may still be on its way, and so may a state for each operation of its user and for each of its
/// connections.
pub(super) fn may_fill(story: &Story<'_>, on: &str, at: Time) -> bool {
    let since = at.before(story.moment());
    let author = |saw: &Data| saw.downcast_ref::<OfCall>().map(|note| note.by);
    let result = longest_result(story);
    let (mut state, mut news) = (AROUND, 0);
    for event in judged(story.cx).take_while(|event| event.at <= at) {
        let bytes = match &event.what {
            EventKind::Produced { bytes, .. } => AROUND + bytes.len() as u64,
            EventKind::Asked { .. } => AROUND,
            EventKind::Observed { saw, .. } => match author(saw) {
                Some(By::Tool) => AROUND + result,
                Some(By::Agent) => AROUND,
                _ => continue,
            },
            _ => continue,
        };
        state += bytes;
        news += if event.at >= since { bytes } else { 0 };
    }
    // The host restores a channel before it sends the state.
    let began = since.before(restores(story));
    let asked = story.asked.values().filter(|asked| asked.host == on);
    let asked = asked.filter(|asked| (began..=at).contains(&asked.at)).count() as u64;
    let own = story.attached.iter().filter(|attached| window(attached.client) == on);
    let attached = own.filter(|attached| (began..=at).contains(&attached.at)).count() as u64;
    // A user may watch a channel over two connections with one operation.
    let states = 2 * asked + attached;
    news + states * state >= ROOM.min(story.host_limits.log_bytes as u64)
}

/// Returns how long it takes at most to restore all declared channels, one after the other.
fn restores(story: &Story<'_>) -> Duration {
    let plan = story.cx.plan;
    let channels = plan.entries(CHANNEL).map(|(name, _)| name);
    let setups = channels.filter_map(|name| plan.entry::<ChannelSetup>(CHANNEL, name));
    setups.map(|setup| setup.slowest_restore() + plan.latency.1 * 2).sum()
}

/// Returns the length of the longest result of a tool, in letters.
fn longest_result(story: &Story<'_>) -> u64 {
    let plan = story.cx.plan;
    let tools = plan.entries(TOOL).filter_map(|(name, _)| plan.entry::<ToolSetup>(TOOL, name));
    tools.map(|setup| setup.letters).max().unwrap_or(0)
}
