//! The hosts of a world.

use std::net::IpAddr;

use crate::schedule::Host;

use super::local::{HostIx, NOBODY};

/// A host.
pub(super) struct HostState {
    pub name: Host,
    pub ip: IpAddr,
    pub role: Role,
    /// Whether it is up.
    pub up: bool,
    /// Whether nothing leaves or reaches it (a power loss).
    pub dark: bool,
    /// Whether it dies: what its tasks still say is ignored.
    pub dying: bool,
    /// Whether what it has before its first connection was counted.
    pub counted: bool,
    /// How often it was started.
    pub starts: u64,
    /// How far its wall clock is off, in milliseconds.
    pub clock_off: i64,
    /// How many sockets its tasks hold: streams, and listeners.
    pub sockets: u64,
}

/// What a host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing: it is the host of tasks that belong to none.
    Nobody,
    Server,
    Client,
}

impl HostState {
    /// A host that was not started yet.
    pub fn new(name: Host, ip: IpAddr, role: Role) -> Self {
        Self { name, ip, role, up: false, dark: false, dying: false, counted: false, starts: 0, clock_off: 0, sockets: 0 }
    }
}

/// All hosts, by number and by name. The first is [`NOBODY`].
pub(super) struct Hosts(Vec<HostState>);

impl Hosts {
    /// The hosts of a world; the first must be `nobody`.
    pub fn new(hosts: Vec<HostState>) -> Self {
        debug_assert!(matches!(hosts.first(), Some(HostState { role: Role::Nobody, .. })));
        Self(hosts)
    }

    /// How many there are, with `nobody`.
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

    /// All but `nobody`.
    pub fn iter(&self) -> impl Iterator<Item = (HostIx, &HostState)> {
        self.0.iter().enumerate().skip(NOBODY.0 + 1).map(|(n, host)| (HostIx(n), host))
    }

    /// The numbers of all but `nobody`.
    pub fn indices(&self) -> impl Iterator<Item = HostIx> + use<> {
        (NOBODY.0 + 1..self.0.len()).map(HostIx)
    }
}
