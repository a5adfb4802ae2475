//! The two engines, and the interface between an engine and a world. An engine runs the tasks of the hosts, and provides
//! a clock and the kernels of the hosts.
//!
//! The world is the same on both engines: hosts, connections, steps, faults, the link model, and
//! the history. An engine has two parts, because product code must not run inside the world. The
//! [`Machine`] runs the tasks of the hosts, and lives beside the world. The [`Stack`] gives the
//! world access to the hosts' kernels, and lives inside the world.

use std::net::IpAddr;

pub(super) mod event;
pub(super) mod turmoil;

use crate::history::Time;
use crate::schedule::Host;

use crate::world::network::stack::Stack;
use crate::world::options::RunError;

/// Runs the tasks of a world. Dropping the machine drops the tasks.
pub(super) trait Machine {
    /// Returns the hosts' kernels and the clock, and the addresses of the hosts with these names.
    /// Called once.
    fn stack(&mut self, hosts: &[Host]) -> (Box<dyn Stack>, Vec<IpAddr>);

    /// Runs the world that is entered on this thread until `until`, and then through its closing
    /// phases to the end.
    ///
    /// # Errors
    /// If the engine itself gives up. Errors of the subject are in the history.
    fn drive(&mut self, until: Time) -> Result<(), RunError>;
}
