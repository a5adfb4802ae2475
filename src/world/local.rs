//! What belongs to the thread that runs a world: the world itself, the inbox of its turn, and whose task is being polled.
//!
//! They are apart, because product code may log, record and drop sockets at any moment: the inbox and the current host are
//! touched without the world, so that nothing re-enters it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::runtime::Handle;
use tokio::task::Id;

use crate::history::EventKind;
use crate::schedule::MilestoneValue;

use super::state::World;

/// The number of a host in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostIx(pub usize);

/// The host of what belongs to none: a task, a milestone or a socket there is a bug, and is told as such.
pub(super) const NOBODY: HostIx = HostIx(0);

/// Something that happened during a turn, in order.
pub(super) struct TurnNote {
    pub host: HostIx,
    pub what: Noted,
}

/// What happened.
pub(super) enum Noted {
    /// An entry for the history.
    Entry(EventKind),
    /// A milestone.
    Milestone { name: &'static str, fields: Vec<(&'static str, MilestoneValue)> },
    /// A point; `hold` is the step that holds the task there.
    Point { name: &'static str, fields: Arc<[(&'static str, MilestoneValue)]>, hold: Option<usize> },
    /// A line of the subject's own tracing output.
    Log(String),
    /// Something belongs to no host.
    Stray(String),
}

/// The tasks of a world, and whose they are.
#[derive(Default)]
struct Tasks {
    owner: FxHashMap<Id, HostIx>,
    hosts: Vec<TasksOf>,
    /// Polls since virtual time last moved; all polls.
    spins: u64,
    polls: u64,
    /// All polls, when it was last asked whether there were any.
    seen: u64,
}

/// The tasks of one host.
#[derive(Clone, Default)]
struct TasksOf {
    /// How many there are.
    count: u64,
    /// How often they were polled, with those that are gone.
    polls: u64,
}

/// The runtime of one host alone.
struct OwnRuntime {
    handle: Handle,
    host: HostIx,
    /// How many polls on it are counted.
    polls: u64,
}

/// Who is told that a world goes on, and how many turns were since.
type Pulse = (Option<fn()>, u32);

thread_local! {
    static WORLD: RefCell<Option<Box<World>>> = const { RefCell::new(None) };
    static INBOX: RefCell<Vec<TurnNote>> = const { RefCell::new(Vec::new()) };
    static OPEN: Cell<bool> = const { Cell::new(false) };
    static CURRENT: Cell<HostIx> = const { Cell::new(NOBODY) };
    static DYING: RefCell<Vec<HostIx>> = const { RefCell::new(Vec::new()) };
    static PULSE: Cell<Pulse> = const { Cell::new((None, 0)) };
    static RUNTIMES: RefCell<Vec<OwnRuntime>> = const { RefCell::new(Vec::new()) };
    static TASKS: RefCell<Tasks> = RefCell::new(Tasks::default());
}

/// Has `pulse` called now and then while a world of this thread makes progress: a watchdog outside that hears nothing knows
/// that a poll does not end.
pub fn on_progress(pulse: fn()) {
    PULSE.set((Some(pulse), 0));
}

/// A turn is over, which took as long as so many usually do.
pub(super) fn progress(worth: u32) {
    let (pulse, turns) = PULSE.get();
    let turns = turns + worth;
    PULSE.set((pulse, turns % TURNS_A_PULSE));
    if let Some(pulse) = pulse.filter(|_| turns >= TURNS_A_PULSE) {
        pulse();
    }
}

/// How many turns there are to a pulse: a turn takes microseconds.
const TURNS_A_PULSE: u32 = 1 << 12;

/// Enters a world on this thread, with an open and empty inbox.
pub(super) fn enter(world: World) {
    TASKS.with_borrow_mut(|tasks| {
        *tasks = Tasks { hosts: vec![TasksOf::default(); world.hosts.len()], ..Tasks::default() };
    });
    INBOX.with_borrow_mut(Vec::clear);
    DYING.with_borrow_mut(Vec::clear);
    RUNTIMES.with_borrow_mut(Vec::clear);
    OPEN.set(true);
    CURRENT.set(NOBODY);
    WORLD.with(|slot| *slot.borrow_mut() = Some(Box::new(world)));
}

/// Leaves the world, and returns it.
pub(super) fn leave() -> Option<Box<World>> {
    OPEN.set(false);
    RUNTIMES.with_borrow_mut(Vec::clear);
    WORLD.with(|slot| slot.borrow_mut().take())
}

/// Closes the inbox: what product code still says while it is torn down is not history.
pub(super) fn seal() {
    OPEN.set(false);
}

/// Does something with the world of this thread.
///
/// Nothing that `f` calls may run product code: wake a task, yes; poll or drop one, no.
pub(super) fn with<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|slot| f(slot.borrow_mut().as_mut().expect("a world is entered on this thread")))
}

/// As [`with`], and nothing if no world is entered any more.
pub(super) fn try_with<R>(f: impl FnOnce(&mut World) -> R) -> Option<R> {
    WORLD.with(|slot| slot.borrow_mut().as_mut().map(|world| f(world)))
}

/// Whether a world is entered and listens.
pub(super) fn listening() -> bool {
    OPEN.get()
}

/// Notes something about the host whose task is being polled.
pub(super) fn note(what: Noted) {
    note_on(current(), what);
}

/// Notes something about a host, unless it is dying.
pub(super) fn note_on(host: HostIx, what: Noted) {
    if !is_dying(host) {
        note_of_world(host, what);
    }
}

/// Notes what the world itself sees on a host, in its place among what the host's tasks say.
pub(super) fn note_of_world(host: HostIx, what: Noted) {
    if OPEN.get() {
        INBOX.with_borrow_mut(|inbox| inbox.push(TurnNote { host, what }));
    }
}

/// Notes something that belongs to no host.
pub(super) fn note_stray(what: String) {
    note_of_world(NOBODY, Noted::Stray(what));
}

/// A host dies: what its tasks say from now on, while they are dropped, is ignored.
pub(super) fn dies(host: HostIx) {
    DYING.with_borrow_mut(|dying| dying.push(host));
}

/// Whether a host dies, and its tasks may not be gone yet.
pub(super) fn is_dying(host: HostIx) -> bool {
    DYING.with_borrow(|dying| dying.contains(&host))
}

/// The tasks of all hosts that were dying are gone: what comes from these hosts is of their next lives.
pub(super) fn buried() -> Vec<HostIx> {
    DYING.take()
}

/// Takes what was noted since the last time, into `notes`.
pub(super) fn drain(notes: &mut Vec<TurnNote>) {
    INBOX.with_borrow_mut(|inbox| std::mem::swap(inbox, notes));
}

/// The host whose task is being polled.
pub(super) fn current() -> HostIx {
    match CURRENT.get() {
        NOBODY => by_runtime(),
        host => host,
    }
}

/// The host whose runtime runs, where each has its own.
fn by_runtime() -> HostIx {
    RUNTIMES.with_borrow(|runtimes| {
        let id = if runtimes.is_empty() {
            None
        } else {
            Handle::try_current().ok().map(|handle| handle.id())
        };
        id.and_then(|id| runtimes.iter().find(|of| of.handle.id() == id))
            .map_or(NOBODY, |of| of.host)
    })
}

/// From now on a host has the runtime of its own that runs now.
pub(super) fn on_runtime(host: HostIx) {
    RUNTIMES.with_borrow_mut(|runtimes| {
        runtimes.retain(|of| of.host != host);
        runtimes.push(OwnRuntime { handle: Handle::current(), host, polls: 0 });
    });
}

/// Counts the polls of tasks on runtimes of their own, which have no hooks. Returns whether anything was polled since it was asked last.
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

/// The root of a host with a runtime of its own is polled: it is no task of that runtime.
pub(super) fn polls_root() {
    count_polls_of(current(), 1);
}

/// The root of a host with a runtime of its own, for as long as it lives: it is counted among the host's tasks.
pub(super) struct RootLives(HostIx);

impl RootLives {
    /// The root of the host whose runtime runs.
    pub fn here() -> Self {
        let host = current();
        TASKS.with_borrow_mut(|tasks| tasks.hosts[host.0].count += 1);
        Self(host)
    }
}

impl Drop for RootLives {
    fn drop(&mut self) {
        TASKS.with_borrow_mut(|tasks| tasks.hosts[self.0.0].count -= 1);
    }
}

/// Polls or spawns something as a host.
pub(super) fn as_host<R>(host: HostIx, f: impl FnOnce() -> R) -> R {
    let before = CURRENT.replace(host);
    let result = f();
    CURRENT.set(before);
    result
}

/// How many tasks a host has.
pub(super) fn tasks_of(host: HostIx) -> u64 {
    let on_runtime = |of: &OwnRuntime| {
        if of.host == host { of.handle.metrics().num_alive_tasks() as u64 } else { 0 }
    };
    let on_its_own: u64 = RUNTIMES.with_borrow(|runtimes| runtimes.iter().map(on_runtime).sum());
    on_its_own + TASKS.with_borrow(|tasks| tasks.hosts[host.0].count)
}

/// How often tasks of a host were polled.
pub(super) fn polls_of(host: HostIx) -> u64 {
    TASKS.with_borrow(|tasks| tasks.hosts[host.0].polls)
}

/// How many polls there were in all.
pub(super) fn polls() -> u64 {
    TASKS.with_borrow(|tasks| tasks.polls)
}

/// Virtual time moved: what spins, spins anew.
pub(super) fn time_moved() {
    TASKS.with_borrow_mut(|tasks| tasks.spins = 0);
}

/// The runtime's hook: a task is spawned, by a task of the current host.
pub(super) fn spawned(id: Id) {
    let host = CURRENT.get();
    if host == NOBODY {
        note_stray("a task".into());
    }
    TASKS.with_borrow_mut(|tasks| {
        tasks.owner.insert(id, host);
        tasks.hosts[host.0].count += 1;
    });
}

/// The runtime's hook: a task is about to be polled. Returns how often tasks were polled since virtual time moved.
pub(super) fn before_poll(id: Id) -> u64 {
    TASKS.with_borrow_mut(|tasks| {
        let host = tasks.owner.get(&id).copied().unwrap_or(NOBODY);
        CURRENT.set(host);
        tasks.hosts[host.0].polls += 1;
        tasks.polls += 1;
        tasks.spins += 1;
        tasks.spins
    })
}

/// The runtime's hook: a task was polled.
pub(super) fn after_poll() {
    CURRENT.set(NOBODY);
}

/// The runtime's hook: a task is over.
pub(super) fn terminated(id: Id) {
    TASKS.with_borrow_mut(|tasks| {
        if let Some(host) = tasks.owner.remove(&id) {
            tasks.hosts[host.0].count -= 1;
        }
    });
}
