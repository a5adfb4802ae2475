//! When the network or a host was at fault, for the properties of `exec`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Event, EventKind, Time};
use crate::schedule::Fault;

/// For how many bytes of output counts what stands around a printed piece, in an event and in the answer to a read: 100 on the wire,
/// where 3 bytes of output take 4.
pub(super) const AROUND: usize = 75;

/// For how many bytes of output a printed piece of this length counts.
pub(super) fn weight(bytes: usize) -> usize {
    bytes + AROUND
}

/// What is wrong with the network or a host at a moment.
#[derive(Default)]
pub(super) struct NetworkFault {
    /// How many faults are in force.
    pub(super) in_force: usize,
    /// When a fault last began or ended, or a host died.
    pub(super) last: Option<Time>,
    /// When all had come that faults made late: what left under a fault may come after its end.
    pub(super) settled: Option<Time>,
    /// How late each fault in force makes what leaves.
    late: BTreeMap<usize, Duration>,
    /// How much processes have printed, by [`weight`]: much is longer on its way.
    pub(super) printed: usize,
}

impl NetworkFault {
    /// Takes an entry into account.
    pub(super) fn pass(&mut self, event: &Event) {
        match &event.what {
            EventKind::Produced { bytes, .. } => {
                self.printed += weight(bytes.len());
                return;
            }
            EventKind::FaultBegan { fault, what, .. } => {
                self.in_force += 1;
                self.late.insert(*fault, lateness(what));
            }
            EventKind::FaultEnded { fault } => {
                self.in_force = self.in_force.saturating_sub(1);
                let late = self.late.values().sum::<Duration>();
                self.late.remove(fault);
                self.settled = self.settled.max(Some(event.at + late));
            }
            EventKind::Died { .. } => {}
            _ => return,
        }
        self.last = Some(event.at);
        self.settled = self.settled.max(self.last);
    }
}

/// How much later arrives what leaves under this fault. Little bandwidth and a small window hold back what has not left: that is free at
/// the end of the fault.
fn lateness(fault: &Fault) -> Duration {
    match fault {
        Fault::Delay { by, .. } => *by,
        Fault::Slow { by, .. } => by.latency.unwrap_or_default(),
        _ => Duration::ZERO,
    }
}
