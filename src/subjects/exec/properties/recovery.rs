//! `client_recovers`: a client that lost its connection has one again, or has failed permanently.
//!
//! The time counts from the loss, and again from each fault and each start of a host. The limit is
//! twice the detection time, the recovery time, one attempt and 1 s.
//!
//! It does not fail before its recovery time is over. That time counts from the end of the connection
//! at the client.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{ConnIndex, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::exec::network_fault::NetworkFault;
use crate::subjects::judging::{host, judged, peers_may_lie};

kinds! {
    pub(super) CLIENT_RECOVERS;
    STILL_WITHOUT = "still-without": "{subject:}it had no connection from {since} on, although nothing disturbed it from {calm} until {at}";
    TOO_SOON = "too-soon": "{subject:}it gave up too soon: it had no connection only since {since}, and tries for {recovery} {moment}";
}

/// How much the recorded times may differ from the client's clock.
const MOMENT: Duration = Duration::from_millis(50);

/// The clients that failed before their recovery time was over. If a task of a client is held, the end
/// of its connection is recorded late: then the time counts from its milestone.
fn too_soon(cx: &CheckContext<'_>) -> Vec<Violation> {
    let recovery = cx.guarantees.recovery;
    let mut had: BTreeMap<&str, ConnIndex> = BTreeMap::new();
    let mut tries: BTreeMap<&str, Time> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        let host = host(event);
        match &event.what {
            EventKind::Milestone { name: "exec.client.connected", fields } => {
                had.extend(ConnIndex::from_fields(fields).map(|conn| (host, conn)));
            }
            EventKind::Milestone { name: "exec.client.recovering", .. } => {
                tries.insert(host, event.at);
            }
            EventKind::Milestone { name: "exec.client.failed-deadline", .. } => {
                let Some(tries) = tries.get(host).copied() else { continue };
                cx.judges("client_recovers");
                let over = had.get(host).and_then(|conn| cx.history.conn(*conn).over.0);
                let since = over.map_or(tries, |over| over.min(tries));
                if event.at + MOMENT < since + recovery {
                    let data = fields! { since, recovery };
                    let early = Violation::new("client_recovers", host, event.at, &TOO_SOON, data);
                    found.push(early);
                }
            }
            EventKind::Died { .. } => {
                had.remove(host);
                tries.remove(host);
            }
            _ => {}
        }
    }
    found
}

pub(super) fn client_recovers(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let most = cx.guarantees.reconnects_within() + Duration::from_secs(1);
    let mut network_fault = NetworkFault::default();
    // The clients without a connection, since when, and since when nothing disturbed them.
    let mut without: BTreeMap<&str, (Time, Time)> = BTreeMap::new();
    // The clients that lost their connection, and since when nothing disturbed them. A client that has
    // another one counts, too, if there is enough time in which it would have been late without it.
    let mut owing: BTreeMap<&str, Time> = BTreeMap::new();
    let mut found = too_soon(cx);
    let late = |host: &str, since: Time, calm: Time, now: Time| {
        let at = calm + most;
        (at < now).then(|| {
            let data = fields! { since, at, calm };
            Violation::new("client_recovers", host, at, &STILL_WITHOUT, data)
        })
    };
    for event in judged(cx) {
        let was_calm = network_fault.in_force == 0;
        network_fault.pass(event);
        let is_disturbed = network_fault.in_force > 0
            || network_fault.last == Some(event.at)
            || matches!(event.what, EventKind::Started);
        if is_disturbed {
            // While a fault lasts, and until its last packet has arrived, the time does not count. A
            // client that was late before has still broken the rule.
            let calm = network_fault.settled.unwrap_or_default().max(event.at);
            without.retain(|host, (since, before)| {
                let late = late(host, *since, *before, event.at).filter(|_| was_calm);
                *before = calm;
                let is_late = late.is_some();
                found.extend(late);
                !is_late
            });
            owing.retain(|_, before| {
                let is_judged = was_calm && *before + most < event.at;
                if is_judged {
                    cx.judges("client_recovers");
                }
                *before = calm;
                !is_judged
            });
        }
        match &event.what {
            EventKind::Milestone {
                name: "exec.client.lost" | "exec.client.recovering", ..
            } => {
                without.entry(host(event)).or_insert((event.at, event.at));
                owing.entry(host(event)).or_insert(event.at);
            }
            EventKind::Milestone {
                name:
                    "exec.client.connected"
                    | "exec.client.failed-deadline"
                    | "exec.client.failed-permanent",
                ..
            }
            | EventKind::GaveUp { stream: None, .. }
            | EventKind::Died { .. } => {
                if let Some((since, calm)) = without.remove(host(event)) {
                    found.extend(late(host(event), since, calm, event.at));
                }
                // A client that is closed or dead needs no other connection.
                if !matches!(event.what, EventKind::Milestone { .. })
                    && let Some(calm) = owing.remove(host(event))
                    && calm + most < event.at
                {
                    cx.judges("client_recovers");
                }
            }
            _ => {}
        }
    }
    if network_fault.in_force == 0 {
        let until = Time::from(cx.plan.horizon);
        let due = owing.values().filter(|calm| **calm + most < until);
        due.for_each(|_| cx.judges("client_recovers"));
        found.extend(
            without.iter().filter_map(|(host, (since, calm))| late(host, *since, *calm, until)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{milestone, started, violations};
    use super::*;

    /// Twice the detection time, the recovery window, an attempt and 1 s, under the guarantees of
    /// these runs.
    const ALLOWANCE: u64 = 2 * 16_000 + 25_000 + 5_000 + 1_000;

    #[test]
    fn a_client_has_a_connection_again_or_fails() {
        let lost = || milestone(started(), 2_000, "exec.client.lost", &[]).end(200_000);
        for end in ["exec.client.connected", "exec.client.failed-deadline"] {
            let back = |ms| milestone(lost(), ms, end, &[]);
            assert!(violations(&back(2_000 + ALLOWANCE), client_recovers).is_empty());
            assert_eq!(violations(&back(2_001 + ALLOWANCE), client_recovers).len(), 1);
        }
        assert_eq!(
            violations(&lost(), client_recovers),
            [
                "client: it had no connection from 2.000 s on, although nothing disturbed it from 2.000 s until 65.000 s"
            ]
        );
    }

    #[test]
    fn a_client_tries_for_its_whole_recovery_time() {
        // It has the connection 1 until it finds it silent at 18 s, and then tries for 25 s.
        let failed = |known: u64, ms: u64| {
            let scripted = started().conn(1, 100, Some(18_000)).partition(2_000, None).end(200_000);
            let connected = milestone(scripted, 200, "exec.client.connected", &[("conn", "1")]);
            let tries = milestone(connected, known, "exec.client.recovering", &[]);
            violations(&milestone(tries, ms, "exec.client.failed-deadline", &[]), client_recovers)
        };
        assert!(failed(18_000, 43_000).is_empty());
        assert!(failed(18_000, 42_950).is_empty());
        assert_eq!(
            failed(18_000, 42_949),
            [
                "client: it gave up too soon: it had no connection only since 18.000 s, and tries for 25s (at 42.949 s)"
            ]
        );
        assert!(failed(17_000, 42_000).is_empty(), "the end of the connection is recorded late");
        assert!(failed(19_000, 43_000).is_empty(), "the time may count from the end");
        let at_first = |ms: u64| {
            let tries = milestone(started(), 0, "exec.client.recovering", &[]);
            violations(&milestone(tries, ms, "exec.client.failed-deadline", &[]), client_recovers)
        };
        assert_eq!([at_first(25_000).len(), at_first(24_900).len()], [0, 1]);
    }

    #[test]
    fn the_time_counts_from_the_last_fault() {
        let lost = milestone(started(), 2_000, "exec.client.lost", &[]);
        let faulty = || lost.clone().kills(3_000, 10_000).end(200_000);
        let back = |ms| milestone(faulty(), ms, "exec.client.connected", &[]);
        assert!(violations(&back(10_000 + ALLOWANCE), client_recovers).is_empty());
        assert_eq!(violations(&back(10_001 + ALLOWANCE), client_recovers).len(), 1);
    }

    #[test]
    fn a_later_fault_excuses_no_client_that_was_late_before() {
        let lost = || milestone(started(), 2_000, "exec.client.lost", &[]);
        let faulty = lost().kills(100_000, 101_000).end(200_000);
        assert_eq!(violations(&faulty, client_recovers).len(), 1);
        // A fault that lasts longer than the limit excuses it.
        let long = milestone(lost().kills(3_000, 150_000), 151_000, "exec.client.connected", &[]);
        assert!(violations(&long, client_recovers).is_empty());
    }
}
