//! What belongs to the thread that runs a world: the world itself, the inbox of its turn, and whose task is being polled.
//!
//! They are apart, because product code may log, record and drop sockets at any moment: the inbox and the current host are
//! touched without the world, so that nothing re-enters it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::runtime::{Handle, Id as RuntimeId};
use tokio::task::Id;

use crate::history::What;
use crate::schedule::FieldValue;

use super::state::World;

/// The number of a host in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostIx(pub usize);

/// The host that no task belongs to: sockets opened there are a bug.
pub(super) const NOBODY: HostIx = HostIx(0);

/// Something that happened during a turn, in order.
pub(super) struct Note {
    pub host: HostIx,
    pub what: Noted,
}

/// What happened.
pub(super) enum Noted {
    /// An entry for the history.
    Entry(What),
    /// A milestone.
    Milestone { name: &'static str, fields: Vec<(&'static str, FieldValue)> },
    /// A point; `hold` is the step that holds the task there.
    Point { name: &'static str, fields: Arc<[(&'static str, FieldValue)]>, hold: Option<usize> },
    /// A line of the subject's own tracing output.
    Log(String),
}

/// The tasks of a world, and whose they are.
#[derive(Default)]
pub(super) struct Tasks {
    owner: FxHashMap<Id, HostIx>,
    count: Vec<u64>,
    /// Polls since virtual time last moved; all polls.
    pub spins: u64,
    pub polls: u64,
}

/// Who is told that a world goes on, and how many turns were since.
type Pulse = (Option<fn()>, u32);

thread_local! {
    static WORLD: RefCell<Option<Box<World>>> = const { RefCell::new(None) };
    static INBOX: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
    static OPEN: Cell<bool> = const { Cell::new(false) };
    static CURRENT: Cell<HostIx> = const { Cell::new(NOBODY) };
    static MUTED: RefCell<Vec<HostIx>> = const { RefCell::new(Vec::new()) };
    static PULSE: Cell<Pulse> = const { Cell::new((None, 0)) };
    static RUNTIMES: RefCell<Vec<(RuntimeId, HostIx)>> = const { RefCell::new(Vec::new()) };
    static TASKS: RefCell<Tasks> = RefCell::new(Tasks::default());
}

/// Has `pulse` called now and then while a world of this thread makes progress: a watchdog outside that hears nothing knows
/// that a poll does not end.
pub fn on_progress(pulse: fn()) {
    PULSE.set((Some(pulse), 0));
}

/// A turn is over.
pub(super) fn progress() {
    let (pulse, turns) = PULSE.get();
    PULSE.set((pulse, turns.wrapping_add(1)));
    if let Some(pulse) = pulse.filter(|_| turns % TURNS_A_PULSE == 0) {
        pulse();
    }
}

/// How many turns there are to a pulse: a turn takes microseconds.
const TURNS_A_PULSE: u32 = 1 << 12;

/// Enters a world on this thread, with an open and empty inbox.
pub(super) fn enter(world: World) {
    TASKS.with_borrow_mut(|tasks| {
        *tasks = Tasks { count: vec![0; world.hosts.len()], ..Tasks::default() };
    });
    INBOX.with_borrow_mut(Vec::clear);
    MUTED.with_borrow_mut(Vec::clear);
    RUNTIMES.with_borrow_mut(Vec::clear);
    OPEN.set(true);
    CURRENT.set(NOBODY);
    WORLD.with(|slot| *slot.borrow_mut() = Some(Box::new(world)));
}

/// Leaves the world, and returns it.
pub(super) fn leave() -> Option<Box<World>> {
    OPEN.set(false);
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
    if !MUTED.with_borrow(|muted| muted.contains(&host)) {
        note_of_world(host, what);
    }
}

/// Notes what the world itself sees on a host, in its place among what the host's tasks say.
pub(super) fn note_of_world(host: HostIx, what: Noted) {
    if OPEN.get() {
        INBOX.with_borrow_mut(|inbox| inbox.push(Note { host, what }));
    }
}

/// A host dies: what its tasks say from now on, while they are dropped, is ignored.
pub(super) fn mute(host: HostIx) {
    MUTED.with_borrow_mut(|muted| muted.push(host));
}

/// The tasks of a host that died are gone: what comes from it is of its next life.
pub(super) fn unmute(host: HostIx) {
    MUTED.with_borrow_mut(|muted| muted.retain(|other| *other != host));
}

/// Takes what was noted since the last time, into `notes`.
pub(super) fn drain(notes: &mut Vec<Note>) {
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
        let of = |id| runtimes.iter().find(|(of, _)| *of == id).map(|(_, host)| *host);
        let id = if runtimes.is_empty() { None } else { Handle::try_current().ok().map(|handle| handle.id()) };
        id.and_then(of).unwrap_or(NOBODY)
    })
}

/// From now on a host has this runtime of its own.
pub(super) fn on_runtime(id: RuntimeId, host: HostIx) {
    RUNTIMES.with_borrow_mut(|runtimes| {
        runtimes.retain(|(_, of)| *of != host);
        runtimes.push((id, host));
    });
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
    TASKS.with_borrow(|tasks| tasks.count[host.0])
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
    TASKS.with_borrow_mut(|tasks| {
        tasks.owner.insert(id, host);
        tasks.count[host.0] += 1;
    });
}

/// The runtime's hook: a task is about to be polled. Returns how often tasks were polled since virtual time moved.
pub(super) fn before_poll(id: Id) -> u64 {
    TASKS.with_borrow_mut(|tasks| {
        CURRENT.set(tasks.owner.get(&id).copied().unwrap_or(NOBODY));
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
            tasks.count[host.0] -= 1;
        }
    });
}
