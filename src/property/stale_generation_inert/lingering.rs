//! From when on two servers know different things of a client, because they hear at different times that a connection of an older
//! generation is over.
//!
//! Until a server hears that, the client is connected for it, and wants what it subscribed to over that connection. It makes no
//! difference as long as the client has a newer connection, and wants the same. It does
//! - when a newer one is over and the server has no other yet, so that it has only the older one. The newer one must be over at the
//!   same moment in both runs: where an older packet ends it in one run only, that is the bug itself;
//! - when the user gives up a stream, or does what its client does alone, for the server hears of that over a newer one only. What was
//!   sent over the older one just before its end may not have arrived, either.
//!
//! The connections of one client are those of one name on one host, with ascending generations: a window that is loaded again, and
//! a host that is started again, count from the first generation anew.

use crate::history::{Connection, EventKind, Time};
use crate::property::facts::Facts;
use crate::property::path::NEVER;

/// A connection, and those of newer generations.
struct Older<'a> {
    conn: &'a Connection,
    newer: Vec<&'a Connection>,
}

/// The first moment at which the two servers may know different things.
pub(super) fn since(here: &Facts<'_>, there: &Facts<'_>) -> Option<Time> {
    let theirs = Older::all(there);
    let differs = |older: Older<'_>| {
        let control = theirs.iter().find(|control| control.conn.name == older.conn.name)?;
        let (first, last) = (
            heard(older.conn).min(heard(control.conn)),
            heard(older.conn).max(heard(control.conn)),
        );
        let causes = [(&older, control, here), (control, &older, there)];
        let causes =
            causes.into_iter().flat_map(|(older, other, facts)| older.causes(other, facts));
        causes.map(|cause| cause.max(first)).filter(|from| *from < last).min()
    };
    Older::all(here).into_iter().filter_map(differs).min()
}

/// When the server of a connection heard that it is over.
fn heard(conn: &Connection) -> Time {
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

    /// When something happened that makes a difference to a server that still has this connection.
    fn causes(&self, control: &Self, facts: &Facts<'_>) -> Vec<Time> {
        self.left(control, facts).into_iter().chain(self.gave_up(facts)).collect()
    }

    /// When a newer one was over in both runs, and no other can have taken its place yet: one that does was opened long enough before
    /// for its attempt to be over.
    fn left(&self, control: &Self, facts: &Facts<'_>) -> Vec<Time> {
        let in_both = |one: &Connection| {
            control.newer.iter().any(|other| other.name == one.name && heard(other) == heard(one))
        };
        let attempt = facts.guarantees().attempt;
        let serves = |at: Time| {
            self.newer.iter().any(|other| other.opened + attempt <= at && heard(other) > at)
        };
        let over = self.newer.iter().filter(|newer| in_both(newer)).map(|newer| heard(newer));
        over.filter(|at| !serves(*at)).collect()
    }

    /// When its user gave something up, or its client did something alone, since it was lost.
    fn gave_up(&self, facts: &Facts<'_>) -> Vec<Time> {
        let lost = self.conn.over.0.unwrap_or(NEVER).before(facts.cx.plan.latency.1);
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
        gave_up.chain(own.map(|call| call.at)).filter(|at| *at >= lost).collect()
    }
}

/// The connections of newer generations than the first of these, of the same client.
fn newer(conns: &[Connection]) -> impl Iterator<Item = &Connection> {
    let name = conns.first().map(name_of);
    let mut last = conns.first().and_then(|conn| conn.generation);
    let same = conns
        .iter()
        .skip(1)
        .filter(move |newer| newer.generation.is_some() && Some(name_of(newer)) == name);
    same.take_while(move |newer| {
        last.is_some() && std::mem::replace(&mut last, newer.generation) < newer.generation
    })
}

/// The host that opened a connection, and what it is for.
fn name_of(conn: &Connection) -> &str {
    conn.name.split_once('#').map_or(conn.name.as_str(), |(name, _)| name)
}
