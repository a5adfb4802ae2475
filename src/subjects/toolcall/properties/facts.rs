//! The parts of a story: connections, calls, operations, and the intervals of faults and of what
//! users watch.

use std::time::Duration;

use crate::history::{Connection, Stream, Time};
use crate::property::path::NEVER;
use crate::schedule::{MilestoneValue, Operation};
use crate::subjects::toolcall::notes::{CallEnd, Status, ToolWork};

/// A connection that the host accepted.
pub(super) struct HostConnection<'a> {
    pub(super) conn: usize,
    pub(super) client: &'a str,
    pub(super) at: Time,
    /// The time at which the window's end was over.
    pub(super) gone: Time,
    /// The time at which the host's end was over.
    pub(super) over: Time,
    /// When the host last received data over it.
    pub(super) received: Time,
    /// For a second connection, the time at which its user asked for it: it subscribes to the
    /// channels that the window watched then.
    pub(super) second: Option<Time>,
}

impl HostConnection<'_> {
    /// Returns whether neither end is over at this moment.
    pub(super) fn is_live(&self, at: Time) -> bool {
        self.gone > at && self.over > at
    }

    /// The time at which its user asked for it: for any other than a second connection, the time at
    /// which the host accepted it.
    pub(super) fn asked_at(&self) -> Time {
        self.second.unwrap_or(self.at)
    }

    /// Returns whether it is a second connection.
    pub(super) fn is_second(&self) -> bool {
        self.second.is_some()
    }
}

/// A connection over which a client began its handshake.
pub(super) struct HandshakeAttempt<'a> {
    pub(super) conn: usize,
    pub(super) client: &'a str,
    pub(super) from: Time,
    /// The end of the handshake: the host accepted the client, gave up the handshake, or lost the
    /// connection.
    pub(super) to: Time,
    /// The time at which the host's end was over.
    pub(super) over: Time,
}

/// The decision of the host when an agent began a call.
#[derive(Clone, Copy, Default)]
pub(super) struct Assignment<'a> {
    pub(super) owner: &'a str,
    pub(super) chat: &'a str,
    /// The number of connections that the host had accepted by then.
    pub(super) accepted: usize,
}

/// A tool call.
pub(super) struct CallStory<'a> {
    pub(super) turn: &'a Stream,
    pub(super) id: &'a str,
    pub(super) chat: &'a str,
    /// The client that runs it; empty if there is none.
    pub(super) owner: &'a str,
    /// Whether the host chose the owner.
    pub(super) chosen: bool,
    /// The number of connections that the host had accepted before it assigned the call. The host
    /// may accept another one later in the same millisecond.
    pub(super) accepted: usize,
    pub(super) tool: Option<&'a str>,
    pub(super) began: Time,
    pub(super) ready: Option<Time>,
    /// Whether a user must consent, once the call is ready.
    pub(super) asks: bool,
    /// The time at which its agent learned that a user had approved it.
    pub(super) permitted: Option<Time>,
    /// The decisions of users: approved, or denied.
    pub(super) decisions: Vec<(Time, bool)>,
    /// The time at which its agent received the end, and the kind of end.
    pub(super) over: Option<(Time, &'a CallEnd)>,
    /// The time at which it was over at the latest: its agent received the end, its turn ended, or the host
    /// died.
    pub(super) left: Time,
    /// The time at which its agent gave it up. The call itself goes on, and its end is noted no more.
    pub(super) given_up: Time,
    /// The work of its tool by host, from notes of the tool and milestones of the client.
    pub(super) tools: Vec<(Time, &'a str, ToolWork)>,
    /// The begins of its tool by host, from notes of the tool.
    pub(super) begins: Vec<(Time, &'a str)>,
    /// The statuses that users saw.
    pub(super) users: Vec<(Time, &'a str, Status)>,
    /// The statuses that second connections received, change by change.
    pub(super) seconds: Vec<(Time, &'a str, Status)>,
    /// The replies of users to its request for consent, by host: accepted, or refused for a reason.
    pub(super) replies: Vec<(Time, &'a str, &'a Result<(), String>)>,
}

impl CallStory<'_> {
    /// Returns whether its agent still waited for its end after a moment.
    pub(super) fn goes_on(&self, at: Time) -> bool {
        self.left.min(self.given_up) > at
    }

    /// Returns whether a user had approved the call, or denied it.
    pub(super) fn has_decision(&self, approves: bool, by: Time) -> bool {
        self.decisions.iter().any(|(at, decision)| *at <= by && *decision == approves)
    }

    /// Returns whether its tool has begun on a host more often than it has ended there.
    pub(super) fn is_at_work(&self, host: &str) -> bool {
        let begins = self.begins.iter().filter(|(_, on)| *on == host).count();
        let own = self.tools.iter().filter(|(_, on, _)| *on == host);
        own.filter(|(.., work)| *work != ToolWork::Begins).count() < begins
    }
}

/// A call that the host failed because its owner was absent.
pub(super) struct FailedCall<'a> {
    pub(super) at: Time,
    pub(super) chat: &'a str,
    pub(super) call: &'a str,
    pub(super) owner: &'a str,
    /// Whether the host's reason was the absence of the owner, and not that the owner unsubscribed
    /// from the chat.
    pub(super) away: bool,
}

/// A window: its host, and its number among that host's windows. A reload or a restart of the host
/// creates another window.
pub(super) type Window<'a> = (&'a str, usize);

/// An operation of a window's user.
#[derive(Clone, Copy)]
pub(super) struct UserOperation<'a> {
    pub(super) at: Time,
    pub(super) host: &'a str,
    pub(super) window: usize,
    pub(super) operation: &'a Operation,
}

impl<'a> UserOperation<'a> {
    pub(super) fn verb(&self) -> &'a str {
        &self.operation.verb
    }

    pub(super) fn field(&self, name: &str) -> Option<&'a str> {
        self.operation.fields.get(name)?.as_str()
    }
}

/// An interval in which a user watches a channel and has its state.
pub(super) struct WatchSpan<'a> {
    pub(super) host: &'a str,
    pub(super) channel: &'a str,
    pub(super) from: Time,
    pub(super) to: Time,
}

/// The interval of a fault.
pub(super) struct FaultPeriod<'a> {
    pub(super) number: usize,
    pub(super) from: Time,
    pub(super) to: Time,
    /// How much later than the fault's end the data may arrive that it delayed.
    pub(super) lag: Duration,
    /// The host of which the fault held a task, or that was down.
    pub(super) holds: Option<&'a str>,
    /// The only window that the fault affects; `None` if it may affect all.
    pub(super) only: Option<&'a str>,
    /// The connections that have the fault. A fault of hosts or links has none.
    pub(super) conns: Vec<&'a Connection>,
    /// For a fault that ends connections, the time from which their clients must know that.
    pub(super) known: Time,
}

impl FaultPeriod<'_> {
    /// Returns whether this means that a host is down and was not restarted yet.
    pub(super) fn is_down(&self, host: &str) -> bool {
        self.number == DOWN && self.holds == Some(host) && self.to == NEVER
    }

    /// Returns whether this is a fault of a connection, and not of its host or link.
    pub(super) fn is_of(&self, conn: &Connection) -> bool {
        self.conns.iter().any(|other| std::ptr::eq(*other, conn))
    }
}

/// A text field of a milestone.
pub(super) fn text<'a>(fields: &'a [(&'static str, MilestoneValue)], name: &str) -> &'a str {
    MilestoneValue::text(fields, name).unwrap_or_default()
}

/// The number of a host that is down, because that is not a fault of the schedule.
pub(super) const DOWN: usize = usize::MAX;

/// The time resolution, used to query the state just before an event.
pub(super) const MS: Duration = Duration::from_millis(1);
