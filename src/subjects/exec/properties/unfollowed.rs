//! `unfollowed_run_on`: a process that its user does not follow any more is held for no user.
//!
//! It counts from the latest of three times: the time at which the user stopped, the newest
//! connection of the client, and the last fault. From then on the process needs only its own time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::counts::ledger::Ledger;
use crate::history::{Call, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::Operation;
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::records;
use crate::world::process::{Input, ProcessEnd, Setup, TABLE};

kinds! {
    pub(super) UNFOLLOWED_RUN_ON;
    HELD = "held": "{subject:}its user does not follow it since {stopped}, and it needs {takes}, but from {since} on it has not ended {moment}";
}

/// The time for the message to the server, and for the end of the process.
const SOON: Duration = Duration::from_secs(2);

/// The bytes of output that a link carries in a millisecond, at least.
const SLOWEST: u64 = 50;

/// A process that its user does not follow any more.
struct Unfollowed<'a> {
    host: &'a str,
    stopped: Time,
    /// How long it prints, at most.
    takes: Duration,
}

/// See the module.
pub(super) fn unfollowed_run_on(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let mut ledger = Ledger::default();
    let mut asked: BTreeMap<Call, &Operation> = BTreeMap::new();
    // When the user of each process begins to read its events. `None`: with the start.
    let mut looks: BTreeMap<&str, Option<Time>> = BTreeMap::new();
    // The processes that end by themselves.
    let mut unfollowed: BTreeMap<&str, Unfollowed<'_>> = BTreeMap::new();
    let mut ended: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    let until = Time::from(cx.plan.horizon);
    for event in judged(cx) {
        let late =
            |(process, one): (&&str, &Unfollowed<'_>)| late(cx, &ledger, process, one, event.at);
        found.extend(unfollowed.iter().filter_map(late));
        if !found.is_empty() {
            break;
        }
        ledger.pass(cx, event);
        match &event.what {
            EventKind::Asked { call, operation, .. } => drop(asked.insert(*call, operation)),
            EventKind::Opened { stream, call } => {
                let after = asked.get(call).map_or(Duration::ZERO, |start| start.looks_after());
                let later = (!after.is_zero()).then(|| event.at + after);
                looks.insert(cx.guarantees.whole(stream), later);
            }
            EventKind::GaveUp { stream: Some(stream), call } => {
                let process = cx.guarantees.whole(stream);
                let stops = asked.get(call).is_some_and(|operation| {
                    matches!(operation.verb.as_str(), "drop-handle" | "unfollow")
                });
                // Another subscription may be slow.
                let is_read_again = asked.values().any(|operation| {
                    matches!(
                        operation.verb.as_str(),
                        "read-events" | "read-stream" | "write-stream"
                    ) && operation.fields.get("process").and_then(|name| name.as_str())
                        == Some(records::declared(process))
                });
                // The client keeps everything for the first subscription. A user that stops before it
                // looks never subscribes. In one millisecond, the order of both is unknown.
                let looked = looks
                    .get(process)
                    .is_some_and(|later| later.is_none_or(|later| later < event.at));
                if stops && !looked {
                    looks.remove(process);
                }
                let is_judged = stops && !is_read_again && looked;
                let takes = takes(cx, process).filter(|_| is_judged);
                if let Some(takes) = takes.filter(|_| !ended.contains(process)) {
                    let one = Unfollowed { host: host(event), stopped: event.at, takes };
                    unfollowed.insert(process, one);
                }
            }
            EventKind::Ended { stream, .. } => {
                ended.insert(&stream.0);
                let one = unfollowed.remove(&*stream.0);
                // It would have been late in this run if it had not ended.
                let bound = one.and_then(|one| bound(&ledger, &one));
                if bound.is_some_and(|(_, bound)| bound < until) {
                    cx.judges("unfollowed_run_on");
                }
            }
            EventKind::Died { .. } => unfollowed.clear(),
            _ => {}
        }
    }
    let late = |(process, one): (&&str, &Unfollowed<'_>)| late(cx, &ledger, process, one, until);
    if found.is_empty() {
        found.extend(unfollowed.iter().filter_map(late));
    }
    found
}

/// Returns how long a process prints, if it then ends by itself.
fn takes(cx: &CheckContext<'_>, process: &str) -> Option<Duration> {
    let setup: Setup = cx.plan.entry(TABLE, records::declared(process))?;
    let ends = setup.exit.0 != ProcessEnd::Never && setup.stdin != Input::Echo;
    let lines = [setup.print, setup.stderr].into_iter().flatten();
    let each = lines
        .map(|lines| lines.every.0.saturating_mul(u32::try_from(lines.lines).unwrap_or(u32::MAX)));
    ends.then(|| each.max().unwrap_or_default())
}

/// Returns from when on a process needs only its own time, and when it must have ended.
fn bound(ledger: &Ledger<'_>, one: &Unfollowed<'_>) -> Option<(Time, Time)> {
    let fault = &ledger.network_fault;
    if fault.in_force > 0 {
        return None;
    }
    let attached = ledger.attached(one.host)?;
    let since = one.stopped.max(attached).max(fault.settled.unwrap_or_default());
    let bound = since + one.takes + SOON + Duration::from_millis(fault.printed as u64 / SLOWEST);
    Some((since, bound))
}

fn late(
    cx: &CheckContext<'_>,
    ledger: &Ledger<'_>,
    process: &str,
    one: &Unfollowed<'_>,
    now: Time,
) -> Option<Violation> {
    let (since, bound) = bound(ledger, one).filter(|(_, bound)| *bound < now)?;
    cx.judges("unfollowed_run_on");
    let data = fields! { stopped: one.stopped, takes: one.takes, since };
    Some(Violation::new("unfollowed_run_on", process, bound, &HELD, data))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{milestone, started, started_as, violations};
    use super::*;
    use crate::history::{Class, ConnIndex, ProcessOutcome};
    use crate::property::scripted::ScriptedRun;

    /// A user with a connection does this with its process, which prints for 3 s, at 2 s.
    fn stopped(verb: &str) -> ScriptedRun {
        let asked = connected(started()).asked_as(2, 2_000, Class::Durable, verb, P1);
        asked.gave_up(2, Some("p1"), 2_000).end(60_000)
    }

    const P1: &str = r#"{"process":"p1"}"#;

    fn connected(started: ScriptedRun) -> ScriptedRun {
        let mut connected = started.conn(1, 0, None);
        let lines = json!({ "lines": 30, "every": "100ms" });
        connected.plan.setup.insert("process".into(), json!({ "p1": { "print": lines } }));
        let connected = connected.user(0, EventKind::ConnOpened { conn: ConnIndex(0) });
        milestone(connected, 50, "exec.client.connected", &[("conn", "1")])
    }

    #[test]
    fn a_process_without_a_user_needs_its_own_time() {
        for verb in ["drop-handle", "unfollow"] {
            assert_eq!(violations(&stopped(verb), unfollowed_run_on).len(), 1);
            let ended = |ms| stopped(verb).ended("p1", ms, ProcessOutcome::Exit(0));
            assert!(violations(&ended(7_000), unfollowed_run_on).is_empty());
            assert_eq!(violations(&ended(7_100), unfollowed_run_on).len(), 1);
        }
        assert!(violations(&stopped("terminate"), unfollowed_run_on).is_empty());
    }

    #[test]
    fn a_user_that_stops_before_it_looks_never_subscribes() {
        let looks_late = |stops: &[u64]| {
            let run = connected(started_as(r#"{"process":"p1","looks-after":"3s"}"#));
            let unfollow = |run: ScriptedRun, ms: &u64| {
                let asked = run.asked_as(*ms, *ms, Class::Durable, "unfollow", P1);
                asked.gave_up(*ms, Some("p1"), *ms)
            };
            violations(&stops.iter().fold(run, unfollow).end(60_000), unfollowed_run_on).len()
        };
        assert_eq!((looks_late(&[2_000]), looks_late(&[4_000])), (0, 1));
        // The start was answered at 120 ms.
        assert_eq!((looks_late(&[3_120]), looks_late(&[3_121])), (0, 1), "the order is unknown");
        assert_eq!(looks_late(&[2_000, 4_000]), 0);
    }

    #[test]
    fn a_fault_excuses_the_time_up_to_its_end() {
        let faulty = || stopped("unfollow").kills(3_000, 20_000);
        let ended = |ms| faulty().ended("p1", ms, ProcessOutcome::Exit(0));
        assert!(violations(&ended(25_000), unfollowed_run_on).is_empty());
        assert_eq!(violations(&ended(25_100), unfollowed_run_on).len(), 1);
    }
}
