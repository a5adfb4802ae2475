//! Properties of HTTP requests and their bodies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::lost::may_be_lost;
use crate::history::{Call, Connection, Data, Ending, Event, EventKind, Stream, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{About, CheckContext, Violation, ViolationFields, ViolationKind};
use crate::schedule::{Fault, Host, Operation};
use crate::subjects::exec::answers::{ExecFailure, ExecObservation};
use crate::subjects::exec::web::{MAX_REDIRECTS, WebSetup};
use crate::subjects::judging::{host, judged, peers_may_lie};

kinds! {
    pub(super) HTTP_FAILS_TRULY;
    NOTHING_MISSING = "nothing-missing": "{subject:}it failed because of a missing piece, but the server sent every piece {moment}";
    NOTHING_LOST = "nothing-lost": "{subject:}it failed because of a lost connection, but no connection that could have carried it ended after the request {moment}";
}

kinds! {
    pub(super) HTTP_ENDS_WITH_ITS_CONNECTION;
    STILL_THERE = "still-there": "{subject} still exists, although every connection that could own it ended by {over}";
}

kinds! {
    pub(super) REDIRECTS_END;
    TOO_MANY = "too-many": "{subject} is one connection too many for {requests} HTTP requests: more than {most} (at {at})";
}

kinds! {
    pub(super) METHODS_ARE_KEPT;
    OTHER_BODY = "other-body": "{subject:}the body of the request had another length than its user and the redirects demand {moment}";
    OTHER_METHOD = "other-method": "{subject:}the request had another method than its user and the redirects demand {moment}";
}

kinds! {
    pub(super) RESPONSES_ARE_TRUE;
    OTHER_HEAD = "other-head": "{subject:}the response had another status or length than the HTTP server sent {moment}";
}

kinds! {
    pub(super) CREDENTIALS_STAY;
    FOREIGN = "foreign": "{subject:}another origin received the credentials of the request {moment}";
}

kinds! {
    pub(super) RESPONSE_BEFORE_BODY;
    PIECE_FIRST = "piece-first": "a piece of an HTTP body arrived before its response (at {at})";
}
use reknit_exec::client::Failure;

/// A request of a user.
struct UserRequest<'a> {
    at: Time,
    host: &'a str,
}

/// A request or a body may fail as lost only if a connection of its client ended between the
/// request and the failure, or if the client noticed an earlier end in that time: a held task may
/// send over a connection that is already over. A request that was not sent cannot be lost. A
/// server that is not a puppet omits no piece.
pub(super) fn fail_truly(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let mut asked: BTreeMap<Call, UserRequest<'_>> = BTreeMap::new();
    let mut opened: BTreeMap<&Stream, Call> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Asked { call, operation, .. } if operation.verb.starts_with("http") => {
                asked.insert(*call, UserRequest { at: event.at, host: host(event) });
            }
            EventKind::Opened { stream, call } => drop(opened.insert(stream, *call)),
            EventKind::Failed { call, reason } => {
                let wrong = asked.get(call).and_then(|asked| untrue(cx, asked, event.at, reason));
                found.extend(wrong.map(|kind| violation(*call, event.at, kind)));
            }
            EventKind::StreamEnded { stream, ending: Ending::Failed { reason } } => {
                let asked = opened.get(stream).and_then(|call| asked.get(call));
                let wrong = asked.and_then(|asked| untrue(cx, asked, event.at, reason));
                found.extend(wrong.map(|kind| violation(stream, event.at, kind)));
            }
            _ => {}
        }
    }
    found
}

fn violation(subject: impl Into<About>, at: Time, kind: &'static ViolationKind) -> Violation {
    Violation::new("http_fails_truly", subject, at, kind, ViolationFields::default())
}

/// Returns the violation if a reason is false.
fn untrue(
    cx: &CheckContext<'_>,
    asked: &UserRequest<'_>,
    at: Time,
    reason: &Data,
) -> Option<&'static ViolationKind> {
    let is = |failure: Failure| ExecFailure::is(reason, &failure);
    if is(Failure::BodyGap) {
        cx.judges("http_fails_truly");
        Some(&NOTHING_MISSING)
    } else if is(Failure::ConnectionLost) {
        cx.judges("http_fails_truly");
        (!may_be_lost(cx, asked.host, asked.at, at)).then_some(&NOTHING_LOST)
    } else {
        None
    }
}

/// The time within which a server must end the work for a connection that is over.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A connection that the server opens to the outside world serves a request of one accepted
/// connection, and ends with it. The history does not record which one. But when all connections
/// that existed at the opening are over, its own one is over as well.
pub(super) fn end_with_their_connection(cx: &CheckContext<'_>) -> Vec<Violation> {
    let (conns, until) = (&cx.history.conns, Time::from(cx.plan.horizon));
    // A held task releases nothing, and a dead host has nothing left.
    let stands_still = |event: &&Event| match &event.what {
        EventKind::FaultBegan { what, .. } => matches!(**what, Fault::Hold { .. }),
        other => matches!(other, EventKind::Died { .. }),
    };
    let still = judged(cx).filter(stands_still).map(|event| event.at).next().unwrap_or(until);
    let is_server = |host: &Host| cx.servers.contains(&host.as_str());
    let late = conns.iter().filter(|conn| is_server(&conn.client)).filter_map(|upstream| {
        let before = conns
            .iter()
            .filter(|conn| conn.server == upstream.client && conn.opened < upstream.opened);
        let mut there =
            before.filter(|conn| conn.over.1.is_none_or(|over| over >= upstream.opened)).peekable();
        there.peek()?;
        let over = there.map(|conn| conn.over.1).collect::<Option<Vec<_>>>()?.into_iter().max()?;
        let bound = over + AT_ONCE;
        if bound >= still.min(until) {
            return None;
        }
        // A request that was over before needs no end.
        if upstream.over.0.is_none_or(|end| end >= over) {
            cx.judges("http_ends_with_its_connection");
        }
        let is_late = upstream.over.0.is_none_or(|end| end > bound);
        is_late.then(|| {
            let subject = upstream.name.as_str();
            Violation::new(
                "http_ends_with_its_connection",
                subject,
                bound,
                &STILL_THERE,
                fields! { over },
            )
        })
    });
    late.take(5).collect()
}

/// A client's milestone reports a piece that arrived before its response. A server that is not a
/// puppet sends none.
pub(super) fn response_before_body(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let mut asked: BTreeSet<Call> = BTreeSet::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Asked { call, operation, .. } if operation.verb == "http-stream" => {
                asked.insert(*call);
            }
            // A body with a response: each of its pieces could have been earlier.
            EventKind::Opened { call, .. } if asked.contains(call) => {
                cx.judges("response_before_body");
            }
            EventKind::Milestone { name: "exec.client.body-early", .. } => {
                cx.judges("response_before_body");
                found.push(Violation::new(
                    "response_before_body",
                    event.host.as_ref(),
                    event.at,
                    &PIECE_FIRST,
                    ViolationFields::default(),
                ));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// Returns whether it is about a request, and not about what a user saw.
pub(super) fn is_of_a_request(saw: &Data) -> bool {
    matches!(
        saw.downcast_ref(),
        Some(
            ExecObservation::ForeignCredentials
                | ExecObservation::OtherMethod
                | ExecObservation::OtherBody
                | ExecObservation::OtherHead
        )
    )
}

pub(super) fn credentials_stay(cx: &CheckContext<'_>) -> Vec<Violation> {
    let leaves =
        |setup: &WebSetup| setup.leaves_origin && (1..=MAX_REDIRECTS).contains(&setup.redirects);
    observed(cx, &ExecObservation::ForeignCredentials, "credentials_stay", &FOREIGN, leaves)
}

pub(super) fn methods_are_kept(cx: &CheckContext<'_>) -> Vec<Violation> {
    let name = "methods_are_kept";
    let mut found = observed(cx, &ExecObservation::OtherMethod, name, &OTHER_METHOD, |_| true);
    found.append(&mut observed(cx, &ExecObservation::OtherBody, name, &OTHER_BODY, |_| true));
    found
}

pub(super) fn responses_are_true(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    observed(cx, &ExecObservation::OtherHead, "responses_are_true", &OTHER_HEAD, |_| true)
}

/// Returns what the HTTP server does for a request.
fn declared(cx: &CheckContext<'_>, request: &Operation) -> WebSetup {
    let body = request.fields.get("body").and_then(|body| body.as_str());
    WebSetup::declared(cx.plan, body.unwrap_or_default())
}

/// Returns a violation for each request about which the HTTP server or the user observed this. A request
/// is a case if this can be observed at its body.
fn observed(
    cx: &CheckContext<'_>,
    what: &ExecObservation,
    name: &'static str,
    kind: &'static ViolationKind,
    is_judged: fn(&WebSetup) -> bool,
) -> Vec<Violation> {
    let mut asked: BTreeSet<Call> = BTreeSet::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Asked { call, operation, .. }
                if operation.verb.starts_with("http") && is_judged(&declared(cx, operation)) =>
            {
                asked.insert(*call);
            }
            // Its user has the response, so the HTTP server has seen the request and its redirects.
            EventKind::Answered { call, answer } if asked.remove(call) && answer.acknowledges() => {
                cx.judges(name);
            }
            EventKind::Opened { call, .. } if asked.remove(call) => cx.judges(name),
            EventKind::Observed { stream, saw } if saw.downcast_ref() == Some(what) => {
                cx.judges(name);
                let data = ViolationFields::default();
                found.push(Violation::new(name, stream, event.at, kind, data));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// How many connections the server may open for one request: the first, and one for each redirect.
const HOPS: usize = 11;

/// Each connection that a server opens is a hop of a request.
pub(super) fn redirects_end(cx: &CheckContext<'_>) -> Vec<Violation> {
    // The requests of a client that is a puppet are not known.
    if !cx.is_honest() {
        return Vec::new();
    }
    // How many connections a server could open that follows all redirects.
    let (mut requests, mut possible) = (0_usize, 0_u64);
    for event in judged(cx) {
        let EventKind::Asked { operation, .. } = &event.what else { continue };
        if operation.verb.starts_with("http") {
            requests += 1;
            let redirects = declared(cx, operation).redirects;
            possible = possible.saturating_add(redirects).saturating_add(1);
        }
    }
    let most = requests * HOPS;
    let is_upstream = |conn: &&Connection| cx.servers.contains(&conn.client.as_str());
    let mut beyond = cx.history.conns.iter().filter(is_upstream).skip(most);
    let violation = |conn: &Connection| {
        let (subject, at) = (conn.name.as_str(), conn.opened);
        Violation::new("redirects_end", subject, at, &TOO_MANY, fields! { requests, most, at })
    };
    let beyond = beyond.next();
    if beyond.is_some() || possible > most as u64 {
        cx.judges("redirects_end");
    }
    beyond.map(violation).into_iter().collect()
}
