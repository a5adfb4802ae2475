//! The census: what is counted on the hosts, at the end of each turn and when all is over.
//!
//! A counter of the subject's is product code. It may log, record, look at the wall clock: all that the world has to hear. So
//! counters are asked while nobody holds the world, as the host that they belong to, and what they say is noted like anything
//! else that is said in a turn.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::history::EventKind;
use crate::subject::Gauges;

use super::local::{self, HostIx, Noted};
use super::state::World;

/// Counters of the subject's census that are asked together.
pub(super) struct Counters {
    host: HostIx,
    gauges: Gauges,
    /// What they counted last, and the most that each counted.
    counts: Vec<u64>,
    highest: Vec<u64>,
    /// How often their host's tasks had been polled when they were looked at last: only these change what they count. 0 where
    /// polls are not counted.
    polls: u64,
    /// Whether they belong to the current life of their host.
    alive: bool,
}

impl Counters {
    /// Counters of a host that is up.
    pub fn new(host: HostIx, gauges: Gauges) -> Self {
        let none = vec![0; gauges.names.len()];
        Self { host, gauges, counts: none.clone(), highest: none, polls: 0, alive: true }
    }

    /// Their host dies: they are not asked any more.
    pub fn dies_with(&mut self, host: HostIx) {
        self.alive &= self.host != host;
    }

    /// Has them count. A panic of theirs is in the history by then, and counts as nothing.
    fn ask(&mut self) {
        let Self { host, gauges, counts, .. } = self;
        let counted =
            local::as_host(*host, || catch_unwind(AssertUnwindSafe(|| (gauges.count)(counts))));
        if counted.is_err() {
            counts.fill(0);
        }
    }

    /// What they counted last, by name.
    fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.gauges.names.iter().copied().zip(self.counts.iter().copied())
    }

    /// Notes what is above all that was counted before.
    fn note_highest(&mut self) {
        for ((name, value), highest) in
            self.gauges.names.iter().zip(&self.counts).zip(&mut self.highest)
        {
            if value > highest {
                *highest = *value;
                local::note_of_world(
                    self.host,
                    Noted::Entry(EventKind::Gauge { name, value: *value }),
                );
            }
        }
    }
}

/// Has `each` look at the counters of every host that lives, with the world not held. What is added meanwhile is asked next time.
fn ask(mut each: impl FnMut(&mut Counters)) {
    let mut gauges = local::with(|world| std::mem::take(&mut world.gauges));
    gauges.iter_mut().filter(|counters| counters.alive).for_each(&mut each);
    local::with(|world| {
        gauges.append(&mut world.gauges);
        world.gauges = gauges;
    });
}

/// The end of a turn: notes what rose above what it had been before in the run; and of hosts whose first turn it was, all that
/// they have.
pub(super) fn look() {
    ask(|counters| {
        let polls = local::polls_of(counters.host);
        if std::mem::replace(&mut counters.polls, polls) == polls && polls > 0 {
            return;
        }
        counters.ask();
        counters.note_highest();
    });
    let first = local::with(World::first_turns);
    if !first.is_empty() {
        count(&first, true);
    }
}

/// All is over: notes what is left on the hosts, and on none.
pub(super) fn close() {
    let (hosts, strays) =
        local::with(|world| (world.hosts.indices().collect::<Vec<_>>(), world.stack.strays()));
    count(&hosts, false);
    strays.into_iter().for_each(local::note_stray);
}

/// Notes what hosts have.
fn count(hosts: &[HostIx], baseline: bool) {
    let mut counted: BTreeMap<HostIx, BTreeMap<String, u64>> = BTreeMap::new();
    local::with(|world| counted.extend(hosts.iter().map(|host| (*host, world.count(*host)))));
    ask(|counters| {
        if let Some(counts) = counted.get_mut(&counters.host) {
            counters.ask();
            counts.extend(counters.counted().map(|(name, value)| (name.to_owned(), value)));
        }
    });
    for (host, counts) in counted {
        local::note_of_world(host, Noted::Entry(EventKind::Census { baseline, counts }));
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
        let counts = [("sockets", state.sockets), ("tasks", local::tasks_of(host))]
            .into_iter()
            .chain(processes);
        counts.map(|(name, count)| (name.to_owned(), count)).collect()
    }
}
