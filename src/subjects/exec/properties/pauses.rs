//! `attempts_pause`: the pauses between failed attempts to connect double, up to their limit.
//!
//! The property counts the attempts in a row that received no data. Such attempts do not shorten
//! the next pause. Half of a pause is fixed, and that half is judged.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{ConnIndex, EventKind, Side, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::exec::limits::{LIMITS, client_limits};
use crate::subjects::judging::{host, judged};
use reknit_exec::limits::ClientLimits;

kinds! {
    pub(super) ATTEMPTS_PAUSE;
    TOO_SOON = "too-soon": "{subject:}it opened a connection too soon after its attempt of {failed}, the failure number {failures} in a row: the pause is at least {least} {moment}";
}

/// The attempts of a client in a row that had no answer.
#[derive(Default)]
struct Row {
    last: Option<ConnIndex>,
    failures: u32,
    failed: Option<Time>,
}

pub(super) fn attempts_pause(cx: &CheckContext<'_>) -> Vec<Violation> {
    let limits = client_limits(&cx.plan.limits.over(LIMITS));
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match event.what {
            EventKind::ConnOpened { conn } => {
                let client = cx.history.conn(conn).client.as_str();
                if cx.servers.contains(&client)
                    || cx.plan.puppets.keys().any(|puppet| puppet.as_str() == client)
                {
                    continue;
                }
                let row = rows.entry(client).or_default();
                let least = least_pause(&limits, row.failures);
                if let Some(failed) = row.failed.filter(|failed| *failed + least > event.at) {
                    let data = fields! { failed, failures: u64::from(row.failures), least };
                    let violation =
                        Violation::new("attempts_pause", client, event.at, &TOO_SOON, data);
                    found.push(violation);
                }
                (row.last, row.failed) = (Some(conn), None);
            }
            EventKind::ConnOver { conn: index, side: Side::Client, .. } => {
                let conn = cx.history.conn(index);
                let row = rows.entry(conn.client.as_str()).or_default();
                if row.last == Some(index) {
                    let is_in_vain = conn.received.0.is_none();
                    row.failures = if is_in_vain { row.failures + 1 } else { 0 };
                    row.failed = is_in_vain.then_some(event.at);
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

#[cfg(test)]
mod tests {
    use super::super::tests::violations;
    use super::*;
    use crate::history::ConnEnd;
    use crate::property::scripted::{ScriptedRun, history};

    /// Attempts that begin at these times and fail after 10 ms.
    fn attempts(times: &[u64]) -> ScriptedRun {
        (0..).zip(times).fold(history(), |scripted, (n, at)| {
            let (conn, side, how) = (ConnIndex(n), Side::Client, ConnEnd::Eof);
            let over = EventKind::ConnOver { conn, side, how };
            scripted.attempt(n as u32 + 1, *at).user(at + 10, over)
        })
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
