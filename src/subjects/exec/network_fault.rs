//! Tracks when a fault affected the network or a host, for the properties of `exec`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::history::{Event, EventKind, Time};
use crate::schedule::{Fault, faults};

/// The overhead around a piece of output, in an event and in the answer to a read, as a number of
/// output bytes: it is 100 bytes on the wire, where 3 bytes of output take 4.
pub(super) const AROUND: usize = 75;

/// The size of a piece of output including its overhead.
pub(super) fn weight(bytes: usize) -> usize {
    bytes + AROUND
}

/// The state of faults in the network and on the hosts at a moment.
#[derive(Default)]
pub(super) struct NetworkFault {
    /// The number of faults in force.
    pub(super) in_force: usize,
    /// The time at which a fault last began or ended, or a host died.
    pub(super) last: Option<Time>,
    /// The time by which all delayed packets have arrived: a packet that left during a fault may
    /// arrive after the fault's end.
    pub(super) settled: Option<Time>,
    /// The end of the last fault that narrowed a window. An acknowledgement that is under way then
    /// opens the window by a few bytes only; the next one opens it.
    pub(super) narrowed: Option<Time>,
    /// The faults in force that narrow a window.
    narrow: BTreeSet<usize>,
    /// The delay that each fault in force adds to packets.
    late: BTreeMap<usize, Duration>,
    /// The output of all processes so far, by [`weight`]: more output takes longer to arrive.
    pub(super) printed: usize,
}

impl NetworkFault {
    /// Processes one event of the history.
    pub(super) fn pass(&mut self, event: &Event) {
        match &event.what {
            EventKind::Produced { bytes, .. } => {
                self.printed += weight(bytes.len());
                return;
            }
            EventKind::FaultBegan { fault, what, .. } => {
                self.in_force += 1;
                self.late.insert(*fault, what.latency());
                if matches!(&**what, Fault::Slow(faults::Slow { by, .. }) if by.window.is_some()) {
                    self.narrow.insert(*fault);
                }
            }
            EventKind::FaultEnded { fault } => {
                self.in_force = self.in_force.saturating_sub(1);
                let late = self.late.values().sum::<Duration>();
                self.late.remove(fault);
                if self.narrow.remove(fault) {
                    self.narrowed = Some(event.at);
                }
                self.settled = self.settled.max(Some(event.at + late));
            }
            EventKind::Died { .. } => {}
            _ => return,
        }
        self.last = Some(event.at);
        self.settled = self.settled.max(self.last);
    }
}
