//! The census: what is counted on the hosts, at the end of each turn and when all is over.
//!
//! A counter of the subject's is product code. It may log, record, look at the wall clock: all that the world has to hear. So
//! counters are asked while nobody holds the world, as the host that they belong to, and what they say is noted like anything
//! else that is said in a turn.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::history::What;

use super::local::{self, HostIx, Noted};
use super::state::World;

/// A counter of the subject's census.
pub(super) struct Gauge {
    host: HostIx,
    name: &'static str,
    count: Box<dyn Fn() -> u64 + Send>,
    /// The most that it counted.
    highest: u64,
    /// How often its host's tasks had been polled when it was looked at last: only they change what it counts. 0 where
    /// polls are not counted.
    polls: u64,
    /// Whether it belongs to the current life of its host.
    alive: bool,
}

impl Gauge {
    /// A counter of a host that is up.
    pub fn new(host: HostIx, name: &'static str, count: Box<dyn Fn() -> u64 + Send>) -> Self {
        Self { host, name, count, highest: 0, polls: 0, alive: true }
    }

    /// Its host dies: it is not asked any more.
    pub fn dies_with(&mut self, host: HostIx) {
        self.alive &= self.host != host;
    }

    /// What it counts now. A panic of it is in the history by then, and counts as nothing.
    fn ask(&self) -> u64 {
        local::as_host(self.host, || catch_unwind(AssertUnwindSafe(&self.count)).unwrap_or(0))
    }
}

/// Has `each` look at every counter of a host that lives, with the world not held. A counter that is added meanwhile is asked
/// next time.
fn ask(mut each: impl FnMut(&mut Gauge)) {
    let mut gauges = local::with(|world| std::mem::take(&mut world.gauges));
    gauges.iter_mut().filter(|gauge| gauge.alive).for_each(&mut each);
    local::with(|world| {
        gauges.append(&mut world.gauges);
        world.gauges = gauges;
    });
}

/// The end of a turn: notes what rose above what it had been before in the run; and of hosts whose first turn it was, all that
/// they have.
pub(super) fn look() {
    ask(|gauge| {
        let polls = local::polls_of(gauge.host);
        if std::mem::replace(&mut gauge.polls, polls) == polls && polls > 0 {
            return;
        }
        let value = gauge.ask();
        if value > gauge.highest {
            gauge.highest = value;
            local::note_of_world(gauge.host, Noted::Entry(What::Gauge { name: gauge.name, value }));
        }
    });
    let first = local::with(World::first_turns);
    if !first.is_empty() {
        count(&first, true);
    }
}

/// All is over: notes what is left on the hosts, and on none.
pub(super) fn close() {
    let (hosts, strays) = local::with(|world| (world.hosts.indices().collect::<Vec<_>>(), world.stack.strays()));
    count(&hosts, false);
    strays.into_iter().for_each(local::note_stray);
}

/// Notes what hosts have.
fn count(hosts: &[HostIx], baseline: bool) {
    let mut counted: BTreeMap<HostIx, BTreeMap<String, u64>> = BTreeMap::new();
    local::with(|world| counted.extend(hosts.iter().map(|host| (*host, world.count(*host)))));
    ask(|gauge| {
        if let Some(counts) = counted.get_mut(&gauge.host) {
            counts.insert(gauge.name.to_owned(), gauge.ask());
        }
    });
    for (host, counts) in counted {
        local::note_of_world(host, Noted::Entry(What::Census { baseline, counts }));
    }
}

impl World {
    /// The hosts that are up and were not counted yet.
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

    /// What the world itself knows of a host.
    fn count(&self, host: HostIx) -> BTreeMap<String, u64> {
        let state = self.hosts.get(host);
        let processes = state.processes.as_ref().map(|processes| ("processes", processes.alive()));
        let counts = [("sockets", state.sockets), ("tasks", local::tasks_of(host))].into_iter().chain(processes);
        counts.map(|(name, count)| (name.to_owned(), count)).collect()
    }
}
