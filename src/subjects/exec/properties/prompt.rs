//! `answers_are_prompt`: no request waits for another one.
//!
//! A request counts if its client was connected when the user made it, and if no fault was in force
//! between request and answer. It may wait until all data so far has passed the link. An operation on a process counts only from the outcome of all earlier starts of that
//! process on, because the user needs the handle. The limits of client and server bound how
//! many requests may be open; further ones wait.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::served::UserOperation;
use crate::history::{Call, Event, EventKind, Time};
use crate::property::path::through;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::exec::limits::{LIMITS, client_limits, server_limits};
use crate::subjects::exec::network_fault::{AROUND, NetworkFault};
use crate::subjects::judging::{has_puppet, host, judged};

kinds! {
    pub(super) ANSWERS_ARE_PROMPT;
    LATE = "late": "{subject:}the request of {since} was not answered by {at}, although no fault and no other data delayed it";
}

/// The open requests, and what could delay an answer.
#[derive(Default)]
struct OpenRequests<'a> {
    network_fault: NetworkFault,
    /// The bytes that users wrote.
    written: u64,
    /// The requests that may be answered with all output.
    reads: u64,
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
    fn pass(&mut self, event: &'a Event, most: usize) -> Option<(Call, Time)> {
        self.network_fault.pass(event);
        match &event.what {
            EventKind::Asked { .. } => {
                if let Some((call, asked)) = UserOperation::of(event) {
                    if self.must_be_prompt(&asked, event.at, most) {
                        self.prompt.insert(call, event.at);
                    }
                    self.written += asked.bytes() as u64 + asked.requests() * AROUND as u64;
                    self.reads += asked.reads() as u64;
                    self.open.insert(call, asked);
                }
            }
            EventKind::Answered { call, .. }
            | EventKind::Failed { call, .. }
            | EventKind::Opened { call, .. } => {
                self.open.remove(call);
                return Some((*call, self.prompt.remove(call)?));
            }
            EventKind::FaultBegan { .. } | EventKind::Died { .. } => self.prompt.clear(),
            EventKind::Milestone { name: "exec.client.connected", .. } => {
                self.connected.insert(host(event));
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

    fn must_be_prompt(&self, asked: &UserOperation<'_>, now: Time, most: usize) -> bool {
        let waits_for_nothing = match asked.verb() {
            "start" | "interrupt" | "terminate" => true,
            "read" => asked.wait().is_zero(),
            _ => false,
        };
        let mut own = self.open.values().filter(|other| other.host == asked.host);
        let requests = own.clone().map(UserOperation::requests).sum::<u64>();
        let starts =
            own.any(|other| other.verb() == "start" && other.is_about_the_process_of(asked));
        waits_for_nothing
            && !starts
            && requests < most as u64
            && self.connected.contains(asked.host)
            && self.network_fault.in_force == 0
            && self.network_fault.settled.is_none_or(|settled| settled < now)
    }

    /// Returns an upper bound of the bytes so far that links had to carry.
    fn bytes(&self) -> u64 {
        (self.network_fault.printed as u64).saturating_mul(self.reads + 1) + self.written
    }
}

pub(super) fn answers_are_prompt(cx: &CheckContext<'_>) -> Vec<Violation> {
    if has_puppet(cx) {
        return Vec::new();
    }
    let limits = cx.plan.limits.over(LIMITS);
    let most = server_limits(&limits).waiting_requests.min(client_limits(&limits).calls);
    let latency = cx.plan.latency.1;
    let due =
        |since: Time, bytes| since + latency * 4 + Duration::from_secs(1) + through(bytes, latency);
    let mut requests = OpenRequests::default();
    let mut late: Vec<(Call, Time, Time)> = Vec::new();
    for event in judged(cx) {
        if let Some((call, since)) = requests.pass(event, most) {
            let due = due(since, requests.bytes());
            late.extend((event.at > due).then_some((call, since, due)));
        }
    }
    let until = Time::from(cx.plan.horizon);
    for (call, since) in &requests.prompt {
        let due = due(*since, requests.bytes());
        late.extend((due < until).then_some((*call, *since, due)));
    }
    let violation = |(call, since, at)| {
        Violation::new("answers_are_prompt", call, at, &LATE, fields! { since, at })
    };
    late.into_iter().take(5).map(violation).collect()
}
