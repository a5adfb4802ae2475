//! Properties of connections and questions: a client reconnects, a healthy connection is kept, and
//! every request ends in time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::actions::is_remembered;
use super::facts::{MS, UserOperation, text};
use super::room::may_fill;
use super::story::{Story, window};
use crate::history::{Call, ConnIndex, EventKind, Time};
use crate::property::path::{NEVER, crowded, full_intervals};
use crate::property::violation::{fields, kinds};
use crate::property::{About, CheckContext, Violation, ViolationFields};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::answers::wants_a_token;
use crate::subjects::toolcall::limits::host_limits;
use crate::subjects::toolcall::notes::{Became, By, OfCall, OfChannel, Question};
use crate::subjects::toolcall::setup::{self, CHANNEL, ChannelSetup, SESSION};

kinds! {
    pub(super) CLIENT_COMES_BACK;
    TOKEN_UNKNOWN = "token-unknown": "{subject:}its window had sent its token, but the host does not have it ({answer}; at {at})";
    NO_PLACE = "no-place": "{subject:}it did not take part in the session by {at}, although it was connected again since {since}";
    AWAY = "away": "{subject:}it had not reconnected by {at}, and was disconnected since {since}";
}

kinds! {
    pub(super) HEALTHY_IS_KEPT;
    LOST = "lost": "{subject:}it lost its connection, although no fault touched the connection {moment}";
    INVALID = "invalid": "{subject:}the host sent it an invalid message, or an action before the answer to a handshake {moment}";
}

kinds! {
    pub(super) REQUESTS_SETTLE;
    RESTORE = "restore": "{subject:}its restore began at {began}, and had not ended by {at}";
    QUESTION = "question": "{subject:}the request that the host sent to {window} at {asked} had not ended by {at}";
}

/// A client is connected again after enough time without faults, and has the same permissions as
/// before.
pub(super) fn client_comes_back(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let mut away: BTreeMap<&str, Time> = BTreeMap::new();
    let mut back: Vec<(&str, Time)> = Vec::new();
    let mut clients: BTreeMap<&str, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        match &event.what {
            EventKind::Started if !story.cx.servers.contains(&host(event)) => {
                away.insert(host(event), event.at);
            }
            EventKind::Died { .. } => drop(away.remove(host(event))),
            EventKind::Milestone { name: "toolcall.client.connected", .. } => {
                back.extend(away.remove_entry(host(event)));
            }
            EventKind::Milestone { name: "toolcall.client.opened", fields } => {
                clients.insert(host(event), text(fields, "client"));
            }
            EventKind::Milestone { name: "toolcall.client.lost", .. } => {
                away.entry(host(event)).or_insert(event.at);
            }
            EventKind::Answered { call, answer }
                if wants_a_token(answer) && has_moved_in(story, *call, event.at) =>
            {
                story.cx.judges("client_comes_back");
                found.push(Violation::new(
                    "client_comes_back",
                    *call,
                    event.at,
                    &TOKEN_UNKNOWN,
                    fields! { answer },
                ));
            }
            _ => {}
        }
    }
    let mut free: BTreeMap<&str, Time> = BTreeMap::new();
    let returned = back.into_iter().map(|(window, since)| (window, since, true));
    let all = away.into_iter().map(|(window, since)| (window, since, false)).chain(returned);
    for (window, since, is_back) in all {
        let free = *free.entry(window).or_insert_with(|| {
            let client = clients.get(window).copied().unwrap_or_default();
            story
                .free_since(window, story.until)
                .max(has_room_since(story, client))
                .max(has_slot_since(story, window))
        });
        let bound = free.max(since) + story.reconnect_bound();
        if bound >= story.until {
            continue;
        }
        story.cx.judges("client_comes_back");
        if !is_back {
            let subject = About::Host(window.into());
            found.push(Violation::new(
                "client_comes_back",
                subject,
                bound,
                &AWAY,
                fields! { since },
            ));
        }
    }
    found.extend(without_place(story));
    found
}

/// Detects a client that has lost its place in the session, and does not take part again although it is
/// connected again: the host was restarted, or has waited for the client for too long.
fn without_place(story: &Story<'_>) -> Vec<Violation> {
    let (limits, default) = (&story.host_limits, super::story::defaults());
    let is_small = limits.active_clients < default.active_clients || story.may_be_full();
    if is_small || !story.cx.is_honest() {
        return Vec::new();
    }
    let mut connected: BTreeMap<&str, Time> = BTreeMap::new();
    // A client of other people has no such milestone. Its window joins the session itself.
    let mut joins: BTreeSet<&str> = BTreeSet::new();
    let mut out: BTreeSet<&str> = BTreeSet::new();
    // The times at which windows without their place were connected, and until when they had none, or
    // needed none.
    let mut returns: Vec<(&str, Time, Time)> = Vec::new();
    for event in judged(story.cx) {
        let (at, host) = (event.at, host(event));
        let is_over = match &event.what {
            EventKind::Milestone {
                name:
                    "toolcall.client.initialized"
                    | "toolcall.client.replayed"
                    | "toolcall.client.reseated",
                ..
            } => {
                joins.insert(host);
                false
            }
            EventKind::Milestone { name: "toolcall.client.connected", .. }
                if joins.contains(host) =>
            {
                connected.insert(host, at);
                returns.extend(out.contains(host).then_some((host, at, NEVER)));
                false
            }
            EventKind::Observed { stream, saw } if &*stream.0 == SESSION => {
                match saw.downcast_ref() {
                    // A client that returns learns of the loss in the same moment.
                    Some(OfChannel::Joined(false)) => {
                        out.insert(host);
                        let is_back = connected.get(host) == Some(&at);
                        returns.extend(is_back.then_some((host, at, NEVER)));
                        false
                    }
                    Some(
                        OfChannel::Joined(true) | OfChannel::Unsubscribed | OfChannel::Removed,
                    ) => true,
                    _ => false,
                }
            }
            EventKind::Asked { operation, .. } => operation.verb == "reload",
            EventKind::Died { .. } => true,
            _ => false,
        };
        if is_over && out.remove(host) {
            let open = returns.iter_mut().filter(|(of, _, to)| *of == host && *to == NEVER);
            open.for_each(|(_, _, to)| *to = at);
        }
    }
    let found = returns.into_iter().filter_map(|(host, since, to)| {
        let bound = since + story.moment() * 2;
        let own = story.attached.iter().filter(|attached| {
            window(attached.client) == host && attached.at <= since && !attached.is_second()
        });
        let newest = own.max_by_key(|attached| attached.at)?;
        let is_due = bound < story.until
            && newest.is_live(bound)
            && story.is_calm(host, newest.at, bound)
            && wants_its_place(story, host);
        if is_due {
            story.cx.judges("client_comes_back");
        }
        let subject = About::Host(host.into());
        let data = fields! { since };
        (is_due && to > bound)
            .then(|| Violation::new("client_comes_back", subject, bound, &NO_PLACE, data))
    });
    found.chain(joined_in_vain(story)).take(5).collect()
}

/// Detects a client that the host removed from the session, and that does not take part again although it is
/// connected again, if its user did not see that it took part before: the host may confirm the join late,
/// although the place is lost. The window watched the session all the time, and joins it only at its start.
fn joined_in_vain(story: &Story<'_>) -> Vec<Violation> {
    let removals = judged(story.cx).filter_map(|event| match &event.what {
        EventKind::Milestone { name: "toolcall.host.deactivated", fields }
            if text(fields, "session") == SESSION =>
        {
            Some((event.at, text(fields, "client")))
        }
        _ => None,
    });
    let found = removals.filter_map(|(removed, client)| {
        let (host, before) = (window(client), removed.before(MS));
        let mut own = story.attached.iter().filter(|attached| attached.client == client);
        let back = own.find(|attached| attached.at > removed && !attached.is_second())?;
        let opened = story.opened(back)?;
        // After the answer to the handshake, the client sends its tokens, its first join and its second one.
        let (since, bound) = (back.at, back.at + story.moment() * 3);
        // A session that was created again is another one, and a new window joins by itself.
        let is_due = bound < story.until
            && back.is_live(bound)
            && story.is_newest(client, bound)
            && story.is_calm(host, opened, bound)
            && story.watches(host, SESSION, before, bound)
            && story.existence.throughout(SESSION, before, bound).is_some()
            && !story.begins_of(host).any(|at| at >= before && at <= bound)
            && wants_its_place(story, host)
            && !asks_for_the_session(story, host);
        if is_due {
            story.cx.judges("client_comes_back");
        }
        let mut parts = story.parts.iter().filter(|part| part.host == host);
        let sees_it = parts.any(|part| part.from <= bound && part.to >= removed);
        let subject = About::Host(host.into());
        let data = fields! { since };
        (is_due && !sees_it)
            .then(|| Violation::new("client_comes_back", subject, bound, &NO_PLACE, data))
    });
    found.collect()
}

/// Returns whether the user of a host asks for the session, or stops watching it, beside the start of its
/// window. A join that the client refuses itself, because too much is unanswered, leaves it without a place.
fn asks_for_the_session(story: &Story<'_>, host: &str) -> bool {
    let mut own = story.asked.values().filter(|asked| asked.host == host);
    own.any(|asked| match asked.verb() {
        "watch" | "watch-twice" => asked.field("chat") == Some(SESSION),
        "unwatch" => asked.field("channel") == Some(SESSION),
        "new-session" => true,
        _ => false,
    })
}

/// Returns whether the user of a host wants its client to take part in the session whenever it sees that the
/// client does. A reloaded window with the same id may see the place of the window before.
fn wants_its_place(story: &Story<'_>, host: &str) -> bool {
    let has = |asked: &UserOperation<'_>, field: &str| {
        asked.operation.fields.get(field).and_then(|it| it.as_bool()) == Some(true)
    };
    let mut own = story.asked.values().filter(|asked| asked.host == host);
    let is_unsure = own.any(|asked| match asked.verb() {
        "leave" => true,
        "reload" => has(asked, "keeps-id"),
        "watch" => has(asked, "looks-only"),
        _ => false,
    });
    !is_unsure && setup::tools_of(story.cx.plan, host).len() <= story.host_limits.tools
}

/// The time from which the host remembers fewer other clients than it can, so that it accepts this
/// one.
fn has_room_since(story: &Story<'_>, client: &str) -> Time {
    let full = full_of_others(story, client).into_iter();
    let before = full.filter(|(began, _)| *began < story.until);
    before.map(|(_, ended)| ended).max().unwrap_or(Time::ZERO)
}

/// The intervals in which the host may remember so many other clients that it refuses this one.
fn full_of_others(story: &Story<'_>, client: &str) -> Vec<(Time, Time)> {
    let limits = &story.host_limits;
    let mut others: BTreeMap<&str, Vec<(Time, Time)>> = BTreeMap::new();
    for attached in story.attached.iter().filter(|attached| attached.client != client) {
        let kept = limits.client_retention.max(limits.grace);
        let idle = story.no_handshake(attached.client, story.later(attached.over, kept));
        let died = story.deaths.iter().copied().filter(|death| *death >= attached.at).min();
        let forgotten = (idle + story.moment()).min(died.unwrap_or(NEVER));
        let known = others.entry(attached.client).or_default();
        match known.last_mut().filter(|(_, to)| *to >= attached.at) {
            Some((_, to)) => *to = forgotten.max(*to),
            None => known.push((attached.at, forgotten)),
        }
    }
    let others = others.into_values().flatten().map(|(from, to)| (from, to, 1));
    crowded(others, limits.clients as u64)
}

/// The intervals in which the host may refuse the client that a window has at that time, because it
/// remembers too many others.
pub(in crate::subjects::toolcall) fn no_room(
    cx: &CheckContext<'_>,
    window: &str,
) -> Vec<(Time, Time)> {
    let accepted = judged(cx).filter(|event| {
        matches!(event.what, EventKind::Milestone { name: "toolcall.host.initialized", .. })
    });
    // This is usually the case, and a story takes its time.
    if accepted.count() < host_limits(cx.limits).clients {
        return Vec::new();
    }
    let story = Story::of(cx);
    let mut clients: Vec<(&str, Time)> = Vec::new();
    for event in judged(cx).filter(|event| host(event) == window) {
        if let EventKind::Milestone { name: "toolcall.client.opened", fields } = &event.what
            && clients.last().is_none_or(|(last, _)| *last != text(fields, "client"))
        {
            clients.push((text(fields, "client"), event.at));
        }
    }
    let ends = clients.iter().skip(1).map(|(_, began)| *began).chain([NEVER]);
    let of_each = clients.iter().zip(ends).flat_map(|((client, from), to)| {
        let full = full_of_others(&story, client).into_iter();
        full.map(move |(began, ended)| (began.max(*from), ended.min(to)))
    });
    of_each.filter(|(began, ended)| began < ended).collect()
}

impl Story<'_> {
    /// The time by which a window that was there at a time is connected again, and has caught up: the last
    /// fault is over, and the host has a place for it.
    pub(super) fn reconnects_by(&self, window: &str, from: Time) -> Time {
        let free = self.calm_since(window, self.until).max(has_slot_since(self, window));
        free.max(from) + self.reconnect_bound()
    }
}

/// The time from which the host has a place for a window: fewer other connections are open than it
/// accepts.
fn has_slot_since(story: &Story<'_>, window: &str) -> Time {
    let full = full_intervals(story.cx.history, window, story.host_limits.connections);
    let before = full.into_iter().filter(|(began, _)| *began < story.until);
    before.map(|(_, ended)| ended).max().unwrap_or(Time::ZERO)
}

/// Returns whether a window had completed its start when its user asked for something: the window
/// sends its token before it watches the session. But its user may have asked to watch the session
/// before, or may have sent another token since. A host that has forgotten the outcome of an action
/// decides at its repetition, which comes after the user's later operations.
fn has_moved_in(story: &Story<'_>, call: Call, answered: Time) -> bool {
    let is_repeated = !is_remembered(story, call, answered);
    let makes_unsure = |(other, asked): (&Call, &UserOperation<'_>)| {
        let is_unsure = match asked.verb() {
            "send-token" => asked.field("token") != Some("right"),
            "watch" | "watch-twice" => asked.field("chat") == Some(SESSION),
            "new-session" => true,
            _ => false,
        };
        is_unsure && story.window_of(*other) == story.window_of(call)
    };
    let is_before = |(_, asked): &(&Call, &UserOperation<'_>)| asked.at <= answered;
    story
        .asked
        .get(&call)
        .is_some_and(|asked| story.watches(asked.host, SESSION, asked.at, asked.at))
        && !story.asked.range(..call).any(makes_unsure)
        && !story.asked.range(call..).filter(|_| is_repeated).filter(is_before).any(makes_unsure)
}

/// The reason for which a host closes a connection that is behind.
const BEHIND: &str = "the client is too far behind";

/// A connection is not given up if both ends could always receive data over it. A host sends nothing that
/// makes a client give up its connection.
pub(super) fn healthy_is_kept(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let detection = story.cx.guarantees.detection * 2 + story.moment();
    let mut connected: BTreeMap<&str, Time> = BTreeMap::new();
    let mut opened: BTreeMap<&str, ConnIndex> = BTreeMap::new();
    let mut behind: BTreeSet<ConnIndex> = BTreeSet::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        match &event.what {
            EventKind::Milestone { name: "toolcall.client.connected", .. } => {
                connected.insert(host(event), event.at);
            }
            // The next window of this host begins without a connection. The world closes the last one.
            EventKind::Milestone { name: "toolcall.client.closed", .. }
                if event.at >= story.until => {}
            EventKind::Milestone { name: "toolcall.client.closed", .. }
            | EventKind::Died { .. } => {
                connected.remove(host(event));
            }
            EventKind::Milestone { name: "toolcall.client.malformed", .. } => {
                story.cx.judges("healthy_is_kept");
                let (subject, data) = (event.host.as_ref(), ViolationFields::default());
                found.push(Violation::new("healthy_is_kept", subject, event.at, &INVALID, data));
            }
            EventKind::Milestone { name: "toolcall.client.opened", fields } => {
                if let Some(conn) = ConnIndex::from_fields(fields) {
                    opened.insert(host(event), conn);
                }
            }
            // That is true only if the link to the window had no room.
            EventKind::Milestone { name: "toolcall.host.cut", fields }
                if text(fields, "why") == BEHIND =>
            {
                let full = ConnIndex::from_fields(fields).filter(|conn| {
                    let known = story.cx.history.conns.get(conn.0);
                    known.is_some_and(|known| may_fill(story, known.client.as_str(), event.at))
                });
                behind.extend(full);
            }
            EventKind::Milestone { name: "toolcall.client.lost", .. } => {
                let was = connected.remove(host(event));
                let closes = Time(event.at.0 + 1_000) >= story.until;
                let is_behind = opened.get(host(event)).is_some_and(|conn| behind.contains(conn));
                if was.is_some()
                    && !is_behind
                    && !closes
                    && story.is_calm(host(event), event.at.before(detection), event.at)
                {
                    story.cx.judges("healthy_is_kept");
                    let subject = event.host.as_ref();
                    found.push(Violation::new(
                        "healthy_is_kept",
                        subject,
                        event.at,
                        &LOST,
                        ViolationFields::default(),
                    ));
                }
            }
            _ => {}
        }
    }
    // Each of these connections was kept. Its loss a moment ago would have had no excuse.
    let end = Time(story.until.0.saturating_sub(1_001));
    let kept = connected.iter().filter(|(host, since)| {
        let is_behind = opened.get(*host).is_some_and(|conn| behind.contains(conn));
        **since <= end && !is_behind && story.is_calm(host, end.before(detection), end)
    });
    kept.for_each(|_| story.cx.judges("healthy_is_kept"));
    found.truncate(5);
    found
}

/// G10: a question to a client ends with that client's connections, or at its deadline. A restore
/// also ends at its deadline.
pub(super) fn requests_settle(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let mut questions: BTreeMap<(&str, &str), (Time, &str)> = BTreeMap::new();
    let mut restores: BTreeMap<&str, (Time, Duration)> = BTreeMap::new();
    // The number of restores of each channel in this incarnation of the host.
    let mut before: BTreeMap<&str, u64> = BTreeMap::new();
    // A restore that finds no channel in time has no final milestone. Only a slow one needs the deadline.
    let ends_by = |at: Time, takes: Duration| {
        let bound = story.later(at, story.host_limits.restore_deadline + story.moment());
        (bound < story.until && takes > story.host_limits.restore_deadline).then(|| {
            story.cx.judges("requests_settle");
            bound
        })
    };
    let mut found = Vec::new();
    for event in judged(story.cx) {
        match &event.what {
            EventKind::Observed { stream, saw } => match saw.downcast_ref() {
                Some(OfCall {
                    by: By::Agent,
                    call,
                    what: Became::Asks(Question { client, .. }),
                }) => {
                    questions.insert((&stream.0, call), (event.at, client));
                }
                Some(OfCall { by: By::Agent, call, what: Became::Hears(_) }) => {
                    let asked = questions.remove(&(&*stream.0, call.as_str()));
                    found.extend(
                        asked.and_then(|(at, client)| late(story, &stream.0, client, at, event.at)),
                    );
                }
                _ => {}
            },
            EventKind::Ended { stream, .. } => questions.retain(|(turn, _), _| *turn != &*stream.0),
            EventKind::Died { .. } => {
                questions.clear();
                restores.clear();
                if story.cx.servers.contains(&host(event)) {
                    before.clear();
                }
            }
            EventKind::Milestone { name: "toolcall.host.restoring", fields } => {
                let channel = text(fields, "channel");
                let setup =
                    story.cx.plan.entry::<ChannelSetup>(CHANNEL, channel).unwrap_or_default();
                let before = before.entry(channel).or_default();
                restores.insert(channel, (event.at, setup.restore(*before)));
                *before += 1;
            }
            EventKind::Milestone {
                name:
                    "toolcall.host.restored" | "toolcall.host.restore-late" | "toolcall.host.removed",
                fields,
            } => {
                if let Some((at, takes)) = restores.remove(text(fields, "channel")) {
                    _ = ends_by(at, takes);
                }
            }
            _ => {}
        }
    }
    found.extend(
        questions
            .iter()
            .filter_map(|((turn, _), (at, client))| late(story, turn, client, *at, story.until)),
    );
    for (channel, (at, takes)) in restores {
        if let Some(bound) = ends_by(at, takes) {
            found.push(Violation::new(
                "requests_settle",
                channel,
                bound,
                &RESTORE,
                fields! { began: at },
            ));
        }
    }
    found
}

/// The violation of a question that ended too late.
fn late(story: &Story<'_>, turn: &str, client: &str, asked: Time, over: Time) -> Option<Violation> {
    let deadline = story.later(asked, story.host_limits.reverse_deadline);
    let own = story.attached.iter().filter(|attached| {
        attached.client == client && attached.at <= asked && attached.over > asked
    });
    // A connection that was attached in the same millisecond may have been attached after the question.
    let earlier = own.clone().filter(|attached| attached.at < asked);
    let earlier = earlier.max_by_key(|attached| attached.at);
    let same = own.filter(|attached| attached.at == asked);
    let newest = earlier.into_iter().chain(same).map(|attached| attached.over).max();
    let newest = newest.unwrap_or(asked);
    let bound = story.later(deadline.min(newest.max(asked)), story.moment());
    if bound >= story.until {
        return None;
    }
    story.cx.judges("requests_settle");
    (over > bound).then(|| {
        Violation::new(
            "requests_settle",
            turn,
            bound,
            &QUESTION,
            fields! { window: window(client), asked },
        )
    })
}
