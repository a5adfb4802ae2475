//! A process ends as its declaration specifies, unless its user ended it, or its user's session is
//! over.

use std::collections::BTreeMap;
use std::time::Duration;

use super::served::UserOperation;
use crate::history::{Answer, Call, Connection, Ending, EventKind, ProcessOutcome, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::{Fault, Host};
use crate::subjects::exec::answers::ExecFailure;
use crate::subjects::exec::limits::{LIMITS, server_limits};
use crate::subjects::judging::judged;
use crate::world::process::TABLE;

kinds! {
    pub(super) ENDS_AS_IT_WANTS;
    KILLED = "killed": "{subject:}it ended with {outcome}, but no user terminated it {moment}";
}

/// How long the server may wait for its peer after it has closed a connection.
const CLOSING: Duration = Duration::from_secs(1);

/// Whether the server had an installed connection of a client at any time after `from` and before
/// `to`. The server detaches the session when it begins to close the connection, unless the client
/// closed it first.
fn was_connected(cx: &CheckContext<'_>, client: &str, from: Time, to: Time) -> bool {
    let installed = cx.history.conns.iter().filter(|conn| conn.generation.is_some());
    let mut own = installed.filter(|conn| conn.client.as_str() == client);
    let detached = |conn: &Connection| {
        let over = conn.over.1?;
        let is_closed = |gone| gone <= over && gone >= over.before(CLOSING);
        Some(if conn.over.0.is_some_and(is_closed) { over } else { over.before(CLOSING) })
    };
    own.any(|conn| conn.opened < to && detached(conn).is_none_or(|over| over > from))
}

pub(super) fn ends_as_it_wants(cx: &CheckContext<'_>) -> Vec<Violation> {
    let mut asked: BTreeMap<Call, UserOperation<'_>> = BTreeMap::new();
    let mut starts: BTreeMap<&str, Call> = BTreeMap::new();
    let mut unwanted: Vec<Call> = Vec::new();
    let mut refused: Vec<Call> = Vec::new();
    let mut answered: BTreeMap<Call, Time> = BTreeMap::new();
    // The tasks that are held, by the number of the fault.
    let mut held: BTreeMap<usize, &[Host]> = BTreeMap::new();
    let lifetime = server_limits(&cx.plan.limits.over(LIMITS)).detached_lifetime;
    // Collected in advance, because a user that begins to follow its process late records the
    // failure later.
    let endings = || {
        cx.history.events.iter().filter_map(|event| match &event.what {
            EventKind::StreamEnded { stream, ending } => {
                Some((cx.guarantees.whole(stream), ending))
            }
            _ => None,
        })
    };
    let ended: Vec<&str> = endings().map(|(stream, _)| stream).collect();
    let failed: Vec<&str> = endings()
        .filter(|(_, ending)| matches!(ending, Ending::Failed { .. }))
        .map(|(stream, _)| stream)
        .collect();
    for event in judged(cx).filter(|_| cx.plan.puppets.is_empty()) {
        asked.extend(UserOperation::of(event));
        if let EventKind::Answered { call, .. } | EventKind::Failed { call, .. } = &event.what {
            answered.entry(*call).or_insert(event.at);
        }
        match &event.what {
            EventKind::FaultBegan { fault, what, scope, .. }
                if matches!(**what, Fault::Hold { .. }) =>
            {
                held.insert(*fault, &scope.hosts);
            }
            EventKind::FaultEnded { fault } => drop(held.remove(fault)),
            EventKind::Effect { call, target } => drop(starts.insert(target, *call)),
            EventKind::Failed { call, .. } => unwanted.push(*call),
            EventKind::Answered { call, answer: Answer::Refused(why) }
                if ExecFailure::is_of_its_process(why) =>
            {
                refused.push(*call)
            }
            EventKind::Answered { call, answer: Answer::Refused(_) | Answer::GivenUp } => {
                unwanted.push(*call)
            }
            // The processes end with their server. A client that was started again has another
            // session.
            EventKind::Died { .. } => return Vec::new(),
            EventKind::FaultBegan { what, .. }
                if matches!(**what, Fault::KillChildren { .. } | Fault::ClosePipe { .. }) =>
            {
                return Vec::new();
            }
            EventKind::Ended { stream, outcome }
                if matches!(outcome.downcast_ref(), Some(ProcessOutcome::Signal(_))) =>
            {
                let Some(call) = starts.get(&*stream.0) else { continue };
                let Some(start) = asked.get(call).filter(|start| !wants_a_signal(cx, start)) else {
                    continue;
                };
                let mut ends = asked
                    .values()
                    .filter(|asked| matches!(asked.verb(), "terminate" | "interrupt"));
                let is_asked_for = ends.any(|end| end.is_about_the_process_of(start));
                // The client follows a process with a dropped handle while calls on it wait, and
                // reports its failure to these calls. An answer may arrive together with the failure.
                let of_its_process = |call: &UserOperation<'_>| call.is_about_the_process_of(start);
                let is_dropped = asked
                    .values()
                    .any(|other| other.verb() == "drop-handle" && of_its_process(other));
                let crosses = cx.plan.latency.1 * 4 + Duration::from_millis(50);
                let is_in_use = is_dropped
                    && asked.iter().any(|(call, other)| {
                        let verbs = ["read", "read-all", "write", "write-stream", "pipeline"];
                        verbs.contains(&other.verb())
                            && of_its_process(other)
                            && answered.get(call).is_none_or(|at| *at + crosses >= event.at)
                    });
                let is_reported = refused
                    .iter()
                    .filter_map(|call| asked.get(call))
                    .any(|call| call.is_about_the_process_of(start));
                // If the answer of a start was lost, the client ends the process by its name. This
                // also ends an older process of that name.
                let of_its_name = |other: &UserOperation<'_>| {
                    other.verb() == "start" && other.is_about_the_process_of(start)
                };
                let is_unwanted = unwanted
                    .iter()
                    .any(|other| other == call || asked.get(other).is_some_and(of_its_name));
                // The processes end with their session.
                let is_expired =
                    !was_connected(cx, start.host, event.at.before(lifetime), event.at);
                // The client ends a process with a gap. A user that pauses reads of the gap later,
                // perhaps after the run, and one that follows the process no more reads nothing.
                let is_unfollowed = asked.values().any(|other| {
                    other.verb() == "unfollow" && other.is_about_the_process_of(start)
                });
                let is_unread = (start.operation.pauses().is_some()
                    || is_unfollowed
                    || !start.operation.looks_after().is_zero())
                    && !ended.contains(&&*stream.0);
                // A user whose task is held learns only later that its start failed.
                let mut held = held.values().copied().flatten();
                let is_unknown =
                    !answered.contains_key(call) && held.any(|host| host.as_str() == start.host);
                let is_excused = is_asked_for
                    || is_reported
                    || is_in_use
                    || is_unwanted
                    || is_expired
                    || is_unread
                    || is_unknown;
                if !is_excused && !failed.contains(&&*stream.0) {
                    return vec![Violation::new(
                        "ends_as_it_wants",
                        stream,
                        event.at,
                        &KILLED,
                        fields! { outcome },
                    )];
                }
            }
            _ => {}
        }
    }
    Vec::new()
}

/// Returns whether the scenario declares that the process ends by a signal.
fn wants_a_signal(cx: &CheckContext<'_>, start: &UserOperation<'_>) -> bool {
    let entry = start.process().and_then(|process| cx.plan.setup.get(TABLE)?.get(process));
    entry.and_then(|entry| entry.get("exit")).is_some_and(|exit| exit == "signal")
}
