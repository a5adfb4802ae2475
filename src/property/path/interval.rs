//! Converts a fault that was in force into its effect on a path: whether, how and when.
//!
//! A fault on hosts or links counts for as long as it was in force. A fault on a connection may be
//! declared long before the connection opens, and may remain declared long after the connection is
//! over; it counts only in between.

use std::time::Duration;

use crate::history::{ConnIndex, Connection, History, Nature, Scope, Time};
use crate::schedule::fault::{Felt, Lateness};
use crate::schedule::{Fault, Host, Learns, Which};

use super::{FaultSpan, NEVER};

/// A fault on a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultInterval {
    pub began: Time,
    pub ended: Time,
    pub kills: bool,
    /// The latency that it adds.
    pub latency: Duration,
    /// The time from which detection and recovery count: its start if it kills, its end if it slows
    /// or holds. A fault that only adds latency and never ends counts from its start, because a
    /// client can work despite it.
    pub cause: Time,
}

impl FaultInterval {
    /// Returns the effect of a fault on the path with these hosts; `None` if it has none.
    pub fn of(
        fault: &FaultSpan<'_>,
        history: &History,
        has: impl Fn(&str) -> bool,
    ) -> Option<FaultInterval> {
        if fault.nature == Nature::Harmless {
            return None;
        }
        let scope = fault.scope;
        let touches_hosts = scope.hosts.iter().any(|host| has(host.as_str()))
            || scope.links.iter().any(|(a, b)| has(a.as_str()) && has(b.as_str()));
        let Span { began, known, ended } = if touches_hosts {
            Span { began: fault.began, known: fault.began, ended: fault.ended }
        } else if !scope.hosts.is_empty() || !scope.links.is_empty() {
            return None;
        } else {
            let on_path =
                |conn: &&Connection| has(conn.client.as_str()) && has(conn.server.as_str());
            let spans = conns_of(fault.what, fault.scope, history)
                .filter(on_path)
                .filter_map(|conn| span(fault, conn));
            spans.reduce(Span::or)?
        };
        let kills = fault.nature == Nature::Kills;
        let only_latency = matches!(fault.what.lateness(), Lateness::AtMost { alone: true, .. });
        let latency = fault.what.latency();
        let cause = if kills || (only_latency && ended == NEVER) { known } else { ended };
        Some(FaultInterval { began, ended, kills, latency, cause })
    }
}

/// When a fault had an effect.
#[derive(Clone, Copy)]
struct Span {
    /// The earliest possible start.
    began: Time,
    /// The latest possible start.
    known: Time,
    ended: Time,
}

impl Span {
    fn or(self, other: Span) -> Span {
        let (began, known) = (self.began.min(other.began), self.known.max(other.known));
        Span { began, known, ended: self.ended.max(other.ended) }
    }
}

/// Returns the connections that a fault concerns: those in its scope when it began, and later ones
/// that match its name.
pub fn conns_of<'a>(
    fault: &'a Fault,
    scope: &'a Scope,
    history: &'a History,
) -> impl Iterator<Item = &'a Connection> {
    let name = fault.conn();
    let found = &scope.conns;
    let is_last = name.is_some_and(|name| name.which == Which::Last);
    let named = move |n: usize| name.is_some_and(|name| history.is_named(ConnIndex(n), name));
    history.conns.iter().enumerate().filter_map(move |(n, conn)| {
        let is_found = found.iter().any(|found| found.0 == n);
        // If the fault names the last connection and there is none yet, it hits the first one to
        // open.
        let is_named = named(n) && (!is_last || (found.is_empty() && !(0..n).any(named)));
        (is_found || is_named).then_some(conn)
    })
}

/// Returns the first and the last time at which a fault had an effect on a connection, over its
/// link or on the connection alone; `None` if it had none.
pub fn span_on(
    fault: &FaultSpan<'_>,
    conn: &Connection,
    history: &History,
) -> Option<(Time, Time)> {
    let is_end = |host: &Host| *host == conn.client || *host == conn.server;
    if fault.scope.links.iter().any(|(a, b)| is_end(a) && is_end(b)) {
        return Some((fault.began, fault.ended));
    }
    let mut conns = conns_of(fault.what, fault.scope, history);
    let span = span(fault, conns.find(|other| std::ptr::eq(*other, conn))?)?;
    Some((span.began, span.ended))
}

/// Returns when a fault has an effect on a connection.
fn span(fault: &FaultSpan<'_>, conn: &Connection) -> Option<Span> {
    let (client, server) = conn.over;
    let both_over = client.zip(server).map(|(client, server)| client.max(server));
    let until = both_over.map_or(fault.ended, |over| over.min(fault.ended));
    match fault.what.felt() {
        Felt::InForce => Some(Span { began: fault.began, known: fault.began, ended: fault.ended }),
        Felt::Struck(learns) => {
            // An end that was over before the fault began learned nothing of the fault. Only the
            // other end then shows when the fault struck.
            let ends = [(client, &conn.client), (server, &conn.server)];
            let ends = ends.map(|(over, host)| (over.filter(|over| *over >= fault.began), host));
            let first_over = ends.iter().filter_map(|(over, _)| *over).min();
            // A fault that lasted longer than both ends did not kill the connection; the connection
            // ended for another reason.
            let known = first_over.filter(|_| both_over.is_none_or(|over| fault.ended <= over))?;
            let struck = ends.into_iter().filter_map(|(over, host)| {
                match learns.get(host).unwrap_or(&Learns::After(Duration::ZERO)) {
                    Learns::After(after) => Some(over?.before(*after)),
                    Learns::Never => None,
                }
            });
            let began = struck.min().unwrap_or(Time::ZERO).max(fault.began).max(conn.opened);
            Some(Span { began, known, ended: fault.ended })
        }
        // The fault has something to delay from the close of one end until the other end learns of
        // it. A close from before the fault may also be affected, if it waits behind data that
        // could not be sent yet.
        Felt::FromClose => {
            let began = client.into_iter().chain(server).min()?.max(fault.began);
            (began <= until).then_some(Span { began, known: began, ended: until })
        }
        Felt::WhileOpen => {
            let began = fault.began.max(conn.opened);
            (began <= until).then_some(Span { began, known: began, ended: until })
        }
    }
}
