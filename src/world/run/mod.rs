//! The code that drives a world: the steps of the schedule, the notes of a turn, the lives of hosts, and the end of
//! the run. All of it changes the [`World`](super::state::World).

pub(super) mod closing;
pub(super) mod dispatch;
pub(super) mod host_faults;
pub(super) mod lifecycles;
pub(super) mod notes;
pub(super) mod resources;
pub(super) mod steps;
