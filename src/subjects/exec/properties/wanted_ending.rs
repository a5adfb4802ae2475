//! A process ends as its declaration specifies, unless its user ended it, or its user's session is
//! over. What a command left in the background lives on while the server keeps the closed command.

use std::collections::BTreeMap;
use std::time::Duration;

use super::served::{UserOperation, at_once};
use super::targets::Targets;
use crate::history::{Answer, Call, ConnIndex, Ending, Event, EventKind, ProcessOutcome, Time};
use crate::property::path::through;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::{Fault, Host};
use crate::subjects::exec::answers::ExecFailure;
use crate::subjects::exec::background;
use crate::subjects::exec::limits::{client_limits, server_limits};
use crate::subjects::exec::network_fault::{AROUND, NetworkFault};
use crate::subjects::judging::judged;
use crate::world::process::TABLE;

kinds! {
    pub(super) ENDS_AS_IT_WANTS;
    KILLED = "killed": "{subject:}it ended with {outcome}, but no user terminated it {moment}";
    LEFT_KILLED = "left-killed": "{subject:}it ended with {outcome}, although the server keeps its command until {until} {moment}";
}

/// The calls that hold a handle, and the call that drops it. While one of them is open, the client may
/// still follow the process.
const USES: [&str; 8] = [
    "read",
    "read-all",
    "write",
    "write-stream",
    "pipeline",
    "read-events",
    "read-stream",
    "drop-handle",
];

/// How long the server may wait for its peer after it has closed a connection.
const CLOSING: Duration = Duration::from_secs(1);

/// Returns when the server detached the session of a connection, or `None` if the connection was never
/// over. The server detaches when it begins to close the connection, unless the client closed it first.
/// If the client's end is over during the goodbye of the server, only the milestone says which end
/// closed first. The network record bounds what the milestone can say.
fn detached(cx: &CheckContext<'_>, index: ConnIndex) -> Option<Time> {
    let (client, server) = cx.history.conns.get(index.0)?.over;
    let over = server?;
    let goodbye = over.before(CLOSING);
    if !client.is_some_and(|gone| gone <= over && gone >= goodbye) {
        return Some(goodbye);
    }
    let told = cx.history.events.iter().rfind(|event| match &event.what {
        EventKind::Milestone { name: "exec.server.detached", fields } => {
            ConnIndex::from_fields(fields) == Some(index)
        }
        _ => false,
    });
    Some(told.map_or(over, |told| told.at.clamp(goodbye, over)))
}

/// The facts of a run up to an event.
#[derive(Default)]
struct Known<'a> {
    asked: BTreeMap<Call, UserOperation<'a>>,
    /// The time of each call's outcome.
    over: BTreeMap<Call, Time>,
    /// The real end of each process.
    ended: BTreeMap<&'a str, Time>,
    /// The call that started each process.
    starts: BTreeMap<&'a str, Call>,
    /// The calls that failed, were refused for a reason of their own, or were given up by their users.
    failed: Vec<Call>,
    /// The calls that the client refused because their process had failed.
    refused: Vec<Call>,
    /// The hosts with held tasks, by the number of the fault.
    held: BTreeMap<usize, &'a [Host]>,
    targets: Targets<'a>,
    /// The lines and bytes that each process printed.
    printed: BTreeMap<&'a str, (u64, u64)>,
    network_fault: NetworkFault,
    call_wait: Duration,
    /// How long the server keeps a session without a connection.
    detached_lifetime: Duration,
    /// How long the server keeps a closed process, at least.
    closed_retention: Duration,
}

impl<'a> Known<'a> {
    fn new(cx: &CheckContext<'a>) -> Self {
        let limits = cx.limits;
        let server = server_limits(limits);
        Self {
            call_wait: client_limits(limits).call_wait,
            detached_lifetime: server.detached_lifetime,
            closed_retention: server.closed_retention,
            ..Self::default()
        }
    }

    fn learn(&mut self, cx: &CheckContext<'a>, event: &'a Event) {
        self.asked.extend(UserOperation::of(event));
        self.targets.pass(cx, event);
        self.network_fault.pass(event);
        match &event.what {
            EventKind::Produced { stream, bytes } => {
                let (lines, all) = self.printed.entry(cx.guarantees.whole(stream)).or_default();
                (*lines, *all) = (*lines + 1, *all + bytes.len() as u64);
            }
            EventKind::Effect { call, target } => drop(self.starts.insert(target, *call)),
            EventKind::Ended { stream, .. } => drop(self.ended.insert(&stream.0, event.at)),
            EventKind::Failed { call, .. } => {
                self.over.entry(*call).or_insert(event.at);
                self.failed.push(*call);
            }
            EventKind::Answered { call, answer } => {
                self.over.entry(*call).or_insert(event.at);
                match answer {
                    Answer::Refused(why) if ExecFailure::is_of_its_process(why) => {
                        self.refused.push(*call)
                    }
                    Answer::Refused(_) | Answer::GivenUp => self.failed.push(*call),
                    _ => {}
                }
            }
            EventKind::FaultBegan { fault, what, scope, .. }
                if matches!(**what, Fault::Hold { .. }) =>
            {
                self.held.insert(*fault, &scope.hosts);
            }
            EventKind::FaultEnded { fault } => drop(self.held.remove(fault)),
            _ => {}
        }
    }

    /// Returns how long the link of a host needs at most for the data that is on its way at a moment.
    /// The terminate is sent behind what its user wrote, and the server handles it when it has room
    /// for its answer. A request that its user gave up may be on its way, too.
    fn transfer(&self, host: &str, at: Time, latency: Duration) -> Duration {
        let is_on_its_way = |call: &Call| {
            self.over.get(call).is_none_or(|over| *over >= at) || self.failed.contains(call)
        };
        let open = self
            .asked
            .iter()
            .filter(|(call, asked)| asked.host == host && asked.at <= at && is_on_its_way(call));
        let (mut written, mut answers) = (0, 1);
        for (_, asked) in open {
            written += asked.bytes() as u64 + asked.requests() * AROUND as u64;
            answers += asked.reads() as u64;
        }
        let output = (self.network_fault.printed as u64).saturating_mul(answers);
        through(written + output, latency)
    }
}

/// A process that ended. The server may have killed it.
struct KilledProcess<'k, 'a> {
    cx: &'k CheckContext<'a>,
    known: &'k Known<'a>,
    call: Call,
    start: UserOperation<'a>,
    /// The name of its record.
    record: &'a str,
    at: Time,
    /// Whether its user followed it to an ending.
    is_followed: bool,
}

impl<'a> KilledProcess<'_, 'a> {
    /// Whether one of the reasons holds for which a process may end by a signal.
    fn is_excused(&self) -> bool {
        let reasons: [fn(&Self) -> bool; 8] = [
            Self::is_declared,
            Self::is_asked_for,
            Self::is_reported,
            Self::is_in_use,
            Self::is_unwanted,
            Self::is_expired,
            Self::is_unread,
            Self::is_unknown,
        ];
        reasons.iter().any(|holds| holds(self))
    }

    /// The calls about the process, and about others of its name.
    fn calls(&self) -> impl Iterator<Item = (Call, &UserOperation<'a>)> {
        let of_its_name =
            |(_, asked): &(&Call, &UserOperation<'a>)| asked.is_about_the_process_of(&self.start);
        self.known.asked.iter().filter(of_its_name).map(|(call, asked)| (*call, asked))
    }

    /// The calls about this process, as far as its user had a handle.
    fn own_calls(&self) -> impl Iterator<Item = (Call, &UserOperation<'a>)> {
        self.calls().filter(|(call, _)| self.known.targets.of(*call) == Some(self.record))
    }

    fn has_own_call(&self, verb: &str) -> bool {
        self.own_calls().any(|(_, asked)| asked.verb() == verb)
    }

    /// Whether the client can have failed the process: output is gone for good, or a read of the
    /// client had no answer. The client reads only after the start.
    fn can_have_failed(&self) -> bool {
        let (lines, bytes) = self.known.printed.get(self.record).copied().unwrap_or_default();
        self.cx.guarantees.retention.is_exceeded(lines, bytes)
            || self.start.at + self.known.call_wait <= self.at
    }

    /// How long it takes at most until a process that failed at this time has ended: the terminate
    /// may be behind other data. If a fault may have its effect then, the client has to end the
    /// process over a later connection.
    fn ends_within(&self, failed: Time) -> Duration {
        let recovers = self.cx.guarantees.reconnects_within() + Duration::from_secs(2);
        let fault = &self.known.network_fault;
        let is_over = fault.settled.is_none_or(|settled| settled + recovers < failed);
        let transfer = self.known.transfer(self.start.host, failed, self.cx.plan.latency.1);
        let soon = if fault.in_force == 0 && is_over { at_once(self.cx) } else { recovers };
        soon + transfer
    }

    /// Returns until when the server certainly keeps the closed process. It forgets no process earlier,
    /// also if it has no room for another one. Returns `None` if the session may be over: only a
    /// connection that the client installs later, or still has, proves that it is not.
    fn kept_until(&self) -> Option<Time> {
        let horizon = Time::from(self.cx.plan.horizon);
        let lives = self.was_connected(self.at, horizon);
        let ended = self.known.ended.get(self.record).filter(|_| lives)?;
        Some(*ended + self.known.closed_retention)
    }

    /// The scenario declares that the process ends by a signal.
    fn is_declared(&self) -> bool {
        let table = self.cx.plan.setup.get(TABLE);
        let entry = self.start.process().and_then(|process| table?.get(process));
        entry.and_then(|entry| entry.get("exit")).is_some_and(|exit| exit == "signal")
    }

    /// A user asked for its end. A user that waits for a start asks for the end of the process that
    /// comes. A call over an older handle waits for none.
    fn is_asked_for(&self) -> bool {
        let is_its = |call: Call, asked: &UserOperation<'_>| {
            self.known.targets.of(call).map_or(!asked.is_older(), |record| record == self.record)
        };
        let asks = |verb: &str| matches!(verb, "terminate" | "interrupt");
        self.calls().any(|(call, asked)| asks(asked.verb()) && is_its(call, asked))
    }

    /// The client reported the failure of the process to a call.
    fn is_reported(&self) -> bool {
        self.own_calls().any(|(call, _)| self.known.refused.contains(&call))
    }

    /// The client follows a process with a dropped handle while calls on it are open, and ends it if
    /// it fails then. The last of these calls may end in the moment of the failure.
    fn is_in_use(&self) -> bool {
        let waits = |call: Call| {
            let over = self.known.over.get(&call).copied();
            over.is_none_or(|over| over + self.ends_within(over) >= self.at)
        };
        self.can_have_failed()
            && self.has_own_call("drop-handle")
            && self.own_calls().any(|(call, asked)| USES.contains(&asked.verb()) && waits(call))
    }

    /// If the answer of a start was lost, the client ends the process by its name. This also ends
    /// an older process of that name.
    fn is_unwanted(&self) -> bool {
        let has_failed = |call: &Call| self.known.failed.contains(call);
        has_failed(&self.call)
            || self.calls().any(|(call, asked)| asked.verb() == "start" && has_failed(&call))
    }

    /// The processes end with their session.
    fn is_expired(&self) -> bool {
        let since = self.at.before(self.known.detached_lifetime);
        !self.was_connected(since, self.at)
    }

    /// Whether the server had an installed connection of the client at any time after `from` and before
    /// `to`.
    fn was_connected(&self, from: Time, to: Time) -> bool {
        let conns = (0..).map(ConnIndex).zip(&self.cx.history.conns);
        let mut own = conns.filter(|(_, conn)| {
            conn.generation.is_some() && conn.client.as_str() == self.start.host
        });
        own.any(|(index, conn)| {
            conn.opened < to && detached(self.cx, index).is_none_or(|at| at > from)
        })
    }

    /// The client ends a process that failed. A user that pauses reads of the failure later, perhaps
    /// after the run, and one that follows the process no more reads nothing.
    fn is_unread(&self) -> bool {
        let reads_late = self.start.operation.pauses().is_some()
            || !self.start.operation.looks_after().is_zero()
            || self.has_own_call("unfollow");
        reads_late && !self.is_followed && self.can_have_failed()
    }

    /// A user with a held task learns only later that its start failed.
    fn is_unknown(&self) -> bool {
        let mut held = self.known.held.values().copied().flatten();
        !self.known.over.contains_key(&self.call)
            && held.any(|host| host.as_str() == self.start.host)
    }
}

/// Whether an event may end any process: the run is not judged after it. Processes end with their
/// server, and a restarted client has another session.
fn ends_processes(event: &Event) -> bool {
    match &event.what {
        EventKind::Died { .. } => true,
        EventKind::FaultBegan { what, .. } => {
            matches!(**what, Fault::KillChildren { .. } | Fault::ClosePipe { .. })
        }
        _ => false,
    }
}

pub(super) fn ends_as_it_wants(cx: &CheckContext<'_>) -> Vec<Violation> {
    // Collected in advance, because a user that begins to follow its process late records the
    // failure later.
    let mut has_failed: BTreeMap<&str, bool> = BTreeMap::new();
    for event in &cx.history.events {
        if let EventKind::StreamEnded { stream, ending } = &event.what {
            let failed = has_failed.entry(cx.guarantees.whole(stream)).or_default();
            *failed |= matches!(ending, Ending::Failed { .. });
        }
    }
    let mut known = Known::new(cx);
    for event in judged(cx).filter(|_| cx.is_honest()) {
        known.learn(cx, event);
        if ends_processes(event) {
            return Vec::new();
        }
        let EventKind::Ended { stream, outcome } = &event.what else { continue };
        let left_by = stream.0.strip_suffix(background::PART);
        let record: &str = left_by.unwrap_or(&stream.0);
        let ending = has_failed.get(record);
        if ending == Some(&true) {
            continue;
        }
        let Some(call) = known.starts.get(record).copied() else { continue };
        let Some(start) = known.asked.get(&call).copied() else { continue };
        let is_followed = ending.is_some();
        let killed =
            KilledProcess { cx, known: &known, call, start, record, at: event.at, is_followed };
        if killed.is_excused() {
            continue;
        }
        let kept_until = left_by.and_then(|_| killed.kept_until());
        let is_early = kept_until.is_none_or(|until| event.at < until);
        if left_by.is_some() && kept_until.is_none() {
            continue;
        }
        // The server could have killed a process that ended by itself, and what it left could have ended
        // earlier.
        cx.judges("ends_as_it_wants");
        if is_early && matches!(outcome.downcast_ref(), Some(ProcessOutcome::Signal(_))) {
            let (kind, data) = match kept_until {
                Some(until) => (&LEFT_KILLED, fields! { outcome, until }),
                None => (&KILLED, fields! { outcome }),
            };
            return vec![Violation::new("ends_as_it_wants", stream, event.at, kind, data)];
        }
    }
    Vec::new()
}
