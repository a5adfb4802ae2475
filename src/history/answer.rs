//! The result of a call.

use std::fmt;

use serde::Serialize;

use super::Data;

/// The answer to a call.
#[derive(Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The call was done: its effect, if it has one, has taken place or certainly will.
    Done(Data),
    /// The call was refused for this reason, as the protocol requires, and has no effect. A client
    /// that failed permanently may also refuse calls.
    Refused(Data),
    /// The call was accepted, but its target may end before the call takes effect.
    Queued(Data),
    /// The user stopped waiting for the call.
    GivenUp,
}

impl Answer {
    /// Returns a refusal with this reason.
    pub fn refused(why: impl Into<Data>) -> Self {
        Self::Refused(why.into())
    }

    /// Returns an acceptance of a call that may not take effect.
    pub fn queued(what: impl Into<Data>) -> Self {
        Self::Queued(what.into())
    }

    /// Whether the answer confirms that the effect has taken place or certainly will.
    pub fn acknowledges(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// Whether the answer is a refusal.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Whether the answer proves that its sender was alive.
    pub fn shows_life(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Queued(_))
    }

    /// Returns the value of [`Answer::Done`], if it is of this type.
    pub fn done<T: 'static>(&self) -> Option<&T> {
        match self {
            Self::Done(data) => data.downcast_ref(),
            _ => None,
        }
    }

    /// Returns the reason of [`Answer::Refused`], if it is of this type.
    pub fn refusal<T: 'static>(&self) -> Option<&T> {
        match self {
            Self::Refused(why) => why.downcast_ref(),
            _ => None,
        }
    }
}

impl<T: Into<Data>> From<T> for Answer {
    fn from(done: T) -> Self {
        Self::Done(done.into())
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(data) => data.fmt(f),
            Self::Refused(why) => match why.downcast_ref::<Coded>() {
                Some(Coded { code, message }) => write!(f, "refused ({code}): {message}"),
                None => write!(f, "refused: {why}"),
            },
            Self::Queued(what) => {
                f.write_str("queued: ")?;
                what.fmt(f)
            }
            Self::GivenUp => f.write_str("queued: given up"),
        }
    }
}

/// Formats the displayed text in quotes.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// An error with a code, as in JSON-RPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coded {
    /// The error code.
    pub code: i64,
    /// The message for a person.
    pub message: String,
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_begins_with_refused_or_queued_is_an_acknowledgement() {
        for text in ["refused", "refused: no such counter", "queued", "queued: given up"] {
            let answer = Answer::from(text);
            assert_eq!(answer.to_string(), text);
            assert!(answer.acknowledges() && answer.shows_life() && !answer.is_refusal(), "{text}");
        }
    }

    #[test]
    fn an_answer_is_shown_with_its_kind() {
        let coded = Coded { code: -32003, message: "there is one".into() };
        let answers = [
            Answer::refused("no"),
            Answer::refused(Data::of(coded)),
            Answer::queued("accepted"),
            Answer::GivenUp,
        ];
        let shown = answers.each_ref().map(ToString::to_string);
        assert_eq!(
            shown,
            [
                "refused: no",
                "refused (-32003): there is one",
                "queued: accepted",
                "queued: given up"
            ]
        );
        assert!(answers.iter().all(|answer| !answer.acknowledges()));
        assert_eq!(answers.each_ref().map(Answer::is_refusal), [true, true, false, false]);
        assert_eq!(answers.each_ref().map(Answer::shows_life), [false, false, true, false]);
    }
}
