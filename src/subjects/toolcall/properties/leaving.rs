//! Whether a user has left the session, or a message with which it left may still be late.

use std::time::Duration;

use super::facts::{HostConnection, MS, UserOperation};
use super::places::{joins, unwatches};
use super::story::{Story, window};
use crate::history::{Answer, Call, EventKind, Time};
use crate::property::path::NEVER;
use crate::subjects::judging::judged;
use crate::subjects::toolcall::answers::{Reason, reason};
use crate::subjects::toolcall::notes::ToolWork;
use crate::subjects::toolcall::setup::{CHAT, SESSION};

impl Story<'_> {
    /// Returns whether the user of a window has left the session, and the window has not taken part
    /// again since. A window may learn only after that that it took part before: its user did not ask for
    /// this again.
    pub(super) fn has_left_the_session(&self, host: &str, at: Time) -> bool {
        let mut leaves = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.verb() == "leave" && asked.host == host && asked.at <= at);
        leaves.any(|(call, left)| {
            let asked = self.asked.values().filter(|asked| joins(asked) && asked.host == host);
            let again = asked.filter(|asked| asked.at > left.at).map(|asked| asked.at).min();
            let mut own = self.parts.iter().filter(|part| part.host == host);
            !again.is_some_and(|again| own.any(|part| part.from >= again && part.from <= at))
                || self.may_leave_late(*call, left, at)
        })
    }

    /// Returns whether the host may perform a "leave" at a moment, although the window takes part
    /// again: the client sent it over a connection that it lost before the answer, and that message
    /// may be late. A host that remembers fewer outcomes than actions of this client came since then
    /// does not know that it performed the action over a newer connection. If the session was
    /// removed, the client did not send the action over a newer one. If the window was reloaded, the
    /// host cannot know that the message is late before the new window has joined.
    fn may_leave_late(&self, call: Call, left: &UserOperation<'_>, at: Time) -> bool {
        let may_arrive = |attached: &HostConnection<'_>| {
            attached.gone >= left.at
                && self.later(attached.received, Duration::ZERO) >= at
                && self.later(attached.over, Duration::ZERO) >= at
        };
        let own = self.attached.iter().filter(|attached| {
            window(attached.client) == left.host && !attached.is_second() && attached.at <= at
        });
        let own: Vec<_> = own.filter(|attached| may_arrive(attached)).collect();
        if own.is_empty() {
            return false;
        }
        let answer = judged(self.cx).find_map(|event| match &event.what {
            EventKind::Answered { call: of, answer } if *of == call => Some((event.at, answer)),
            EventKind::Failed { call: of, .. } if *of == call => Some((event.at, &Answer::GivenUp)),
            _ => None,
        });
        let answered = answer.map_or(NEVER, |(at, _)| at);
        let is_dropped = answer.is_some_and(|(_, answer)| {
            matches!(answer, Answer::Refused(why) if reason(why) == Some(Reason::NoChannel))
        });
        let is_unknown = || {
            is_dropped
                || self.acted_since(left.host, left.at, at) >= self.host_limits.outcomes
                || self.may_join_after(left, at)
        };
        own.iter().any(|attached| attached.gone <= answered) && is_unknown()
    }

    /// Returns how many actions a window can have sent in an interval: one for each operation of its
    /// user and each result of a tool, and one to join for each connection.
    fn acted_since(&self, host: &str, from: Time, to: Time) -> usize {
        let within = |at: Time| at >= from && at <= to;
        let asked = self.asked.values().filter(|asked| asked.host == host && within(asked.at));
        let ends = |(at, on, work): &(Time, &str, ToolWork)| {
            *on == host && *work != ToolWork::Begins && within(*at)
        };
        let results =
            self.calls.iter().flat_map(|call| call.tools.iter()).filter(|tool| ends(tool));
        let own = self.attached.iter().filter(|it| window(it.client) == host && within(it.at));
        asked.count() + results.count() + own.count()
    }

    /// Returns whether a window that was reloaded after a "leave" may not have joined by a moment. Its
    /// user sees the place of the earlier window until then. It joins as soon as it has received the
    /// session and its first chat, if it joins at all.
    fn may_join_after(&self, left: &UserOperation<'_>, at: Time) -> bool {
        let host = left.host;
        let begins = self.begins_of(host).filter(|begins| *begins >= left.at && *begins <= at);
        let Some(begins) = begins.max() else { return false };
        let first = |channel: &str| {
            let looks = self
                .watch_spans
                .iter()
                .filter(|look| look.host == host && look.channel == channel && look.from >= begins);
            looks.map(|look| look.from).min()
        };
        let Some((session, chat)) = first(SESSION).zip(first(CHAT)) else { return false };
        let joins = session.max(chat);
        let bound = self.later(joins, self.cx.plan.latency.1 + MS);
        at <= bound
            || self.may_join_late(host, begins, (joins, bound))
            || self.only_looks(host, begins, joins)
            || self.has_no_room_to_join(host, begins, joins)
    }

    /// Returns whether the join that a new window sends at the start of an interval may arrive after its
    /// end: the connection that brought the states has a fault, or it ends. Faults of the connections of
    /// the earlier window do not count, because they delay only the "leave".
    fn may_join_late(&self, host: &str, begins: Time, (joins, bound): (Time, Time)) -> bool {
        let own = self.attached.iter().filter(|attached| {
            window(attached.client) == host
                && !attached.is_second()
                && attached.at <= joins
                && self.opened(attached).is_some_and(|opened| opened >= begins)
        });
        own.max_by_key(|attached| attached.at).is_some_and(|used| {
            used.gone.min(used.over) <= bound || self.may_delay(used, joins, bound)
        })
    }

    /// Returns whether the user of a new window gave up the session before the window could join it, and
    /// only looks since then.
    fn only_looks(&self, host: &str, begins: Time, joined: Time) -> bool {
        let own = || {
            let all = self.asked.values().filter(|asked| asked.host == host);
            all.filter(|asked| asked.at >= begins && asked.at <= joined)
        };
        let gave_up = own().filter(|asked| unwatches(asked, SESSION)).map(|asked| asked.at).max();
        gave_up.is_some_and(|at| !own().any(|asked| joins(asked) && asked.at > at))
    }

    /// Returns whether so many operations of a new window may be unanswered that its client refuses to
    /// join. An operation makes at most two requests at once. A refused join is not repeated.
    fn has_no_room_to_join(&self, host: &str, begins: Time, joins: Time) -> bool {
        let own = self.asked.values().filter(|asked| {
            asked.host == host
                && asked.verb() != "reload"
                && asked.at >= begins
                && asked.at <= joins
        });
        let asked = own.count();
        asked >= self.client_limits.unconfirmed || asked * 2 >= self.client_limits.held
    }
}
