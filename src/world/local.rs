//! The world of this thread, for product code that it runs: sockets, journals and clocks reach
//! their world through [`with`].

use std::cell::RefCell;

use super::state::World;
use super::thread;

thread_local! {
    static WORLD: RefCell<Option<Box<World>>> = const { RefCell::new(None) };
}

/// Enters a world on this thread.
pub(super) fn enter(world: World) {
    thread::begin(world.hosts.len());
    WORLD.with(|slot| *slot.borrow_mut() = Some(Box::new(world)));
}

/// Leaves the world, and returns it.
pub(super) fn leave() -> Option<Box<World>> {
    thread::end();
    WORLD.with(|slot| slot.borrow_mut().take())
}

/// Calls `f` with the world of this thread.
///
/// `f` must not run product code: it may wake a task, but must not poll or drop one.
pub(super) fn with<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|slot| f(slot.borrow_mut().as_mut().expect("a world is entered on this thread")))
}

/// Like [`with`], but returns `None` if no world is entered any more.
pub(super) fn try_with<R>(f: impl FnOnce(&mut World) -> R) -> Option<R> {
    WORLD.with(|slot| slot.borrow_mut().as_mut().map(|world| f(world)))
}
