//! G5: the state of a channel in a window converges to the host's state, and the host replays
//! missed actions if possible.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::facts::{HostConnection, UserOperation, text};
use super::places::unwatches;
use super::room::{StatesAsked, may_exceed_an_answer};
use super::story::{Story, window};
use crate::history::{ConnIndex, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation, ViolationFields};
use crate::schedule::MilestoneValue;
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::notes::OfChannel;
use crate::subjects::toolcall::setup::SESSION;

kinds! {
    pub(super) REPLICAS_CONVERGE;
    WINDOW_DIFFERS = "window-differs": "{subject:}the state that the window of {host} has had since {here} differs from the state that the host has had since {there} {moment}";
    SECOND_DIFFERS = "second-differs": "{subject:}the state that a second connection of {host} has had since {here} differs from the state that the host has had since {there} {moment}";
}

kinds! {
    pub(super) REPLAY_IS_USED;
    FROM_THE_FUTURE = "from-the-future": "{subject:}it counts action {seen} as seen, although the host had performed only {number} {moment}";
    EVERYTHING_AGAIN = "everything-again": "{subject:}it received snapshots, although the host still keeps all actions that it missed {moment}";
}

/// The digest of a stable state, and the time since when it is stable.
type Settled<'a> = Option<(&'a str, Time)>;

/// The digest of a channel that no longer exists.
const GONE: &str = "";

/// If the states of both have been stable for a while, they are equal.
pub(super) fn replicas_converge(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let mut at_rest =
        ReplicaCheck { story, truth: BTreeMap::new(), known: BTreeMap::new(), found: Vec::new() };
    for event in judged(story.cx) {
        match &event.what {
            EventKind::Observed { stream, saw } => {
                let note = saw.downcast_ref();
                note.into_iter()
                    .for_each(|note| at_rest.pass(event.at, host(event), &stream.0, note));
            }
            EventKind::Died { .. } => at_rest.died(event.at, host(event)),
            _ => {}
        }
    }
    at_rest.compare_all(story.until);
    at_rest.found.truncate(5);
    at_rest.found
}

struct ReplicaCheck<'s, 'a> {
    story: &'s Story<'a>,
    /// By channel.
    truth: BTreeMap<&'a str, Settled<'a>>,
    /// By window, channel, and whether it is a second connection.
    known: BTreeMap<(&'a str, &'a str, bool), Settled<'a>>,
    found: Vec<Violation>,
}

impl<'a> ReplicaCheck<'_, 'a> {
    fn pass(&mut self, at: Time, host: &'a str, channel: &'a str, note: &'a OfChannel) {
        let is_server = self.story.cx.servers.contains(&host);
        match note {
            OfChannel::Changed | OfChannel::Received if is_server => {
                self.compare_all(at);
                self.truth.insert(channel, None);
            }
            OfChannel::Removed if is_server => drop(self.truth.insert(channel, Some((GONE, at)))),
            OfChannel::Stable { digest, .. } if is_server => {
                self.truth.insert(channel, Some((digest, at)));
            }
            OfChannel::Changed | OfChannel::Received => self.rests(host, channel, false, None, at),
            OfChannel::Stable { digest, second, .. } => {
                self.rests(host, channel, *second, Some((digest, at)), at)
            }
            OfChannel::Unsubscribed | OfChannel::Removed => {
                self.compare(host, channel, false, at);
                self.known.remove(&(host, channel, false));
            }
            _ => {}
        }
    }

    /// A dead client loses its states. A restarted host records the digests of its saved states
    /// again.
    fn died(&mut self, at: Time, host: &str) {
        self.compare_all(at);
        if self.story.cx.servers.contains(&host) {
            self.truth.clear();
        } else {
            self.known.retain(|(of, ..), _| *of != host);
        }
    }

    fn rests(
        &mut self,
        host: &'a str,
        channel: &'a str,
        second: bool,
        settled: Settled<'a>,
        at: Time,
    ) {
        self.compare(host, channel, second, at);
        self.known.insert((host, channel, second), settled);
    }

    fn compare_all(&mut self, at: Time) {
        let keys: Vec<_> = self.known.keys().copied().collect();
        keys.into_iter()
            .for_each(|(host, channel, second)| self.compare(host, channel, second, at));
    }

    /// Compares the states that were stable until this moment.
    fn compare(&mut self, host: &'a str, channel: &'a str, second: bool, at: Time) {
        let Some(Some((known, here))) = self.known.get(&(host, channel, second)).copied() else {
            return;
        };
        let Some(Some((truth, there))) = self.truth.get(channel).copied() else { return };
        let quiet = self.story.moment() * 2;
        if known == GONE || at > self.story.until || at.since(here.max(there)) < quiet {
            return;
        }
        if second && !self.is_of_the_only_second(host, here, at) {
            return;
        }
        let since = here.max(there).max(self.connected_since(host, second, at).unwrap_or(at));
        let calm = self.story.calm_since(host, at).max(since);
        if at.since(calm) < quiet {
            return;
        }
        // The newest change may come behind states that the window asked for before.
        let arrives = || StatesAsked::of(self.story, host).until(there);
        if known != truth && !second && at.since(arrives()) < quiet {
            return;
        }
        self.story.cx.judges("replicas_converge");
        if known != truth {
            let kind = if second { &SECOND_DIFFERS } else { &WINDOW_DIFFERS };
            self.found.push(Violation::new(
                "replicas_converge",
                channel,
                at,
                kind,
                fields! { host, here, there },
            ));
            self.known.insert((host, channel, second), None);
        }
    }

    /// Returns whether a window has had only one second connection since the state of that
    /// connection was noted.
    fn is_of_the_only_second(&self, host: &str, noted: Time, at: Time) -> bool {
        let own = self
            .story
            .attached
            .iter()
            .filter(|attached| window(attached.client) == host && attached.is_second());
        let mut there = own.filter(|attached| attached.at <= at && attached.gone >= noted);
        there.next().is_some_and(|only| only.at <= noted) && there.next().is_none()
    }

    /// The start of the newest connection of that kind, if it is still open at this moment.
    fn connected_since(&self, host: &str, second: bool, at: Time) -> Option<Time> {
        let own =
            self.story.attached.iter().filter(|attached| {
                window(attached.client) == host && attached.is_second() == second
            });
        let newest = own.filter(|attached| attached.at <= at).max_by_key(|attached| attached.at)?;
        (newest.gone >= at && newest.over >= at).then_some(newest.at)
    }
}

/// A client has seen no action that its host has not performed: the host could not replay what follows.
/// The numbers of a restarted host begin again, and its clients initialize again.
fn from_the_future(story: &Story<'_>) -> Vec<Violation> {
    let mut opened: BTreeMap<&str, usize> = BTreeMap::new();
    // The windows that this incarnation of the host has initialized, each with the last action that it
    // has seen.
    let mut seen: BTreeMap<&str, Option<u64>> = BTreeMap::new();
    // The number of the last action of the host, while nothing happens there.
    let mut last: Option<u64> = None;
    let mut died = Time::ZERO;
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let (at, host) = (event.at, host(event));
        let is_server = story.cx.servers.contains(&host);
        match &event.what {
            EventKind::Died { .. } if is_server => {
                (last, died) = (None, at);
                seen.clear();
            }
            EventKind::Died { .. } => drop(seen.remove(host)),
            EventKind::Milestone { name: "toolcall.client.opened", fields } => {
                let conn = ConnIndex::from_fields(fields).map(|ConnIndex(index)| index);
                conn.into_iter().for_each(|conn| _ = opened.insert(host, conn));
            }
            // A fault may delay the answer of a host until after its death.
            EventKind::Milestone { name: "toolcall.client.initialized", .. } => {
                let conn = opened.get(host);
                let mut accepted = story.attached.iter().filter(|attached| attached.at > died);
                if accepted.any(|attached| Some(&attached.conn) == conn) {
                    seen.insert(host, None);
                }
            }
            EventKind::Observed { saw, .. } => match saw.downcast_ref() {
                Some(OfChannel::Changed) if is_server => last = None,
                Some(OfChannel::Stable { number: Some(number), .. }) if is_server => {
                    last = Some(*number);
                }
                Some(OfChannel::Stable { number: Some(number), .. }) => {
                    seen.entry(host).and_modify(|seen| *seen = Some(*number));
                }
                _ => continue,
            },
            _ => continue,
        }
        let Some(number) = last else { continue };
        for (window, cursor) in &mut seen {
            if cursor.is_some() {
                story.cx.judges("replay_is_used");
            }
            if let Some(seen) = cursor.take_if(|seen| *seen > number) {
                let data = fields! { seen, number };
                found.push(Violation::new("replay_is_used", *window, at, &FROM_THE_FUTURE, data));
            }
        }
    }
    found.truncate(5);
    found
}

/// If the host still has all actions that a client missed, it replays them instead of sending
/// snapshots.
pub(super) fn replay_is_used(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let mut found = from_the_future(story);
    let defaults = super::story::defaults();
    let is_small = story.host_limits.log_actions < defaults.log_actions
        || story.host_limits.log_bytes < defaults.log_bytes;
    // If there are more actions than the host retains, it cannot replay them.
    if is_small || exceeds_replay_log(story.cx) {
        return found;
    }
    let mut unheard: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut conns: BTreeMap<u64, &str> = BTreeMap::new();
    // The connections in their handshake, and those whose client began anew on another connection
    // since they were opened: perhaps after a reload with the same id.
    let mut arriving: BTreeMap<u64, &str> = BTreeMap::new();
    let mut outdated: BTreeSet<u64> = BTreeSet::new();
    let mut anew: BTreeMap<&str, Time> = BTreeMap::new();
    for event in judged(story.cx) {
        match &event.what {
            EventKind::Milestone { name, fields } => {
                let conn = MilestoneValue::number(fields, "conn").unwrap_or(0);
                let client = text(fields, "client");
                match *name {
                    "toolcall.host.arriving" => {
                        arriving.insert(conn, client);
                        let opened = ConnIndex::from_fields(fields)
                            .and_then(|ConnIndex(index)| story.cx.history.conns.get(index))
                            .map(|conn| conn.opened);
                        let began = anew.get(client).copied();
                        if opened.zip(began).is_some_and(|(opened, began)| opened < began) {
                            outdated.insert(conn);
                        } else {
                            outdated.remove(&conn);
                        }
                    }
                    "toolcall.host.initialized" | "toolcall.host.replayed" => {
                        let has_all = unheard.get(client).is_some_and(BTreeSet::is_empty);
                        if *name == "toolcall.host.replayed" && has_all && !outdated.contains(&conn)
                        {
                            story.cx.judges("replay_is_used");
                        }
                        conns.insert(conn, client);
                        arriving.remove(&conn);
                        if *name == "toolcall.host.initialized" {
                            let others = arriving.iter().filter(|(_, other)| **other == client);
                            outdated.extend(others.map(|(conn, _)| *conn));
                            anew.insert(client, event.at);
                            unheard.entry(client).or_default().insert("everything");
                        }
                    }
                    "toolcall.host.reseated" => {
                        conns.insert(conn, client);
                        arriving.remove(&conn);
                        let has_all = unheard.get(client).is_some_and(BTreeSet::is_empty);
                        if has_all
                            && !outdated.contains(&conn)
                            && !unsubscribed_late(story, client, event.at)
                            && !may_exceed_an_answer(story, client, event.at)
                        {
                            story.cx.judges("replay_is_used");
                            let data = ViolationFields::default();
                            found.push(Violation::new(
                                "replay_is_used",
                                client,
                                event.at,
                                &EVERYTHING_AGAIN,
                                data,
                            ));
                        }
                        unheard.entry(client).or_default().insert("everything");
                    }
                    "toolcall.host.subscribed" => {
                        let client = conns.get(&conn).copied().unwrap_or_default();
                        unheard.entry(client).or_default().insert(text(fields, "channel"));
                    }
                    "toolcall.client.connected" => {
                        let own =
                            unheard.iter_mut().filter(|(client, _)| window(client) == host(event));
                        let seconds = story.attached.iter().any(|attached| {
                            attached.is_second() && window(attached.client) == host(event)
                        });
                        own.filter(|_| !seconds)
                            .for_each(|(_, unheard)| _ = unheard.remove("everything"));
                    }
                    _ => {}
                }
            }
            EventKind::Observed { stream, saw }
                if saw.downcast_ref() == Some(&OfChannel::Received) =>
            {
                let own = unheard.iter_mut().filter(|(client, _)| window(client) == host(event));
                own.for_each(|(_, unheard)| _ = unheard.remove(&*stream.0));
            }
            _ => {}
        }
    }
    found
}

/// Returns whether the host may have read that a client unsubscribed from a channel after the client
/// received the channel again over a newer connection. The host cannot know that this is late, so
/// the client counts as one without that state until the host sends it again.
fn unsubscribed_late(story: &Story<'_>, client: &str, at: Time) -> bool {
    let host = window(client);
    let mut left = story.asked.values().filter(|asked| asked.host == host && asked.at <= at);
    left.any(|asked| {
        // The client sends over a connection what its user asked for during the handshake there.
        let is_used = |older: &HostConnection<'_>| {
            story.opened(older).unwrap_or(older.at) <= asked.at && older.gone >= asked.at
        };
        let mut used = story.of_client(client, at).filter(|older| is_used(older));
        used.any(|older| {
            let arrives = story.later(older.received, Duration::ZERO);
            let since = asked.at.max(older.at);
            let is_late = story.of_client(client, arrives).any(|newer| newer.at > since);
            let is_newer = |channel: &str| {
                let looks = story.watch_spans.iter().filter(|look| {
                    look.host == host && look.channel == channel && look.from > asked.at
                });
                let newest = looks.map(|look| look.from).filter(|from| *from < at).max();
                newest.is_some_and(|newest| newest <= arrives)
            };
            is_late && unsubscribed(story, asked).into_iter().any(is_newer)
        })
    })
}

/// Returns the channels from which an operation unsubscribes. A user that stops watching the session
/// stops watching everything.
fn unsubscribed<'a>(story: &Story<'a>, asked: &UserOperation<'a>) -> Vec<&'a str> {
    let own = match asked.verb() {
        "unwatch" => asked.field("channel"),
        "watch-twice" => asked.field("chat"),
        _ => None,
    };
    let ended = story
        .watch_spans
        .iter()
        .filter(|look| unwatches(asked, SESSION) && look.host == asked.host && look.to == asked.at);
    own.into_iter().chain(ended.map(|look| look.channel)).collect()
}

/// Returns whether there are so many actions that the host may not retain all of them.
fn exceeds_replay_log(cx: &CheckContext<'_>) -> bool {
    let items = cx
        .history
        .events
        .iter()
        .filter(|event| matches!(event.what, EventKind::Produced { .. }))
        .count();
    items > super::story::defaults().log_actions / 2
}
