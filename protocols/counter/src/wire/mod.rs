//! The messages: requests, replies, and the heartbeat of both ends ([`Beat`]). `text` defines their
//! form on the wire.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::Arc;

mod text;

/// The length of the longest line in bytes, without its terminator.
pub const LONGEST_LINE: usize = 256;

/// The error for a line that this protocol does not define.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a line of this protocol")]
pub struct Malformed;

/// The name of a stream, a counter or a memo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let fits = |c: u8| c.is_ascii_alphanumeric() || b"._-/".contains(&c);
        if (1..=64).contains(&text.len()) && text.bytes().all(fits) {
            Ok(Self(text.into()))
        } else {
            Err(BadName(text.into()))
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for a text that is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name: take 1 to 64 letters, digits and `.`, `_`, `-`, `/`")]
pub struct BadName(String);

/// The name of a session: 128 random bits, which cannot be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u128);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The precedence of a connection in its session: the greatest ticket wins.
///
/// The generation alone is not sufficient. A client whose welcome was lost retries with the same
/// generation. If its first hello arrives late, it must not displace the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// The number of connections that this client has installed so far, plus one.
    pub generation: u64,
    /// The number of connections that this client has tried to open.
    pub attempt: u64,
}

/// A message from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first line: attaches this connection to an existing or a new session.
    Hello {
        /// The session; `None` for a new one.
        session: Option<SessionId>,
        /// The precedence of the connection.
        ticket: Ticket,
    },
    /// Sends a stream's numbers from an index; opens the stream if this session has not opened it.
    Watch {
        /// The stream.
        stream: Name,
        /// The first requested index, from 1.
        next: NonZeroU64,
    },
    /// Ends a stream permanently.
    Unwatch {
        /// The stream.
        stream: Name,
    },
    /// Adds to a counter, at most once per id.
    Add {
        /// The id, which is greater than that of every earlier add.
        id: u64,
        /// The counter.
        counter: Name,
        /// The amount.
        amount: u32,
        /// The memo that is stored with the addition.
        memo: Name,
    },
    /// Asks for the sum of a counter.
    Peek {
        /// The id, which the answer repeats.
        id: u64,
        /// The counter.
        counter: Name,
    },
    /// Holds a lease on a counter until it expires or this connection ends.
    Lease {
        /// The id, which the answer repeats.
        id: u64,
        /// The counter.
        counter: Name,
        /// The duration in milliseconds.
        millis: u64,
    },
    /// Ends the session.
    Bye,
}

/// A message from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The connection is attached.
    Welcome {
        /// The session.
        session: SessionId,
        /// Whether the session existed before.
        resumed: bool,
    },
    /// The connection is not attached, and the server closes it.
    Refused(Refusal),
    /// A number of a stream.
    Number {
        /// The stream.
        stream: Name,
        /// Its position in the stream, from 1.
        index: u64,
        /// The number.
        value: u64,
    },
    /// The end of a stream: all its numbers have been sent.
    End {
        /// The stream.
        stream: Name,
        /// The number of numbers in the stream.
        total: u64,
    },
    /// The server no longer has the next number for this client.
    Gap {
        /// The stream.
        stream: Name,
        /// The index of the oldest number that the server has.
        oldest: u64,
    },
    /// The stream does not exist, or no longer exists.
    Lost {
        /// The stream.
        stream: Name,
        /// The reason.
        why: Absence,
    },
    /// An add has taken effect.
    Added {
        /// The id of the add.
        id: u64,
        /// The sum directly after the addition.
        sum: u64,
    },
    /// An add took effect, or a later add arrived first, so long ago that its outcome is no longer
    /// known.
    Forgotten {
        /// The id of the add.
        id: u64,
    },
    /// The answer to a peek.
    Peeked {
        /// The id of the peek.
        id: u64,
        /// The sum.
        sum: u64,
    },
    /// A lease has expired.
    LeaseOver {
        /// The id of the lease.
        id: u64,
    },
}

/// The reason why a connection is not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The session does not exist, or no longer exists.
    UnknownSession,
    /// A connection with an equal or greater ticket attached before.
    StaleTicket,
    /// Another connection is attached. Only a server with the defect `StillAttachedRefused` sends
    /// this.
    StillAttached,
    /// The server has reached its maximum number of sessions.
    Full,
}

/// The reason why a stream does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It never existed.
    Unknown,
    /// It ended and its retention has expired, or the client stopped it.
    Over,
    /// The session has reached its maximum number of streams.
    Full,
}

/// The heartbeat with which each end checks that the other is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// A request for a pong with the same number.
    Ping(u64),
    /// The answer to a ping.
    Pong(u64),
}
