//! What the own properties of several subjects need: which entries are judged, and when the network was at fault.

use crate::history::{Event, Time, What};
use crate::property::Evidence;

/// The entries of a run until its clients are closed.
pub(super) fn judged<'a>(evidence: &Evidence<'a>) -> impl Iterator<Item = &'a Event> {
    let until = Time::from(evidence.plan.horizon);
    evidence.history.events.iter().take_while(move |event| event.at <= until)
}

/// The host of an entry; nothing where it has none.
pub(super) fn host(event: &Event) -> &str {
    event.host.as_ref().map_or("", |host| host.as_str())
}

/// What is wrong with the network or a host at a moment.
#[cfg(feature = "exec")]
#[derive(Default)]
pub(super) struct Trouble {
    /// How many faults are in force.
    pub(super) in_force: usize,
    /// When a fault last began or ended, or a host died.
    pub(super) last: Option<Time>,
    /// How many bytes processes have printed: much is longer on its way.
    pub(super) printed: usize,
}

#[cfg(feature = "exec")]
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

/// What a puppet answers has no truth.
pub(super) fn has_puppet(evidence: &Evidence<'_>) -> bool {
    evidence.plan.has_puppet(evidence.servers)
}
