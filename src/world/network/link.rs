//! The link model: a function that computes the fate of one segment from the active faults and the
//! draws. It only decides; it has no side effects.
//!
//! It models TCP on a bad network. A segment that cannot pass is not lost to its stream, because a
//! real TCP retransmits it. The segment is held until the link is free, and then arrives with the
//! next retransmission. Segments that occupy sequence space (payload, SYN, FIN) and resets stay in
//! order within their direction. A bare acknowledgement can overtake them.

use std::time::Duration;

use crate::history::{ConnIndex, Flags, Side, Time};
use crate::schedule::keyed;

use super::conns::Conns;
use super::faults::{ActiveFault, FaultAction};

/// The properties of a segment that the link model uses.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) struct Segment {
    pub conn: ConnIndex,
    pub from: Side,
    pub flags: Flags,
    pub len: usize,
    /// Whether it is the acknowledgement that completes the handshake. It must not be overtaken:
    /// the receiver would discard data that comes before it.
    pub completes: bool,
}

impl Segment {
    /// Returns whether the segment must stay in order within its direction: it occupies sequence
    /// space, completes the handshake, or resets the connection.
    pub fn in_order(&self) -> bool {
        self.len > 0 || self.completes || self.flags.syn || self.flags.fin || self.flags.rst
    }

    /// Returns whether the segment opens a connection.
    pub fn opens(&self) -> bool {
        self.flags.syn && !self.flags.ack
    }
}

/// The combined effects of the active faults on a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::world) struct Effects {
    /// Whether the segment cannot pass.
    pub blocked: bool,
    /// The additional latency.
    pub extra: Duration,
    /// The bandwidth in bytes per second.
    pub bandwidth: Option<u64>,
    /// The largest segment, in bytes.
    pub segment: Option<u64>,
    /// The largest window that the receiver of the opposite direction may advertise.
    pub window: Option<u64>,
    /// The fate of a new connection.
    pub opening: SynFate,
}

/// The fate of a SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::world) enum SynFate {
    #[default]
    Passes,
    Refused,
    AcceptedThenClosed,
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

/// Computes the combined effects of the active faults on a segment.
pub(in crate::world) fn effects(
    faults: &[ActiveFault],
    conns: &Conns,
    segment: Segment,
) -> Effects {
    let mut effects = Effects::default();
    let conn = conns.get(segment.conn);
    let toward = conn.host(segment.from.other());
    for fault in faults.iter().filter(|fault| fault.touches(conns, segment.conn, toward)) {
        match fault.kind {
            FaultAction::Block => effects.blocked = true,
            FaultAction::Delay(by) => effects.extra += by,
            FaultAction::DelayClose(by) if segment.flags.fin || segment.flags.rst => {
                effects.extra += by
            }
            FaultAction::Slow(by) => {
                effects.extra += by.latency.unwrap_or_default();
                effects.bandwidth = least(effects.bandwidth, by.bandwidth);
                effects.segment = least(effects.segment, by.segment);
                effects.window = least(effects.window, by.window);
            }
            FaultAction::Hang if segment.opens() => effects.blocked = true,
            FaultAction::Refuse if segment.opens() => effects.opening = SynFate::Refused,
            FaultAction::AcceptThenClose if segment.opens() => {
                effects.opening = SynFate::AcceptedThenClosed
            }
            _ => {}
        }
    }
    effects
}

/// Returns the time at which the last byte of a segment has passed a link that was free at
/// `starts`. Both times are in microseconds.
///
/// When the fault expires, the rest of a segment on a slow link continues at full speed.
pub(in crate::world) fn through(
    faults: &[ActiveFault],
    conns: &Conns,
    segment: Segment,
    starts: u64,
) -> u64 {
    let toward = conns.get(segment.conn).host(segment.from.other());
    let slow = faults.iter().filter(|fault| fault.touches(conns, segment.conn, toward)).filter_map(
        |fault| match fault.kind {
            FaultAction::Slow(by) => Some((
                by.bandwidth?.max(1),
                fault.until.map_or(u64::MAX, |until| until.0.saturating_mul(1_000)),
            )),
            _ => None,
        },
    );
    // The unit is a millionth of a byte, so a rate per second is also a rate per microsecond.
    let (mut at, mut left) = (starts, segment.len as u64 * 1_000_000);
    loop {
        let still = slow.clone().filter(|(_, until)| *until > at);
        let (Some(rate), Some(until)) =
            (still.clone().map(|(rate, _)| rate).min(), still.map(|(_, until)| until).min())
        else {
            return at;
        };
        let takes = left.div_ceil(rate);
        if at.saturating_add(takes) <= until {
            return at + takes;
        }
        left -= (until - at) * rate;
        at = until;
    }
}

/// Draws the latency of the n-th segment of a direction from the plan's range.
pub(in crate::world) fn latency(
    seed: u64,
    range: (Duration, Duration),
    conn: ConnIndex,
    from: Side,
    n: u64,
) -> Duration {
    let (least, most) = (range.0.as_millis() as u64, range.1.as_millis() as u64);
    let drawn = if least >= most {
        0
    } else {
        keyed::below(seed, "latency", &[conn.0 as u64, from as u64, n], most - least + 1)
    };
    Duration::from_millis((least + drawn).max(1))
}

/// Returns the rank of a direction's arrivals within a millisecond. The order of the links is
/// drawn; each link stays in order.
pub(in crate::world) fn rank(seed: u64, conn: ConnIndex, from: Side, at: Time) -> u32 {
    1 + (keyed::mixed(seed, "rank", &[conn.0 as u64, from as u64, at.0]) & 0xffff) as u32
}

/// Returns whether packets come before timers in a millisecond.
pub(in crate::world) fn packets_first(
    seed: u64,
    order: crate::schedule::TieOrder,
    at: Time,
) -> bool {
    use crate::schedule::TieOrder;
    match order {
        TieOrder::Drawn => keyed::mixed(seed, "order", &[at.0]) & 1 == 0,
        TieOrder::PacketsFirst => true,
        TieOrder::TimersFirst => false,
    }
}

/// The delay of the first retransmission, in milliseconds: of a lost segment, and of a lost SYN.
/// Each further delay is twice as long.
const FIRST_RETRY: (u64, u64) = (200, 1_000);

/// The longest delay between two retransmissions, in milliseconds.
const LONGEST_RETRY: u64 = 120_000;

/// Returns the time of the next retransmission, at `now` or later, of a segment that was first lost
/// at `lost`.
pub(in crate::world) fn next_try(lost: Time, now: Time, opening: bool) -> Time {
    let mut wait = if opening { FIRST_RETRY.1 } else { FIRST_RETRY.0 };
    let mut at = lost.0 + wait;
    while at < now.0 {
        wait = (wait * 2).min(LONGEST_RETRY);
        at += wait;
    }
    Time(at)
}

/// Returns how long TCP retransmits before it gives up a connection: 15 retransmissions of a
/// segment, 6 of a SYN (`tcp_retries2` and `tcp_syn_retries` of Linux).
pub(in crate::world) fn retransmission_limit(opening: bool) -> Duration {
    Duration::from_millis(if opening { 127_000 } else { 924_600 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retransmissions_back_off_from_200_ms() {
        let tries: Vec<_> =
            [0, 200, 201, 601, 1401].map(|now| next_try(Time(0), Time(now), false).0).into();
        assert_eq!(tries, [200, 200, 600, 1400, 3000]);
        assert_eq!(next_try(Time(0), Time(1_001), true).0, 3_000);
    }

    #[test]
    fn latency_stays_in_its_range_and_depends_on_the_segment() {
        let range = (Duration::from_millis(5), Duration::from_millis(9));
        let drawn: Vec<_> =
            (0..50).map(|n| latency(1, range, ConnIndex(0), Side::Client, n).as_millis()).collect();
        assert!(drawn.iter().all(|ms| (5..=9).contains(ms)));
        assert!(drawn.iter().any(|ms| *ms != drawn[0]));
        assert_eq!(
            latency(1, (Duration::ZERO, Duration::ZERO), ConnIndex(0), Side::Client, 1).as_millis(),
            1
        );
    }
}
