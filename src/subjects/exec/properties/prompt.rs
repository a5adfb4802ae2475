//! `answers_are_prompt`: no request waits for another one.
//!
//! A request counts if its client was connected when the user made it, and if no fault was in force
//! between request and answer. A request that was made during an outage counts from the moment when its
//! client has a connection again. It may wait until all data so far has passed the link. An operation on a
//! process counts only from the outcome of all earlier starts of that process on, because the user needs
//! the handle. The limits of client and server bound how many requests may be open; further ones wait.
//! A request for a file counts if the disk does not hang at this file. A write counts if all writes to its
//! process together have room at the server, or if the process reads its input. Any other write counts from
//! the end of its process, if its client has sent it over a connection that both ends have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::served::UserOperation;
use super::targets::Targets;
use super::watches::AT_ONCE;
use crate::history::{Call, Connection, Event, EventKind, Time};
use crate::property::path::through;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::Plan;
use crate::subjects::exec::files::hangs;
use crate::subjects::exec::limits::{client_limits, server_limits};
use crate::subjects::exec::network_fault::{AROUND, NetworkFault};
use crate::subjects::exec::operations::LONGEST_LINE;
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::world::process::{Input, Setup, TABLE};

kinds! {
    pub(super) ANSWERS_ARE_PROMPT;
    LATE = "late": "{subject:}the request of {since} was not answered by {at}, although no fault and no other data delayed it";
}

/// The least bytes of a write that is a part of a longer line.
const SHORTEST_WRITE: u64 = 1024;

/// The input of a process: its bytes, and the ids of its writes.
#[derive(Clone, Copy, Default)]
struct InputSize {
    bytes: u64,
    ids: u64,
}

/// The limits of client and server.
#[derive(Default)]
struct RequestLimits {
    /// How many requests may be open.
    requests: u64,
    /// How much input of a process may wait.
    input: InputSize,
}

/// The open requests, and what could delay an answer.
#[derive(Default)]
struct OpenRequests<'a> {
    limits: RequestLimits,
    /// All that users wrote to each process, by host and name.
    input: BTreeMap<(&'a str, &'a str), InputSize>,
    network_fault: NetworkFault,
    targets: Targets<'a>,
    /// The bytes that users wrote.
    written: u64,
    /// The requests that may be answered with all output, and the connections over which a client may have
    /// read all of it once more.
    reads: u64,
    /// The requests that may be answered with all that users wrote.
    file_reads: u64,
    /// The clients with a connection.
    connected: BTreeSet<&'a str>,
    /// The operations without an outcome.
    open: BTreeMap<Call, UserOperation<'a>>,
    /// Those that must be answered at once.
    prompt: BTreeMap<Call, Time>,
}

impl<'a> OpenRequests<'a> {
    /// Processes an event. Returns the time of the request if the event ends one that had to be
    /// answered at once.
    fn pass(&mut self, cx: &CheckContext<'a>, event: &'a Event) -> Option<(Call, Time)> {
        let plan = cx.plan;
        self.network_fault.pass(event);
        self.targets.pass(cx, event);
        match &event.what {
            EventKind::Asked { .. } => {
                if let Some((call, asked)) = UserOperation::of(event) {
                    if let ("write" | "write-stream", Some(process)) =
                        (asked.verb(), asked.process())
                    {
                        let input = self.input.entry((asked.host, process)).or_default();
                        input.bytes += (asked.bytes() as u64).max(LONGEST_LINE);
                        input.ids += 1 + asked.bytes() as u64 / SHORTEST_WRITE;
                    }
                    if self.must_be_prompt(plan, (call, &asked), event.at) {
                        self.prompt.insert(call, event.at);
                    }
                    self.written += asked.bytes() as u64 + asked.requests() * AROUND as u64;
                    self.reads += asked.reads() as u64;
                    self.file_reads += u64::from(is_of_a_file(asked.verb()));
                    self.open.insert(call, asked);
                }
            }
            EventKind::Answered { call, .. }
            | EventKind::Failed { call, .. }
            | EventKind::Opened { call, .. } => {
                self.open.remove(call);
                return Some((*call, self.prompt.remove(call)?));
            }
            EventKind::Ended { stream, .. } => {
                let ends = |(call, asked): &(&Call, &UserOperation<'_>)| {
                    let is_its = self.targets.of(**call) == Some(&*stream.0);
                    let is_write = asked.verb() == "write" && self.has_ids(asked);
                    is_its
                        && is_write
                        && self.is_sent(**call, asked)
                        && self.is_calm(asked.host, event.at)
                        && is_open(cx, asked.host, event.at)
                };
                let its = self.open.iter().filter(ends).map(|(call, _)| *call);
                let its: Vec<_> = its.filter(|call| !self.prompt.contains_key(call)).collect();
                self.prompt.extend(its.into_iter().map(|call| (call, event.at)));
            }
            EventKind::FaultBegan { .. } => self.prompt.clear(),
            EventKind::Died { .. } => {
                self.prompt.clear();
                self.open.retain(|_, asked| asked.host != host(event));
                self.connected.remove(host(event));
                // Its clients may not know it yet.
                if cx.servers.contains(&host(event)) {
                    self.connected.clear();
                }
            }
            EventKind::Milestone { name: "exec.client.connected", .. } => {
                self.connected.insert(host(event));
                self.reads += 1;
                let waited = self.open.iter().filter(|(call, asked)| {
                    asked.host == host(event)
                        && self.must_be_prompt(plan, (**call, *asked), event.at)
                });
                let waited: Vec<_> = waited.map(|(call, _)| (*call, event.at)).collect();
                self.prompt.extend(waited);
            }
            EventKind::Milestone { name: "exec.client.lost", .. } => {
                self.connected.remove(host(event));
                self.prompt.retain(|call, _| {
                    self.open.get(call).is_some_and(|asked| asked.host != host(event))
                });
            }
            _ => {}
        }
        None
    }

    fn must_be_prompt(
        &self,
        plan: &Plan,
        (call, asked): (Call, &UserOperation<'_>),
        now: Time,
    ) -> bool {
        let waits_for_nothing = match asked.verb() {
            "start" | "interrupt" | "terminate" => true,
            "read" => asked.wait().is_zero(),
            "write" => self.has_room_for_all(plan, asked),
            verb => is_of_a_file(verb) && hangs(plan, asked.operation).is_zero(),
        };
        let others = self.open.iter().filter(|(other, _)| **other != call).map(|(_, other)| other);
        let mut own = others.filter(|other| other.host == asked.host);
        let of_files = own.clone().filter(|other| other.operation.fields.contains_key("file"));
        let is_full = of_files.count() >= AT_ONCE;
        let uses_files = own.any(|other| other.verb() == "use-files");
        let may_wait = is_of_a_file(asked.verb()) && (uses_files || is_full);
        // Every request about a process waits until it is launched.
        let process: Setup =
            plan.entry(TABLE, asked.process().unwrap_or_default()).unwrap_or_default();
        let is_launched = process.launch_takes.is_none();
        waits_for_nothing
            && is_launched
            && !may_wait
            && self.is_sent(call, asked)
            && self.is_calm(asked.host, now)
    }

    /// Whether a request waits for no handle, and for no other request of its client.
    fn is_sent(&self, call: Call, asked: &UserOperation<'_>) -> bool {
        let others = self.open.iter().filter(|(other, _)| **other != call).map(|(_, other)| other);
        let mut own = others.filter(|other| other.host == asked.host);
        let requests = own.clone().map(UserOperation::requests).sum::<u64>();
        let starts =
            own.any(|other| other.verb() == "start" && other.is_about_the_process_of(asked));
        !starts && requests < self.limits.requests
    }

    /// Whether a client has a connection, and nothing delays its data.
    fn is_calm(&self, client: &str, now: Time) -> bool {
        self.connected.contains(client)
            && self.network_fault.in_force == 0
            && self.network_fault.settled.is_none_or(|settled| settled < now)
    }

    /// Whether all writes to the process of a write have room, even if the process reads nothing, or it
    /// reads them at once.
    fn has_room_for_all(&self, plan: &Plan, asked: &UserOperation<'_>) -> bool {
        let process = asked.process().unwrap_or_default();
        let setup: Setup = plan.entry(TABLE, process).unwrap_or_default();
        let input = self.input.get(&(asked.host, process)).copied().unwrap_or_default();
        let reads_at_once = setup.stdin == Input::Read && setup.reads_every.is_none();
        let has_room = input.bytes <= self.limits.input.bytes || reads_at_once;
        has_room && self.has_ids(asked)
    }

    /// Whether the server remembers the ids of all writes to the process of a write.
    fn has_ids(&self, asked: &UserOperation<'_>) -> bool {
        let process = asked.process().unwrap_or_default();
        let input = self.input.get(&(asked.host, process)).copied().unwrap_or_default();
        input.ids <= self.limits.input.ids
    }

    /// Returns an upper bound of the bytes so far that links had to carry.
    fn bytes(&self) -> u64 {
        let printed = (self.network_fault.printed as u64).saturating_mul(self.reads + 1);
        printed.saturating_add(self.written.saturating_mul(self.file_reads + 1))
    }
}

/// Returns whether the newest connection of a client is open at both ends. After a fault, the client may not
/// know yet that the server has closed it.
pub(super) fn is_open(cx: &CheckContext<'_>, client: &str, now: Time) -> bool {
    let is_its = |conn: &&Connection| conn.client.as_str() == client && conn.opened <= now;
    let is_over = |over: Option<Time>| over.is_some_and(|over| over <= now);
    let newest = cx.history.conns.iter().rfind(is_its);
    newest.is_none_or(|conn| !is_over(conn.over.0) && !is_over(conn.over.1))
}

/// Returns whether the operation with this name is one request for one file.
fn is_of_a_file(verb: &str) -> bool {
    matches!(verb, "write-file" | "read-file" | "remove-file")
}

pub(super) fn answers_are_prompt(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let limits = cx.limits;
    let (client, server) = (client_limits(limits), server_limits(limits));
    let limits = RequestLimits {
        requests: server.waiting_requests.min(client.calls) as u64,
        input: InputSize { bytes: server.stdin_bytes as u64, ids: server.write_ids as u64 },
    };
    let latency = cx.plan.latency.1;
    let due =
        |since: Time, bytes| since + latency * 4 + Duration::from_secs(1) + through(bytes, latency);
    let mut requests = OpenRequests { limits, ..OpenRequests::default() };
    let mut late: Vec<(Call, Time, Time)> = Vec::new();
    for event in judged(cx) {
        if let Some((call, since)) = requests.pass(cx, event) {
            cx.judges("answers_are_prompt");
            let due = due(since, requests.bytes());
            late.extend((event.at > due).then_some((call, since, due)));
        }
    }
    let until = Time::from(cx.plan.horizon);
    for (call, since) in &requests.prompt {
        let due = due(*since, requests.bytes());
        if due < until {
            cx.judges("answers_are_prompt");
            late.push((*call, *since, due));
        }
    }
    let violation = |(call, since, at)| {
        Violation::new("answers_are_prompt", call, at, &LATE, fields! { since, at })
    };
    late.into_iter().take(5).map(violation).collect()
}
