//! How streams and calls ended for their users, and how they must.

use bytes::BufMut;

use super::{CallEnds, ExpectCall, ExpectStream, Output, StreamEnds, broken};
use crate::history::{Call, Connection, Data, Ending, History, Stream, Time, What};
use crate::property::Broken;
use crate::schedule::{Host, units};

impl ExpectStream {
    /// What did not come out of this stream.
    pub(super) fn unmet(&self, stream: &Stream, history: &History) -> Vec<Broken> {
        let seen = SeenStream::of(stream, history);
        if !seen.opened {
            return vec![seen.unmet("it was never opened", history)];
        }
        let sentences =
            [self.ends_unmet(&seen), self.output_unmet(&seen), self.within_unmet(&seen), self.live_unmet(&seen, history)];
        sentences.into_iter().flatten().map(|sentence| seen.unmet(sentence, history)).collect()
    }

    pub(super) fn ends_unmet(&self, seen: &SeenStream<'_>) -> Option<String> {
        let told = seen.told();
        let (ends, outcome, reason) = match seen.ended {
            None => (StreamEnds::Open, None, None),
            Some((_, Ending::Completed { outcome })) => (StreamEnds::Completed, Some(outcome.to_string()), None),
            Some((_, Ending::Failed { reason })) => (StreamEnds::Failed, None, Some(reason)),
        };
        let wanted = match self.ends {
            Some(StreamEnds::Completed) => "it must complete",
            Some(StreamEnds::Failed) => "it must fail",
            Some(StreamEnds::Open) => "it must stay open",
            None => "",
        };
        if self.ends.is_some_and(|wanted| wanted != ends) {
            return Some(format!("{wanted}, but {told}"));
        }
        wrong_text(&self.outcome, outcome, &self.reason, reason).map(|wanted| format!("{told}, and must {wanted}"))
    }

    pub(super) fn output_unmet(&self, seen: &SeenStream<'_>) -> Option<String> {
        let (produced, delivered) = (&seen.produced, &seen.delivered);
        let figures = format!("{} of {} bytes were delivered", delivered.len(), produced.len());
        match self.output? {
            Output::All if delivered == produced => None,
            Output::All if delivered.len() == produced.len() => Some("what was delivered is not what was produced".into()),
            Output::All => Some(format!("{figures}, and all must be")),
            Output::Prefix if produced.starts_with(delivered) => None,
            Output::Prefix => Some("what was delivered is not the beginning of what was produced".into()),
            Output::None if delivered.is_empty() => None,
            Output::None => Some(format!("{figures}, and none may be")),
        }
    }

    pub(super) fn within_unmet(&self, seen: &SeenStream<'_>) -> Option<String> {
        let within = self.within?;
        let limit = units::duration(within);
        match (seen.really_ended, seen.ended) {
            (_, None) => Some(format!("it is still open, and must end within {limit} of its real end")),
            (None, Some(_)) => Some(format!("it has no real end, and must end within {limit} of it")),
            (Some(real), Some((at, _))) if at.since(real) > within => Some(format!(
                "it ended at {at}, {} after its real end at {real}; {limit} are allowed",
                units::duration(at.since(real))
            )),
            _ => None,
        }
    }

    pub(super) fn live_unmet(&self, seen: &SeenStream<'_>, history: &History) -> Option<String> {
        let from = self.live_from?;
        let client = seen.client.as_ref()?;
        let carries = |conn: &&Connection| conn.client == *client && conn.generation.is_some_and(|generation| generation >= from);
        let unmet = || Some(format!("nothing was delivered live over generation {from} or a later one"));
        let Some(connected) = history.conns.iter().filter(carries).map(|conn| conn.opened).min() else { return unmet() };
        let mut delivered = 0;
        let live = history.of_stream(seen.stream).any(|(_, event)| {
            let What::Delivered { bytes, generation, .. } = &event.what else { return false };
            delivered += bytes.len();
            generation.is_some_and(|generation| generation >= from) && seen.produced_at(delivered) >= Some(connected)
        });
        if live { None } else { unmet() }
    }
}

/// What a history says of a stream.
#[derive(Clone)]
pub(super) struct SeenStream<'h> {
    pub(super) stream: &'h Stream,
    pub(super) opened: bool,
    /// The host whose user it was delivered to.
    client: Option<Host>,
    pub(super) produced: Vec<u8>,
    /// When each item was produced, by the number of bytes up to its end.
    items: Vec<(usize, Time)>,
    pub(super) really_ended: Option<Time>,
    delivered: Vec<u8>,
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
            ended: None,
        };
        for (_, event) in history.of_stream(stream) {
            match &event.what {
                What::Opened { .. } => {
                    seen.opened = true;
                    seen.client = event.host.clone();
                }
                What::Produced { bytes, .. } => {
                    seen.produced.put(bytes.reading());
                    seen.items.push((seen.produced.len(), event.at));
                }
                What::Ended { .. } => seen.really_ended = seen.really_ended.or(Some(event.at)),
                What::Delivered { bytes, .. } => seen.delivered.put(bytes.reading()),
                What::StreamEnded { ending, .. } => seen.ended = seen.ended.or(Some((event.at, ending))),
                _ => {}
            }
        }
        seen
    }

    /// How it ended for its user, for a sentence.
    pub(super) fn told(&self) -> String {
        match self.ended {
            None => "it is still open".into(),
            Some((at, Ending::Completed { outcome })) => format!("it completed at {at} with `{outcome}`"),
            Some((at, Ending::Failed { reason })) => format!("it failed at {at}: {reason}"),
        }
    }

    /// Something that did not come out of it.
    pub(super) fn unmet(&self, sentence: impl std::fmt::Display, history: &History) -> Broken {
        let at = self.ended.map_or(history.end, |(at, _)| at);
        broken(at, Some(self.stream), format!("{}: {sentence}", self.stream))
    }

    /// When the byte was produced that is the n-th, from 1.
    fn produced_at(&self, n: usize) -> Option<Time> {
        self.items.iter().find(|(end, _)| *end >= n).map(|(_, at)| *at)
    }
}

impl ExpectCall {
    /// What did not come of this call.
    pub(super) fn unmet(&self, call: Call, history: &History) -> Vec<Broken> {
        let about = |what: &What| match what {
            What::Asked { call, .. } | What::Answered { call, .. } | What::Failed { call, .. } => Some(*call),
            _ => None,
        };
        let mut events = history.events.iter().filter(|event| about(&event.what) == Some(call)).peekable();
        if events.peek().is_none() {
            return vec![broken(history.end, None, format!("{call}: it was never asked for"))];
        }
        let ended = events.find(|event| !matches!(event.what, What::Asked { .. }));
        let (ends, result, reason, told) = match ended.map(|event| (event.at, &event.what)) {
            Some((at, What::Answered { answer, .. })) => {
                (CallEnds::Answered, Some(answer.to_string()), None, format!("it was answered at {at} with `{answer}`"))
            }
            Some((at, What::Failed { reason, .. })) => {
                (CallEnds::Failed, None, Some(reason), format!("it failed at {at}: {reason}"))
            }
            _ => (CallEnds::Open, None, None, "it is still open".into()),
        };
        let wanted = match self.ends {
            Some(CallEnds::Answered) => "it must be answered",
            Some(CallEnds::Failed) => "it must fail",
            Some(CallEnds::Open) => "it must stay open",
            None => "",
        };
        let sentence = if self.ends.is_some_and(|wanted| wanted != ends) {
            Some(format!("{wanted}, but {told}"))
        } else {
            wrong_text(&self.result, result, &self.reason, reason).map(|wanted| format!("{told}, and must {wanted}"))
        };
        let at = ended.map_or(history.end, |event| event.at);
        sentence.map(|sentence| broken(at, None, format!("{call}: {sentence}"))).into_iter().collect()
    }
}

/// What an ending must do that it does not: have exactly this text, or a reason that contains this one.
fn wrong_text(exact: &Option<String>, is: Option<String>, contained: &Option<String>, reason: Option<&Data>) -> Option<String> {
    if let Some(exact) = exact.as_ref().filter(|exact| is.as_ref() != Some(exact)) {
        return Some(format!("end with `{exact}`"));
    }
    let contained =
        contained.as_ref().filter(|contained| !reason.is_some_and(|reason| reason.to_string().contains(contained.as_str())))?;
    Some(format!("fail with a reason that contains `{contained}`"))
}
