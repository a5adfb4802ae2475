//! The expectations for a process: for the process itself and for all its parts.
//!
//! The process `p1` is the stream `p1`, whose outcome is `exit 7` or `signal 9`. Its output streams
//! `p1/stdout`, `p1/stderr` and `p1/pty` are its parts; their outcome is `closed`. The subject's
//! guarantees define the parts of a stream
//! ([`Guarantees::whole`](crate::property::Guarantees::whole)). The input of a process is not a
//! part. Each stream is judged as an [`ExpectStream`]; this module only combines them.
//!
//! Streams that the user did not open are not judged. At least one stream of the process must have
//! been opened.

use std::collections::BTreeSet;
use std::fmt;

use super::ends::{SeenStream, Unmet, says_otherwise};
use super::{ExpectProcess, ExpectStream, ExpectedOutput, ProcessExit, StreamEnds};
use crate::history::{Data, Ending, History, ProcessOutcome, Stream, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Phrase, Violation, ViolationFields};

kinds! {
    NO_PART = "no-part": "{subject:}no part of it was opened, but all its output must be delivered";
    STILL_RUNS = "still-runs": "{subject:}it did not really end, but must end between {earliest} and {latest}";
    OTHER_TIME = "other-time": "{subject:}it really ended at {real}, but must end between {earliest} and {latest}";
}

// A part of a sentence: the expected exit of a process.
kinds! {
    EXIT = "exit": "end with {exit}";
}

impl ExpectProcess {
    /// Returns the expectations that this process did not meet.
    pub(super) fn unmet(&self, name: &str, cx: &CheckContext<'_>) -> Vec<Violation> {
        let (whole, history) = (Stream::from(name), cx.history);
        let seen = SeenProcess::of(&whole, cx);
        if seen.opened().next().is_none() || self.exit.is_some() && !seen.whole.opened {
            return vec![seen.whole.never_opened(history)];
        }
        let each = seen.opened().flat_map(|stream| {
            let all = [self.ends_unmet(stream, &whole), self.as_stream().output_unmet(stream)];
            all.into_iter().flatten().map(|unmet| stream.unmet(unmet, history))
        });
        let together = [
            self.nothing_opened(&seen),
            self.within_unmet(&seen),
            self.live_unmet(&seen, history),
            self.really_ends_unmet(&seen),
        ];
        each.chain(together.into_iter().flatten().map(|unmet| seen.whole.unmet(unmet, history)))
            .collect()
    }

    /// Returns the expectations for each of its streams, without the outcome.
    fn as_stream(&self) -> ExpectStream {
        let Self { ends, reason, output, within, live_from, .. } = self.clone();
        ExpectStream { ends, reason, output, within, live_from, ..ExpectStream::default() }
    }

    fn ends_unmet(&self, stream: &SeenStream<'_>, whole: &Stream) -> Unmet {
        if stream.stream == whole {
            return self.as_stream().ends_unmet(stream).or_else(|| self.exit_unmet(stream));
        }
        let outcome =
            (self.ends == Some(StreamEnds::Completed)).then(|| ProcessOutcome::Closed.to_string());
        ExpectStream { outcome, ..self.as_stream() }.ends_unmet(stream)
    }

    fn exit_unmet(&self, whole: &SeenStream<'_>) -> Unmet {
        let exit = self.exit?;
        let fits =
            matches!(whole.ended, Some((_, Ending::Completed { outcome })) if exit.is(outcome));
        (!fits).then(|| {
            says_otherwise(whole.came(), Phrase::new(&EXIT, fields! { exit: exit.to_string() }))
        })
    }

    /// Checks that a part was opened if all output must be delivered. Otherwise, with no open part,
    /// that expectation would always hold.
    fn nothing_opened(&self, seen: &SeenProcess<'_>) -> Unmet {
        let opened = seen.parts.iter().any(|part| part.opened);
        let printed = seen.parts.iter().any(|part| !part.produced.is_empty());
        let missed = self.output == Some(ExpectedOutput::All) && printed && !opened;
        missed.then(|| (&NO_PART, ViolationFields::default()))
    }

    fn within_unmet(&self, seen: &SeenProcess<'_>) -> Unmet {
        self.as_stream().within_unmet(&seen.together())
    }

    fn really_ends_unmet(&self, seen: &SeenProcess<'_>) -> Unmet {
        let (earliest, latest) =
            self.really_ends.map(|(from, to)| (Time::from(from), Time::from(to)))?;
        match seen.whole.really_ended {
            None => Some((&STILL_RUNS, fields! { earliest, latest })),
            Some(real) if !(earliest..=latest).contains(&real) => {
                Some((&OTHER_TIME, fields! { real, earliest, latest }))
            }
            Some(_) => None,
        }
    }

    /// One part with live delivery is sufficient, because the others may have no output.
    fn live_unmet(&self, seen: &SeenProcess<'_>, history: &History) -> Unmet {
        let each = seen.opened().map(|stream| self.as_stream().live_unmet(stream, history));
        each.collect::<Option<Vec<_>>>()?.into_iter().next()
    }
}

impl ProcessExit {
    fn is(self, outcome: &Data) -> bool {
        match (self, outcome.downcast_ref()) {
            (ProcessExit::Code(code), Some(ProcessOutcome::Exit(exit))) => i32::from(code) == *exit,
            (ProcessExit::Signal, Some(ProcessOutcome::Signal(_))) => true,
            _ => false,
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessExit::Code(code) => write!(f, "`exit {code}`"),
            ProcessExit::Signal => f.write_str("a signal"),
        }
    }
}

/// The record of a process in a history.
struct SeenProcess<'h> {
    whole: SeenStream<'h>,
    /// The parts that appear in the history.
    parts: Vec<SeenStream<'h>>,
}

impl<'h> SeenProcess<'h> {
    fn of(whole: &'h Stream, cx: &CheckContext<'h>) -> Self {
        let history = cx.history;
        let streams = history.events.iter().filter_map(|event| event.what.stream());
        let parts: BTreeSet<_> = streams
            .filter(|stream| *stream != whole && cx.guarantees.whole(stream) == &*whole.0)
            .collect();
        let parts = parts.into_iter().map(|part| SeenStream::of(part, history)).collect();
        Self { whole: SeenStream::of(whole, history), parts }
    }

    /// Returns the streams that the user opened.
    fn opened(&self) -> impl Iterator<Item = &SeenStream<'h>> {
        std::iter::once(&self.whole).chain(&self.parts).filter(|stream| stream.opened)
    }

    /// Returns all streams as one stream, which ends with the last of them.
    fn together(&self) -> SeenStream<'h> {
        let ended = self.opened().map(|stream| stream.ended).collect::<Option<Vec<_>>>();
        let last = ended.into_iter().flatten().max_by_key(|(at, _)| *at);
        let mut together = self.whole.clone();
        (together.really_ended, together.ended) = (self.really_ended(), last);
        together
    }

    /// Returns the time at which the process had ended and every holder of its pipes had closed
    /// them.
    fn really_ended(&self) -> Option<Time> {
        let pipes = self
            .parts
            .iter()
            .filter(|part| part.really_ended.is_some() || !part.produced.is_empty());
        pipes
            .map(|pipe| pipe.really_ended)
            .try_fold(self.whole.really_ended?, |last, end| Some(last.max(end?)))
    }
}
