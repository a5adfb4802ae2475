//! The names and addresses of the hosts.

use std::net::IpAddr;

use crate::schedule::Host;
use crate::world::thread::{HostIx, UNUSED};

/// A host, as the network knows it.
struct Entry {
    name: Host,
    ip: IpAddr,
    /// Whether no packet leaves or reaches the host (a power loss).
    dark: bool,
}

/// All hosts, by number. The first is [`UNUSED`].
pub(in crate::world) struct Directory {
    entries: Vec<Entry>,
    /// The number of hosts that are not the outside world.
    subjects: usize,
}

impl Directory {
    /// Creates the directory of hosts with these names and addresses. The last one is the outside
    /// world if `has_outside`.
    pub fn new(hosts: impl Iterator<Item = (Host, IpAddr)>, has_outside: bool) -> Self {
        let entries: Vec<_> = hosts.map(|(name, ip)| Entry { name, ip, dark: false }).collect();
        let subjects = entries.len() - usize::from(has_outside);
        Self { entries, subjects }
    }

    /// Returns the name of a host.
    pub fn name(&self, host: HostIx) -> &Host {
        &self.entries[host.0].name
    }

    /// Returns the address of a host.
    pub fn ip(&self, host: HostIx) -> IpAddr {
        self.entries[host.0].ip
    }

    /// Returns whether no packet leaves or reaches the host.
    pub fn is_dark(&self, host: HostIx) -> bool {
        self.entries[host.0].dark
    }

    /// Cuts a host off from all packets, or connects it again.
    pub fn set_dark(&mut self, host: HostIx, dark: bool) {
        self.entries[host.0].dark = dark;
    }

    /// Iterates over the numbers of the subject's hosts: all except `unused` and the outside world.
    pub fn indices(&self) -> impl Iterator<Item = HostIx> + use<> {
        (UNUSED.0 + 1..self.subjects).map(HostIx)
    }

    /// Returns the subject's host with this name.
    pub fn named(&self, name: &Host) -> Option<HostIx> {
        self.indices().find(|host| self.name(*host) == name)
    }

    /// Returns the subject's host with this address.
    pub fn at(&self, ip: IpAddr) -> Option<HostIx> {
        self.indices().find(|host| self.ip(*host) == ip)
    }
}
