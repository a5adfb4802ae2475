//! `in_sequence`: the order of the events that the user of a process receives.
//!
//! The exit follows the real end of the process and all that the process printed before: it is in its
//! pipes then, and the server reads them before it reports the exit. A fault of the pipes changes that.

use std::collections::{BTreeMap, BTreeSet};

use super::http;
use crate::history::{EventKind, Stream};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::{Fault, MilestoneValue};
use crate::subjects::exec::answers::ExecObservation;
use crate::subjects::judging::{judged, peers_may_lie};
use crate::subjects::records;

kinds! {
    pub(super) IN_SEQUENCE;
    OUT_OF_PLACE = "out-of-place": "{subject:}{saw} {moment}";
    STILL_RAN = "still-ran": "{subject:}{saw}, but the process still ran {moment}";
    BEFORE_OUTPUT = "before-output": "{subject:}{saw}, but its user had not received {missing} bytes that the process had printed before its end {moment}";
}

/// What the processes printed, and what their users received.
#[derive(Default)]
struct Output<'a> {
    /// The bytes that each process has printed.
    printed: BTreeMap<&'a str, usize>,
    /// The bytes that each process had printed at its end.
    owed: BTreeMap<&'a str, usize>,
    /// The bytes that the user of each process has received.
    received: BTreeMap<&'a str, usize>,
    /// Whether a fault delayed or closed pipes.
    has_faulty_pipes: bool,
}

impl<'a> Output<'a> {
    fn pass(&mut self, cx: &CheckContext<'a>, event: &'a EventKind) {
        let add = |counts: &mut BTreeMap<&'a str, usize>, stream: &'a Stream, bytes: usize| {
            *counts.entry(cx.guarantees.whole(stream)).or_default() += bytes;
        };
        match event {
            EventKind::Produced { stream, bytes } => add(&mut self.printed, stream, bytes.len()),
            EventKind::Delivered { stream, bytes, .. } => {
                add(&mut self.received, stream, bytes.len())
            }
            EventKind::Ended { stream, .. } => {
                let printed = self.printed.get(&*stream.0).copied().unwrap_or_default();
                self.owed.insert(&stream.0, printed);
            }
            EventKind::FaultBegan { what, .. } => {
                self.has_faulty_pipes |=
                    matches!(**what, Fault::ClosePipe { .. } | Fault::DelayOutput { .. });
            }
            _ => {}
        }
    }

    /// Returns how many bytes that a process had printed before its end its user has not received.
    fn missing(&self, process: &str) -> usize {
        let count =
            |counts: &BTreeMap<&str, usize>| counts.get(process).copied().unwrap_or_default();
        let missing = count(&self.owed).saturating_sub(count(&self.received));
        if self.has_faulty_pipes { 0 } else { missing }
    }
}

/// Every recorded observation is a violation, except an exit that follows the real end of the
/// process and its output, with the number that the server gave it.
pub(super) fn in_sequence(cx: &CheckContext<'_>) -> Vec<Violation> {
    let mut exits: BTreeSet<(String, u64)> = BTreeSet::new();
    let mut ended: BTreeSet<&Stream> = BTreeSet::new();
    let mut output = Output::default();
    let mut found = Vec::new();
    for event in judged(cx) {
        output.pass(cx, &event.what);
        match &event.what {
            EventKind::Milestone { name: "exec.process.exited", fields } => {
                exits.extend(exited(fields))
            }
            EventKind::Observed { stream, saw } if !http::is_of_a_request(saw) => {
                let place = match saw.downcast_ref() {
                    Some(ExecObservation::ExitAt(seq)) => Some(*seq),
                    _ => None,
                };
                if place.is_none() || !peers_may_lie(cx) {
                    cx.judges("in_sequence");
                }
                let in_place = place.is_some_and(|seq| {
                    exits.contains(&(records::declared(&stream.0).to_owned(), seq))
                });
                let missing = output.missing(&stream.0);
                let kind = match place {
                    Some(_) if peers_may_lie(cx) => None,
                    Some(_) if in_place && ended.contains(stream) && missing > 0 => {
                        Some(&BEFORE_OUTPUT)
                    }
                    Some(_) if in_place && ended.contains(stream) => None,
                    Some(_) if in_place => Some(&STILL_RAN),
                    _ => Some(&OUT_OF_PLACE),
                };
                let of_kind = |kind| {
                    let data = fields! { saw, missing };
                    Violation::new("in_sequence", stream, event.at, kind, data)
                };
                found.extend(kind.map(of_kind));
            }
            // The user itself compares the number of each event with the one before it.
            EventKind::Delivered { generation: Some(_), .. } => cx.judges("in_sequence"),
            EventKind::Ended { stream, .. } => drop(ended.insert(stream)),
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// The process that exited, and the number of its exit event, from the server's milestone.
fn exited(fields: &[(&'static str, MilestoneValue)]) -> Option<(String, u64)> {
    Some((
        MilestoneValue::text(fields, "process")?.to_owned(),
        MilestoneValue::number(fields, "seq")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{milestone, started, violations};
    use super::*;
    use crate::history::{Nature, ProcessOutcome};
    use crate::property::scripted::ScriptedRun;
    use crate::schedule::{Host, faults};

    /// The process exits at 2 s, and its user sees the exit at 3 s.
    fn exits(run: ScriptedRun) -> Vec<String> {
        let fields =
            [("process", MilestoneValue::Text("p1".into())), ("seq", MilestoneValue::Number(2))];
        let exited = EventKind::Milestone { name: "exec.process.exited", fields: fields.into() };
        let run = run.ended("p1", 2_000, ProcessOutcome::Exit(0)).entry(2_010, None, exited);
        let saw = ExecObservation::ExitAt(2).into();
        let run = run.user(3_000, EventKind::Observed { stream: "p1".into(), saw });
        violations(&run, in_sequence)
    }

    #[test]
    fn the_exit_follows_the_output() {
        assert_eq!(exits(started().delivered("p1/stdout", 3_000, "a")), [""; 0]);
        let before = [
            "p1: exit as event 2, but its user had not received 1 bytes that the process had printed before its end (at 3.000 s)",
        ];
        assert_eq!(exits(started()), before);
        assert_eq!(exits(started().delivered("p1/stdout", 3_001, "a")), before);
        let late = started().delivered("p1/stdout", 2_500, "a").produced("p1/stdout", 2_001, "b");
        assert_eq!(exits(late), [""; 0], "a child printed it");
        let input = started().delivered("p1/stdout", 2_500, "a").produced("p1/stdin", 1_500, "b");
        assert_eq!(exits(input), [""; 0], "it is no output");
        let errors = started().delivered("p1/stdout", 2_500, "a").produced("p1/stderr", 1_500, "b");
        assert_eq!(exits(errors).len(), 1);
    }

    #[test]
    fn a_faulty_pipe_or_a_puppet_excuses_an_early_exit() {
        let what = Fault::DelayOutput(faults::DelayOutput {
            host: Host::from("server"),
            by: std::time::Duration::from_secs(3),
            lasts: None,
        });
        assert_eq!(exits(started().fault(500, None, Nature::Slows, what)), [""; 0]);
        assert_eq!(exits(started().puppet("server")), [""; 0]);
        let other = milestone(started(), 500, "exec.client.lost", &[]);
        assert_eq!(exits(other).len(), 1);
    }
}
