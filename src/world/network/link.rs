//! The link model: a function that computes the fate of one segment from the active faults and the
//! draws. It only decides; it has no side effects.
//!
//! It models TCP on a bad network. A segment that cannot pass is not lost to its stream, because a
//! real TCP retransmits it. The segment is held until the link is free, and then arrives with the
//! next retransmission. Segments that occupy sequence space (payload, SYN, FIN) and resets stay in
//! order within their direction. A bare acknowledgement can overtake them.

use std::time::Duration;

use crate::history::{ConnIndex, Flags, Side, Time};
use crate::schedule::fault::segment::{Leaving, LinkEffects, Passing, retransmission_delay};
use crate::schedule::keyed;
use crate::world::thread::HostIx;

use super::conns::Conns;
use super::faults::ActiveFault;

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

    /// Returns the host to which the segment goes.
    fn toward(&self, conns: &Conns) -> HostIx {
        conns.get(self.conn).host(self.from.other())
    }

    /// Returns the segment as faults see it.
    fn passing(&self, leaving: Option<Leaving>) -> Passing {
        let closes = self.flags.fin || self.flags.rst;
        Passing { opens: self.opens(), handshake: self.flags.syn, closes, leaving }
    }
}

/// Computes the combined effects of the active faults on a segment.
pub(in crate::world) fn effects(
    faults: &[ActiveFault],
    conns: &Conns,
    segment: Segment,
    leaving: Option<Leaving>,
) -> LinkEffects {
    let mut effects = LinkEffects::default();
    let (passing, toward) = (segment.passing(leaving), segment.toward(conns));
    for fault in faults.iter().filter(|fault| fault.touches(conns, segment.conn, toward)) {
        fault.pass(passing, &mut effects);
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
    let toward = segment.toward(conns);
    let touching = faults.iter().filter(|fault| fault.touches(conns, segment.conn, toward));
    let slow = touching.filter_map(|fault| {
        let mut effects = LinkEffects::default();
        fault.pass(segment.passing(None), &mut effects);
        let until = fault.until.map_or(u64::MAX, |until| until.0.saturating_mul(1_000));
        Some((effects.bandwidth?.max(1), until))
    });
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

/// Returns the time of the next retransmission, at `now` or later, of a segment that was first lost
/// at `lost`.
pub(in crate::world) fn next_try(lost: Time, now: Time, opening: bool) -> Time {
    let mut at = lost;
    for n in 0.. {
        at = at + retransmission_delay(n, opening);
        if at >= now {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::fault::segment::retransmission_limit;

    #[test]
    fn tcp_gives_up_as_late_as_on_linux() {
        let limits = [false, true].map(|opening| retransmission_limit(opening).as_millis());
        assert_eq!(limits, [924_600, 127_000]);
    }

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
