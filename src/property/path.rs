//! Paths: when the connection between a client's user and a server's outside world was faulty.
//!
//! A path consists of a client host and the server hosts that can lead to the producer of a stream
//! or call. A fault touches the path if its scope includes one of these hosts, a link between two
//! of them, or a connection between two of them. All of this comes from the faults as the world
//! executed them, never from what the protocol noticed.
//!
//! A fault on a connection counts only while it can have an effect there (`interval`): from the
//! opening of the connection, and for a `cut-after` from when it struck.

use std::time::Duration;

use crate::history::{ConnIndex, EventKind, History, Nature, Scope, Time};
use crate::schedule::fault::effect::{Effect, Place};
use crate::schedule::{Fault, Plan};

use super::Guarantees;

mod interval;
mod terms;

use interval::FaultInterval;
pub use interval::{conns_of, span_on};
pub use terms::MARGIN;

/// A time after every run: the end of an interval that never ended.
pub const NEVER: Time = Time(u64::MAX);

/// The minimum number of bytes that pass in one round trip.
const WINDOW: u64 = 32 << 10;

/// Returns the maximum transfer time of this many bytes over a link with this latency: one round
/// trip for each window. The latency of the bytes themselves is not included.
pub fn through(bytes: u64, latency: Duration) -> Duration {
    latency.saturating_mul(2).saturating_mul(u32::try_from(bytes / WINDOW).unwrap_or(u32::MAX))
}

/// A fault that was in force, according to its entries.
#[derive(Clone, Copy, Debug)]
pub struct FaultSpan<'a> {
    /// The number of the fault in the history.
    pub number: usize,
    /// The start.
    pub began: Time,
    /// The end; [`NEVER`] if it did not end.
    pub ended: Time,
    /// The kind of effect.
    pub nature: Nature,
    /// The fault.
    pub what: &'a Fault,
    /// The hosts, links and connections that the fault affects.
    pub scope: &'a Scope,
}

/// An interval in which a host was dead.
#[derive(Clone, Copy, Debug)]
pub struct Down<'a> {
    /// The host.
    pub host: &'a str,
    /// The start.
    pub from: Time,
    /// The end; [`NEVER`] if the host was not started again.
    pub until: Time,
}

/// A path, with the effects of all faults on it.
#[derive(Debug)]
pub struct Path<'a> {
    /// The client host.
    pub client: &'a str,
    /// The server hosts.
    pub servers: Vec<&'a str>,
    /// Whether one of its servers is a puppet. The history then has no ground truth about it.
    pub puppet: bool,
    /// When a fault last changed a message on it.
    pub tampered: Option<Time>,
    /// Total number of bytes in the user's streams. Includes streams that reach users only in
    /// answers, and the [overhead](Guarantees::around) of the items.
    pub load: u64,
    /// The times at which one of its servers died.
    pub deaths: Vec<Time>,
    /// The faults, sorted by start.
    fault_intervals: Vec<FaultInterval>,
    /// The intervals in which the path was faulty: disjoint, in order.
    faulty: Vec<(Time, Time)>,
    /// The intervals in which nothing at all could pass: disjoint, in order.
    severed: Vec<(Time, Time)>,
    /// The worst latency without faults.
    latency: Duration,
}

impl<'a> Path<'a> {
    /// Returns whether one of its ends saw a peer that breaks the protocol, or may have.
    pub fn has_false_peer(&self) -> bool {
        self.puppet || self.tampered.is_some()
    }

    /// Returns whether a fault changed a message on it at a time or later.
    pub fn is_tampered_since(&self, at: Time) -> bool {
        self.tampered.is_some_and(|last| last >= at)
    }

    /// Computes the path between a client and servers, under the faults of a run.
    pub fn new(
        client: &'a str,
        servers: Vec<&'a str>,
        plan: &Plan,
        history: &History,
        faults: &[FaultSpan<'_>],
        downs: &[Down<'_>],
    ) -> Self {
        let puppet = plan.has_puppet(&servers);
        let latency = plan.latency.1;
        let (deaths, fault_intervals, faulty, severed) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut path = Path {
            client,
            servers,
            puppet,
            tampered: None,
            load: 0,
            deaths,
            fault_intervals,
            faulty,
            severed,
            latency,
        };
        if plan.has_tampering() {
            path.tampered = path.last_tampered(history);
        }
        for fault in faults {
            if let Some(interval) = FaultInterval::of(fault, history, |host| path.has(host)) {
                path.fault_intervals.push(interval);
                path.add_severing(fault, plan);
            }
        }
        for down in downs {
            if path.has(down.host) {
                path.add_down(down);
            }
        }
        path.severed = merged(std::mem::take(&mut path.severed), Duration::ZERO);
        path.sort();
        path
    }

    /// Sorts the fault intervals, and merges them.
    fn sort(&mut self) {
        self.fault_intervals.sort_by_key(|interval| interval.began);
        self.faulty = merged(
            self.fault_intervals.iter().map(|interval| (interval.began, interval.ended)).collect(),
            Duration::ZERO,
        );
    }

    /// Adds the intervals in which a server has no place for the client: see [`full_intervals`] and
    /// [`Guarantees::no_room`]. They hold the client like a fault.
    pub fn wait_for_places(&mut self, full: Vec<(Time, Time)>) {
        self.fault_intervals.extend(full.into_iter().map(|(began, ended)| FaultInterval {
            began,
            ended,
            kills: false,
            latency: Duration::ZERO,
            cause: ended,
        }));
        self.sort();
    }

    fn has(&self, host: &str) -> bool {
        self.client == host || self.servers.contains(&host)
    }

    fn add_severing(&mut self, fault: &FaultSpan<'_>, plan: &Plan) {
        // In the history, a partition ends when all packets that it held have arrived. New
        // connections pass earlier, so the path is severed only for the partition's own duration.
        if let Effect::Link { place: Place::Link(..), toward: None, lasts, nature: Nature::Kills } =
            fault.what.effect()
            && self.servers.len() == 1
        {
            let lasted = lasts.map_or(NEVER, |lasts| fault.began + lasts);
            let healed = if plan.heal.is_zero() {
                NEVER
            } else {
                plan.horizon.saturating_sub(plan.heal).into()
            };
            self.severed.push((fault.began, fault.ended.min(lasted).min(healed)));
        }
    }

    /// Returns when a fault last changed a message on it.
    fn last_tampered(&self, history: &History) -> Option<Time> {
        let is_own = |conn: ConnIndex| {
            let conn = &history.conns[conn.0];
            self.has(conn.client.as_str()) && self.has(conn.server.as_str())
        };
        let mut changes = history.events.iter().rev().filter_map(|event| match event.what {
            EventKind::Tampered { conn, .. } if is_own(conn) => Some(event.at),
            _ => None,
        });
        changes.next()
    }

    fn add_down(&mut self, down: &Down<'_>) {
        let (began, ended) = (down.from, down.until);
        self.fault_intervals.push(FaultInterval {
            began,
            ended,
            kills: true,
            latency: Duration::ZERO,
            cause: began,
        });
        if down.host != self.client {
            self.severed.push((began, ended));
            self.deaths.push(began);
        }
    }

    /// Returns whether a fault was in force on the path at any time from `from` to `to`, inclusive.
    pub fn is_touched(&self, from: Time, to: Time) -> bool {
        self.faulty.iter().any(|(began, ended)| *began <= to && *ended >= from)
    }

    /// Returns the longest fault-free interval between two times.
    pub fn longest_calm(&self, from: Time, to: Time) -> (Time, Time) {
        longest_gap(&self.faulty, from, to)
    }

    /// Returns the intervals in which the path was faulty, or in which one of these `others` held the
    /// user: disjoint, in order.
    pub fn faulty_or(&self, others: Vec<(Time, Time)>) -> Vec<(Time, Time)> {
        merged([self.faulty.clone(), others].concat(), Duration::ZERO)
    }

    /// Returns the faulty intervals, and merges those with less than `apart` between them, because
    /// no client can recover in between.
    pub fn outages(&self, apart: Duration) -> Vec<(Time, Time)> {
        merged(self.faulty.clone(), apart)
    }

    /// Returns the intervals in which the path was faulty: disjoint, in order.
    pub fn faulty(&self) -> &[(Time, Time)] {
        &self.faulty
    }

    /// Returns when each fault began, also if another one was in force.
    pub fn fault_begins(&self) -> impl Iterator<Item = Time> {
        self.fault_intervals.iter().map(|interval| interval.began)
    }

    /// Returns the longest one-way latency of a packet at any time from `from` to `to`: the latency
    /// of the plan, plus the latency that faults add.
    pub fn worst_latency(&self, from: Time, to: Time) -> Duration {
        let slow = || {
            self.fault_intervals.iter().filter(|interval| {
                !interval.latency.is_zero() && interval.began <= to && interval.ended >= from
            })
        };
        // The total of the faults in force can rise only at the start of a fault.
        let at = |moment: Time| {
            slow()
                .filter(|s| s.began <= moment && s.ended >= moment)
                .map(|s| s.latency)
                .sum::<Duration>()
        };
        self.latency + slow().map(|interval| at(interval.began.max(from))).max().unwrap_or_default()
    }

    /// Returns `A`: the shortest fault-free interval between two times in which a client is sure to
    /// reconnect and catch up with everything. It is [`Guarantees::recovery_window`], plus one
    /// round trip for each 32 KiB of the path's streams, at the worst latency in force.
    pub fn recovery_window(&self, guarantees: &Guarantees, from: Time, to: Time) -> Duration {
        let latency = self.worst_latency(from, to);
        guarantees.recovery_window(latency).saturating_add(through(self.load, latency))
    }

    /// Returns the time from the cause of a delay until everything that was due must have ended.
    pub(super) fn allowance(&self, guarantees: &Guarantees) -> Duration {
        guarantees.detection
            + guarantees.recovery
            + guarantees.attempt
            + MARGIN
            + self.recovery_window(guarantees, Time::ZERO, NEVER)
    }

    /// Returns the latest time at which something that was due at `due` must end for its user, if
    /// it has an additional `wait`. The bound is the cause plus detection, recovery, one attempt's
    /// time-out, 1 s and `wait`. The cause is the latest of: `due`, the start of the last fault
    /// that killed, and the end of the last fault that slowed or held.
    ///
    /// [`A`](Path::recovery_window) of the whole run is added for times that the deadlines do not
    /// include: the pause during which a deadline is noticed, and the packet latency, from the last
    /// packet affected by the cause (detection counts from its arrival) to the last packet of the
    /// catch-up.
    ///
    /// A fault moves the bound only if it began before the bound: an ending that was late before a
    /// fault stays late. A fault that only adds latency and never ends counts from its start,
    /// because `A` includes it. If the client never gives up, a fault that killed also counts until
    /// its end. Returns [`NEVER`] if something holds the path forever.
    pub fn bound(&self, guarantees: &Guarantees, due: Time, wait: Duration) -> Time {
        let allowance = self.allowance(guarantees) + wait;
        self.fault_intervals.iter().fold(due + allowance, |bound, interval| {
            if interval.began > bound {
                return bound;
            }
            let cause = if guarantees.gives_up {
                interval.cause
            } else {
                interval.cause.max(interval.ended)
            };
            bound.max(cause + allowance)
        })
    }

    /// Returns the time by which a client must fail all durable streams and calls, because nothing
    /// at all could pass for too long. Returns the first such time for something that was due at
    /// `due`.
    pub fn severed_bound(&self, guarantees: &Guarantees, due: Time) -> Option<Time> {
        if !guarantees.gives_up {
            return None;
        }
        self.severed.iter().filter(|(_, until)| *until > due).find_map(|&(from, until)| {
            let held = self.fault_intervals.iter().filter(|interval| {
                !interval.kills && interval.began <= until && interval.ended >= from
            });
            let cause = held.map(|interval| interval.ended).fold(from.max(due), Time::max);
            let bound = cause + self.allowance(guarantees);
            (bound <= until && bound < NEVER).then_some(bound)
        })
    }
}

/// Returns the intervals in which a server that accepts this many connections has no place for a
/// client: other clients have them, or further connections of the same client, whose names have a
/// label (`client/second#1`). An interval that did not end ends at [`NEVER`].
pub fn full_intervals(history: &History, client: &str, connections: usize) -> Vec<(Time, Time)> {
    let others =
        history.conns.iter().filter(|conn| conn.client.as_str() != client || conn.is_labelled());
    let others = others.map(|conn| (conn.opened, conn.over.1.unwrap_or(NEVER), 1));
    crowded(others, connections as u64)
}

/// Requests of one call.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    /// When the call was made.
    pub asked: Time,
    /// When the last of them was answered; [`NEVER`] if one was not.
    pub answered: Time,
    /// Their number.
    pub count: u64,
}

/// Returns until when others may hold a call that was made at this time: the end of the last interval
/// in which at least `most` of their requests had no answer. `None` if there is none from then on.
pub fn turn_behind(at: Time, others: impl Iterator<Item = Requests>, most: u64) -> Option<Time> {
    let others = others.map(|other| (other.asked, other.answered, other.count));
    crowded(others, most).last().map(|(_, over)| *over).filter(|over| *over >= at)
}

/// Returns the intervals in which these intervals, each with its weight, weigh at least `many`:
/// disjoint, in order.
pub fn crowded(
    intervals: impl IntoIterator<Item = (Time, Time, u64)>,
    many: u64,
) -> Vec<(Time, Time)> {
    let changes = intervals.into_iter().flat_map(|(from, to, weight)| {
        let weight = i128::from(weight);
        [(from, weight), (to, -weight)]
    });
    let mut changes: Vec<(Time, i128)> = changes.collect();
    changes.sort_unstable();
    // An interval that is over as it begins is counted out first.
    let (mut open, mut full) = (0, Vec::new());
    let mut since = None;
    for (at, change) in changes {
        open += change;
        match since {
            None if open >= i128::from(many) => since = Some(at),
            Some(began) if open < i128::from(many) => {
                full.push((began, at));
                since = None;
            }
            _ => {}
        }
    }
    full
}

/// Returns the longest interval between two times that lies in none of these intervals.
pub fn longest_gap(intervals: &[(Time, Time)], from: Time, to: Time) -> (Time, Time) {
    let mut longest = (from, from);
    let mut calm_since = from;
    for &(began, ended) in intervals.iter().filter(|(began, ended)| *ended >= from && *began <= to)
    {
        longest = longer(longest, (calm_since, began));
        calm_since = calm_since.max(ended);
    }
    longer(longest, (calm_since, to))
}

fn longer(a: (Time, Time), b: (Time, Time)) -> (Time, Time) {
    if b.1.since(b.0) > a.1.since(a.0) { b } else { a }
}

/// Sorts the intervals, and merges those that overlap, touch, or have less than `apart` between
/// them.
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

#[cfg(test)]
mod tests {
    use super::super::scripted::{BOUND, history};

    #[test]
    fn the_overhead_of_many_items_adds_transfer_time() {
        // 512 items of 1 byte with 63 bytes of overhead each fill one window: a round trip of 40
        // ms.
        let items = (0..512)
            .fold(history().opened("s1", 1, 0), |scripted, _| scripted.produced("s1", 1_000, "x"));
        let ended = items.ended("s1", 2_000, "total 512");
        let late = |ms: u64, around: u64| {
            let scripted = ended.clone().completed("s1", 2_000 + BOUND + ms, "total 512");
            scripted.guarantees(|guarantees| guarantees.around = around)
        };
        assert_eq!(late(1, 0).violations("bounded_ending").len(), 1);
        assert_eq!(late(1, 62).violations("bounded_ending").len(), 1);
        late(40, 63).holds("bounded_ending");
        assert_eq!(late(41, 63).violations("bounded_ending").len(), 1);
    }

    #[test]
    fn the_bound_of_a_client_that_never_gives_up_includes_the_whole_outage() {
        let scripted = history()
            .opened("s1", 1, 0)
            .ended("s1", 2_000, "total 0")
            .partition(1_000, Some(200_000));
        let done = |ms| scripted.clone().completed("s1", ms, "total 0");
        assert_eq!(done(190_000).violations("bounded_ending").len(), 1);
        let patient = |ms: u64| done(ms).guarantees(|guarantees| guarantees.gives_up = false);
        patient(200_000 + BOUND).holds("bounded_ending");
        assert_eq!(patient(200_001 + BOUND).violations("bounded_ending").len(), 1);
    }
}
