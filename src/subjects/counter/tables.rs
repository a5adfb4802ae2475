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
    limit("client.ping-interval", secs(8), millis(100), "time without inbound data before the client sends a ping; the minimum is longer than a round trip"),
    limit("client.pong-deadline", secs(8), millis(100), "time without inbound data after the ping before the connection is closed"),
    limit("client.write-deadline", secs(8), millis(100), "how long a client's write may make no progress before the client closes the connection"),
    limit("client.recovery-deadline", secs(25), millis(0), "how long the client tries to reconnect; 0: it does not try"),
    limit("client.attempt-timeout", secs(5), millis(100), "the timeout of one attempt, from the SYN to the welcome"),
    limit("client.back-off-min", millis(50), millis(1), "the pause after the first failed attempt; it doubles after each further failure"),
    limit("client.back-off-max", secs(1), millis(1), "the maximum pause between two attempts"),
    limit("client.call-wait", secs(45), millis(100), "the timeout of a call, over all connections"),
    limit("client.pending-calls", Count(64), Count(16), "the maximum number of calls that wait for an answer; further calls wait in a queue and are not yet bound to a connection"),
    limit("client.queued-numbers", Count(4096), Count(1024), "the maximum number of numbers of a stream that wait for its user; the minimum is the server's default retention, which may arrive at once"),
    limit("server.ping-interval", secs(8), millis(100), "time without inbound data before the server sends a ping"),
    limit("server.pong-deadline", secs(8), millis(100), "time without inbound data after the ping before the connection is closed"),
    limit("server.write-deadline", secs(8), millis(100), "how long a server's write may make no progress before the server closes the connection"),
    limit("server.hello-deadline", secs(5), millis(100), "how long a new connection may take to send hello"),
    limit("server.session-lifetime", secs(30), millis(1), "how long the server keeps a session without a connection; at the minimum, a lost connection ends its session"),
    limit("server.sessions", Count(1024), Count(8), "the maximum number of sessions"),
    limit("server.streams", Count(64), Count(16), "the maximum number of streams that one session may open in total"),
    limit("server.retained-items", Count(1000), Count(1), "how many of its newest numbers the server retains for a stream; 1: only a client that is one number behind can resume"),
    limit("server.closed-retention", secs(30), millis(1), "how long the server keeps a stream after its end"),
    limit("server.queued-replies", Count(128), Count(65), "the maximum number of replies that wait for a connection; the minimum exceeds the calls that a client has in flight by default"),
    limit("server.longest-lease", secs(10), millis(0), "the longest lease; 0: each lease ends at once"),
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
    milestone("counter.client.recovering", &["generation"], "the client started to connect or reconnect; generation is that of the new connection"),
    milestone("counter.client.connected", &["generation", "conn"], "the client installed a connection"),
    milestone("counter.client.resumed", &["generation", "conn", "streams"], "the client resumed its session"),
    milestone("counter.client.lost", &["generation", "conn", "why"], "the client lost its connection"),
    milestone("counter.client.silent", &["generation", "conn"], "the client closed the connection: the server sent no data for too long"),
    milestone("counter.client.session-lost", &["generation"], "the client lost its session: the server no longer had it"),
    milestone("counter.client.failed-deadline", &["generation"], "the client gave up at its recovery deadline"),
    milestone("counter.client.gap", &["stream", "next", "oldest"], "numbers of a stream are permanently lost"),
    only("a puppet or `tamper`", milestone("counter.client.duplicate", &["stream", "index"], "the client dropped a number that it had already received")),
    milestone("counter.client.unanswered", &[], "a call timed out"),
    only("a user that does not read", milestone("counter.client.overrun", &["stream"], "a stream failed because its user was too slow")),
    milestone("counter.server.attached", &["generation", "conn", "resumed"], "the server attached a connection to a session"),
    milestone("counter.server.fenced", &["generation", "conn"], "a newer connection replaced the attached connection of a session; conn is the newer one"),
    milestone("counter.server.detached", &["generation", "conn"], "the server detached the connection of a session"),
    milestone("counter.server.late-close", &["generation", "conn"], "a connection ended that was no longer attached"),
    milestone("counter.server.left", &["generation", "conn"], "a client left its session"),
    milestone("counter.server.expired", &[], "a session expired: it had no connection for too long"),
    milestone("counter.server.forgotten", &["streams"], "the server forgot streams after their retention time"),
    milestone("counter.server.gap", &["stream", "next", "oldest"], "a client requested a number that is no longer retained"),
    milestone("counter.server.silent", &["conn"], "the server closed a connection: the client sent no data for too long"),
    milestone("counter.server.no-hello", &["conn"], "a connection ended, or timed out, before it sent hello"),
    milestone("counter.server.refused-unknown-session", &["conn"], "a client requested a session that does not exist"),
    milestone("counter.server.stuck", &["conn"], "the server closed a connection: its client read too little"),
    milestone("counter.server.refused-stale-ticket", &["conn"], "the server refused a connection: its session already had a newer one"),
    only("a puppet", milestone("counter.server.refused-full", &["conn"], "the server refused a new session: too many sessions exist")),
    only("a puppet", milestone("counter.server.malformed", &["conn"], "a client sent an invalid line")),
    only("still-attached-refused", milestone("counter.server.refused-still-attached", &["conn"], "the server refused a resume: another connection was attached")),
];

/// The points at which a task can be held.
#[rustfmt::skip]
pub const POINTS: &[PointDoc] = &[
    point("counter.client.install", "the client received the welcome; it has not installed the connection yet"),
    point("counter.server.attach.unlocked", "the server attached a connection and released the lock; it has not written the welcome yet"),
    point("counter.server.detach", "a connection ended; its session has not detached it yet"),
    point("counter.server.made", "a number was produced; it is not in the log yet"),
    point_of("snapshot-then-attach", point("counter.server.watch.copied", "between the copy of the existing numbers and the subscription to new ones")),
    point_of("dedupes-after-unlock", point("counter.server.add.checked", "between the check whether an add took effect and its application")),
];

/// The defects that can be turned on.
#[rustfmt::skip]
pub const DEFECTS: &[DefectDoc] = &[
    defect("EndedForgottenAtOnce", "ended-forgotten-at-once", &["justified_failure", "gap_free"],
        "the server forgets a stream as soon as it has ended", "logs that are dropped when their producer ends"),
    defect("MalformedLineSkipped", "malformed-line-skipped", &["expect"],
        "the server ignores an invalid line and reads on", "parsers that resynchronize"),
    defect("ResumesOneTooLate", "resumes-one-too-late", &["gap_free"],
        "the client resumes one number too late and skips a number", "cursors that one side treats as inclusive and the other as exclusive"),
    defect("ResumesOneTooEarly", "resumes-one-too-early", &["gap_free"],
        "the client resumes one number too early and delivers a number twice", "the same cursor mistake in the other direction"),
    defect("LiveBeforeCatchUp", "live-before-catch-up", &["gap_free"],
        "after a resume, the server sends the newest number before the missed ones", "servers that attach before they replay"),
    defect("ForeignNumber", "foreign-number", &["gap_free", "isolation"],
        "the server looks up a number by its index, but not by its stream", "event stores with one key for all streams"),
    defect("GapSkipped", "gap-skipped", &["gap_free"],
        "the client continues after a gap without an error", "replay buffers that do not report what they dropped"),
    defect("SnapshotThenAttach", "snapshot-then-attach", &["justified_failure", "gap_free"],
        "the server copies existing numbers and subscribes to new ones in two lock sections: it misses numbers in between", "a replay and an attach in two lock sections"),
    defect("ReasonChanges", "reason-changes", &["one_ending"],
        "a stream that is asked again for its end reports the client's current state instead of its first reason", "errors that are derived from the client's current state"),
    defect("EofIsCompletion", "eof-is-completion", &["one_ending"],
        "a stream whose session is lost ends as if it were complete", "clients that treat EOF as the end of the stream"),
    defect("RecoveryNeverGivesUp", "recovery-never-gives-up", &["bounded_ending"],
        "the client never stops its recovery, so waiting calls and streams never end", "retry loops without a deadline"),
    defect("HalfOpenUnnoticed", "half-open-unnoticed", &["bounded_ending"],
        "a silent peer is never treated as dead", "disabled read timeouts, and no pings"),
    defect("LostWakeUp", "lost-wake-up", &["bounded_ending"],
        "a new number wakes only the connection that opened its stream", "handles that are captured at the start and not replaced at a resume"),
    defect("GivesUpAtFirstReset", "gives-up-at-first-reset", &["justified_failure"],
        "a lost connection fails all calls and streams of its client", "clients that return the first transport error to their user"),
    defect("StillAttachedRefused", "still-attached-refused", &["justified_failure"],
        "the server refuses to resume an attached session, and the client treats that as permanent", "servers that detect a dead connection late and answer 409"),
    defect("NoDedupe", "no-dedupe", &["at_most_once"],
        "an add that is retried takes effect again", "retries of requests whose answer was lost"),
    defect("RetriesUnderNewId", "retries-under-new-id", &["at_most_once"],
        "a client retries an add under a new id", "request ids that are generated per attempt instead of per call"),
    defect("DedupesAfterUnlock", "dedupes-after-unlock", &["at_most_once"],
        "the server releases the lock between the check of an id and its application", "a check and an act in two lock sections"),
    defect("GapFailsAll", "gap-fails-all", &["isolation"],
        "a gap in one stream fails all streams of its client", "errors of a stream that end its session"),
    defect("DetachDropsNeighbours", "detach-drops-neighbours", &["isolation", "justified_failure"],
        "when a connection ends, all other sessions are dropped", "cleanup that is not limited to its owner"),
    defect("AddsWaitForLeases", "adds-wait-for-leases", &["isolation"],
        "an add waits until no other client holds a lease", "one lock for all clients"),
    defect("StaleCloseDetaches", "stale-close-detaches", &["stale_generation_inert", "bounded_ending", "justified_failure"],
        "the late close of an older connection detaches the newer one", "close handlers that do not check which connection closed"),
    defect("OldNumbersDelivered", "old-numbers-delivered", &["stale_generation_inert", "gap_free"],
        "the client still processes data of a connection that it closed", "listeners that are not removed from the old transport"),
    defect("StaleCloseDisconnects", "stale-close-disconnects", &["stale_generation_inert", "justified_failure", "bounded_ending"],
        "the late close of an older connection ends the newer one at the client", "one close callback for all transports"),
    defect("SessionNeverExpires", "session-never-expires", &["no_residue"],
        "the server never ends a session without a connection", "timers that some exit paths do not start"),
    defect("PumpLeaks", "pump-leaks", &["no_residue"],
        "the task that fills a stream's log outlives its session", "tasks that are spawned and forgotten"),
    defect("FencedConnectionKept", "fenced-connection-kept", &["no_residue"],
        "the server never closes a connection that a newer one replaced", "old transports that are still referenced"),
    defect("LeaseOutlivesConnection", "lease-outlives-connection", &["no_residue"],
        "the server keeps a lease after its connection ended", "state of a connection that is stored with the server"),
    defect("NoBackOff", "no-back-off", &["bounded_work", "no_livelock"],
        "the client reconnects without a pause", "reconnect loops with zero delay"),
    defect("PingStorm", "ping-storm", &["bounded_work"],
        "a quiet peer gets a ping every 2 ms", "intervals in the wrong unit"),
    defect("RetentionUnbounded", "retention-unbounded", &["bounded_memory"],
        "the server retains all numbers of a stream", "replay buffers without a limit"),
    defect("PanicsBehindRetention", "panics-behind-retention", &["no_panic"],
        "the server assumes that a requested number is retained, and panics otherwise", "index arithmetic on trimmed buffers"),
    defect("PanicsWithoutHello", "panics-without-hello", &["no_panic"],
        "the server assumes that each connection says hello in time, and panics otherwise", "waits that are assumed never to time out"),
    defect("SpinsWhileWaiting", "spins-while-waiting", &["no_livelock"],
        "the client waits for its next attempt in a busy loop", "busy loops around a poll"),
    defect("UnseededJitter", "unseeded-jitter", &["same_digest"],
        "the jitter of a pause is random per process, not drawn from the run's seed", "hash maps and generators that are seeded by the process"),
];

const OURS: &str = "protocols::counter";

/// The rules that the protocol keeps.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("counter.resume-from-last-seen", "the client resumes a stream after the last number that its user received", OURS),
    rule("counter.pull-by-position", "the server sends numbers from the log by position: catch-up and live delivery are one loop", OURS),
    rule("counter.gap-is-reported", "if requested numbers are no longer retained, that stream fails with a gap, and no other stream fails", OURS),
    rule("counter.ends-once", "a stream ends once, with a reason that does not change", OURS),
    rule("counter.newest-ticket-wins", "the connection with the highest ticket owns the session; older connections are closed and have no effect", OURS),
    rule("counter.late-close-is-inert", "the end of a connection detaches it only if it is still attached", OURS),
    rule("counter.silence-is-death", "each side sends a ping after 8 s without data, and closes the connection after 8 s more", OURS),
    rule("counter.recovery-deadline", "the client tries to recover for 25 s; then all waiting calls and streams fail", OURS),
    rule("counter.attempt-timeout", "one attempt takes at most 5 s", OURS),
    rule("counter.back-off", "attempts back off from 50 ms to 1 s, with jitter", OURS),
    rule("counter.session-lifetime", "the server keeps a session without a connection for 30 s", OURS),
    rule("counter.session-unknown", "the server refuses an unknown session explicitly, and its streams and calls fail", OURS),
    rule("counter.closed-retention", "the server keeps a stream for 30 s after its end", OURS),
    rule("counter.add-once", "an add takes effect at most once per id, in the order of issue; a retry gets the first outcome", OURS),
    rule("counter.calls-by-class", "a sent peek fails with its connection, a lease fails at once, and the client repeats an add", OURS),
    rule("counter.strict-lines", "an invalid line ends the connection", OURS),
    rule("counter.neighbours", "a failure of one stream, session or connection does not affect another", OURS),
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
