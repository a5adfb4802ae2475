//! The bounds of the counts of a host.

use std::collections::BTreeSet;

use super::ledger::Scene;
use crate::property::path::NEVER;
use crate::subjects::toolcall::properties::facts::{HostConnection, MS, WatchSpan};
use crate::subjects::toolcall::properties::story::window;
use crate::subjects::toolcall::setup;
use reknit_toolcall::wire::ROOT;

/// The connections that the host has accepted and neither end has left.
fn accepted<'a>(scene: &Scene<'_, 'a>) -> impl Iterator<Item = &'a HostConnection<'a>> {
    let attached = scene.story().attached.iter();
    attached.filter(move |attached| scene.has(attached.at, attached.gone.min(attached.over)))
}

/// The connections that the host may still have.
fn remaining<'a>(scene: &Scene<'_, 'a>) -> impl Iterator<Item = &'a HostConnection<'a>> {
    let attached = scene.story().attached.iter();
    attached.filter(move |attached| scene.may_have(attached.at, attached.over))
}

pub(super) fn least_connections(scene: &Scene<'_, '_>) -> usize {
    accepted(scene).map(|attached| attached.conn).collect::<BTreeSet<_>>().len()
}

pub(super) fn most_connections(scene: &Scene<'_, '_>) -> Option<usize> {
    let conns = &scene.story().cx.history.conns;
    let up = scene.ledger.up.iter().filter_map(|conn| conns.get(*conn));
    let open = up.filter(|conn| scene.may_have(conn.opened, conn.over.1.unwrap_or(NEVER)));
    Some(open.count())
}

/// The host remembers a client for its retention.
pub(super) fn least_clients(scene: &Scene<'_, '_>) -> usize {
    let retention = scene.story().host_limits.client_retention;
    let attached = scene.story().attached.iter();
    let known = attached.filter(|attached| scene.has(attached.at, attached.over + retention));
    known.map(|attached| attached.client).collect::<BTreeSet<_>>().len()
}

/// A handshake, and work that depends on a client, prolong the retention. The host may also count the
/// owner of a call.
pub(super) fn most_clients(scene: &Scene<'_, '_>) -> Option<usize> {
    let story = scene.story();
    let kept = story.host_limits.client_retention.max(story.host_limits.grace);
    let known = story.attached.iter().filter(|attached| {
        let forgotten = story.no_handshake(attached.client, story.later(attached.over, kept));
        scene.may_have(attached.at, forgotten)
    });
    let calls = story.calls.iter().filter(|call| call.began <= scene.now);
    let owners = calls.map(|call| call.owner).filter(|owner| !owner.is_empty());
    let all = known.map(|attached| attached.client).chain(owners);
    Some(all.collect::<BTreeSet<_>>().len())
}

/// The own connection of a window is subscribed to what its user watches. The user may still watch a
/// channel that was removed.
pub(super) fn least_subscriptions(scene: &Scene<'_, '_>) -> usize {
    let story = scene.story();
    let main = accepted(scene)
        .filter(|attached| !attached.is_second() && story.is_newest(attached.client, scene.now));
    let hosts: BTreeSet<&str> = main.map(|attached| window(attached.client)).collect();
    let looks = story.watch_spans.iter().filter(|look| scene.has(look.from, look.to));
    let own =
        looks.filter(|look| hosts.contains(look.host) && !story.may_be_outdated(look, scene.now));
    own.map(|look| (look.host, look.channel)).collect::<BTreeSet<_>>().len()
}

/// A connection has at most one subscription to each channel that exists, and to the root, and those
/// that the host has not answered yet.
pub(super) fn most_subscriptions(scene: &Scene<'_, '_>) -> Option<usize> {
    let (from, to) = scene.around();
    let existing = 1 + scene.story().existence.count_in(from, to);
    let of_each = remaining(scene).map(|attached| {
        let host = window(attached.client);
        existing + scene.asked_for(host).count() + scene.not_received(host).count()
    });
    Some(of_each.sum())
}

/// A chat is in memory while a user watches it, or a turn is in progress in it. A handshake and a client
/// with a false claim load chats, too. A second connection of a window keeps what the window watched or asked
/// for when it opened.
pub(super) fn most_chats(scene: &Scene<'_, '_>) -> Option<usize> {
    let story = scene.story();
    let restore = story.host_limits.restore_deadline;
    let mut handshakes = story.arriving.iter();
    let mut asked = scene.ledger.asked.values();
    if handshakes.any(|attempt| scene.may_have(attempt.from, attempt.to + restore))
        || asked.any(|asked| asked.operation.verb == "claim" && asked.at <= scene.now)
        || remaining(scene).any(HostConnection::is_second)
    {
        return None;
    }
    let (from, to) = scene.around();
    let mut chats: BTreeSet<&str> = story.existence.chats_of_turns_in(from, to).collect();
    let held = story.watch_spans.iter().filter(|look| is_held(scene, look));
    chats.extend(held.map(|look| look.channel));
    for host in story.cx.plan.client_hosts() {
        chats.extend(scene.asked_for(host.as_str()));
        chats.extend(scene.not_received(host.as_str()));
    }
    chats.retain(|chat| !setup::is_session(chat) && *chat != ROOT);
    Some(chats.len())
}

/// Returns whether a connection may hold a channel that a user has watched. A window with one connection
/// holds what its user watches now. An older connection may hold everything that the user has watched since.
fn is_held(scene: &Scene<'_, '_>, look: &WatchSpan<'_>) -> bool {
    let own = || remaining(scene).filter(|attached| window(attached.client) == look.host);
    let lags = own().count() > 1;
    let since = own().map(|attached| attached.asked_at().before(MS)).min();
    since.is_some_and(|since| {
        let since = if lags { since } else { scene.now };
        let (from, to) = scene.around();
        look.from <= to && look.to >= since.min(from)
    })
}

pub(super) fn least_turns(scene: &Scene<'_, '_>) -> usize {
    let (from, to) = scene.around();
    let turns = scene.story().existence.chats_of_turns_throughout(from, to);
    turns.collect::<BTreeSet<_>>().len()
}

pub(super) fn most_turns(scene: &Scene<'_, '_>) -> Option<usize> {
    let (from, to) = scene.around();
    let turns = scene.story().existence.chats_of_turns_in(from, to);
    Some(turns.collect::<BTreeSet<_>>().len())
}

pub(super) fn most_outcomes(scene: &Scene<'_, '_>) -> Option<usize> {
    most_clients(scene).map(|clients| clients.saturating_mul(scene.story().host_limits.outcomes))
}
