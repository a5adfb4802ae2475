//! The faults of a profile: their number, kinds, targets and durations.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::choice::Choice;
use crate::schedule::{Host, Learns, Side};

/// The faults to draw: their kinds, number and targets.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultProfile {
    /// The number of faults in a plan.
    pub count: Choice<u64>,
    /// The number of different kinds in a plan. With few kinds per run, combinations that are
    /// otherwise rare occur more often.
    pub kinds: Choice<u64>,
    /// The targets of the faults.
    pub aimed: Aimed,
    /// How often each milestone and point is a target of faults and of operations with a trigger,
    /// by name. A name that is left out is never a target. If the map is empty, all are targets,
    /// and half of the milestone targets are ones that every connection reaches.
    pub at: BTreeMap<String, u64>,
    /// The share of faults, from 0 to 1, that follow the previous fault: at the same moment, or up
    /// to three seconds later.
    pub wakes: f64,
    /// The kinds that can be drawn, each with its weight and its fields.
    pub weights: BTreeMap<DrawableFault, FaultShape>,
}

/// The shares of faults that are aimed at a milestone, at a point, and at a time. Only their ratios
/// matter. If a subject has no milestones or no points, that share is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aimed {
    /// When a milestone is reached.
    pub milestone: f64,
    /// When a point is reached.
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
    /// No faults.
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
    /// Up to six faults per plan, of all kinds, with up to three kinds in one plan.
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

/// A word of the fault table that can be drawn. `restart` is not among them: a host that a drawn
/// fault takes down restarts by itself.
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
    KillChildren,
    StopChildren,
    SlowChildren,
    DelayOutput,
    ClosePipe,
}

impl DrawableFault {
    /// All kinds, with their names in files and their weights in the default profile.
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
        (DrawableFault::KillChildren, "kill-children", 3),
        (DrawableFault::StopChildren, "stop-children", 2),
        (DrawableFault::SlowChildren, "slow-children", 2),
        (DrawableFault::DelayOutput, "delay-output", 3),
        (DrawableFault::ClosePipe, "close-pipe", 1),
    ];

    /// Returns whether it affects only child processes.
    pub fn is_for_children(self) -> bool {
        matches!(
            self,
            Self::KillChildren
                | Self::StopChildren
                | Self::SlowChildren
                | Self::DelayOutput
                | Self::ClosePipe
        )
    }

    /// Returns the name in files: `cut-after`.
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

/// The error for a name that no drawable fault has.
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

/// The weight of one kind of fault, and its fields. Fields that the kind does not have are ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultShape {
    /// The weight relative to the other kinds.
    pub weight: u64,
    /// The duration; for `crash` and `power-loss`, the downtime of the host; for `hold`, the
    /// maximum duration.
    pub lasts: Choice<Duration>,
    /// The additional delay (`delay`, `delay-close`, `delay-output`), latency (`slow`) or pause
    /// (`slow-children`).
    pub by: Choice<Duration>,
    /// The size of a jump of the wall clock in milliseconds (`clock-jump`). Half of the jumps go
    /// back.
    pub jump_ms: Choice<u64>,
    /// When the end that opened the connection learns of the cut (`cut`, `cut-after`).
    pub learns_client: Choice<Learns>,
    /// When the end that accepted the connection learns of the cut (`cut`, `cut-after`).
    pub learns_server: Choice<Learns>,
    /// The number of bytes that arrive before the cut (`cut-after`).
    pub bytes: Choice<u64>,
    /// The number of messages that arrive before the cut (`cut-after`). Half of these faults count
    /// messages, the other half bytes.
    pub messages: Choice<u64>,
    /// The number of bytes per second (`slow`).
    pub bandwidth: Choice<u64>,
    /// The maximum number of bytes per segment (`slow`).
    pub segment: Choice<u64>,
    /// The maximum window that the receiver advertises, in bytes (`slow`).
    pub window: Choice<u64>,
    /// The hosts that it can affect, for kinds with a field `host`; if empty, the subject's
    /// servers.
    pub hosts: Vec<Host>,
    /// The directions that it can have, for kinds with a field `toward`: toward the client's end,
    /// toward the server's end, or both (`None`, if the fault supports it); if empty, all of them.
    pub toward: Vec<Option<Side>>,
}

impl FaultShape {
    /// The default shape of a kind with this weight.
    pub fn of(kind: DrawableFault, weight: u64) -> Self {
        let (ms, secs) = (Duration::from_millis, Duration::from_secs);
        let lasts = match kind {
            // Just below and just above the usual deadlines of 25 s and 30 s.
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
            by: match kind {
                DrawableFault::SlowChildren => Choice::Range(ms(1), ms(200)),
                _ => Choice::Range(ms(1), secs(10)),
            },
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
