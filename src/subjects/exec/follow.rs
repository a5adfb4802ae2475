//! Follows the events of a process to their end, and records them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use super::answers::{ExecFailure, ExecObservation};
use super::operations::ReadingPace;
use super::seen::Seen;
use crate::history::{Call, Data, Ending, ProcessOutcome, Stream};
use crate::subject::Recorder;
use reknit_exec::client::{Event, Events, Failure, Process};
use reknit_exec::wire::process::OutputStream;

/// The suffixes of the names of streams that are parts of a process.
pub(super) const PARTS: &[&str] = &["/stdout", "/stderr", "/pty"];

/// The names of a process and of its output streams in the history.
#[derive(Clone)]
pub(super) struct Parts {
    whole: Stream,
    output: Vec<(OutputStream, Stream)>,
    /// The output that the user has received.
    pub(super) seen: Seen,
    /// Whether the user subscribed to the events again.
    pub(super) again: Arc<AtomicBool>,
}

impl Parts {
    pub(super) fn new(name: &str, tty: bool) -> Self {
        let streams: &[OutputStream] =
            if tty { &[OutputStream::Pty] } else { &[OutputStream::Stdout, OutputStream::Stderr] };
        let part = |stream: &OutputStream| (*stream, part(name, *stream));
        Self {
            whole: Stream::from(name),
            output: streams.iter().map(part).collect(),
            seen: Seen::default(),
            again: Arc::default(),
        }
    }

    /// The process itself: it has an outcome, but no bytes.
    pub(super) fn whole(&self) -> &Stream {
        &self.whole
    }

    /// The standard output, or the terminal.
    pub(super) fn standard_output(&self) -> &Stream {
        &self.output[0].1
    }

    /// The process, and its output streams.
    pub(super) fn all(&self) -> impl Iterator<Item = &Stream> {
        std::iter::once(&self.whole).chain(self.output.iter().map(|(_, name)| name))
    }

    fn end(&self, record: &Recorder, ending: impl Fn(bool) -> Ending) {
        for part in self.all() {
            record.stream_ended(part, ending(*part == self.whole));
        }
    }
}

/// The name of an output stream of a process.
pub(super) fn part(name: &str, stream: OutputStream) -> Stream {
    Stream::from(format!("{name}/{}", stream.name()).as_str())
}

/// How a user follows a process.
#[derive(Clone, Copy)]
pub(super) struct FollowOptions {
    /// The call that started the process.
    pub(super) call: Call,
    /// The delay before the user subscribes to the events.
    pub(super) looks_after: Duration,
    /// How slowly the user reads them; `None`: at once.
    pub(super) reads: Option<ReadingPace>,
}

/// Records the events of a process up to the last one, and then queries its ending once more. `early`:
/// the subscription of a user that looks at once. It exists before the user can give the process up.
pub(super) async fn follow(
    process: Process,
    early: Option<Events>,
    parts: Parts,
    record: Recorder,
    manner: FollowOptions,
) {
    sleep(manner.looks_after).await;
    let mut events = early.unwrap_or_else(|| process.events());
    let (mut last, mut exit, mut unpaused) = (0, None, 0);
    while let Some(event) = events.next().await {
        let seq = match &event {
            Event::Output { seq, .. } | Event::Exited { seq, .. } | Event::Closed { seq, .. } => {
                Some(*seq)
            }
            Event::Failed(_) => None,
        };
        if let Some(seq) = seq {
            if seq != last + 1 {
                record.observed(&parts.whole, ExecObservation::Jump { event: seq, after: last });
            }
            last = seq;
        }
        match event {
            Event::Output { seq, stream, bytes, via } => {
                unpaused += bytes.len() as u64;
                parts.seen.put(seq, stream, &bytes);
                record.delivered(&part(&parts.whole.0, stream), bytes, Some(via.generation));
                if let Some(pace) = manner.reads.filter(|pace| unpaused >= pace.every.0) {
                    unpaused = 0;
                    sleep(pace.pause.0).await;
                }
            }
            Event::Exited { code, .. } if exit.is_some() => {
                record.observed(&parts.whole, ExecObservation::ExitAgain { code })
            }
            Event::Exited { code, seq, .. } => {
                record.observed(&parts.whole, ExecObservation::ExitAt(seq));
                exit = Some(code);
            }
            Event::Closed { .. } => {
                let outcome = exit.map_or_else(
                    || Data::from("closed without an exit event"),
                    |code| outcome(code).into(),
                );
                let closed = Data::from(ProcessOutcome::Closed);
                let ending = |whole| Ending::Completed {
                    outcome: if whole { &outcome } else { &closed }.clone(),
                };
                parts.end(&record, ending);
                if let Some(failure) = process.failure() {
                    parts.end(&record, |_| failed(&failure));
                }
            }
            Event::Failed(failure) => {
                if let Failure::Gap { next, .. } = failure
                    && next != last + 1
                {
                    record.observed(
                        &parts.whole,
                        ExecObservation::GapFrom { event: next, after: last },
                    );
                }
                // The user began too late: its other subscription had read what was kept.
                if failure == Failure::NotKept && last == 0 && parts.again.load(Ordering::Relaxed) {
                    parts.all().for_each(|part| record.gave_up(Some(part), manner.call));
                }
                parts.end(&record, |_| failed(&failure));
                // A subscription can fail alone, and the process later.
                let again = process.failure().filter(|_| failure != Failure::NotKept);
                parts.end(&record, |_| failed(again.as_ref().unwrap_or(&failure)));
            }
        }
    }
}

fn failed(failure: &Failure) -> Ending {
    Ending::Failed { reason: ExecFailure(failure.clone()).into() }
}

/// The outcome in the form in which the simulated process records it: on the wire, an end by a
/// signal is an exit code, as in shells.
fn outcome(code: i32) -> ProcessOutcome {
    match code.checked_sub(128) {
        Some(signal @ 1..=31) => ProcessOutcome::Signal(signal),
        _ => ProcessOutcome::Exit(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_above_128_is_a_signal() {
        assert_eq!(
            [7, 128, 137].map(outcome),
            [ProcessOutcome::Exit(7), ProcessOutcome::Exit(128), ProcessOutcome::Signal(9)]
        );
    }

    #[test]
    fn a_process_has_two_pipes_or_a_terminal() {
        let names = |tty| Parts::new("p1", tty).all().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(false), ["p1", "p1/stdout", "p1/stderr"]);
        assert_eq!(names(true), ["p1", "p1/pty"]);
    }
}
