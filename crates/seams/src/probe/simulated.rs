//! The simulator's side of points and defects: whoever is attached to this thread answers for them.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::net::BoxFuture;

/// A hold of a task at a point: the task goes on when the future is done.
pub type Hold = BoxFuture<'static, ()>;

/// Answers for the points and defects of the product code that runs on this thread.
pub trait Prober {
    /// A task reached a point; it is held while the future that comes back is pending.
    fn point(&self, name: &'static str, fields: &[(&'static str, u64)]) -> Option<Hold>;

    /// Whether the defect of this Rust name is on.
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
/// If one is attached already: a thread is in one world at most.
pub fn attach(prober: Rc<dyn Prober>) -> Attached {
    PROBER.with(|slot| {
        let before = slot.borrow_mut().replace(prober);
        assert!(before.is_none(), "a prober is attached to this thread already");
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

/// Whether the defect of this Rust name is on in the world of this thread.
pub fn defect(name: &'static str) -> bool {
    attached().is_some_and(|prober| prober.defect(name))
}

/// See [`point!`](crate::point).
pub fn point(name: &'static str, fields: &[(&'static str, u64)]) -> Point {
    Point(attached().and_then(|prober| prober.point(name, fields)))
}

/// The future of a point: done at once, unless a schedule holds the task there.
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
