//! The server's guarantees for each of its users, independent of connection failures.
//!
//! - A read that may wait is answered when there is a new event: not before, and not only at its
//!   deadline. Without one, it is answered when its wait is over.
//! - A closed process can be read until its user has been attached for long enough. An attempt to attach
//!   begins that time anew, also if it is refused.
//! - A process id is taken only within its own session.
//!
//! If the history does not determine a time to the millisecond, these properties decide in favour
//! of the subject. The time of an event that a read waits for is known only if it is the first or
//! the last event, or if the same connection has already delivered it to the user. The last event of a
//! process whose output waits for a slow user comes only when that user has read on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::generations::{LITTLE, connection};
use crate::history::{Answer, Call, Event, EventKind, Time};
use crate::property::path::{NEVER, Requests, turn_behind};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Guarantees, Phrase, Violation, ViolationFields};
use crate::schedule::{MilestoneValue, Operation};
use crate::subjects::exec::answers::{ExecFailure, ExecObservation, Read};
use crate::subjects::exec::limits::{client_limits, server_limits};
use crate::subjects::exec::network_fault::{NetworkFault, weight};
use crate::subjects::exec::operations;
use crate::subjects::judging::{host, judged, peers_may_lie};
use reknit_exec::server::CHUNK;
use reknit_exec::wire::flow::FlowWindow;

kinds! {
    pub(super) READS_WAIT;
    TOO_EARLY = "too-early": "{subject:}the read was answered before its wait ended, with no new event ({answer}; at {at})";
    AFTER_ITS_EVENT = "after-its-event": "{subject:}the read was answered only at {at}, although its user received the event at {received}";
    AFTER_ITS_WAIT = "after-its-wait": "{subject:}the read was answered only at {at}, although its wait was over at {over}";
    TOO_LATE = "too-late": "{subject:}the read was answered only at {at}, although a new event existed since {due}";
}

kinds! {
    pub(super) CLOSED_ARE_KEPT;
    FORGOTTEN = "forgotten": "{subject:}the server forgot the closed process too early: {attached} {moment}";
}

// A part of the message above: the attached user.
kinds! {
    ATTACHED_SINCE = "since": "its client was attached only since {since}";
    NOBODY = "nobody": "no client was attached";
    REFUSED_AT = "refused-at": "the server refused its client at {refused}, which may have missed events";
}

kinds! {
    pub(super) IDS_ARE_OWN;
    FOREIGN = "foreign": "{subject:}it was refused, but its user had no process with this id ({answer}; at {at})";
}

/// How long it takes at most, without a fault, until what one side does at once has its effect on the
/// other side: two round trips, and a moment for the tasks.
pub(super) fn at_once(cx: &CheckContext<'_>) -> Duration {
    cx.plan.latency.1 * 4 + Duration::from_millis(50)
}

/// The minimum size of a piece of a long line.
const SHORTEST: usize = CHUNK / 2;

/// An operation, with its host and its time.
#[derive(Clone, Copy)]
pub(super) struct UserOperation<'a> {
    pub(super) at: Time,
    pub(super) host: &'a str,
    pub(super) operation: &'a Operation,
}

impl<'a> UserOperation<'a> {
    pub(super) fn of(event: &'a Event) -> Option<(Call, Self)> {
        let EventKind::Asked { call, operation, .. } = &event.what else { return None };
        Some((*call, Self { at: event.at, host: event.host.as_ref()?.as_str(), operation }))
    }

    pub(super) fn verb(&self) -> &'a str {
        &self.operation.verb
    }

    pub(super) fn process(&self) -> Option<&'a str> {
        self.operation.fields.get("process")?.as_str()
    }

    /// Returns how many answers to this operation contain output.
    pub(super) fn reads(&self) -> usize {
        match self.verb() {
            "read" | "read-all" => 1,
            "pipeline" => self.requests() as usize,
            _ => 0,
        }
    }

    /// The number of requests that the operation sends at once.
    pub(super) fn requests(&self) -> u64 {
        operations::requests(self.operation)
    }

    /// How long its request may wait at the server, whatever the patience of its user.
    pub(super) fn wait(&self) -> Duration {
        self.operation.request_wait()
    }

    /// The event after which the operation asked for more, if the schedule contains it.
    pub(super) fn after(&self) -> u64 {
        self.operation.fields.get("after").and_then(|after| after.as_u64()).unwrap_or(0)
    }

    /// Whether the user acts over the handle of an older process of the name.
    pub(super) fn is_older(&self) -> bool {
        self.operation.fields.get("older") == Some(&true.into())
    }

    /// The number of bytes that the operation writes.
    pub(super) fn bytes(&self) -> usize {
        bytes(self.operation)
    }

    /// Returns whether both operations refer to the same process name on the same host.
    pub(super) fn is_about_the_process_of(&self, other: &Self) -> bool {
        self.host == other.host && self.process() == other.process()
    }
}

/// The number of bytes that an operation writes.
fn bytes(operation: &Operation) -> usize {
    operations::written_bytes(operation).unwrap_or_default() as usize
}

/// The state of the processes at a moment.
#[derive(Default)]
struct ProcessFacts<'a> {
    asked: BTreeMap<Call, UserOperation<'a>>,
    /// The time at which each call had its outcome: an answer, a failure, or a stream.
    over: BTreeMap<Call, Time>,
    /// The time at which the user gave up each call.
    given_up: BTreeMap<Call, Time>,
    /// The time at which the start of each process was answered.
    opened: BTreeMap<&'a str, Time>,
    /// The newest successful start by host and process, with the name of its record.
    newest: BTreeMap<(&'a str, &'a str), &'a str>,
    /// The time of each process's first output.
    first: BTreeMap<&'a str, Time>,
    /// The time at which each process, including its output, really ended.
    last: BTreeMap<&'a str, Time>,
    /// The lines and bytes that each process printed.
    printed: BTreeMap<&'a str, (usize, usize)>,
    /// The times at which the user received each event, from the first one.
    received: BTreeMap<&'a str, Vec<Time>>,
    network_fault: NetworkFault,
    /// The time at which a host was last started.
    started: Time,
    /// The time at which each client last installed a connection.
    connected: BTreeMap<&'a str, Time>,
    /// The bytes that links must carry, as an estimate: the output of all processes, each item
    /// counted as its [`weight`], and the bytes that users wrote.
    output: usize,
}

impl<'a> ProcessFacts<'a> {
    fn learn(&mut self, event: &'a Event, guarantees: &Guarantees) {
        self.network_fault.pass(event);
        match &event.what {
            EventKind::Asked { operation, .. } => {
                self.asked.extend(UserOperation::of(event));
                self.output += bytes(operation);
            }
            // The server may still answer a call that its user gave up.
            EventKind::Answered { call, answer: Answer::GivenUp } => {
                self.given_up.insert(*call, event.at);
            }
            EventKind::Answered { call, .. } | EventKind::Failed { call, .. } => {
                self.over.insert(*call, event.at);
            }
            EventKind::Opened { stream, call } => {
                self.over.entry(*call).or_insert(event.at);
                self.opened.entry(guarantees.whole(stream)).or_insert(event.at);
                if let Some(start) = self.asked.get(call)
                    && let Some(process) = start.process()
                {
                    self.newest.insert((start.host, process), guarantees.whole(stream));
                }
            }
            EventKind::Produced { stream, bytes } => {
                self.output += weight(bytes.len());
                self.first.entry(guarantees.whole(stream)).or_insert(event.at);
                let (lines, total) = self.printed.entry(guarantees.whole(stream)).or_default();
                (*lines, *total) = (*lines + 1, *total + bytes.len());
            }
            EventKind::Delivered { stream, .. } => {
                self.received.entry(guarantees.whole(stream)).or_default().push(event.at)
            }
            EventKind::Observed { stream, saw }
                if matches!(saw.downcast_ref(), Some(ExecObservation::ExitAt(_))) =>
            {
                self.received.entry(guarantees.whole(stream)).or_default().push(event.at);
            }
            EventKind::Milestone { name: "exec.client.connected", .. } => {
                self.connected.insert(host(event), event.at);
            }
            EventKind::Milestone { name: "exec.client.lost", .. } | EventKind::Died { .. } => {
                self.connected.remove(host(event));
            }
            EventKind::Ended { stream, .. } => {
                self.last.insert(guarantees.whole(stream), event.at);
            }
            EventKind::Started => self.started = event.at,
            _ => {}
        }
    }

    /// Returns whether so little data has been in flight to a host since a moment that no data
    /// waits for room. The estimate counts the whole output once for each read that had not ended
    /// before that moment, or once if there is none.
    fn is_link_idle(&self, host: &str, since: Time) -> bool {
        let is_over = |call: &Call| self.over.get(call).is_some_and(|over| *over < since);
        let reads = self
            .asked
            .iter()
            .filter(|(call, asked)| asked.host == host && !is_over(call))
            .map(|(_, asked)| asked.reads())
            .sum::<usize>();
        self.output.saturating_mul(reads.max(1)) <= LITTLE
    }

    /// The time from which a read has its turn: its client has at most `calls` requests in flight, so
    /// it waits until enough operations that came before it have ended. Each of these may wait for
    /// something else than the network. A read whose process was not started yet is sent only when it
    /// is: operations that were asked for until then come before it, too. A read that is made during
    /// a later start waits until that start has an outcome, or its user gives it up.
    fn turn(&self, call: Call, read: &UserOperation<'_>, calls: usize) -> Time {
        let record = read.process().and_then(|process| self.newest.get(&(read.host, process)));
        let opened = record.and_then(|record| self.opened.get(record)).copied();
        let awaited = self.asked.iter().filter(|(other, asked)| {
            asked.verb() == "start" && **other < call && asked.is_about_the_process_of(read)
        });
        let outcome = |start: &Call| {
            let over = self.over.get(start).or_else(|| self.given_up.get(start));
            over.copied().unwrap_or(NEVER)
        };
        let settled = awaited.map(|(start, _)| outcome(start)).max();
        let sent = read.at.max(opened.unwrap_or_default()).max(settled.unwrap_or_default());
        let over = |other: &Call| self.over.get(other).copied().unwrap_or(NEVER);
        let before = self.asked.iter().filter(|(other, asked)| {
            let is_before = **other < call || opened.is_some_and(|opened| asked.at <= opened);
            asked.host == read.host && **other != call && is_before && over(other) >= sent
        });
        let before = before.map(|(other, asked)| Requests {
            asked: asked.at,
            answered: over(other),
            count: asked.requests(),
        });
        turn_behind(sent, before, calls as u64).unwrap_or(sent)
    }

    /// The time from which an answer to the read certainly exists.
    fn due(
        &self,
        read: &UserOperation<'_>,
        after: u64,
        window: Option<FlowWindow>,
    ) -> Option<Time> {
        let record = self.newest.get(&(read.host, read.process()?))?;
        let known = match after {
            0 => self.first.get(record),
            _ if self.may_be_held(read, record, window) => None,
            _ => self.last.get(record),
        };
        known.map(|at| read.at.max(*at))
    }

    /// Returns whether the end of a process may wait behind its output: a user reads the output
    /// slowly, and it is more than flow control lets the server read ahead. Each of two streams needs
    /// room for one more chunk.
    fn may_be_held(
        &self,
        read: &UserOperation<'_>,
        record: &str,
        window: Option<FlowWindow>,
    ) -> bool {
        let Some(window) = window else { return false };
        let is_slow = |other: &UserOperation<'_>| {
            let operation = other.operation;
            operation.pauses().is_some() || !operation.looks_after().is_zero()
        };
        let mut others = self.asked.values();
        let (lines, bytes) = self.printed.get(record).copied().unwrap_or_default();
        let chunks = lines + bytes / SHORTEST + 2;
        let is_much = chunks as u64 > window.window_chunks
            || (bytes + 2 * CHUNK) as u64 > window.window_bytes;
        is_much && others.any(|other| other.is_about_the_process_of(read) && is_slow(other))
    }

    /// The time from which the user has received the event that the read waits for.
    fn received_since(&self, read: &UserOperation<'_>, after: u64) -> Option<Time> {
        let record = self.newest.get(&(read.host, read.process()?))?;
        let event = usize::try_from(after).ok()?;
        self.received.get(record)?.get(event).map(|at| read.at.max(*at))
    }
}

pub(super) fn reads_wait(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let guarantees = cx.guarantees;
    let limits = cx.limits;
    let client = client_limits(limits);
    let window = server_limits(limits).flow_window(client.flow_window());
    let calls = client.calls;
    let recovers = guarantees.reconnects_within() + Duration::from_secs(1);
    let crosses = cx.plan.latency.1 * 4 + Duration::from_secs(1);
    // One connection delivers an event and the answer to a read that waits for it at nearly the
    // same time.
    let together = at_once(cx);
    let mut known = ProcessFacts::default();
    let mut found = Vec::new();
    for event in judged(cx) {
        known.learn(event, guarantees);
        let EventKind::Answered { call, answer } = &event.what else { continue };
        let Some(read) =
            known.asked.get(call).filter(|asked| asked.verb() == "read" && !asked.wait().is_zero())
        else {
            continue;
        };
        // Its user waited for less time than the read.
        if matches!(answer, Answer::GivenUp) {
            continue;
        }
        let result = answer.done::<Read>();
        let after = result.and_then(|result| result.after).unwrap_or_else(|| read.after());
        if let Some(result) = result
            .filter(|_| event.at < read.at + read.wait())
            .inspect(|_| cx.judges("reads_wait"))
            .filter(|result| result.says_nothing_new(after))
        {
            let data = fields! { answer: result.alone().to_string() };
            found.push(Violation::new("reads_wait", *call, event.at, &TOO_EARLY, data));
        }
        // The events below are those of the newest process of the name.
        if known.network_fault.in_force > 0 || read.is_older() {
            continue;
        }
        let turn = known.turn(*call, read, calls);
        let opened = known.network_fault.narrowed.map(|narrowed| narrowed + cx.plan.latency.1 * 2);
        let calm =
            known.network_fault.settled.max(opened).max(Some(known.started)).unwrap_or_default();
        let connected = known.connected.get(read.host).copied();
        if let Some((received, connected)) = known.received_since(read, after).zip(connected) {
            let since = received.max(calm).max(connected).max(turn);
            if known.is_link_idle(read.host, since) {
                cx.judges("reads_wait");
                if event.at > since + together {
                    found.push(Violation::new(
                        "reads_wait",
                        *call,
                        event.at,
                        &AFTER_ITS_EVENT,
                        fields! { received },
                    ));
                    continue;
                }
            }
        }
        // The server's wait begins when the request arrives: with the turn of the read, or after a fault.
        // After a recovery, the client asks for the rest of the wait. A refusal may be the client's own,
        // so only the answer of a server counts.
        let over = turn.max(calm) + read.wait();
        if let Some(connected) = connected.filter(|_| result.is_some()) {
            let since = over.max(connected);
            if event.at >= since && known.is_link_idle(read.host, since) {
                cx.judges("reads_wait");
                if event.at > since + crosses {
                    found.push(Violation::new(
                        "reads_wait",
                        *call,
                        event.at,
                        &AFTER_ITS_WAIT,
                        fields! { over },
                    ));
                    continue;
                }
            }
        }
        let Some(due) = known.due(read, after, window).map(|due| due.max(turn)) else { continue };
        cx.judges("reads_wait");
        // A client with a continuous connection needs no recovery, but much output takes longer to
        // arrive. The end of a process does not complete a read whose user already received it.
        let since = connected.filter(|_| after == 0).map(|connected| due.max(calm).max(connected));
        let soon = since
            .filter(|since| known.is_link_idle(read.host, *since))
            .map_or(NEVER, |since| since + crosses);
        if event.at > soon.min(due.max(calm) + recovers) {
            found.push(Violation::new("reads_wait", *call, event.at, &TOO_LATE, fields! { due }));
        }
    }
    found
}

pub(super) fn closed_are_kept(cx: &CheckContext<'_>) -> Vec<Violation> {
    let kept = server_limits(cx.limits).closed_retention;
    let mut attached: BTreeMap<u64, Time> = BTreeMap::new();
    // When the server last refused each client because of its earlier connection. A client that died may
    // have another session since.
    let mut refused: BTreeMap<&str, Time> = BTreeMap::new();
    let mut died: BTreeSet<&str> = BTreeSet::new();
    let client = |conn| connection(cx, conn).map(|conn| conn.client.as_str());
    let mut found = Vec::new();
    for event in judged(cx) {
        if let EventKind::Died { .. } = event.what {
            died.insert(host(event));
        }
        let (EventKind::Milestone { name, fields } | EventKind::Point { name, fields, .. }) =
            &event.what
        else {
            continue;
        };
        let Some(conn) = MilestoneValue::number(fields, "conn") else { continue };
        match *name {
            "exec.server.attach.unlocked" => drop(attached.insert(conn, event.at)),
            "exec.server.refused-still-attached" => {
                refused.extend(client(conn).map(|client| (client, event.at)));
            }
            "exec.process.forgotten" => {
                cx.judges("closed_are_kept");
                let process = MilestoneValue::text(fields, "process").unwrap_or_default();
                // A puppet may use several sessions.
                let is_judged = |client: &&str| cx.is_honest() && !died.contains(client);
                let again = client(conn).filter(is_judged);
                let again = again.and_then(|client| refused.get(client));
                let attached = match attached.get(&conn) {
                    Some(since) if *since + kept <= event.at => match again {
                        Some(refused) if *refused + kept > event.at => {
                            Phrase::new(&REFUSED_AT, fields! { refused })
                        }
                        _ => continue,
                    },
                    Some(since) => Phrase::new(&ATTACHED_SINCE, fields! { since }),
                    None => Phrase::new(&NOBODY, ViolationFields::default()),
                };
                found.push(Violation::new(
                    "closed_are_kept",
                    process,
                    event.at,
                    &FORGOTTEN,
                    fields! { attached },
                ));
            }
            _ => {}
        }
    }
    found
}

pub(super) fn ids_are_own(cx: &CheckContext<'_>) -> Vec<Violation> {
    let mut asked: BTreeMap<Call, UserOperation<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx).filter(|_| !peers_may_lie(cx)) {
        asked.extend(UserOperation::of(event));
        let EventKind::Answered { call, answer } = &event.what else { continue };
        let Some(start) = asked
            .get(call)
            .filter(|asked| asked.verb() == "start" && ExecFailure::is_taken(answer))
        else {
            continue;
        };
        cx.judges("ids_are_own");
        let mut earlier = asked.range(..*call).map(|(_, earlier)| earlier);
        if !earlier
            .any(|earlier| earlier.verb() == "start" && earlier.is_about_the_process_of(start))
        {
            found.push(Violation::new(
                "ids_are_own",
                *call,
                event.at,
                &FOREIGN,
                fields! { answer },
            ));
        }
    }
    found
}
