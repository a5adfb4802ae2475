//! Whether the link to a window can have been full, according to what happened outside the product.

use std::time::Duration;

use super::story::{Story, window};
use crate::history::{Data, EventKind, Time};
use crate::property::path::through;
use crate::subjects::judging::judged;
use crate::subjects::toolcall::notes::{By, OfCall};
use crate::subjects::toolcall::setup::{self, CHANNEL, ChannelSetup, TOOL, ToolSetup};
use reknit_toolcall::wire::ROOT;

/// More bytes than a part of a state, with the actions that led to it, takes besides its text.
const AROUND: u64 = 2 << 10;

/// More bytes than a single action takes besides its text.
const AROUND_ACTION: u64 = 512;

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

/// Returns whether the actions that a client missed by a moment may not fit into one answer of the
/// host. The host then sends snapshots, although it keeps the actions. A client may miss what happened
/// since a moment before data last arrived at it.
pub(super) fn may_exceed_an_answer(story: &Story<'_>, client: &str, at: Time) -> bool {
    let conns = story.of_client(client, at).filter(|attached| attached.at < at);
    let arrived =
        conns.filter_map(|attached| story.cx.history.conns.get(attached.conn)?.received.0);
    let last = arrived.filter(|arrived| *arrived <= at).max();
    let since = last.unwrap_or_default().before(story.moment());
    let result = longest_result(story);
    let missed = judged(story.cx).filter(|event| event.at >= since && event.at <= at);
    let bytes = missed.filter_map(|event| match &event.what {
        EventKind::Produced { bytes, .. } => Some(AROUND_ACTION + bytes.len() as u64),
        EventKind::Asked { .. } => Some(AROUND_ACTION),
        EventKind::Observed { saw, .. } => match saw.downcast_ref::<OfCall>()?.by {
            By::Tool => Some(AROUND_ACTION + result),
            _ => Some(AROUND_ACTION),
        },
        _ => None,
    });
    // The host uses at most half of a message.
    bytes.sum::<u64>() > story.host_limits.wire.message_bytes as u64 / 2
}

/// The states of chats that a window asked for. The link brings them one after the other, and what
/// the host says later comes behind them. Other states are short.
pub(super) struct StatesAsked {
    /// The time of each request, and the number of states.
    times: Vec<(Time, u64)>,
    /// The time and the size of everything that the states of all chats contain.
    contents: Vec<(Time, u64)>,
    latency: Duration,
}

impl StatesAsked {
    /// Collects the requests of a window. A client repeats a request without an answer over each
    /// connection. A connection also brings all chats that the window watches, once.
    pub(super) fn of(story: &Story<'_>, on: &str) -> Self {
        let main = || {
            let own = story.attached.iter().filter(|attached| window(attached.client) == on);
            own.filter(|attached| !attached.is_second()).map(|attached| attached.at)
        };
        let mut times = Vec::new();
        for (call, asked) in story.asked.iter().filter(|(_, asked)| asked.host == on) {
            let is_of_chat =
                asked.field("chat").is_some_and(|it| !setup::is_session(it) && it != ROOT);
            let states = match asked.verb() {
                "watch" if is_of_chat => 1,
                "watch-twice" => 2,
                _ => continue,
            };
            times.push((asked.at, states));
            if main().any(|at| at > asked.at) {
                let answered = story.answered_at(*call);
                let again = main().filter(|at| *at > asked.at && *at <= answered);
                times.extend(again.map(|at| (at, states)));
            }
        }
        let mut contents = Vec::new();
        if !times.is_empty() {
            times.extend(main().map(|at| (at, 1)));
            contents = contents_of_chats(story);
        }
        times.sort_unstable();
        Self { times, contents, latency: story.cx.plan.latency.1 }
    }

    /// Returns the time by which all states have arrived that the window asked for by a moment.
    pub(super) fn until(&self, by: Time) -> Time {
        self.backlog(by).map_or(Time::ZERO, |(_, until)| until)
    }

    /// Returns the interval of the newest states that arrive one after the other, of those that the
    /// window asked for by a moment. A state contains what was said by then.
    pub(super) fn backlog(&self, by: Time) -> Option<(Time, Time)> {
        let said = self.contents.iter().take_while(|(at, _)| *at <= by);
        let state = AROUND + said.map(|(_, bytes)| bytes).sum::<u64>();
        let mut backlog: Option<(Time, Time)> = None;
        let mut bytes = 0;
        for (at, states) in self.times.iter().take_while(|(at, _)| *at <= by) {
            let began = match backlog {
                Some((began, until)) if *at <= until => began,
                _ => {
                    bytes = 0;
                    *at
                }
            };
            bytes += states * state;
            backlog = Some((began, began + through(bytes, self.latency)));
        }
        backlog
    }
}

/// Returns the time and the size of each text and each result in the chats.
fn contents_of_chats(story: &Story<'_>) -> Vec<(Time, u64)> {
    let result = longest_result(story);
    let contents = judged(story.cx).filter_map(|event| match &event.what {
        EventKind::Produced { bytes, .. } => Some((event.at, bytes.len() as u64)),
        EventKind::Observed { saw, .. } => match saw.downcast_ref::<OfCall>()?.by {
            By::Tool => Some((event.at, AROUND + result)),
            By::Agent => Some((event.at, AROUND)),
            _ => None,
        },
        _ => None,
    });
    contents.collect()
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
