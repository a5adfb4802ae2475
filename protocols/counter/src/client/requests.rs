//! The client's open streams and calls, and the requests that it must send, without a clock, a
//! socket or a task.
//!
//! the open requests works the same in every generation. [`OpenRequests::all_requests`] returns the first requests of
//! a new connection. the open requests compares each reply with the numbers that the user has already seen,
//! independent of the connection that delivered the reply.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use reknit_seams::{defect, milestone};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::command::{CallKind, CallRequest, WatchSender};
use super::outcome::{Ending, Failure, Number};
use crate::wire::{Name, Reply, Request};

/// The open streams and calls of the user.
#[derive(Default)]
pub(super) struct OpenRequests {
    streams: BTreeMap<Name, Stream>,
    /// Calls by id. Ids ascend in the order of the calls.
    calls: BTreeMap<u64, Call>,
    last_id: u64,
    /// Streams that ended at the client, but that the server may still send.
    unwanted: BTreeSet<Name>,
}

struct Stream {
    sender: WatchSender,
    /// The index of the last number that the user received.
    seen: u64,
    /// Whether the request was sent, so that a server may know the stream.
    sent: bool,
}

struct Call {
    what: CallKind,
    answer: oneshot::Sender<Result<u64, Failure>>,
    deadline: Instant,
    /// Whether the request was sent, so that a server may know the call.
    sent: bool,
}

impl Call {
    fn is_durable(&self) -> bool {
        matches!(self.what, CallKind::Add { .. })
    }

    fn request(&mut self, id: u64) -> Request {
        self.sent = true;
        match self.what.clone() {
            CallKind::Add { counter, amount, memo } => Request::Add { id, counter, amount, memo },
            CallKind::Peek { counter } => Request::Peek { id, counter },
            CallKind::Lease { counter, lasts } => {
                Request::Lease { id, counter, millis: lasts.as_millis() as u64 }
            }
        }
    }

    fn end(self, outcome: Result<u64, Failure>) {
        // The send fails if the user no longer waits.
        let _ = self.answer.send(outcome);
    }
}

impl Stream {
    fn request(&mut self, name: &Name) -> Request {
        self.sent = true;
        let one_early = defect!(ResumesOneTooEarly) && self.seen > 0;
        if defect!(ResumesOneTooLate) && self.seen > 0 {
            self.seen += 1;
        }
        let next = NonZeroU64::MIN.saturating_add(self.seen - u64::from(one_early));
        Request::Watch { stream: name.clone(), next }
    }

    fn end(self, ending: Ending) {
        // The ending is set only once, because the stream leaves the open requests here.
        let _ = self.sender.ending.set(ending);
    }

    fn fail(self, failure: Failure) {
        let ending = match failure {
            Failure::SessionLost | Failure::RecoveryDeadline if defect!(EofIsCompletion) => {
                Ending::Completed { total: self.seen }
            }
            failure => Ending::Failed(failure),
        };
        self.end(ending);
    }
}

impl OpenRequests {
    /// Returns whether there is no open stream or call.
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.calls.is_empty()
    }

    /// The number of calls that wait for an answer.
    pub(super) fn pending_calls(&self) -> usize {
        self.calls.len()
    }

    /// The number of open streams.
    pub(super) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Adds a stream. Returns the request to send now, if there is a connection.
    pub(super) fn watch(
        &mut self,
        name: Name,
        sender: WatchSender,
        connected: bool,
    ) -> Option<Request> {
        let mut stream = Stream { sender, seen: 0, sent: false };
        if self.streams.contains_key(&name) {
            stream.fail(Failure::WatchedAlready);
            return None;
        }
        self.unwanted.remove(&name);
        let request = connected.then(|| stream.request(&name));
        self.streams.insert(name, stream);
        request
    }

    /// Closes a stream. Returns the request to send now, if a server may know the stream.
    pub(super) fn unwatch(&mut self, name: &Name) -> Option<Request> {
        self.fail_stream(name, Failure::Closed)
    }

    /// Adds a call. Returns the request to send now, if there is a connection.
    pub(super) fn call(
        &mut self,
        ask: CallRequest,
        deadline: Instant,
        connected: bool,
    ) -> Option<Request> {
        self.last_id += 1;
        let mut call = Call { what: ask.what, answer: ask.answer, deadline, sent: false };
        let request = connected.then(|| call.request(self.last_id));
        self.calls.insert(self.last_id, call);
        request
    }

    /// All requests that a new connection must send. Calls are in the order in which the user made
    /// them.
    pub(super) fn all_requests(&mut self) -> Vec<Request> {
        if defect!(RetriesUnderNewId) {
            let calls = std::mem::take(&mut self.calls);
            let renamed = calls.into_iter().map(|(id, call)| {
                self.last_id += u64::from(call.sent);
                (if call.sent { self.last_id } else { id }, call)
            });
            self.calls = renamed.collect();
        }
        let unwanted =
            self.unwanted.iter().map(|stream| Request::Unwatch { stream: stream.clone() });
        let unwanted: Vec<_> = unwanted.collect();
        let watches = self.streams.iter_mut().map(|(name, stream)| stream.request(name));
        let calls = self.calls.iter_mut().map(|(id, call)| call.request(*id));
        unwanted.into_iter().chain(watches).chain(calls).collect()
    }

    /// Handles a reply that arrived over the connection of this generation. Returns the request to
    /// send in return.
    ///
    /// # Errors
    /// If the reply violates the protocol at this point.
    pub(super) fn on_reply(
        &mut self,
        reply: Reply,
        generation: u64,
    ) -> Result<Option<Request>, Failure> {
        match reply {
            Reply::Welcome { .. } | Reply::Refused(_) => Err(Failure::Protocol),
            Reply::Number { stream, index, value } => {
                Ok(self.number(&stream, Number { index, value, generation }))
            }
            Reply::End { stream, total } => Ok(self.end_of_stream(stream, total)),
            Reply::Gap { stream, oldest } => Ok(self.gap(&stream, oldest)),
            Reply::Lost { stream, why } => {
                self.unwanted.remove(&stream);
                self.streams
                    .remove(&stream)
                    .into_iter()
                    .for_each(|lost| lost.fail(Failure::NoStream(why)));
                Ok(None)
            }
            Reply::Added { id, sum } | Reply::Peeked { id, sum } => Ok(self.answer(id, Ok(sum))),
            Reply::LeaseOver { id } => Ok(self.answer(id, Ok(0))),
            Reply::Forgotten { id } => Ok(self.answer(id, Err(Failure::Forgotten))),
        }
    }

    fn answer(&mut self, id: u64, outcome: Result<u64, Failure>) -> Option<Request> {
        self.calls.remove(&id).into_iter().for_each(|call| call.end(outcome.clone()));
        None
    }

    fn number(&mut self, name: &Name, number: Number) -> Option<Request> {
        let stream = self.streams.get_mut(name)?;
        let unordered = defect!(LiveBeforeCatchUp) || defect!(ResumesOneTooEarly);
        if number.index <= stream.seen && !unordered {
            milestone!("counter.client.duplicate", stream = name.as_str(), index = number.index);
            return None;
        }
        if number.index > stream.seen + 1 && !unordered {
            return self.gap(name, number.index);
        }
        self.deliver(name, number)
    }

    /// Delivers a number to the user, without a check of its index.
    pub(super) fn deliver(&mut self, name: &Name, number: Number) -> Option<Request> {
        let stream = self.streams.get_mut(name)?;
        stream.seen = stream.seen.max(number.index);
        match stream.sender.numbers.try_send(number) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(_)) => {
                milestone!("counter.client.overrun", stream = name.as_str());
                self.fail_stream(name, Failure::Overrun)
            }
            Err(mpsc::error::TrySendError::Closed(_)) => self.fail_stream(name, Failure::Closed),
        }
    }

    fn end_of_stream(&mut self, name: Name, total: u64) -> Option<Request> {
        let seen = self.streams.get(&name)?.seen;
        if total > seen {
            return self.gap(&name, total); // it says that there was more than it sent
        }
        self.streams.remove(&name)?.end(Ending::Completed { total });
        // The stream is complete, so the server can release it.
        Some(Request::Unwatch { stream: name })
    }

    fn gap(&mut self, name: &Name, oldest: u64) -> Option<Request> {
        let stream = self.streams.get_mut(name)?;
        let next = NonZeroU64::MIN.saturating_add(stream.seen);
        milestone!("counter.client.gap", stream = name.as_str(), next = next.get(), oldest);
        if defect!(GapSkipped) {
            stream.seen = oldest.saturating_sub(1);
            return Some(stream.request(name));
        }
        let gap = Failure::Gap { next, oldest };
        if defect!(GapFailsAll) {
            self.fail_all(&gap);
        }
        self.fail_stream(name, gap)
    }

    fn fail_stream(&mut self, name: &Name, failure: Failure) -> Option<Request> {
        let stream = self.streams.remove(name)?;
        let sent = stream.sent;
        stream.fail(failure);
        sent.then(|| {
            self.unwanted.insert(name.clone());
            Request::Unwatch { stream: name.clone() }
        })
    }

    /// Fails the calls that were bound to the lost connection, or in flight on it.
    pub(super) fn connection_lost(&mut self) {
        let gone = take(&mut self.calls, |call| call.sent && !call.is_durable());
        gone.for_each(|call| call.end(Err(Failure::ConnectionLost)));
    }

    /// Fails the streams and calls that a server may know. The next session serves those that were
    /// not sent yet.
    pub(super) fn session_lost(&mut self, failure: &Failure) {
        self.unwanted.clear();
        take(&mut self.streams, |stream| stream.sent)
            .for_each(|stream| stream.fail(failure.clone()));
        take(&mut self.calls, |call| call.sent).for_each(|call| call.end(Err(failure.clone())));
    }

    /// Fails all streams and calls.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        let names: Vec<Name> = self.streams.keys().cloned().collect();
        names.iter().for_each(|name| drop(self.fail_stream(name, failure.clone())));
        std::mem::take(&mut self.calls)
            .into_values()
            .for_each(|call| call.end(Err(failure.clone())));
    }

    /// The earliest deadline of a call.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.calls.values().map(|call| call.deadline).min()
    }

    /// Fails the calls whose deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) {
        take(&mut self.calls, |call| call.deadline <= now).for_each(|call| {
            milestone!("counter.client.unanswered");
            call.end(Err(Failure::Unanswered));
        });
    }
}

/// Removes the values for which `fits` returns `true` from a map, in order.
fn take<K: Ord, V>(map: &mut BTreeMap<K, V>, fits: impl Fn(&V) -> bool) -> impl Iterator<Item = V> {
    let (taken, left): (BTreeMap<K, V>, _) =
        std::mem::take(map).into_iter().partition(|(_, value)| fits(value));
    *map = left;
    taken.into_values()
}
