//! The values from which the fields of a fault are drawn.

use std::collections::BTreeMap;
use std::time::Duration;

use super::values::Learns;
use crate::schedule::names::{Host, Side};
use crate::schedule::profile::choice::Choice;

/// The weight of one kind of fault, and the values of its fields. Entries for fields that the kind
/// does not have are ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultShape {
    /// The weight relative to the other kinds.
    pub weight: u64,
    /// The durations, by field. `lasts` is the downtime of a host for `crash` and `power-loss`, and
    /// the maximum duration for `hold`. `by` is the size of a jump for `clock-jump`; half of the
    /// jumps go back.
    pub durations: BTreeMap<&'static str, Choice<Duration>>,
    /// The sizes and counts, by field. Half of the `cut-after` faults count `bytes`, the other half
    /// `messages`.
    pub numbers: BTreeMap<&'static str, Choice<u64>>,
    /// When the end that opened the connection learns of the cut.
    pub learns_client: Choice<Learns>,
    /// When the end that accepted the connection learns of the cut.
    pub learns_server: Choice<Learns>,
    /// The hosts that it can affect; if empty, the subject's servers.
    pub hosts: Vec<Host>,
    /// The directions that it can have: toward the client's end, toward the server's end, or both
    /// (`None`, if the fault supports it); if empty, all of them.
    pub toward: Vec<Option<Side>>,
}

impl Default for FaultShape {
    /// The values of most faults.
    fn default() -> Self {
        let soon = Learns::After(ms(0));
        let later = Choice::Range(soon, Learns::After(secs(12)));
        Self {
            weight: 0,
            durations: BTreeMap::from([
                ("lasts", Choice::Range(ms(0), secs(10))),
                ("by", Choice::Range(ms(1), secs(10))),
            ]),
            numbers: BTreeMap::new(),
            learns_client: later.clone(),
            learns_server: Choice::OneOf(vec![
                Choice::Fixed(soon),
                later,
                Choice::Fixed(Learns::After(secs(40))),
            ]),
            hosts: Vec::new(),
            toward: Vec::new(),
        }
    }
}

impl FaultShape {
    /// Sets the durations of a field.
    pub fn duration(mut self, field: &'static str, choice: Choice<Duration>) -> Self {
        self.durations.insert(field, choice);
        self
    }

    /// Sets the sizes or counts of a field.
    pub fn number(mut self, field: &'static str, choice: Choice<u64>) -> Self {
        self.numbers.insert(field, choice);
        self
    }
}

/// This many milliseconds.
pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// This many seconds.
pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
