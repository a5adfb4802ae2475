//! The definition of a fault.
//!
//! Each fault is one file in the folder `faults`: a struct with its fields, which implements
//! [`Definition`]. The table in [`faults`](super::faults) lists them. Everything else that reknit
//! does with faults uses these definitions.
//!
//! - [`values`]: the types of fields. [`draw`] and [`shape`]: how faults are drawn.
//! - [`effect`]: what a fault does, as data. The world carries it out.
//! - [`segment`]: what a fault of a connection or link does to one segment.

use std::collections::BTreeMap;
use std::time::Duration;

use super::names::Host;
use super::words::FaultWord;
use super::words::fields::{FaultFields, Parts};

pub mod draw;
pub mod effect;
pub(super) mod prelude;
pub mod segment;
pub mod shape;
pub mod values;

use draw::FaultDraw;
use effect::Effect;
use segment::{LinkEffects, Passing};
use shape::FaultShape;
use values::Learns;

/// Everything that reknit knows about a fault.
pub trait Definition: Sized {
    /// The row of the fault table.
    const WORD: FaultWord;

    /// How often it is drawn, and from which values; `None` if it is never drawn.
    const DRAWN: Option<Drawn> = None;

    /// Builds the fault from fields that were checked to be complete.
    fn build(fields: &FaultFields) -> Self;

    /// Adds its fields, without optional fields that have no effect.
    fn fields(&self, parts: &mut Parts);

    /// Describes the fault in a report: `cut client#1: client learns at once, server never`.
    fn sentence(&self) -> String;

    /// Draws the fault; `None` if it cannot affect any host of the run.
    fn draw(_from: &FaultDraw<'_>) -> Option<Self> {
        None
    }

    /// The effect that it has when it begins.
    fn effect(&self) -> Effect<'_>;

    /// For a fault with [`Effect::Link`]: changes the fate of a segment that it affects.
    fn pass(&self, _segment: &Passing, _effects: &mut LinkEffects) {}

    /// How much later it can make data arrive.
    fn lateness(&self) -> Lateness {
        Lateness::AtMost { by: Duration::ZERO, alone: false }
    }

    /// For a fault of a connection: when the connection feels it.
    fn felt(&self) -> Felt<'_> {
        Felt::WhileOpen
    }
}

/// How often a fault is drawn, and from which values.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    /// The weight in the default profile.
    pub weight: u64,
    /// The parts that a run must have.
    pub needs: Needs,
    /// The values of its fields.
    pub shape: fn() -> FaultShape,
}

/// The parts that a run must have so that a fault can have an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing special.
    Nothing,
    /// Points, at which it holds tasks.
    Point,
    /// Child processes.
    Children,
}

/// How much later a fault can make data arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// By at most this time.
    AtMost {
        /// The time.
        by: Duration,
        /// Whether the fault has no other effect.
        alone: bool,
    },
    /// There is no limit before the end of the fault.
    Unbounded,
}

/// When a connection feels a fault.
#[derive(Clone, Copy, Debug)]
pub enum Felt<'f> {
    /// As long as the fault is in force.
    InForce,
    /// As long as the fault is in force and the connection is open.
    WhileOpen,
    /// From the close of one end, until the other end has learned of it.
    FromClose,
    /// From when it strikes: before each end learns of it, as given here.
    Struck(&'f BTreeMap<Host, Learns>),
}
