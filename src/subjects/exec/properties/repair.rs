//! Properties of a client that repairs missing events and retries refused reads.
//!
//! The real server omits no number, and refuses nothing that it would grant later. Puppets do both.
//! The history has no true output for a puppet, so no generic property checks the streams that it
//! feeds. These properties check the product's milestones about its repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::history::{Answer, Call, Ending, Event, EventKind, Stream, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{About, CheckContext, Violation};
use crate::schedule::MilestoneValue;
use crate::subjects::exec::answers::ExecFailure;
use crate::subjects::exec::limits::client_limits;
use crate::subjects::judging::{host, judged};
use reknit_exec::client::Failure;
use reknit_exec::limits::ClientLimits;

kinds! {
    pub(super) REFUSALS_PASS;
    PASSES = "passes": "{subject:}it failed after temporary refusals, {times} in a row ({why}; at {at})";
}

kinds! {
    pub(super) PROCESSES_FAIL_TRULY;
    NOT_TRUE = "not-true": "{subject:}it failed ({why}), but this reason is false {moment}";
}

kinds! {
    pub(super) HOLES_ARE_ASKED_FOR;
    HELD_BACK = "held-back": "{subject:}the client has held back events since {since}, and does not request the missing ones";
}

kinds! {
    pub(super) WRITE_IDS_ARE_OWN;
    USED = "used": "{subject:}its write uses the id {id}, which {owner} has already used {moment}";
}

/// The prefix of the reason for which a process fails after a refused read.
const REFUSED: &str = "the server refused: ";

/// Texts that mark a refusal as permanent: an unknown process, or an invalid request.
const FOR_GOOD: [&str; 3] = ["unknown process", "(-32601)", "(-32602)"];

/// The codes of refusals that are permanent, or that have a permanent reason.
const MAY_BE_FOR_GOOD: [&str; 3] = ["-32600", "-32601", "-32602"];

/// The time that a client may take, beyond the configured wait, to ask for missing events.
const MOMENT: Duration = Duration::from_secs(1);

/// The milestones of a client that repairs missing events.
const REPAIRS: [&str; 3] =
    ["exec.client.live-gap", "exec.client.reorder-overflow", "exec.client.process-failed"];

/// A refused read fails its process only if the refusal is permanent, or if all retries were
/// refused.
pub(super) fn refusals_pass(cx: &CheckContext<'_>) -> Vec<Violation> {
    let retries = u64::from(limits(cx).read_retries);
    let mut refused: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        let EventKind::Milestone { name, fields } = &event.what else { continue };
        let Some(process) = MilestoneValue::text(fields, "process") else { continue };
        let key = (host(event), process);
        match *name {
            "exec.client.read-refused" => {
                let times = refused.entry(key).or_default();
                *times += 1;
                let code = MilestoneValue::text(fields, "code");
                let passes = code.is_some_and(|code| !MAY_BE_FOR_GOOD.contains(&code));
                if passes && *times <= retries {
                    cx.judges("refusals_pass");
                }
            }
            "exec.client.process-failed" => {
                let times = refused.remove(&key).unwrap_or_default();
                let why =
                    MilestoneValue::text(fields, "why").and_then(|why| why.strip_prefix(REFUSED));
                let why = why.filter(|why| !FOR_GOOD.iter().any(|word| why.contains(word)));
                let why = why.inspect(|_| cx.judges("refusals_pass"));
                if let Some(why) = why.filter(|_| times <= retries) {
                    found.push(Violation::new(
                        "refusals_pass",
                        process,
                        event.at,
                        &PASSES,
                        fields! { times, why },
                    ));
                }
            }
            _ => {}
        }
    }
    found
}

/// The output of one stream of a process, and how much of it its user has received.
#[derive(Default)]
struct StreamOutput {
    /// The number of bytes up to the end of each item that the process printed.
    ends: Vec<u64>,
    /// The number of bytes that the user has received.
    received: u64,
}

impl StreamOutput {
    /// Records that the process printed an item.
    fn prints(&mut self, bytes: usize) {
        let end = self.ends.last().copied().unwrap_or_default() + bytes as u64;
        self.ends.push(end);
    }

    /// Returns the items and the bytes that the user has not received.
    fn missed(&self) -> (u64, u64) {
        let items = self.ends.iter().filter(|end| **end > self.received).count();
        let printed = self.ends.last().copied().unwrap_or_default();
        (items as u64, printed.saturating_sub(self.received))
    }
}

/// The output of all processes.
#[derive(Default)]
struct Outputs<'a> {
    /// The host and the process of each start.
    starts: BTreeMap<Call, (&'a str, &'a str)>,
    /// The host and the process of each record.
    owners: BTreeMap<&'a str, (&'a str, &'a str)>,
    /// The streams of each record.
    streams: BTreeMap<&'a str, BTreeMap<&'a Stream, StreamOutput>>,
}

impl<'a> Outputs<'a> {
    /// Processes an event.
    fn pass(&mut self, cx: &CheckContext<'a>, event: &'a Event) {
        match &event.what {
            EventKind::Asked { call, operation, .. } if operation.verb == "start" => {
                let process = operation.fields.get("process").and_then(|process| process.as_str());
                self.starts.extend(process.map(|process| (*call, (host(event), process))));
            }
            EventKind::Effect { call, target } => {
                let start = self.starts.get(call).copied();
                self.owners.extend(start.map(|owner| (target.as_str(), owner)));
            }
            EventKind::Produced { stream, bytes } => self.stream(cx, stream).prints(bytes.len()),
            EventKind::Delivered { stream, bytes, .. } => {
                self.stream(cx, stream).received += bytes.len() as u64;
            }
            // The next client of the host does not know these processes.
            EventKind::Died { .. } => self.owners.retain(|_, (owner, _)| *owner != host(event)),
            _ => {}
        }
    }

    fn stream(&mut self, cx: &CheckContext<'a>, stream: &'a Stream) -> &mut StreamOutput {
        self.streams.entry(cx.guarantees.whole(stream)).or_default().entry(stream).or_default()
    }

    /// Returns whether a process of a host may have more output that its user misses than the server
    /// retains. What the user has received needs no retention: the client reads only what follows.
    fn is_exceeded(&self, cx: &CheckContext<'_>, host: &str, process: &str) -> bool {
        let mut records = self.owners.iter().filter(|(_, owner)| **owner == (host, process));
        records.any(|(record, _)| {
            let streams = self.streams.get(record).into_iter().flat_map(BTreeMap::values);
            let missed = streams.map(StreamOutput::missed);
            let (items, bytes) = missed.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
            cx.guarantees.retention.is_exceeded(items, bytes)
        })
    }
}

/// The reason for which a process fails is true: a server that is not a puppet does not contradict
/// itself, no event is missing if the retention could hold all output of the process that its user has not
/// received, and the client keeps the events for a subscriber, however slow.
pub(super) fn processes_fail_truly(cx: &CheckContext<'_>) -> Vec<Violation> {
    if !cx.is_honest() {
        return Vec::new();
    }
    let mut outputs = Outputs::default();
    let mut given_up: BTreeSet<&Stream> = BTreeSet::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        outputs.pass(cx, event);
        match &event.what {
            EventKind::Milestone { name: "exec.client.process-failed", fields } => {
                let Some((process, why)) = MilestoneValue::text(fields, "process")
                    .zip(MilestoneValue::text(fields, "why"))
                else {
                    continue;
                };
                let had_room = !outputs.is_exceeded(cx, host(event), process);
                let is_contradiction = why == Failure::Contradiction.to_string();
                let is_gap = why.starts_with("gap: ");
                if is_contradiction || is_gap {
                    cx.judges("processes_fail_truly");
                }
                if is_contradiction || is_gap && had_room {
                    found.push(Violation::new(
                        "processes_fail_truly",
                        process,
                        event.at,
                        &NOT_TRUE,
                        fields! { why },
                    ));
                }
            }
            EventKind::GaveUp { stream: Some(stream), .. } => drop(given_up.insert(stream)),
            // A user that subscribes once finds the first event. One that began too late has given the
            // process up: its other subscription had read what the client kept.
            EventKind::StreamEnded { stream, ending: Ending::Failed { reason } }
                if ExecFailure::is(reason, &Failure::NotKept) && !given_up.contains(stream) =>
            {
                cx.judges("processes_fail_truly");
                let data = fields! { why: reason };
                found.push(Violation::new(
                    "processes_fail_truly",
                    stream,
                    event.at,
                    &NOT_TRUE,
                    data,
                ));
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// A connected client that holds events back because an earlier number is missing requests the
/// missing events.
///
/// This property does not judge events that the client holds back during a catch-up, which requests
/// them anyway, or events of a process that the user may have given up, also at the end of the last
/// call on it. While a start is in flight, a client holds back nothing. It holds back events from
/// the answer on, even if the user has not taken the answer yet: a user that gives up such a start
/// gives up the process. If the events do not fit into the buffer, the client requests them at once.
///
/// While the answer to such a request is on its way, more events may arrive and be held back. Behind each
/// page, the client requests what follows, also when a catch-up in pages outlasts the installation.
/// The exit has no number in a page, so the output behind it is held back until then.
///
/// If the client installs a connection before the catch-up is complete, its reads are still in flight. An
/// answer does not say which read it belongs to, so this property does not judge that connection.
/// `bounded_ending` and `gap_free` do.
///
/// A client whose log for a slow user was full has dropped events. It requests them when the log has
/// room, perhaps before it holds later ones back. `bounded_ending` and `gap_free` judge that client.
pub(super) fn gaps_are_requested(cx: &CheckContext<'_>) -> Vec<Violation> {
    let wait = limits(cx).gap_wait;
    let mut connected: BTreeSet<&str> = BTreeSet::new();
    let mut repaired: BTreeMap<&str, Time> = BTreeMap::new();
    let mut requested: BTreeSet<&str> = BTreeSet::new();
    let mut open: BTreeMap<&str, Time> = BTreeMap::new();
    let mut full: BTreeSet<&str> = BTreeSet::new();
    let mut catch_ups = CatchUps::new(limits(cx).initialize_timeout);
    let mut dropped = Dropped::default();
    let mut starts: BTreeMap<Call, Time> = BTreeMap::new();
    let mut found = Vec::new();
    let late = |since: Time, at: Time| at > since + wait + MOMENT;
    let mut report = |host: &str, since: Time| {
        cx.judges("gaps_are_requested");
        let subject = About::Host(host.into());
        found.push(Violation::new(
            "gaps_are_requested",
            subject,
            since,
            &HELD_BACK,
            fields! { since },
        ));
    };
    for event in judged(cx) {
        let host = host(event);
        if let Some(since) = open.get(host).copied().filter(|since| late(*since, event.at)) {
            open.remove(host);
            report(host, since);
        }
        if dropped.is_last_end(event) {
            open.remove(host);
        }
        catch_ups.pass(event);
        match &event.what {
            EventKind::Milestone { name: "exec.client.connected", .. } => {
                connected.insert(host);
            }
            EventKind::Milestone { name: "exec.client.log-full", .. } => {
                full.insert(host);
            }
            EventKind::Milestone { name: "exec.client.lost", .. } | EventKind::Died { .. } => {
                connected.remove(host);
                requested.remove(host);
                open.remove(host);
            }
            EventKind::Milestone { name: "exec.client.received", .. } => {
                requested.remove(host);
            }
            // The client repeats the read after a pause, which `repetitions_pause` judges.
            EventKind::Milestone { name: "exec.client.read-refused", .. } => {
                open.remove(host);
                requested.insert(host);
            }
            EventKind::Milestone { name: "exec.client.page", .. } => {
                repaired.insert(host, event.at);
                requested.insert(host);
            }
            EventKind::GaveUp { .. } => drop(open.remove(host)),
            // The only process of the run is complete, so the missing event has come.
            EventKind::StreamEnded { ending: Ending::Completed { .. }, .. }
                if starts.len() == 1 =>
            {
                open.remove(host);
            }
            EventKind::Asked { call, operation, .. } if operation.verb == "start" => {
                starts.insert(*call, event.at);
            }
            EventKind::Answered { call, answer: Answer::GivenUp } => {
                // Events that the client held back before the request belong to another process.
                let asked = starts.get(call);
                if asked.is_some_and(|asked| open.get(host).is_some_and(|since| asked <= since)) {
                    open.remove(host);
                }
            }
            EventKind::Milestone { name, .. } if REPAIRS.contains(name) => {
                if open.remove(host).is_some() {
                    cx.judges("gaps_are_requested");
                }
                repaired.insert(host, event.at);
                if *name == "exec.client.live-gap" {
                    requested.insert(host);
                }
            }
            EventKind::Gauge { name: "held-back-events", .. }
                if connected.contains(host)
                    && !full.contains(host)
                    && !catch_ups.outlasted.contains(host)
                    && !requested.contains(host)
                    && repaired.get(host) != Some(&event.at) =>
            {
                open.entry(host).or_insert(event.at);
            }
            _ => {}
        }
    }
    open.into_iter()
        .filter(|(_, since)| late(*since, cx.plan.horizon.into()))
        .for_each(|(host, since)| report(host, since));
    found
}

/// The newest catch-up of each host. A client waits so long for all answers, and installs the connection
/// then if it has one.
struct CatchUps<'a> {
    waits: Duration,
    begun: BTreeMap<&'a str, Time>,
    /// The hosts whose catch-up may have outlasted the installation.
    outlasted: BTreeSet<&'a str>,
}

impl<'a> CatchUps<'a> {
    fn new(waits: Duration) -> Self {
        Self { waits, begun: BTreeMap::new(), outlasted: BTreeSet::new() }
    }

    fn pass(&mut self, event: &'a Event) {
        let host = host(event);
        match &event.what {
            EventKind::Milestone { name: "exec.client.initialized", .. } => {
                self.begun.insert(host, event.at);
                self.outlasted.remove(host);
            }
            EventKind::Milestone { name: "exec.client.caught-up", .. } => {
                let begun = self.begun.remove(host);
                if begun.is_some_and(|begun| event.at.since(begun) >= self.waits) {
                    self.outlasted.insert(host);
                }
            }
            EventKind::Died { .. } => drop(self.begun.remove(host)),
            _ => {}
        }
    }
}

/// Processes whose handles were dropped while calls on them were in progress. The client follows
/// such a process until its last call ends.
#[derive(Default)]
struct Dropped<'a> {
    /// The calls in progress, each with its host and its process.
    calls: BTreeMap<Call, (&'a str, &'a str)>,
    /// For each call that dropped a handle, the calls that still hold the process.
    holders: BTreeMap<Call, BTreeSet<Call>>,
}

impl<'a> Dropped<'a> {
    /// Returns whether this event ends the last call on a process whose handle was dropped before.
    fn is_last_end(&mut self, event: &'a Event) -> bool {
        match &event.what {
            EventKind::Asked { call, operation, .. } if operation.verb != "start" => {
                let process = operation.fields.get("process").and_then(|process| process.as_str());
                self.calls.extend(process.map(|process| (*call, (host(event), process))));
                false
            }
            EventKind::GaveUp { call, .. } => {
                if let Some(process) = self.calls.get(call) {
                    let holders = self
                        .calls
                        .range(..*call)
                        .filter(|(_, on)| *on == process)
                        .map(|(holder, _)| *holder);
                    let holders = holders.collect();
                    self.holders.insert(*call, holders);
                }
                false
            }
            EventKind::Answered { call, .. } | EventKind::Failed { call, .. } => {
                self.calls.remove(call);
                let ended: Vec<bool> = self
                    .holders
                    .values_mut()
                    .map(|held| held.remove(call) && held.is_empty())
                    .collect();
                self.holders.retain(|_, held| !held.is_empty());
                ended.contains(&true)
            }
            _ => false,
        }
    }
}

/// A write id belongs to one incarnation of one client: a server treats a second write with the
/// same id as a repetition.
pub(super) fn write_ids_are_own(cx: &CheckContext<'_>) -> Vec<Violation> {
    let mut lives: BTreeMap<&str, u32> = BTreeMap::new();
    let mut owners: BTreeMap<&str, (&str, u32)> = BTreeMap::new();
    let mut writers: BTreeSet<(&str, u32)> = BTreeSet::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        let host = host(event);
        match &event.what {
            EventKind::Died { .. } => *lives.entry(host).or_default() += 1,
            EventKind::Milestone { name: "exec.client.writes", fields } => {
                let Some(id) = MilestoneValue::text(fields, "write") else { continue };
                let own = (host, lives.get(host).copied().unwrap_or_default());
                writers.insert(own);
                // One writer alone cannot use the id of another one.
                if writers.len() > 1 {
                    cx.judges("write_ids_are_own");
                }
                let owner = *owners.entry(id).or_insert(own);
                if owner != own {
                    let (subject, data) =
                        (About::Host(host.into()), fields! { id, owner: owner.0 });
                    found.push(Violation::new("write_ids_are_own", subject, event.at, &USED, data));
                }
            }
            _ => {}
        }
    }
    found.truncate(5);
    found
}

fn limits(cx: &CheckContext<'_>) -> ClientLimits {
    client_limits(cx.limits)
}
