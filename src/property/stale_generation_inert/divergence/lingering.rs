//! Computes from when on two servers have different knowledge of a client, because they learn at
//! different times that a connection of an older generation is over.
//!
//! Until a server learns this, it regards the client as connected, with the subscriptions made over
//! that connection. This makes no difference while the client has a newer connection with the same
//! subscriptions. It makes a difference in two cases:
//! - A newer connection is over and the server has no other yet, so that only the older one is
//!   left. The newer one must end at the same time in both runs: if an older packet ends it in one
//!   run only, that is the bug itself.
//! - The user gives up a stream, or makes a call that the client answers on its own. The server
//!   learns of this only over a newer connection. A message sent over the older one may not have
//!   arrived either, if the client sent it just before it lost the connection, or if a fault held
//!   the message until then.
//!
//! The connections of one client have the same name on the same host. A client that has a name keeps
//! it. A client without one has ascending generations: a reloaded window and a restarted host start
//! again from the first generation.

use std::time::Duration;

use crate::history::{Connection, EventKind, Time};
use crate::property::facts::Facts;
use crate::property::path::{NEVER, span_on};
use crate::schedule::Fault;
use crate::schedule::fault::Lateness;
use crate::schedule::fault::effect::Effect;

/// A connection, and the client's connections of newer generations.
struct Older<'a> {
    conn: &'a Connection,
    newer: Vec<&'a Connection>,
}

/// Returns the first time at which the two servers may have different knowledge.
pub(super) fn since(here: &Facts<'_>, there: &Facts<'_>) -> Option<Time> {
    let theirs = Older::all(there);
    let differs = |older: Older<'_>| {
        let control = theirs.iter().find(|control| control.conn.name == older.conn.name)?;
        let (first, last) = (
            server_learned_at(older.conn).min(server_learned_at(control.conn)),
            server_learned_at(older.conn).max(server_learned_at(control.conn)),
        );
        let causes = [(&older, control, here), (control, &older, there)];
        let causes =
            causes.into_iter().flat_map(|(older, other, facts)| older.causes(other, facts));
        let causes = causes.map(|cause| cause.max(first));
        causes.filter(|from| *from < last).min()
    };
    Older::all(here).into_iter().filter_map(differs).min()
}

/// Returns when the server of a connection learned that it is over.
fn server_learned_at(conn: &Connection) -> Time {
    conn.over.1.unwrap_or(NEVER)
}

impl<'a> Older<'a> {
    fn all(facts: &Facts<'a>) -> Vec<Self> {
        let conns = &facts.cx.history.conns;
        let older = conns
            .iter()
            .enumerate()
            .map(|(index, conn)| Self { conn, newer: newer(&conns[index..]).collect() });
        older.filter(|older| !older.newer.is_empty()).collect()
    }

    /// Returns the times of events that make a difference to a server that still has this
    /// connection.
    fn causes(&self, control: &Self, facts: &Facts<'_>) -> Vec<Time> {
        self.left(control, facts).into_iter().chain(self.gave_up(facts)).collect()
    }

    /// Returns when a newer connection was over in both runs without a replacement. A replacement
    /// counts only if it was opened at least one attempt's time-out before.
    fn left(&self, control: &Self, facts: &Facts<'_>) -> Vec<Time> {
        let in_both = |one: &Connection| {
            control.newer.iter().any(|other| {
                other.name == one.name && server_learned_at(other) == server_learned_at(one)
            })
        };
        let attempt = facts.guarantees().attempt;
        let serves = |at: Time| {
            self.newer
                .iter()
                .any(|other| other.opened + attempt <= at && server_learned_at(other) > at)
        };
        let over =
            self.newer.iter().filter(|newer| in_both(newer)).map(|newer| server_learned_at(newer));
        over.filter(|at| !serves(*at)).collect()
    }

    /// Returns when the user gave something up, or the client answered a call on its own, and a
    /// message about it had possibly not arrived over this connection when the client lost it.
    fn gave_up(&self, facts: &Facts<'_>) -> Vec<Time> {
        let gave_up = facts
            .cx
            .history
            .events
            .iter()
            .filter(|event| matches!(event.what, EventKind::GaveUp { .. }));
        let gave_up = gave_up
            .filter(|event| event.host.as_ref() == Some(&self.conn.client))
            .map(|event| event.at);
        let own = facts
            .calls
            .iter()
            .filter(|call| call.host == self.conn.client.as_str() && call.is_answered_alone());
        let at = gave_up.chain(own.map(|call| call.at));
        at.filter(|at| self.is_late(*at, facts)).collect()
    }

    /// Returns whether a message that the client sent at this time had possibly not arrived when
    /// the client lost the connection.
    fn is_late(&self, sent: Time, facts: &Facts<'_>) -> bool {
        let Some(lost) = self.conn.over.0 else { return false };
        let arrives = sent + facts.cx.plan.latency.1;
        let is_held = || {
            facts.faults.iter().any(|fault| {
                let holds = held(fault.what, self.conn);
                arrives + holds >= lost
                    && span_on(fault, self.conn, facts.cx.history)
                        .is_some_and(|(began, ended)| began <= arrives && ended >= lost)
            })
        };
        arrives >= lost || is_held()
    }
}

/// Returns how long a fault can hold a message to the server of a connection that it affects.
fn held(fault: &Fault, conn: &Connection) -> Duration {
    let is_toward = match fault.effect() {
        Effect::Link { toward, .. } => toward.is_none_or(|to| *to == conn.server),
        _ => true,
    };
    match fault.lateness() {
        Lateness::AtMost { by, .. } if is_toward => by,
        Lateness::Unbounded if is_toward => Duration::MAX,
        _ => Duration::ZERO,
    }
}

/// Returns the connections of the same client that are newer than the first of these. The control
/// run drops the packets of the first one as soon as another one is installed. A window that is
/// reloaded with the name of its client starts again from the first generation.
fn newer(conns: &[Connection]) -> impl Iterator<Item = &Connection> {
    let first = conns.first();
    let mut last = first.and_then(|conn| conn.generation);
    let is_same = move |newer: &&Connection| {
        let is_of = |first: &Connection| name_of(newer) == name_of(first) && newer.of == first.of;
        newer.generation.is_some() && first.is_some_and(is_of)
    };
    conns.iter().skip(1).filter(is_same).take_while(move |newer| {
        let before = std::mem::replace(&mut last, newer.generation);
        before.is_some() && (newer.of.is_some() || before < newer.generation)
    })
}

/// Returns the host that opened a connection, and its label.
fn name_of(conn: &Connection) -> &str {
    conn.name.split_once('#').map_or(conn.name.as_str(), |(name, _)| name)
}
