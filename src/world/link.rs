//! The link model: what the faults in force and the draws make of one segment. A function over data: it decides, and does nothing.
//!
//! It is the TCP of a bad network. A segment that cannot pass is not lost to its stream: a real TCP retransmits, so it is held
//! until the way is free, and then comes with the next retransmission. Segments that occupy sequence space (payload, SYN, FIN)
//! and resets stay in order in their direction; a bare acknowledgement overtakes them.

use std::time::Duration;

use crate::history::{ConnIndex, Flags, Side, Time};
use crate::schedule::keyed;

use super::conns::Conns;
use super::faults::{ActiveFault, FaultAction};
use super::local::HostIx;

/// What is to be decided about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub conn: ConnIndex,
    pub from: Side,
    pub flags: Flags,
    pub len: usize,
    /// Whether it is the acknowledgement that completes the handshake: data that overtook it would be thrown away.
    pub completes: bool,
}

impl Segment {
    /// Whether it must stay in order in its direction: it occupies sequence space, or ends the connection.
    pub fn in_order(&self) -> bool {
        self.len > 0 || self.completes || self.flags.syn || self.flags.fin || self.flags.rst
    }

    /// Whether it opens a connection.
    pub fn opens(&self) -> bool {
        self.flags.syn && !self.flags.ack
    }
}

/// What the faults in force do to a segment, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// It cannot pass.
    pub blocked: bool,
    /// It takes so much longer.
    pub extra: Duration,
    /// So many bytes pass in a second.
    pub bandwidth: Option<u64>,
    /// So many bytes fit into a segment.
    pub segment: Option<u64>,
    /// What the receiver of the opposite direction advertises at most.
    pub window: Option<u64>,
    /// What becomes of a new connection.
    pub opening: SynFate,
}

/// What becomes of a SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SynFate {
    #[default]
    Passes,
    Refused,
    AcceptedThenClosed,
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

/// What the faults in force do to a segment.
pub(super) fn effects(faults: &[ActiveFault], conns: &Conns, segment: Segment) -> Effects {
    let mut effects = Effects::default();
    let conn = conns.look(segment.conn);
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

/// When the last byte of a segment is through a link that was free at `starts`, both in microseconds: what waits in front of a
/// slow link goes on at full speed when the fault's time is up.
pub(super) fn through(faults: &[ActiveFault], conns: &Conns, segment: Segment, starts: u64) -> u64 {
    let toward = conns.look(segment.conn).host(segment.from.other());
    let slow = faults.iter().filter(|fault| fault.touches(conns, segment.conn, toward)).filter_map(
        |fault| match fault.kind {
            FaultAction::Slow(by) => Some((
                by.bandwidth?.max(1),
                fault.until.map_or(u64::MAX, |until| until.0.saturating_mul(1_000)),
            )),
            _ => None,
        },
    );
    // In millionths of a byte, so that a rate a second is a rate a microsecond.
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

/// The latency of the n-th segment of a direction, between the two ends of the plan's range.
pub(super) fn latency(
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

/// The rank of a direction's arrivals in a millisecond: links come in a drawn order, and each stays in order in itself.
pub(super) fn rank(seed: u64, conn: ConnIndex, from: Side, at: Time) -> u32 {
    1 + (keyed::mixed(seed, "rank", &[conn.0 as u64, from as u64, at.0]) & 0xffff) as u32
}

/// Whether, in a millisecond, packets come before timers.
pub(super) fn packets_first(seed: u64, order: crate::schedule::TieOrder, at: Time) -> bool {
    use crate::schedule::TieOrder;
    match order {
        TieOrder::Drawn => keyed::mixed(seed, "order", &[at.0]) & 1 == 0,
        TieOrder::PacketsFirst => true,
        TieOrder::TimersFirst => false,
    }
}

/// After how long the first retransmission of a lost segment, and of a lost SYN, is tried; each further one after twice as long.
const FIRST_RETRY: (u64, u64) = (200, 1_000);

/// The longest time between two retransmissions.
const LONGEST_RETRY: u64 = 120_000;

/// The moment at which TCP tries again what was first lost at `lost`, at `now` or next after it.
pub(super) fn next_try(lost: Time, now: Time, opening: bool) -> Time {
    let mut wait = if opening { FIRST_RETRY.1 } else { FIRST_RETRY.0 };
    let mut at = lost.0 + wait;
    while at < now.0 {
        wait = (wait * 2).min(LONGEST_RETRY);
        at += wait;
    }
    Time(at)
}

/// How long TCP tries before it gives a connection up: 15 retransmissions of a segment, 6 of a SYN (`tcp_retries2` and
/// `tcp_syn_retries` of Linux).
pub(super) fn patience(opening: bool) -> Duration {
    Duration::from_millis(if opening { 127_000 } else { 924_600 })
}

/// The pair of hosts of a link, in either order.
pub(super) fn same_link(a: (HostIx, HostIx), b: (HostIx, HostIx)) -> bool {
    a == b || a == (b.1, b.0)
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
