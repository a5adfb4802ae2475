//! `waits_are_whole`: a call without an answer is given up when its wait is over, and not before.
//!
//! The wait of a call is the limit `client.call-wait` and the wait that its user asks the server for. It
//! begins when the client has a place for the call. A user that has no handle of a process first waits
//! for the outcome of its start.
//!
//! A call is late only if it is one request, if its client has places for many more calls, and if no
//! task of its host is held.

use std::collections::BTreeMap;
use std::time::Duration;

use super::served::UserOperation;
use crate::history::{Call, Event, EventKind, Time};
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::{Fault, Host, Plan};
use crate::subjects::exec::answers::ExecFailure;
use crate::subjects::exec::body;
use crate::subjects::exec::limits::{LIMITS, client_limits};
use crate::subjects::judging::{host, judged};
use reknit_exec::client::Failure;
use reknit_exec::limits::ClientLimits;

kinds! {
    pub(super) WAITS_ARE_WHOLE;
    TOO_SOON = "too-soon": "{subject:}the client gave it up after {waited}, but must wait for {least} {moment}";
    TOO_LATE = "too-late": "{subject:}it still waited at {at}, although its wait was over at {over}";
}

/// How much the recorded times may differ from the client's clock.
const MOMENT: Duration = Duration::from_millis(500);

/// How many times as many calls as its user makes a client must have places for. Some operations send
/// one request after the other.
const PLACES: u64 = 4;

/// The open calls, and what may prolong them.
#[derive(Default)]
struct OpenCalls<'a> {
    open: BTreeMap<Call, UserOperation<'a>>,
    /// The requests that each host has sent.
    requests: BTreeMap<&'a str, u64>,
    /// The last outcome of a start, by host and process.
    started: BTreeMap<(&'a str, &'a str), Time>,
    /// The hosts with held tasks, by the number of the fault.
    held: BTreeMap<usize, &'a [Host]>,
    /// Until when a task of each host was held.
    stood_still: BTreeMap<&'a str, Time>,
    limits: ClientLimits,
}

impl<'a> OpenCalls<'a> {
    /// Processes an event. Returns the call that has its outcome.
    fn pass(&mut self, event: &'a Event) -> Option<(Call, UserOperation<'a>)> {
        match &event.what {
            EventKind::Asked { .. } => {
                let (call, asked) = UserOperation::of(event)?;
                *self.requests.entry(asked.host).or_default() += asked.requests();
                self.open.insert(call, asked);
            }
            EventKind::Answered { call, .. }
            | EventKind::Failed { call, .. }
            | EventKind::Opened { call, .. } => {
                let asked = self.open.remove(call)?;
                if let ("start", Some(process)) = (asked.verb(), asked.process()) {
                    self.started.insert((asked.host, process), event.at);
                }
                return Some((*call, asked));
            }
            EventKind::FaultBegan { fault, what, scope, .. }
                if matches!(**what, Fault::Hold { .. }) =>
            {
                self.held.insert(*fault, &scope.hosts);
                let hosts = scope.hosts.iter().map(|host| (host.as_str(), NEVER));
                self.stood_still.extend(hosts);
            }
            EventKind::FaultEnded { fault } => {
                for host in self.held.remove(fault).into_iter().flatten() {
                    let is_held = self.held.values().any(|hosts| hosts.contains(host));
                    let until = if is_held { NEVER } else { event.at };
                    self.stood_still.insert(host.as_str(), until);
                }
            }
            EventKind::Died { .. } => self.open.retain(|_, asked| asked.host != host(event)),
            _ => {}
        }
        None
    }

    /// Returns when the wait of a call was over, if it should have ended before this time.
    fn over(&self, plan: &Plan, asked: &UserOperation<'_>, at: Time) -> Option<Time> {
        let is_one_request = matches!(
            asked.verb(),
            "start" | "read" | "write" | "interrupt" | "terminate" | "http" | "http-stream"
        );
        let requests = self.requests.get(asked.host).copied().unwrap_or_default();
        let has_places = requests.saturating_mul(PLACES) < self.limits.calls as u64;
        let stood_still = self.stood_still.get(asked.host).is_some_and(|until| *until >= asked.at);
        let process = asked.process().map(|process| (asked.host, process));
        let started = process.and_then(|process| self.started.get(&process)).copied();
        let wait = self.limits.call_wait + body::wait(plan, asked.operation);
        let over = asked.at.max(started.unwrap_or_default()) + wait;
        let is_late = is_one_request && has_places && !stood_still && over + MOMENT < at;
        is_late.then_some(over)
    }
}

/// See the module.
pub(super) fn waits_are_whole(cx: &CheckContext<'_>) -> Vec<Violation> {
    let limits = client_limits(&cx.plan.limits.over(LIMITS));
    let call_wait = limits.call_wait;
    let mut asked: BTreeMap<Call, UserOperation<'_>> = BTreeMap::new();
    let mut calls = OpenCalls { limits, ..OpenCalls::default() };
    let mut found = Vec::new();
    let late = |call: Call, over: Time| {
        let data = fields! { at: over + MOMENT, over };
        Violation::new("waits_are_whole", call, over + MOMENT, &TOO_LATE, data)
    };
    for event in judged(cx) {
        if let Some((call, asked)) = calls.pass(event) {
            found.extend(calls.over(cx.plan, &asked, event.at).map(|over| late(call, over)));
        }
        match &event.what {
            EventKind::Asked { .. } => asked.extend(UserOperation::of(event)),
            EventKind::Failed { call, reason } if ExecFailure::is(reason, &Failure::Unanswered) => {
                // A subscription fails with its process, and that with an earlier call.
                let asked = asked
                    .get(call)
                    .filter(|asked| !matches!(asked.verb(), "read-events" | "read-stream"));
                let Some(asked) = asked else { continue };
                let own = match asked.verb() {
                    "read" | "http" => asked.wait(),
                    _ => Default::default(),
                };
                let (waited, least) = (event.at.since(asked.at), call_wait + own);
                let data = fields! { waited, least };
                let violation = Violation::new("waits_are_whole", *call, event.at, &TOO_SOON, data);
                found.extend((waited < least).then_some(violation));
            }
            _ => {}
        }
    }
    let until = Time::from(cx.plan.horizon).min(cx.history.end);
    for (call, asked) in &calls.open {
        found.extend(calls.over(cx.plan, asked, until).map(|over| late(*call, over)));
    }
    found.truncate(5);
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::violations;
    use super::*;
    use crate::history::{Answer, Class};
    use crate::property::scripted::{ScriptedRun, history};
    use crate::schedule::LimitValue;

    fn given_up(fields: &str, ms: u64) -> ScriptedRun {
        let asked = history().asked_as(1, 100, Class::InFlight, "http", fields);
        asked.failed(1, ms, ExecFailure(Failure::Unanswered)).end(200_000)
    }

    #[test]
    fn a_call_waits_for_the_deadline_of_its_request_in_addition() {
        let plain = r#"{"body":"b1"}"#;
        assert!(violations(&given_up(plain, 60_100), waits_are_whole).is_empty());
        assert_eq!(
            violations(&given_up(plain, 60_099), waits_are_whole),
            ["call 1: the client gave it up after 59999ms, but must wait for 1m (at 60.099 s)"]
        );
        let longer = r#"{"body":"b1","wait":"20s"}"#;
        assert!(violations(&given_up(longer, 80_100), waits_are_whole).is_empty());
        assert_eq!(violations(&given_up(longer, 80_099), waits_are_whole).len(), 1);
    }

    #[test]
    fn a_call_is_given_up_when_its_wait_is_over() {
        let plain = r#"{"body":"b1"}"#;
        assert!(violations(&given_up(plain, 60_600), waits_are_whole).is_empty());
        assert_eq!(
            violations(&given_up(plain, 60_601), waits_are_whole),
            ["call 1: it still waited at 60.600 s, although its wait was over at 60.100 s"]
        );
        let asked = |verb: &str| history().asked_as(1, 100, Class::InFlight, verb, plain);
        let found = |run: ScriptedRun| violations(&run.horizon(70_000), waits_are_whole).len();
        assert_eq!([found(asked("http")), found(asked("read-all"))], [1, 0], "it has pages");
        let held = |until| found(asked("http").slows(50, until));
        assert_eq!([held(99), held(100)], [1, 0]);
        let mut few = asked("http");
        few.plan.limits.set("client.calls", LimitValue::Count(4));
        assert_eq!(found(few), 0, "it may have had no place");
        assert_eq!(found(asked("http").died("client", 1_000)), 0);
    }

    #[test]
    fn a_call_waits_for_the_start_of_its_process() {
        let found = |started: u64| {
            let p1 = r#"{"process":"p1"}"#;
            let start = history().asked_as(1, 100, Class::InFlight, "start", p1);
            let write = start.asked_as(2, 1_000, Class::InFlight, "write", p1);
            let run = write.opens("p1", 1, started).answered(2, 62_000, Answer::queued("accepted"));
            violations(&run, waits_are_whole).len()
        };
        assert_eq!([found(1_499), found(1_500)], [1, 0]);
    }
}
