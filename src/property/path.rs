//! Paths: when the way between a client's user and a server's outside world was faulty.
//!
//! A path is a client host and the server hosts behind which a stream or call has its producer. A fault touches it if one of its
//! hosts, a link between two of them, or a connection between two of them is in the fault's scope. All of it comes from the
//! schedule's faults as the world carried them out, never from what the protocol noticed.
//!
//! What the world owes to these figures: a fault begins when it strikes (a `cut-after` not when it is armed), and ends when
//! what it held has arrived and each end of what it killed has learned of it.

use std::time::Duration;

use crate::history::{History, Nature, Scope, Time};
use crate::schedule::{Conn, Fault, Place, Plan, SlowBy, Which};

use super::Promise;

/// A moment after every run: the end of what never ended.
pub const NEVER: Time = Time(u64::MAX);

/// A fault that was in force, as its entries tell.
#[derive(Clone, Copy, Debug)]
pub struct InForce<'a> {
    /// From when.
    pub began: Time,
    /// Until when; [`NEVER`] if it did not end.
    pub ended: Time,
    /// What it does.
    pub nature: Nature,
    /// The fault.
    pub what: &'a Fault,
    /// Where.
    pub scope: &'a Scope,
}

/// A host's time without life.
#[derive(Clone, Copy, Debug)]
pub struct Down<'a> {
    /// The host.
    pub host: &'a str,
    /// From when.
    pub from: Time,
    /// Until when; [`NEVER`] if it was not started again.
    pub until: Time,
}

/// A fault on a path.
#[derive(Clone, Copy, Debug)]
struct Spell {
    began: Time,
    ended: Time,
    kills: bool,
    /// How much latency it adds.
    latency: Duration,
    /// Whether it does nothing but add latency.
    only_latency: bool,
}

/// A path, with all that faults did to it.
#[derive(Debug)]
pub struct Path<'a> {
    /// The client host.
    pub client: &'a str,
    /// The server hosts.
    pub servers: Vec<&'a str>,
    /// Whether a server of it is a puppet.
    pub puppet: bool,
    /// When a server of it died.
    pub deaths: Vec<Time>,
    /// The faults, by their begin.
    spells: Vec<Spell>,
    /// When it was faulty: apart, in order.
    faulty: Vec<(Time, Time)>,
    /// When nothing at all could pass: apart, in order.
    severed: Vec<(Time, Time)>,
    /// The worst latency without faults.
    latency: Duration,
}

impl<'a> Path<'a> {
    /// The path between a client and servers, under the faults of a run.
    pub fn new(
        client: &'a str,
        servers: Vec<&'a str>,
        plan: &Plan,
        history: &History,
        faults: &[InForce<'_>],
        downs: &[Down<'_>],
    ) -> Self {
        let puppet = servers.iter().any(|server| plan.puppets.keys().any(|host| host.as_str() == *server));
        let latency = plan.latency.1;
        let (deaths, spells, faulty, severed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut path = Path { client, servers, puppet, deaths, spells, faulty, severed, latency };
        for fault in faults.iter().filter(|fault| fault.nature != Nature::Harmless) {
            if path.is_touched_by(fault, history) {
                path.add_fault(fault);
            }
        }
        for down in downs {
            if path.has(down.host) {
                path.add_down(down);
            }
        }
        path.spells.sort_by_key(|spell| spell.began);
        path.faulty = merged(path.spells.iter().map(|spell| (spell.began, spell.ended)).collect(), Duration::ZERO);
        path.severed = merged(std::mem::take(&mut path.severed), Duration::ZERO);
        path
    }

    fn has(&self, host: &str) -> bool {
        self.client == host || self.servers.contains(&host)
    }

    fn is_touched_by(&self, fault: &InForce<'_>, history: &History) -> bool {
        let scope = fault.scope;
        let on_conn = |conn: &crate::history::Connection| self.has(conn.client.as_str()) && self.has(conn.server.as_str());
        if scope.hosts.is_empty() && scope.links.is_empty() && scope.conns.is_empty() {
            let Some(name) = conn_of(fault.what) else { return false };
            let mut known = history.conns.iter().filter(|conn| names(name, conn)).peekable();
            return if known.peek().is_some() { known.any(on_conn) } else { self.has(name.host.as_str()) };
        }
        scope.hosts.iter().any(|host| self.has(host.as_str()))
            || scope.links.iter().any(|(a, b)| self.has(a.as_str()) && self.has(b.as_str()))
            || scope.conns.iter().any(|conn| history.conns.get(conn.0).is_some_and(on_conn))
    }

    fn add_fault(&mut self, fault: &InForce<'_>) {
        let (began, ended) = (fault.began, fault.ended);
        let (latency, only_latency) = latency_of(fault.what);
        self.spells.push(Spell { began, ended, kills: fault.nature == Nature::Kills, latency, only_latency });
        if matches!(fault.what, Fault::Partition { toward: None, .. }) && self.servers.len() == 1 {
            self.severed.push((began, ended));
        }
    }

    fn add_down(&mut self, down: &Down<'_>) {
        let (began, ended) = (down.from, down.until);
        self.spells.push(Spell { began, ended, kills: true, latency: Duration::ZERO, only_latency: false });
        if down.host != self.client {
            self.severed.push((began, ended));
            self.deaths.push(began);
        }
    }

    /// Whether a fault was in force on it at some moment from `from` to `to`, both included.
    pub fn is_touched(&self, from: Time, to: Time) -> bool {
        self.faulty.iter().any(|(began, ended)| *began <= to && *ended >= from)
    }

    /// The longest interval without a fault between two moments.
    pub fn longest_calm(&self, from: Time, to: Time) -> (Time, Time) {
        let mut longest = (from, from);
        let mut calm_since = from;
        for &(began, ended) in self.faulty.iter().filter(|(began, ended)| *ended >= from && *began <= to) {
            longest = longer(longest, (calm_since, began));
            calm_since = calm_since.max(ended);
        }
        longer(longest, (calm_since, to))
    }

    /// The faulty intervals, those with less than `apart` between them as one: nobody can recover in between.
    pub fn outages(&self, apart: Duration) -> Vec<(Time, Time)> {
        merged(self.faulty.clone(), apart)
    }

    /// When the path was faulty, apart and in order.
    pub fn faulty(&self) -> &[(Time, Time)] {
        &self.faulty
    }

    /// The longest that a packet may take one way at some moment from `from` to `to`: the plan's, and what faults add.
    pub fn worst_latency(&self, from: Time, to: Time) -> Duration {
        let slow = || self.spells.iter().filter(|spell| !spell.latency.is_zero() && spell.began <= to && spell.ended >= from);
        // The sum of what is in force rises only where a fault begins.
        let at = |moment: Time| slow().filter(|s| s.began <= moment && s.ended >= moment).map(|s| s.latency).sum::<Duration>();
        self.latency + slow().map(|spell| at(spell.began.max(from))).max().unwrap_or_default()
    }

    /// By when what was due at `due` has ended for its user, with `wait` of its own: the cause, that is the latest of `due`, the
    /// start of the last fault that killed, and the end of the last one that slowed or held, plus detection, recovery, one
    /// attempt's time-out and 1 s.
    ///
    /// `A` comes on top, for what the deadlines do not count: the pause in which the deadline is noticed, and the crossings,
    /// from the last packet under the cause (detection counts from its arrival) to the last of the catch-up.
    ///
    /// Only a fault that began before the bound moves it: what was late before a fault is late. A fault that only adds latency and
    /// never ends counts from its start, since `A` contains it. [`NEVER`] if something holds the path for ever.
    pub fn bound(&self, promise: &Promise, due: Time, wait: Duration) -> Time {
        let chance = promise.chance(self.worst_latency(Time::ZERO, NEVER));
        let allowance = promise.detection + promise.recovery + promise.attempt + Duration::from_secs(1) + chance + wait;
        self.spells.iter().fold(due + allowance, |bound, spell| {
            if spell.began > bound {
                return bound;
            }
            let from_start = spell.kills || (spell.only_latency && spell.ended == NEVER);
            let cause = if from_start { spell.began } else { spell.ended };
            bound.max(cause + allowance)
        })
    }

    /// By when a client has failed all that is durable, because nothing at all could pass for too long; the first such moment
    /// for what was due at `due`.
    pub fn severed_bound(&self, promise: &Promise, due: Time) -> Option<Time> {
        self.severed.iter().filter(|(_, until)| *until > due).find_map(|&(from, until)| {
            let held = self.spells.iter().filter(|spell| !spell.kills && spell.began <= until && spell.ended >= from);
            let cause = held.map(|spell| spell.ended).fold(from.max(due), Time::max);
            let chance = promise.chance(self.worst_latency(Time::ZERO, NEVER));
            let bound = cause + promise.detection + promise.recovery + promise.attempt + Duration::from_secs(1) + chance;
            (bound <= until && bound < NEVER).then_some(bound)
        })
    }
}

fn longer(a: (Time, Time), b: (Time, Time)) -> (Time, Time) {
    if b.1.since(b.0) > a.1.since(a.0) { b } else { a }
}

/// The same intervals in order, those with less than `apart` between them (or no moment at all) as one.
fn merged(mut intervals: Vec<(Time, Time)>, apart: Duration) -> Vec<(Time, Time)> {
    intervals.sort_unstable();
    intervals.dedup_by(|next, kept| {
        let joins = next.0 <= kept.1 || next.0.since(kept.1) < apart;
        if joins {
            kept.1 = kept.1.max(next.1);
        }
        joins
    });
    intervals
}

/// The connection that a fault names.
fn conn_of(fault: &Fault) -> Option<&Conn> {
    match fault {
        Fault::Cut { conn, .. }
        | Fault::CutAfter { conn, .. }
        | Fault::Stall { conn, .. }
        | Fault::Blackhole { conn, .. }
        | Fault::DelayClose { conn, .. }
        | Fault::Reset { conn, .. }
        | Fault::Delay { place: Place::Conn(conn), .. }
        | Fault::Slow { place: Place::Conn(conn), .. } => Some(conn),
        _ => None,
    }
}

fn names(name: &Conn, conn: &crate::history::Connection) -> bool {
    name.host == conn.client
        && match name.which {
            Which::Number(_) => name.to_string() == conn.name,
            Which::Generation(generation) => conn.generation == Some(generation),
            Which::Last => true,
        }
}

/// How much latency a fault adds, and whether it does nothing else.
fn latency_of(fault: &Fault) -> (Duration, bool) {
    match fault {
        Fault::Delay { by, .. } => (*by, true),
        Fault::Slow { by: SlowBy { latency, bandwidth, segment, window }, .. } => {
            (latency.unwrap_or_default(), bandwidth.is_none() && segment.is_none() && window.is_none())
        }
        _ => (Duration::ZERO, false),
    }
}
