//! What is said: requests, replies, and the beat that both ends keep ([`Beat`]). How it is written stands in `text`.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::Arc;

mod text;

/// The longest line, in bytes, without its end.
pub const LONGEST_LINE: usize = 256;

/// A line is none of this protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a line of this protocol")]
pub struct Malformed;

/// The name of a stream, a counter or a memo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The name.
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

/// A text that names nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name: take 1 to 64 letters, digits and `.`, `_`, `-`, `/`")]
pub struct BadName(String);

/// The name of a session: 128 random bits, which nobody can guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u128);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A connection's claim to a session: the greatest one wins.
///
/// The generation alone would not do. A client whose welcome was lost tries again with the same generation; and its first
/// hello, late, must not throw out the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// One more than the connections that this client has installed so far.
    pub generation: u64,
    /// How many connections this client has tried to open.
    pub attempt: u64,
}

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first line: attaches this connection to a session, or to a new one.
    Hello {
        /// The session; a new one where none is given.
        session: Option<SessionId>,
        /// The claim to it.
        ticket: Ticket,
    },
    /// Sends a stream's numbers from an index on; opens the stream if this session has not.
    Watch {
        /// The stream.
        stream: Name,
        /// The first index that is wanted, from 1.
        next: NonZeroU64,
    },
    /// Stops a stream for good.
    Unwatch {
        /// The stream.
        stream: Name,
    },
    /// Adds to a counter, at most once for one id.
    Add {
        /// Greater than that of every add before it.
        id: u64,
        /// The counter.
        counter: Name,
        /// How much.
        amount: u32,
        /// What is noted beside it.
        memo: Name,
    },
    /// Asks for a sum.
    Peek {
        /// Comes back with the answer.
        id: u64,
        /// The counter.
        counter: Name,
    },
    /// Holds a lease on a counter while this connection lives.
    Lease {
        /// Comes back with the answer.
        id: u64,
        /// The counter.
        counter: Name,
        /// For how many milliseconds.
        millis: u64,
    },
    /// The client leaves: its session is over.
    Bye,
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The connection is attached.
    Welcome {
        /// To this session.
        session: SessionId,
        /// Whether the session was there before.
        resumed: bool,
    },
    /// The connection is not attached, and will be closed.
    Refused(Refusal),
    /// A number.
    Number {
        /// The stream.
        stream: Name,
        /// Its position in the stream, from 1.
        index: u64,
        /// The number.
        value: u64,
    },
    /// A stream's end: all its numbers have been sent.
    End {
        /// The stream.
        stream: Name,
        /// How many numbers it had.
        total: u64,
    },
    /// The number that is next for this client is no longer kept.
    Gap {
        /// The stream.
        stream: Name,
        /// The oldest one that is.
        oldest: u64,
    },
    /// There is no such stream, or no longer.
    Lost {
        /// The stream.
        stream: Name,
        /// Why.
        why: Absence,
    },
    /// An add has taken effect.
    Added {
        /// Which.
        id: u64,
        /// The sum right after it.
        sum: u64,
    },
    /// An add took effect, or was overtaken, so long ago that its outcome is no longer known.
    Forgotten {
        /// Which.
        id: u64,
    },
    /// The answer to a peek.
    Peeked {
        /// Which.
        id: u64,
        /// The sum.
        sum: u64,
    },
    /// A lease has run out.
    LeaseOver {
        /// Which.
        id: u64,
    },
}

/// Why a connection is not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such session, or no longer.
    UnknownSession,
    /// A connection with a greater ticket was here before.
    StaleTicket,
    /// Another connection is attached. Only a server with the defect `StillAttachedRefused` says so.
    StillAttached,
    /// There are too many sessions.
    Full,
}

/// Why there is no such stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// There never was.
    Unknown,
    /// It ended, and was kept for a while; or it was stopped.
    Over,
    /// This session has opened too many.
    Full,
}

/// The beat by which each end knows that the other lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// To be answered.
    Ping(u64),
    /// The answer.
    Pong(u64),
}
