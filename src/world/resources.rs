//! Resource counts (leak check): counts the resources of the hosts at the end of each turn and at
//! the end of the run.
//!
//! A counter of the subject is product code. It may log, record, and read the wall clock, and each
//! of these needs the world. So counters are called while the world is not borrowed, as a task of
//! their host, and their notes are handled like all other notes of a turn.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::history::EventKind;
use crate::subject::Gauges;

use super::local::{self, HostIx, Noted};
use super::state::World;

/// Counters of the subject that are called together.
pub(super) struct Counters {
    host: HostIx,
    gauges: Gauges,
    /// The last value of each counter, and the last one that the history has.
    counts: Vec<u64>,
    noted: Vec<u64>,
    /// The number of polls of the host's tasks at the last call. Only polls can change the counts.
    /// 0 if polls are not counted.
    polls: u64,
    /// Whether the counters belong to the current incarnation of their host.
    alive: bool,
}

impl Counters {
    /// Creates the counters of a host that is up.
    pub fn new(host: HostIx, gauges: Gauges) -> Self {
        let none = vec![0; gauges.names.len()];
        Self { host, gauges, counts: none.clone(), noted: none, polls: 0, alive: true }
    }

    /// Disables the counters if this is their host, because it dies.
    pub fn dies_with(&mut self, host: HostIx) {
        self.alive &= self.host != host;
    }

    /// Calls the counters. If they panic, the panic is already in the history, and all values are
    /// 0.
    fn sample(&mut self) {
        let Self { host, gauges, counts, .. } = self;
        let counted =
            local::as_host(*host, || catch_unwind(AssertUnwindSafe(|| (gauges.count)(counts))));
        if counted.is_err() {
            counts.fill(0);
        }
    }

    /// Returns the last value of each counter, by name.
    fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.gauges.names.iter().copied().zip(self.counts.iter().copied())
    }

    /// Records the levels that have changed, and the other values that exceed all earlier ones.
    fn note_changes(&mut self) {
        let levels = self.gauges.levels;
        for (row, (name, value)) in self.gauges.names.iter().zip(&self.counts).enumerate() {
            let noted = &mut self.noted[row];
            if *value > *noted || row < levels && *value != *noted {
                *noted = *value;
                let gauge = EventKind::Gauge { name, value: *value };
                local::note_of_world(self.host, Noted::Entry(gauge));
            }
        }
    }
}

/// Calls `each` with the counters of every live host, while the world is not borrowed. Counters
/// that are added meanwhile are called next time.
fn sample(mut each: impl FnMut(&mut Counters)) {
    let mut gauges = local::with(|world| std::mem::take(&mut world.gauges));
    gauges.iter_mut().filter(|counters| counters.alive).for_each(&mut each);
    local::with(|world| {
        gauges.append(&mut world.gauges);
        world.gauges = gauges;
    });
}

/// Samples the counters at the end of a turn: records each change of a level, and each new highest
/// value of the run. Records all resources of the hosts that had their first turn.
pub(super) fn sample_all() {
    sample(|counters| {
        let polls = local::polls_of(counters.host);
        if std::mem::replace(&mut counters.polls, polls) == polls && polls > 0 {
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
pub(super) fn close() {
    let (hosts, unowned_resources) = local::with(|world| {
        (world.hosts.indices().collect::<Vec<_>>(), world.stack.unowned_resources())
    });
    count(&hosts, false);
    unowned_resources.into_iter().for_each(local::note_unowned);
}

/// Records the resource counts of hosts.
fn count(hosts: &[HostIx], baseline: bool) {
    let mut counted: BTreeMap<HostIx, BTreeMap<String, u64>> = BTreeMap::new();
    local::with(|world| counted.extend(hosts.iter().map(|host| (*host, world.count(*host)))));
    sample(|counters| {
        if let Some(counts) = counted.get_mut(&counters.host) {
            counters.sample();
            counts.extend(counters.counted().map(|(name, value)| (name.to_owned(), value)));
        }
    });
    for (host, counts) in counted {
        local::note_of_world(host, Noted::Entry(EventKind::ResourceCounts { baseline, counts }));
    }
}

impl World {
    /// Returns the hosts that are up and were not counted yet.
    fn first_turns(&mut self) -> Vec<HostIx> {
        let mut first = Vec::new();
        for host in self.hosts.indices() {
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
        let counts = [("sockets", state.sockets), ("tasks", local::tasks_of(host))]
            .into_iter()
            .chain(processes);
        counts.map(|(name, count)| (name.to_owned(), count)).collect()
    }
}
