//! Paths: when the way between a client's user and a server's outside world was faulty.
//!
//! A path is a client host and the server hosts behind which a stream or call has its producer. A fault touches it if one of its
//! hosts, a link between two of them, or a connection between two of them is in the fault's scope. All of it comes from the
//! schedule's faults as the world carried them out, never from what the protocol noticed.
//!
//! A fault on a connection counts only while it can do something there (`interval`): from the opening of that on, and a
//! `cut-after` from when it struck.

use std::time::Duration;

use crate::history::{History, Nature, Scope, Time};
use crate::schedule::{Fault, Plan};

use super::Guarantees;

mod interval;

use interval::FaultInterval;
pub use interval::conns_of;

/// A moment after every run: the end of what never ended.
pub const NEVER: Time = Time(u64::MAX);

/// The bytes that pass within one way there and back, at least.
const WINDOW: u64 = 32 << 10;

/// How long so many bytes take at most, over a link with this latency, besides their latency itself: a way there and back for each
/// window of them.
pub fn through(bytes: u64, latency: Duration) -> Duration {
    latency.saturating_mul(2).saturating_mul(u32::try_from(bytes / WINDOW).unwrap_or(u32::MAX))
}

/// A fault that was in force, as its entries tell.
#[derive(Clone, Copy, Debug)]
pub struct FaultSpan<'a> {
    /// The number of the fault in the history.
    pub number: usize,
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

/// A path, with all that faults did to it.
#[derive(Debug)]
pub struct Path<'a> {
    /// The client host.
    pub client: &'a str,
    /// The server hosts.
    pub servers: Vec<&'a str>,
    /// Whether a server of it is a puppet.
    pub puppet: bool,
    /// How many bytes the streams of its user have in all, with those that come to somebody in answers, and with what stands
    /// [around](Guarantees::around) their items.
    pub load: u64,
    /// When a server of it died.
    pub deaths: Vec<Time>,
    /// The faults, by their begin.
    fault_intervals: Vec<FaultInterval>,
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
            load: 0,
            deaths,
            fault_intervals,
            faulty,
            severed,
            latency,
        };
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
        path.fault_intervals.sort_by_key(|interval| interval.began);
        path.faulty = merged(
            path.fault_intervals.iter().map(|interval| (interval.began, interval.ended)).collect(),
            Duration::ZERO,
        );
        path.severed = merged(std::mem::take(&mut path.severed), Duration::ZERO);
        path
    }

    fn has(&self, host: &str) -> bool {
        self.client == host || self.servers.contains(&host)
    }

    fn add_severing(&mut self, fault: &FaultSpan<'_>, plan: &Plan) {
        // How long it really severs: it is over only when what it held has arrived, but new connections pass before.
        if let Fault::Partition { toward: None, lasts, .. } = fault.what
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

    /// Whether a fault was in force on it at some moment from `from` to `to`, both included.
    pub fn is_touched(&self, from: Time, to: Time) -> bool {
        self.faulty.iter().any(|(began, ended)| *began <= to && *ended >= from)
    }

    /// The longest interval without a fault between two moments.
    pub fn longest_calm(&self, from: Time, to: Time) -> (Time, Time) {
        let mut longest = (from, from);
        let mut calm_since = from;
        for &(began, ended) in
            self.faulty.iter().filter(|(began, ended)| *ended >= from && *began <= to)
        {
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
        let slow = || {
            self.fault_intervals.iter().filter(|interval| {
                !interval.latency.is_zero() && interval.began <= to && interval.ended >= from
            })
        };
        // The sum of what is in force rises only where a fault begins.
        let at = |moment: Time| {
            slow()
                .filter(|s| s.began <= moment && s.ended >= moment)
                .map(|s| s.latency)
                .sum::<Duration>()
        };
        self.latency + slow().map(|interval| at(interval.began.max(from))).max().unwrap_or_default()
    }

    /// `A`: how long a fault-free interval between two moments must be for a client to come back in it and to catch up with
    /// everything: [`Guarantees::recovery_window`], and a way there and back for each 32 KiB that the path's streams have in all, at the worst latency
    /// in force.
    pub fn recovery_window(&self, guarantees: &Guarantees, from: Time, to: Time) -> Duration {
        let latency = self.worst_latency(from, to);
        guarantees.recovery_window(latency).saturating_add(through(self.load, latency))
    }

    fn allowance(&self, guarantees: &Guarantees) -> Duration {
        guarantees.detection
            + guarantees.recovery
            + guarantees.attempt
            + Duration::from_secs(1)
            + self.recovery_window(guarantees, Time::ZERO, NEVER)
    }

    /// By when what was due at `due` has ended for its user, with `wait` of its own: the cause, that is the latest of `due`, the
    /// start of the last fault that killed, and the end of the last one that slowed or held, plus detection, recovery, one
    /// attempt's time-out and 1 s.
    ///
    /// [`A`](Path::chance) of the whole run comes on top, for what the deadlines do not count: the pause in which the deadline is noticed,
    /// and the way of the packets, from the last under the cause (detection counts from its arrival) to the last of the catch-up.
    ///
    /// Only a fault that began before the bound moves it: what was late before a fault is late. A fault that only adds latency and
    /// never ends counts from its start, since `A` contains it. Where a client never gives up, a fault that killed counts to its end,
    /// too. [`NEVER`] if something holds the path for ever.
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

    /// By when a client has failed all that is durable, because nothing at all could pass for too long; the first such moment
    /// for what was due at `due`.
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

#[cfg(test)]
mod tests {
    use super::super::scripted::{BOUND, history};

    #[test]
    fn what_stands_around_many_items_takes_time_to_pass() {
        // 512 items of 1 byte are a window with 63 bytes around each of them: 40 ms there and back.
        let items = (0..512)
            .fold(history().opened("s1", 1, 0), |scripted, _| scripted.produced("s1", 1_000, "x"));
        let ended = items.ended("s1", 2_000, "total 512");
        let late = |ms: u64, around: u64| {
            let scripted = ended.clone().completed("s1", 2_000 + BOUND + ms, "total 512");
            scripted.guarantees(|guarantees| guarantees.around = around)
        };
        assert_eq!(late(1, 0).breaks("bounded_ending").len(), 1);
        assert_eq!(late(1, 62).breaks("bounded_ending").len(), 1);
        late(40, 63).holds("bounded_ending");
        assert_eq!(late(41, 63).breaks("bounded_ending").len(), 1);
    }

    #[test]
    fn who_never_gives_up_may_take_as_long_as_it_is_kept_away() {
        let scripted = history()
            .opened("s1", 1, 0)
            .ended("s1", 2_000, "total 0")
            .partition(1_000, Some(200_000));
        let done = |ms| scripted.clone().completed("s1", ms, "total 0");
        assert_eq!(done(190_000).breaks("bounded_ending").len(), 1);
        let patient = |ms: u64| done(ms).guarantees(|guarantees| guarantees.gives_up = false);
        patient(200_000 + BOUND).holds("bounded_ending");
        assert_eq!(patient(200_001 + BOUND).breaks("bounded_ending").len(), 1);
    }
}
