//! What a server owes to each of its users, whatever becomes of connections.
//!
//! - A read that may wait is answered when there is something new: not before, and not only at its deadline.
//! - A closed process can be read until its user has been attached for long enough.
//! - An id of a process is taken only for its own session.
//! - A process ends as it wants to, unless its user had it ended, or its user's session is over.
//!
//! Where the truth is not known to the millisecond, these judge in favour of the subject: an event that a read waits for is known
//! by its time only where it is the first of all, or the last, or where the same connection has brought it to the user already.

use std::collections::BTreeMap;
use std::time::Duration;

use super::generations::LITTLE;
use crate::history::{Answer, Call, Ending, Event, EventKind, ProcessOutcome, Time};
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Guarantees, Phrase, Violation, ViolationFields};
use crate::schedule::units::read_size;
use crate::schedule::{MilestoneValue, Operation};
use crate::subjects::exec::answers::{ExecFailure, ExecObservation, Read};
use crate::subjects::exec::limits::{LIMITS, server_limits};
use crate::subjects::exec::network_fault::{NetworkFault, weight};
use crate::subjects::judging::{has_puppet, host, judged};
use crate::world::process::TABLE;

kinds! {
    pub(super) READS_WAIT;
    TOO_EARLY = "too-early": "{subject:}it was answered before its wait was over, with nothing new ({answer}; at {at})";
    AFTER_ITS_EVENT = "after-its-event": "{subject:}it was answered at {at} only, though its user was told at {scripted}";
    TOO_LATE = "too-late": "{subject:}it was answered at {at} only, though there had been something new since {due}";
}

kinds! {
    pub(super) CLOSED_ARE_KEPT;
    FORGOTTEN = "forgotten": "{subject:}it had closed, and was forgotten while {attached} {moment}";
}

// A part of that sentence: who was attached.
kinds! {
    ATTACHED_SINCE = "since": "its user had been attached since {since}";
    NOBODY = "nobody": "nobody was attached";
}

kinds! {
    pub(super) IDS_ARE_OWN;
    FOREIGN = "foreign": "{subject:}its user had no process of this id ({answer}; at {at})";
}

kinds! {
    pub(super) ENDS_AS_IT_WANTS;
    KILLED = "killed": "{subject:}it ended with {outcome}, and nobody had it ended {moment}";
}

/// Who asked for what, and when.
#[derive(Clone, Copy)]
struct Asked<'a> {
    at: Time,
    host: &'a str,
    operation: &'a Operation,
}

impl<'a> Asked<'a> {
    fn of(event: &'a Event) -> Option<(Call, Self)> {
        let EventKind::Asked { call, operation, .. } = &event.what else { return None };
        Some((*call, Self { at: event.at, host: event.host.as_ref()?.as_str(), operation }))
    }

    fn verb(&self) -> &'a str {
        &self.operation.verb
    }

    fn process(&self) -> Option<&'a str> {
        self.operation.fields.get("process")?.as_str()
    }

    /// Whether its answer has output in it.
    fn is_read(&self) -> bool {
        matches!(self.verb(), "read" | "read-all")
    }

    fn wait(&self) -> Duration {
        self.operation.wait()
    }

    /// After which event it asked for more, as far as the schedule says so.
    fn after(&self) -> u64 {
        self.operation.fields.get("after").and_then(|after| after.as_u64()).unwrap_or(0)
    }

    /// Whether both are about what one host calls by this name.
    fn is_about_the_process_of(&self, other: &Self) -> bool {
        self.host == other.host && self.process() == other.process()
    }
}

/// What is known of the processes at a moment.
#[derive(Default)]
struct Known<'a> {
    asked: BTreeMap<Call, Asked<'a>>,
    /// When each call was over.
    over: BTreeMap<Call, Time>,
    /// The newest start that came to something, by host and process, with the name of its record.
    newest: BTreeMap<(&'a str, &'a str), &'a str>,
    /// When each first printed something.
    first: BTreeMap<&'a str, Time>,
    /// When each really ended, its output included.
    last: BTreeMap<&'a str, Time>,
    /// When its user was told each of its events, from the first on.
    scripted: BTreeMap<&'a str, Vec<Time>>,
    network_fault: NetworkFault,
    /// When a host was last started.
    started: Time,
    /// When each client last installed a connection.
    connected: BTreeMap<&'a str, Time>,
    /// How much was printed in all, by [`weight`], and written by users: much is longer on its way.
    output: usize,
}

impl<'a> Known<'a> {
    fn learn(&mut self, event: &'a Event, guarantees: &Guarantees) {
        self.network_fault.pass(event);
        match &event.what {
            EventKind::Asked { operation, .. } => {
                self.asked.extend(Asked::of(event));
                let bytes =
                    operation.fields.get("bytes").and_then(|bytes| read_size(bytes.as_str()?).ok());
                self.output += bytes.unwrap_or_default() as usize;
            }
            EventKind::Answered { call, .. } | EventKind::Failed { call, .. } => {
                self.over.insert(*call, event.at);
            }
            EventKind::Opened { stream, call } => {
                if let Some(start) = self.asked.get(call)
                    && let Some(process) = start.process()
                {
                    self.newest.insert((start.host, process), guarantees.whole(stream));
                }
            }
            EventKind::Produced { stream, bytes } => {
                self.output += weight(bytes.len());
                self.first.entry(guarantees.whole(stream)).or_insert(event.at);
            }
            EventKind::Delivered { stream, .. } => {
                self.scripted.entry(guarantees.whole(stream)).or_default().push(event.at)
            }
            EventKind::Saw { stream, saw }
                if matches!(saw.downcast_ref(), Some(ExecObservation::ExitAt(_))) =>
            {
                self.scripted.entry(guarantees.whole(stream)).or_default().push(event.at);
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

    /// Whether so little is under way to a host since a moment that nothing waits for room: all that there is, in the answer to each
    /// read that was not over before that, or once as it comes.
    fn is_little(&self, host: &str, since: Time) -> bool {
        let is_over = |call: &Call| self.over.get(call).is_some_and(|over| *over < since);
        let reads = self
            .asked
            .iter()
            .filter(|(call, asked)| asked.host == host && asked.is_read() && !is_over(call))
            .count();
        self.output.saturating_mul(reads.max(1)) <= LITTLE
    }

    /// Since when a read has an answer for certain.
    fn due(&self, read: &Asked<'_>, after: u64) -> Option<Time> {
        let record = self.newest.get(&(read.host, read.process()?))?;
        let known = if after == 0 { self.first.get(record) } else { self.last.get(record) };
        known.map(|at| read.at.max(*at))
    }

    /// Since when the user of a read has been told what it waits for.
    fn scripted(&self, read: &Asked<'_>, after: u64) -> Option<Time> {
        let record = self.newest.get(&(read.host, read.process()?))?;
        let event = usize::try_from(after).ok()?;
        self.scripted.get(record)?.get(event).map(|at| read.at.max(*at))
    }
}

pub(super) fn reads_wait(cx: &CheckContext<'_>) -> Vec<Violation> {
    if has_puppet(cx) {
        return Vec::new();
    }
    let guarantees = cx.guarantees;
    let recovers = guarantees.detection * 2
        + guarantees.recovery
        + guarantees.attempt
        + Duration::from_secs(1);
    let crosses = cx.plan.latency.1 * 4 + Duration::from_secs(1);
    // What one connection brings to a user comes together: an event, and the answer to whoever waits for it.
    let together = cx.plan.latency.1 * 4 + Duration::from_millis(50);
    let mut known = Known::default();
    let mut found = Vec::new();
    for event in judged(cx) {
        known.learn(event, guarantees);
        let EventKind::Answered { call, answer } = &event.what else { continue };
        let Some(read) =
            known.asked.get(call).filter(|asked| asked.verb() == "read" && !asked.wait().is_zero())
        else {
            continue;
        };
        let scripted = answer.done::<Read>();
        let after = scripted.and_then(|scripted| scripted.after).unwrap_or_else(|| read.after());
        if let Some(scripted) = scripted
            .filter(|scripted| event.at < read.at + read.wait() && scripted.says_nothing_new(after))
        {
            let data = fields! { answer: scripted.alone().to_string() };
            found.push(Violation::new("reads_wait", *call, event.at, &TOO_EARLY, data));
        }
        if known.network_fault.in_force > 0 {
            continue;
        }
        let calm = known.network_fault.settled.max(Some(known.started)).unwrap_or_default();
        let connected = known.connected.get(read.host).copied();
        if let Some((scripted, connected)) = known.scripted(read, after).zip(connected) {
            let since = scripted.max(calm).max(connected);
            if event.at > since + together && known.is_little(read.host, since) {
                found.push(Violation::new(
                    "reads_wait",
                    *call,
                    event.at,
                    &AFTER_ITS_EVENT,
                    fields! { scripted },
                ));
                continue;
            }
        }
        let Some(due) = known.due(read, after) else { continue };
        // Whoever has a connection all the time has nothing to recover; but much output is longer on its way. And an end that a read was
        // told before is no news to it.
        let since = connected.filter(|_| after == 0).map(|connected| due.max(calm).max(connected));
        let soon = since
            .filter(|since| known.is_little(read.host, *since))
            .map_or(NEVER, |since| since + crosses);
        if event.at > soon.min(due.max(calm) + recovers) {
            found.push(Violation::new("reads_wait", *call, event.at, &TOO_LATE, fields! { due }));
        }
    }
    found
}

pub(super) fn closed_are_kept(cx: &CheckContext<'_>) -> Vec<Violation> {
    let kept = server_limits(&cx.plan.limits.over(LIMITS)).closed_retention;
    let mut attached: BTreeMap<u64, Time> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        let (EventKind::Milestone { name, fields } | EventKind::Point { name, fields, .. }) =
            &event.what
        else {
            continue;
        };
        let Some(conn) = MilestoneValue::number(fields, "conn") else { continue };
        match *name {
            "exec.server.attach.unlocked" => drop(attached.insert(conn, event.at)),
            "exec.process.forgotten" => {
                let process = MilestoneValue::text(fields, "process").unwrap_or_default();
                let attached = match attached.get(&conn) {
                    Some(since) if *since + kept <= event.at => continue,
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
    let mut asked: BTreeMap<Call, Asked<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx).filter(|_| !has_puppet(cx)) {
        asked.extend(Asked::of(event));
        let EventKind::Answered { call, answer } = &event.what else { continue };
        let Some(start) = asked
            .get(call)
            .filter(|asked| asked.verb() == "start" && ExecFailure::is_taken(answer))
        else {
            continue;
        };
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

pub(super) fn ends_as_it_wants(cx: &CheckContext<'_>) -> Vec<Violation> {
    let mut asked: BTreeMap<Call, Asked<'_>> = BTreeMap::new();
    let mut starts: BTreeMap<&str, Call> = BTreeMap::new();
    let mut unwanted: Vec<Call> = Vec::new();
    let mut refused: Vec<Call> = Vec::new();
    let mut ended: Vec<(&str, &str)> = Vec::new();
    // A failure may be told later: some look at their process after a while.
    let failed: Vec<&str> = (cx.history.events.iter())
        .filter_map(|event| match &event.what {
            EventKind::StreamEnded { stream, ending: Ending::Failed { .. } } => {
                Some(cx.guarantees.whole(stream))
            }
            _ => None,
        })
        .collect();
    for event in judged(cx).filter(|_| cx.plan.puppets.is_empty()) {
        asked.extend(Asked::of(event));
        match &event.what {
            EventKind::Effect { call, target } => drop(starts.insert(target, *call)),
            EventKind::Failed { call, .. } => unwanted.push(*call),
            EventKind::Answered { call, answer: Answer::Refused(why) }
                if ExecFailure::is_gap(why) =>
            {
                refused.push(*call)
            }
            EventKind::Answered { call, answer: Answer::Refused(_) | Answer::GivenUp } => {
                unwanted.push(*call)
            }
            // Its user may not have looked yet: a client ends what it has failed.
            EventKind::Milestone {
                name: "exec.client.start-ambiguous" | "exec.client.process-failed",
                fields,
            } => {
                ended.extend(
                    MilestoneValue::text(fields, "process").map(|process| (host(event), process)),
                );
            }
            // With a server or a session die its processes.
            EventKind::Died { .. } | EventKind::Milestone { name: "exec.server.expired", .. } => {
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
                // One whose handle was dropped is followed while calls on it wait: its gap is told to them.
                let is_reported = refused
                    .iter()
                    .filter_map(|call| asked.get(call))
                    .any(|call| call.is_about_the_process_of(start));
                // Whatever a start whose answer was lost may have started is ended by its name; the older one has it, too.
                let of_its_name = |other: &Asked<'_>| {
                    other.verb() == "start" && other.is_about_the_process_of(start)
                };
                let is_unwanted = unwanted
                    .iter()
                    .any(|other| other == call || asked.get(other).is_some_and(of_its_name))
                    || start
                        .process()
                        .is_some_and(|process| ended.contains(&(start.host, process)));
                if !is_asked_for && !is_reported && !is_unwanted && !failed.contains(&&*stream.0) {
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

/// Whether a process ends by a signal of its own.
fn wants_a_signal(cx: &CheckContext<'_>, start: &Asked<'_>) -> bool {
    let entry = start.process().and_then(|process| cx.plan.setup.get(TABLE)?.get(process));
    entry.and_then(|entry| entry.get("exit")).is_some_and(|exit| exit == "signal")
}
