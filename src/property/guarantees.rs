//! What a protocol guarantees under given limits: the figures from which the generic properties compute their bounds.
//!
//! A subject begins with [`Guarantees::fail_fast`] or [`Guarantees::recovering`], and sets the fields in which it differs:
//!
//! ```
//! # use std::time::Duration;
//! # use reknit::property::Guarantees;
//! let (detection, recovery) = (Duration::from_secs(20), Duration::from_secs(25));
//! let guarantees = Guarantees { attempt: Duration::from_secs(5), ..Guarantees::recovering(detection, recovery) };
//! # assert_eq!((guarantees.detection, guarantees.recovery), (detection, recovery));
//! ```

use std::time::Duration;

use crate::history::Stream;
use crate::schedule::{Operation, Plan};

/// What a protocol guarantees under given limits. All durations are virtual time.
///
/// Each field names the properties that read it, and its default. The default of a bound is one that most small protocols keep; the
/// default of a duration is zero where a protocol waits for nothing, and [`Guarantees::FOREVER`] where it keeps everything.
#[derive(Clone, Debug)]
pub struct Guarantees {
    /// How long an end takes to notice, by itself, that its peer is silent: ping interval plus pong deadline. Default: zero.
    ///
    /// Read by `bounded_ending`, `justified_failure` and `stale_generation_inert`.
    pub detection: Duration,
    /// How long the client tries to recover before it fails what is durable. Default: zero.
    ///
    /// Read by `bounded_ending`, `justified_failure` and `stale_generation_inert`.
    pub recovery: Duration,
    /// Whether the client fails what is durable after `recovery`. A client that never does is back so long after the end of the
    /// fault that kept it away. Default: `true`.
    ///
    /// Read by `bounded_ending` and `stale_generation_inert`.
    pub gives_up: bool,
    /// How long one attempt to connect, or one call without a wait of its own, may take. Default: zero.
    ///
    /// Read by `bounded_ending`, `isolation` and `stale_generation_inert`.
    pub attempt: Duration,
    /// How long a call waits at most for a peer that lives and never answers: a puppet, or a host of `outside`. Default: zero.
    ///
    /// Read by `bounded_ending`, `justified_failure` and `isolation`.
    pub call_wait: Duration,
    /// How long the user of an operation waits at most for what comes out of a host of `outside`, counted from when its stream was
    /// opened. After that, the protocol ends the stream. Default: the [wait](Operation::wait) of the operation.
    ///
    /// Read by `bounded_ending`.
    pub outside_wait: fn(&Plan, &Operation) -> Duration,
    /// How many round trips one reconnect takes, from the first SYN to the end of the catch-up. Default: 2, a handshake of TCP and
    /// one request.
    ///
    /// Read, as a part of [`recovery_window`](Self::chance), by `bounded_ending`, `justified_failure`, `isolation` and `stale_generation_inert`.
    pub round_trips: u32,
    /// The longest pause between two attempts to connect. Default: zero.
    ///
    /// Read, as a part of [`recovery_window`](Self::chance), by `bounded_ending`, `justified_failure` and `isolation`.
    pub back_off: Duration,
    /// How long the server keeps a session whose client is away. Default: [`Guarantees::FOREVER`].
    ///
    /// Read by `justified_failure`.
    pub session: Duration,
    /// How much of a stream the server keeps for a client that is away. Default: all.
    ///
    /// Read by `justified_failure`.
    pub retention: Retention,
    /// For how many bytes of a stream counts what stands on the wire around each of its items: many small items take longer than few
    /// long ones. Default: none.
    ///
    /// Read, as a part of [`Path::recovery_window`](super::path::Path::chance), by `bounded_ending`, `justified_failure` and `isolation`.
    pub around: u64,
    /// The endings of the names of streams that are parts of a whole: with `/stdout`, the stream `p1/stdout` is a part of `p1`.
    /// Retention counts the whole, and the parts of a whole fail together. Default: none.
    ///
    /// Read by `bounded_ending`, `justified_failure` and `isolation`.
    pub parts: &'static [&'static str],
    /// How long after its end a stream can still be caught up with. Default: [`Guarantees::FOREVER`].
    ///
    /// Read by `justified_failure`.
    pub closed_retention: Duration,
    /// How much work a host may do. Default: 10 attempts and 100 frames a second, 60 polls for each unit of work.
    ///
    /// Read by `bounded_work`.
    pub work: WorkBounds,
    /// The gauges of the census that have a bound at all times, each with its bound. Default: none.
    ///
    /// Read by `bounded_memory`.
    pub memory: Vec<(&'static str, u64)>,
    /// How long after the close of the clients everything is gone. The world runs so long before it takes its last census.
    /// Default: 60 s.
    ///
    /// Read by the world, for `no_residue`.
    pub settle: Duration,
    /// The hosts that play the outside world. The protocol guarantees nothing of what is left on them. Default: none.
    ///
    /// Read by `bounded_ending`, `justified_failure` and `no_residue`.
    pub outside: &'static [&'static str],
}

impl Default for Guarantees {
    fn default() -> Self {
        Self::fail_fast()
    }
}

impl Guarantees {
    /// Longer than any run.
    pub const FOREVER: Duration = Duration::from_hours(10_000);

    /// The guarantees of a protocol that recovers nothing by itself, and fails what is open as soon as its connection is lost. Its
    /// server keeps all that it was given for as long as it runs.
    pub fn fail_fast() -> Self {
        Self {
            detection: Duration::ZERO,
            recovery: Duration::ZERO,
            gives_up: true,
            attempt: Duration::ZERO,
            call_wait: Duration::ZERO,
            outside_wait: |_, operation| operation.wait(),
            round_trips: 2,
            back_off: Duration::ZERO,
            session: Self::FOREVER,
            retention: Retention { items: None, piece: None, bytes: None },
            around: 0,
            parts: &[],
            closed_retention: Self::FOREVER,
            work: WorkBounds { attempts: 10, frames: 100, polls: 60 },
            memory: Vec::new(),
            settle: Duration::from_secs(60),
            outside: &[],
        }
    }

    /// The guarantees of a protocol whose ends notice a silent peer within `detection`, and whose client reconnects for `recovery`
    /// before it fails what is durable. All else is as with [`fail_fast`](Self::fail_fast); most clients have an `attempt` and a
    /// `back_off`, too.
    pub fn recovering(detection: Duration, recovery: Duration) -> Self {
        Self { detection, recovery, ..Self::fail_fast() }
    }

    /// The length of a fault-free interval that a client can use for certain, where a packet takes at most `latency`: the pause
    /// in which it may be when the interval begins, then connect, handshake and one catch-up. `A` in the docs of the properties.
    pub fn recovery_window(&self, latency: Duration) -> Duration {
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
pub struct WorkBounds {
    /// Connections opened by one host in any virtual second.
    pub attempts: u64,
    /// Segments with payload sent by one host in any virtual second, besides two for each item produced in it.
    pub frames: u64,
    /// Polls of all tasks over the run, for each segment, item and virtual second (whichever are there), on average.
    pub polls: u64,
}
