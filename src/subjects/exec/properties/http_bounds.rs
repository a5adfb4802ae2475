//! `http_limits_hold`: the limits of HTTP requests hold, and refuse nothing else.
//!
//! A whole body is refused if it is longer than the limit, and only then. A request is refused as late
//! only when the deadline that its user gave it is over. A connection has so many requests in progress:
//! each has one connection of the server to the outside world at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Answer, Call, Connection, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::Operation;
use crate::subjects::exec::answers::{ExecFailure, StreamTotals};
use crate::subjects::exec::limits::{LIMITS, server_limits};
use crate::subjects::exec::web::WebSetup;
use crate::subjects::judging::{has_puppet, judged};
use reknit_exec::client::Failure;
use reknit_exec::wire::http::TOO_LATE;

kinds! {
    pub(super) HTTP_LIMITS_HOLD;
    TOO_LONG = "too-long": "{subject:}the server returned a body of {bytes} bytes, but it may return {most} {moment}";
    FITS = "fits": "{subject:}the server refused a body of {bytes} bytes as too long, but it may return {most} {moment}";
    NOT_LATE = "not-late": "{subject:}the server said that the request took too long {moment}, but it may take until {until}";
    TOO_MANY = "too-many": "{subject} is one of {requests} HTTP requests at a time, but {conns} connections may have {most} (at {at})";
}

/// The start of the refusal of a body that is too long.
const LONG: &str = "the body has more than";

/// The time within which a server must end the requests of a connection that is over.
const AT_ONCE: Duration = Duration::from_secs(1);

/// See the module.
pub(super) fn http_limits_hold(cx: &CheckContext<'_>) -> Vec<Violation> {
    if has_puppet(cx) {
        return Vec::new();
    }
    let mut found = bodies(cx);
    found.extend(too_many(cx));
    found.truncate(5);
    found
}

fn bodies(cx: &CheckContext<'_>) -> Vec<Violation> {
    let most = server_limits(&cx.plan.limits.over(LIMITS)).http_body_bytes as u64;
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
                if is_refused(answer, TOO_LATE) && event.at < until {
                    let data = fields! { until };
                    found.push(Violation::new(
                        "http_limits_hold",
                        *call,
                        event.at,
                        &NOT_LATE,
                        data,
                    ));
                }
                let body = operation.fields.get("body").and_then(|body| body.as_str());
                let declared = WebSetup::declared(cx.plan, body.unwrap_or_default()).length();
                let (kind, bytes) = match answer {
                    Answer::Refused(_) if is_refused(answer, LONG) && declared <= most => {
                        (&FITS, declared)
                    }
                    _ => match answer.done::<StreamTotals>().map(StreamTotals::bytes) {
                        Some(bytes) if bytes > most => (&TOO_LONG, bytes),
                        _ => continue,
                    },
                };
                let data = fields! { bytes, most };
                found.push(Violation::new("http_limits_hold", *call, event.at, kind, data));
            }
            _ => {}
        }
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
    let each = server_limits(&cx.plan.limits.over(LIMITS)).http_requests;
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
