//! The simulated implementation of points and defects, by the prober that is attached to this
//! thread.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::net::BoxFuture;

/// Holds a task at a point: the task continues when the future completes.
pub type Hold = BoxFuture<'static, ()>;

/// Handles the points and defects of the product code on this thread.
pub trait Prober {
    /// Called when a task reaches a point. The task is held until the returned future completes.
    fn point(&self, name: &'static str, fields: &[(&'static str, u64)]) -> Option<Hold>;

    /// Whether the defect with this Rust name is on.
    fn defect(&self, name: &'static str) -> bool;
}

thread_local! {
    static PROBER: RefCell<Option<Rc<dyn Prober>>> = const { RefCell::new(None) };
}

/// Keeps a [`Prober`] attached to this thread until it is dropped.
#[must_use = "the prober answers only while this is held"]
pub struct Attached(());

/// Attaches a prober to this thread.
///
/// # Panics
/// If one is attached already: a thread is in at most one world.
pub fn attach(prober: Rc<dyn Prober>) -> Attached {
    PROBER.with(|slot| {
        let before = slot.borrow_mut().replace(prober);
        assert!(before.is_none(), "a prober is already attached to this thread");
    });
    Attached(())
}

impl Drop for Attached {
    fn drop(&mut self) {
        PROBER.with(|slot| slot.borrow_mut().take());
    }
}

fn attached() -> Option<Rc<dyn Prober>> {
    PROBER.with(|slot| slot.borrow().clone())
}

/// Whether the defect with this Rust name is on in the world of this thread.
pub fn defect(name: &'static str) -> bool {
    attached().is_some_and(|prober| prober.defect(name))
}

/// See [`point!`](crate::point).
pub fn point(name: &'static str, fields: &[(&'static str, u64)]) -> Point {
    Point(attached().and_then(|prober| prober.point(name, fields)))
}

/// The future of a point. It completes at once, unless a schedule holds the task there.
#[must_use = "a point that is not awaited holds nobody"]
pub struct Point(Option<Hold>);

impl Future for Point {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            None => Poll::Ready(()),
            Some(hold) => hold.as_mut().poll(cx),
        }
    }
}
