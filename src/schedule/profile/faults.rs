//! What a profile says of faults: how many, of which kinds, aimed at what, and how long they last.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::choice::Choice;
use crate::schedule::{Host, Learns, Side};

/// Which faults come, how many, and aimed at what.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultProfile {
    /// How many faults a plan has.
    pub count: Choice<u64>,
    /// Of how many kinds. A run with a few kinds only gives room to pairs that are rare among many.
    pub kinds: Choice<u64>,
    /// What they are aimed at.
    pub aimed: Aimed,
    /// How often they, and operations that wait for something, are aimed at each milestone and point, by its name. Those that are
    /// left out are never aimed at. Where there is none at all, all are, and every other milestone is one that every connection
    /// reaches.
    pub at: BTreeMap<String, u64>,
    /// The share of faults, from 0 to 1, that come in the wake of the one before: at its moment, or up to three seconds later.
    pub wakes: f64,
    /// The kinds that may come, each with its weight and its fields.
    pub weights: BTreeMap<DrawableFault, FaultShape>,
}

/// The shares of faults that are aimed at a milestone, at a point, and at a time. Only their proportions count. What a
/// subject has none of gets no share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aimed {
    /// After a milestone was reached.
    pub milestone: f64,
    /// After a point was reached.
    pub point: f64,
    /// At a time.
    pub time: f64,
}

impl Default for Aimed {
    fn default() -> Self {
        Self { milestone: 0.6, point: 0.2, time: 0.2 }
    }
}

impl Default for FaultProfile {
    /// None.
    fn default() -> Self {
        Self {
            count: Choice::Fixed(0),
            kinds: Choice::Range(1, 3),
            aimed: Aimed::default(),
            at: BTreeMap::new(),
            wakes: 0.4,
            weights: BTreeMap::new(),
        }
    }
}

impl FaultProfile {
    /// Up to six faults of every kind, of up to three kinds in a run.
    pub fn every() -> Self {
        Self {
            count: Choice::Range(0, 6),
            weights: DrawableFault::ALL
                .iter()
                .map(|(kind, _, weight)| (*kind, FaultShape::of(*kind, *weight)))
                .collect(),
            ..Self::default()
        }
    }
}

/// A word of the fault table that can be drawn. `restart` is none: what a drawn fault takes down starts again by itself.
#[allow(missing_docs)] // each is documented at `Fault`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DrawableFault {
    Cut,
    CutAfter,
    Partition,
    Stall,
    Blackhole,
    Delay,
    DelayClose,
    Reset,
    Slow,
    Refuse,
    Hang,
    AcceptThenClose,
    Hold,
    Crash,
    PowerLoss,
    ClockJump,
}

impl DrawableFault {
    /// All, with their names in files and the weights of a profile that nobody wrote.
    pub const ALL: &[(DrawableFault, &str, u64)] = &[
        (DrawableFault::Cut, "cut", 10),
        (DrawableFault::CutAfter, "cut-after", 4),
        (DrawableFault::Partition, "partition", 5),
        (DrawableFault::Stall, "stall", 3),
        (DrawableFault::Blackhole, "blackhole", 2),
        (DrawableFault::Delay, "delay", 4),
        (DrawableFault::DelayClose, "delay-close", 3),
        (DrawableFault::Reset, "reset", 3),
        (DrawableFault::Slow, "slow", 2),
        (DrawableFault::Refuse, "refuse", 2),
        (DrawableFault::Hang, "hang", 2),
        (DrawableFault::AcceptThenClose, "accept-then-close", 2),
        (DrawableFault::Hold, "hold", 4),
        (DrawableFault::Crash, "crash", 1),
        (DrawableFault::PowerLoss, "power-loss", 1),
        (DrawableFault::ClockJump, "clock-jump", 1),
    ];

    /// Its name in files: `cut-after`.
    pub fn name(self) -> &'static str {
        let row = Self::ALL.iter().find(|(kind, ..)| *kind == self);
        row.expect("every kind has a row").1
    }
}

impl fmt::Display for DrawableFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No fault of this name can be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a fault that a swarm can draw")]
pub struct NotAKind(pub String);

impl FromStr for DrawableFault {
    type Err = NotAKind;

    fn from_str(name: &str) -> Result<Self, NotAKind> {
        let row = Self::ALL.iter().find(|(_, known, _)| *known == name);
        row.map(|(kind, ..)| *kind).ok_or_else(|| NotAKind(name.to_owned()))
    }
}

/// The weight of one kind of fault, and its fields. A field that the kind does not have is not looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultShape {
    /// How often it comes, against the others.
    pub weight: u64,
    /// How long it lasts; for `crash` and `power-loss`, how long the host is down; for `hold`, how long at most.
    pub lasts: Choice<Duration>,
    /// How much later (`delay`, `delay-close`), how much more latency (`slow`).
    pub by: Choice<Duration>,
    /// By how many milliseconds the wall clock jumps (`clock-jump`), half of the time back.
    pub jump_ms: Choice<u64>,
    /// When the end that opened the connection learns of it (`cut`, `cut-after`).
    pub learns_client: Choice<Learns>,
    /// When the end that accepted the connection learns of it (`cut`, `cut-after`).
    pub learns_server: Choice<Learns>,
    /// How many bytes arrive before it (`cut-after`).
    pub bytes: Choice<u64>,
    /// How many messages arrive before it (`cut-after`). One half of them are counted in messages.
    pub messages: Choice<u64>,
    /// How many bytes a second pass (`slow`).
    pub bandwidth: Choice<u64>,
    /// How many bytes a segment has at most (`slow`).
    pub segment: Choice<u64>,
    /// How many bytes the receiver advertises at most (`slow`).
    pub window: Choice<u64>,
    /// The hosts to which it may happen (those that have a field `host`); where none is given, the subject's servers.
    pub hosts: Vec<Host>,
    /// The directions that it may have (those that have a field `toward`): toward the client's end, toward the server's, or
    /// both (`None`, where the fault knows it); where none is given, all of them.
    pub toward: Vec<Option<Side>>,
}

impl FaultShape {
    /// The shape of a kind for which only a weight is given.
    pub fn of(kind: DrawableFault, weight: u64) -> Self {
        let (ms, secs) = (Duration::from_millis, Duration::from_secs);
        let lasts = match kind {
            // On both sides of the usual deadlines of 25 s and 30 s.
            DrawableFault::Partition | DrawableFault::Blackhole => Choice::OneOf(vec![
                Choice::Range(ms(0), secs(5)),
                Choice::Range(secs(24), secs(26)),
                Choice::Range(secs(29), secs(31)),
            ]),
            DrawableFault::Hold => Choice::Range(ms(1), secs(2)),
            DrawableFault::Crash | DrawableFault::PowerLoss => Choice::Range(ms(0), secs(5)),
            _ => Choice::Range(ms(0), secs(10)),
        };
        let soon = Learns::After(ms(0));
        let later = Choice::Range(soon, Learns::After(secs(12)));
        Self {
            weight,
            lasts,
            by: Choice::Range(ms(1), secs(10)),
            jump_ms: Choice::Range(1, 3_600_000),
            learns_client: later.clone(),
            learns_server: Choice::OneOf(vec![
                Choice::Fixed(soon),
                later,
                Choice::Fixed(Learns::After(secs(40))),
            ]),
            bytes: Choice::Range(0, 4096),
            messages: Choice::Range(0, 20),
            bandwidth: Choice::Range(100, 100_000),
            segment: Choice::Range(1, 1460),
            window: Choice::Range(1, 16_384),
            hosts: Vec::new(),
            toward: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_that_can_be_read_back() {
        for (kind, name, weight) in DrawableFault::ALL {
            assert_eq!(
                (name.parse(), kind.to_string(), *weight > 0),
                (Ok(*kind), (*name).to_owned(), true)
            );
        }
        assert_eq!("restart".parse::<DrawableFault>(), Err(NotAKind("restart".into())));
    }
}
