//! The names that the files of faults use.

pub use std::collections::BTreeMap;
pub use std::time::Duration;

pub use super::draw::FaultDraw;
pub use super::effect::{ChildEffect, ChildFault, Death, Effect, Nature, Place};
pub use super::segment::{LinkEffects, Passing, SynFate, transmissions};
pub use super::shape::{FaultShape, ms, secs};
pub use super::values::{
    HoldEnd, Learns, LinkPlace, Orphans, Pipe, Tampering, TrafficCount, Unsynced,
};
pub use super::{Definition, Drawn, Felt, Lateness, Needs};
pub use crate::schedule::names::{Conn, Host, Named};
pub use crate::schedule::phrases;
pub use crate::schedule::profile::choice::Choice;
pub(in crate::schedule) use crate::schedule::profile::choice::{below, pick};
pub use crate::schedule::words::Need::{Always, Else, OneOf, SomeOf, With, WithElse};
pub(in crate::schedule) use crate::schedule::words::fields::CHECKED;
pub use crate::schedule::words::fields::{FaultFields, Parts};
pub use crate::schedule::words::shared::{
    BOTH_WAYS, CONN, DOWN, HOST, HOSTS, LASTS, LEARNS, ONE_CONN, ONE_LINK, TOWARD,
};
pub use crate::schedule::words::{FaultWord, Fidelity, Field, FieldType, FieldValue};
