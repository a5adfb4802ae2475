//! The guarantees of a protocol under given limits: the values from which the generic properties
//! compute their bounds.
//!
//! Start with [`Guarantees::fail_fast`] or [`Guarantees::recovering`], and set the fields that
//! differ:
//!
//! ```
//! # use std::time::Duration;
//! # use reknit::property::Guarantees;
//! let (detection, recovery) = (Duration::from_secs(20), Duration::from_secs(25));
//! let guarantees = Guarantees { attempt: Duration::from_secs(5), ..Guarantees::recovering(detection, recovery) };
//! # assert_eq!((guarantees.detection, guarantees.recovery), (detection, recovery));
//! ```

use std::time::Duration;

use crate::history::{Data, Stream, Time};
use crate::schedule::{Operation, Plan};

use super::CheckContext;

/// The guarantees of a protocol under given limits. All durations are virtual time.
///
/// Each field names the properties that read it, and its default. The default of a bound is one
/// that most small protocols meet. The default of a duration is zero if a protocol waits for
/// nothing, and [`Guarantees::FOREVER`] if it keeps everything.
#[derive(Clone, Debug)]
pub struct Guarantees {
    /// The time an end needs to detect on its own that its peer is silent: ping interval plus pong
    /// deadline. Default: zero.
    ///
    /// Read by `bounded_delivery`, `bounded_ending`, `justified_failure` and
    /// `stale_generation_inert`.
    pub detection: Duration,
    /// The time for which the client tries to recover before it fails durable streams and calls.
    /// Default: zero.
    ///
    /// Read by `bounded_delivery`, `bounded_ending`, `justified_failure` and
    /// `stale_generation_inert`.
    pub recovery: Duration,
    /// Whether the client fails durable streams and calls after `recovery`. A client that never
    /// gives up must have recovered within `recovery` after the end of the fault that kept it away.
    /// Default: `true`.
    ///
    /// Read by `bounded_delivery`, `bounded_ending` and `stale_generation_inert`.
    pub gives_up: bool,
    /// The maximum duration of one attempt to connect, or of one call that sets no wait. Default:
    /// zero.
    ///
    /// Read by `bounded_delivery`, `bounded_ending`, `isolation` and `stale_generation_inert`.
    pub attempt: Duration,
    /// The longest time that a user waits for a stream while another reader has it. Default: zero,
    /// readers do not exclude each other.
    ///
    /// Read by `bounded_delivery`, `isolation` and `justified_failure`.
    pub takeover: Duration,
    /// The stream that an operation reads, if another reader can keep its host from it. The arguments are
    /// the host, its earlier operations, and the operation. Default: none.
    ///
    /// Read by `justified_failure`.
    pub reads: fn(&str, &[&Operation], &Operation) -> Option<Stream>,
    /// The hosts that read a stream which their users have given up, or never opened, and the hosts whose
    /// lost connections the server still has. Default: none.
    ///
    /// Read by `justified_failure`.
    pub also_reads: fn(&CheckContext<'_>, &Stream) -> Vec<ReadingHost>,
    /// Whether an operation or a stream depends on a thing or a producer of the outside world.
    /// Default: if one of the fields of the operation, or the stream, has its name.
    ///
    /// Read by `stale_generation_inert`.
    pub depends: fn(&Plan, Dependent<'_>, Thing<'_>) -> bool,
    /// Whether an operation may wait for long until a slow user reads on, or a slow thing of the outside
    /// world goes on: a disk, a launch, a process that reads its input. The arguments are the plan, all
    /// operations of the host, and the operation. Default: never.
    ///
    /// Read by `bounded_ending`, `justified_failure` and `isolation`.
    pub held: fn(&Plan, &[&Operation], &Operation) -> bool,
    /// The maximum time for which a call waits for a peer that is alive but never answers: a
    /// puppet, or a host of `outside`. The same applies to a call that is [`held`](Self::held). Default:
    /// zero.
    ///
    /// Read by `bounded_ending`, `justified_failure` and `isolation`.
    pub call_wait: Duration,
    /// The longest time that the user of an operation waits for data from a host of `outside`,
    /// from the opening of its stream. After that the protocol ends the stream. Default: the
    /// [wait](Operation::wait) of the operation.
    ///
    /// Read by `bounded_delivery` and `bounded_ending`.
    pub outside_wait: fn(&Plan, &Operation) -> Duration,
    /// The number of round trips of one reconnect, from the first SYN to the end of the catch-up.
    /// Default: 2, a TCP handshake and one request.
    ///
    /// Read, as a part of [`recovery_window`](Self::recovery_window), by `bounded_delivery`,
    /// `bounded_ending`, `justified_failure`, `isolation` and `stale_generation_inert`.
    pub round_trips: u32,
    /// Whether a reason of a failure can be that a connection was lost. Calls in flight and bound
    /// calls may fail with their connection for such a reason only. Default: any.
    ///
    /// Read by `justified_failure`.
    pub is_loss: fn(&Data) -> bool,
    /// Whether a client answers an operation on its own, perhaps after a wait. The answer then shows
    /// nothing about its server. Default: no operation.
    ///
    /// Read by `justified_failure`.
    pub is_local: fn(&Operation) -> bool,
    /// The longest pause between two attempts to connect. Default: zero.
    ///
    /// Read, as a part of [`recovery_window`](Self::recovery_window), by `bounded_delivery`,
    /// `bounded_ending`, `justified_failure` and `isolation`.
    pub back_off: Duration,
    /// The time for which the server keeps the session of a disconnected client. Default:
    /// [`Guarantees::FOREVER`].
    ///
    /// Read by `justified_failure`.
    pub session: Duration,
    /// The amount of a stream that the server keeps for a disconnected client. Default: all.
    ///
    /// Read by `justified_failure`.
    pub retention: Retention,
    /// The framing overhead of each item on the wire, in bytes of stream: many small items take
    /// longer to transfer than a few long ones. Default: none.
    ///
    /// Read, as a part of [`Path::recovery_window`](super::path::Path::recovery_window), by
    /// `bounded_delivery`, `bounded_ending`, `justified_failure` and `isolation`.
    pub around: u64,
    /// The name suffixes of streams that are parts of a whole: with `/stdout`, the stream
    /// `p1/stdout` is a part of `p1`. Retention counts the whole, and the parts of a whole fail
    /// together. Default: none.
    ///
    /// Read by `bounded_ending`, `justified_failure` and `isolation`.
    pub parts: &'static [&'static str],
    /// The time after the end of a stream in which a client can still catch up with it. Default:
    /// [`Guarantees::FOREVER`].
    ///
    /// Read by `justified_failure`.
    pub closed_retention: Duration,
    /// The number of requests that one client has in flight at most. Further calls wait until earlier
    /// ones are answered, so they may be sent over a later connection. Default: `None`, no bound.
    ///
    /// Read by `bounded_ending`, `justified_failure` and `isolation`.
    pub in_flight: Option<InFlightLimit>,
    /// The number of connections that a server accepts. A client that finds no place tries again
    /// when another connection is over. Default: any number.
    ///
    /// Read by all properties that judge paths.
    pub connections: usize,
    /// The intervals in which a server has no room for the client of a host, for another reason than the
    /// number of connections. They hold the client like a fault. Default: none.
    ///
    /// Read by all properties that judge paths.
    pub no_room: fn(&CheckContext<'_>, &str) -> Vec<(Time, Time)>,
    /// The number of bytes of all answers to an operation. They share a connection with the answers
    /// to later operations. Default: zero, so the answers are short.
    ///
    /// Read by `bounded_ending`, `bounded_delivery` and `isolation`.
    pub answer_bytes: fn(&Plan, &Operation) -> u64,
    /// What the outside world gives to a product besides the items of streams: when, and how many bytes
    /// in all that one host sends for it. Each answer, and each new connection, may carry it again.
    /// Default: nothing.
    ///
    /// Read by `bounded_work`.
    pub given: fn(&CheckContext<'_>) -> Vec<(Time, u64)>,
    /// The guarantees for slow users, if the protocol does not slow a producer down for its user.
    /// Default: `None`, a slow user loses nothing.
    ///
    /// Read by `justified_failure`.
    pub slow_users: Option<SlowUsers>,
    /// The minimum amount that the client can take at once for a user that reads without pauses. If
    /// more arrives at once, the client reads the rest from the server again, and loses what exceeds the
    /// retention. Default: [everything](Retention::ALL).
    ///
    /// Read by `justified_failure`.
    pub at_once: Retention,
    /// Whether an operation replaces the client of its host by another one. Default: none does.
    ///
    /// Read by `bounded_work`.
    pub begins_anew: fn(&Operation) -> bool,
    /// The maximum work of a host. Default: 10 attempts and 100 frames a second, 600 attempts a minute,
    /// 60 polls for each unit of work.
    ///
    /// Read by `bounded_work`.
    pub work: WorkBounds,
    /// The gauges that have a bound at all times, each with its bound. Default: none.
    ///
    /// Read by `bounded_memory`.
    pub memory: Vec<(&'static str, u64)>,
    /// The time after the clients close in which all resources are released. The world runs for
    /// this long before it takes its last resource counts. Default: 60 s.
    ///
    /// Read by the world, for `no_residue`.
    pub settle: Duration,
    /// The hosts that play the outside world. The protocol guarantees nothing about the resources
    /// left on them. Default: none.
    ///
    /// Read by `bounded_ending`, `justified_failure` and `no_residue`.
    pub outside: &'static [&'static str],
}

/// A part of the outside world.
#[derive(Clone, Copy, Debug)]
pub enum Thing<'a> {
    /// Something that the product fetches.
    Fetched(&'a str),
    /// The producer of a stream.
    Producer(&'a Stream),
}

impl<'a> Thing<'a> {
    /// Returns its name; that of a producer is its stream.
    pub fn name(self) -> &'a str {
        match self {
            Self::Fetched(what) => what,
            Self::Producer(stream) => &stream.0,
        }
    }
}

/// Something that may depend on a part of the outside world.
#[derive(Clone, Copy, Debug)]
pub enum Dependent<'a> {
    /// An operation of a user.
    Operation(&'a Operation),
    /// A stream.
    Stream(&'a Stream),
}

impl Dependent<'_> {
    /// Returns whether it has this name, or names it in one of its fields.
    pub fn names(self, name: &str) -> bool {
        match self {
            Self::Operation(operation) => {
                operation.fields.values().any(|field| field.as_str() == Some(name))
            }
            Self::Stream(stream) => &*stream.0 == name,
        }
    }
}

impl Default for Guarantees {
    fn default() -> Self {
        Self::fail_fast()
    }
}

impl Guarantees {
    /// Longer than any run.
    pub const FOREVER: Duration = Duration::from_hours(10_000);

    /// Returns the guarantees of a protocol that recovers nothing on its own and fails everything
    /// open as soon as its connection is lost. Its server keeps all data as long as it runs.
    pub fn fail_fast() -> Self {
        Self {
            detection: Duration::ZERO,
            recovery: Duration::ZERO,
            gives_up: true,
            attempt: Duration::ZERO,
            takeover: Duration::ZERO,
            reads: |_, _, _| None,
            also_reads: |_, _| Vec::new(),
            depends: |_, dependent, thing| dependent.names(thing.name()),
            held: |_, _, _| false,
            call_wait: Duration::ZERO,
            outside_wait: |_, operation| operation.wait(),
            round_trips: 2,
            is_loss: |_| true,
            is_local: |_| false,
            back_off: Duration::ZERO,
            session: Self::FOREVER,
            retention: Retention::ALL,
            around: 0,
            parts: &[],
            closed_retention: Self::FOREVER,
            in_flight: None,
            connections: usize::MAX,
            no_room: |_, _| Vec::new(),
            answer_bytes: |_, _| 0,
            given: |_| Vec::new(),
            slow_users: None,
            at_once: Retention::ALL,
            begins_anew: |_| false,
            work: WorkBounds {
                attempts: 10,
                attempts_a_minute: 600,
                attempts_per_item: 0,
                frames: 100,
                polls: 60,
            },
            memory: Vec::new(),
            settle: Duration::from_secs(60),
            outside: &[],
        }
    }

    /// Returns the guarantees of a protocol whose ends detect a silent peer within `detection`, and
    /// whose client tries to reconnect for `recovery` before it fails durable streams and calls.
    /// Everything else is as in [`fail_fast`](Self::fail_fast). Most clients also need an `attempt`
    /// and a `back_off`.
    pub fn recovering(detection: Duration, recovery: Duration) -> Self {
        Self { detection, recovery, ..Self::fail_fast() }
    }

    /// Returns the shortest fault-free interval in which a client is sure to recover, if a packet
    /// takes at most `latency`. It covers the pause that the client may be in when the interval
    /// begins, then connect, handshake and one catch-up. This is `A` in the documentation of the
    /// properties.
    pub fn recovery_window(&self, latency: Duration) -> Duration {
        self.back_off + latency * 2 * self.round_trips
    }

    /// Returns how long a client without a connection may take, if no fault disturbs it, until it has
    /// another one or has given up. Each side detects the loss on its own, and the last attempt may
    /// begin just before the recovery ends. The next step over a new connection takes a moment more,
    /// which the caller adds.
    pub fn reconnects_within(&self) -> Duration {
        self.detection * 2 + self.recovery + self.attempt
    }

    /// Returns the whole that a stream is a part of, or the stream itself if it is not a part.
    pub fn whole<'s>(&self, stream: &'s Stream) -> &'s str {
        self.parts.iter().find_map(|part| stream.0.strip_suffix(part)).unwrap_or(&stream.0)
    }
}

/// The amount of a stream that is kept for a disconnected client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The minimum number of items kept; `None` means all.
    pub items: Option<u64>,
    /// The piece size in bytes: an item counts once, and once more for each full piece of its
    /// bytes. With `None`, every item counts once.
    pub piece: Option<u64>,
    /// The minimum number of bytes kept; `None` means all.
    pub bytes: Option<u64>,
}

impl Retention {
    /// Everything is kept.
    pub const ALL: Self = Self { items: None, piece: None, bytes: None };

    /// Returns whether part of a backlog with this many items and bytes may have been dropped.
    pub fn is_exceeded(&self, items: u64, bytes: u64) -> bool {
        let pieces = items + self.piece.map_or(0, |piece| bytes / piece);
        self.items.is_some_and(|most| pieces > most) || self.bytes.is_some_and(|most| bytes > most)
    }
}

/// The interval in which a host reads a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadingHost {
    /// The host.
    pub host: String,
    /// When it began to read.
    pub from: Time,
    /// When it stopped, or may have stopped. A reader that stops when its host dies has that time here.
    pub to: Time,
    /// Whether it follows the stream. Followers of one host do not keep each other from it.
    pub is_follower: bool,
}

/// The number of requests that one client has in flight at most.
#[derive(Clone, Copy, Debug)]
pub struct InFlightLimit {
    /// The maximum number of requests.
    pub requests: u64,
    /// The number of requests that an operation sends at once.
    pub of: fn(&Operation) -> u64,
    /// Whether an operation may send requests after those of operations that came later: it sends one
    /// request after the other, or waits for an earlier operation first. The arguments are the
    /// operations of the client that had no answer when it came, and the operation.
    pub later: fn(&[&Operation], &Operation) -> bool,
}

/// The guarantees for a user that pauses while it reads, or that looks late. They are for a
/// protocol that does not slow a producer down for its user. Such a user can lose what exceeds the
/// retention, and the rest of a stream that ended long ago, even without a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowUsers {
    /// The minimum amount that the client holds ready for its user.
    pub ahead: Retention,
    /// The time after the end of a stream for which the server keeps what is not ready at the client.
    pub closed_retention: Duration,
}

/// The maximum work of a protocol, whatever the network does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkBounds {
    /// Connections opened by one client of a host in any virtual second.
    pub attempts: u64,
    /// Connections opened by one client of a host in any virtual minute, besides one for each call
    /// of its users in it: [`attempts_a_minute`] computes it for most clients.
    pub attempts_a_minute: u64,
    /// The connections that come on top in a minute for each item that a connection may have brought in
    /// it. Zero if an item does not shorten the pauses between attempts.
    pub attempts_per_item: u64,
    /// Segments with payload sent by one host in any virtual second, besides two for each item
    /// produced in it.
    pub frames: u64,
    /// Average number of polls of all tasks over the run, for each segment, item and virtual
    /// second.
    pub polls: u64,
}

/// Returns a bound for the attempts of a client in a minute, whatever the network does. Its pauses double
/// from `min` to `max`, and half of each is random; the first one is zero. They begin anew only after a
/// connection that lasted for `max`.
///
/// The worst network lets some attempts fail at once, while the pauses are short, then one connection last
/// for `max`, and so on; or it lets all attempts fail. The bound is twice the number of attempts in the
/// worse one of these cases, because a subject may have reasons to try that this does not know.
///
/// ```
/// # use std::time::Duration;
/// # use reknit::property::attempts_a_minute;
/// let (second, half_a_minute) = (Duration::from_secs(1), Duration::from_secs(30));
/// assert_eq!(attempts_a_minute(second, half_a_minute), 24);
/// ```
pub fn attempts_a_minute(min: Duration, max: Duration) -> u64 {
    const MINUTE: u64 = 60_000;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    let (min, max) = (millis(min), millis(max.max(min)));
    // The attempts so far, when the last one of them begins at the earliest, and the pause before it.
    let (mut attempts, mut began, mut pause) = (1, 0_u64, 0_u64);
    let mut most = 0;
    loop {
        // A minute may also hold the attempts of a row whose lasting connection ends after it.
        let rows = MINUTE / began.saturating_add(max) + 1;
        most = most.max(attempts * rows);
        if pause == max {
            break;
        }
        pause = pause.saturating_mul(2).clamp(min, max);
        began = began.saturating_add((pause / 2).max(1));
        if began > MINUTE {
            break;
        }
        attempts += 1;
    }
    let failing = attempts + MINUTE.saturating_sub(began) / (max / 2).max(1);
    2 * most.max(failing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_holds_twice_the_attempts_at_the_worst_times() {
        let bound =
            |min, max| attempts_a_minute(Duration::from_millis(min), Duration::from_millis(max));
        // Four attempts, at 0, 50, 150 and 350 ms, and a second later the next four: 45 times.
        assert_eq!(bound(100, 1_000), 2 * 4 * 45);
        // Six attempts, the last one at 15.5 s, and 30 s later the next six.
        assert_eq!(bound(1_000, 30_000), 2 * 6 * 2);
        // All fail: the first two, and then one each 15 s.
        assert_eq!(bound(30_000, 30_000), 2 * 5);
        assert_eq!(bound(120_000, 120_000), 2 * 2);
        // The shortest pauses last for a millisecond.
        assert_eq!(bound(0, 0), bound(1, 1));
        assert!(bound(1, 1) >= 2 * 60_000);
    }
}
