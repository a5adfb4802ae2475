//! When the network or a host was at fault, for the properties of `exec`.

use crate::history::{Event, Time, What};

/// What is wrong with the network or a host at a moment.
#[derive(Default)]
pub(super) struct Trouble {
    /// How many faults are in force.
    pub(super) in_force: usize,
    /// When a fault last began or ended, or a host died.
    pub(super) last: Option<Time>,
    /// How many bytes processes have printed: much is longer on its way.
    pub(super) printed: usize,
}

impl Trouble {
    /// Takes an entry into account.
    pub(super) fn pass(&mut self, event: &Event) {
        match &event.what {
            What::Produced { bytes, .. } => {
                self.printed += bytes.len();
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
