//! The user of a client: it checks what its follower returns.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reknit_sse::client::{Client, Dialect, Failure, Follower, Item};
use reknit_sse::wire::{CommandId, Cursor, Epoch, Event};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::event::ID;
use super::host::Ledger;
use crate::stage::must;

/// The items that the user has.
#[derive(Clone, Debug)]
pub struct Held {
    /// The position after the last item.
    pub after: u64,
    /// Whether it has received an item.
    pub has_items: bool,
    /// Whether it has received the ending.
    pub has_ending: bool,
    pub verdict: Option<Result<(), Failure>>,
    pub verdict_at: Instant,
    /// When the last item came.
    pub progress: Instant,
    /// The runs to which all items can belong.
    runs: Option<BTreeSet<Epoch>>,
}

/// The user.
pub struct SseUser {
    client: Client,
    held: Arc<Mutex<Held>>,
    reads: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// More than the time that a short request may take.
const SHORT: Duration = Duration::from_secs(11);

impl SseUser {
    /// Reads from a follower.
    pub fn new(
        client: Client,
        follower: Follower,
        dialect: Dialect,
        waits_for_start: bool,
        ledger: Arc<Mutex<Ledger>>,
    ) -> Self {
        let (cursor, now) = (follower.cursor(), Instant::now());
        let held = Held {
            after: cursor.after,
            has_items: false,
            has_ending: false,
            verdict: None,
            verdict_at: now,
            progress: now,
            runs: cursor.epoch.map(|run| BTreeSet::from([run])),
        };
        let held = Arc::new(Mutex::new(held));
        let (reads, may_read) = watch::channel(true);
        let mut tasks = JoinSet::new();
        let reader = Reader { follower, dialect, held: held.clone(), ledger };
        tasks.spawn(reader.read_all(waits_for_start, may_read));
        Self { client, held, reads, tasks }
    }

    pub fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("the items are right")
    }

    /// Stops or resumes waiting for items.
    pub fn read(&mut self, reads: bool) {
        self.reads.send_replace(reads);
    }

    /// Sends a short request. It must end in time.
    pub fn ask(&mut self, kind: u8) {
        let (client, id) = (self.client.clone(), ID.parse::<CommandId>().expect("it is an id"));
        self.tasks.spawn(async move {
            let asked = async {
                match kind % 3 {
                    0 => drop(client.status(&id).await),
                    1 => drop(client.logs(&id, Cursor::START).await),
                    _ => drop(client.interrupt(&id).await),
                }
            };
            must("the end of a short request", SHORT, asked).await;
        });
    }

    /// Waits until everything has ended.
    pub async fn is_done(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("nothing panics");
        }
    }
}

/// The task that reads.
struct Reader {
    follower: Follower,
    dialect: Dialect,
    held: Arc<Mutex<Held>>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Reader {
    async fn read_all(mut self, waits_for_start: bool, mut may_read: watch::Receiver<bool>) {
        if waits_for_start && let Err(failure) = self.follower.started().await {
            assert_eq!(self.follower.next().await, Err(failure.clone()), "a failure is final");
        }
        loop {
            let before = self.follower.cursor().after;
            assert_eq!(before, self.held.lock().expect("the items are right").after);
            if may_read.wait_for(|reads| *reads).await.is_err() {
                return;
            }
            let result = tokio::select! {
                biased;
                result = self.follower.next() => result,
                _ = may_read.wait_for(|reads| !reads) => continue,
            };
            let after = self.follower.cursor().after;
            match result {
                Ok(Some(item)) => self.check(item, before, after),
                end => {
                    assert_eq!(before, after, "the cursor at the end");
                    for _ in 0..2 {
                        assert_eq!(self.follower.next().await, end, "an end is final");
                    }
                    let verdict = end.map(drop);
                    let mut held = self.held.lock().expect("the items are right");
                    (held.verdict, held.verdict_at) = (Some(verdict), Instant::now());
                    return;
                }
            }
        }
    }

    /// Checks an item, between these cursors.
    fn check(&mut self, item: Item, before: u64, after: u64) {
        let ledger = self.ledger.lock().expect("the client is right");
        let mut held = self.held.lock().expect("the items are right");
        assert!(!held.has_ending, "{item:?} follows the ending");
        let is_execd = self.dialect == Dialect::Execd;
        let next = before.checked_add(1);
        match &item {
            Item::Gap(gap) => {
                assert_eq!((Some(gap.first), gap.last), (next, after), "the place of a gap");
                let is_sent = ledger.sent.iter().any(|(_, record)| {
                    matches!(record.event, Event::Gap(sent) if sent.first <= gap.first && sent.last == gap.last)
                });
                assert!(is_sent || is_execd || ledger.unknown, "{gap} was not reported");
            }
            Item::Output(..) | Item::Ended { .. } => {
                assert!(
                    Some(after) == next || is_execd && after == before,
                    "{item:?} moves the cursor from {before} to {after}"
                );
                let matching = ledger.sent.iter().filter(|(_, record)| {
                    let is_same = match (&record.event, &item) {
                        (Event::Output(stream, bytes), Item::Output(one, other)) => {
                            (stream, bytes) == (one, other)
                        }
                        (
                            Event::Ended { ending, took },
                            Item::Ended { ending: one, took: other },
                        ) => (ending, took) == (one, other),
                        (Event::Detached, Item::Ended { .. }) => is_execd,
                        _ => false,
                    };
                    is_same && (record.position.unwrap_or(after) == after)
                });
                let runs: Vec<Option<Epoch>> = matching.map(|(run, _)| *run).collect();
                let is_sent = !runs.is_empty();
                assert!(is_sent || ledger.unknown, "{item:?} at {after} was not sent");
                // An execd does not name its runs.
                if !is_execd && !ledger.unknown && runs.iter().all(Option::is_some) {
                    let mut runs: BTreeSet<Epoch> = runs.into_iter().flatten().collect();
                    if let Some(before) = &held.runs {
                        runs.retain(|run| before.contains(run));
                    }
                    assert!(
                        !runs.is_empty(),
                        "{item:?} is one of another run than {:?}",
                        held.runs
                    );
                    held.runs = Some(runs);
                }
            }
        }
        held.progress = Instant::now();
        held.after = after;
        held.has_items = true;
        held.has_ending = matches!(item, Item::Ended { .. });
    }
}
