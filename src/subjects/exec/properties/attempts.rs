//! The answers of attempts: a client receives the answer of a server that has attached its connection,
//! and gives up an attempt without an answer only if a fault delayed the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::generations::{ConnMilestone, LITTLE, connection};
use crate::history::{EventKind, Nature, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{About, CheckContext, Violation, ViolationFields};
use crate::schedule::{Fault, MilestoneValue};
use crate::subjects::exec::network_fault::NetworkFault;
use crate::subjects::judging::{host, judged};

kinds! {
    pub(super) ATTEMPTS_ARE_ANSWERED;
    GIVEN_UP = "given-up": "the client abandoned an attempt, although no fault delayed the response {moment}";
}

kinds! {
    pub(super) ATTACHED_ARE_HEARD;
    UNHEARD = "unheard": "{subject} was attached at {attached}, but its client never received the response";
}

/// A client must not give up an attempt as unanswered if the network had no fault in the attempt's
/// last moments. These last a few round trips, which is enough for any answer. The property checks
/// only attempts during which there was no fault other than held tasks: a dead host cannot answer,
/// and a delayed packet remains late after the fault's end.
pub(super) fn attempts_are_answered(cx: &CheckContext<'_>) -> Vec<Violation> {
    if !cx.is_honest() {
        return Vec::new();
    }
    let enough = cx.plan.latency.1 * 4 + Duration::from_millis(500);
    let mut network_fault = NetworkFault::default();
    // The faults in force other than holds, and the hosts whose current attempt has seen none of
    // them.
    let mut in_force: BTreeSet<usize> = BTreeSet::new();
    let mut unharmed: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        network_fault.pass(event);
        let is_judged = || {
            network_fault.in_force == 0
                && network_fault.last.is_some_and(|at| at + enough < event.at)
                && network_fault.printed <= LITTLE
        };
        match &event.what {
            EventKind::Died { .. } => unharmed.clear(),
            EventKind::FaultBegan { fault, what, nature, .. }
                if *nature != Nature::Harmless && !matches!(**what, Fault::Hold { .. }) =>
            {
                in_force.insert(*fault);
                unharmed.clear();
            }
            EventKind::FaultEnded { fault } => drop(in_force.remove(fault)),
            EventKind::Milestone { name: "exec.client.recovering", .. } if in_force.is_empty() => {
                unharmed.insert(host(event));
            }
            // The client could have abandoned this attempt, too.
            EventKind::Milestone { name: "exec.client.connected", .. }
                if unharmed.contains(host(event)) && is_judged() =>
            {
                cx.judges("attempts_are_answered");
            }
            EventKind::Milestone { name: "exec.client.attempt-failed", fields } => {
                let was_unharmed = unharmed.remove(host(event));
                // The next attempt begins here.
                unharmed.extend(in_force.is_empty().then_some(host(event)));
                let unanswered = MilestoneValue::text(fields, "why") == Some("given up");
                if !was_unharmed || !is_judged() {
                    continue;
                }
                cx.judges("attempts_are_answered");
                if unanswered {
                    let (host, data) = (event.host.as_ref(), ViolationFields::default());
                    found.push(Violation::new(
                        "attempts_are_answered",
                        host,
                        event.at,
                        &GIVEN_UP,
                        data,
                    ));
                }
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// If the server has attached a connection, the client receives the server's answer, independent of
/// earlier answers and later events. The property checks only connections that had no fault for as
/// long as the answer takes, in runs with little output before it.
pub(super) fn attached_are_answered(cx: &CheckContext<'_>) -> Vec<Violation> {
    if !cx.is_honest() {
        return Vec::new();
    }
    let enough = cx.plan.latency.1 * 2 + Duration::from_millis(100);
    let mut network_fault = NetworkFault::default();
    let is_over = |of: u64, by: Time| {
        connection(cx, of).is_none_or(|conn| conn.over.0.is_some_and(|over| over <= by))
    };
    let is_judged = |of: u64, attached: Time, printed: usize| {
        let is_judged = printed <= LITTLE && !is_over(of, attached + enough);
        if is_judged {
            cx.judges("attached_are_answered");
        }
        is_judged
    };
    let mut unheard: BTreeMap<u64, Time> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        unheard.retain(|conn, attached| {
            let late = *attached + enough < event.at;
            if late && is_judged(*conn, *attached, network_fault.printed) {
                let (subject, at) =
                    (About::Named(format!("connection {conn}")), *attached + enough);
                found.push(Violation::new(
                    "attached_are_answered",
                    subject,
                    at,
                    &UNHEARD,
                    fields! { attached: *attached },
                ));
            }
            !late
        });
        network_fault.pass(event);
        if network_fault.in_force > 0 || network_fault.last == Some(event.at) {
            unheard.clear();
        }
        let Some(milestone) = ConnMilestone::of(event) else { continue };
        match milestone.name {
            "exec.server.attached" if network_fault.in_force == 0 => {
                unheard.insert(milestone.conn, event.at);
            }
            "exec.client.initialized" => {
                if let Some(attached) = unheard.remove(&milestone.conn) {
                    is_judged(milestone.conn, attached, network_fault.printed);
                }
            }
            "exec.client.attempt-failed" | "exec.server.detached" => {
                unheard.remove(&milestone.conn);
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
    use crate::property::scripted::{ScriptedRun, history};

    #[test]
    fn an_attempt_is_given_up_only_after_a_fault() {
        let begun =
            |scripted: ScriptedRun, ms| milestone(scripted, ms, "exec.client.recovering", &[]);
        let given_up = |scripted: ScriptedRun, ms| {
            milestone(scripted, ms, "exec.client.attempt-failed", &[("why", "given up")])
        };
        let wrong = [
            "the client abandoned an attempt, although no fault delayed the response (at 9.000 s)",
        ];
        // The server holds the answer for a while.
        let held = |scripted: ScriptedRun, ends| {
            given_up(begun(scripted, 2_500).by("server").slows(3_000, ends).by("client"), 9_000)
        };
        assert_eq!(
            violations(&held(history().kills(1_000, 2_000), 4_000), attempts_are_answered),
            wrong
        );
        let second = given_up(begun(history(), 1_000).kills(2_000, 3_000), 4_000);
        assert!(
            violations(&second, attempts_are_answered).is_empty(),
            "what it was waiting for may be dead"
        );
        assert_eq!(
            violations(&given_up(second, 9_000), attempts_are_answered),
            wrong,
            "the one after it"
        );
        assert!(
            violations(&held(history(), 8_900), attempts_are_answered).is_empty(),
            "just before"
        );
        assert!(violations(&held(history(), 12_000), attempts_are_answered).is_empty(), "in force");
        assert!(
            violations(&held(history().kills(2_000, 3_500), 4_000), attempts_are_answered)
                .is_empty(),
            "when it began"
        );
        let died =
            given_up(begun(history().kills(1_000, 2_000), 2_500).died("server", 4_000), 9_000);
        assert!(violations(&died, attempts_are_answered).is_empty());
        let refused = begun(history().kills(1_000, 2_000), 2_500);
        let refused =
            milestone(refused, 9_000, "exec.client.attempt-failed", &[("why", "no connection")]);
        assert!(violations(&refused, attempts_are_answered).is_empty());
        let much = begun(history().kills(1_000, 2_000), 2_500).produced(
            "p1/stdout",
            4_000,
            &"x".repeat(40 << 10),
        );
        assert!(
            violations(&given_up(much, 9_000), attempts_are_answered).is_empty(),
            "a catch-up with much output takes longer"
        );
    }

    #[test]
    fn a_client_receives_the_answer_of_an_attach() {
        let found = |answered, at, fault_at| {
            let run = history().conn(1, 900, None).died("server", fault_at);
            let run = milestone(run, 1_000, "exec.server.attached", &[("conn", "1")]);
            let run = milestone(run, at, "exec.client.initialized", &[("conn", answered)]);
            let run = milestone(run, 1_200, "exec.server.detached", &[("conn", "2")]);
            violations(&run, attached_are_answered)
        };
        let wrong =
            ["connection 1 was attached at 1.000 s, but its client never received the response"];
        assert_eq!(found("1", 1_140, 900), [""; 0]);
        assert_eq!(found("1", 1_141, 900), wrong);
        assert_eq!(found("2", 1_100, 900), wrong, "another connection");
        assert_eq!(found("1", 1_150, 1_100), [""; 0], "something was in its way");
    }
}
