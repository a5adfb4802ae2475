//! The actual and the expected ends of streams and calls.

use std::time::Duration;

use bytes::BufMut;

use super::{CallEnds, ExpectCall, ExpectStream, ExpectedOutput, StreamEnds, unmet};
use crate::history::{Call, Connection, Data, Ending, EventKind, History, Stream, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Phrase, Violation, ViolationFields, ViolationKind};
use crate::schedule::Host;

kinds! {
    NEVER_OPENED = "never-opened": "{subject:}it was never opened";
    NEVER_ASKED = "never-asked": "{subject:}it was never requested";
    ENDS_OTHERWISE = "ends-otherwise": "{subject:}{wanted}, but {came}";
    SAYS_OTHERWISE = "says-otherwise": "{subject:}{came}, and must {wanted}";
    OTHER_OUTPUT = "other-output": "{subject:}the delivered data differs from the produced data";
    NOT_ALL = "not-all": "{subject:}{delivered} of {produced} bytes were delivered, but all must be";
    NO_PREFIX = "no-prefix": "{subject:}the delivered data is not a prefix of the produced data";
    NOT_NONE = "not-none": "{subject:}{delivered} of {produced} bytes were delivered, but none may be";
    STILL_OPEN = "still-open": "{subject:}it is still open, but must end within {limit} of its real end";
    NO_REAL_END = "no-real-end": "{subject:}it has no real end, but must end within {limit} of it";
    TOO_LATE = "too-late": "{subject:}it ended at {ended}, {after} after its real end at {real}; the limit is {limit}";
    OTHER_DURATION = "other-duration": "{subject:}it ended after {took}, but must end after {shortest} to {longest}";
    UNSAID = "unsaid": "{subject:}the delivered data must contain `{said}`, but is `{delivered}`";
    UNSEEN = "unseen": "{subject:}its user must see `{text}`";
    NOT_LIVE = "not-live": "{subject:}nothing was delivered live over generation {from} or a later one";
}

// Parts of these sentences: the expected and the actual end.
kinds! {
    MUST_COMPLETE = "must-complete": "it must complete";
    MUST_BE_ANSWERED = "must-be-answered": "it must be answered";
    MUST_FAIL = "must-fail": "it must fail";
    MUST_STAY_OPEN = "must-stay-open": "it must stay open";
    EXACTLY = "exactly": "end with `{exact}`";
    CONTAINS = "contains": "fail with a reason that contains `{contained}`";
    SAYS = "says": "end with a result that contains `{said}`";
    OPEN = "open": "it is still open";
    COMPLETED = "completed": "it completed at {ended} with `{outcome}`";
    ANSWERED = "answered": "it was answered at {ended} with `{answer}`";
    FAILED = "failed": "it failed at {ended}: {reason}";
}

/// An unmet expectation, if there is one.
pub(super) type Unmet = Option<(&'static ViolationKind, ViolationFields)>;

impl ExpectStream {
    /// Returns the expectations that this stream did not meet.
    pub(super) fn unmet(&self, stream: &Stream, history: &History) -> Vec<Violation> {
        let seen = SeenStream::of(stream, history);
        if !seen.opened && (seen.observed.is_empty() || !self.only_shows()) {
            return vec![seen.never_opened(history)];
        }
        let all = [
            self.ends_unmet(&seen),
            self.output_unmet(&seen),
            self.says_unmet(&seen),
            self.within_unmet(&seen),
            self.live_unmet(&seen, history),
        ];
        let all = all.into_iter().flatten().chain(self.shows_unmet(&seen));
        all.map(|unmet| seen.unmet(unmet, history)).collect()
    }

    /// Returns whether it expects only observations. A user can make these without opening a stream.
    fn only_shows(&self) -> bool {
        let observations = Self { shows: self.shows.clone(), ..Self::default() };
        !self.shows.is_empty() && *self == observations
    }

    fn shows_unmet(&self, seen: &SeenStream<'_>) -> Unmet {
        let is_seen = |text: &&String| seen.observed.iter().any(|saw| saw.contains(text.as_str()));
        let text = self.shows.iter().find(|text| !is_seen(text))?;
        Some((&UNSEEN, fields! { text }))
    }

    pub(super) fn ends_unmet(&self, seen: &SeenStream<'_>) -> Unmet {
        let came = seen.came();
        let (ends, outcome, reason) = match seen.ended {
            None => (StreamEnds::Open, None, None),
            Some((_, Ending::Completed { outcome })) => {
                (StreamEnds::Completed, Some(outcome.to_string()), None)
            }
            Some((_, Ending::Failed { reason })) => (StreamEnds::Failed, None, Some(reason)),
        };
        if let Some(wanted) = self.ends.filter(|wanted| *wanted != ends) {
            let wanted = match wanted {
                StreamEnds::Completed => &MUST_COMPLETE,
                StreamEnds::Failed => &MUST_FAIL,
                StreamEnds::Open => &MUST_STAY_OPEN,
            };
            return Some((
                &ENDS_OTHERWISE,
                fields! { wanted: Phrase::new(wanted, ViolationFields::default()), came },
            ));
        }
        let wanted = wrong_text(&self.outcome, outcome, &self.reason, reason)?;
        Some(says_otherwise(came, wanted))
    }

    pub(super) fn output_unmet(&self, seen: &SeenStream<'_>) -> Unmet {
        let (produced, delivered) = (&seen.produced, &seen.delivered);
        let figures = || fields! { delivered: delivered.len(), produced: produced.len() };
        match self.output? {
            ExpectedOutput::All if delivered == produced => None,
            ExpectedOutput::All if delivered.len() == produced.len() => {
                Some((&OTHER_OUTPUT, ViolationFields::default()))
            }
            ExpectedOutput::All => Some((&NOT_ALL, figures())),
            ExpectedOutput::Prefix if produced.starts_with(delivered) => None,
            ExpectedOutput::Prefix => Some((&NO_PREFIX, ViolationFields::default())),
            ExpectedOutput::None if delivered.is_empty() => None,
            ExpectedOutput::None => Some((&NOT_NONE, figures())),
        }
    }

    fn says_unmet(&self, seen: &SeenStream<'_>) -> Unmet {
        let said = self.says.as_ref()?;
        let delivered = String::from_utf8_lossy(&seen.delivered).into_owned();
        let is_said = delivered.contains(said.as_str());
        (!is_said).then(|| (&UNSAID, fields! { said, delivered }))
    }

    pub(super) fn within_unmet(&self, seen: &SeenStream<'_>) -> Unmet {
        let limit = self.within?;
        match (seen.really_ended, seen.ended) {
            (_, None) => Some((&STILL_OPEN, fields! { limit })),
            (None, Some(_)) => Some((&NO_REAL_END, fields! { limit })),
            (Some(real), Some((ended, _))) if ended.since(real) > limit => {
                Some((&TOO_LATE, fields! { ended, after: ended.since(real), real, limit }))
            }
            _ => None,
        }
    }

    pub(super) fn live_unmet(&self, seen: &SeenStream<'_>, history: &History) -> Unmet {
        let from = self.live_from?;
        let client = seen.client.as_ref()?;
        let carries = |conn: &&Connection| {
            conn.client == *client && conn.generation.is_some_and(|generation| generation >= from)
        };
        let unmet = || Some((&NOT_LIVE, fields! { from }));
        let Some(connected) = history.conns.iter().filter(carries).map(|conn| conn.opened).min()
        else {
            return unmet();
        };
        let mut delivered = 0;
        let live = history.of_stream(seen.stream).any(|(_, event)| {
            let EventKind::Delivered { bytes, generation, .. } = &event.what else { return false };
            delivered += bytes.len();
            generation.is_some_and(|generation| generation >= from)
                && seen.produced_at(delivered) >= Some(connected)
        });
        if live { None } else { unmet() }
    }
}

/// The record of a stream in a history.
#[derive(Clone)]
pub(super) struct SeenStream<'h> {
    pub(super) stream: &'h Stream,
    pub(super) opened: bool,
    /// The host of the user that opened it.
    client: Option<Host>,
    pub(super) produced: Vec<u8>,
    /// The end of each item, in bytes, and the time at which it was produced.
    items: Vec<(usize, Time)>,
    pub(super) really_ended: Option<Time>,
    delivered: Vec<u8>,
    /// The observations of its user.
    observed: Vec<String>,
    pub(super) ended: Option<(Time, &'h Ending)>,
}

impl<'h> SeenStream<'h> {
    pub(super) fn of(stream: &'h Stream, history: &'h History) -> Self {
        let mut seen = Self {
            stream,
            opened: false,
            client: None,
            produced: vec![],
            items: vec![],
            really_ended: None,
            delivered: vec![],
            observed: vec![],
            ended: None,
        };
        for (_, event) in history.of_stream(stream) {
            match &event.what {
                EventKind::Opened { .. } => {
                    seen.opened = true;
                    seen.client = event.host.clone();
                }
                EventKind::Produced { bytes, .. } => {
                    seen.produced.put(bytes.reading());
                    seen.items.push((seen.produced.len(), event.at));
                }
                EventKind::Ended { .. } => seen.really_ended = seen.really_ended.or(Some(event.at)),
                EventKind::Delivered { bytes, .. } => seen.delivered.put(bytes.reading()),
                EventKind::Observed { saw, .. } => seen.observed.push(saw.to_string()),
                EventKind::StreamEnded { ending, .. } => {
                    seen.ended = seen.ended.or(Some((event.at, ending)))
                }
                _ => {}
            }
        }
        seen
    }

    /// Returns how the stream ended for its user.
    pub(super) fn came(&self) -> Phrase {
        match self.ended {
            None => Phrase::new(&OPEN, ViolationFields::default()),
            Some((ended, Ending::Completed { outcome })) => {
                Phrase::new(&COMPLETED, fields! { ended, outcome })
            }
            Some((ended, Ending::Failed { reason })) => {
                Phrase::new(&FAILED, fields! { ended, reason })
            }
        }
    }

    /// Returns an unmet expectation as a violation.
    pub(super) fn unmet(
        &self,
        (kind, data): (&'static ViolationKind, ViolationFields),
        history: &History,
    ) -> Violation {
        let at = self.ended.map_or(history.end, |(at, _)| at);
        unmet(self.stream, at, kind, data)
    }

    pub(super) fn never_opened(&self, history: &History) -> Violation {
        self.unmet((&NEVER_OPENED, ViolationFields::default()), history)
    }

    /// Returns the time at which the n-th byte, from 1, was produced.
    fn produced_at(&self, n: usize) -> Option<Time> {
        self.items.iter().find(|(end, _)| *end >= n).map(|(_, at)| *at)
    }
}

impl ExpectCall {
    /// Returns the expectations that this call did not meet.
    pub(super) fn unmet(&self, call: Call, history: &History) -> Vec<Violation> {
        let about = |what: &EventKind| match what {
            EventKind::Asked { call, .. }
            | EventKind::Answered { call, .. }
            | EventKind::Failed { call, .. } => Some(*call),
            _ => None,
        };
        let mut events =
            history.events.iter().filter(|event| about(&event.what) == Some(call)).peekable();
        let Some(asked) = events.peek().map(|event| event.at) else {
            return vec![unmet(call, history.end, &NEVER_ASKED, ViolationFields::default())];
        };
        let ended = events.find(|event| !matches!(event.what, EventKind::Asked { .. }));
        let (ends, result, reason, came) = match ended.map(|event| (event.at, &event.what)) {
            Some((ended, EventKind::Answered { answer, .. })) => {
                let came = Phrase::new(&ANSWERED, fields! { ended, answer });
                (CallEnds::Answered, Some(answer.to_string()), None, came)
            }
            Some((ended, EventKind::Failed { reason, .. })) => (
                CallEnds::Failed,
                None,
                Some(reason),
                Phrase::new(&FAILED, fields! { ended, reason }),
            ),
            _ => (CallEnds::Open, None, None, Phrase::new(&OPEN, ViolationFields::default())),
        };
        let otherwise = if let Some(wanted) = self.ends.filter(|wanted| *wanted != ends) {
            let wanted = match wanted {
                CallEnds::Answered => &MUST_BE_ANSWERED,
                CallEnds::Failed => &MUST_FAIL,
                CallEnds::Open => &MUST_STAY_OPEN,
            };
            Some((
                &ENDS_OTHERWISE,
                fields! { wanted: Phrase::new(wanted, ViolationFields::default()), came },
            ))
        } else {
            let unsaid = self.unsaid(result.as_deref());
            wrong_text(&self.result, result, &self.reason, reason)
                .or(unsaid)
                .map(|wanted| says_otherwise(came, wanted))
        };
        let at = ended.map_or(history.end, |event| event.at);
        let all = [otherwise, self.takes_unmet(at.since(asked))];
        all.into_iter().flatten().map(|(kind, data)| unmet(call, at, kind, data)).collect()
    }

    /// Returns the expected text that the result does not contain.
    fn unsaid(&self, result: Option<&str>) -> Option<Phrase> {
        let said = self.says.as_ref()?;
        let is_said = result.is_some_and(|result| result.contains(said.as_str()));
        (!is_said).then(|| Phrase::new(&SAYS, fields! { said }))
    }

    fn takes_unmet(&self, took: Duration) -> Unmet {
        let (shortest, longest) = self.takes?;
        let data = fields! { took, shortest, longest };
        (!(shortest..=longest).contains(&took)).then_some((&OTHER_DURATION, data))
    }
}

/// Returns the mismatch of an outcome, result or reason.
pub(super) fn says_otherwise(
    came: Phrase,
    wanted: Phrase,
) -> (&'static ViolationKind, ViolationFields) {
    (&SAYS_OTHERWISE, fields! { came, wanted })
}

/// Returns the expected text that an end does not have: an exact outcome, or a part of the reason.
fn wrong_text(
    exact: &Option<String>,
    is: Option<String>,
    contained: &Option<String>,
    reason: Option<&Data>,
) -> Option<Phrase> {
    if let Some(exact) = exact.as_ref().filter(|exact| is.as_ref() != Some(exact)) {
        return Some(Phrase::new(&EXACTLY, fields! { exact }));
    }
    let contained = contained.as_ref().filter(|contained| {
        !reason.is_some_and(|reason| reason.to_string().contains(contained.as_str()))
    })?;
    Some(Phrase::new(&CONTAINS, fields! { contained }))
}
