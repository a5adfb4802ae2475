//! The events of a process, for its subscribers: each subscriber reads them from the first event
//! on, at its own pace.
//!
//! Each process has one bounded [`Log`]. The log keeps the events that the slowest subscriber has
//! not read, and as many older ones as there is room for, so that a late subscriber can begin at
//! the first event. If there is no room for the next live event, the log refuses it. The core then
//! drops the live events of this process, and reads them from the server when half of the log is
//! free. The answer to a read always has room, so that nothing is read twice: the log exceeds its
//! limits by at most one answer.
//!
//! Before the first subscription, the log keeps everything for it. After the last subscription was
//! dropped, the log keeps the newest events. A subscription that begins when the first event is no
//! longer kept ends at once, with [`Failure::NotKept`].
//!
//! The log reports progress to the driver when half of it is free after it has refused an event,
//! and when a report to the server is due.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use reknit_seams::{defect, point};
use tokio::sync::watch;

use super::Failure;
use crate::wire::flow::FlowReports;
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

    /// Returns the number of the event; a failure has none.
    pub(super) fn seq(&self) -> Option<u64> {
        match self {
            Self::Output { seq, .. } | Self::Exited { seq, .. } | Self::Closed { seq, .. } => {
                Some(*seq)
            }
            Self::Failed(_) => None,
        }
    }

    /// Whether the event arrived as a notification.
    fn is_live(&self) -> bool {
        match self {
            Self::Output { via, .. } | Self::Exited { via, .. } | Self::Closed { via, .. } => {
                via.live
            }
            Self::Failed(_) => false,
        }
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
    limits: LogLimits,
    kept: Mutex<LogState>,
    /// The number of the last published event. It is sent at every change, even if the number stays
    /// the same.
    published: watch::Sender<u64>,
    /// Notifies the driver that subscribers have made progress.
    progress: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct LogState {
    events: VecDeque<Event>,
    /// How many events were dropped before the first kept one.
    gone: usize,
    bytes: usize,
    /// The position of each subscriber: how many events it has read.
    subscribers: BTreeMap<u64, usize>,
    subscriptions: u64,
    unread: Unread,
    /// Whether there was no room for an event, and the driver was not notified of room since.
    refused: bool,
    /// How often the server needs a report, if it needs any.
    reports: Option<FlowReports>,
    /// The bytes read since the last report.
    unreported: Amount,
    /// Whether the driver was notified and has not asked yet.
    notified: bool,
    failure: Option<Failure>,
    over: bool,
    /// Whether a newer process has taken its id.
    superseded: bool,
}

/// The events that the slowest subscriber has not read.
#[derive(Default)]
struct Unread {
    /// The position of the first one.
    from: usize,
    bytes: usize,
    /// The number of the last event that was read.
    last_read: u64,
}

#[derive(Clone, Copy, Default)]
struct Amount {
    events: u64,
    bytes: u64,
}

impl Log {
    /// Creates the log of a process. It calls `progress` when the driver should call
    /// [`take_report`](Log::take_report) and [`is_refusing`](Log::is_refusing).
    pub(super) fn new(limits: LogLimits, progress: impl Fn() + Send + Sync + 'static) -> Self {
        let published = watch::Sender::new(0);
        Self { limits, kept: Mutex::default(), published, progress: Box::new(progress) }
    }

    /// Appends an event, and returns whether there was room for it. An event of a read and a failure
    /// always have room. Does nothing if the log has ended.
    pub(super) fn push(&self, event: Event) -> bool {
        let mut kept = self.kept();
        if kept.over
            || defect!(EventsBeforeSubscriberLost)
                && self.published.receiver_count() == 0
                && !event.is_last()
        {
            return true;
        }
        let seq = event.seq();
        if !kept.make_room(event.weight(), self.limits) && seq.is_some() {
            kept.refused = true;
            if event.is_live() {
                return false;
            }
        }
        if let Event::Failed(failure) = &event {
            kept.failure = Some(failure.clone());
        }
        kept.over = event.is_last();
        kept.bytes += event.weight();
        kept.unread.bytes += event.weight();
        kept.events.push_back(event);
        let progress = kept.advance(self.limits);
        drop(kept);
        self.published.send_modify(|published| *published = seq.unwrap_or(*published));
        self.notify(progress);
        true
    }

    /// Whether there was no room for an event, and half of the log has not been free since.
    pub(super) fn is_refusing(&self) -> bool {
        self.kept().refused
    }

    /// Sets how often the server needs a report; `None` if it needs none.
    pub(super) fn report_as(&self, reports: Option<FlowReports>) {
        let mut kept = self.kept();
        (kept.reports, kept.unreported) = (reports, Amount::default());
    }

    /// Returns the number of the last event that every subscriber has read, if a report is due.
    pub(super) fn take_report(&self) -> Option<u64> {
        let mut kept = self.kept();
        kept.notified = false;
        let due = kept.report_is_due();
        due.then(|| {
            if !defect!(ReportedCountsAgain) {
                kept.unreported = Amount::default();
            }
            kept.unread.last_read
        })
    }

    /// Returns the number of the last event that every subscriber has read; 0 if there is none.
    pub(super) fn last_read(&self) -> u64 {
        self.kept().unread.last_read
    }

    /// Returns how many events the log keeps, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        let kept = self.kept();
        (kept.events.len(), kept.bytes)
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

    /// Returns the kept events.
    #[cfg(test)]
    pub(super) fn events(&self) -> Vec<Event> {
        self.kept().events.iter().cloned().collect()
    }

    fn kept(&self) -> MutexGuard<'_, LogState> {
        self.kept.lock().expect("nothing panics under the lock")
    }

    fn notify(&self, progress: bool) {
        if progress {
            (self.progress)();
        }
    }

    /// Adds a subscriber at the first event, and returns its number.
    fn subscribe(&self) -> u64 {
        let mut kept = self.kept();
        kept.subscriptions += 1;
        let subscriber = kept.subscriptions;
        if kept.gone == 0 {
            kept.subscribers.insert(subscriber, 0);
            let bytes = kept.bytes;
            if !defect!(LaterSubscriberLosesEvents) {
                (kept.unread.from, kept.unread.bytes) = (0, bytes);
            }
        }
        subscriber
    }

    fn unsubscribe(&self, subscriber: u64) {
        let mut kept = self.kept();
        kept.subscribers.remove(&subscriber);
        let progress = !defect!(UnsubscribingMakesNoRoom) && kept.advance(self.limits);
        drop(kept);
        self.notify(progress);
    }

    /// Returns the next event of a subscriber, if there is one yet.
    fn next_of(&self, subscriber: u64) -> Option<Event> {
        let mut kept = self.kept();
        let place = kept.subscribers.get(&subscriber).copied();
        let Some(index) = place.and_then(|place| place.checked_sub(kept.gone)) else {
            return Some(Event::Failed(Failure::NotKept));
        };
        let event = kept.events.get(index).cloned()?;
        kept.subscribers.entry(subscriber).and_modify(|place| *place += 1);
        let progress = kept.advance(self.limits);
        drop(kept);
        self.notify(progress);
        Some(event)
    }
}

impl LogState {
    /// Drops events that every subscriber has read until there is room for one more event with this
    /// weight. Returns whether there is room.
    fn make_room(&mut self, weight: usize, limits: LogLimits) -> bool {
        let events = if defect!(NarrowLog) { limits.events.min(256) } else { limits.events };
        let loses_unread = defect!(NarrowLog) || defect!(SlowUserLosesEvents);
        if defect!(LogUnbounded) {
            return true;
        }
        while self.events.len() >= events || self.bytes + weight > limits.bytes {
            if self.gone >= self.unread.from && !loses_unread {
                return self.events.is_empty();
            }
            let Some(oldest) = self.events.pop_front() else { return true };
            self.bytes -= oldest.weight();
            self.gone += 1;
            if self.gone > self.unread.from {
                self.unread.from = self.gone;
                self.unread.bytes -= oldest.weight();
            }
        }
        true
    }

    /// Determines what the slowest subscriber has read. Returns whether the driver must be notified.
    fn advance(&mut self, limits: LogLimits) -> bool {
        let end = self.gone + self.events.len();
        let slowest = match self.subscribers.values().min() {
            Some(place) => *place,
            None if self.subscriptions > 0 && !defect!(UnfollowedCountsAsUnread) => end,
            None => return false, // the log keeps everything for the first subscriber
        };
        while self.unread.from < slowest.min(end) {
            let Some(event) = self.events.get(self.unread.from - self.gone) else { break };
            let weight = event.weight();
            // A new subscriber reads again what was reported before.
            if event.seq().is_some_and(|seq| seq > self.unread.last_read) {
                self.unread.last_read = event.seq().unwrap_or_default();
                self.unreported.events += 1;
                self.unreported.bytes += weight as u64;
            }
            self.unread.from += 1;
            self.unread.bytes -= weight;
        }
        let part = if defect!(LogHasRoomEarly) { 1 } else { 2 };
        let is_half_free = |used: usize, limit: usize| used.saturating_mul(part) <= limit;
        let has_room = self.refused
            && is_half_free(end - self.unread.from, limits.events)
            && is_half_free(self.unread.bytes, limits.bytes);
        self.refused &= !has_room;
        let progress = (has_room || self.report_is_due()) && !self.notified;
        self.notified |= progress;
        progress
    }

    fn report_is_due(&self) -> bool {
        self.reports.is_some_and(|reports| {
            let early = u64::from(defect!(ReportAtTheLimit));
            self.unreported.bytes + early > reports.report_bytes
                || self.unreported.events + early > reports.report_events
        })
    }
}

/// A subscription to the events of one process.
///
/// It begins at the first event, and ends with [`Event::Closed`] or [`Event::Failed`]. A slow
/// subscriber slows its process down, as [the client](super#slow-subscribers) describes. A
/// subscription that begins when the client no longer keeps the first event ends with
/// [`Failure::NotKept`].
pub struct Events {
    log: Arc<Log>,
    subscriber: u64,
    changed: watch::Receiver<u64>,
    over: bool,
    /// Kept alive while this subscription exists.
    _handle: Arc<dyn Send + Sync>,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.log.unsubscribe(self.subscriber);
    }
}

impl Events {
    pub(super) fn new(log: Arc<Log>, handle: Arc<dyn Send + Sync>) -> Self {
        let changed = log.watch();
        let subscriber = log.subscribe();
        Self { log, subscriber, changed, over: false, _handle: handle }
    }

    /// Waits for the next event; returns `None` after the last one. Cancel safe: dropping the
    /// future loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        while !self.over {
            if !defect!(LooksBeforeSubscribing) {
                self.changed.mark_unchanged();
            }
            if let Some(event) = self.log.next_of(self.subscriber) {
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const VIA: Via = Via { generation: 1, live: true };

    fn output(seq: u64, bytes: &'static str) -> Event {
        Event::Output { seq, stream: OutputStream::Stdout, bytes: bytes.into(), via: VIA }
    }

    fn log(events: usize, bytes: usize) -> Arc<Log> {
        Arc::new(Log::new(LogLimits { events, bytes }, || {}))
    }

    fn subscribe(log: &Arc<Log>) -> Events {
        Events::new(log.clone(), Arc::new(()))
    }

    /// A log, and the number of times that it reported progress.
    fn observed(events: usize, bytes: usize) -> (Arc<Log>, Arc<AtomicUsize>) {
        let times = Arc::new(AtomicUsize::new(0));
        let count = times.clone();
        let progress = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        (Arc::new(Log::new(LogLimits { events, bytes }, progress)), times)
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
    async fn the_slowest_subscriber_decides_what_is_kept_and_loses_nothing() {
        let (log, times) = observed(4, 99);
        let (mut quick, mut slow) = (subscribe(&log), subscribe(&log));
        for seq in 1..=4 {
            assert!(log.push(output(seq, "a")));
            assert_eq!(quick.next().await, Some(output(seq, "a")));
        }
        assert!(!log.push(output(5, "a")) && log.is_refusing());
        assert_eq!(slow.next().await, Some(output(1, "a")));
        assert!(log.is_refusing(), "less than half of it is free");
        assert_eq!(slow.next().await, Some(output(2, "a")));
        assert!(!log.is_refusing());
        assert_eq!(times.load(Ordering::Relaxed), 1);
        assert!(log.push(output(5, "a")));
        assert_eq!(slow.next().await, Some(output(3, "a")));
    }

    #[tokio::test]
    async fn the_answer_to_a_read_has_room_and_stops_live_events() {
        let log = log(2, 99);
        let mut events = subscribe(&log);
        let read = |seq| Event::Exited { seq, code: 0, via: Via { live: false, ..VIA } };
        assert!((1..=2).all(|seq| log.push(read(seq))) && !log.is_refusing());
        assert!(log.push(read(3)) && log.is_refusing());
        assert!(!log.push(output(4, "a")));
        for seq in 1..=3 {
            assert_eq!(events.next().await, Some(read(seq)));
        }
        assert!(!log.is_refusing() && log.push(output(4, "a")));
    }

    #[tokio::test]
    async fn a_failure_has_room_behind_the_unread_events() {
        let log = log(1, 99);
        let mut events = subscribe(&log);
        assert!(log.push(output(1, "a")) && !log.push(output(2, "a")));
        assert!(log.push(Event::Failed(Failure::Closed)));
        assert_eq!(events.next().await, Some(output(1, "a")));
        assert_eq!(events.next().await, Some(Event::Failed(Failure::Closed)));
    }

    #[tokio::test]
    async fn bytes_are_bounded_and_one_event_always_has_room() {
        let log = log(9, 3);
        let mut events = subscribe(&log);
        assert!(log.push(output(1, "aa")) && !log.push(output(2, "bbbb")));
        assert_eq!(events.next().await, Some(output(1, "aa")));
        assert!(log.push(output(2, "bbbb")));
        assert_eq!((events.next().await, log.size()), (Some(output(2, "bbbb")), (1, 4)));
    }

    #[tokio::test]
    async fn before_the_first_subscription_everything_is_kept_and_after_the_last_one_the_newest() {
        let log = log(2, 99);
        assert!(log.push(output(1, "a")) && log.push(output(2, "a")));
        assert!(!log.push(output(3, "a")));
        drop(subscribe(&log));
        assert!(!log.is_refusing());
        assert!(log.push(output(3, "a")) && log.push(output(4, "a")));
        let mut late = subscribe(&log);
        assert_eq!(late.next().await, Some(Event::Failed(Failure::NotKept)));
        assert_eq!(late.next().await, None);
        assert!(log.push(output(5, "a")), "a subscription that has failed holds nothing");
        assert_eq!(log.failure(), None, "the process is well");
    }

    #[tokio::test]
    async fn a_late_subscriber_reads_what_is_kept_again() {
        let log = log(2, 99);
        let mut first = subscribe(&log);
        log.push(output(1, "a"));
        first.next().await;
        let mut second = subscribe(&log);
        assert!(log.push(output(2, "a")) && !log.push(output(3, "a")));
        assert_eq!(second.next().await, Some(output(1, "a")));
        assert!(log.push(output(3, "a")));
        assert_eq!(log.last_read(), 1);
    }

    #[tokio::test]
    async fn a_report_is_due_when_the_slowest_subscriber_has_read_enough() {
        let (log, times) = observed(99, 99);
        log.report_as(Some(FlowReports { report_bytes: 3, report_events: 2 }));
        let (mut quick, mut slow) = (subscribe(&log), subscribe(&log));
        for seq in 1..=4 {
            log.push(output(seq, "a"));
            quick.next().await;
        }
        log.push(output(5, "bbbb"));
        quick.next().await;
        for (seq, report) in [(1, None), (2, None), (3, Some(3)), (4, None), (5, Some(5))] {
            slow.next().await;
            assert_eq!(log.take_report(), report, "{seq}");
        }
        assert_eq!(times.load(Ordering::Relaxed), 2);
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
