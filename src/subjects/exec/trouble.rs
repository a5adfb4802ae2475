//! When the network or a host was at fault, for the properties of `exec`.

use crate::history::{Event, Time, What};

/// For how many bytes of output counts what stands around a printed piece, in an event and in the answer to a read: 100 on the wire,
/// where 3 bytes of output take 4.
pub(super) const AROUND: usize = 75;

/// For how many bytes of output a printed piece of this length counts.
pub(super) fn weight(bytes: usize) -> usize {
    bytes + AROUND
}

/// What is wrong with the network or a host at a moment.
#[derive(Default)]
pub(super) struct Trouble {
    /// How many faults are in force.
    pub(super) in_force: usize,
    /// When a fault last began or ended, or a host died.
    pub(super) last: Option<Time>,
    /// How much processes have printed, by [`weight`]: much is longer on its way.
    pub(super) printed: usize,
}

impl Trouble {
    /// Takes an entry into account.
    pub(super) fn pass(&mut self, event: &Event) {
        match &event.what {
            What::Produced { bytes, .. } => {
                self.printed += weight(bytes.len());
                return;
            }
            What::FaultBegan { .. } => self.in_force += 1,
            What::FaultEnded { .. } => self.in_force = self.in_force.saturating_sub(1),
            What::Died { .. } => {}
            _ => return,
        }
        self.last = Some(event.at);
    }
}
