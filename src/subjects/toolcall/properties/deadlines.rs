//! Properties of the client's and the host's own deadlines. No fault of the network excuses these: a
//! program has its clock also without a network.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attempts::connected;
use super::facts::{MS, UserOperation};
use super::story::{Story, is_second};
use crate::history::{Call, Connection, EventKind, Time};
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{About, Violation};
use crate::subjects::judging::{has_puppet, judged};
use crate::subjects::toolcall::answers::ToolcallFailure;
use crate::subjects::toolcall::setup::SESSION;
use reknit_toolcall::client::Failure;

kinds! {
    pub(super) REQUESTS_END_IN_TIME;
    LATE = "late": "{subject:}it had no outcome by {at}, although its deadline was {deadline}";
    EARLY = "early": "{subject:}its client gave it up, although its deadline was {deadline} {moment}";
    KEPT = "kept": "{subject:}its client failed it as lost, although a client repeats it over its next connection {moment}";
    NOT_LOST = "not-lost": "{subject:}its client failed it as lost, but the client had lost no connection since {asked} {moment}";
}

kinds! {
    pub(super) SILENCE_IS_NOTICED;
    ATTEMPT = "attempt": "{subject:}its client had not given up the attempt by {at}";
    SILENT = "silent": "{subject:}its {end} had received nothing since {since}, but had not closed it by {at}";
}

/// The time that a program may take for an action that is due.
const AT_ONCE: Duration = Duration::from_millis(500);

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
            let bound = deadline + AT_ONCE;
            let is_late = outcomes.get(call).is_none_or(|at| *at > bound)
                && bound < story.until
                && !story.is_held(asked.host, asked.at, bound)
                && !story.begins_of(asked.host).any(|at| at >= asked.at && at <= bound);
            is_late.then(|| {
                Violation::new("requests_end_in_time", *call, bound, &LATE, fields! { deadline })
            })
        });
    found.extend(late);
    found.truncate(5);
    found
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
