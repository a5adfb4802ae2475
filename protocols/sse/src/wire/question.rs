//! The question for the age of a repeated start.
//!
//! A server may learn of a connection long after its client, and then the age in a request does not say
//! whether the server is older. So the server asks, and the client sends its age after it has read the
//! question. The client repeats the question in its request. So the server needs no memory of it, and
//! knows it again on another connection, too: a proxy may open one for each request.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Which run of a server asks, and when. Written `RUN-MILLISECONDS`, with the run in hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeQuestion {
    /// The random number of the run. Another server, or the same one after a restart, has another number.
    pub run: u64,
    /// The time from the beginning of the run to the question, in whole milliseconds.
    pub at: Duration,
}

/// The text is not a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a question is a hexadecimal number, then `-` and a number of milliseconds")]
pub struct MalformedQuestion;

impl fmt::Display for AgeQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}", self.run, self.at.as_millis())
    }
}

impl FromStr for AgeQuestion {
    type Err = MalformedQuestion;

    fn from_str(text: &str) -> Result<Self, MalformedQuestion> {
        let (run, at) = text.split_once('-').ok_or(MalformedQuestion)?;
        let run = u64::from_str_radix(run, 16).map_err(|_| MalformedQuestion)?;
        let at = at.parse().map(Duration::from_millis).map_err(|_| MalformedQuestion)?;
        Ok(Self { run, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_was_written() {
        let question = AgeQuestion { run: 0xfe, at: Duration::from_millis(1500) };
        assert_eq!(question.to_string(), "fe-1500");
        assert_eq!("fe-1500".parse(), Ok(question));
        for text in ["", "fe", "x-1", "fe-", "fe-x"] {
            assert_eq!(text.parse::<AgeQuestion>(), Err(MalformedQuestion), "{text}");
        }
    }
}
