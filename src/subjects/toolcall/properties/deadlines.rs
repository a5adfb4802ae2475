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
use crate::property::{About, Phrase, Violation};
use crate::schedule::MilestoneValue;
use crate::subjects::judging::{host, judged, peers_may_lie};
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
    ATTEMPT = "attempt": "{subject:}its client had not given up the attempt by {at}: {terms}";
    SILENT = "silent": "{subject:}its {end} had received nothing since {since}, but had not closed it by {at}: {terms}";
}

// The terms of these bounds.
kinds! {
    ATTEMPT_SUM = "attempt-sum": "{opened} + {connect} connect + {handshake} handshake + {margin}";
    ANSWER_SUM = "answer-sum": "{received} + {handshake} handshake + {margin}";
    SILENCE_SUM = "silence-sum": "{since} + {ping} ping + {pong} pong + {margin}";
    DELAYED = "delayed": "{terms} + {delay} delays";
}

/// The time that a program may take for an action that is due.
const AT_ONCE: Duration = Duration::from_millis(500);

/// The time that a client may take to give up a request: a timer is all that it needs.
const GIVES_UP: Duration = Duration::from_millis(50);

/// A request of a user has an outcome at its deadline, and fails for a reason that is true.
pub(super) fn requests_end_in_time(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
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
            let is_exempt = bound >= story.until
                || story.is_held(asked.host, asked.at, bound)
                || story.begins_of(asked.host).any(|at| at >= asked.at && at <= bound);
            if is_exempt {
                return None;
            }
            story.cx.judges("requests_end_in_time");
            outcomes.get(call).is_none_or(|at| *at > bound).then(|| {
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
                let in_flight = story.asked.iter().filter(|(call, asked)| {
                    asked.host == host
                        && is_sent_once(asked)
                        && asked.at > since
                        && asked.at < lost
                        && outcomes.get(*call).is_none_or(|at| *at >= lost)
                });
                let late = in_flight
                    .inspect(|_| story.cx.judges("requests_end_in_time"))
                    .filter(|(call, _)| outcomes.get(*call).is_none_or(|at| *at > bound));
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
    if story.transfer > SHORT || !story.cx.is_honest() {
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
            is_own && outcomes.get(*call).is_none_or(|at| *at >= since)
        };
        let has_to_be_fast = is_prompt(asked)
            && bound < story.until
            && own.any(|attached| {
                attached.is_live(bound)
                    && story.is_newest(attached.client, bound)
                    && story.was_retransmitted(attached, since)
            })
            && story.is_calm(asked.host, since, bound)
            && !story.begins_of(asked.host).any(|at| at >= since && at <= bound)
            && story.asked.iter().filter(asks_for_states).count() < 3;
        if !has_to_be_fast {
            return None;
        }
        story.cx.judges("requests_end_in_time");
        outcomes.get(call).is_none_or(|at| *at > bound).then(|| {
            let data = fields! { since };
            Violation::new("requests_end_in_time", *call, bound, &SLOW, data)
        })
    });
    late.collect()
}

/// Returns whether a host performs an operation as soon as it arrives.
fn is_prompt(asked: &UserOperation<'_>) -> bool {
    let requests = ["new-chat", "dispose-chat", "remake-chat", "dispose-session", "send-token"];
    let actions = ["rename", "start-turn", "cancel-turn", "report-content", "forge", "leave"];
    requests.contains(&asked.verb()) || actions.contains(&asked.verb())
}

/// The operations that consist of requests only, each sent once. A client repeats subscriptions and actions.
pub(super) const SENT_ONCE: [&str; 7] = [
    "new-chat",
    "dispose-chat",
    "remake-chat",
    "dispose-session",
    "create-session",
    "end-session",
    "send-token",
];

/// Returns whether an operation consists of requests only, all of them sent at once.
fn is_sent_once(asked: &UserOperation<'_>) -> bool {
    SENT_ONCE.contains(&asked.verb())
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
            story.cx.judges("requests_end_in_time");
            let deadline = asked.at + story.client_limits.request_deadline;
            (at + MS < deadline).then(|| violation(&EARLY, fields! { deadline })).flatten()
        }
        Failure::Lost if is_repeated(asked) => {
            story.cx.judges("requests_end_in_time");
            violation(&KEPT, fields! {})
        }
        Failure::Lost => {
            if story.is_held(asked.host, asked.at, at) {
                return None;
            }
            story.cx.judges("requests_end_in_time");
            let mut own = own_conns(story).filter(|(_, conn)| conn.client.as_str() == asked.host);
            let is_lost = own.any(|(_, conn)| {
                conn.over.0.is_some_and(|over| over + MS >= asked.at && over <= at + MS)
            });
            (!is_lost).then(|| violation(&NOT_LOST, fields! { asked: asked.at })).flatten()
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
    if peers_may_lie(story.cx) {
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
            let mut late_answer = None;
            if !story.is_calm(conn.client.as_str(), conn.opened, bound) {
                let received = conn.received.0.unwrap_or(conn.opened);
                let answered = received + limits.handshake_timeout + AT_ONCE;
                late_answer = (answered > bound).then_some(received);
                bound = bound.max(answered);
            }
            let first = conn.opened + limits.connect_timeout.min(limits.handshake_timeout);
            found.extend(left_open(story, conn, first, bound).then(|| {
                let subject = About::Named(conn.name.clone());
                let (connect, handshake) = (limits.connect_timeout, limits.handshake_timeout);
                let (opened, margin) = (conn.opened, AT_ONCE);
                let whole = || {
                    let handshake = handshake * 3;
                    let sum = fields! { opened, connect, handshake, margin };
                    with_delay(Phrase::new(&ATTEMPT_SUM, sum), story.transfer)
                };
                let terms = late_answer.map_or_else(whole, |received| {
                    Phrase::new(&ANSWER_SUM, fields! { received, handshake, margin })
                });
                let data = fields! { bound, terms };
                Violation::new("silence_is_noticed", subject, bound, &ATTEMPT, data)
            }));
            continue;
        }
        // `None` is less than each time.
        let since = conn.received.0.max(conn.unblocked.0).unwrap_or(conn.opened);
        let first = since + limits.wire.pong_deadline;
        let bound = first + limits.wire.ping_interval + AT_ONCE;
        let is_open = left_open(story, conn, first, bound);
        let times = (limits.wire.ping_interval, limits.wire.pong_deadline);
        found.extend(is_open.then(|| silent(conn, "client", since, bound, times)));
    }
    for (index, conn) in story.cx.history.conns.iter().enumerate() {
        let Some(received) = conn.received.1.filter(|_| story.is_accepted(index)) else { continue };
        let since = conn.unblocked.1.map_or(received, |unblocked| unblocked.max(received));
        let bound = story.later(since, story.host_detection() + AT_ONCE);
        let died = story.deaths.iter().any(|death| *death >= conn.opened && *death <= bound);
        let over = conn.over.1.unwrap_or(NEVER);
        if died || bound >= story.until || over < since + story.host_limits.wire.pong_deadline {
            continue;
        }
        story.cx.judges("silence_is_noticed");
        if over > bound {
            let limits = &story.host_limits.wire;
            let times = (limits.ping_interval, limits.pong_deadline);
            found.push(silent(conn, "host", since, bound, times));
        }
    }
    found.truncate(5);
    found
}

/// Returns whether the client's end of a connection is open after a time at which it must be over. A
/// connection that was over before the client can have given it up says nothing about the client.
fn left_open(story: &Story<'_>, conn: &Connection, first: Time, bound: Time) -> bool {
    let (host, over) = (conn.client.as_str(), conn.over.0.unwrap_or(NEVER));
    let is_judged = over >= first
        && bound < story.until
        && !story.is_held(host, conn.opened, bound)
        && !story.begins_of(host).any(|at| at >= conn.opened && at <= bound);
    if is_judged {
        story.cx.judges("silence_is_noticed");
    }
    is_judged && over > bound
}

fn silent(
    conn: &Connection,
    end: &str,
    since: Time,
    bound: Time,
    (ping, pong): (Duration, Duration),
) -> Violation {
    let (subject, margin) = (About::Named(conn.name.clone()), AT_ONCE);
    let sum = Phrase::new(&SILENCE_SUM, fields! { since, ping, pong, margin });
    let terms = with_delay(sum, bound.since(since + ping + pong + margin));
    let data = fields! { end, since, terms };
    Violation::new("silence_is_noticed", subject, bound, &SILENT, data)
}

/// Returns the terms of a bound with what else delays it: held tasks, handshakes under way, long transfers.
pub(super) fn with_delay(terms: Phrase, delay: Duration) -> Phrase {
    if delay.is_zero() { terms } else { Phrase::new(&DELAYED, fields! { terms, delay }) }
}
