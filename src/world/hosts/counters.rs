//! The counters of a subject's resources.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::history::EventKind;
use crate::subject::Gauges;

use crate::world::thread::{self, HostIx, Noted};

/// Counters of the subject that are called together.
pub(in crate::world) struct Counters {
    host: HostIx,
    gauges: Gauges,
    /// The last value of each counter, and the last one that the history has.
    counts: Vec<u64>,
    noted: Vec<u64>,
    /// The number of polls of the host's tasks at the last call. Only polls can change the counts.
    /// 0 if polls are not counted.
    polls: u64,
    /// Whether the counters belong to the current incarnation of their host.
    alive: bool,
}

impl Counters {
    /// Creates the counters of a host that is up.
    pub fn new(host: HostIx, gauges: Gauges) -> Self {
        let none = vec![0; gauges.names.len()];
        Self { host, gauges, counts: none.clone(), noted: none, polls: 0, alive: true }
    }

    /// Disables the counters if this is their host, because it dies.
    pub fn dies_with(&mut self, host: HostIx) {
        self.alive &= self.host != host;
    }

    /// Returns the host.
    pub fn host(&self) -> HostIx {
        self.host
    }

    /// Returns whether the counters belong to the current incarnation of their host.
    pub fn is_alive(&self) -> bool {
        self.alive
    }

    /// Returns whether tasks of the host were polled since the last call, or polls are not counted.
    pub fn may_have_changed(&mut self) -> bool {
        let polls = thread::polls_of(self.host);
        std::mem::replace(&mut self.polls, polls) != polls || polls == 0
    }

    /// Calls the counters. If they panic, the panic is already in the history, and all values are
    /// 0.
    pub fn sample(&mut self) {
        let Self { host, gauges, counts, .. } = self;
        let counted =
            thread::as_host(*host, || catch_unwind(AssertUnwindSafe(|| (gauges.count)(counts))));
        if counted.is_err() {
            counts.fill(0);
        }
    }

    /// Returns the last value of each counter, by name.
    pub fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.gauges.names.iter().copied().zip(self.counts.iter().copied())
    }

    /// Records the levels that have changed, and the other values that exceed all earlier ones.
    pub fn note_changes(&mut self) {
        let levels = self.gauges.levels;
        for (row, (name, value)) in self.gauges.names.iter().zip(&self.counts).enumerate() {
            let noted = &mut self.noted[row];
            if *value > *noted || row < levels && *value != *noted {
                *noted = *value;
                let gauge = EventKind::Gauge { name, value: *value };
                thread::note_of_world(self.host, Noted::Entry(gauge));
            }
        }
    }
}
