//! What must hold over a history.
//!
//! A [`Property`] is a name, a sentence, and a function from the [`Evidence`] of a run to the [`Violation`]s in it. The generic ones
//! stand in [`GENERIC`]; subjects add their own. All figures come from the subject's [`Promise`] under the limits of the run,
//! the schedule, and the ground truth; never from the protocol's own word.
//!
//! The generic properties share what they read: [`facts`] sorts the entries of a history by stream and call in one pass, and
//! [`path`](mod@path) knows when which path was faulty. Each property is a file of its own.
//!
//! [What a driver must record](crate::subject::Subject#what-a-driver-must-record) stands where a driver is written.

use std::time::Duration;

use crate::history::{History, Stream, Time};
use crate::schedule::Plan;
use crate::subject::MilestoneDoc;

mod at_most_once;
mod bounded_ending;
mod bounded_memory;
mod bounded_work;
pub mod facts;
mod gap_free;
mod isolation;
mod justified_failure;
mod no_panic;
mod no_residue;
mod one_ending;
pub mod path;
mod stale_generation_inert;
#[cfg(test)]
pub(crate) mod told;
pub mod view;
pub mod violation;

use facts::Facts;
pub use justified_failure::grey;
pub use no_panic::stuck;
pub use violation::{About, Fields, Kind, Phrase, Value, Violation};

/// What must hold over the history of a run.
#[derive(Clone, Copy)]
pub struct Property {
    /// Its name: `gap_free`.
    pub name: &'static str,
    /// What it says, in one sentence.
    pub doc: &'static str,
    /// The ways in which it can break.
    pub kinds: &'static [&'static Kind],
    /// Everything in the evidence that breaks it.
    pub check: fn(&Evidence<'_>) -> Vec<Violation>,
}

impl std::fmt::Debug for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// What a property is given.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The plan that was run.
    pub plan: &'a Plan,
    /// The record of the run.
    pub history: &'a History,
    /// What the subject promises under the limits of the plan.
    pub promise: &'a Promise,
    /// The subject's milestones.
    pub milestones: &'a [MilestoneDoc],
    /// Under the subject's own names of its server hosts.
    pub servers: &'a [&'static str],
    /// The record of the twin run, if there was one: the same plan, in which packets of an older generation are dropped
    /// once a newer one is installed.
    pub twin: Option<&'a History>,
}

/// What a protocol promises under given limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// How long an end takes to notice, by itself, that its peer is silent: ping interval plus pong deadline.
    pub detection: Duration,
    /// How long the client tries to recover before it fails what is durable.
    pub recovery: Duration,
    /// Whether it fails what is durable then. A client that never does is back so long after the end of what kept it away.
    pub gives_up: bool,
    /// How long one attempt to connect, or one call without a wait of its own, may take.
    pub attempt: Duration,
    /// How long a call waits at most for what lives and never answers: a puppet, or a host that plays the outside world.
    pub call_wait: Duration,
    /// How many times packets go there and back from the first SYN to the end of one catch-up.
    pub round_trips: u32,
    /// The longest pause between two attempts to connect.
    pub back_off: Duration,
    /// How long the server keeps what is detached.
    pub session: Duration,
    /// What the server keeps of a stream for a client that is away.
    pub retention: Retention,
    /// The endings of the names of streams that are parts of a whole: with `/stdout`, the stream `p1/stdout` is a part of `p1`.
    /// What is retained is retained of the whole, and its parts fail together.
    pub parts: &'static [&'static str],
    /// How long after its end a stream can still be caught up with.
    pub closed_retention: Duration,
    /// How much work is acceptable.
    pub work: Work,
    /// The gauges of the census that have a bound at all times, with it.
    pub memory: Vec<(&'static str, u64)>,
    /// How long after the clients are closed everything is gone.
    pub settle: Duration,
    /// The hosts that play the outside world: nothing is promised of what is left on them.
    pub outside: &'static [&'static str],
}

/// The promise of a protocol that recovers nothing by itself, and keeps all that it was given for as long as it runs. A first
/// promise changes the figures that are its own: `Promise { detection, recovery, ..Promise::default() }`.
impl Default for Promise {
    fn default() -> Self {
        const FOR_EVER: Duration = Duration::from_hours(10_000);
        Self {
            detection: Duration::ZERO,
            recovery: Duration::ZERO,
            gives_up: true,
            attempt: Duration::ZERO,
            call_wait: Duration::ZERO,
            round_trips: 2,
            back_off: Duration::ZERO,
            session: FOR_EVER,
            retention: Retention { items: None, piece: None, bytes: None },
            parts: &[],
            closed_retention: FOR_EVER,
            work: Work { attempts: 10, frames: 100, polls: 60 },
            memory: Vec::new(),
            settle: Duration::from_secs(60),
            outside: &[],
        }
    }
}

impl Promise {
    /// The length of a fault-free interval that a client can use for certain, where a packet takes at most `latency`: the pause
    /// in which it may be when the interval begins, then connect, handshake and one catch-up. `A` in the docs of the properties.
    pub fn chance(&self, latency: Duration) -> Duration {
        self.back_off + latency * 2 * self.round_trips
    }

    /// The whole of which a stream is a part; the stream itself where it is none.
    pub fn whole<'s>(&self, stream: &'s Stream) -> &'s str {
        self.parts.iter().find_map(|part| stream.0.strip_suffix(part)).unwrap_or(&stream.0)
    }
}

/// What is kept for a client that is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// So many items at least; all where none is given.
    pub items: Option<u64>,
    /// An item of more bytes than this counts once more for each so many that it has; as one where none is given.
    pub piece: Option<u64>,
    /// So many bytes at least; all where none is given.
    pub bytes: Option<u64>,
}

impl Retention {
    /// Whether some of so many items, with so many bytes in all, may be gone.
    pub fn is_exceeded(&self, items: u64, bytes: u64) -> bool {
        let pieces = items + self.piece.map_or(0, |piece| bytes / piece);
        self.items.is_some_and(|most| pieces > most) || self.bytes.is_some_and(|most| bytes > most)
    }
}

/// How much work a protocol may do, whatever the network does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Connections opened by one host in any virtual second.
    pub attempts: u64,
    /// Segments with payload sent by one host in any virtual second, besides two for each item produced in it.
    pub frames: u64,
    /// Polls of all tasks over the run, for each segment, item and virtual second (whichever are there), on average.
    pub polls: u64,
}

/// Draws the table of generic properties and the function that checks them all from the same rows.
macro_rules! generic {
    ($($module:ident :: $check:ident, $kinds:ident as $name:literal: $doc:literal;)*) => {
        /// The generic properties, in the order in which they are reported.
        pub const GENERIC: &[Property] = &[$(Property {
            name: $name,
            doc: $doc,
            kinds: $module::$kinds,
            check: |evidence| {
                let mut broken = Findings::new($name);
                $module::$check(&Facts::of(evidence), &mut broken);
                broken.list
            },
        }),*];

        /// All that breaks a generic property. The facts are gathered once.
        pub fn check(evidence: &Evidence<'_>) -> Vec<Violation> {
            let facts = Facts::of(evidence);
            let mut all = Vec::new();
            $({
                let mut broken = Findings::new($name);
                $module::$check(&facts, &mut broken);
                all.append(&mut broken.list);
            })*
            all
        }
    };
}

generic! {
    no_panic::no_panic, PANICS as "no_panic": "no task of the subject panics";
    no_panic::no_livelock, LIVELOCKS as "no_livelock": "virtual time goes on: no task keeps it from doing so";
    gap_free::check, KINDS as "gap_free": "what is delivered of a stream is a prefix of what was produced: no gap, no double, no foreign byte";
    one_ending::check, KINDS as "one_ending": "each stream and call ends once, completely or with a reason that stays; nothing comes after it";
    bounded_ending::check, KINDS as "bounded_ending": "what is over ends for its user in bounded time; no call waits for ever";
    justified_failure::check, KINDS as "justified_failure": "what must survive fails only where faults, retention or the user left no other way";
    at_most_once::check, KINDS as "at_most_once": "a mutating operation takes effect at most once, exactly once if acknowledged, in the order of issue";
    isolation::check, KINDS as "isolation": "what happens to one stream, session or client harms no other";
    stale_generation_inert::check, KINDS as "stale_generation_inert": "once a newer generation is installed, packets of an older one change nothing that the user sees";
    no_residue::check, KINDS as "no_residue": "when all is over, no task, socket, process, session, timer or buffer is left, and nothing belongs to no host";
    bounded_work::check, KINDS as "bounded_work": "connection attempts, frames and polls stay under the subject's bounds";
    bounded_memory::check, KINDS as "bounded_memory": "retained bytes and queue lengths stay under the subject's bounds at all times";
}

/// Name and doc of the property that no single history shows: whoever repeats a run checks it.
pub const SAME_DIGEST: (&str, &str) = ("same_digest", "the same run again has the same digest and the same verdict");

/// Name and doc of every property that a subject with these own ones has, in the order in which they are reported.
pub fn list(own: &'static [Property]) -> impl Iterator<Item = (&'static str, &'static str)> {
    GENERIC.iter().chain(own).map(|property| (property.name, property.doc)).chain([SAME_DIGEST])
}

/// What breaks one property: a handful at most, so that one mistake that shows a thousand times stays readable.
struct Findings {
    property: &'static str,
    list: Vec<Violation>,
}

/// How many findings of one property are kept.
const HANDFUL: usize = 5;

impl Findings {
    fn new(property: &'static str) -> Self {
        Self { property, list: Vec::new() }
    }

    fn push(&mut self, subject: impl Into<About>, at: Time, kind: &'static Kind, data: Fields) {
        if self.list.len() < HANDFUL {
            self.list.push(Violation::new(self.property, subject, at, kind, data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::told::history;
    use super::*;

    #[test]
    fn every_property_is_listed_once() {
        let mut names: Vec<_> = list(&[]).map(|(name, _)| name).collect();
        assert_eq!((names.len(), names[2], names[12]), (13, "gap_free", "same_digest"));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 13);
    }

    #[test]
    fn every_kind_of_a_property_has_a_name_of_its_own() {
        for property in GENERIC {
            let mut names: Vec<_> = property.kinds.iter().map(|kind| kind.name).collect();
            names.sort_unstable();
            names.dedup();
            assert!(!names.is_empty() && names.len() == property.kinds.len(), "{property:?}");
        }
    }

    #[test]
    fn all_are_checked_at_once_and_each_alone_says_the_same() {
        let told = history().opened("s1", 1, 0).produced("s1", 1_000, "a").delivered("s1", 1_010, "b").panicked(2_000, "oh");
        let together: Vec<_> = told.with(check);
        let alone: Vec<_> = told.with(|evidence| GENERIC.iter().flat_map(|property| (property.check)(evidence)).collect());
        assert_eq!(together, alone);
        assert_eq!(together.iter().map(|broken| broken.property).collect::<Vec<_>>(), ["no_panic", "gap_free"]);
    }

    #[test]
    fn one_mistake_that_shows_often_is_told_a_handful_of_times() {
        let told = (0..20).fold(history(), |told, n| told.panicked(n, "oh"));
        assert_eq!(told.breaks("no_panic").len(), HANDFUL);
    }
}
