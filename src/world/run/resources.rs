//! Resource counts (leak check): counts the resources of the hosts at the end of each turn and at
//! the end of the run.
//!
//! A counter of the subject is product code. It may log, record, and read the wall clock, and each
//! of these needs the world. So counters are called while the world is not borrowed, as a task of
//! their host, and their notes are handled like all other notes of a turn.

use std::collections::BTreeMap;

use crate::history::EventKind;

use crate::world::hosts::counters::Counters;
use crate::world::local;
use crate::world::state::World;
use crate::world::thread::{self, HostIx, Noted};

/// Calls `each` with the counters of every live host, while the world is not borrowed. Counters
/// that are added meanwhile are called next time.
fn sample(mut each: impl FnMut(&mut Counters)) {
    let mut gauges = local::with(|world| std::mem::take(&mut world.gauges));
    gauges.iter_mut().filter(|counters| counters.is_alive()).for_each(&mut each);
    local::with(|world| {
        gauges.append(&mut world.gauges);
        world.gauges = gauges;
    });
}

/// Samples the counters at the end of a turn: records each change of a level, and each new highest
/// value of the run. Records all resources of the hosts that had their first turn.
pub(in crate::world) fn sample_all() {
    sample(|counters| {
        if !counters.may_have_changed() {
            return;
        }
        counters.sample();
        counters.note_changes();
    });
    let first = local::with(World::first_turns);
    if !first.is_empty() {
        count(&first, true);
    }
}

/// Records the remaining resources at the end of a run: of each host, and those that belong to no
/// host.
pub(in crate::world) fn close() {
    let (hosts, unowned_resources) = local::with(|world| {
        (world.net.directory.indices().collect::<Vec<_>>(), world.net.stack.unowned_resources())
    });
    count(&hosts, false);
    unowned_resources.into_iter().for_each(thread::note_unowned);
}

/// Records the resource counts of hosts.
fn count(hosts: &[HostIx], baseline: bool) {
    let mut counted: BTreeMap<HostIx, BTreeMap<String, u64>> = BTreeMap::new();
    local::with(|world| counted.extend(hosts.iter().map(|host| (*host, world.count(*host)))));
    sample(|counters| {
        if let Some(counts) = counted.get_mut(&counters.host()) {
            counters.sample();
            counts.extend(counters.counted().map(|(name, value)| (name.to_owned(), value)));
        }
    });
    for (host, counts) in counted {
        thread::note_of_world(host, Noted::Entry(EventKind::ResourceCounts { baseline, counts }));
    }
}

impl World {
    /// Returns the hosts that are up and were not counted yet.
    fn first_turns(&mut self) -> Vec<HostIx> {
        let mut first = Vec::new();
        for host in self.net.directory.indices() {
            let state = self.hosts.get_mut(host);
            if state.up && !std::mem::replace(&mut state.counted, true) {
                first.push(host);
            }
        }
        first
    }

    /// Returns the resources of a host that the world itself counts.
    fn count(&self, host: HostIx) -> BTreeMap<String, u64> {
        let state = self.hosts.get(host);
        let processes = state.processes.as_ref().map(|processes| ("processes", processes.alive()));
        let counts = [("sockets", state.sockets), ("tasks", thread::tasks_of(host))]
            .into_iter()
            .chain(processes);
        counts.map(|(name, count)| (name.to_owned(), count)).collect()
    }
}
