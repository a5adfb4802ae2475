//! The tables of `counter`: limits, milestones, points, defects, rules, resource counts.
//!
//! The ledger gives the source of each rule. Each defect names the real bug that it reproduces.

use crate::schedule::{Limit, LimitValue, Limits};
use crate::subject::tables::{defect, limit, milestone, millis, only, point, point_of, rule, secs};
use crate::subject::{DefectDoc, Gauge, MilestoneDoc, PointDoc, Rule};
use reknit_counter::{ClientLimits, Liveness, ServerLimits, ServerResources};

use LimitValue::Count;

/// All sizes and deadlines.
#[rustfmt::skip]
pub const LIMITS: &[Limit] = &[
    limit("client.ping-interval", secs(8), millis(100), "the silence after which a client pings; its least is more than a packet's way there and back"),
    limit("client.pong-deadline", secs(8), millis(100), "the silence after that ping which ends the connection"),
    limit("client.write-deadline", secs(8), millis(100), "how long a connection may take nothing that a client wants to write"),
    limit("client.recovery-deadline", secs(25), millis(0), "how long a client tries to get a connection back; 0: it does not try again"),
    limit("client.attempt-timeout", secs(5), millis(100), "how long one attempt may take, from the SYN to the welcome"),
    limit("client.back-off-min", millis(50), millis(1), "the pause after the first attempt that failed; doubles with each"),
    limit("client.back-off-max", secs(1), millis(1), "the longest pause between two attempts"),
    limit("client.call-wait", secs(45), millis(100), "how long a call waits for its answer, over all connections"),
    limit("client.pending-calls", Count(64), Count(16), "how many calls may wait for an answer; those after them wait, and are bound to nothing yet"),
    limit("client.queued-numbers", Count(4096), Count(1024), "how many numbers of a stream may wait for its user; its least is all that a server retains by default, which may come at once"),
    limit("server.ping-interval", secs(8), millis(100), "the silence after which a server pings"),
    limit("server.pong-deadline", secs(8), millis(100), "the silence after that ping which ends the connection"),
    limit("server.write-deadline", secs(8), millis(100), "how long a connection may take nothing that a server wants to write"),
    limit("server.hello-deadline", secs(5), millis(100), "how long a new connection may take to say hello"),
    limit("server.session-lifetime", secs(30), millis(1), "how long a session without a connection is kept; at its least, a lost connection is a lost session"),
    limit("server.sessions", Count(1024), Count(8), "how many sessions there may be"),
    limit("server.streams", Count(64), Count(16), "how many streams one session may open in its life"),
    limit("server.retained-items", Count(1000), Count(1), "how many of its newest numbers a stream keeps; 1: only who lags by one number can come back"),
    limit("server.closed-retention", secs(30), millis(1), "how long a stream is kept after its end"),
    limit("server.queued-replies", Count(128), Count(65), "how many replies may wait for a connection; its least is more than the calls that a client lets wait by default"),
    limit("server.longest-lease", secs(10), millis(0), "the longest lease; 0: each is over at once"),
];

/// Reads the limits of a client from the table.
pub fn client_limits(limits: &Limits) -> ClientLimits {
    ClientLimits {
        liveness: liveness(limits, "client"),
        recovery_deadline: limits.duration("client.recovery-deadline"),
        attempt_timeout: limits.duration("client.attempt-timeout"),
        back_off_min: limits.duration("client.back-off-min"),
        back_off_max: limits.duration("client.back-off-max"),
        call_wait: limits.duration("client.call-wait"),
        pending_calls: limits.count("client.pending-calls") as usize,
        queued_numbers: limits.count("client.queued-numbers") as usize,
    }
}

/// Reads the limits of a server from the table.
pub fn server_limits(limits: &Limits) -> ServerLimits {
    ServerLimits {
        liveness: liveness(limits, "server"),
        hello_deadline: limits.duration("server.hello-deadline"),
        session_lifetime: limits.duration("server.session-lifetime"),
        sessions: limits.count("server.sessions") as usize,
        streams: limits.count("server.streams") as usize,
        retained_items: limits.count("server.retained-items") as usize,
        closed_retention: limits.duration("server.closed-retention"),
        queued_replies: limits.count("server.queued-replies") as usize,
        longest_lease: limits.duration("server.longest-lease"),
    }
}

fn liveness(limits: &Limits, side: &str) -> Liveness {
    let of = |name: &str| limits.duration(&format!("{side}.{name}"));
    Liveness {
        ping_interval: of("ping-interval"),
        pong_deadline: of("pong-deadline"),
        write_deadline: of("write-deadline"),
    }
}

/// The resource counts of a server.
pub const RESOURCES: &[Gauge<ServerResources>] = &[
    ("sessions", ServerResources::sessions),
    ("streams", ServerResources::streams),
    ("longest-log", ServerResources::longest_log),
    ("longest-queue", ServerResources::longest_queue),
    ("connections", ServerResources::connections),
    ("leases", ServerResources::leases),
];

/// The milestones of the product code.
#[rustfmt::skip]
pub const MILESTONES: &[MilestoneDoc] = &[
    milestone("counter.client.recovering", &["generation"], "a client has no connection, and tries to get one; generation is the one it would be"),
    milestone("counter.client.connected", &["generation", "conn"], "a client installed a connection"),
    milestone("counter.client.resumed", &["generation", "conn", "streams"], "the server still had its session"),
    milestone("counter.client.lost", &["generation", "conn", "why"], "a client lost its connection"),
    milestone("counter.client.silent", &["generation", "conn"], "it did so because the server was silent"),
    milestone("counter.client.session-lost", &["generation"], "the server no longer had the session"),
    milestone("counter.client.failed-deadline", &["generation"], "a client gave up at its recovery deadline"),
    milestone("counter.client.gap", &["stream", "next", "oldest"], "numbers of a stream are missing for good"),
    only("a puppet", milestone("counter.client.duplicate", &["stream", "index"], "a number came again, and was dropped")),
    milestone("counter.client.unanswered", &[], "a call waited too long"),
    only("a user that does not read", milestone("counter.client.overrun", &["stream"], "a stream's user was too slow")),
    milestone("counter.server.attached", &["generation", "conn", "resumed"], "a connection was attached to a session"),
    milestone("counter.server.fenced", &["generation", "conn"], "a newer connection took a session over; conn is the newer one"),
    milestone("counter.server.detached", &["generation", "conn"], "the attached connection of a session is over"),
    milestone("counter.server.late-close", &["generation", "conn"], "a connection is over that was attached no longer"),
    milestone("counter.server.left", &["generation", "conn"], "a client said goodbye"),
    milestone("counter.server.expired", &[], "a session was without a connection for too long"),
    milestone("counter.server.forgotten", &["streams"], "streams that had ended a while ago were let go"),
    milestone("counter.server.gap", &["stream", "next", "oldest"], "a client asked for a number that is no longer kept"),
    milestone("counter.server.silent", &["conn"], "a client was silent for too long"),
    milestone("counter.server.no-hello", &["conn"], "a connection ended, or took too long, before it said hello"),
    milestone("counter.server.refused-unknown-session", &["conn"], "a client asked for a session that is not there"),
    milestone("counter.server.stuck", &["conn"], "a client read nothing, or asked more than it read"),
    milestone("counter.server.refused-stale-ticket", &["conn"], "a connection came too late: a newer one had been there"),
    only("a puppet", milestone("counter.server.refused-full", &["conn"], "there were too many sessions")),
    only("a puppet", milestone("counter.server.malformed", &["conn"], "a client sent what is not a line of this protocol")),
    only("still-attached-refused", milestone("counter.server.refused-still-attached", &["conn"], "another connection was attached")),
];

/// The points at which a task can be held.
#[rustfmt::skip]
pub const POINTS: &[PointDoc] = &[
    point("counter.client.install", "a client was welcomed, and has not installed the connection"),
    point("counter.server.attach.unlocked", "a connection is attached, the lock is released, and the welcome is not written"),
    point("counter.server.detach", "a connection is over, and its session does not know yet"),
    point("counter.server.made", "a number was made, and has not entered its log"),
    point_of("snapshot-then-attach", point("counter.server.watch.copied", "between what was there and what comes")),
    point_of("dedupes-after-unlock", point("counter.server.add.checked", "between looking whether an add took effect, and having it take effect")),
];

/// The defects that can be turned on.
#[rustfmt::skip]
pub const DEFECTS: &[DefectDoc] = &[
    defect("ResumesOneTooLate", "resumes-one-too-late", &["gap_free"],
        "a client resumes after the number that it never saw", "cursors that are inclusive on one side and exclusive on the other"),
    defect("ResumesOneTooEarly", "resumes-one-too-early", &["gap_free"],
        "a client resumes with the last number that it saw, and does not notice", "the same, the other way round"),
    defect("LiveBeforeCatchUp", "live-before-catch-up", &["gap_free"],
        "after a resume the newest number is sent before those that were missed", "servers that attach first, and replay then"),
    defect("ForeignNumber", "foreign-number", &["gap_free", "isolation"],
        "a number is looked up by its index, without its stream", "event stores with one key for all streams"),
    defect("GapSkipped", "gap-skipped", &["gap_free"],
        "a client goes on after a gap as if there were none", "replay buffers that do not say what they dropped"),
    defect("SnapshotThenAttach", "snapshot-then-attach", &["justified_failure", "gap_free"],
        "what is there is copied under one lock, and what comes is followed under the next", "a replay and an attach in two lock sections"),
    defect("ReasonChanges", "reason-changes", &["one_ending"],
        "a stream that is asked again how it ended says how things are now", "errors that are derived from the state of the client"),
    defect("EofIsCompletion", "eof-is-completion", &["one_ending"],
        "a stream whose session is lost ends as if it were complete", "clients that take the end of the bytes for the end of the stream"),
    defect("RecoveryNeverGivesUp", "recovery-never-gives-up", &["bounded_ending"],
        "a client tries to recover for ever, and nothing that waits for it ends", "retry loops without a deadline"),
    defect("HalfOpenUnnoticed", "half-open-unnoticed", &["bounded_ending"],
        "a peer that says nothing is never taken for dead", "read time-outs that are off, and no pings"),
    defect("LostWakeUp", "lost-wake-up", &["bounded_ending"],
        "numbers wake only the connection that opened their stream", "handles that are captured at the start and not replaced at a resume"),
    defect("GivesUpAtFirstReset", "gives-up-at-first-reset", &["justified_failure"],
        "a lost connection fails everything", "clients that pass the first transport error on"),
    defect("StillAttachedRefused", "still-attached-refused", &["justified_failure"],
        "a server refuses a session that is attached, and a client takes that for the end", "servers that learn of a dead connection late, and answer 409"),
    defect("NoDedupe", "no-dedupe", &["at_most_once"],
        "an add that is retried takes effect again", "retries of requests whose answer was lost"),
    defect("RetriesUnderNewId", "retries-under-new-id", &["at_most_once"],
        "a client retries an add under a new id", "ids that are drawn a try, not a call"),
    defect("DedupesAfterUnlock", "dedupes-after-unlock", &["at_most_once"],
        "the lock is released between looking for an id and applying it", "a check and an act in two lock sections"),
    defect("GapFailsAll", "gap-fails-all", &["isolation"],
        "a gap in one stream fails all streams of its client", "errors of a stream that end its session"),
    defect("DetachDropsNeighbours", "detach-drops-neighbours", &["isolation", "justified_failure"],
        "when a connection ends, all other sessions are dropped", "cleanup that is not keyed by whose it is"),
    defect("StaleCloseDetaches", "stale-close-detaches", &["stale_generation_inert", "bounded_ending", "justified_failure"],
        "the late close of an older connection detaches the newer one", "close handlers that do not ask whose close it is"),
    defect("OldNumbersDelivered", "old-numbers-delivered", &["stale_generation_inert", "gap_free"],
        "a client still listens to a connection that it gave up", "listeners that are not removed from the old transport"),
    defect("StaleCloseDisconnects", "stale-close-disconnects", &["stale_generation_inert", "justified_failure", "bounded_ending"],
        "the late close of an older connection ends the newer one at the client", "one close callback for all transports"),
    defect("SessionNeverExpires", "session-never-expires", &["no_residue"],
        "a session without a connection is kept for ever", "timers that are not armed on every way out"),
    defect("PumpLeaks", "pump-leaks", &["no_residue"],
        "the task that fills a stream's log outlives its session", "tasks that are spawned and forgotten"),
    defect("FencedConnectionKept", "fenced-connection-kept", &["no_residue"],
        "a connection that was taken over is kept, and never closed", "old transports that something still refers to"),
    defect("LeaseOutlivesConnection", "lease-outlives-connection", &["no_residue"],
        "a lease is kept after its connection", "state of a connection that is stored with the server"),
    defect("NoBackOff", "no-back-off", &["bounded_work", "no_livelock"],
        "a client tries to connect without a pause", "reconnect loops with zero delay"),
    defect("PingStorm", "ping-storm", &["bounded_work"],
        "a quiet peer is pinged every 2 ms", "intervals in the wrong unit"),
    defect("RetentionUnbounded", "retention-unbounded", &["bounded_memory"],
        "a stream keeps all its numbers", "replay buffers without a limit"),
    defect("PanicsBehindRetention", "panics-behind-retention", &["no_panic"],
        "a server is certain that what a client asks for is kept", "index arithmetic on trimmed buffers"),
    defect("SpinsWhileWaiting", "spins-while-waiting", &["no_livelock"],
        "a client waits for its next attempt by asking for the time again and again", "busy loops around a poll"),
    defect("UnseededJitter", "unseeded-jitter", &["same_digest"],
        "the jitter of a pause comes from the process, not from the environment", "hash maps and generators that are seeded by the process"),
];

const OURS: &str = "protocols::counter";

/// The rules that the protocol keeps.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("counter.resume-from-last-seen", "a stream is resumed after the last number that its user was given", OURS),
    rule("counter.pull-by-position", "a sender takes numbers from the log by position: catching up and going on live are one loop", OURS),
    rule("counter.gap-is-told", "numbers that are no longer kept fail their stream, by name, and no other stream", OURS),
    rule("counter.ends-once", "a stream ends once, with a reason that stays", OURS),
    rule("counter.newest-ticket-wins", "the greatest ticket has the session; older connections are closed, and inert", OURS),
    rule("counter.late-close-is-inert", "the end of a connection detaches it from its session only if it is attached", OURS),
    rule("counter.silence-is-death", "8 s of silence bring a ping, 8 s more end the connection, on both sides", OURS),
    rule("counter.recovery-deadline", "a client tries to recover for 25 s, then everything that waits fails", OURS),
    rule("counter.attempt-timeout", "one attempt takes 5 s at most", OURS),
    rule("counter.back-off", "attempts back off from 50 ms to 1 s, with jitter", OURS),
    rule("counter.session-lifetime", "a session without a connection is kept for 30 s", OURS),
    rule("counter.session-unknown", "a session that is not there is refused by name, and what was in it fails", OURS),
    rule("counter.closed-retention", "a stream is kept for 30 s after its end", OURS),
    rule("counter.add-once", "an add takes effect at most once for its id, in the order of issue, and is told its first outcome", OURS),
    rule("counter.calls-by-class", "a peek fails with its connection after it was sent, a lease at once; an add is sent again", OURS),
    rule("counter.strict-lines", "what is not a line of the protocol ends the connection", OURS),
    rule("counter.neighbours", "what happens to one stream, session or connection does not touch another", OURS),
    rule("counter.virtual-time", "no deadline depends on the wall clock", OURS),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_the_defaults_of_the_product() {
        let limits = Limits::default().over(LIMITS);
        assert_eq!(client_limits(&limits), ClientLimits::default());
        assert_eq!(server_limits(&limits), ServerLimits::default());
        assert!(
            LIMITS
                .iter()
                .all(|limit| limit.default.same_kind(&limit.least) && limit.least <= limit.default)
        );
    }
}
