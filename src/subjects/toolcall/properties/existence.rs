//! The channels that really exist during a run, the turns that are really in progress, and
//! `live_is_not_missing`.
//!
//! The host's storage and its agents note both. They belong to the outside world, so a host that
//! reports something else does not change this record.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::WatchSpan;
use super::story::{Story, window};
use crate::history::{EventKind, Time};
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::notes::OfChannel;
use crate::subjects::toolcall::setup::{self, CHANNEL, ChannelSetup, SESSION};
use reknit_toolcall::limits::ClientLimits;

kinds! {
    pub(super) LIVE_IS_NOT_MISSING;
    MISSING = "missing": "{subject:}the window of {host} counts it as removed, although it exists since {since} {moment}";
}

/// An interval in which something exists.
#[derive(Clone, Copy)]
struct Span {
    from: Time,
    to: Time,
}

/// A turn in progress.
struct TurnSpan<'a> {
    chat: &'a str,
    name: &'a str,
    span: Span,
}

/// The channels and turns that really exist.
pub(super) struct Existence<'a> {
    channels: BTreeMap<String, Vec<Span>>,
    turns: Vec<TurnSpan<'a>>,
    /// The turns whose agents played the whole script, with the times. A window that is started again
    /// may give the name of an earlier turn to a turn in a newer chat.
    played: BTreeMap<&'a str, Vec<Time>>,
    /// The turns whose agents panicked, with the times.
    broken: BTreeMap<&'a str, Vec<Time>>,
}

impl<'a> Existence<'a> {
    /// Collects the notes of a run.
    pub(super) fn of(cx: &CheckContext<'a>) -> Self {
        let at_first = Span { from: Time::ZERO, to: NEVER };
        let channels = setup::chats(cx.plan).into_iter().chain([SESSION.to_owned()]);
        let channels = channels.map(|channel| (channel, vec![at_first])).collect();
        let (turns, played, broken) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let mut existence = Self { channels, turns, played, broken };
        for event in judged(cx) {
            let at = event.at;
            match &event.what {
                EventKind::Observed { stream, saw } => match saw.downcast_ref() {
                    Some(OfChannel::Stored) => {
                        let spans = existence.channels.entry(stream.0.to_string()).or_default();
                        spans.push(Span { from: at, to: NEVER });
                    }
                    Some(OfChannel::Deleted) => {
                        let spans = existence.channels.get_mut(&*stream.0).into_iter().flatten();
                        spans.filter(|span| span.to == NEVER).for_each(|span| span.to = at);
                    }
                    Some(OfChannel::TurnBegan(name)) => existence.turns.push(TurnSpan {
                        chat: &stream.0,
                        name,
                        span: Span { from: at, to: NEVER },
                    }),
                    Some(OfChannel::TurnPlayed(name)) => {
                        existence.played.entry(name).or_default().push(at);
                    }
                    Some(OfChannel::TurnBroken(name)) => {
                        existence.broken.entry(name).or_default().push(at);
                    }
                    _ => {}
                },
                EventKind::Ended { stream, .. } => existence.end_turns(at, Some(&stream.0)),
                EventKind::Died { .. } if cx.servers.contains(&host(event)) => {
                    existence.end_turns(at, None);
                }
                _ => {}
            }
        }
        existence
    }

    /// Ends the open turn of this name, or all of them.
    fn end_turns(&mut self, at: Time, name: Option<&str>) {
        let is_it = |turn: &TurnSpan<'_>| name.is_none_or(|name| turn.name == name);
        let open = self.turns.iter_mut().filter(|turn| turn.span.to == NEVER && is_it(turn));
        open.for_each(|turn| turn.span.to = at);
    }

    fn spans(&self, channel: &str) -> impl Iterator<Item = &Span> {
        self.channels.get(channel).into_iter().flatten()
    }

    /// Returns since when a channel existed, if it existed in the whole interval.
    pub(super) fn throughout(&self, channel: &str, from: Time, to: Time) -> Option<Time> {
        let mut whole = self.spans(channel).filter(|span| span.from <= from && span.to > to);
        whole.next().map(|span| span.from)
    }

    /// Returns the chats that existed in a whole interval, with the times of their creation.
    pub(super) fn chats_throughout(
        &self,
        from: Time,
        to: Time,
    ) -> impl Iterator<Item = (&str, Time)> {
        let chats = self.channels.keys().filter(|channel| !setup::is_session(channel));
        chats.filter_map(move |chat| Some((chat.as_str(), self.throughout(chat, from, to)?)))
    }

    /// Returns how many channels existed at any time of an interval.
    pub(super) fn count_in(&self, from: Time, to: Time) -> usize {
        self.channels.keys().filter(|channel| self.at_all(channel, from, to)).count()
    }

    /// Returns whether a channel existed at any time of an interval.
    pub(super) fn at_all(&self, channel: &str, from: Time, to: Time) -> bool {
        self.spans(channel).any(|span| span.from <= to && span.to >= from)
    }

    /// Returns when a channel was created in an interval, if it exists until the end of the interval.
    pub(super) fn created_in(&self, channel: &str, from: Time, to: Time) -> Option<Time> {
        let is_new = |span: &&Span| (from..=to).contains(&span.from) && span.to > to;
        let mut new = self.spans(channel).filter(is_new);
        new.next().map(|span| span.from)
    }

    /// Returns whether a channel was deleted in an interval.
    pub(super) fn deleted_in(&self, channel: &str, from: Time, to: Time) -> bool {
        self.spans(channel).any(|span| span.to >= from && span.to <= to)
    }

    /// Returns whether a channel was created in an interval.
    pub(super) fn begins_in(&self, channel: &str, from: Time, to: Time) -> bool {
        self.spans(channel).any(|span| span.from >= from && span.from <= to)
    }

    /// The end of the turn in progress in a chat at a moment.
    pub(super) fn turn_end(&self, chat: &str, at: Time) -> Option<Time> {
        let is_it = |turn: &&TurnSpan<'_>| {
            turn.chat == chat && (turn.span.from..=turn.span.to).contains(&at)
        };
        self.turns.iter().filter(is_it).map(|turn| turn.span.to).max()
    }

    /// Returns whether the agent of a turn in a chat has played the whole script by a time, since the
    /// chat of that time was created.
    pub(super) fn is_played(&self, chat: &str, turn: &str, by: Time) -> bool {
        self.is_in_this_chat(chat, self.played.get(turn), by)
    }

    /// Returns whether the agent of a turn in a chat has panicked by a time, since the chat of that
    /// time was created.
    pub(super) fn is_broken(&self, chat: &str, turn: &str, by: Time) -> bool {
        self.is_in_this_chat(chat, self.broken.get(turn), by)
    }

    fn is_in_this_chat(&self, chat: &str, times: Option<&Vec<Time>>, by: Time) -> bool {
        // A chat may be removed and created again within a millisecond. Then the turns of both count.
        let spans = self.spans(chat).filter(|span| span.from <= by && span.to >= by);
        let since = spans.map(|span| span.from).min().unwrap_or(Time::ZERO);
        times.into_iter().flatten().any(|at| (since..=by).contains(at))
    }

    /// Returns whether a turn had begun by a time, and was not over. A turn that its host lost may
    /// begin again later.
    pub(super) fn is_open(&self, name: &str, at: Time) -> bool {
        let own = || self.turns.iter().filter(|turn| turn.name == name).map(|turn| turn.span);
        own().any(|span| span.from <= at) && own().any(|span| span.to >= at)
    }

    /// Returns whether a turn began in an interval.
    pub(super) fn turn_began_in(&self, name: &str, from: Time, to: Time) -> bool {
        let mut own = self.turns.iter().filter(|turn| turn.name == name);
        own.any(|turn| turn.span.from >= from && turn.span.from <= to)
    }

    /// Returns whether a turn was in progress in a chat at any time of an interval.
    pub(super) fn turn_in(&self, chat: &str, from: Time, to: Time) -> bool {
        self.turns_of(chat).any(|turn| turn.span.from <= to && turn.span.to >= from)
    }

    /// Returns whether one turn was in progress in a chat in the whole interval.
    pub(super) fn turn_throughout(&self, chat: &str, from: Time, to: Time) -> bool {
        self.turns_of(chat).any(|turn| turn.span.from <= from && turn.span.to > to)
    }

    /// Returns the chats of the turns that were in progress at any time of an interval.
    pub(super) fn chats_of_turns_in(&self, from: Time, to: Time) -> impl Iterator<Item = &'a str> {
        let turns = self.turns.iter();
        turns.filter(move |turn| turn.span.from <= to && turn.span.to >= from).map(|turn| turn.chat)
    }

    /// Returns the chats of the turns that were in progress in the whole interval.
    pub(super) fn chats_of_turns_throughout(
        &self,
        from: Time,
        to: Time,
    ) -> impl Iterator<Item = &'a str> {
        let turns = self.turns.iter();
        turns.filter(move |turn| turn.span.from <= from && turn.span.to > to).map(|turn| turn.chat)
    }

    /// Returns the number of bytes that agents have said in a chat by a time.
    fn words(&self, cx: &CheckContext<'_>, chat: &str, by: Time) -> usize {
        let turns: BTreeSet<&str> = self.turns_by(chat, by).collect();
        let said = judged(cx).take_while(|event| event.at <= by).map(|event| match &event.what {
            EventKind::Produced { stream, bytes } if turns.contains(&*stream.0) => bytes.len(),
            _ => 0,
        });
        said.sum()
    }

    /// Returns the names of the turns that began in a chat by a time.
    pub(super) fn turns_by(&self, chat: &str, by: Time) -> impl Iterator<Item = &'a str> {
        self.turns_of(chat).filter(move |turn| turn.span.from <= by).map(|turn| turn.name)
    }

    fn turns_of(&self, chat: &str) -> impl Iterator<Item = &TurnSpan<'a>> {
        self.turns.iter().filter(move |turn| turn.chat == chat)
    }
}

/// A channel that a window counts as removed was deleted, cannot be restored in time, or is too
/// large.
pub(super) fn live_is_not_missing(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let EventKind::Observed { stream, saw } = &event.what else { continue };
        let (at, host, channel) = (event.at, host(event), &*stream.0);
        // A session fits into any message that the limits allow.
        if story.drops_large_channels() && !setup::is_session(channel) {
            continue;
        }
        let is_of_host = story.cx.servers.contains(&host);
        if saw.downcast_ref() != Some(&OfChannel::Removed) || is_of_host {
            continue;
        }
        let mut looks = story.watch_spans.iter();
        let look = looks.find(|look| look.host == host && look.channel == channel && look.to == at);
        let Some(look) = look.filter(|_| !story.restores_slowly(channel)) else { continue };
        // Only the removal of a channel that exists can have another reason, which takes time to find out.
        let since = story.present_since(look, at);
        if since.is_some() && story.may_be_left_out(look, at) {
            continue;
        }
        story.cx.judges("live_is_not_missing");
        if let Some(since) = since {
            let data = fields! { host, since };
            found.push(Violation::new("live_is_not_missing", channel, at, &MISSING, data));
        }
    }
    found.truncate(5);
    found
}

impl Story<'_> {
    /// Returns since when a watched channel exists, if its user has the state of the present channel and
    /// not of an earlier one of the same name: the channel existed from the start of the connection that
    /// carried the state until `to`. The host may accept a connection of an earlier window late.
    pub(super) fn present_since(&self, look: &WatchSpan<'_>, to: Time) -> Option<Time> {
        let own = self.attached.iter().filter(|attached| {
            window(attached.client) == look.host
                && attached.at <= look.from
                && attached.gone >= look.from
                && !attached.is_second()
        });
        let carried = own.map(|attached| attached.at).max().unwrap_or(Time::ZERO);
        self.existence.throughout(look.channel, carried, to)
    }

    /// Returns whether a restore of a channel may take longer than the host waits for it.
    pub(super) fn restores_slowly(&self, channel: &str) -> bool {
        let setup = self.cx.plan.entry::<ChannelSetup>(CHANNEL, channel).unwrap_or_default();
        setup.slowest_restore() >= self.host_limits.restore_deadline
    }

    /// Returns whether the chats that the user of a window watches may not fit into one answer, and this
    /// one is too large for the room that the smaller ones leave. The words of the agents show the
    /// sizes. A session always fits.
    fn may_be_left_out(&self, look: &WatchSpan<'_>, at: Time) -> bool {
        let own = self.existence.words(self.cx, look.channel, at);
        let watched = self.watch_spans.iter().filter(|other| {
            other.host == look.host
                && (other.from..=other.to).contains(&at)
                && !setup::is_session(other.channel)
        });
        let watched: BTreeSet<&str> = watched.map(|other| other.channel).collect();
        let sizes = watched.iter().map(|chat| self.existence.words(self.cx, chat, at));
        let used: usize = sizes.filter(|size| *size <= own).sum();
        // The host sends at most half of a message. It estimates the rest of each state.
        let room = self.host_limits.wire.message_bytes / 2;
        !setup::is_session(look.channel) && used > room - room / 8
    }

    /// Returns whether the host may leave a chat that a window watches out of its answer to the window,
    /// because the chats do not fit into one message.
    pub(super) fn may_lack_room(&self, host: &str, chat: &str, at: Time) -> bool {
        let mut looks = self.watch_spans.iter().filter(|look| {
            look.host == host && look.channel == chat && (look.from..=look.to).contains(&at)
        });
        self.drops_large_channels() || looks.any(|look| self.may_be_left_out(look, at))
    }

    /// Returns whether a limit below its default may make an end drop a channel that is too large
    /// for one message, or for the client.
    pub(super) fn drops_large_channels(&self) -> bool {
        let (host, default) = (&self.host_limits, super::story::defaults());
        host.wire.message_bytes < default.wire.message_bytes
            || self.client_limits.channel_bytes < ClientLimits::default().channel_bytes
    }
}
