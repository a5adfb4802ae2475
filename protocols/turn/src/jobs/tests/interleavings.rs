//! Two processes at once: one does its whole operation at each point of the other's.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use reknit_seams::net::BoxFuture;
use reknit_seams::probe::{Hold, Prober, attach};

use super::*;

/// Does something once, at the n-th point, and switches defects on.
struct AtPoint {
    countdown: Cell<usize>,
    act: RefCell<Option<BoxFuture<'static, ()>>>,
    defect: &'static str,
}

impl Prober for AtPoint {
    fn point(&self, _: &'static str, _: &[(&'static str, u64)]) -> Option<Hold> {
        let left = self.countdown.get();
        self.countdown.set(left.saturating_sub(1));
        if left == 1 { self.act.borrow_mut().take() } else { None }
    }

    fn defect(&self, name: &'static str) -> bool {
        name == self.defect
    }
}

/// An operation on a job that is queued at first; returns the end that it recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Work,
    Fail,
    Cancel,
    List,
    Prune,
}

const ACTS: [Act; 5] = [Act::Work, Act::Fail, Act::Cancel, Act::List, Act::Prune];

async fn act(act: Act, store: JobStore, id: JobId) -> Option<StateName> {
    let work = async |ending: Ending| {
        let claim = store.claim(&id).await?;
        store.update(&claim, turn("t1", Some("turn1"))).await?;
        store.finish(&claim, ending, Some("text")).await
    };
    let job = match act {
        Act::Work => work(Ending::Completed).await,
        Act::Fail => work(failed("no")).await,
        Act::Cancel => match store.cancel(&id).await {
            Ok(_) => return Some(StateName::Cancelled),
            Err(error) => Err(error),
        },
        Act::List => return store.list(None).await.map(|_| None).unwrap(),
        Act::Prune => return store.prune().await.map(|_| None).unwrap(),
    };
    match job {
        Ok(job) => Some(job.state.name()),
        Err(JobError::NotAllowed { .. } | JobError::NotItsWorker { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Runs both acts; returns the ends that they recorded, and the end in the record. `None` if the first
/// act has fewer points.
fn both(
    one: Act,
    other: Act,
    point: usize,
    defect: &'static str,
) -> Option<(Vec<StateName>, StateName)> {
    let machine = TestMachine::new();
    let (id, stores) = run(async {
        let stores = [machine.store().await, machine.store().await];
        (stores[0].create(task("")).await.unwrap().id, stores)
    });
    let [first, second] = stores;
    let ended = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (log, other_id) = (ended.clone(), id.clone());
    let prober = Rc::new(AtPoint {
        countdown: Cell::new(point),
        act: RefCell::new(Some(Box::pin(async move {
            let end = act(other, second, other_id).await;
            log.lock().unwrap().extend(end);
        }))),
        defect,
    });
    let attached = attach(prober.clone());
    let end = run(act(one, first, id.clone()));
    drop(attached);
    ended.lock().unwrap().extend(end);
    prober.act.borrow().is_none().then_some(())?;
    let state = run(async { machine.store().await.read(&id).await.unwrap().state.name() });
    let ends = ended.lock().unwrap().clone();
    Some((ends, state))
}

/// Returns the interleavings in which the record is not the one end that was recorded.
fn wrong(defect: &'static str) -> Vec<String> {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for (one, other) in ACTS.into_iter().flat_map(|one| ACTS.map(|other| (one, other))) {
        for point in 1.. {
            let Some((ends, state)) = both(one, other, point, defect) else { break };
            tried += 1;
            let expected = ends.first().copied().unwrap_or(StateName::Queued);
            if ends.len() > 1 || state != expected {
                wrong.push(format!("{other:?} at point {point} of {one:?}: {ends:?}, but {state}"));
            }
        }
    }
    assert!(tried > 60, "only {tried} interleavings");
    wrong
}

#[test]
fn at_each_point_of_one_process_another_one_can_work_and_one_end_stands() {
    assert_eq!(wrong(""), [""; 0]);
}

#[test]
fn seeded_bugs_break_it() {
    for defect in ["UpdatesWithoutLock", "ClaimsCancelledJobs", "OverwritesTheEnd"] {
        assert!(!wrong(defect).is_empty(), "{defect}");
    }
}
