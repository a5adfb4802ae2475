//! The owner of a stream.
//!
//! A server does not know that the client of a stream has disconnected until the connection is
//! reset or its buffers are full. Until then it refuses a second stream of the command, because two
//! clients that take the stream from each other make no progress. But a client that resumes its own
//! stream knows that the old one is over. It says so with its owner: the server replaces a stream of
//! the same client at once. The number of the attempt orders the requests of a client, so that a
//! delayed older request does not replace a newer stream.

use std::fmt;
use std::str::FromStr;

use reknit_seams::defect;

/// A client, and the number of its attempt. Written `CLIENT.ATTEMPT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOwner {
    client: String,
    attempt: u64,
}

/// The text is not an owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an owner is 1 to {LONGEST} letters, digits, `-` or `_`, then `.` and a number")]
pub struct MalformedOwner;

/// The maximum length of the name of a client.
const LONGEST: usize = 64;

impl StreamOwner {
    /// Returns the owner for attempt `attempt` of a client. The name of the client should be random,
    /// because another client with the same name can take its streams.
    ///
    /// # Errors
    /// If the name is empty, too long, or has other characters than letters, digits, `-` and `_`.
    pub fn new(client: impl Into<String>, attempt: u64) -> Result<Self, MalformedOwner> {
        let client = client.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if (1..=LONGEST).contains(&client.len()) && client.bytes().all(is_plain) {
            Ok(Self { client, attempt })
        } else {
            Err(MalformedOwner)
        }
    }

    /// Whether this is a later attempt of the same client.
    pub fn supersedes(&self, other: &Self) -> bool {
        let is_later = self.attempt > other.attempt
            || self.attempt == other.attempt && defect!(EqualAttemptSupersedes);
        self.client == other.client
            && (is_later || self.attempt < other.attempt && defect!(OlderAttemptSupersedes))
    }
}

impl fmt::Display for StreamOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.client, self.attempt)
    }
}

impl FromStr for StreamOwner {
    type Err = MalformedOwner;

    fn from_str(text: &str) -> Result<Self, MalformedOwner> {
        let (client, attempt) = text.rsplit_once('.').ok_or(MalformedOwner)?;
        let is_number = !attempt.is_empty() && attempt.bytes().all(|byte| byte.is_ascii_digit());
        let attempt = is_number.then(|| attempt.parse().ok()).flatten().ok_or(MalformedOwner)?;
        Self::new(client, attempt)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_a_later_attempt_of_the_same_client_supersedes() {
        let owner = |text: &str| text.parse::<StreamOwner>().unwrap();
        assert!(owner("a.2").supersedes(&owner("a.1")));
        for (one, other) in [("a.1", "a.1"), ("a.1", "a.2"), ("b.2", "a.1")] {
            assert!(!owner(one).supersedes(&owner(other)), "{one} {other}");
        }
    }

    #[test]
    fn malformed_owners_are_refused() {
        let long = format!("{}.1", "a".repeat(LONGEST + 1));
        for text in ["", ".", "a", "a.", ".1", "a.-1", "a.+1", "a b.1", "a.1 ", "a.b.1", &long] {
            assert_eq!(text.parse::<StreamOwner>(), Err(MalformedOwner), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_written_owner_is_read_back(client in "[a-zA-Z0-9_-]{1,64}", attempt: u64) {
            let owner = StreamOwner::new(client, attempt).unwrap();
            prop_assert_eq!(owner.to_string().parse(), Ok(owner));
        }
    }
}
