//! `waits_are_whole`: a call without an answer is given up when its wait is over, and not before.
//!
//! The wait of a call is the limit `client.call-wait` and the wait that its user asks the server for. It
//! begins when the client has a place for the call. A user that has no handle of a process first waits
//! for the outcome of its start.
//!
//! A call is late only if it is one request, if its client has places for many more calls, and if no
//! task of its host is held.

use std::collections::{BTreeMap, BTreeSet};

use super::held_tasks::HeldTasks;
use super::served::UserOperation;
use super::silence::MOMENT;
use crate::history::{Call, Event, EventKind, Time};
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::{MilestoneValue, Plan};
use crate::subjects::exec::answers::ExecFailure;
use crate::subjects::exec::body;
use crate::subjects::exec::limits::client_limits;
use crate::subjects::judging::{host, judged};
use reknit_exec::client::Failure;
use reknit_exec::limits::ClientLimits;

kinds! {
    pub(super) WAITS_ARE_WHOLE;
    TOO_SOON = "too-soon": "{subject:}the client gave it up after {waited}, but must wait for {least} {moment}";
    TOO_LATE = "too-late": "{subject:}it still waited at {at}, although its wait was over at {over}";
}

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
    held_tasks: HeldTasks<'a>,
    limits: ClientLimits,
}

impl<'a> OpenCalls<'a> {
    /// Processes an event. Returns the call that has its outcome.
    fn pass(&mut self, event: &'a Event) -> Option<(Call, UserOperation<'a>)> {
        self.held_tasks.pass(event);
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
        let stood_still = self.held_tasks.was_held_between(asked.host, asked.at, NEVER);
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
    let limits = client_limits(cx.limits);
    let call_wait = limits.call_wait;
    let mut calls = OpenCalls { limits, ..OpenCalls::default() };
    let mut found = Vec::new();
    // The processes that failed because a read of their client had no answer.
    let mut failed: BTreeSet<(&str, &str)> = BTreeSet::new();
    let late = |call: Call, over: Time| {
        cx.judges("waits_are_whole");
        let data = fields! { at: over + MOMENT, over };
        Violation::new("waits_are_whole", call, over + MOMENT, &TOO_LATE, data)
    };
    for event in judged(cx) {
        if let EventKind::Milestone { name: "exec.client.process-failed", fields } = &event.what
            && MilestoneValue::text(fields, "why") == Some(&Failure::Unanswered.to_string())
        {
            let process = MilestoneValue::text(fields, "process");
            failed.extend(process.map(|process| (host(event), process)));
        }
        let Some((call, asked)) = calls.pass(event) else { continue };
        found.extend(calls.over(cx.plan, &asked, event.at).map(|over| late(call, over)));
        let EventKind::Failed { reason, .. } = &event.what else { continue };
        // A subscription fails with its process, and that with an earlier call. A later call on a failed
        // process fails with the reason of the process. `processes_fail_truly` judges that reason.
        let has_failed =
            asked.process().is_some_and(|process| failed.contains(&(asked.host, process)));
        let is_own = !has_failed && !matches!(asked.verb(), "read-events" | "read-stream");
        if is_own && ExecFailure::is(reason, &Failure::Unanswered) {
            cx.judges("waits_are_whole");
            let own = match asked.verb() {
                "read" | "http" => asked.wait(),
                _ => Default::default(),
            };
            let (waited, least) = (event.at.since(asked.at), call_wait + own);
            let data = fields! { waited, least };
            let violation = Violation::new("waits_are_whole", call, event.at, &TOO_SOON, data);
            found.extend((waited < least).then_some(violation));
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
    use super::super::tests::{milestone, violations};
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

    #[test]
    fn a_call_on_a_failed_process_has_no_wait_of_its_own() {
        let found = |why: &Failure| {
            let p1 = r#"{"process":"p1"}"#;
            let read = history().asked_as(1, 1_000, Class::InFlight, "read", p1);
            let why = why.to_string();
            let fields = [("process", "p1"), ("why", why.as_str())];
            let run = milestone(read, 1_500, "exec.client.process-failed", &fields);
            let run = run.failed(1, 1_500, ExecFailure(Failure::Unanswered)).end(200_000);
            violations(&run, waits_are_whole).len()
        };
        assert_eq!([found(&Failure::Unanswered), found(&Failure::Contradiction)], [0, 1]);
    }
}
