//! `attempts_pause`: the pauses between failed attempts to connect double, up to their limit.
//!
//! The property counts the attempts in a row that received no data, or that failed before the server
//! attached them. Such attempts do not shorten the next pause: only an attached connection brings
//! events. Half of a pause is fixed, and that half is judged.
//!
//! A puppet says nothing about what it attaches: with one, only attempts without data count.
//!
//! `repetitions_pause`: the client pauses before it repeats a read of missing events, or a terminate, that
//! the server refused for now. An answer cannot come before its request, so two refusals of the same
//! request over one connection are at least the pause apart. Only a puppet refuses such requests, and
//! histories contain the requests themselves only if they are detailed. Over the next connection the
//! client asks at once.

use std::collections::BTreeMap;
use std::time::Duration;

use super::served::UserOperation;
use crate::history::{ConnIndex, EventKind, Side, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::MilestoneValue;
use crate::subjects::exec::limits::client_limits;
use crate::subjects::judging::{host, judged, peers_may_lie};
use reknit_exec::limits::ClientLimits;

kinds! {
    pub(super) ATTEMPTS_PAUSE;
    TOO_SOON = "too-soon": "{subject:}it opened a connection too soon after its attempt of {failed}, the failure number {failures} in a row: the pause is at least {least} {moment}";
}

kinds! {
    pub(super) REPETITIONS_PAUSE;
    AT_ONCE = "at-once": "{subject:}the server refused its {request} at {before}, and the repetition at {at}: the pause is at least {least}";
}

/// The attempts of a client in a row that were in vain.
#[derive(Default)]
struct Row {
    last: Option<ConnIndex>,
    /// Whether the server attached the last attempt, and the client received data over it.
    is_attached: bool,
    failures: u32,
    failed: Option<Time>,
}

impl Row {
    /// The last attempt was in vain.
    fn fail(&mut self, at: Time) {
        self.failures += 1;
        self.failed = Some(at);
    }
}

pub(super) fn attempts_pause(cx: &CheckContext<'_>) -> Vec<Violation> {
    let limits = client_limits(cx.limits);
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let mut found = Vec::new();
    let peers_may_lie = peers_may_lie(cx);
    for event in judged(cx) {
        match &event.what {
            EventKind::ConnOpened { conn } => {
                let client = cx.history.conn(*conn).client.as_str();
                if cx.servers.contains(&client)
                    || cx.plan.puppets.keys().any(|puppet| puppet.as_str() == client)
                {
                    continue;
                }
                let row = rows.entry(client).or_default();
                let least = least_pause(&limits, row.failures);
                let failed = row.failed.inspect(|_| cx.judges("attempts_pause"));
                if let Some(failed) = failed.filter(|failed| *failed + least > event.at) {
                    let data = fields! { failed, failures: u64::from(row.failures), least };
                    let violation =
                        Violation::new("attempts_pause", client, event.at, &TOO_SOON, data);
                    found.push(violation);
                }
                (row.last, row.is_attached, row.failed) = (Some(*conn), false, None);
            }
            EventKind::ConnOver { conn: index, side: Side::Client, .. } => {
                let conn = cx.history.conn(*index);
                let row = rows.entry(conn.client.as_str()).or_default();
                if row.last != Some(*index) {
                    continue;
                }
                if conn.received.0.is_none() {
                    row.fail(event.at);
                } else if peers_may_lie {
                    row.failures = 0;
                }
            }
            EventKind::Milestone { name: "exec.server.attached", fields } => {
                let Some(index) = ConnIndex::from_fields(fields) else { continue };
                let conn = cx.history.conn(index);
                let row = rows.entry(conn.client.as_str()).or_default();
                if row.last == Some(index) && conn.received.0.is_some() {
                    (row.is_attached, row.failures) = (true, 0);
                }
            }
            // The pause begins now; the end of the connection may be recorded later. An attempt without
            // data has no number yet.
            EventKind::Milestone { name: "exec.client.attempt-failed", fields } => {
                let row = rows.entry(host(event)).or_default();
                let is_last = row.last.is_some() && row.last == ConnIndex::from_fields(fields);
                if is_last && !row.is_attached && !peers_may_lie {
                    row.fail(event.at);
                }
            }
            EventKind::Died { .. } => drop(rows.remove(host(event))),
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// The fixed half of the pause after this many failures.
fn least_pause(limits: &ClientLimits, failures: u32) -> Duration {
    let (min, max) = (limits.back_off_min, limits.back_off_max.max(limits.back_off_min));
    let doubled = min.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    Duration::from_millis(doubled.min(max).as_millis() as u64 / 2)
}

/// The refusals of one request in a row.
#[derive(Default)]
struct Refusals {
    last: Option<Time>,
    count: u32,
}

/// See the module. The pauses between reads grow, but the history does not show which reads between them
/// brought events, so only the shortest pause is demanded.
pub(super) fn repetitions_pause(cx: &CheckContext<'_>) -> Vec<Violation> {
    let limits = client_limits(cx.limits);
    let pause = |doubled: u32| {
        limits
            .back_off_min
            .saturating_mul(doubled)
            .min(limits.back_off_max.max(limits.back_off_min))
    };
    // By host, request and process.
    let mut rows: BTreeMap<(&str, &str, &str), Refusals> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        let own = host(event);
        match &event.what {
            // The next process of this name has its own reads.
            EventKind::Asked { .. } => {
                let asked = UserOperation::of(event).map(|(_, asked)| asked);
                let start = asked.filter(|asked| asked.verb() == "start");
                if let Some(process) = start.and_then(|start| start.process()) {
                    rows.remove(&(own, "read", process));
                    rows.remove(&(own, "terminate", process));
                }
            }
            EventKind::Died { .. } => rows.retain(|(host, ..), _| *host != own),
            EventKind::Milestone { name, fields } => {
                let process = MilestoneValue::text(fields, "process").unwrap_or_default();
                let (request, least) = match *name {
                    "exec.client.read-refused" => ("read", pause(1)),
                    "exec.client.end-refused" => ("terminate", pause(2)),
                    // The first read of a new gap is no repetition.
                    "exec.client.process-failed" | "exec.client.live-gap" => {
                        rows.remove(&(own, "read", process));
                        continue;
                    }
                    "exec.client.ended" => {
                        rows.remove(&(own, "terminate", process));
                        continue;
                    }
                    "exec.client.lost" | "exec.client.attempt-failed" => {
                        rows.retain(|(host, ..), _| *host != own);
                        continue;
                    }
                    _ => continue,
                };
                let row = rows.entry((own, request, process)).or_default();
                if let Some(before) = row.last {
                    cx.judges("repetitions_pause");
                    if before + least > event.at {
                        let data = fields! { request, before, least };
                        found.push(Violation::new(
                            "repetitions_pause",
                            process,
                            event.at,
                            &AT_ONCE,
                            data,
                        ));
                    }
                }
                (row.last, row.count) = (Some(event.at), row.count + 1);
                // The client does not repeat this one.
                if row.count > limits.read_retries {
                    rows.remove(&(own, request, process));
                }
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{milestone, violations};
    use super::*;
    use crate::history::{Class, ConnEnd};
    use crate::property::scripted::{ScriptedRun, history};
    use crate::subjects::exec::limits::LIMITS;

    /// Attempts that begin at these times and fail after 10 ms.
    fn attempts(times: &[u64]) -> ScriptedRun {
        (0..).zip(times).fold(history(), |scripted, (n, at)| {
            let (conn, side, how) = (ConnIndex(n), Side::Client, ConnEnd::Eof);
            let over = EventKind::ConnOver { conn, side, how };
            scripted.attempt(n as u32 + 1, *at).user(at + 10, over)
        })
    }

    /// The same, with a server that answers each attempt, and attaches it or refuses it.
    fn answered(times: &[u64], attaches: bool) -> ScriptedRun {
        (0..).zip(times).fold(history(), |scripted, (n, at)| {
            let (conn, side, how) = (ConnIndex(n), Side::Client, ConnEnd::Eof);
            let over = EventKind::ConnOver { conn, side, how };
            let number = (n + 1).to_string();
            let fields = [("conn", number.as_str())];
            let opened = scripted.attempt(n as u32 + 1, *at).heard(at + 5);
            let attached = match attaches {
                true => milestone(opened, at + 5, "exec.server.attached", &fields),
                false => opened,
            };
            milestone(attached, at + 10, "exec.client.attempt-failed", &fields).user(at + 10, over)
        })
    }

    #[test]
    fn an_attempt_that_the_server_does_not_attach_is_in_vain() {
        assert_eq!(violations(&answered(&[0, 60, 170, 380], false), attempts_pause), [""; 0]);
        assert_eq!(
            violations(&answered(&[0, 60, 169], false), attempts_pause),
            [
                "client: it opened a connection too soon after its attempt of 0.070 s, the failure number 2 in a row: the pause is at least 100ms (at 0.169 s)"
            ]
        );
        assert_eq!(violations(&answered(&[0, 60, 169], true), attempts_pause), [""; 0]);
        let by_a_puppet = answered(&[0, 60, 169], false).puppet("server");
        assert_eq!(violations(&by_a_puppet, attempts_pause), [""; 0]);
    }

    #[test]
    fn a_refused_request_is_repeated_after_a_pause() {
        let refused = |scripted: ScriptedRun, ms, request| {
            milestone(scripted, ms, request, &[("process", "p1")])
        };
        let twice = |request, pause: u64| {
            let once = refused(history(), 1_000, request);
            violations(&refused(once, 1_000 + pause, request), repetitions_pause)
        };
        let (read, terminate) = ("exec.client.read-refused", "exec.client.end-refused");
        assert_eq!((twice(read, 100), twice(terminate, 200)), (vec![], vec![]));
        assert_eq!(
            twice(read, 99),
            [
                "p1: the server refused its read at 1.000 s, and the repetition at 1.099 s: the pause is at least 100ms"
            ]
        );
        assert_eq!(twice(terminate, 199).len(), 1);
        // A terminate does not wait for a read, and the next connection and the next process for nothing.
        let begun = || refused(history(), 1_000, read);
        let next = |scripted| violations(&refused(scripted, 1_010, read), repetitions_pause).len();
        assert_eq!(violations(&refused(begun(), 1_010, terminate), repetitions_pause), [""; 0]);
        assert_eq!(next(milestone(begun(), 1_005, "exec.client.lost", &[])), 0);
        let started = begun().asked_as(2, 1_005, Class::InFlight, "start", r#"{"process":"p1"}"#);
        assert_eq!((next(started), next(begun())), (0, 1));
    }

    #[test]
    fn only_a_repetition_that_is_refused_too_is_judged() {
        let judged = |times: u64| {
            let refused = (0..times).fold(history(), |scripted, n| {
                let at = 1_000 + n * 500;
                milestone(scripted, at, "exec.client.read-refused", &[("process", "p1")])
            });
            refused.with_limits(LIMITS, |cx| {
                repetitions_pause(cx);
                cx.judgements.of("repetitions_pause")
            })
        };
        assert_eq!([0, 1, 2, 3].map(judged), [0, 0, 1, 2]);
    }

    #[test]
    fn pauses_double() {
        // The pauses are 100 ms, 200 ms, 400 ms; half of each is fixed.
        assert_eq!(violations(&attempts(&[0, 60, 170, 380]), attempts_pause), [""; 0]);
        assert_eq!(
            violations(&attempts(&[0, 60, 169]), attempts_pause),
            [
                "client: it opened a connection too soon after its attempt of 0.070 s, the failure number 2 in a row: the pause is at least 100ms (at 0.169 s)"
            ]
        );
    }
}
