//! Follows a command to its ending, and records what the user sees.
//!
//! A gap is the end of a stream of the history, because the generic properties know no gaps: the user
//! gives it up. The events after the gap are [notes](SseNote). The properties of `sse` judge them.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::limits;
use super::names::Named;
use super::notes::{SseFailure, SseNote};
use crate::history::{Answer, Call, Content, Data, ProcessOutcome};
use crate::process::KILL;
use crate::schedule::units::WrittenDuration;
use crate::subject::HostContext;
use crate::subjects::pace::ReadingPace;
use reknit_sse::client::{Failure, Follower, Item, Loss};
use reknit_sse::wire::{Cursor, Ending, OutputStream};

/// A server that runs fewer commands at a time is often full, and refuses starts for most of the budget of a
/// client. A start can then fail because of a short fault at the end, which no generic property excuses.
const FEW: usize = 8;

/// How a user reads a stream.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// How slowly; by default, at once.
    pub(super) reads: Option<ReadingPace>,
    /// How long the user waits before it drops its question, and asks again; by default, until there is an item.
    pub(super) polls: Option<WrittenDuration>,
}

/// The shortest time for which a user waits: without a wait, it would ask forever in one moment.
const LEAST_POLL: Duration = Duration::from_millis(1);

/// One follower of a user.
pub(super) struct Following {
    pub(super) host: HostContext,
    pub(super) named: Named,
    pub(super) call: Call,
    pace: Pace,
    /// Whether the user started the command with this call.
    pub(super) starts: bool,
    /// The position of the last event that the user has.
    after: u64,
    /// Whether the output has had a gap.
    pub(super) has_gap: bool,
    /// Whether the stored position is that of the ending.
    pub(super) has_ending: bool,
    /// The pipes of which the user has a part of a line.
    torn: Vec<OutputStream>,
    /// Set when the server has confirmed that it has the command.
    pub(super) confirmed: Arc<AtomicBool>,
}

impl Following {
    pub(super) fn new(
        host: HostContext,
        named: Named,
        call: Call,
        pace: Pace,
        stored: &Stored,
        starts: bool,
    ) -> Self {
        let Stored { cursor: Cursor { after, .. }, has_gap, has_ending } = *stored;
        let confirmed = Arc::default();
        let torn = Vec::new();
        Self { host, named, call, pace, starts, after, has_gap, has_ending, torn, confirmed }
    }

    /// Follows the command until its ending, or a failure.
    pub(super) async fn run(mut self, mut follower: Follower) {
        if let Err(failure) = self.started(&mut follower).await {
            self.compare(Err(&failure), &said(follower.started()));
            self.compare(Err(&failure), &said(follower.next()));
            return self.not_opened(failure);
        }
        if self.has_ending {
            return self.after_the_ending(follower).await;
        }
        self.confirmed.store(true, Ordering::Relaxed);
        if self.has_gap {
            self.note(SseNote::Continues(follower.cursor()));
            self.host.record.answered(self.call, "continues after a gap");
        } else {
            for stream in self.named.all() {
                self.host.record.opened(&stream, self.call);
            }
        }
        let mut unpaused = 0;
        loop {
            let item = match self.next(&mut follower).await {
                Ok(Some(item)) => item,
                Ok(None) => {
                    self.note(SseNote::EndedSomehow);
                    return self.completed(follower.cursor(), &Ending::Exited(0));
                }
                Err(failure) => {
                    self.compare(Err(&failure), &said(follower.next()));
                    return self.failed(SseFailure(failure));
                }
            };
            let after = self.follows(&item, follower.cursor().after);
            let size = if let Item::Output(_, bytes) = &item { bytes.len() as u64 } else { 0 };
            if let Item::Ended { ending, took } = &item {
                self.note(SseNote::Took(*took));
                self.compare(Ok(()), &said(follower.next()));
                return self.completed(follower.cursor(), ending);
            }
            if let Some(id) = follower.id().filter(|id| *id != self.named.id) {
                self.host.disk.write(&id_key(&self.named.record), id.to_string());
                self.named.id = id;
            }
            self.received(item, after, follower.cursor());
            self.store(follower.cursor());
            unpaused += size;
            if let Some(pace) = self.pace.reads.filter(|pace| unpaused >= pace.every.0) {
                unpaused = 0;
                sleep(pace.pause.0).await;
            }
        }
    }

    /// The user continues after the ending: nothing follows.
    async fn after_the_ending(&self, mut follower: Follower) {
        match self.next(&mut follower).await {
            Ok(None) => {
                self.host.record.answered(self.call, "nothing follows");
                self.compare(Ok(()), &said(follower.next()));
            }
            Ok(Some(item)) => {
                self.host.record.answered(self.call, "more");
                self.note(SseNote::AfterTheEnding(format!("{item:?}")));
            }
            Err(failure) => {
                self.compare(Err(&failure), &said(follower.next()));
                self.not_opened(failure);
            }
        }
    }

    /// Waits for the next item.
    async fn next(&self, follower: &mut Follower) -> Result<Option<Item>, Failure> {
        let Some(polls) = self.polls() else { return follower.next().await };
        loop {
            if let Ok(next) = timeout(polls, follower.next()).await {
                return next;
            }
        }
    }

    /// Waits until the server has the command.
    async fn started(&self, follower: &mut Follower) -> Result<(), Failure> {
        let Some(polls) = self.polls() else { return follower.started().await };
        loop {
            if let Ok(started) = timeout(polls, follower.started()).await {
                return started;
            }
        }
    }

    fn polls(&self) -> Option<Duration> {
        self.pace.polls.map(|polls| polls.0.max(LEAST_POLL))
    }

    /// Notes that a follower that has ended or failed said something else when it was asked again.
    fn compare(&self, first: Result<(), &Failure>, then: &str) {
        let first = format!("{:?}", first.map(|()| None::<Item>));
        if first != then {
            self.note(SseNote::SaidAnother { first, then: then.to_owned() });
        }
    }

    /// Notes an event that is not the next one. `position` is that of the item. Returns the position of the
    /// last event that the user had before.
    fn follows(&mut self, item: &Item, position: u64) -> u64 {
        let after = std::mem::replace(&mut self.after, position);
        let is_event = !matches!(item, Item::Gap(_));
        if is_event && position != after.saturating_add(1) {
            self.note(SseNote::NotNext { after, position });
        }
        after
    }

    fn received(&mut self, item: Item, after: u64, cursor: Cursor) {
        match item {
            Item::Output(pipe, bytes) if self.has_gap => {
                let bytes = Content::from(bytes);
                self.note(SseNote::Output { position: cursor.after, pipe, bytes });
            }
            Item::Output(pipe, bytes) => {
                self.torn.retain(|torn| *torn != pipe);
                if !bytes.ends_with(b"\n") {
                    self.torn.push(pipe);
                }
                self.host.record.delivered(&self.named.pipe(pipe), bytes, None);
            }
            Item::Gap(gap) => {
                self.note(SseNote::Gap { after, gap });
                if !self.has_gap {
                    self.has_gap = true;
                    self.host.disk.write(&gap_key(&self.named), "");
                    self.give_up(&Data::from(gap.to_string()));
                }
            }
            Item::Ended { .. } => {}
        }
    }

    fn completed(&self, cursor: Cursor, ending: &Ending) {
        self.store(cursor);
        self.host.disk.write(&ending_key(&self.named), "");
        if self.has_gap {
            self.note(SseNote::Ended { position: cursor.after, ending: ending.clone() });
            return;
        }
        if let Ending::TimedOut | Ending::Killed(KILL) = ending {
            self.note(SseNote::Killed { timed_out: *ending == Ending::TimedOut });
        }
        let outcome = match ending {
            Ending::Exited(code) => ProcessOutcome::Exit(*code),
            Ending::Killed(signal) => ProcessOutcome::Signal(*signal),
            Ending::TimedOut => ProcessOutcome::Signal(KILL),
            Ending::NotStarted(why) | Ending::Lost(why) => {
                return self.give_up(&Data::from(why.clone()));
            }
        };
        self.named.completed(&self.host, self.call, outcome);
    }

    /// The follower failed before the server confirmed that it has the command.
    fn not_opened(&self, failure: Failure) {
        let was_cut_short = match &failure {
            Failure::NoProgress(loss) => !matches!(loss, Loss::Refused(_)),
            _ => false,
        };
        let is_small = limits::server(&self.host.limits).running_commands < FEW;
        if self.starts && was_cut_short && is_small {
            return self.host.record.answered(self.call, Answer::GivenUp);
        }
        // A restarted server refuses a start that may have taken effect before. `refusal_is_true` judges it.
        if self.starts && matches!(failure, Failure::NotFound | Failure::AnotherRun) {
            self.note(SseNote::Failed(SseFailure(failure)));
            return self.host.record.answered(self.call, Answer::GivenUp);
        }
        let is_unknown = failure == Failure::NotFound;
        let failure = SseFailure(failure);
        if is_unknown || failure.is_refusal() {
            self.host.record.refused(self.call, failure);
        } else {
            self.host.record.failed(self.call, failure);
        }
    }

    fn failed(&self, failure: SseFailure) {
        if self.has_gap {
            return self.note(SseNote::Failed(failure));
        }
        // `conflict_is_true` and `refusal_is_true` judge these.
        let is_gone =
            matches!(failure.0, Failure::Expired | Failure::NotFound | Failure::AnotherRun);
        let is_own = failure.is_conflict() || is_gone;
        let why = Data::from(failure);
        if is_own {
            self.give_up(&why);
        } else {
            self.named.failed(&self.host.record, &why);
        }
    }

    fn give_up(&self, why: &Data) {
        self.named.given_up(&self.host.record, self.call, why);
    }

    fn note(&self, note: SseNote) {
        self.host.record.observed(&self.named.whole(), note);
    }

    /// Stores a position. It may be lower than the stored one, if another follower of the user had the
    /// ending.
    fn store(&self, cursor: Cursor) {
        self.host.disk.write(&cursor_key(&self.named), cursor.to_string());
        self.host.disk.remove(&ending_key(&self.named));
        // A follower after a gap, or after a part of a line, adds nothing to the stream of the history.
        if self.has_gap {
            return;
        }
        if self.torn.is_empty() {
            self.host.disk.remove(&torn_key(&self.named));
        } else {
            self.host.disk.write(&torn_key(&self.named), "");
        }
    }
}

/// Returns what a follower says that has ended or failed. It does not wait.
fn said<T: Debug>(asked: impl Future<Output = Result<T, Failure>>) -> String {
    match pin!(asked).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(said) => format!("{said:?}"),
        Poll::Pending => "nothing".to_owned(),
    }
}

/// Returns the key of the id of a command.
pub(super) fn id_key(record: &str) -> String {
    format!("id {record}")
}

fn cursor_key(named: &Named) -> String {
    format!("cursor {}", named.record)
}

fn gap_key(named: &Named) -> String {
    format!("gap {}", named.record)
}

fn torn_key(named: &Named) -> String {
    format!("torn {}", named.record)
}

fn ending_key(named: &Named) -> String {
    format!("ending {}", named.record)
}

/// The values that the users of a host have stored about a command.
pub(super) struct Stored {
    pub(super) cursor: Cursor,
    /// Whether they have seen a gap, or have a part of a line: a stream of the history cannot continue
    /// there.
    pub(super) has_gap: bool,
    /// Whether the position is that of the ending.
    pub(super) has_ending: bool,
}

/// Returns what the users of a host have stored about a command.
pub(super) fn stored(host: &HostContext, named: &Named) -> Stored {
    let cursor = host.disk.read(&cursor_key(named)).and_then(|text| text.parse().ok());
    let has = |key: String| host.disk.read(&key).is_some();
    Stored {
        cursor: cursor.unwrap_or(Cursor::START),
        has_gap: has(gap_key(named)) || has(torn_key(named)),
        has_ending: has(ending_key(named)),
    }
}
