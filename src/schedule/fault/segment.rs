//! The effects of faults of connections and links on one segment.

use std::time::Duration;

use crate::schedule::keyed;

/// A segment on its way, as a fault sees it.
#[derive(Clone, Copy, Debug)]
pub struct Passing {
    /// Whether it opens a connection: a SYN without an ACK.
    pub opens: bool,
    /// Whether it belongs to the handshake: a SYN, with or without an ACK.
    pub handshake: bool,
    /// Whether it closes one: a FIN or an RST.
    pub closes: bool,
    /// Set when the segment leaves. It is not set when the network asks whether a segment that left
    /// earlier can pass.
    pub leaving: Option<Leaving>,
}

/// A segment that leaves a host.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// The current time, counted from the start of the world.
    pub now: Duration,
    /// When the fault began.
    pub since: Duration,
    /// When the fault ends, if this is known beforehand.
    pub until: Option<Duration>,
    /// The seed of the run.
    pub seed: u64,
    /// The connection, the direction, and the number of the segment in it.
    pub key: [u64; 3],
}

impl Leaving {
    /// Draws a number below `bound` for this segment. `n` numbers the draws of a segment.
    pub fn below(&self, what: &str, n: u64, bound: u64) -> u64 {
        let [conn, from, number] = self.key;
        keyed::below(self.seed, what, &[conn, from, number, n], bound)
    }
}

/// The delay of the first retransmission, in milliseconds: of a lost segment, and of a lost SYN.
/// Each further delay is twice as long.
const FIRST_RETRY: (u64, u64) = (200, 1_000);

/// The longest delay between two retransmissions, in milliseconds.
const LONGEST_RETRY: u64 = 120_000;

/// How often TCP sends a segment again before it gives up: of a segment, and of a SYN
/// (`tcp_retries2` and `tcp_syn_retries` of Linux).
const RETRIES: (u32, u32) = (15, 6);

/// Returns how long TCP waits for an acknowledgement after it has sent a segment for the n-th time,
/// counted from 0.
pub fn retransmission_delay(n: u32, handshake: bool) -> Duration {
    let first = if handshake { FIRST_RETRY.1 } else { FIRST_RETRY.0 };
    Duration::from_millis(first.saturating_mul(1 << n.min(32)).min(LONGEST_RETRY))
}

/// Returns when TCP sends a lost segment, counted from the first time, which is included.
pub fn transmissions(handshake: bool) -> impl Iterator<Item = Duration> {
    let tries = if handshake { RETRIES.1 } else { RETRIES.0 };
    let mut at = Duration::ZERO;
    (0..=tries).map(move |n| {
        let next = at + retransmission_delay(n, handshake);
        std::mem::replace(&mut at, next)
    })
}

/// Returns how long TCP retransmits before it gives up a connection.
pub fn retransmission_limit(handshake: bool) -> Duration {
    let tries = if handshake { RETRIES.1 } else { RETRIES.0 };
    (0..=tries).map(|n| retransmission_delay(n, handshake)).sum()
}

/// The combined effects of the faults in force on a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkEffects {
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
pub enum SynFate {
    /// It passes.
    #[default]
    Passes,
    /// It is answered with an RST.
    Refused,
    /// The network accepts the connection and closes it.
    AcceptedThenClosed,
}
