//! The hosts of a world.

use std::net::IpAddr;

use crate::schedule::{Host, Orphans};
use crate::subject::Disk;

use super::local::{HostIx, NOBODY};
use super::process::Processes;

/// A host.
pub(super) struct HostState {
    pub name: Host,
    pub ip: IpAddr,
    pub role: Role,
    /// Whether it is up.
    pub up: bool,
    /// Whether nothing leaves or reaches it (a power loss).
    pub dark: bool,
    /// Whether what it has before its first connection was counted.
    pub counted: bool,
    /// How often it was started.
    pub starts: u64,
    /// How far its wall clock is off, in milliseconds.
    pub clock_off: i64,
    /// How many sockets its tasks hold: streams, and listeners.
    pub sockets: u64,
    /// The operating system that runs its processes, if it is one that launches any.
    pub processes: Option<Processes>,
    /// Whether its processes outlive its death.
    pub orphans: Orphans,
    /// What outlives it.
    pub disk: Disk,
}

/// What a host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing: it is the host of tasks that belong to none.
    Nobody,
    Server,
    Client,
    /// The world outside: the processes of all hosts live there.
    Outside,
}

impl HostState {
    /// A host that was not started yet.
    pub fn new(name: Host, ip: IpAddr, role: Role) -> Self {
        Self {
            name,
            ip,
            role,
            up: false,
            dark: false,
            counted: false,
            starts: 0,
            clock_off: 0,
            sockets: 0,
            processes: None,
            orphans: Orphans::Die,
            disk: Disk::default(),
        }
    }
}

/// All hosts, by number and by name. The first is [`NOBODY`]; where there are processes, the last is the world outside.
pub(super) struct Hosts(Vec<HostState>);

impl Hosts {
    /// The hosts of a world; the first must be `nobody`.
    pub fn new(hosts: Vec<HostState>) -> Self {
        debug_assert!(matches!(hosts.first(), Some(HostState { role: Role::Nobody, .. })));
        Self(hosts)
    }

    /// How many there are, with `nobody` and the world outside.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The host of this number.
    pub fn get(&self, host: HostIx) -> &HostState {
        &self.0[host.0]
    }

    /// The same, to change.
    pub fn get_mut(&mut self, host: HostIx) -> &mut HostState {
        &mut self.0[host.0]
    }

    /// The host of this name.
    pub fn named(&self, name: &Host) -> Option<HostIx> {
        self.iter().find(|(_, host)| host.name == *name).map(|(index, _)| index)
    }

    /// The host of this address.
    pub fn at(&self, ip: IpAddr) -> Option<HostIx> {
        self.iter().find(|(_, host)| host.ip == ip).map(|(index, _)| index)
    }

    /// The subject's: all but `nobody` and the world outside.
    pub fn iter(&self) -> impl Iterator<Item = (HostIx, &HostState)> {
        self.indices().map(|host| (host, self.get(host)))
    }

    /// The numbers of the same.
    pub fn indices(&self) -> impl Iterator<Item = HostIx> + use<> {
        let end = self.outside().map_or(self.0.len(), |outside| outside.0);
        (NOBODY.0 + 1..end).map(HostIx)
    }

    /// The world outside, if there is anything in it.
    pub fn outside(&self) -> Option<HostIx> {
        let last = self.0.last().filter(|host| host.role == Role::Outside);
        last.map(|_| HostIx(self.0.len() - 1))
    }
}
