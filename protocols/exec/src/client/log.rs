//! What a process has told, for those who want to hear it: from its first event on, each at its own pace.
//!
//! There is one [`Log`] a process, bounded; each subscriber has a place in it, and is woken when something is appended. Whoever
//! comes late begins at the beginning. Whoever is slower than the log is long is told so, once, as the end of what it hears;
//! nobody else notices.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use reknit_seams::{defect, point};
use tokio::sync::watch;

use super::Failure;
use crate::wire::process::OutputStream;

/// Something that a process told, or the end of what can be heard of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It printed something.
    Output {
        /// The number of the event, from 1, in the one sequence of the process.
        seq: u64,
        /// What it came out of.
        stream: OutputStream,
        /// The bytes.
        bytes: Bytes,
        /// How it came here.
        via: Via,
    },
    /// It exited. Output of those whom it started may follow.
    Exited {
        /// The number of the event.
        seq: u64,
        /// With which code.
        code: i32,
        /// How it came here.
        via: Via,
    },
    /// It exited, and its output has ended: nothing follows.
    Closed {
        /// The number of the event: the last one.
        seq: u64,
        /// How it came here.
        via: Via,
    },
    /// No more can be heard of it: nothing follows.
    Failed(Failure),
}

/// How an event came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via {
    /// Over the connection of which generation. What came before that connection was installed counts for it, too.
    pub generation: u64,
    /// Whether the server told it by itself; else a read brought it.
    pub live: bool,
}

impl Event {
    fn weight(&self) -> usize {
        if let Self::Output { bytes, .. } = self { bytes.len() } else { 0 }
    }

    /// Whether nothing follows.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::Failed(_))
    }
}

/// How much of it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimits {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

/// What a process has told.
pub(super) struct Log {
    room: LogLimits,
    kept: Mutex<Kept>,
    /// The number of the last event that was published. Sent at every change, also where it stays the same.
    published: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<Event>,
    /// How many were let go before the first one that is there.
    gone: usize,
    bytes: usize,
    failure: Option<Failure>,
    over: bool,
    /// Whether its id belongs to a newer process.
    superseded: bool,
}

impl Log {
    pub(super) fn new(room: LogLimits) -> Self {
        Self { room, kept: Mutex::default(), published: watch::Sender::new(0) }
    }

    /// Appends an event; nothing where it is over.
    pub(super) fn push(&self, event: Event) {
        let mut kept = self.kept();
        if kept.over
            || defect!(EventsBeforeSubscriberLost)
                && self.published.receiver_count() == 0
                && !event.is_last()
        {
            return;
        }
        kept.over = event.is_last();
        let seq = match &event {
            Event::Output { seq, .. } | Event::Exited { seq, .. } | Event::Closed { seq, .. } => {
                Some(*seq)
            }
            Event::Failed(failure) => {
                kept.failure = Some(failure.clone());
                None
            }
        };
        kept.bytes += event.weight();
        kept.events.push_back(event);
        kept.shrink(if defect!(NarrowLog) {
            LogLimits { events: 256, ..self.room }
        } else {
            self.room
        });
        drop(kept);
        self.published.send_modify(|published| *published = seq.unwrap_or(*published));
    }

    /// Why it failed, if it did.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.kept().failure.clone()
    }

    /// Its id belongs to a newer process from now on.
    pub(super) fn supersede(&self) {
        self.kept().superseded = true;
    }

    /// Why nothing can be asked about it any more, if so.
    pub(super) fn refusal(&self) -> Option<Failure> {
        let kept = self.kept();
        kept.failure.clone().or(kept.superseded.then_some(Failure::Superseded))
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("nothing panics under the lock")
    }

    /// What stands at this place, if anything does yet.
    pub(super) fn at(&self, place: usize) -> Option<Event> {
        let kept = self.kept();
        match place.checked_sub(kept.gone) {
            Some(index) => kept.events.get(index).cloned(),
            None => Some(Event::Failed(Failure::Lagged)),
        }
    }
}

impl Kept {
    /// Lets the oldest go until there is room; the newest stays.
    fn shrink(&mut self, room: LogLimits) {
        while self.events.len() > 1 && (self.events.len() > room.events || self.bytes > room.bytes)
        {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.weight();
            self.gone += 1;
        }
    }
}

/// A subscription to the events of one process.
///
/// It begins at the first event, and ends with [`Event::Closed`] or [`Event::Failed`]. One that is slower than the log is long
/// ends with [`Failure::Lagged`].
pub struct Events {
    log: Arc<Log>,
    changed: watch::Receiver<u64>,
    next: usize,
    over: bool,
    /// What has to live as long as somebody listens.
    _handle: Arc<dyn Send + Sync>,
}

impl Events {
    pub(super) fn new(log: Arc<Log>, handle: Arc<dyn Send + Sync>) -> Self {
        let changed = log.watch();
        Self { log, changed, next: 0, over: false, _handle: handle }
    }

    /// Waits for the next event; `None` after the last one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        while !self.over {
            if !defect!(LooksBeforeSubscribing) {
                self.changed.mark_unchanged();
            }
            if let Some(event) = self.log.at(self.next) {
                self.next += 1;
                self.over = event.is_last();
                return Some(event);
            }
            if defect!(LooksBeforeSubscribing) {
                point!("exec.client.events.looked").await;
                self.changed.mark_unchanged();
            }
            // It lives as long as the log, which this holds.
            self.changed.changed().await.ok()?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIA: Via = Via { generation: 1, live: true };

    fn output(seq: u64, bytes: &'static str) -> Event {
        Event::Output { seq, stream: OutputStream::Stdout, bytes: bytes.into(), via: VIA }
    }

    fn log(events: usize, bytes: usize) -> Arc<Log> {
        Arc::new(Log::new(LogLimits { events, bytes }))
    }

    fn subscribe(log: &Arc<Log>) -> Events {
        Events::new(log.clone(), Arc::new(()))
    }

    #[tokio::test]
    async fn a_late_subscriber_hears_everything_and_an_end() {
        let log = log(9, 99);
        log.push(output(1, "a"));
        log.push(Event::Exited { seq: 2, code: 7, via: VIA });
        let mut events = subscribe(&log);
        log.push(Event::Closed { seq: 3, via: VIA });
        assert_eq!(events.next().await, Some(output(1, "a")));
        assert_eq!(events.next().await, Some(Event::Exited { seq: 2, code: 7, via: VIA }));
        assert_eq!(events.next().await, Some(Event::Closed { seq: 3, via: VIA }));
        assert_eq!((events.next().await, events.next().await), (None, None));
    }

    #[tokio::test]
    async fn nothing_follows_an_end_and_its_reason_stays() {
        let log = log(9, 99);
        log.push(Event::Failed(Failure::RecoveryDeadline));
        log.push(Event::Failed(Failure::Closed));
        log.push(output(1, "a"));
        let mut events = subscribe(&log);
        assert_eq!(events.next().await, Some(Event::Failed(Failure::RecoveryDeadline)));
        assert_eq!(events.next().await, None);
        assert_eq!(log.failure(), Some(Failure::RecoveryDeadline));
    }

    #[tokio::test]
    async fn who_is_too_slow_is_told_and_nobody_else() {
        let log = log(2, 99);
        let (mut quick, mut slow) = (subscribe(&log), subscribe(&log));
        for seq in 1..=3 {
            log.push(output(seq, "a"));
            assert_eq!(quick.next().await, Some(output(seq, "a")));
        }
        assert_eq!(slow.next().await, Some(Event::Failed(Failure::Lagged)));
        assert_eq!(slow.next().await, None);
        assert_eq!(log.failure(), None, "the process is well");
    }

    #[tokio::test]
    async fn bytes_are_bounded_and_the_newest_stays() {
        let log = log(9, 3);
        log.push(output(1, "aa"));
        let mut kept = subscribe(&log);
        assert_eq!(kept.next().await, Some(output(1, "aa")));
        log.push(output(2, "bbbb"));
        assert_eq!(kept.next().await, Some(output(2, "bbbb")));
        assert_eq!(subscribe(&log).next().await, Some(Event::Failed(Failure::Lagged)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscriber_that_waits_is_woken() {
        let log = log(9, 99);
        let (mut events, mut wake) = (subscribe(&log), log.watch());
        let waiting = tokio::spawn(async move { events.next().await });
        tokio::task::yield_now().await;
        log.push(output(1, "a"));
        assert_eq!(waiting.await.unwrap(), Some(output(1, "a")));
        wake.changed().await.unwrap();
        assert_eq!(*wake.borrow_and_update(), 1);
        log.push(Event::Failed(Failure::Closed));
        wake.changed().await.unwrap();
        assert_eq!(*wake.borrow(), 1, "a failure has no number, but wakes");
    }
}
