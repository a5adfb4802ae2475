//! `http_limits_hold`: the limits of HTTP requests hold, and refuse nothing else.
//!
//! A whole body is refused if it is longer than the limit, and only then. A request is refused as late
//! only when the deadline that its user gave it is over. A request is refused for its redirects if there
//! are more than 10, and only then. Without a fault, the connection to the HTTP server causes no refusal. A
//! connection has so many requests in progress: each has one connection of the server to the outside world
//! at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Answer, Call, Connection, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::Operation;
use crate::subjects::exec::answers::{ExecFailure, StreamTotals};
use crate::subjects::exec::limits::server_limits;
use crate::subjects::exec::network_fault::NetworkFault;
use crate::subjects::exec::web::{MAX_REDIRECTS, WebSetup};
use crate::subjects::judging::{judged, peers_may_lie};
use reknit_exec::client::Failure;
use reknit_exec::wire::http::TOO_LATE;

kinds! {
    pub(super) HTTP_LIMITS_HOLD;
    TOO_LONG = "too-long": "{subject:}the server returned a body of {bytes} bytes, but it may return {most} {moment}";
    FITS = "fits": "{subject:}the server refused a body of {bytes} bytes as too long, but it may return {most} {moment}";
    NOT_LATE = "not-late": "{subject:}the server said that the request took too long {moment}, but it may take until {until}";
    FEW_REDIRECTS = "few-redirects": "{subject:}the server refused {redirects} redirects as too many, but it must follow {most} {moment}";
    MANY_REDIRECTS = "many-redirects": "{subject:}the server followed {redirects} redirects, but it may follow {most} {moment}";
    NO_CAUSE = "no-cause": "{subject:}the server said that it had no connection to the HTTP server, but no fault prevented one since {since} {moment}";
    TOO_MANY = "too-many": "{subject} is one of {requests} HTTP requests at a time, but {conns} connections may have {most} (at {at})";
}

/// The start of the refusal of a body that is too long.
const LONG: &str = "the body has more than";

/// The refusal of a request that leads to too many redirects.
const REDIRECTS: &str = "more than 10 redirects";

/// The start of the refusal of a request whose connection could not be opened.
const UNCONNECTED: &str = "no connection to";

/// The time within which a server must end the requests of a connection that is over.
const AT_ONCE: Duration = Duration::from_secs(1);

/// See the module.
pub(super) fn http_limits_hold(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let mut found = bodies(cx);
    found.extend(redirects(cx));
    found.extend(too_many(cx));
    found.truncate(5);
    found
}

fn bodies(cx: &CheckContext<'_>) -> Vec<Violation> {
    let most = server_limits(cx.limits).http_body_bytes as u64;
    let mut asked: BTreeMap<Call, (Time, &Operation)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Asked { call, operation, .. } if operation.verb == "http" => {
                asked.insert(*call, (event.at, &**operation));
            }
            EventKind::Answered { call, answer } => {
                let Some((at, operation)) = asked.get(call) else { continue };
                let until = *at + operation.wait();
                if is_refused(answer, TOO_LATE) {
                    cx.judges("http_limits_hold");
                    if event.at < until {
                        let data = fields! { until };
                        found.push(Violation::new(
                            "http_limits_hold",
                            *call,
                            event.at,
                            &NOT_LATE,
                            data,
                        ));
                    }
                }
                let body = operation.fields.get("body").and_then(|body| body.as_str());
                let declared = WebSetup::declared(cx.plan, body.unwrap_or_default()).length();
                let is_long = is_refused(answer, LONG);
                let returned = answer.done::<StreamTotals>().map(StreamTotals::bytes);
                if is_long || returned.is_some() {
                    cx.judges("http_limits_hold");
                }
                let (kind, bytes) = match returned {
                    None if is_long && declared <= most => (&FITS, declared),
                    Some(bytes) if bytes > most => (&TOO_LONG, bytes),
                    _ => continue,
                };
                let data = fields! { bytes, most };
                found.push(Violation::new("http_limits_hold", *call, event.at, kind, data));
            }
            _ => {}
        }
    }
    found
}

/// Returns the requests that were refused for their redirects or for their connection, and should not be, and
/// those that should be refused.
fn redirects(cx: &CheckContext<'_>) -> Vec<Violation> {
    let most = MAX_REDIRECTS;
    let mut network_fault = NetworkFault::default();
    let mut has_died = false;
    let mut asked: BTreeMap<Call, (Time, &Operation)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        network_fault.pass(event);
        has_died |= matches!(event.what, EventKind::Died { .. });
        let (call, answer) = match &event.what {
            EventKind::Asked { call, operation, .. } if operation.verb.starts_with("http") => {
                asked.insert(*call, (event.at, &**operation));
                continue;
            }
            EventKind::Answered { call, answer } => (call, Some(answer)),
            EventKind::Opened { call, .. } => (call, None),
            _ => continue,
        };
        // A user that sets the head of its request may want no redirects.
        let Some((since, operation)) = asked.remove(call) else { continue };
        if operation.fields.contains_key("head") {
            continue;
        }
        let body = operation.fields.get("body").and_then(|body| body.as_str());
        let redirects = WebSetup::declared(cx.plan, body.unwrap_or_default()).redirects;
        let is_for = |why: &str| answer.is_some_and(|answer| is_refused(answer, why));
        let is_done = answer.is_none_or(|answer| answer.done::<StreamTotals>().is_some());
        let is_calm = !has_died
            && network_fault.in_force == 0
            && network_fault.settled.is_none_or(|settled| settled < since);
        if is_for(REDIRECTS) || is_done && redirects > 0 || is_for(UNCONNECTED) && is_calm {
            cx.judges("http_limits_hold");
        }
        let kind = match () {
            () if is_for(REDIRECTS) && redirects <= most => &FEW_REDIRECTS,
            () if is_done && redirects > most => &MANY_REDIRECTS,
            () if is_for(UNCONNECTED) && is_calm => &NO_CAUSE,
            () => continue,
        };
        let data = if *kind == NO_CAUSE {
            fields! { since }
        } else {
            fields! { redirects, most }
        };
        found.push(Violation::new("http_limits_hold", *call, event.at, kind, data));
    }
    found
}

/// Returns whether the server refused a call for this reason.
fn is_refused(answer: &Answer, why: &str) -> bool {
    let refusal = answer.refusal::<ExecFailure>().map(|refusal| &refusal.0);
    matches!(refusal, Some(Failure::Refused { message, .. }) if message.contains(why))
}

/// Returns the first connection to the outside world that is one too many.
fn too_many(cx: &CheckContext<'_>) -> Option<Violation> {
    let each = server_limits(cx.limits).http_requests;
    let is_upstream = |conn: &&Connection| cx.servers.contains(&conn.client.as_str());
    let upstreams = || cx.history.conns.iter().filter(is_upstream);
    upstreams().take_while(|conn| conn.opened <= Time::from(cx.plan.horizon)).find_map(|newest| {
        let at = newest.opened;
        let is_open = |conn: &&Connection| {
            conn.client == newest.client
                && conn.opened <= at
                && conn.over.0.is_none_or(|over| over > at)
        };
        let requests = upstreams().filter(is_open).count();
        if requests >= each {
            cx.judges("http_limits_hold");
        }
        if requests <= each {
            return None;
        }
        let is_served = |conn: &&Connection| {
            conn.server == newest.client
                && conn.opened <= at
                && conn.over.1.is_none_or(|over| over + AT_ONCE >= at)
        };
        let conns = cx.history.conns.iter().filter(is_served).count();
        let most = conns.saturating_mul(each);
        let data = fields! { requests, conns, most, at };
        let violation =
            || Violation::new("http_limits_hold", newest.name.as_str(), at, &TOO_MANY, data);
        (requests > most).then(violation)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::violations;
    use super::*;
    use crate::history::{Class, Stream};
    use crate::property::scripted::{ScriptedRun, history};
    use crate::subjects::exec::sum::Sum;

    fn answered(answer: Answer) -> ScriptedRun {
        let asked = history().asked_as(1, 100, Class::InFlight, "http", r#"{"body":"b1"}"#);
        asked.answered(1, 200, answer)
    }

    /// The answer with a body of so many bytes.
    fn body(bytes: usize) -> Answer {
        let mut sum = Sum::default();
        sum.put(&vec![b'x'; bytes][..]);
        StreamTotals(vec![(Stream::from("h1"), sum.total())]).into()
    }

    #[test]
    fn a_connection_has_so_many_requests() {
        let mut served = history().conn(1, 0, None).by("server");
        for n in 0..128 {
            served = served.upstream(1_000 + n, Some(2_000));
        }
        assert!(violations(&served, http_limits_hold).is_empty());
        let later = served.clone().upstream(2_000, None);
        assert!(violations(&later, http_limits_hold).is_empty());
        let more = served.upstream(1_999, None);
        assert_eq!(violations(&more, http_limits_hold).len(), 1);
    }

    #[test]
    fn a_body_is_refused_only_for_its_length() {
        let most = 8 << 20;
        assert!(violations(&answered(body(most)), http_limits_hold).is_empty());
        assert_eq!(violations(&answered(body(most + 1)), http_limits_hold).len(), 1);
        let refused = |message: &str| {
            let why = Failure::Refused { code: -32603, message: message.to_owned() };
            answered(Answer::refused(ExecFailure(why)))
        };
        // By default, a body has 500 bytes.
        let long = refused("the body has more than 8388608 bytes");
        assert_eq!(violations(&long, http_limits_hold).len(), 1);
        assert!(violations(&refused("connection refused"), http_limits_hold).is_empty());
    }

    #[test]
    fn ten_redirects_are_followed_and_more_are_refused() {
        let found = |redirects: u64, answer: Answer| {
            let mut run = answered(answer);
            run.plan.setup.insert("web".into(), json!({ "b1": { "redirects": redirects } }));
            violations(&run, http_limits_hold)
        };
        let refused = || {
            let message = "the request failed: more than 10 redirects".to_owned();
            Answer::refused(ExecFailure(Failure::Refused { code: -32603, message }))
        };
        assert_eq!([found(10, body(500)).len(), found(11, refused()).len()], [0, 0]);
        assert_eq!(
            found(11, body(500)),
            ["call 1: the server followed 11 redirects, but it may follow 10 (at 0.200 s)"]
        );
        assert_eq!(
            found(10, refused()),
            [
                "call 1: the server refused 10 redirects as too many, but it must follow 10 (at 0.200 s)"
            ]
        );
    }

    #[test]
    fn only_a_fault_prevents_a_connection_to_the_http_server() {
        let message = "the request failed: no connection to web:80: connection refused".to_owned();
        let refused = Answer::refused(ExecFailure(Failure::Refused { code: -32603, message }));
        let run = answered(refused);
        assert_eq!(
            violations(&run, http_limits_hold),
            [
                "call 1: the server said that it had no connection to the HTTP server, but no fault prevented one since 0.100 s (at 0.200 s)"
            ]
        );
        let fault = |from, until| run.clone().partition(from, until);
        assert!(violations(&fault(50, Some(100)), http_limits_hold).is_empty());
        assert!(violations(&fault(150, Some(160)), http_limits_hold).is_empty());
        assert!(violations(&fault(150, None), http_limits_hold).is_empty());
        assert_eq!(violations(&fault(50, Some(99)), http_limits_hold).len(), 1);
        assert!(violations(&run.clone().died("web", 50), http_limits_hold).is_empty());
    }

    #[test]
    fn a_request_is_late_only_after_its_deadline() {
        let found = |fields: &str, ms: u64| {
            let asked = history().asked_as(1, 100, Class::InFlight, "http", fields);
            let message = format!("the request failed: {TOO_LATE}");
            let why = ExecFailure(Failure::Refused { code: -32603, message });
            violations(&asked.answered(1, ms, Answer::refused(why)), http_limits_hold)
        };
        let timed = r#"{"body":"b1","wait":"2s"}"#;
        assert!(found(timed, 2_100).is_empty());
        assert_eq!(
            found(timed, 2_099),
            [
                "call 1: the server said that the request took too long (at 2.099 s), but it may take until 2.100 s"
            ]
        );
    }
}
