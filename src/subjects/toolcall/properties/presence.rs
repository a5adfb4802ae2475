//! Properties of presence: if a client is absent, the host releases everything that depends on it,
//! in time and never too early.

use std::time::Duration;

use super::calls::offers;
use super::deadlines::with_delay;
use super::facts::{CallStory, FailedCall, HostConnection, MS, UserOperation, WatchSpan, text};
use super::outcomes::TOO_LONG;
use super::story::{Story, is_second, window};
use crate::history::{Answer, Call, Event, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Phrase, Violation, ViolationFields};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::notes::{CallEnd, OfChannel, ToolWork};
use crate::subjects::toolcall::setup::{SESSION, STRANGER};

kinds! {
    pub(super) NO_LIVE_CLIENT_FAILED;
    UNKNOWN = "unknown": "{subject:}the host failed it, although it does not know that the owner is absent {moment}";
    WITHOUT_CAUSE = "without-cause": "{subject:}{call} failed ({why}), although its owner {owner} was connected and subscribed to {chat}, and its tool had not ended {moment}";
    CONNECTED = "connected": "{subject:}the host failed it, although its owner {owner} was connected and subscribed to {chat} {moment}";
    BESIDE = "beside": "{subject:}the host failed it, although a second connection of its owner {owner} was subscribed to {chat} {moment}";
}

kinds! {
    pub(super) GONE_IS_FAILED;
    NOT_OVER = "not-over": "{subject:}{call} had not ended by {at}, although its owner {owner} was absent since {gone}: {terms}";
    NOT_HELD = "not-held": "{subject:}{call} had not ended by {at}, although its owner {owner} was connected and did not watch {chat} since {since}: {terms}";
}

// The terms of these bounds.
kinds! {
    GRACE_SUM = "grace-sum": "{from} + {grace} grace + {margin}";
    SILENCE_SUM = "silence-sum": "{heard} + {detection} detection + {grace} grace + {margin}";
    CALL_SUM = "call-sum": "{began} + {margin}";
}

kinds! {
    pub(super) RETURNING_KEEPS;
    RELEASED = "released": "{subject:}the host failed it as its owner {owner} returned and named {chat} {moment}";
    RELEASED_SOON = "released-soon": "{subject:}the host failed it at {at}, although its owner {owner} was back only since {back}";
    FAILED_SOON = "failed-soon": "{subject:}the host failed it at {at}, although its owner {owner} was absent only since {away}";
    LOST_ITS_PLACE = "lost-its-place": "{subject:}it lost its place in the session at {at}, although {why}";
}

// Parts of these messages: the reason why a client keeps its place.
kinds! {
    AWAY_SINCE = "away-since": "it was absent only since {away}";
    HERE = "here": "it was connected and subscribed to the session";
    BACK_SINCE = "back-since": "it was back only since {back}";
}

kinds! {
    pub(super) RELEASED_AT_ONCE;
    STILL_OPEN = "still-open": "{subject:}{call} had not ended by {at}, although its owner {owner} unsubscribed from {channel} at {released}";
    LEFT_OPEN = "left-open": "{subject:}{call} had not ended by {at}, although its owner {owner} left {channel} at {released}";
}

kinds! {
    pub(super) HOLDS_ARE_EXACT;
    EVICTED = "evicted": "{subject:}it was unloaded, although {holder} was subscribed to it (on {host}, at {at})";
}

/// G1: the host does not fail a call while its owner is connected and watches the chat.
pub(super) fn no_live_client_failed(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for failed in &story.failed {
        let (at, owner) = (failed.at, failed.owner);
        let looks = |channel| story.watches_the_present(window(owner), channel, at);
        if story.has_left_the_session(window(owner), at) {
            continue;
        }
        story.cx.judges("no_live_client_failed");
        let (kind, data) = if owner == STRANGER {
            (&UNKNOWN, ViolationFields::default())
        } else if is_live(story, failed, at.before(MS))
            && is_live(story, failed, at)
            && looks(failed.chat)
            && looks(SESSION)
        {
            (&CONNECTED, fields! { owner, chat: failed.chat })
        } else if !failed.away && second_holds(story, failed) {
            (&BESIDE, fields! { owner, chat: failed.chat })
        } else {
            continue;
        };
        found.push(Violation::new("no_live_client_failed", failed.call, at, kind, data));
    }
    found.extend(story.calls.iter().filter_map(|call| failed_without_cause(story, call)));
    found
}

/// Returns whether the only second connection of a window has held the chat of a failed call, and its
/// session, without a break: the window watched both when it opened the connection, and both exist
/// since then.
fn second_holds(story: &Story<'_>, failed: &FailedCall<'_>) -> bool {
    let at = failed.at;
    let mut seconds = story
        .attached
        .iter()
        .filter(|attached| window(attached.client) == window(failed.owner) && attached.is_second());
    let (Some(second), None) = (seconds.next(), seconds.next()) else { return false };
    let opened = second.asked_at().before(story.moment());
    let holds = |channel: &str| {
        story.watches(window(failed.owner), channel, opened, second.at)
            && story.existence.throughout(channel, opened, at).is_some()
            && !story.restores_slowly(channel)
    };
    second.client == failed.owner
        && second.at < at.before(MS)
        && second.is_live(at)
        && !story.drops_large_channels()
        && [failed.chat, SESSION].into_iter().all(holds)
}

/// Detects that a call failed for its agent, by whatever path, although its owner was there to run it
/// all the time. A puppet reports any result. A result that a user reports, and that does not fit into
/// the chat, ends the call while its tool works.
fn failed_without_cause(story: &Story<'_>, call: &CallStory<'_>) -> Option<Violation> {
    let (at, CallEnd::Failed(why)) = call.over? else { return None };
    let CallStory { id, owner, chat, turn, began, .. } = call;
    let host = window(owner);
    let tool_ended =
        call.tools.iter().any(|(when, _, what)| *what == ToolWork::Ends && *when <= at);
    let is_announced = story.failed.iter().any(|failed| failed.call == *id && failed.at == at);
    let is_puppet = story.cx.plan.puppets.keys().any(|puppet| puppet.as_str() == host);
    let has_left = story.has_left_the_session(host, at);
    let is_reported = why == TOO_LONG && story.may_be_full() && story.reports_result(call, at);
    if owner.is_empty() || tool_ended || is_announced || is_puppet || has_left || is_reported {
        return None;
    }
    story.cx.judges("no_live_client_failed");
    let is_there = || {
        [at.before(MS), at].iter().all(|at| story.has_main_connection(owner, *at))
            && [chat, SESSION].iter().all(|channel| story.watches(host, channel, *began, at))
            && offers(story, host, call)
    };
    (*owner == STRANGER || is_there()).then(|| {
        let data = fields! { call: *id, why, owner: *owner, chat: *chat };
        Violation::new("no_live_client_failed", *turn, at, &WITHOUT_CAUSE, data)
    })
}

/// Returns whether the owner of a failed call had a connection that counts. A second connection may
/// not have received the chat, so it does not count if the call failed because of a release.
fn is_live(story: &Story<'_>, failed: &FailedCall<'_>, at: Time) -> bool {
    story
        .of_client(failed.owner, at)
        .any(|attached| attached.is_live(at) && (failed.away || !attached.is_second()))
}

/// The time that a host may take for an action that is due.
const AT_ONCE: Duration = Duration::from_millis(100);

/// G2: the host fails the calls of an absent owner after the grace period. A call whose result waits for
/// consent needs no owner.
pub(super) fn gone_is_failed(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in story.calls.iter().filter(|call| !call.owner.is_empty()) {
        if let Some(due @ DueCall { gone, bound, .. }) = due(story, call)
            && bound < story.until
            && call.left > gone
            && call.given_up > bound
            && !story.reports_result(call, bound)
        {
            story.cx.judges("gone_is_failed");
            if call.over.is_none_or(|(over, _)| over > bound) && call.goes_on(bound) {
                let CallStory { id, owner, turn, .. } = call;
                let data = fields! { call: id, owner, gone, terms: due.terms(story, call) };
                found.push(Violation::new("gone_is_failed", *turn, bound, &NOT_OVER, data));
            }
        }
        found.extend(not_held(story, call));
    }
    found
}

/// Detects a call that goes on although its owner is connected, and has not been subscribed to the chat for
/// the grace period. That begins when the owner is back, or with the call. A call whose result waits for
/// consent needs no owner.
fn not_held(story: &Story<'_>, call: &CallStory<'_>) -> Option<Violation> {
    let CallStory { id, owner, chat, turn, began, .. } = call;
    if !story.cx.is_honest() || story.reports_result(call, story.until) {
        return None;
    }
    let (host, moments) = (window(owner), story.moment() * 2);
    let back = story.of_client(owner, story.until).map(|attached| attached.at);
    let looks = story.watch_spans.iter().filter(|look| look.host == host).map(|look| look.from);
    let later = back.chain(looks).filter(|at| at > began).map(|at| (at + MS, at + MS + moments));
    // The host knows at `since` what is true since `from`.
    let late = later.chain([(began.before(moments), *began)]).filter_map(|(from, since)| {
        let bound = story.later(since, story.host_limits.grace + story.moment());
        let mut handshakes = story.arriving.iter().filter(|attempt| attempt.client == *owner);
        let is_due = bound < story.until
            && call.left > since
            && call.given_up > bound
            && !handshakes.any(|attempt| attempt.from <= bound && attempt.to >= from)
            && story.held_nothing_of(owner, chat, from, bound);
        if is_due {
            story.cx.judges("gone_is_failed");
        }
        (is_due && call.goes_on(bound)).then_some((bound, since))
    });
    let (bound, since) = late.min()?;
    let (grace, margin) = (story.host_limits.grace, story.moment());
    let sum = Phrase::new(&GRACE_SUM, fields! { from: since, grace, margin });
    let terms = with_delay(sum, bound.since(since + grace + margin));
    let data = fields! { call: *id, owner: *owner, chat: *chat, since, terms };
    Some(Violation::new("gone_is_failed", *turn, bound, &NOT_HELD, data))
}

/// When a call of an absent owner must be over.
#[derive(Clone, Copy)]
struct DueCall {
    /// The time from which the owner of the call is permanently absent.
    gone: Time,
    /// The time by which the host knows that.
    noticed: Time,
    /// Whether the network reported the end of the last connection to the host.
    was_reported: bool,
    /// The time by which the agent must have received the end of the call.
    bound: Time,
}

impl DueCall {
    /// The time that the host may take after the grace period. If the network reported the end to the host,
    /// the grace period starts at exactly that moment. If the host has to detect the end, it may be late.
    fn margin(was_reported: bool, story: &Story<'_>) -> Duration {
        if was_reported { AT_ONCE } else { story.moment() }
    }

    /// The terms of the bound. A call may begin after the grace period.
    fn terms(self, story: &Story<'_>, call: &CallStory<'_>) -> Phrase {
        let Self { noticed, was_reported, bound, .. } = self;
        let (grace, detection) = (story.host_limits.grace, story.host_detection());
        let margin = Self::margin(was_reported, story);
        let (sum, from) = if call.began > story.later(noticed, grace) {
            (Phrase::new(&CALL_SUM, fields! { began: call.began, margin }), call.began)
        } else if was_reported {
            (Phrase::new(&GRACE_SUM, fields! { from: noticed, grace, margin }), noticed + grace)
        } else {
            let heard = noticed.before(detection);
            let sum = fields! { heard, detection, grace, margin };
            (Phrase::new(&SILENCE_SUM, sum), noticed + grace)
        };
        with_delay(sum, bound.since(from + margin))
    }
}

/// Returns when a call must be over, if its owner is permanently absent.
fn due(story: &Story<'_>, call: &CallStory<'_>) -> Option<DueCall> {
    let own = || story.attached.iter().filter(|attached| attached.client == call.owner);
    // A fault may have held the last data of a client whose end is over. The host's silence begins
    // when that data arrives.
    let silent = |attached: &HostConnection<'_>| attached.gone.max(attached.received);
    let noticed = own()
        .map(|attached| attached.over.min(story.later(silent(attached), story.host_detection())))
        .max()?;
    let gone = own().map(|attached| attached.gone.min(attached.over)).max()?;
    if noticed >= story.until {
        return None;
    }
    let over = story
        .no_handshake(call.owner, story.later(noticed, story.host_limits.grace).max(call.began));
    let was_reported = own().map(|attached| attached.over).max() == Some(noticed);
    let bound = story.later(over, DueCall::margin(was_reported, story));
    // A host that died has forgotten the call.
    let dies = story.deaths.iter().any(|death| (call.began..=bound).contains(death));
    let due = DueCall { gone, noticed, was_reported, bound };
    (!dies && story.is_known(call.owner, call.began)).then_some(due)
}

/// G3: the host releases nothing while its client is connected, or before the grace period has
/// passed.
pub(super) fn returning_keeps(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for failed in story.failed.iter().filter(|failed| !failed.away) {
        let FailedCall { at, chat, owner, .. } = *failed;
        let mut named = [chat, SESSION].into_iter();
        // A chat that does not fit into the answer is missing for its window.
        if !story.may_lack_room(window(owner), chat, at)
            && !story.may_end_wait(owner, chat, at)
            && story.watches_the_present(window(owner), chat, at)
            && named.all(|channel| story.returned_with(owner, channel, at))
        {
            story.cx.judges("returning_keeps");
            let data = fields! { owner, chat };
            found.push(Violation::new("returning_keeps", failed.call, at, &RELEASED, data));
        } else if let Some(back) = just_back(story, owner, at)
            && !story.returns_to_a_removed_channel(window(owner), chat, back)
        {
            story.cx.judges("returning_keeps");
            let data = fields! { owner, back };
            found.push(Violation::new("returning_keeps", failed.call, at, &RELEASED_SOON, data));
        }
    }
    for failed in story.failed.iter().filter(|failed| failed.away) {
        story.cx.judges("returning_keeps");
        if let Some(away) = too_short(story, failed.owner, failed.at) {
            let data = fields! { owner: failed.owner, away };
            found.push(Violation::new(
                "returning_keeps",
                failed.call,
                failed.at,
                &FAILED_SOON,
                data,
            ));
        }
    }
    for event in judged(story.cx) {
        let EventKind::Milestone { name: "toolcall.host.deactivated", fields } = &event.what else {
            continue;
        };
        story.cx.judges("returning_keeps");
        let client = text(fields, "client");
        let is_connected = story.lives_with(client, SESSION, event.at.before(MS))
            && story.lives_with(client, SESSION, event.at)
            || returns_in_time(story, client, event.at);
        let is_wanted = story.is_newest(client, event.at)
            && story.watches(window(client), SESSION, event.at, event.at);
        let is_kept = is_wanted && !story.is_released_over(client, SESSION, event.at);
        let why = match too_short(story, client, event.at).filter(|_| is_kept) {
            Some(away) => Phrase::new(&AWAY_SINCE, fields! { away }),
            None if is_connected => Phrase::new(&HERE, ViolationFields::default()),
            None => match just_back(story, client, event.at) {
                Some(back) => Phrase::new(&BACK_SINCE, fields! { back }),
                None => continue,
            },
        };
        found.push(Violation::new(
            "returning_keeps",
            client,
            event.at,
            &LOST_ITS_PLACE,
            fields! { why },
        ));
    }
    found.extend(judged(story.cx).filter_map(|event| {
        let client = left_without_cause(story, event)?;
        story.cx.judges("returning_keeps");
        let why = Phrase::new(&HERE, ViolationFields::default());
        let data = fields! { why };
        Some(Violation::new("returning_keeps", client, event.at, &LOST_ITS_PLACE, data))
    }));
    let kept = story.calls.iter().filter(|call| is_kept(story, call));
    kept.for_each(|_| story.cx.judges("returning_keeps"));
    found
}

/// Returns whether a call went on as its owner returned within the grace period and named its chat. The host
/// could have failed it then.
fn is_kept(story: &Story<'_>, call: &CallStory<'_>) -> bool {
    let CallStory { owner, chat, began, left, .. } = *call;
    let mut returns = story
        .of_client(owner, left)
        .filter(|attached| attached.at > began && !attached.is_second())
        .map(|attached| attached.at);
    !story.drops_large_channels()
        && returns.any(|at| {
            [chat, SESSION].into_iter().all(|channel| story.returned_with(owner, channel, at))
                && !story.may_end_wait(owner, chat, at)
        })
}

/// If a user sees that its client has lost its place, returns the client if it had no reason to lose it: for a
/// while without faults, its only connection held the session, and its user never left. The host must
/// not remove a client because of another one.
fn left_without_cause<'a>(story: &Story<'a>, event: &Event) -> Option<&'a str> {
    let EventKind::Observed { stream, saw } = &event.what else { return None };
    if &*stream.0 != SESSION || saw.downcast_ref() != Some(&OfChannel::Joined(false)) {
        return None;
    }
    let (on, at) = (host(event), event.at);
    let before = at.before(story.moment() * 2);
    let mut conns = story.attached.iter().filter(|attached| {
        window(attached.client) == on && attached.at <= at && attached.over > before
    });
    let (Some(only), None) = (conns.next(), conns.next()) else { return None };
    let mut leaves =
        story.asked.values().filter(|asked| asked.verb() == "leave" && asked.host == on);
    let is_kept = only.at < before
        && only.is_live(at)
        && !only.is_second()
        && story.cx.is_honest()
        && story.is_newest(only.client, at)
        && story.is_calm(on, before, at)
        && story.was_retransmitted(only, before)
        && story.watches(on, SESSION, before, at)
        && story.existence.throughout(SESSION, before, at).is_some()
        && !leaves.any(|left| left.at <= at);
    is_kept.then_some(only.client)
}

/// Returns whether a client returned to the session at a moment, and the grace period of its absence
/// had not passed.
fn returns_in_time(story: &Story<'_>, client: &str, at: Time) -> bool {
    story.returned_with(client, SESSION, at) && !story.may_end_wait(client, SESSION, at)
}

/// The time since which a client has been connected without a break, if the grace period has not passed
/// since then. The host does not release in that time what depends on the client, unless the client gives it
/// up: its user stops watching or leaves, a subscription is too late, or the client returns over another
/// connection. A puppet may give up anything.
fn just_back(story: &Story<'_>, client: &str, at: Time) -> Option<Time> {
    let on = window(client);
    let own = || story.of_client(client, at);
    let lasts = |attached: &HostConnection<'_>| story.later(attached.over, Duration::ZERO);
    let mut back = at;
    while let Some(earlier) = own()
        .filter(|attached| attached.at < back && lasts(attached) >= back)
        .map(|attached| attached.at)
        .min()
    {
        back = earlier;
    }
    // The client may give something up over any of these connections as soon as it is open.
    let these = own().filter(|attached| lasts(attached) >= back);
    let these = these.filter_map(|attached| story.cx.history.conns.get(attached.conn));
    let opened = these.map(|conn| conn.opened).min()?;
    let gives_up = |asked: &UserOperation<'_>| {
        let is_it = match asked.verb() {
            "unwatch" | "watch-twice" => asked.at >= opened,
            "leave" => true, // a client repeats it over its next connection
            _ => false,
        };
        is_it && asked.host == on && asked.at <= at
    };
    let is_late = |event: &Event| {
        let name = "toolcall.client.unanswered";
        let is_it = matches!(&event.what, EventKind::Milestone { name: it, .. } if *it == name);
        is_it && host(event) == on && event.at <= at
    };
    let returns = own().any(|attached| attached.at == at);
    let keeps = back < at
        && at.since(back) < story.host_limits.grace
        && !returns
        && story.cx.is_honest()
        && !story.drops_large_channels()
        && !story.asked.values().any(gives_up)
        && !judged(story.cx).any(is_late);
    keeps.then_some(back)
}

/// The time from which a client was absent, if the grace period has not passed.
fn too_short(story: &Story<'_>, client: &str, at: Time) -> Option<Time> {
    story.away_since(client, at).filter(|away| *away + story.host_limits.grace > at)
}

/// If a user stops watching a channel, the host ends the client's calls there at once, or when the
/// client reconnects. A call whose result waits for consent goes on.
pub(super) fn released_at_once(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for asked in story.asked.values().filter(|asked| asked.verb() == "unwatch") {
        let channel = asked.field("channel").unwrap_or_default();
        // A window that is replaced at this moment subscribes anew, and was not asked.
        if story.begins_of(asked.host).any(|at| at == asked.at) {
            continue;
        }
        let gives_up = |spans: &[WatchSpan<'_>], channel: &str| {
            let mut ended = spans.iter().filter(|span| span.to == asked.at);
            ended.any(|span| span.host == asked.host && span.channel == channel)
        };
        for call in &story.calls {
            let is_about =
                window(call.owner) == asked.host && (channel == SESSION || channel == call.chat);
            let depended =
                gives_up(&story.watch_spans, call.chat) || gives_up(&story.parts, SESSION);
            if !is_about || !depended || call.began > asked.at || call.left <= asked.at {
                continue;
            }
            let Some(last_received) = last_received(story, call.owner, asked.at) else { continue };
            // A window that is reloaded with its id begins anew: it does not report what its user
            // stopped watching before.
            let mut begins = story.begins_of(asked.host);
            if begins.any(|begins| begins > asked.at && begins <= last_received) {
                continue;
            }
            let bound = last_received + story.moment();
            let looks_again = story.watch_spans.iter().any(|look| {
                look.host == asked.host
                    && look.channel == channel
                    && look.from > asked.at
                    && look.from <= bound
            });
            if bound >= story.until
                || call.given_up <= bound
                || !story.is_calm(asked.host, last_received, bound)
                || looks_again
                || story.reports_result(call, bound)
            {
                continue;
            }
            story.cx.judges("released_at_once");
            if call.goes_on(bound) {
                let data =
                    fields! { call: call.id, owner: call.owner, channel, released: asked.at };
                found.push(Violation::new("released_at_once", call.turn, bound, &STILL_OPEN, data));
            }
        }
    }
    found.extend(released_by_leaving(story));
    found
}

/// If a user leaves the session, the host ends the client's calls in all of its chats at once.
fn released_by_leaving(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (call, asked) in story.asked.iter().filter(|(_, asked)| asked.verb() == "leave") {
        // A client refuses at once what it does not send.
        if story.is_refused_at(*call, asked.at) {
            continue;
        }
        let mut own = story.parts.iter().filter(|part| part.host == asked.host);
        let took_part = own.any(|part| part.from < asked.at && part.to >= asked.at);
        let bound = asked.at + story.moment();
        let is_calm = took_part
            && bound < story.until
            && story.is_calm(asked.host, asked.at.before(story.moment()), bound);
        for call in story.calls.iter().filter(|call| is_calm && window(call.owner) == asked.host) {
            let learns = story.has_main_connection(call.owner, asked.at);
            let is_open = call.began < asked.at && call.left > asked.at;
            let waits = story.reports_result(call, bound);
            if !learns || !is_open || call.given_up <= bound || waits {
                continue;
            }
            story.cx.judges("released_at_once");
            if call.goes_on(bound) {
                let data = fields! { call: call.id, owner: call.owner, channel: SESSION, released: asked.at };
                found.push(Violation::new("released_at_once", call.turn, bound, &LEFT_OPEN, data));
            }
        }
    }
    found
}

/// The time at which the host learned that a user stopped watching: at once over the client's
/// connection, or with its next connection.
fn last_received(story: &Story<'_>, client: &str, at: Time) -> Option<Time> {
    let own = || story.attached.iter().filter(|attached| attached.client == client);
    // A second connection may hold the channel that this one releases, even if it was opened in the
    // same millisecond.
    let mut seconds = story.cx.history.conns.iter().filter(|conn| {
        is_second(conn) && conn.client.as_str() == window(client) && conn.opened <= at
    });
    if seconds.any(|conn| conn.over.1.is_none_or(|over| over > at)) {
        return None;
    }
    if own().any(|attached| attached.at < at && attached.is_live(at)) {
        return Some(at);
    }
    let mut back = own().filter(|attached| attached.at > at && !attached.is_second());
    back.next().map(|attached| attached.at)
}

/// G9: a channel that a client holds does not leave memory.
pub(super) fn holds_are_exact(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for event in judged(story.cx).filter(|_| !peers_may_lie(story.cx)) {
        let EventKind::Milestone { name: "toolcall.host.evicted", fields } = &event.what else {
            continue;
        };
        story.cx.judges("holds_are_exact");
        let channel = text(fields, "channel");
        // A second connection may not have received the channel.
        let mut holders = story.attached.iter().filter(|attached| {
            let live =
                !attached.is_second() && attached.at < event.at && attached.is_live(event.at);
            let before = event.at.before(story.moment());
            let mut looks = story.watch_spans.iter().filter(|look| {
                look.host == window(attached.client)
                    && look.channel == channel
                    && look.from <= before
                    && look.to > event.at
            });
            live && looks.any(|look| story.present_since(look, event.at).is_some())
        });
        if let Some(holder) = holders.find(|holder| story.is_newest(holder.client, event.at)) {
            let data = fields! { holder: holder.client, host: host(event) };
            found.push(Violation::new("holds_are_exact", channel, event.at, &EVICTED, data));
        }
    }
    found
}

impl Story<'_> {
    /// Returns whether the user of a call saw its refusal at a moment.
    fn is_refused_at(&self, asked: Call, at: Time) -> bool {
        judged(self.cx).filter(|event| event.at == at).any(|event| match &event.what {
            EventKind::Answered { call, answer } => {
                *call == asked && matches!(answer, Answer::Refused(_))
            }
            _ => false,
        })
    }

    /// Returns whether a client had a connection until this moment that its window had lost before
    /// its user received the channel. That connection is not subscribed to the channel, so the host
    /// may release the channel there, whether the connection ends at this moment or not. While a
    /// fault holds the host's task, the host does not know that the connection is over. A second
    /// connection without the channel does not end the wait for it, and does not extend it.
    fn is_released_over(&self, client: &str, channel: &str, at: Time) -> bool {
        let host = window(client);
        let look = self.watch_spans.iter().find(|look| {
            look.host == host && look.channel == channel && look.from <= at && look.to > at
        });
        look.is_some_and(|look| {
            self.of_client(client, at).any(|attached| {
                let lets_go = if attached.is_second() {
                    !self.can_hold(attached, channel, at) && self.may_end_wait(client, channel, at)
                } else {
                    attached.gone < look.from
                };
                self.later(attached.over, Duration::ZERO) >= at && lets_go
            })
        })
    }

    /// Returns whether the host may end its wait for a client in a channel, because the last
    /// connection that held the channel has been over for the grace period. Other connections of
    /// the client may have been there all the time, and the client may return in this moment.
    fn may_end_wait(&self, client: &str, channel: &str, at: Time) -> bool {
        let before = self.of_client(client, at.before(MS));
        let held = before.filter(|attached| self.can_hold(attached, channel, at));
        let last = held.map(|attached| attached.over).max();
        last.is_none_or(|last| last + self.host_limits.grace <= at)
    }

    /// Returns whether a connection can hold a channel that its user watches at a moment: the user
    /// has watched the channel since before the window lost the connection, or asked for a second
    /// one.
    fn can_hold(&self, attached: &HostConnection<'_>, channel: &str, at: Time) -> bool {
        let since = attached.second.map_or(attached.gone, |asked| asked.before(MS));
        self.watches(window(attached.client), channel, since.min(at), at)
    }

    /// Returns whether a user may watch an earlier channel of the same name at a moment: the host
    /// sent the state, the channel was deleted, and a fault may hide that from the window. The
    /// connection of the window is not subscribed to the newer channel.
    pub(super) fn may_be_outdated(&self, look: &WatchSpan<'_>, at: Time) -> bool {
        let sent = self.sent_since(look.host, look.from);
        self.existence.deleted_in(look.channel, sent, at)
    }

    /// Returns whether the user of a window may watch an earlier channel of the same name when the
    /// window returns. The host reports that channel as missing, and the client unsubscribes.
    fn returns_to_a_removed_channel(&self, host: &str, channel: &str, back: Time) -> bool {
        let mut looks = self.watch_spans.iter().filter(|look| {
            look.host == host && look.channel == channel && look.from <= back && look.to >= back
        });
        looks.any(|look| self.may_be_outdated(look, back))
    }

    /// Returns whether the user of a window watches a channel at a moment, and no earlier channel
    /// of the same name.
    fn watches_the_present(&self, host: &str, channel: &str, at: Time) -> bool {
        self.watch_spans.iter().any(|look| {
            look.host == host
                && look.channel == channel
                && look.from <= at
                && look.to > at
                && !self.may_be_outdated(look, at)
        })
    }

    /// Returns whether a client is the newest one of its window.
    pub(super) fn is_newest(&self, client: &str, at: Time) -> bool {
        let same = self
            .attached
            .iter()
            .filter(|attached| window(attached.client) == window(client) && attached.at <= at);
        same.max_by_key(|attached| attached.at).is_some_and(|newest| newest.client == client)
    }
}
