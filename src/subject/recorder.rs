//! The pen with which glue writes into the history.

use std::sync::Arc;

use bytes::Bytes;

use crate::history::{Answer, Call, Content, Data, Ending, EventKind, Stream};
use crate::schedule::Host;

/// Where entries go: the world of the run.
pub trait Journal: Send + Sync {
    /// Appends an entry about `host`, at the current virtual time.
    fn write(&self, host: &Host, what: EventKind);

    /// Has these counters asked at the end of every turn, and when all is over.
    fn gauges(&self, host: &Host, gauges: Gauges);
}

/// A row of a table of counters: a name, and what it reads in a census.
pub type Gauge<C> = (&'static str, fn(&C) -> u64);

/// Counters of a subject's census that are asked together.
pub struct Gauges {
    /// Their names.
    pub names: Vec<&'static str>,
    /// Writes what they count now, in the same order.
    pub count: ResourceCounter,
}

/// Counts, into a slot for each counter.
pub type ResourceCounter = Box<dyn Fn(&mut [u64]) + Send>;

/// Writes into the history of a run, for one host. [EventKind a driver must record](super::Subject#what-a-driver-must-record) says
/// which of these methods the outside world of a server calls, and which the driver of a client's user.
#[derive(Clone)]
pub struct Recorder {
    host: Host,
    journal: Arc<dyn Journal>,
}

impl Recorder {
    /// A recorder for `host`.
    pub fn new(host: Host, journal: Arc<dyn Journal>) -> Self {
        Self { host, journal }
    }

    /// Appends any entry. A driver has a method of its own for each entry that it writes.
    pub fn write(&self, what: EventKind) {
        self.journal.write(&self.host, what);
    }
}

/// What really happens, for the outside world of a server.
impl Recorder {
    /// The producer of a stream wrote these bytes, as one item.
    pub fn produced(&self, stream: &Stream, bytes: impl Into<Bytes>) {
        self.write(EventKind::Produced { stream: stream.clone(), bytes: Content::from(bytes) });
    }

    /// The producer of a stream ended, with this outcome: by itself, or because the server ended it.
    pub fn ended(&self, stream: &Stream, outcome: impl Into<Data>) {
        self.write(EventKind::Ended { stream: stream.clone(), outcome: outcome.into() });
    }

    /// A mutating call took effect on a target. [`Call::NONE`] stands for a call that the outside world cannot tell.
    pub fn effect(&self, call: Call, target: impl Into<String>) {
        self.write(EventKind::Effect { call, target: target.into() });
    }
}

/// What the user of a client sees of streams, for the driver of the user.
impl Recorder {
    /// A call opened a stream: from now on its items are owed to the user of this host, and nothing else answers the call. With
    /// [`Call::NONE`], the stream is owed, and the call that led to it has an answer of its own.
    pub fn opened(&self, stream: &Stream, call: Call) {
        self.write(EventKind::Opened { stream: stream.clone(), call });
    }

    /// An item came out of a stream, over this generation if the client tells.
    pub fn delivered(&self, stream: &Stream, bytes: impl Into<Bytes>, generation: Option<u64>) {
        self.write(EventKind::Delivered {
            stream: stream.clone(),
            bytes: Content::from(bytes),
            generation,
        });
    }

    /// A stream completed for its user: all was delivered, and this is its outcome, equal to that of [`ended`](Self::ended).
    pub fn completed(&self, stream: &Stream, outcome: impl Into<Data>) {
        self.stream_ended(stream, Ending::Completed { outcome: outcome.into() });
    }

    /// A stream failed for its user, for this reason.
    pub fn broke(&self, stream: &Stream, reason: impl Into<Data>) {
        self.stream_ended(stream, Ending::Failed { reason: reason.into() });
    }

    /// A stream ended for its user: [`completed`](Self::completed) or [`broke`](Self::broke).
    pub fn stream_ended(&self, stream: &Stream, ending: Ending) {
        self.write(EventKind::StreamEnded { stream: stream.clone(), ending });
    }

    /// The user closed a stream (or, with `None`, the client) by a call of its own.
    pub fn gave_up(&self, stream: Option<&Stream>, call: Call) {
        self.write(EventKind::GaveUp { stream: stream.cloned(), call });
    }

    /// The user saw something of a stream that a property of the subject's own judges.
    pub fn saw(&self, stream: &Stream, saw: impl Into<Data>) {
        self.write(EventKind::Saw { stream: stream.clone(), saw: saw.into() });
    }
}

/// How calls come back, for the driver of the user.
impl Recorder {
    /// A call came back with a result. A plain value is that of a call that was done.
    pub fn answered(&self, call: Call, answer: impl Into<Answer>) {
        self.write(EventKind::Answered { call, answer: answer.into() });
    }

    /// A call came back with a refusal that the protocol owes.
    pub fn refused(&self, call: Call, why: impl Into<Data>) {
        self.answered(call, Answer::refused(why));
    }

    /// A call was accepted whose target may be gone before it takes effect.
    pub fn queued(&self, call: Call, what: impl Into<Data>) {
        self.answered(call, Answer::queued(what));
    }

    /// A call came back with a failure.
    pub fn failed(&self, call: Call, reason: impl Into<Data>) {
        self.write(EventKind::Failed { call, reason: reason.into() });
    }
}

/// What is counted on a host, for both.
impl Recorder {
    /// A counter of the subject's census: sessions, timers, retained bytes. It is asked at the end of every turn (for
    /// `bounded_memory`) and when all is over (for `no_residue`, where it must be what it was before the first connection). It
    /// must be cheap, and must not hold what it counts alive.
    pub fn gauge(&self, name: &'static str, count: impl Fn() -> u64 + Send + 'static) {
        let count = move |slots: &mut [u64]| slots.fill(count());
        self.journal.gauges(&self.host, Gauges { names: vec![name], count: Box::new(count) });
    }

    /// All counters of a census: a table of names and of what they read in it. `resources` takes it, once for all of them; where there is
    /// nothing left to count, they are 0.
    pub fn gauges<C: 'static>(
        &self,
        table: &'static [Gauge<C>],
        resources: impl Fn() -> Option<C> + Send + 'static,
    ) {
        let count = move |slots: &mut [u64]| {
            let resources = resources();
            for (slot, (_, count)) in slots.iter_mut().zip(table) {
                *slot = resources.as_ref().map_or(0, count);
            }
        };
        let names = table.iter().map(|(name, _)| *name).collect();
        self.journal.gauges(&self.host, Gauges { names, count: Box::new(count) });
    }
}
