//! Properties of what a window has unsubscribed from: it gets no place in the session by itself, and
//! no more news. It gets no more news of a removed chat either.

use std::collections::BTreeMap;
use std::time::Duration;

use super::facts::{UserOperation, text};
use super::story::{Story, window};
use crate::history::{Answer, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Violation, ViolationKind};
use crate::schedule::MilestoneValue;
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::notes::OfChannel;
use crate::subjects::toolcall::setup::{self, SESSION};

kinds! {
    pub(super) PLACES_ARE_WANTED;
    UNWANTED_PLACE = "unwanted-place": "{subject:}it took part in the session again, although its user only watches the session since {left} {moment}";
}

kinds! {
    pub(super) NEWS_ARE_WANTED;
    UNWANTED_NEWS = "unwanted-news": "{subject:}it received an action of {channel}, from which its user had unsubscribed at {left} {moment}";
    NEWS_OF_THE_REMOVED = "news-of-the-removed": "{subject:}it received an action of {channel}, which it had seen removed at {left} {moment}";
    INCLUDED_NEWS = "included-news": "{subject:}it received the action {number} of {channel} over a connection on which an answer had included all actions up to {included} {moment}";
}

/// A client takes part in a session only if its user wants it since the last time that the user
/// unsubscribed from the session, or left it.
pub(super) fn places_are_wanted(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let mut left: BTreeMap<&str, Time> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let host = host(event);
        match &event.what {
            EventKind::Started => drop(left.remove(host)),
            EventKind::Asked { call, .. } => match story.asked.get(call) {
                Some(asked)
                    if unwatches(asked, SESSION) && story.has_settled_in(host, event.at) =>
                {
                    story.judges_place(host, event.at, event.at);
                    left.insert(host, event.at);
                }
                Some(asked) if joins(asked) => drop(left.remove(host)),
                _ => {}
            },
            EventKind::Answered { call, answer: Answer::Done(_) } => {
                let asked = story.asked.get(call).filter(|asked| asked.verb() == "leave");
                let leaves = asked.filter(|asked| story.leaves_for_good(asked, event.at));
                let leaves = leaves.inspect(|asked| story.judges_place(host, asked.at, event.at));
                left.extend(leaves.map(|asked| (host, asked.at)));
            }
            EventKind::Observed { stream, saw }
                if saw.downcast_ref() == Some(&OfChannel::Joined(true)) =>
            {
                let unwanted = left.get(host).filter(|left| story.has_left(host, **left, event.at));
                found.extend(unwanted.map(|left| {
                    let data = fields! { left: *left };
                    let at = event.at;
                    Violation::new("places_are_wanted", stream, at, &UNWANTED_PLACE, data)
                }));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// A client receives no actions of a channel from which its user has unsubscribed, or of a chat that was
/// removed: a new chat of that name has no subscribers. It receives no action after an answer that
/// includes it: all channels share one count, and a client that reconnects names the largest number.
pub(super) fn news_are_wanted(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    // The times from which a window gets no news of a channel, with the kind of the violation.
    let mut left: BTreeMap<(&str, &str), (Time, &'static ViolationKind)> = BTreeMap::new();
    // A new window subscribes to its channels once more when it takes part in the session.
    let mut joined: BTreeMap<&str, Time> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let host = host(event);
        match &event.what {
            EventKind::Started => {
                left.retain(|(of, _), _| *of != host);
                joined.remove(host);
            }
            EventKind::Observed { saw, .. }
                if saw.downcast_ref() == Some(&OfChannel::Joined(true)) =>
            {
                joined.entry(host).or_insert(event.at);
            }
            EventKind::Asked { call, .. } => {
                let Some(asked) = story.asked.get(call) else { continue };
                match (asked.verb(), asked.field("chat")) {
                    ("reload", _) => {
                        left.retain(|(of, _), _| *of != host);
                        joined.remove(host);
                    }
                    ("new-session", _) => left.retain(|(of, _), _| *of != host),
                    ("watch" | "watch-twice", Some(channel)) => {
                        left.remove(&(host, channel));
                    }
                    _ => {}
                }
            }
            // A newer chat may have arrived before the user saw that the older one was removed.
            EventKind::Observed { stream, saw }
                if saw.downcast_ref() == Some(&OfChannel::Received) =>
            {
                let of_removed = |kind: &ViolationKind| std::ptr::eq(kind, &NEWS_OF_THE_REMOVED);
                left.retain(|(of, on), (_, kind)| {
                    (*of, *on) != (host, &*stream.0) || !of_removed(kind)
                });
            }
            EventKind::Observed { stream, saw }
                if matches!(
                    saw.downcast_ref(),
                    Some(OfChannel::Unsubscribed | OfChannel::Removed)
                ) && story.has_settled_in(host, event.at)
                    && joined.get(host).is_some_and(|at| *at + story.moment() < event.at) =>
            {
                let ends = saw
                    .downcast_ref::<OfChannel>()
                    .and_then(|note| story.ends_news(note, host, &stream.0, event.at));
                if ends.is_some() && story.is_told(host, event.at) < story.until {
                    story.cx.judges("news_are_wanted");
                }
                left.extend(ends.map(|kind| ((host, &*stream.0), (event.at, kind))));
            }
            EventKind::Milestone { name: "toolcall.client.unwanted", fields } => {
                let channel = text(fields, "channel");
                let unwanted = left.get(&(host, channel)).filter(|(left, _)| {
                    event.at > story.is_told(host, *left)
                        && event.at < story.until
                        && !is_removal(story, host, channel, event.at)
                });
                found.extend(unwanted.map(|(left, kind)| {
                    let data = fields! { channel, left: *left };
                    Violation::new("news_are_wanted", event.host.as_ref(), event.at, kind, data)
                }));
            }
            // A connection keeps the order of its messages, whatever its faults are. The client does not note
            // the repetitions of its own actions, late reports of removals, and the actions inside an answer.
            EventKind::Milestone { name: "toolcall.client.overtaken", fields } => {
                story.cx.judges("news_are_wanted");
                let number = |name| MilestoneValue::number(fields, name).unwrap_or(0);
                let (number, included) = (number("number"), number("included"));
                let data = fields! { channel: text(fields, "channel"), number, included };
                let (at, kind) = (event.at, &INCLUDED_NEWS);
                found.push(Violation::new("news_are_wanted", event.host.as_ref(), at, kind, data));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// Returns whether an action of the session may report the removal of a chat. The host reports it also
/// to a window that watches only the chat, or whose subscription to the chat it answered just before.
fn is_removal(story: &Story<'_>, host: &str, channel: &str, at: Time) -> bool {
    let since = story.sent_since(host, at);
    let is_deleted = |chat: &str| chat != SESSION && story.existence.deleted_in(chat, since, at);
    let mut looks = story
        .watch_spans
        .iter()
        .filter(|look| look.host == host && look.from <= at && look.to >= since);
    let mut asks = story.asked.iter().filter(|(_, asked)| {
        asked.host == host && asked.at <= at && matches!(asked.verb(), "watch" | "watch-twice")
    });
    channel == SESSION
        && (looks.any(|look| is_deleted(look.channel))
            || asks.any(|(call, asked)| {
                asked.field("chat").is_some_and(is_deleted) && story.answered_at(*call) >= since
            }))
}

/// Returns whether an operation stops watching a channel.
pub(super) fn unwatches(asked: &UserOperation<'_>, channel: &str) -> bool {
    asked.verb() == "unwatch" && asked.field("channel") == Some(channel)
}

/// Returns whether an operation makes the client take part in the session.
pub(super) fn joins(asked: &UserOperation<'_>) -> bool {
    let looks_only = asked.operation.fields.get("looks-only").and_then(|only| only.as_bool());
    match asked.verb() {
        "reload" | "new-session" => true,
        "watch" => asked.field("chat") == Some(SESSION) && looks_only != Some(true),
        _ => false,
    }
}

impl Story<'_> {
    /// Counts a window whose user left the session, if the host knows that from this moment on.
    fn judges_place(&self, host: &str, left: Time, at: Time) {
        if self.has_left(host, left, at) {
            self.cx.judges("places_are_wanted");
        }
    }

    /// Returns the kind of the violation if a note says that a window gets no more news of a channel. The host
    /// may answer a request of the user for a removed chat with a newer chat of that name. A session that is
    /// created again may still take an action that the window sent to the older one, and then echoes it.
    fn ends_news(
        &self,
        note: &OfChannel,
        host: &str,
        channel: &str,
        at: Time,
    ) -> Option<&'static ViolationKind> {
        match note {
            OfChannel::Unsubscribed => Some(&UNWANTED_NEWS),
            OfChannel::Removed if !setup::is_session(channel) => {
                let mut asks = self.asks_for(host, channel, at);
                asks.all(|answered| answered < at).then_some(&NEWS_OF_THE_REMOVED)
            }
            _ => None,
        }
    }

    /// Returns when the requests of a user for a channel were answered that the user made by a time.
    fn asks_for(&self, host: &str, channel: &str, by: Time) -> impl Iterator<Item = Time> {
        let own = self.asked.iter().filter(move |(_, asked)| {
            asked.host == host
                && asked.at <= by
                && matches!(asked.verb(), "watch" | "watch-twice")
                && asked.field("chat") == Some(channel)
        });
        own.map(move |(call, _)| self.answered_at(*call))
    }

    /// Returns whether the host knows that the user of a window has unsubscribed from all channels: no
    /// connection of the window that existed then, except its present one, is left at the host. A
    /// handshake over another connection may name the channels, too. While a fault holds a task of
    /// the host, the host does not know that a connection is over.
    fn has_left(&self, host: &str, left: Time, at: Time) -> bool {
        let own = || self.attached.iter().filter(|attached| window(attached.client) == host);
        let present = own().filter(|attached| attached.at <= at && !attached.is_second());
        let present = present.map(|attached| attached.at).max();
        let is_present = |conn: usize| {
            own().any(|attached| attached.conn == conn && Some(attached.at) == present)
        };
        let is_arriving = self.arriving.iter().any(|attempt| {
            window(attempt.client) == host
                && attempt.from <= at
                && self.later(attempt.to, Duration::ZERO) > left
                && !is_present(attempt.conn)
        });
        let is_attached = own().any(|attached| {
            attached.at <= at
                && self.later(attached.over, Duration::ZERO) > left
                && (attached.is_second() || Some(attached.at) != present)
        });
        !is_arriving && !is_attached
    }

    /// Returns whether a user that left the session, which was confirmed at a moment, had taken part in it
    /// for a while, and no operation makes its client take part again.
    fn leaves_for_good(&self, left: &UserOperation<'_>, confirmed: Time) -> bool {
        let (host, before) = (left.host, left.at.before(self.moment() * 2));
        let mut again = self.asked.iter().filter(|(call, other)| {
            other.host == host
                && joins(other)
                && other.at <= confirmed
                && self.answered_at(**call) >= left.at
        });
        self.has_settled_in(host, before)
            && self.takes_part(host, before, left.at)
            && self.is_calm(host, before, confirmed)
            && again.next().is_none()
    }

    /// Returns whether the host must know that a connected client is not subscribed to a chat: its only
    /// connection has been there for a while without faults, and its user has neither watched the chat
    /// nor asked for it in that time.
    pub(super) fn holds_nothing_of(&self, client: &str, chat: &str, at: Time) -> bool {
        self.held_nothing_of(client, chat, at.before(self.moment() * 2), at)
    }

    /// Returns the same for an interval: in all of it, the only connection of the client was there.
    pub(super) fn held_nothing_of(&self, client: &str, chat: &str, from: Time, to: Time) -> bool {
        let host = window(client);
        let mut conns = self.of_client(client, to).filter(|attached| attached.over > from);
        let (Some(only), None) = (conns.next(), conns.next()) else { return false };
        let is_there = only.at < from && only.is_live(to) && !only.is_second();
        is_there
            && self.is_newest(client, to)
            && self.is_calm(host, from, to)
            && self.was_retransmitted(only, from)
            && self.has_settled_in(host, from)
            && !self.may_hold(host, chat, from, to)
    }

    /// Returns whether the user of a window watched a channel in an interval, or waited for it. If
    /// a second request for a channel fails, its user stops watching, and the client does not.
    fn may_hold(&self, host: &str, channel: &str, from: Time, to: Time) -> bool {
        let looks = || {
            self.watch_spans
                .iter()
                .filter(|look| look.host == host && look.channel == channel && look.from <= to)
        };
        let mut ends = self.asks_for(host, channel, to);
        looks().any(|look| look.to >= from)
            || ends.any(|end| end >= from || looks().any(|look| look.to == end))
    }

    /// Returns whether a window has received all channels that it watches from the start: before that,
    /// it may subscribe to a channel after its user has unsubscribed.
    fn has_settled_in(&self, host: &str, at: Time) -> bool {
        let starts = self
            .asked
            .values()
            .filter(|asked| asked.host == host && asked.verb() == "reload" && asked.at <= at);
        let since = starts.map(|asked| asked.at).max().unwrap_or(Time::ZERO);
        let is_there = |channel: &String| {
            self.watch_spans.iter().any(|look| {
                look.host == host && look.channel == channel && look.from >= since && look.from < at
            })
        };
        self.deaths_of(host).all(|death| death > at)
            && setup::watched(self.cx.plan).iter().all(is_there)
    }

    /// The time by which the host must have learned that the user of a window unsubscribed, and what it
    /// sent before has arrived.
    fn is_told(&self, host: &str, left: Time) -> Time {
        let own = self
            .attached
            .iter()
            .filter(|attached| window(attached.client) == host && !attached.is_second());
        let told = own.filter(|attached| attached.gone > left).map(|attached| attached.at).min();
        let told = told.map_or(crate::property::path::NEVER, |told| told.max(left));
        let bound = self.later(told, self.moment());
        match self.is_calm(host, told, bound) {
            true => bound,
            false => self.reconnects_by(host, told),
        }
    }
}
