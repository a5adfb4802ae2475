//! The events of a process, for its subscribers: each subscriber reads them from the first event
//! on, at its own pace.
//!
//! Each process has one bounded [`Log`]. Each subscriber has its own position in the log, and is
//! woken when an event is appended. A late subscriber begins at the first event. A subscriber that
//! falls behind the length of the log gets [`Failure::Lagged`] once, as its last event; other
//! subscribers are not affected.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use reknit_seams::{defect, point};
use tokio::sync::watch;

use super::Failure;
use crate::wire::process::OutputStream;

/// An event of a process, or the end of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process printed output.
    Output {
        /// The number of the event in the sequence of the process, from 1.
        seq: u64,
        /// The stream that the output was printed to.
        stream: OutputStream,
        /// The bytes.
        bytes: Bytes,
        /// How the event arrived.
        via: Via,
    },
    /// The process exited. Output of its child processes may follow.
    Exited {
        /// The number of the event.
        seq: u64,
        /// The exit code.
        code: i32,
        /// How the event arrived.
        via: Via,
    },
    /// The process exited and its output has ended. No event follows.
    Closed {
        /// The number of the event, which is the last one.
        seq: u64,
        /// How the event arrived.
        via: Via,
    },
    /// The process cannot be followed any longer. No event follows.
    Failed(Failure),
}

/// How an event arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via {
    /// The generation of the connection that delivered it. This includes events that arrived before
    /// the connection was installed.
    pub generation: u64,
    /// Whether the event arrived as a notification; otherwise a read returned it.
    pub live: bool,
}

impl Event {
    fn weight(&self) -> usize {
        if let Self::Output { bytes, .. } = self { bytes.len() } else { 0 }
    }

    /// Whether this is the last event.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::Failed(_))
    }
}

/// How much a log keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimits {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

/// The events of a process.
pub(super) struct Log {
    room: LogLimits,
    kept: Mutex<LogState>,
    /// The number of the last published event. It is sent at every change, even if the number stays
    /// the same.
    published: watch::Sender<u64>,
}

#[derive(Default)]
struct LogState {
    events: VecDeque<Event>,
    /// How many events were dropped before the first kept one.
    gone: usize,
    bytes: usize,
    failure: Option<Failure>,
    over: bool,
    /// Whether a newer process has taken its id.
    superseded: bool,
}

impl Log {
    pub(super) fn new(room: LogLimits) -> Self {
        Self { room, kept: Mutex::default(), published: watch::Sender::new(0) }
    }

    /// Appends an event. Does nothing if the log has ended.
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

    /// Returns why the process failed, if it did.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.kept().failure.clone()
    }

    /// Marks the process as superseded: a newer process has taken its id.
    pub(super) fn supersede(&self) {
        self.kept().superseded = true;
    }

    /// Returns why calls for this process are refused, if they are.
    pub(super) fn refusal(&self) -> Option<Failure> {
        let kept = self.kept();
        kept.failure.clone().or(kept.superseded.then_some(Failure::Superseded))
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    fn kept(&self) -> MutexGuard<'_, LogState> {
        self.kept.lock().expect("nothing panics under the lock")
    }

    /// Returns the event at this position, if there is one yet.
    pub(super) fn at(&self, place: usize) -> Option<Event> {
        let kept = self.kept();
        match place.checked_sub(kept.gone) {
            Some(index) => kept.events.get(index).cloned(),
            None => Some(Event::Failed(Failure::Lagged)),
        }
    }
}

impl LogState {
    /// Drops the oldest events until the log is within its bounds. The newest event always stays.
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
/// It begins at the first event, and ends with [`Event::Closed`] or [`Event::Failed`]. A
/// subscription that falls behind the length of the log ends with [`Failure::Lagged`].
pub struct Events {
    log: Arc<Log>,
    changed: watch::Receiver<u64>,
    next: usize,
    over: bool,
    /// Kept alive while this subscription exists.
    _handle: Arc<dyn Send + Sync>,
}

impl Events {
    pub(super) fn new(log: Arc<Log>, handle: Arc<dyn Send + Sync>) -> Self {
        let changed = log.watch();
        Self { log, changed, next: 0, over: false, _handle: handle }
    }

    /// Waits for the next event; returns `None` after the last one. Cancel safe: dropping the
    /// future loses nothing.
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
            // This cannot fail: the sender lives as long as the log, and `self` holds the log.
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
    async fn a_late_subscriber_receives_every_event_and_then_ends() {
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
    async fn nothing_follows_the_last_event_and_the_first_failure_is_kept() {
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
    async fn only_a_slow_subscriber_lags() {
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
    async fn bytes_are_bounded_and_the_newest_event_is_kept() {
        let log = log(9, 3);
        log.push(output(1, "aa"));
        let mut kept = subscribe(&log);
        assert_eq!(kept.next().await, Some(output(1, "aa")));
        log.push(output(2, "bbbb"));
        assert_eq!(kept.next().await, Some(output(2, "bbbb")));
        assert_eq!(subscribe(&log).next().await, Some(Event::Failed(Failure::Lagged)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_subscriber_is_woken() {
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
