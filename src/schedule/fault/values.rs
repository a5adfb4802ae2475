//! The values of the fields of faults, besides names and durations.

use std::fmt;
use std::time::Duration;

use crate::schedule::names::{Conn, Host, NameList, Named};
use crate::schedule::trigger::Trigger;

/// When an end of a cut connection learns of the cut (through an RST).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// This long after the cut.
    After(Duration),
    /// The network never notifies it.
    Never,
}

/// Whether the processes that a host launched die or live on when it crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orphans {
    /// They die with the host.
    #[default]
    Die,
    /// They live on; the other ends of their pipes are closed.
    Live,
}

impl Named for Orphans {
    const LIST: &'static NameList =
        &NameList { what: "a fate of processes", names: &["die", "live"] };
    const ALL: &'static [Self] = &[Self::Die, Self::Live];
}

/// A pipe between a child process and the host that launched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pipe {
    /// Its standard input.
    Stdin,
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

impl Named for Pipe {
    const LIST: &'static NameList =
        &NameList { what: "a pipe", names: &["stdin", "stdout", "stderr"] };
    const ALL: &'static [Self] = &[Self::Stdin, Self::Stdout, Self::Stderr];
}

/// The effect of a power loss on data that was written to files, but not synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsynced {
    /// Nothing is lost.
    #[default]
    Kept,
    /// It can be lost, in whole or in part.
    Lost,
}

impl Named for Unsynced {
    const LIST: &'static NameList =
        &NameList { what: "a fate of unsynced data", names: &["kept", "lost"] };
    const ALL: &'static [Self] = &[Self::Kept, Self::Lost];
}

/// What the fault `tamper` does to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tampering {
    /// The message does not arrive.
    Drop,
    /// The message arrives twice.
    Repeat,
    /// The message arrives as a refusal of its request.
    Refuse,
    /// The message arrives with another identity: the name of another session, run or thread.
    Misname,
}

impl Named for Tampering {
    const LIST: &'static NameList =
        &NameList { what: "a change of messages", names: &["drop", "repeat", "refuse", "misname"] };
    const ALL: &'static [Self] = &[Self::Drop, Self::Repeat, Self::Refuse, Self::Misname];
}

/// An amount of data in one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficCount {
    /// This many bytes.
    Bytes(u64),
    /// This many messages, as the subject's dissector counts them, and no byte of the next one.
    Messages(u64),
}

/// The part of the network that a link fault affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkPlace {
    /// One connection.
    Conn(Conn),
    /// All traffic between two hosts.
    Link(Host, Host),
}

impl fmt::Display for LinkPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkPlace::Conn(conn) => conn.fmt(f),
            LinkPlace::Link(a, b) => write!(f, "{a} and {b}"),
        }
    }
}

/// The end of a hold at a point.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldEnd {
    /// After this duration.
    After(Duration),
    /// After another milestone or point is reached and a delay has passed, but at the latest after
    /// `at_most`.
    Until {
        /// The milestone or point, and the delay after it.
        trigger: Box<Trigger>,
        /// The maximum duration of the hold.
        at_most: Duration,
    },
}
