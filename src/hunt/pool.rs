//! Work on several threads. Results arrive in the order of the items, regardless of the number of
//! threads.
//!
//! A world runs on one thread, and product code that never awaits can block that thread forever. A
//! thread cannot be stopped from outside. The thread that collects the results therefore acts as a
//! watchdog. If a worker shows no pulse for too long, the watchdog abandons it, reports its item as
//! [`MissingResult::Stuck`], and starts another worker. A stuck worker is never joined; it ends
//! with the process.
//!
//! This is the only place in the harness where a real clock affects a decision.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Settings of the thread pool.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Number of worker threads; 0 means one.
    pub jobs: usize,
    /// The longest real time without a pulse before a worker is abandoned.
    pub patience: Duration,
}

impl Default for Pool {
    /// One thread per core, and a patience of 30 s: a busy machine takes several seconds for the largest states.
    fn default() -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Self { jobs, patience: Duration::from_secs(30) }
    }
}

/// The reason why an item has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingResult {
    /// The worker showed no pulse for this much real time.
    #[error("it took more than {} s of real time: a task spins without awaiting, or blocks its thread", .0.as_secs_f32())]
    Stuck(Duration),
    /// The worker panicked. This is a bug in the harness: panics of the subject are recorded in the
    /// history.
    #[error("the harness panicked: {0}")]
    Panicked(String),
}

/// The number of uncollected results at which workers block. Collecting a result may be slow, and
/// each result may hold a history.
const MAX_UNCOLLECTED: usize = 64;

impl Pool {
    /// Returns the same pool with one thread.
    pub fn alone(self) -> Self {
        Self { jobs: 1, ..self }
    }

    /// Runs `work` on each item, and passes the results to `each` in the order of the items, until
    /// `each` returns `Break`.
    ///
    /// A worker takes the next item when it is free, so the iterator may be long. It may be endless
    /// if `each` eventually returns `Break`.
    pub fn run<T, R>(
        &self,
        items: impl Iterator<Item = T> + Send + 'static,
        work: impl Fn(T) -> R + Send + Sync + 'static,
        mut each: impl FnMut(Result<R, MissingResult>) -> ControlFlow<()>,
    ) where
        T: Send + 'static,
        R: Send + 'static,
    {
        let (results, collected) = sync_channel(MAX_UNCOLLECTED);
        let queue = ItemQueue { items: Box::new(items), taken: 0 };
        let state = PoolState { queue: Arc::new(Mutex::new(queue)), work: Arc::new(work), results };
        let mut workers: Vec<_> = (0..self.jobs.max(1)).map(|_| state.spawn_worker()).collect();
        let mut waiting = BTreeMap::new();
        let (mut next, mut total) = (0, None);
        while total.is_none_or(|total| next < total) {
            match self.wait(&collected, &mut workers, &state) {
                Message::Result(n, result) if n >= next => drop(waiting.entry(n).or_insert(result)),
                Message::Result(..) => {}
                Message::NoMoreThan(n) => total = Some(n),
            }
            while let Some(result) = waiting.remove(&next) {
                next += 1;
                if each(result).is_break() {
                    return state.stop();
                }
            }
        }
    }

    /// Waits for a message from any worker, and abandons workers without a pulse.
    fn wait<T: Send + 'static, R: Send + 'static>(
        &self,
        collected: &Receiver<Message<R>>,
        workers: &mut [Arc<Slot>],
        state: &PoolState<T, R>,
    ) -> Message<R> {
        let tick = self.patience / 4;
        loop {
            let begun = now();
            match collected.recv_timeout(tick) {
                Ok(message) => return message,
                Err(RecvTimeoutError::Disconnected) => {
                    unreachable!("the state of the pool holds a sender")
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            // The machine stood still, and the workers with it: they get their time again.
            if stood_still(tick, begun.elapsed()) {
                workers.iter().for_each(|slot| slot.pulse());
                continue;
            }
            for slot in workers.iter_mut() {
                if let Some(n) = slot.stuck(self.patience) {
                    slot.given_up.store(true, Ordering::Relaxed);
                    *slot = state.spawn_worker();
                    return Message::Result(n, Err(MissingResult::Stuck(self.patience)));
                }
            }
        }
    }
}

/// Whether a wait of one tick took so long that the whole machine must have stood still, as a virtual
/// machine does that is paused.
fn stood_still(tick: Duration, waited: Duration) -> bool {
    waited > tick * 2
}

/// Reports that this worker is alive, and restarts its patience timer. Does nothing on a thread
/// that is not a worker.
pub fn pulse() {
    WORKER.with_borrow(|slot| {
        if let Some(slot) = slot {
            slot.pulse();
        }
    });
}

thread_local! {
    static WORKER: RefCell<Option<Arc<Slot>>> = const { RefCell::new(None) };
}

/// The queue of items.
struct ItemQueue<T> {
    items: Box<dyn Iterator<Item = T> + Send>,
    taken: usize,
}

impl<T> ItemQueue<T> {
    /// Returns the next item and its number, or the total number of items.
    fn take(&mut self) -> Result<(usize, T), usize> {
        let item = self.items.next().ok_or(self.taken)?;
        self.taken += 1;
        Ok((self.taken - 1, item))
    }
}

/// A message from a worker.
enum Message<R> {
    /// The result of an item.
    Result(usize, Result<R, MissingResult>),
    /// The total number of items.
    NoMoreThan(usize),
}

/// The state of a worker, as the watchdog sees it.
#[derive(Default)]
struct Slot {
    /// The current item, and the time of the last pulse.
    busy: Mutex<Option<(usize, Instant)>>,
    given_up: AtomicBool,
}

impl Slot {
    fn begin(&self, item: usize) {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = Some((item, now()));
    }

    fn pulse(&self) {
        if let Some((_, last)) = &mut *self.busy.lock().unwrap_or_else(PoisonError::into_inner) {
            *last = now();
        }
    }

    fn end(&self) {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn stuck(&self, patience: Duration) -> Option<usize> {
        let busy = *self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.filter(|(_, last)| last.elapsed() > patience).map(|(item, _)| item)
    }
}

/// The shared state of all workers.
struct PoolState<T, R> {
    queue: Arc<Mutex<ItemQueue<T>>>,
    work: Arc<dyn Fn(T) -> R + Send + Sync>,
    results: SyncSender<Message<R>>,
}

impl<T: Send + 'static, R: Send + 'static> PoolState<T, R> {
    fn spawn_worker(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        let (queue, work, results, mine) =
            (self.queue.clone(), self.work.clone(), self.results.clone(), slot.clone());
        std::thread::spawn(move || {
            WORKER.set(Some(mine.clone()));
            crate::world::on_progress(pulse);
            run_worker(&queue, &*work, &results, &mine);
        });
        slot
    }

    /// Empties the queue, so that workers stop after their current item.
    fn stop(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).items =
            Box::new(std::iter::empty());
    }
}

fn run_worker<T, R>(
    queue: &Mutex<ItemQueue<T>>,
    work: &(dyn Fn(T) -> R + Send + Sync),
    results: &SyncSender<Message<R>>,
    slot: &Slot,
) {
    while !slot.given_up.load(Ordering::Relaxed) {
        let taken = queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let message = match taken {
            Err(total) => Message::NoMoreThan(total),
            Ok((n, item)) => {
                slot.begin(n);
                let result = catch_unwind(AssertUnwindSafe(|| work(item)));
                slot.end();
                Message::Result(
                    n,
                    result.map_err(|panic| MissingResult::Panicked(message(&*panic))),
                )
            }
        };
        let over = matches!(message, Message::NoMoreThan(_));
        if results.send(message).is_err() || over {
            return;
        }
    }
}

/// Returns the message of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".into())
}

#[allow(clippy::disallowed_methods)] // the watchdog is outside the worlds: real time is what it watches
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn all<T: Send + 'static, R: Send + 'static>(
        pool: Pool,
        items: impl Iterator<Item = T> + Send + 'static,
        work: impl Fn(T) -> R + Send + Sync + 'static,
    ) -> Vec<Result<R, MissingResult>> {
        let mut results = Vec::new();
        pool.run(items, work, |result| {
            results.push(result);
            ControlFlow::Continue(())
        });
        results
    }

    fn pool(jobs: usize) -> Pool {
        Pool { jobs, patience: Duration::from_secs(10) }
    }

    /// Work that takes longer for the first items than for the last.
    fn slow_first(n: u64) -> u64 {
        (0..(200 - n) * 500).fold(0_u64, |sum, x| std::hint::black_box(sum.wrapping_add(x)));
        n * 2
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // the workers' real time is what passes
    fn workers_wait_when_the_collector_is_slow() {
        let begun = Arc::new(AtomicUsize::new(0));
        let (counted, mut most) = (begun.clone(), None);
        let work = move |_| counted.fetch_add(1, Ordering::Relaxed);
        Pool { jobs: 2, ..Pool::default() }.run(0..10_000, work, |_| {
            // After this pause, every worker that can proceed has done so.
            std::thread::sleep(Duration::from_millis(if most.is_none() { 300 } else { 0 }));
            most.get_or_insert_with(|| begun.load(Ordering::Relaxed));
            ControlFlow::Continue(())
        });
        assert!(
            most.is_some_and(|most| most <= MAX_UNCOLLECTED + 3),
            "{most:?} had begun when the first was looked at"
        );
        assert_eq!(begun.load(Ordering::Relaxed), 10_000);
    }

    #[test]
    fn results_come_in_order_whatever_the_number_of_threads() {
        let expected: Vec<_> = (0..200).map(|n| Ok(n * 2)).collect();
        for jobs in [0, 1, 2, 7] {
            assert_eq!(all(pool(jobs), 0..200, slow_first), expected, "{jobs} jobs");
        }
    }

    #[test]
    fn no_items_give_no_results() {
        assert_eq!(all(pool(3), std::iter::empty::<u64>(), slow_first), []);
    }

    #[test]
    fn an_endless_iterator_ends_when_the_collector_stops() {
        let mut seen = Vec::new();
        pool(2).run(
            0..,
            |n: u64| n,
            |result| {
                seen.push(result.unwrap());
                if seen.len() == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_stuck_worker_is_abandoned_and_the_other_items_finish() {
        let patience = Duration::from_millis(100);
        let results = all(Pool { jobs: 1, patience }, 0..4, |n| {
            if n == 1 {
                loop {
                    std::thread::park();
                }
            }
            n
        });
        assert_eq!(results, [Ok(0), Err(MissingResult::Stuck(patience)), Ok(2), Ok(3)]);
    }

    #[test]
    fn a_machine_that_stands_still_proves_nothing() {
        let tick = Duration::from_secs(1);
        assert!(!stood_still(tick, tick * 2));
        assert!(stood_still(tick, tick * 2 + Duration::from_millis(1)));
    }

    #[test]
    fn a_worker_with_a_pulse_may_run_longer() {
        let patience = Duration::from_millis(200);
        let results = all(Pool { jobs: 1, patience }, 0..1, |n| {
            for _ in 0..10 {
                std::thread::park_timeout(Duration::from_millis(50));
                pulse();
            }
            n
        });
        assert_eq!(results, [Ok(0)]);
    }

    #[test]
    fn a_panic_of_the_harness_is_that_items_result() {
        let results = all(pool(2), 0..3, |n| if n == 1 { panic!("no {n}") } else { n });
        assert_eq!(results, [Ok(0), Err(MissingResult::Panicked("no 1".into())), Ok(2)]);
    }
}
