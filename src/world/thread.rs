//! The state of the thread that runs a world, besides the world itself: the inbox of the current
//! turn, and the host whose task is being polled.
//!
//! It is separate from the world, because product code may log, record and drop sockets at any
//! time. It accesses the inbox and the current host without the world, so it never re-enters the
//! world.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::runtime::Handle;
use tokio::task::Id;

use crate::history::EventKind;
use crate::schedule::MilestoneValue;

/// The number of a host in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostIx(pub usize);

/// The host of tasks, milestones and sockets that belong to no host. Each of these is a bug, and is
/// reported.
pub(super) const UNUSED: HostIx = HostIx(0);

/// Something that happened during a turn, in order.
pub(super) struct TurnNote {
    pub host: HostIx,
    pub what: Noted,
}

/// The content of a note.
pub(super) enum Noted {
    /// An entry for the history.
    Entry(EventKind),
    /// A milestone.
    Milestone { name: &'static str, fields: Vec<(&'static str, MilestoneValue)> },
    /// A point; `hold` is the step that holds the task there.
    Point { name: &'static str, fields: Arc<[(&'static str, MilestoneValue)]>, hold: Option<usize> },
    /// A line of the subject's own tracing output.
    Log(String),
    /// A thing that belongs to no host.
    Unowned(String),
}

/// The tasks of a world, with the host of each task.
#[derive(Default)]
struct Tasks {
    owner: FxHashMap<Id, HostIx>,
    hosts: Vec<TasksOf>,
    /// Number of polls since virtual time last moved, and of all polls.
    spins: u64,
    polls: u64,
    /// The total number of polls at the last call of [`count_polls`].
    seen: u64,
}

/// The tasks of one host.
#[derive(Clone, Default)]
struct TasksOf {
    /// Number of live tasks.
    count: u64,
    /// Number of polls of all tasks, including those that have ended.
    polls: u64,
}

/// The runtime of a single host.
struct OwnRuntime {
    handle: Handle,
    host: HostIx,
    /// Number of polls on this runtime that were already counted.
    polls: u64,
}

/// The callback that reports progress, and the number of turns since its last call.
type Pulse = (Option<fn()>, u32);

thread_local! {
    static INBOX: RefCell<Vec<TurnNote>> = const { RefCell::new(Vec::new()) };
    static OPEN: Cell<bool> = const { Cell::new(false) };
    static CURRENT: Cell<HostIx> = const { Cell::new(UNUSED) };
    static DYING: RefCell<Vec<HostIx>> = const { RefCell::new(Vec::new()) };
    static PULSE: Cell<Pulse> = const { Cell::new((None, 0)) };
    static RUNTIMES: RefCell<Vec<OwnRuntime>> = const { RefCell::new(Vec::new()) };
    static TASKS: RefCell<Tasks> = RefCell::new(Tasks::default());
}

/// Sets a callback that runs from time to time while a world on this thread makes progress. If the
/// calls stop, an outside watchdog knows that a poll does not return.
pub fn on_progress(pulse: fn()) {
    PULSE.set((Some(pulse), 0));
}

/// Counts a finished turn. `worth` is its cost in turns of the usual length.
pub(super) fn progress(worth: u32) {
    let (pulse, turns) = PULSE.get();
    let turns = turns + worth;
    PULSE.set((pulse, turns % TURNS_A_PULSE));
    if let Some(pulse) = pulse.filter(|_| turns >= TURNS_A_PULSE) {
        pulse();
    }
}

/// Number of turns per call of the callback. A turn takes microseconds.
const TURNS_A_PULSE: u32 = 1 << 12;

/// Prepares the thread for a world with this number of hosts: the inbox is open and empty.
pub(super) fn begin(hosts: usize) {
    TASKS.with_borrow_mut(|tasks| {
        *tasks = Tasks { hosts: vec![TasksOf::default(); hosts], ..Tasks::default() };
    });
    INBOX.with_borrow_mut(Vec::clear);
    DYING.with_borrow_mut(Vec::clear);
    RUNTIMES.with_borrow_mut(Vec::clear);
    OPEN.set(true);
    CURRENT.set(UNUSED);
}

/// Ends the work for a world.
pub(super) fn end() {
    OPEN.set(false);
    RUNTIMES.with_borrow_mut(Vec::clear);
}

/// Closes the inbox: notes that product code makes during teardown are not part of the history.
pub(super) fn seal() {
    OPEN.set(false);
}

/// Returns whether the inbox of a world is open.
pub(super) fn is_recording() -> bool {
    OPEN.get()
}

/// Adds a note about the host whose task is being polled.
pub(super) fn note(what: Noted) {
    note_on(current(), what);
}

/// Adds a note about a host, unless the host is dying.
pub(super) fn note_on(host: HostIx, what: Noted) {
    if !is_dying(host) {
        note_of_world(host, what);
    }
}

/// Adds an observation that the world makes about a host, in order with the notes of the host's
/// tasks.
pub(super) fn note_of_world(host: HostIx, what: Noted) {
    if OPEN.get() {
        INBOX.with_borrow_mut(|inbox| inbox.push(TurnNote { host, what }));
    }
}

/// Adds a note about a thing that belongs to no host.
pub(super) fn note_unowned(what: String) {
    note_of_world(UNUSED, Noted::Unowned(what));
}

/// Marks a host as dying: notes that its tasks make while they are dropped are ignored.
pub(super) fn mark_dying(host: HostIx) {
    DYING.with_borrow_mut(|dying| dying.push(host));
}

/// Returns whether a host is dying: its tasks may not be dropped yet.
pub(super) fn is_dying(host: HostIx) -> bool {
    DYING.with_borrow(|dying| dying.contains(&host))
}

/// Returns the hosts that were dying, and clears the list: their tasks are dropped. Later notes of
/// these hosts belong to their next incarnations.
pub(super) fn take_dead_hosts() -> Vec<HostIx> {
    DYING.take()
}

/// Moves the notes since the last call into `notes`.
pub(super) fn drain(notes: &mut Vec<TurnNote>) {
    INBOX.with_borrow_mut(|inbox| std::mem::swap(inbox, notes));
}

/// Returns the host whose task is being polled.
pub(super) fn current() -> HostIx {
    match CURRENT.get() {
        UNUSED => by_runtime(),
        host => host,
    }
}

/// Returns the host of the current runtime, if each host has its own runtime.
fn by_runtime() -> HostIx {
    RUNTIMES.with_borrow(|runtimes| {
        let id = if runtimes.is_empty() {
            None
        } else {
            Handle::try_current().ok().map(|handle| handle.id())
        };
        id.and_then(|id| runtimes.iter().find(|of| of.handle.id() == id))
            .map_or(UNUSED, |of| of.host)
    })
}

/// Registers the current runtime as the host's own runtime.
pub(super) fn on_runtime(host: HostIx) {
    RUNTIMES.with_borrow_mut(|runtimes| {
        runtimes.retain(|of| of.host != host);
        runtimes.push(OwnRuntime { handle: Handle::current(), host, polls: 0 });
    });
}

/// Counts the polls on the hosts' own runtimes, which have no hooks. Returns whether any task was
/// polled since the last call.
pub(super) fn count_polls() -> bool {
    RUNTIMES.with_borrow_mut(|runtimes| {
        for of in runtimes {
            let polls = of.handle.metrics().worker_poll_count(0);
            count_polls_of(of.host, polls - std::mem::replace(&mut of.polls, polls));
        }
    });
    TASKS.with_borrow_mut(|tasks| std::mem::replace(&mut tasks.seen, tasks.polls) != tasks.polls)
}

fn count_polls_of(host: HostIx, polls: u64) {
    TASKS.with_borrow_mut(|tasks| {
        tasks.hosts[host.0].polls += polls;
        tasks.polls += polls;
    });
}

/// Counts a poll of the root of a host that has its own runtime. The root is not a task of that
/// runtime.
pub(super) fn polls_root() {
    count_polls_of(current(), 1);
}

/// Counts the root of a host with its own runtime as one of the host's tasks, until this value is
/// dropped.
pub(super) struct RootTaskGuard(HostIx);

impl RootTaskGuard {
    /// Counts the root of the host whose runtime is current.
    pub fn of_current_host() -> Self {
        let host = current();
        TASKS.with_borrow_mut(|tasks| tasks.hosts[host.0].count += 1);
        Self(host)
    }
}

impl Drop for RootTaskGuard {
    fn drop(&mut self) {
        TASKS.with_borrow_mut(|tasks| tasks.hosts[self.0.0].count -= 1);
    }
}

/// Calls `f` as a host, so that it polls or spawns tasks of that host.
pub(super) fn as_host<R>(host: HostIx, f: impl FnOnce() -> R) -> R {
    let before = CURRENT.replace(host);
    let result = f();
    CURRENT.set(before);
    result
}

/// Returns the number of tasks of a host.
pub(super) fn tasks_of(host: HostIx) -> u64 {
    let on_runtime = |of: &OwnRuntime| {
        if of.host == host { of.handle.metrics().num_alive_tasks() as u64 } else { 0 }
    };
    let on_its_own: u64 = RUNTIMES.with_borrow(|runtimes| runtimes.iter().map(on_runtime).sum());
    on_its_own + TASKS.with_borrow(|tasks| tasks.hosts[host.0].count)
}

/// Returns how often tasks of a host were polled.
pub(super) fn polls_of(host: HostIx) -> u64 {
    TASKS.with_borrow(|tasks| tasks.hosts[host.0].polls)
}

/// Returns the total number of polls.
pub(super) fn polls() -> u64 {
    TASKS.with_borrow(|tasks| tasks.polls)
}

/// Resets the count of polls that detects livelocks, because virtual time has moved.
pub(super) fn time_moved() {
    TASKS.with_borrow_mut(|tasks| tasks.spins = 0);
}

/// Runtime hook: a task of the current host spawns a task.
pub(super) fn spawned(id: Id) {
    let host = CURRENT.get();
    if host == UNUSED {
        note_unowned("a task".into());
    }
    TASKS.with_borrow_mut(|tasks| {
        tasks.owner.insert(id, host);
        tasks.hosts[host.0].count += 1;
    });
}

/// Runtime hook: a task is about to be polled. Returns the number of polls since virtual time last
/// moved.
pub(super) fn before_poll(id: Id) -> u64 {
    TASKS.with_borrow_mut(|tasks| {
        let host = tasks.owner.get(&id).copied().unwrap_or(UNUSED);
        CURRENT.set(host);
        tasks.hosts[host.0].polls += 1;
        tasks.polls += 1;
        tasks.spins += 1;
        tasks.spins
    })
}

/// Runtime hook: a task was polled.
pub(super) fn after_poll() {
    CURRENT.set(UNUSED);
}

/// Runtime hook: a task has ended.
pub(super) fn terminated(id: Id) {
    TASKS.with_borrow_mut(|tasks| {
        if let Some(host) = tasks.owner.remove(&id) {
            tasks.hosts[host.0].count -= 1;
        }
    });
}
