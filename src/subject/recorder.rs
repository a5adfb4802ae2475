//! The interface through which an adapter records events in the history.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::history::{Answer, Call, Content, Data, Ending, EventKind, Stream};
use crate::schedule::Host;

/// The destination of entries: the world of the run.
pub trait Journal: Send + Sync {
    /// Appends an entry about `host`, at the current virtual time.
    fn write(&self, host: &Host, what: EventKind);

    /// Registers resource counters, which are read at the end of every turn and at the end of the
    /// run.
    fn gauges(&self, host: &Host, gauges: Gauges);

    /// Asks whether a task of the outside world may panic now. If the answer is `false`, the engine
    /// cannot continue after a panic, and ends the run with an error instead.
    fn request_panic(&self) -> bool {
        true
    }
}

/// A row of a table of resource counters: its name, and the function that reads it.
pub type Gauge<C> = (&'static str, fn(&C) -> u64);

/// Resource counters of a subject that are read together.
pub struct Gauges {
    /// The names.
    pub names: Vec<&'static str>,
    /// How many of the counters, from the first one on, are levels: the history records each change
    /// of a level. Of the others it records each new maximum.
    pub levels: usize,
    /// Writes the current counts, in the same order as the names.
    pub count: ResourceCounter,
}

/// A function that writes each counter into its slot.
pub type ResourceCounter = Box<dyn Fn(&mut [u64]) + Send>;

/// Records events of one host in the history of a run. [What a driver must
/// record](super::Subject#what-a-driver-must-record) lists which of these methods the outside world
/// of a server calls, and which the driver of a client's user calls.
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

    /// Appends any entry. Drivers normally use the dedicated method for each kind of entry.
    pub fn write(&self, what: EventKind) {
        self.journal.write(&self.host, what);
    }
}

/// Methods for the outside world of a server: they record the ground truth.
impl Recorder {
    /// The producer of a stream wrote these bytes as one item.
    pub fn produced(&self, stream: &Stream, bytes: impl Into<Bytes>) {
        self.write(EventKind::Produced { stream: stream.clone(), bytes: Content::from(bytes) });
    }

    /// The producer of a stream ended with this outcome: on its own, or because the server ended
    /// it.
    pub fn ended(&self, stream: &Stream, outcome: impl Into<Data>) {
        self.write(EventKind::Ended { stream: stream.clone(), outcome: outcome.into() });
    }

    /// A mutating call took effect on a target. Use [`Call::NONE`] if the outside world cannot
    /// identify the call.
    pub fn effect(&self, call: Call, target: impl Into<String>) {
        self.write(EventKind::Effect { call, target: target.into() });
    }

    /// The producer of a stream asked for this, and got no answer.
    pub fn unanswered(&self, stream: &Stream, what: impl Into<String>) {
        self.write(EventKind::Unanswered { stream: stream.clone(), what: what.into() });
    }

    /// The product asked for this, and the answer takes this long.
    pub fn fetched(&self, what: impl Into<String>, takes: Duration) {
        self.write(EventKind::Fetched { what: what.into(), takes });
    }

    /// Panics in the current task, which belongs to the outside world. The history does not count
    /// this as a panic of the subject. Stock turmoil cannot continue after a panic: there, the task
    /// waits, and the run ends with an error.
    pub async fn panic_outside(&self, message: &'static str) -> Infallible {
        if !self.journal.request_panic() {
            return std::future::pending().await;
        }
        resume_unwind(Box::new(message))
    }
}

/// Methods for the driver of a client's user: they record how the user sees streams.
impl Recorder {
    /// A call opened a stream. From now on the user of this host must receive its items, and the
    /// call needs no other answer. With [`Call::NONE`], the user must receive the stream's items,
    /// but the call that led to it has a separate answer.
    pub fn opened(&self, stream: &Stream, call: Call) {
        self.write(EventKind::Opened { stream: stream.clone(), call });
    }

    /// The user received an item of a stream. `generation` is the generation that carried it, if
    /// the client reports it.
    pub fn delivered(&self, stream: &Stream, bytes: impl Into<Bytes>, generation: Option<u64>) {
        self.write(EventKind::Delivered {
            stream: stream.clone(),
            bytes: Content::from(bytes),
            generation,
        });
    }

    /// A stream completed for its user: all items were delivered. The outcome must equal that of
    /// [`ended`](Self::ended).
    pub fn completed(&self, stream: &Stream, outcome: impl Into<Data>) {
        self.stream_ended(stream, Ending::Completed { outcome: outcome.into() });
    }

    /// A stream failed for its user, for this reason.
    pub fn failed_stream(&self, stream: &Stream, reason: impl Into<Data>) {
        self.stream_ended(stream, Ending::Failed { reason: reason.into() });
    }

    /// A stream ended for its user: [`completed`](Self::completed) or [`failed_stream`](Self::failed_stream).
    pub fn stream_ended(&self, stream: &Stream, ending: Ending) {
        self.write(EventKind::StreamEnded { stream: stream.clone(), ending });
    }

    /// The user closed a stream (or, with `None`, the client) by this call.
    pub fn gave_up(&self, stream: Option<&Stream>, call: Call) {
        self.write(EventKind::GaveUp { stream: stream.cloned(), call });
    }

    /// The user made an observation about a stream that a specific property of the subject judges.
    pub fn observed(&self, stream: &Stream, saw: impl Into<Data>) {
        self.write(EventKind::Observed { stream: stream.clone(), saw: saw.into() });
    }
}

/// Methods for the driver of a client's user: they record the results of calls.
impl Recorder {
    /// A call returned a result. A plain value counts as [`Answer::Done`].
    pub fn answered(&self, call: Call, answer: impl Into<Answer>) {
        self.write(EventKind::Answered { call, answer: answer.into() });
    }

    /// A call returned a refusal that the protocol requires.
    pub fn refused(&self, call: Call, why: impl Into<Data>) {
        self.answered(call, Answer::refused(why));
    }

    /// A call was accepted, but its target may end before the call takes effect.
    pub fn queued(&self, call: Call, what: impl Into<Data>) {
        self.answered(call, Answer::queued(what));
    }

    /// A call returned a failure.
    pub fn failed(&self, call: Call, reason: impl Into<Data>) {
        self.write(EventKind::Failed { call, reason: reason.into() });
    }
}

/// Methods for both: they register resource counters of a host.
impl Recorder {
    /// Registers a resource counter: sessions, timers, retained bytes. It is read at the end of
    /// every turn (for `bounded_memory`) and at the end of the run (for `no_residue`, which
    /// requires the value from before the first connection). The function must be cheap, and must
    /// not keep the counted resources alive.
    pub fn gauge(&self, name: &'static str, count: impl Fn() -> u64 + Send + 'static) {
        let count = move |slots: &mut [u64]| slots.fill(count());
        let gauges = Gauges { names: vec![name], levels: 0, count: Box::new(count) };
        self.journal.gauges(&self.host, gauges);
    }

    /// Registers a table of resource counters, each with a name and a function that reads it.
    /// `resources` is called once for all of them; if it returns `None`, all counts are 0.
    pub fn gauges<C: 'static>(
        &self,
        table: &'static [Gauge<C>],
        resources: impl Fn() -> Option<C> + Send + 'static,
    ) {
        self.resources(&[], table, resources);
    }

    /// As [`gauges`](Self::gauges), with a second table of levels. The history records each change of
    /// a level, so use levels for what is opened and ended, and gauges for what changes all the time.
    pub fn resources<C: 'static>(
        &self,
        levels: &'static [Gauge<C>],
        gauges: &'static [Gauge<C>],
        resources: impl Fn() -> Option<C> + Send + 'static,
    ) {
        let rows = move || levels.iter().chain(gauges);
        let count = move |slots: &mut [u64]| {
            let resources = resources();
            for (slot, (_, count)) in slots.iter_mut().zip(rows()) {
                *slot = resources.as_ref().map_or(0, count);
            }
        };
        let names = rows().map(|(name, _)| *name).collect();
        let gauges = Gauges { names, levels: levels.len(), count: Box::new(count) };
        self.journal.gauges(&self.host, gauges);
    }
}
