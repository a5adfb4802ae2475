//! Properties of the client's and the host's own deadlines. No fault of the network excuses these: a
//! program has its clock also without a network.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attempts::connected;
use super::facts::{MS, UserOperation};
use super::story::{Story, is_second, window};
use crate::history::{Call, Connection, EventKind, Time};
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{About, Violation};
use crate::schedule::MilestoneValue;
use crate::subjects::judging::{has_puppet, host, judged};
use crate::subjects::toolcall::answers::ToolcallFailure;
use crate::subjects::toolcall::setup::SESSION;
use reknit_toolcall::client::Failure;

kinds! {
    pub(super) REQUESTS_END_IN_TIME;
    LATE = "late": "{subject:}it had no outcome by {at}, although its deadline was {deadline}";
    EARLY = "early": "{subject:}its client gave it up, although its deadline was {deadline} {moment}";
    KEPT = "kept": "{subject:}its client failed it as lost, although a client repeats it over its next connection {moment}";
    NOT_LOST = "not-lost": "{subject:}its client failed it as lost, but the client had lost no connection since {asked} {moment}";
    OUTLIVES = "outlives": "{subject:}it had no outcome by {at}, although the connection that carried it was lost at {lost}";
    SLOW = "slow": "{subject:}it had no outcome by {at}, although its client was connected, and no fault was near since {since}";
}

kinds! {
    pub(super) SILENCE_IS_NOTICED;
    ATTEMPT = "attempt": "{subject:}its client had not given up the attempt by {at}";
    SILENT = "silent": "{subject:}its {end} had received nothing since {since}, but had not closed it by {at}";
}

/// The time that a program may take for an action that is due.
const AT_ONCE: Duration = Duration::from_millis(500);

/// The time that a client may take to give up a request: a timer is all that it needs.
const GIVES_UP: Duration = Duration::from_millis(50);

/// A request of a user has an outcome at its deadline, and fails for a reason that is true.
pub(super) fn requests_end_in_time(story: &Story<'_>) -> Vec<Violation> {
    if has_puppet(story.cx) {
        return Vec::new();
    }
    let mut outcomes: BTreeMap<Call, Time> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        match &event.what {
            EventKind::Answered { call, .. } => drop(outcomes.insert(*call, event.at)),
            EventKind::Failed { call, reason } => {
                outcomes.insert(*call, event.at);
                let failure = reason.downcast_ref().map(|ToolcallFailure(failure)| failure);
                found.extend(untrue_failure(story, *call, event.at, failure));
            }
            _ => {}
        }
    }
    let late =
        story.asked.iter().filter(|(_, asked)| is_request(asked)).filter_map(|(call, asked)| {
            let deadline = asked.at + story.client_limits.request_deadline;
            let bound = deadline + GIVES_UP;
            let is_late = outcomes.get(call).is_none_or(|at| *at > bound)
                && bound < story.until
                && !story.is_held(asked.host, asked.at, bound)
                && !story.begins_of(asked.host).any(|at| at >= asked.at && at <= bound);
            is_late.then(|| {
                Violation::new("requests_end_in_time", *call, bound, &LATE, fields! { deadline })
            })
        });
    found.extend(late);
    found.extend(outliving(story, &outcomes));
    found.extend(slow(story, &outcomes));
    found.truncate(5);
    found
}

/// Detects requests that were in flight at the loss of their connection, and go on. A client cannot know
/// whether the host has performed such a request, so the request fails at once. A client that is connected
/// lets nothing wait, so each request since then is in flight.
fn outliving(story: &Story<'_>, outcomes: &BTreeMap<Call, Time>) -> Vec<Violation> {
    let mut connected: BTreeMap<&str, (Option<u64>, Time)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let EventKind::Milestone { name, fields } = &event.what else { continue };
        let (lost, host) = (event.at, host(event));
        let generation = MilestoneValue::number(fields, "generation");
        match *name {
            "toolcall.client.connected" => drop(connected.insert(host, (generation, lost))),
            "toolcall.client.lost" => {
                let was = connected.remove(host).filter(|(which, _)| *which == generation);
                let Some((_, since)) = was else { continue };
                let bound = lost + MS;
                // A task that was held may belong to an earlier window.
                let is_another = story.begins_of(host).any(|at| at >= since && at <= bound)
                    || story.is_held(host, since, bound);
                if is_another || bound >= story.until {
                    continue;
                }
                let late = story.asked.iter().filter(|(call, asked)| {
                    asked.host == host
                        && is_sent_once(asked)
                        && asked.at > since
                        && asked.at < lost
                        && outcomes.get(*call).is_none_or(|at| *at > bound)
                });
                found.extend(late.map(|(call, _)| {
                    let data = fields! { lost };
                    Violation::new("requests_end_in_time", *call, bound, &OUTLIVES, data)
                }));
            }
            _ => {}
        }
    }
    found
}

/// A longer transfer of all that agents and tools have said is no small part of a moment.
const SHORT: Duration = Duration::from_millis(100);

/// Detects operations that take longer than their way to the host and back. The host needs its storage for
/// none of these. A task that missed its turn is woken by a ping, which comes later.
fn slow(story: &Story<'_>, outcomes: &BTreeMap<Call, Time>) -> Vec<Violation> {
    // Results go to the host and back, and each state contains them once more.
    if story.transfer > SHORT || !story.cx.plan.puppets.is_empty() {
        return Vec::new();
    }
    let moments = story.moment() * 2;
    let late = story.asked.iter().filter_map(|(call, asked)| {
        let (since, bound) = (asked.at.before(moments), asked.at + moments);
        let mut own = story.attached.iter().filter(|attached| {
            window(attached.client) == asked.host && !attached.is_second() && attached.at < since
        });
        // States are long, so many of them in a row take their time. The host may have restored them before.
        let asks_for_states = |(call, other): &(&Call, &UserOperation<'_>)| {
            let is_it = matches!(other.verb(), "watch" | "watch-twice" | "new-session");
            let is_own = is_it && other.host == asked.host && other.at <= bound;
            is_own && story.answered_at(**call) >= since
        };
        let is_slow = is_prompt(asked)
            && bound < story.until
            && outcomes.get(call).is_none_or(|at| *at > bound)
            && own.any(|attached| {
                attached.is_live(bound)
                    && story.is_newest(attached.client, bound)
                    && story.was_retransmitted(attached, since)
            })
            && story.is_calm(asked.host, since, bound)
            && !story.begins_of(asked.host).any(|at| at >= since && at <= bound)
            && story.asked.iter().filter(asks_for_states).count() < 3;
        let data = fields! { since };
        is_slow.then(|| Violation::new("requests_end_in_time", *call, bound, &SLOW, data))
    });
    late.collect()
}

/// Returns whether a host performs an operation as soon as it arrives.
fn is_prompt(asked: &UserOperation<'_>) -> bool {
    let requests = ["new-chat", "dispose-chat", "remake-chat", "dispose-session", "send-token"];
    let actions = ["rename", "start-turn", "cancel-turn", "report-content", "forge", "leave"];
    requests.contains(&asked.verb()) || actions.contains(&asked.verb())
}

/// Returns whether an operation consists of requests only, all of them sent at once. A client repeats
/// subscriptions and actions.
fn is_sent_once(asked: &UserOperation<'_>) -> bool {
    let verbs = [
        "new-chat",
        "dispose-chat",
        "remake-chat",
        "dispose-session",
        "create-session",
        "end-session",
        "send-token",
    ];
    verbs.contains(&asked.verb())
}

/// Returns whether an operation is one request, or several at once.
fn is_request(asked: &UserOperation<'_>) -> bool {
    match asked.verb() {
        "new-chat" | "dispose-chat" | "remake-chat" | "dispose-session" | "send-token" => true,
        "watch" => asked.field("chat") != Some(SESSION),
        _ => false,
    }
}

/// Returns whether an operation consists of subscriptions and actions: a client repeats both. Only actions
/// that concern a call are lost with the host that knew the call.
fn is_repeated(asked: &UserOperation<'_>) -> bool {
    let verbs = ["watch", "watch-twice", "rename", "start-turn", "cancel-turn", "leave", "forge"];
    verbs.contains(&asked.verb())
}

fn untrue_failure(
    story: &Story<'_>,
    call: Call,
    at: Time,
    failure: Option<&Failure>,
) -> Option<Violation> {
    let asked = story.asked.get(&call)?;
    let violation = |kind, data| Some(Violation::new("requests_end_in_time", call, at, kind, data));
    match failure? {
        Failure::Late => {
            let deadline = asked.at + story.client_limits.request_deadline;
            (at + MS < deadline).then(|| violation(&EARLY, fields! { deadline })).flatten()
        }
        Failure::Lost if is_repeated(asked) => violation(&KEPT, fields! {}),
        Failure::Lost => {
            let mut own = own_conns(story).filter(|(_, conn)| conn.client.as_str() == asked.host);
            let is_lost = own.any(|(_, conn)| {
                conn.over.0.is_some_and(|over| over + MS >= asked.at && over <= at + MS)
            });
            let is_held = story.is_held(asked.host, asked.at, at);
            (!is_lost && !is_held)
                .then(|| violation(&NOT_LOST, fields! { asked: asked.at }))
                .flatten()
        }
        _ => None,
    }
}

/// The connections of clients, without those that windows open besides.
fn own_conns<'a>(story: &Story<'a>) -> impl Iterator<Item = (usize, &'a Connection)> {
    let conns = story.cx.history.conns.iter().enumerate();
    conns.filter(|(_, conn)| !is_second(conn))
}

/// A client gives up an attempt at the timeouts of its steps, and each end closes a connection over
/// which it receives nothing, not even the answer to a ping. If an end waits for room to write, the
/// room shows that its peer lives.
pub(super) fn silence_is_noticed(story: &Story<'_>) -> Vec<Violation> {
    if has_puppet(story.cx) {
        return Vec::new();
    }
    let connected = connected(story);
    let mut found = Vec::new();
    for (index, conn) in own_conns(story) {
        let limits = &story.client_limits;
        // The handshake has at most three steps: the client is unknown, initializes, sends tokens.
        let attempt = limits.connect_timeout + limits.handshake_timeout * 3;
        if !connected.contains_key(&index) {
            // The client waits for the rest of an answer that arrives in parts.
            let mut bound = conn.opened + attempt + story.transfer + AT_ONCE;
            if !story.is_calm(conn.client.as_str(), conn.opened, bound) {
                let received = conn.received.0.unwrap_or(conn.opened);
                bound = bound.max(received + limits.handshake_timeout + AT_ONCE);
            }
            found.extend(left_open(story, conn, bound).then(|| {
                let subject = About::Named(conn.name.clone());
                Violation::new("silence_is_noticed", subject, bound, &ATTEMPT, fields! { bound })
            }));
            continue;
        }
        // `None` is less than each time.
        let since = conn.received.0.max(conn.unblocked.0).unwrap_or(conn.opened);
        let bound = since + limits.wire.ping_interval + limits.wire.pong_deadline + AT_ONCE;
        found.extend(left_open(story, conn, bound).then(|| silent(conn, "client", since, bound)));
    }
    for (index, conn) in story.cx.history.conns.iter().enumerate() {
        let Some(received) = conn.received.1.filter(|_| story.is_accepted(index)) else { continue };
        let since = conn.unblocked.1.map_or(received, |unblocked| unblocked.max(received));
        let bound = story.later(since, story.host_detection() + AT_ONCE);
        let is_open = conn.over.1.is_none_or(|over| over > bound);
        let died = story.deaths.iter().any(|death| *death >= conn.opened && *death <= bound);
        if is_open && !died && bound < story.until {
            found.push(silent(conn, "host", since, bound));
        }
    }
    found.truncate(5);
    found
}

/// Returns whether the client's end of a connection is open after a time at which it must be over.
fn left_open(story: &Story<'_>, conn: &Connection, bound: Time) -> bool {
    let host = conn.client.as_str();
    conn.over.0.unwrap_or(NEVER) > bound
        && bound < story.until
        && !story.is_held(host, conn.opened, bound)
        && !story.begins_of(host).any(|at| at >= conn.opened && at <= bound)
}

fn silent(conn: &Connection, end: &str, since: Time, bound: Time) -> Violation {
    let subject = About::Named(conn.name.clone());
    Violation::new("silence_is_noticed", subject, bound, &SILENT, fields! { end, since })
}
