//! `turns_are_fair`: what one process prints does not wait for what another one prints later.
//!
//! The server sends the events of the processes of a client in turns. A process that waits for its turn has
//! printed something, or has exited, and its user had received everything before. Then each other process has
//! at most one turn before it. All events of a client use one connection, which keeps their order, so delays
//! of the network change nothing. The rule counts the pieces that another process printed after that moment,
//! and that a user received before: they cannot have been on their way.
//!
//! - Only pieces that came in an earlier millisecond count: the tasks of the user run in any order.
//! - The rule judges the first connection of a client. Later ones begin with reads, whose answers contain much
//!   at once.
//! - With flow control, no process waits for its own user if all that it has printed fits in the window. Without
//!   it, the rule does not judge: the client may read again what it has dropped, many events at once.
//! - A user that pauses, or that reads the events again, is left out.
//! - A fault of a host or of its processes ends the judgement: the server may read some output late.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Call, Event, EventKind, Nature, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::Operation;
use crate::subjects::exec::answers::ExecObservation;
use crate::subjects::exec::limits::{client_limits, server_limits};
use crate::subjects::judging::{host, is_of_the_network, judged};
use reknit_exec::server::CHUNK;
use reknit_exec::wire::flow::FlowWindow;

kinds! {
    pub(super) TURNS_ARE_FAIR;
    OVERTAKEN = "overtaken": "{subject:}its user was to receive what it did at {since}, but {count} later pieces of {other} came before {moment}";
}

/// How many later pieces of another process may come before, at most. One has its turn before.
const MOST: usize = 4;

/// One output stream of a process.
#[derive(Default)]
struct Output {
    /// When each item was printed, and the length of the stream up to its end.
    printed: Vec<(Time, u64)>,
    received: u64,
}

impl Output {
    fn length(&self) -> u64 {
        self.printed.last().map_or(0, |(_, end)| *end)
    }

    /// Receives a piece. Returns when its first byte was printed.
    fn receive(&mut self, bytes: u64) -> Option<Time> {
        let first = self.printed.partition_point(|(_, end)| *end <= self.received);
        self.received += bytes;
        self.printed.get(first).map(|(at, _)| *at)
    }
}

/// A process that waits for its turn.
struct Waiting<'a> {
    since: Time,
    /// When the user received later pieces of each other process.
    later: BTreeMap<&'a str, Vec<Time>>,
}

impl<'a> Waiting<'a> {
    /// Returns a process of which too many later pieces came before this time, and their number.
    fn overtaken_by(&self, now: Time) -> Option<(&'a str, usize)> {
        let before = |times: &Vec<Time>| times.iter().filter(|at| **at < now).count();
        let mut counts = self.later.iter().map(|(other, times)| (*other, before(times)));
        counts.find(|(_, count)| *count > MOST)
    }

    fn violation(&self, process: &str, now: Time) -> Option<Violation> {
        let (other, count) = self.overtaken_by(now)?;
        let data = fields! { since: self.since, count, other };
        Some(Violation::new("turns_are_fair", process, now, &OVERTAKEN, data))
    }
}

/// A process.
#[derive(Default)]
struct Turns<'a> {
    /// The host whose user follows it at once and without a pause.
    follower: Option<&'a str>,
    outputs: BTreeMap<&'a str, Output>,
    waiting: Option<Waiting<'a>>,
}

impl Turns<'_> {
    /// Whether its user has received all that it has printed.
    fn is_received(&self) -> bool {
        self.outputs.values().all(|output| output.received >= output.length())
    }

    /// Whether it is not held, even if its user consumes nothing. Each of two streams needs room for one more
    /// chunk.
    fn fits(&self, window: FlowWindow) -> bool {
        let items: usize = self.outputs.values().map(|output| output.printed.len()).sum();
        let bytes: u64 = self.outputs.values().map(Output::length).sum();
        // A long item may have several pieces.
        let pieces = items as u64 + bytes / (CHUNK as u64 / 2) + 2;
        pieces <= window.window_chunks && bytes + 2 * CHUNK as u64 <= window.window_bytes
    }

    /// Begins to wait if its user had received everything before.
    fn begin(&mut self, was_received: bool, window: FlowWindow, now: Time) {
        let is_judged = was_received && self.follower.is_some() && self.fits(window);
        if is_judged && self.waiting.is_none() {
            self.waiting = Some(Waiting { since: now, later: BTreeMap::new() });
        }
    }
}

/// The processes of all users.
struct Followed<'a> {
    window: FlowWindow,
    asked: BTreeMap<Call, &'a Operation>,
    /// The hosts that are not judged, or no more.
    left_out: BTreeSet<&'a str>,
    processes: BTreeMap<&'a str, Turns<'a>>,
}

impl<'a> Followed<'a> {
    fn pass(&mut self, cx: &CheckContext<'a>, event: &'a Event) -> Vec<Violation> {
        let now = event.at;
        match &event.what {
            EventKind::Asked { call, operation, .. } => drop(self.asked.insert(*call, operation)),
            EventKind::Opened { stream, call }
                if !self.left_out.contains(host(event))
                    && self.asked.get(call).is_some_and(|asked| is_plain_start(asked)) =>
            {
                let process = self.processes.entry(cx.guarantees.whole(stream)).or_default();
                process.follower = Some(host(event));
            }
            EventKind::Produced { stream, bytes } => {
                let process = self.processes.entry(cx.guarantees.whole(stream)).or_default();
                let was_received = process.is_received();
                let output = process.outputs.entry(&stream.0).or_default();
                let end = output.length() + bytes.len() as u64;
                output.printed.push((now, end));
                process.begin(was_received, self.window, now);
            }
            EventKind::Ended { stream, .. } => {
                if let Some(process) = self.processes.get_mut(&*stream.0) {
                    process.begin(process.is_received(), self.window, now);
                }
            }
            EventKind::Delivered { stream, bytes, .. } => {
                let record = cx.guarantees.whole(stream);
                let process = self.processes.entry(record).or_default();
                let output = process.outputs.entry(&stream.0).or_default();
                let printed = output.receive(bytes.len() as u64);
                let mut found = self.came(cx, record, now);
                found.extend(self.overtakes(record, printed, now));
                return found;
            }
            EventKind::Observed { stream, saw }
                if matches!(saw.downcast_ref(), Some(ExecObservation::ExitAt(_))) =>
            {
                return self.came(cx, cx.guarantees.whole(stream), now);
            }
            EventKind::StreamEnded { stream, .. }
            | EventKind::GaveUp { stream: Some(stream), .. } => {
                if let Some(process) = self.processes.get_mut(cx.guarantees.whole(stream)) {
                    (process.follower, process.waiting) = (None, None);
                }
            }
            EventKind::GaveUp { stream: None, .. }
            | EventKind::Milestone { name: "exec.client.lost", .. } => self.leave_out(host(event)),
            _ => {}
        }
        Vec::new()
    }

    /// Judges a process whose event has come.
    fn came(&mut self, cx: &CheckContext<'a>, record: &str, now: Time) -> Vec<Violation> {
        let Some(process) = self.processes.get_mut(record) else { return Vec::new() };
        let (Some(waiting), of) = (process.waiting.take(), process.follower) else {
            return Vec::new();
        };
        let is_contended = self
            .processes
            .iter()
            .any(|(other, turns)| *other != record && turns.follower == of && !turns.is_received());
        if is_contended {
            cx.judges("turns_are_fair");
        }
        waiting.violation(record, now).into_iter().collect()
    }

    /// Notes a piece of a process that comes while other processes wait, and judges these.
    fn overtakes(&mut self, record: &'a str, printed: Option<Time>, now: Time) -> Vec<Violation> {
        let of = self.processes.get(record).and_then(|process| process.follower);
        let mut found = Vec::new();
        let others = self
            .processes
            .iter_mut()
            .filter(|(other, turns)| **other != record && turns.follower == of && of.is_some());
        for (other, turns) in others {
            let Some(waiting) = &mut turns.waiting else { continue };
            if printed.is_some_and(|printed| printed > waiting.since) {
                waiting.later.entry(record).or_default().push(now);
            }
            if let Some(violation) = waiting.violation(other, now) {
                found.push(violation);
                turns.waiting = None;
            }
        }
        found
    }

    fn leave_out(&mut self, host: &'a str) {
        self.left_out.insert(host);
        let own = self.processes.values_mut().filter(|process| process.follower == Some(host));
        own.for_each(|process| (process.follower, process.waiting) = (None, None));
    }
}

/// Whether a call is a start whose user follows the process at once and without a pause.
fn is_plain_start(asked: &Operation) -> bool {
    asked.verb == "start" && asked.pauses().is_none() && asked.looks_after().is_zero()
}

/// Returns the hosts that read the events of a process again.
fn with_further_readers<'a>(cx: &CheckContext<'a>) -> BTreeSet<&'a str> {
    let again = judged(cx).filter(|event| match &event.what {
        EventKind::Asked { operation, .. } => {
            matches!(operation.verb.as_str(), "read-events" | "read-stream" | "write-stream")
        }
        _ => false,
    });
    again.map(host).collect()
}

/// Whether the server may do something late from now on.
fn disturbs(event: &Event) -> bool {
    match &event.what {
        EventKind::Died { .. } => true,
        EventKind::FaultBegan { what, nature, .. } => {
            !is_of_the_network(what) && *nature != Nature::Harmless
        }
        _ => false,
    }
}

/// See the module.
pub(super) fn turns_are_fair(cx: &CheckContext<'_>) -> Vec<Violation> {
    let limits = cx.limits;
    let window = server_limits(limits).flow_window(client_limits(limits).flow_window());
    let Some(window) = window.filter(|_| cx.is_honest()) else { return Vec::new() };
    let mut followed = Followed {
        window,
        asked: BTreeMap::new(),
        left_out: with_further_readers(cx),
        processes: BTreeMap::new(),
    };
    let calm = judged(cx).take_while(|event| !disturbs(event));
    let mut found: Vec<_> = calm.flat_map(|event| followed.pass(cx, event)).collect();
    found.truncate(5);
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{milestone, started, started_as, violations};
    use super::*;
    use crate::history::Class;
    use crate::property::scripted::ScriptedRun;

    /// Two processes of one user: `p1` has printed a line at 1 s, which has arrived, and prints another one at
    /// 2 s. `p2` prints this many lines from then on, which arrive after each other from 3 s on.
    fn beside(started: ScriptedRun, others: u64) -> ScriptedRun {
        let opened = EventKind::Opened { stream: "p2".into(), call: Call(2) };
        let own = r#"{"process":"p2"}"#;
        let run = started.asked_as(2, 200, Class::InFlight, "start", own).user(220, opened);
        let run = run.delivered("p1/stdout", 1_100, "a").produced("p1/stdout", 2_000, "b");
        (0..others).fold(run, |run, n| {
            let run = run.produced("p2/stdout", 2_001 + n, "x");
            run.delivered("p2/stdout", 3_000 + n, "x")
        })
    }

    fn found(run: &ScriptedRun) -> Vec<String> {
        violations(run, turns_are_fair)
    }

    #[test]
    fn later_pieces_of_another_process_do_not_come_before() {
        let arrives = |others, ms| beside(started(), others).delivered("p1/stdout", ms, "b");
        assert_eq!(
            found(&arrives(5, 4_000)),
            [
                "p1: its user was to receive what it did at 2.000 s, but 5 later pieces of p2 came before (at 4.000 s)"
            ]
        );
        assert_eq!(found(&arrives(5, 3_004)), [""; 0], "the last piece came at the same time");
        assert_eq!(found(&arrives(4, 4_000)), [""; 0]);
        assert_eq!(found(&beside(started(), 9)).len(), 1, "it has not come");
    }

    #[test]
    fn pieces_that_were_printed_before_may_come_before() {
        let early = (0..9).fold(started(), |run, n| run.produced("p2/stdout", 1_500 + n, "x"));
        assert_eq!(found(&beside(early, 9)), [""; 0]);
    }

    #[test]
    fn an_exit_has_its_turn() {
        let exited = beside(started(), 0).delivered("p1/stdout", 2_050, "b");
        let exited = exited.ended("p1", 2_100, crate::history::ProcessOutcome::Exit(0));
        let run = (0..9).fold(exited, |run, n| {
            let run = run.produced("p2/stdout", 2_101 + n, "x");
            run.delivered("p2/stdout", 3_000 + n, "x")
        });
        assert_eq!(found(&run).len(), 1);
        let saw = ExecObservation::ExitAt(3).into();
        let seen = run.user(3_002, EventKind::Observed { stream: "p1".into(), saw });
        assert_eq!(found(&seen), [""; 0]);
    }

    #[test]
    fn slow_users_later_connections_and_faults_of_hosts_are_not_judged() {
        let slow = started_as(r#"{"process":"p1","looks-after":"1ms"}"#);
        assert_eq!(found(&beside(slow, 9)), [""; 0]);
        let lost = milestone(started(), 1_000, "exec.client.lost", &[("conn", "1")]);
        assert_eq!(found(&beside(lost, 9)), [""; 0]);
        assert_eq!(found(&beside(started().slows(1_000, 9_000), 9)), [""; 0]);
        assert_eq!(found(&beside(started().kills(1_000, 1_500), 9)).len(), 1, "of the network");
        let again =
            started().asked_as(3, 900, Class::Durable, "read-events", r#"{"process":"p1"}"#);
        assert_eq!(found(&beside(again, 9)), [""; 0]);
    }
}
