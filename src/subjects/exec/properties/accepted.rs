//! Accepted calls take effect: a process reads accepted input, and a signal ends it. And the answer
//! to a terminate says whether the process ran.
//!
//! Both count from the answer that the user received, so they need no network. A process that ends
//! earlier, for any reason, is no violation. An effect that is due during a fault of a server or of
//! its processes is due after the fault. A closed pipe or a death excuses the processes that had started
//! before it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::served::UserOperation;
use super::targets::Targets;
use crate::history::{Answer, Call, EventKind, Nature, ProcessOutcome, Time};
use crate::process::KILL;
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation, ViolationFields};
use crate::schedule::Fault;
use crate::subjects::exec::answers::WasRunning;
use crate::subjects::judging::{is_of_the_network, judged, peers_may_lie};
use crate::world::process::{Input, PIPE, ProcessEnd, Setup, TABLE};

kinds! {
    pub(super) INPUT_ARRIVES;
    NOT_READ = "not-read": "{subject:}the line was accepted at {accepted}, but {process} had not read it by {at}";
}

kinds! {
    pub(super) SIGNALS_TAKE_EFFECT;
    STILL_RUNS = "still-runs": "{subject:}the call was answered at {answered} ({answer}), but {process} still ran at {at}";
}

kinds! {
    pub(super) TERMINATES_TELL_TRUTH;
    STILL_RAN = "still-ran": "{subject:}the answer at {answered} was that {process} did not run, but it still ran {moment}";
    KILLED_BY_IT = "killed-by-it": "{subject:}the answer at {answered} was that {process} did not run, but only this call can have killed it {moment}";
    RAN_NO_MORE = "ran-no-more": "{subject:}the answer at {answered} was that {process} ran, but it had ended at {ended}, before the user asked";
}

/// The time that a server and a process need at most to act, without a fault.
const SOON: Duration = Duration::from_secs(1);

/// The signal of an interrupt.
const INTERRUPT: u8 = 2;

/// The facts that a call and its answer are compared with.
#[derive(Default)]
struct Truth<'a> {
    targets: Targets<'a>,
    /// The answered calls on a process.
    answered: Vec<AnsweredCall<'a>>,
    effects: BTreeSet<Call>,
    /// The real end of each process.
    ends: BTreeMap<&'a str, Time>,
    /// The processes that a kill ended.
    killed: BTreeSet<&'a str>,
    /// The bytes that each process read or printed.
    bytes: BTreeMap<&'a str, usize>,
    /// When each process started.
    started: BTreeMap<&'a str, Time>,
    /// The faults of servers and their processes.
    faults: BTreeMap<usize, ServerFault>,
}

/// A fault of a server or of its processes.
struct ServerFault {
    began: Time,
    /// The end of the fault.
    over: Time,
    /// Whether its effect on the processes that had started before it outlasts it.
    is_lasting: bool,
}

impl ServerFault {
    /// Returns when the effect on a process that started at a time is over.
    fn over_for(&self, started: Time) -> Time {
        match self.is_lasting {
            true if started <= self.began => NEVER,
            _ => self.over,
        }
    }
}

/// A call on a process, and its answer.
struct AnsweredCall<'a> {
    call: Call,
    at: Time,
    answer: &'a Answer,
    asked: UserOperation<'a>,
    /// The record of its process.
    process: &'a str,
}

impl<'a> Truth<'a> {
    fn of(cx: &CheckContext<'a>) -> Self {
        let mut truth = Self::default();
        for event in judged(cx) {
            truth.targets.pass(cx, event);
            match &event.what {
                EventKind::Answered { call, answer } => {
                    if let Some(process) = truth.targets.of(*call)
                        && let Some(asked) = truth.targets.asked.get(call).copied()
                    {
                        let at = event.at;
                        truth.answered.push(AnsweredCall {
                            call: *call,
                            at,
                            answer,
                            asked,
                            process,
                        });
                    }
                }
                EventKind::Effect { call, target } => {
                    truth.effects.insert(*call);
                    truth.started.entry(target).or_insert(event.at);
                }
                EventKind::Ended { stream, outcome } => {
                    truth.ends.entry(&stream.0).or_insert(event.at);
                    if outcome.downcast_ref() == Some(&ProcessOutcome::Signal(KILL)) {
                        truth.killed.insert(&stream.0);
                    }
                }
                EventKind::Produced { stream, bytes } => {
                    *truth.bytes.entry(cx.guarantees.whole(stream)).or_default() += bytes.len();
                }
                EventKind::FaultBegan { fault, what, nature, scope, .. }
                    if !is_of_the_network(what)
                        && (*nature != Nature::Harmless || is_lasting(what))
                        && scope.hosts.iter().any(|host| cx.servers.contains(&host.as_str())) =>
                {
                    let (began, over, is_lasting) = (event.at, NEVER, is_lasting(what));
                    truth.faults.insert(*fault, ServerFault { began, over, is_lasting });
                }
                EventKind::FaultEnded { fault } => {
                    if let Some(fault) = truth.faults.get_mut(fault) {
                        fault.over = event.at;
                    }
                }
                _ => {}
            }
        }
        truth
    }

    /// Returns the time by which an answered call must have taken effect, if the run lasts until then.
    fn due(&self, call: &AnsweredCall<'_>, until: Time) -> Option<Time> {
        let due = self.faults_for(call).filter(|(_, over)| *over >= call.at).fold(
            call.at + SOON,
            |due, (began, over)| if began <= due { due.max(over + SOON) } else { due },
        );
        (due < until).then_some(due)
    }

    /// Returns the faults, with the end of the effect of each on the process of a call.
    fn faults_for(&self, call: &AnsweredCall<'_>) -> impl Iterator<Item = (Time, Time)> {
        let started = self.started.get(call.process).copied().unwrap_or(Time::ZERO);
        self.faults.values().map(move |fault| (fault.began, fault.over_for(started)))
    }

    /// Returns whether the process of a call still ran at a time.
    fn still_ran(&self, call: &AnsweredCall<'_>, at: Time) -> bool {
        self.ends.get(call.process).is_none_or(|end| *end > at)
    }
}

/// Returns whether a call is the only cause that can have killed its process: the process did not kill
/// itself, and its user started and terminated no other process of this name.
fn is_only_killer(cx: &CheckContext<'_>, truth: &Truth<'_>, call: &AnsweredCall<'_>) -> bool {
    let count = |verb: &str| {
        let its = truth.targets.asked.values().filter(|asked| asked.verb() == verb);
        its.filter(|asked| asked.is_about_the_process_of(&call.asked)).count()
    };
    let kills_itself = setup(cx, &call.asked).exit.0 == ProcessEnd::Signal(KILL);
    let is_alone = count("start") == 1 && count("terminate") == 1;
    truth.killed.contains(call.process) && is_alone && !kills_itself
}

/// Returns whether the effect of a fault outlasts it: a closed pipe stays closed, and a host that died
/// has lost its processes.
fn is_lasting(fault: &Fault) -> bool {
    matches!(fault, Fault::ClosePipe { .. } | Fault::Crash { .. } | Fault::PowerLoss { .. })
}

fn setup(cx: &CheckContext<'_>, asked: &UserOperation<'_>) -> Setup {
    asked.process().and_then(|process| cx.plan.entry(TABLE, process)).unwrap_or_default()
}

pub(super) fn input_arrives(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let truth = Truth::of(cx);
    let until = Time::from(cx.plan.horizon);
    // A process that prints its input reads no more while its output pipe is full.
    let is_blocked = |call: &AnsweredCall<'_>| match setup(cx, &call.asked) {
        setup if setup.reads_every.is_some() => true,
        Setup { stdin: Input::Read, .. } => false,
        Setup { stdin: Input::Ignore, .. } => true,
        Setup { stdin: Input::Echo, .. } => {
            truth.bytes.get(call.process).is_some_and(|bytes| *bytes >= PIPE)
        }
    };
    let late = truth.answered.iter().filter_map(|call| {
        let is_accepted = matches!(call.asked.verb(), "write" | "write-stream")
            && matches!(call.answer, Answer::Queued(_));
        let at = truth.due(call, until).filter(|at| truth.still_ran(call, *at))?;
        if !is_accepted || is_blocked(call) {
            return None;
        }
        cx.judges("input_arrives");
        let is_lost = !truth.effects.contains(&call.call);
        let data = fields! { accepted: call.at, process: call.process, at };
        is_lost.then(|| Violation::new("input_arrives", call.call, at, &NOT_READ, data))
    });
    late.take(5).collect()
}

pub(super) fn signals_take_effect(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let truth = Truth::of(cx);
    let until = Time::from(cx.plan.horizon);
    let late = truth.answered.iter().filter_map(|call| {
        let ends = match call.asked.verb() {
            "terminate" => true,
            "interrupt" => !setup(cx, &call.asked).ignores.contains(&INTERRUPT),
            _ => false,
        };
        let at = truth.due(call, until).filter(|_| ends && call.answer.acknowledges())?;
        // A signal has no effect on a process that had ended before.
        if !truth.still_ran(call, call.asked.at) {
            return None;
        }
        cx.judges("signals_take_effect");
        if !truth.still_ran(call, at) {
            return None;
        }
        let data = fields! { answered: call.at, answer: call.answer, process: call.process, at };
        Some(Violation::new("signals_take_effect", call.call, at, &STILL_RUNS, data))
    });
    late.take(5).collect()
}

/// A server knows the end of a process soon after it, if no fault delays it.
pub(super) fn terminates_tell_truth(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let truth = Truth::of(cx);
    let wrong = truth.answered.iter().filter_map(|call| {
        let WasRunning(said) = *call.answer.done::<WasRunning>()?;
        let ended = truth.ends.get(call.process).copied();
        let from = ended.unwrap_or(call.asked.at).min(call.asked.at);
        let mut faults = truth.faults_for(call);
        if faults.any(|(began, over)| began <= call.at && over >= from) {
            return None;
        }
        // The server may know an end a moment later. Both answers are true for an end during the call, if
        // another cause may have killed the process.
        let is_known = ended.is_none_or(|ended| {
            ended > call.at
                || ended + SOON < call.asked.at
                || ended >= call.asked.at && is_only_killer(cx, &truth, call)
        });
        if !is_known {
            return None;
        }
        cx.judges("terminates_tell_truth");
        let violation = |kind, data: ViolationFields| {
            let data = data.with("answered", Some(call.at)).with("process", Some(call.process));
            Violation::new("terminates_tell_truth", call.call, call.at, kind, data)
        };
        match (said, ended) {
            (true, Some(ended)) if ended + SOON < call.asked.at => {
                Some(violation(&RAN_NO_MORE, fields! { ended }))
            }
            (false, None) => Some(violation(&STILL_RAN, ViolationFields::default())),
            (false, Some(ended)) if ended > call.at => {
                Some(violation(&STILL_RAN, ViolationFields::default()))
            }
            (false, Some(ended)) if ended >= call.asked.at => {
                Some(violation(&KILLED_BY_IT, ViolationFields::default()))
            }
            _ => None,
        }
    });
    wrong.take(5).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{started, violations};
    use super::*;
    use crate::history::{Class, Scope};
    use crate::property::scripted::ScriptedRun;
    use crate::schedule::{Fault, Host, faults};

    fn call(verb: &str) -> ScriptedRun {
        started().asked_as(2, 2_000, Class::InFlight, verb, r#"{"process":"p1"}"#)
    }

    fn ended(scripted: ScriptedRun, ms: u64) -> ScriptedRun {
        scripted.ended("p1", ms, ProcessOutcome::Signal(9))
    }

    fn stopped(scripted: ScriptedRun) -> ScriptedRun {
        let what =
            Fault::StopChildren(faults::StopChildren { host: Host::from("server"), lasts: None });
        let scope = Scope { hosts: vec!["server".into()], ..Scope::default() };
        scripted.fault_in(2_050, Some(5_000), Nature::Slows, what, scope)
    }

    #[test]
    fn a_death_excuses_only_the_processes_that_had_started_before_it() {
        let found = |died, host: &str| {
            let host = Host::from(host);
            let scope = Scope { hosts: vec![host.clone()], ..Scope::default() };
            let processes = crate::schedule::Orphans::Die;
            let what = Fault::Crash(faults::Crash { host, lasts: None, processes });
            let accepted = call("write").answered(2, 2_100, Answer::queued("accepted"));
            let run = accepted.fault_in(died, Some(died), Nature::Kills, what, scope);
            violations(&run, input_arrives).len()
        };
        assert_eq!(found(2_200, "server"), 0);
        assert_eq!(found(105, "server"), 1, "the process started after it");
        assert_eq!(found(2_200, "client"), 1);
    }

    #[test]
    fn an_accepted_line_is_read() {
        let accepted = || call("write").answered(2, 2_100, Answer::queued("accepted"));
        assert!(violations(&accepted().effect(2, 2_110, "p1/stdin"), input_arrives).is_empty());
        assert_eq!(
            violations(&accepted(), input_arrives),
            ["call 2: the line was accepted at 2.100 s, but p1 had not read it by 3.100 s"]
        );
        assert!(violations(&ended(accepted(), 3_000), input_arrives).is_empty());
        let read = |ms| stopped(accepted()).effect(2, ms, "p1/stdin");
        assert!(violations(&read(6_000), input_arrives).is_empty());
        assert_eq!(violations(&stopped(accepted()), input_arrives).len(), 1);
        let refused = call("write").answered(2, 2_100, Answer::refused("closed"));
        assert!(violations(&refused, input_arrives).is_empty());
    }

    #[test]
    fn a_terminate_says_whether_the_process_ran() {
        let said = |running| call("terminate").answered(2, 2_100, WasRunning(running));
        let ended = |running, ms| ended(said(running), ms);
        let found = |scripted: &ScriptedRun| violations(scripted, terminates_tell_truth);
        assert!(found(&ended(true, 2_050)).is_empty());
        let exited = said(false).ended("p1", 2_050, ProcessOutcome::Exit(0));
        assert!(found(&exited).is_empty());
        assert_eq!(
            found(&ended(false, 2_101)),
            [
                "call 2: the answer at 2.100 s was that p1 did not run, but it still ran (at 2.100 s)"
            ]
        );
        assert_eq!(found(&said(false)).len(), 1);
        let early = |running, ms| {
            let run = started().ended("p1", ms, ProcessOutcome::Exit(0));
            let asked = run.asked_as(2, 5_000, Class::InFlight, "terminate", r#"{"process":"p1"}"#);
            asked.answered(2, 5_100, WasRunning(running))
        };
        assert!(found(&early(true, 4_000)).is_empty());
        assert_eq!(
            found(&early(true, 3_999)),
            [
                "call 2: the answer at 5.100 s was that p1 ran, but it had ended at 3.999 s, before the user asked"
            ]
        );
        assert!(found(&early(false, 3_000)).is_empty());
    }

    #[test]
    fn a_terminate_that_killed_a_process_says_that_it_ran() {
        let said = |running| call("terminate").answered(2, 2_100, WasRunning(running));
        let killed = |run, ms| ended(run, ms);
        let found = |run: &ScriptedRun| violations(run, terminates_tell_truth);
        assert_eq!(
            found(&killed(said(false), 2_050)),
            [
                "call 2: the answer at 2.100 s was that p1 did not run, but only this call can have killed it (at 2.100 s)"
            ]
        );
        assert!(found(&killed(said(true), 2_050)).is_empty());
        assert!(found(&killed(said(false), 1_999)).is_empty(), "it was killed before");
        let exited = said(false).ended("p1", 2_050, ProcessOutcome::Exit(0));
        assert!(found(&exited).is_empty());
        let p1 = r#"{"process":"p1"}"#;
        for verb in ["terminate", "start"] {
            let other = said(false).asked_as(3, 1_900, Class::InFlight, verb, p1);
            assert!(found(&killed(other, 2_050)).is_empty(), "{verb}");
        }
        let mut kills_itself = killed(said(false), 2_050);
        kills_itself.plan.setup.insert("process".into(), json!({ "p1": { "exit": "signal" } }));
        assert!(found(&kills_itself).is_empty());
    }

    #[test]
    fn an_answered_signal_ends_its_process() {
        let answered = |verb: &str| call(verb).answered(2, 2_100, "sent");
        for verb in ["terminate", "interrupt"] {
            assert!(violations(&ended(answered(verb), 2_105), signals_take_effect).is_empty());
            assert!(violations(&ended(answered(verb), 3_100), signals_take_effect).is_empty());
            let late = violations(&ended(answered(verb), 3_101), signals_take_effect);
            assert_eq!(
                late,
                ["call 2: the call was answered at 2.100 s (sent), but p1 still ran at 3.100 s"]
            );
            let stopped = || stopped(answered(verb));
            assert!(violations(&ended(stopped(), 6_000), signals_take_effect).is_empty());
            assert_eq!(violations(&stopped(), signals_take_effect).len(), 1);
        }
        assert!(violations(&answered("read"), signals_take_effect).is_empty());
    }
}
