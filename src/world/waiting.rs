//! The steps and tasks that wait for a milestone or point.

use std::sync::Arc;
use std::task::Waker;

use crate::schedule::{MilestoneValue, Trigger};

use crate::world::thread::HostIx;

/// The steps of a run that wait for a trigger, and the held tasks.
#[derive(Default)]
pub(in crate::world) struct StepRunner {
    /// Steps that wait for their trigger, with the number of matches so far.
    pub waiting: Vec<(usize, u64)>,
    /// Tasks that are held.
    pub holds: Vec<HeldTask>,
}

impl StepRunner {
    /// Returns whether a step or a held task waits for a milestone or point.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.holds.is_empty()
    }
}

/// A milestone or point that a task reached.
pub(in crate::world) struct Reached {
    pub is_point: bool,
    pub host: HostIx,
    pub name: &'static str,
    pub fields: Arc<[(&'static str, MilestoneValue)]>,
}

/// A task that is held at a point.
pub(in crate::world) struct HeldTask {
    pub fault: usize,
    pub host: HostIx,
    pub name: &'static str,
    /// The trigger that releases the task, with the number of matches so far.
    pub until: Option<(Trigger, u64)>,
    pub gate: Arc<Gate>,
}

/// The gate at which a held task waits.
#[derive(Default)]
pub(in crate::world) struct Gate(std::sync::Mutex<(bool, Option<Waker>)>);

impl Gate {
    pub fn open(&self) {
        let mut gate = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        gate.0 = true;
        if let Some(waker) = gate.1.take() {
            waker.wake();
        }
    }

    pub async fn passed(self: Arc<Self>) {
        std::future::poll_fn(|cx| {
            let mut gate = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if gate.0 {
                return std::task::Poll::Ready(());
            }
            gate.1 = Some(cx.waker().clone());
            std::task::Poll::Pending
        })
        .await;
    }
}
