//! How a call came back with a result.

use std::fmt;

use serde::Serialize;

use super::Data;

/// The answer to a call.
#[derive(Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It was done: its effect, if it has one, has taken place or certainly will.
    Done(Data),
    /// It was refused, for this reason, as the protocol owes it: it has no effect. A client that failed for good may refuse, too.
    Refused(Data),
    /// It was accepted, and its target may be gone before it takes effect.
    Queued(Data),
    /// Its user did not wait for it any longer.
    GivenUp,
}

impl Answer {
    /// A refusal for this reason.
    pub fn refused(why: impl Into<Data>) -> Self {
        Self::Refused(why.into())
    }

    /// An acceptance of what may not take effect.
    pub fn queued(what: impl Into<Data>) -> Self {
        Self::Queued(what.into())
    }

    /// Whether it says that the effect has taken place or certainly will.
    pub fn acknowledges(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// Whether it is a refusal.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Whether it shows that whoever answered was alive.
    pub fn shows_life(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Queued(_))
    }

    /// The value with which it was done, if it is of this type.
    pub fn done<T: 'static>(&self) -> Option<&T> {
        match self {
            Self::Done(data) => data.downcast_ref(),
            _ => None,
        }
    }

    /// The reason for which it was refused, if it is of this type.
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
            Self::Queued(what) => write!(f, "queued: {what}"),
            Self::GivenUp => f.write_str("queued: given up"),
        }
    }
}

/// As it is shown, in quotes.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// An error with a number, as JSON-RPC has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coded {
    /// The number of the error.
    pub code: i64,
    /// What a person reads.
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
