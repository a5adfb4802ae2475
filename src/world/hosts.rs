//! The hosts of a world.

use rand_chacha::ChaCha8Rng;

use crate::files::Memory;
use crate::net::UnixSockets;
use crate::schedule::{Orphans, Unsynced, keyed};
use crate::subject::Disk;

use super::process::Processes;
use super::thread::HostIx;

pub(super) mod counters;

/// A host.
pub(super) struct HostState {
    pub role: Role,
    /// Whether it is up.
    pub up: bool,
    /// Whether the resources that the host has before its first connection were counted.
    pub counted: bool,
    /// How often the host was started.
    pub starts: u64,
    /// The offset of the host's wall clock, in milliseconds.
    pub clock_off: i64,
    /// Number of sockets that the host's tasks hold: streams and listeners.
    pub sockets: u64,
    /// The simulated operating system that runs the host's processes, if the host can launch any.
    pub processes: Option<Processes>,
    /// Whether the host's processes survive its death.
    pub orphans: Orphans,
    /// Whether the host's files lose unsynced data with its death.
    pub unsynced: Unsynced,
    /// The files, as the host's programs see them. They survive the host's death.
    pub files: Memory,
    /// The unix sockets, as the current root sees them.
    pub unix: UnixSockets,
    /// The randomness of the host's programs.
    pub entropy: ChaCha8Rng,
    /// The storage of the host's adapter, which survives the host's death.
    pub disk: Disk,
}

/// The role of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs nothing: the host of tasks that belong to no host.
    Unused,
    Server,
    Client,
    /// The outside world: the processes of all hosts run there.
    Outside,
}

impl HostState {
    /// Creates the host with this number, which was not started yet.
    pub fn new(number: usize, role: Role, files: Memory, seed: u64) -> Self {
        Self {
            entropy: keyed::keyed(seed, "entropy", &[number as u64]),
            role,
            up: false,
            counted: false,
            starts: 0,
            clock_off: 0,
            sockets: 0,
            processes: None,
            orphans: Orphans::Die,
            unsynced: Unsynced::Kept,
            unix: UnixSockets::new(files.clone()),
            files,
            disk: Disk::default(),
        }
    }
}

/// All hosts, by number. The first is [`UNUSED`]. If there are processes, the last is
/// the outside world.
pub(super) struct Hosts(Vec<HostState>);

impl Hosts {
    /// Creates the hosts of a world. The host `unused` must come first.
    pub fn new(hosts: Vec<HostState>) -> Self {
        debug_assert!(matches!(hosts.first(), Some(HostState { role: Role::Unused, .. })));
        Self(hosts)
    }

    /// Returns the number of hosts, including `unused` and the outside world.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the host with this number.
    pub fn get(&self, host: HostIx) -> &HostState {
        &self.0[host.0]
    }

    /// Returns the host with this number, mutably.
    pub fn get_mut(&mut self, host: HostIx) -> &mut HostState {
        &mut self.0[host.0]
    }

    /// Returns the outside world, if the plan has processes.
    pub fn outside(&self) -> Option<HostIx> {
        let last = self.0.last().filter(|host| host.role == Role::Outside);
        last.map(|_| HostIx(self.0.len() - 1))
    }
}
