//! The options of a run, and the reasons why a run is impossible.

use std::time::Duration;

use crate::history::Time;

/// Options of a run. Only `control` and `engine` change what users see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How much detail the history contains.
    pub detail: Detail,
    /// The engine that carries the segments.
    pub engine: Engine,
    /// Whether packets of an older generation are dropped after a newer one is installed.
    pub control: bool,
    /// Whether to collect the subject's own tracing output.
    pub log: bool,
    /// The work that the world skips because it has no visible effect.
    pub shortcuts: Shortcuts,
}

/// Work that a world skips because no user, milestone or property could see its effect. Each makes runs
/// faster. Turning one off shows that the results are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortcuts {
    /// Acknowledgements that change nothing wake no task, and reach their kernel late or never.
    pub quiet_acks: bool,
    /// A turn in which no task runs does not end: the driver handles the next packets at once.
    pub still_turns: bool,
}

impl Shortcuts {
    /// All of them.
    pub const ALL: Self = Self::of(true);
    /// None of them.
    pub const NONE: Self = Self::of(false);

    const fn of(on: bool) -> Self {
        Self { quiet_acks: on, still_turns: on }
    }
}

impl Default for Shortcuts {
    fn default() -> Self {
        Self::ALL
    }
}

/// How much detail of a run its history contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Everything that the properties need.
    #[default]
    Verdict,
    /// All packets and messages, too.
    Full,
}

/// The engine that carries the segments of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Event-driven, on `turmoil-net`: virtual time jumps to the next event.
    #[default]
    Event,
    /// Stock `turmoil`, in ticks.
    Turmoil(Tick),
}

impl Engine {
    /// Stock `turmoil` with its usual ticks of one millisecond.
    pub const TURMOIL: Self = Self::Turmoil(Tick::LEAST);

    /// Returns whether both are the same engine, regardless of the tick.
    pub fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// The step of stock `turmoil`'s clock: whole milliseconds, up to a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick(u16);

impl Tick {
    /// One millisecond.
    pub const LEAST: Self = Self(1);

    /// Creates a tick of this length. Returns `None` if it is shorter than a millisecond, longer
    /// than a second, or not a whole number of milliseconds.
    pub fn of(length: Duration) -> Option<Self> {
        let millis =
            u16::try_from(length.as_millis()).ok().filter(|millis| (1..=1_000).contains(millis))?;
        (Duration::from_millis(millis.into()) == length).then_some(Self(millis))
    }

    /// Returns the length of the tick.
    pub fn length(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

/// The reason why a run could not be performed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Milestones do not arrive.
    #[error(
        "the world does not hear milestones: a `max_level_*` or `release_max_level_*` feature of the crate `tracing` is on somewhere; \
         take it out"
    )]
    Deaf,
    /// The plan does not fit the subject.
    #[error("{0}")]
    Plan(String),
    /// The engine cannot do what the plan contains.
    #[error("{0}")]
    Unsupported(String),
    /// The engine itself gave up during the run.
    #[error("the engine stopped the run at {at}: {why}")]
    Engine {
        /// The virtual time.
        at: Time,
        /// The engine's error message.
        why: String,
    },
    /// The driver recorded something that no protocol can cause, so the run cannot be checked.
    #[error(
        "{mistake}, in the run with seed {seed}; see `What a driver must record` in the docs of the trait `Subject`"
    )]
    Recording {
        /// The seed of the run.
        seed: u64,
        /// The record that the driver must not make, and the correct alternative.
        mistake: String,
    },
    /// The operating system could not provide a runtime.
    #[error("no runtime: {0}")]
    Runtime(String),
}
