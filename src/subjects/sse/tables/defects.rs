//! The seeded bugs of `sse`, and the variants.

use crate::subject::tables::{defect, variant};
use crate::subject::{DefectDoc, VariantDoc};

/// The seeded bugs. "facts, A" is a window of the branch of execd that resumes streams.
#[rustfmt::skip]
pub const DEFECTS: &[DefectDoc] = &[
    // The server.
    defect("IdBeforeLock", "id-before-lock", &["gap_free", "one_ending", "server_keeps_the_protocol", "justified_failure"], "two pipes take positions before they append, and the older one is dropped", "facts, A"),
    defect("SnapshotThenAttach", "snapshot-then-attach", &["gap_free", "one_ending", "server_keeps_the_protocol"], "events between the replay and the attachment are lost", "facts, B"),
    defect("AttachThenFlush", "attach-then-flush", &["server_keeps_the_protocol"], "events between the attachment and the flush come early, and twice", "facts, B'"),
    defect("EndedMeansReplayed", "ended-means-replayed", &["server_keeps_the_protocol"], "if the command ends during the replay, the stream ends without the rest", "facts, C"),
    defect("FinishedBeforeEnding", "finished-before-ending", &["server_keeps_the_protocol"], "the command counts as finished before its ending is in the log", "facts, C"),
    defect("LogGoneAfterASecond", "log-gone-after-a-second", &["refusal_is_true"], "the log is dropped one second after the ending", "facts, D"),
    defect("OverflowIsSilent", "overflow-is-silent", &["server_keeps_the_protocol"], "lost events are not reported", "facts, E"),
    defect("OutputBeforeStreamUnlogged", "output-before-stream-unlogged", &["server_keeps_the_protocol", "gap_free"], "output before the first stream is ready cannot be replayed", "facts, F"),
    defect("StartRunsTwice", "start-runs-twice", &["at_most_once"], "a repeated start runs the command again", "facts, G"),
    defect("RestartForgetsTheStart", "restart-forgets-the-start", &["at_most_once"], "a repeated start runs the command again on a restarted server", "derived from facts, G"),
    defect("CommandDiesWithConnection", "command-dies-with-connection", &["command_lives_on"], "the end of a connection ends the command", "facts, G"),
    defect("StuckStreamStays", "stuck-stream-stays", &["conflict_is_true"], "a stream without progress is never replaced", "facts, H"),
    defect("NoWriteDeadline", "no-write-deadline", &["no_residue"], "a connection may be blocked for ever", "facts, H"),
    defect("SlowReaderHoldsCommand", "slow-reader-holds-command", &["producer_is_not_delayed"], "a slow reader delays its command", "facts, H"),
    defect("NoHeartbeatAfterResume", "no-heartbeat-after-resume", &["justified_failure"], "a resumed stream sends no sign of life", "facts, H"),
    defect("LoserEndsCleanly", "loser-ends-cleanly", &["server_keeps_the_protocol"], "a stream that is replaced ends like a complete one", "facts, I"),
    defect("NewestAlwaysWins", "newest-always-wins", &["takeover_is_due", "conflict_is_true"], "two clients take the stream from each other for ever", "facts, I"),
    defect("StaleCloseDetaches", "stale-close-detaches", &["stale_close_is_inert"], "the late end of an old connection ends the new stream", "facts, I"),
    defect("ForgottenLogLeaks", "forgotten-log-leaks", &["no_residue", "bounded_memory"], "a forgotten log stays in memory", "facts, J"),
    defect("GarbageCursorIsZero", "garbage-cursor-is-zero", &["cursor_is_checked"], "a malformed cursor repeats everything", "facts, K"),
    defect("FutureCursorAccepted", "future-cursor-accepted", &["cursor_is_checked"], "a cursor in the future skips events", "facts, K"),
    defect("EpochIgnored", "epoch-ignored", &["cursor_is_checked", "gap_free"], "a cursor of another run is accepted", "facts, K"),
    defect("BlankLinesDropped", "blank-lines-dropped", &["gap_free"], "empty lines are not sent", "facts, 1.5"),
    defect("EndingBeforeOutput", "ending-before-output", &["one_ending"], "the ending is appended before the last output", "facts, C"),
    defect("CommandsUnbounded", "commands-unbounded", &["commands_are_bounded"], "any number of commands may run", "facts, J"),
    defect("LossEndsHold", "loss-ends-hold", &["hold_is_lossless"], "a command that waits for its reader goes on when the connection is lost", "derived from facts, H"),
    defect("BuffersCountAsRead", "buffers-count-as-read", &["hold_is_lossless"], "bytes in the buffers of a connection count as received", "derived from facts, H"),
    defect("GapTooLong", "gap-too-long", &["gap_is_exact"], "a gap also covers the oldest event that is there", "derived from facts, E"),
    defect("KilledIsSuccess", "killed-is-success", &["status_is_true"], "the state of a killed command says that it exited with 0", "facts, 3.5"),
    defect("LogsSkipTheRest", "logs-skip-the-rest", &["logs_are_true"], "the cursor after a part of the logs is that of their end", "derived from facts, E"),
    defect("UsedIdIsAccepted", "used-id-is-accepted", &["refusals_are_true"], "a start with a used id finds the command, although it is another request", "derived from facts, G"),
    defect("SweepsWithTheLast", "sweeps-with-the-last", &["server_lets_go"], "a log is kept until the newest log goes", "derived from facts, J"),
    defect("InterruptWakesNobody", "interrupt-wakes-nobody", &["ends_when_asked"], "an interrupt takes effect only when the command prints something", "derived from facts, 3.5"),
    defect("HeartbeatOnlyOnce", "heartbeat-only-once", &["streams_stay"], "a stream sends one sign of life, and no more", "derived from facts, H"),
    defect("LinesAreJoined", "lines-are-joined", &["items_are_lines"], "all lines that arrive together are one event", "derived from facts, 1.5"),
    defect("GraceIsATimeLimit", "grace-is-a-time-limit", &["endings_are_true", "status_is_true"], "a command that is killed after an interrupt is reported as timed out", "derived"),
    defect("EarlyInterruptLost", "early-interrupt-lost", &["ends_when_asked"], "an interrupt during the launch has no effect", "derived"),
    defect("SessionCommandOutlivesStream", "session-command-outlives-stream", &["ends_when_asked"], "a command of a session does not end with its stream", "derived"),
    defect("LostStreamFreesTheSession", "lost-stream-frees-the-session", &["sessions_run_one"], "a session runs another command while one whose stream is lost has not ended", "derived"),
    defect("SplitsCharacters", "splits-characters", &["items_are_lines"], "a line that is longer than an event is split inside a character", "derived"),
    defect("DeletedSessionRunsOn", "deleted-session-runs-on", &["ends_when_asked"], "the command of a deleted session runs on", "derived"),
    defect("HoldNeverEnds", "hold-never-ends", &["producer_is_not_delayed"], "the time that output waits for its client begins again whenever it is over", "derived from facts, H"),
    defect("TimeLimitDelaysTheKill", "time-limit-delays-the-kill", &["ends_when_asked"], "a command with a time limit is not killed after an interrupt", "derived"),
    defect("OlderAttemptSupersedes", "older-attempt-supersedes", &["takeover_is_due"], "a delayed older attempt of a client takes its stream back", "derived from facts, I"),
    defect("TookIsInSeconds", "took-is-in-seconds", &["endings_are_true"], "the time that a command took is sent in seconds instead of milliseconds", "derived"),
    defect("BatchSharesAnId", "batch-shares-an-id", &["positions_follow"], "a standard client gets the id of the last event with all events that are sent together", "derived"),
    // The requests, for server and client.
    defect("ListsAreObjects", "lists-are-objects", &["refusals_are_true"], "a start whose body is a list is accepted", "derived"),
    defect("ZerosAreText", "zeros-are-text", &["refusals_are_true"], "a start whose texts contain a zero character is accepted", "derived"),
    defect("AnyNameIsAVariable", "any-name-is-a-variable", &["refusals_are_true"], "a start with a variable whose name contains `=` is accepted", "derived"),
    defect("NegativeLimitIsNone", "negative-limit-is-none", &["refusals_are_true"], "a start with a negative time limit is accepted", "derived"),
    defect("OldEndForgetsTheLoss", "old-end-forgets-the-loss", &["hold_is_lossless"], "the late end of a replaced stream ends the hold for the newer one, which is lost", "derived from facts, I"),
    defect("EndIsTheStart", "end-is-the-start", &["status_is_true"], "the state of an ended command has its start as its end", "derived"),
    defect("IdleSessionIsUnknown", "idle-session-is-unknown", &["refusals_are_true"], "the interrupt of a session that runs nothing is refused as one of an unknown command", "derived"),
    // The client.
    defect("EndOfStreamIsSuccess", "end-of-stream-is-success", &["success_has_an_ending"], "a stream that ends without the ending counts as complete", "facts, C"),
    defect("NotFoundIsSuccess", "not-found-is-success", &["success_has_an_ending"], "404 on a resume counts as complete", "facts, D"),
    defect("CursorBeforeDelivery", "cursor-before-delivery", &["gap_free", "one_ending", "positions_follow"], "the cursor moves when an event arrives, before the user has it", "facts, 3.4"),
    defect("CursorForgottenWithoutEvents", "cursor-forgotten-without-events", &["gap_free", "positions_follow"], "two losses without an event in between forget the cursor", "facts, 3.4"),
    defect("HolesIgnored", "holes-ignored", &["gap_free", "one_ending", "positions_follow"], "a position that is left out is not noticed", "facts, 3.2"),
    defect("DuplicatesDelivered", "duplicates-delivered", &["gap_free", "positions_follow"], "a repeated event is returned again", "facts, 3.2"),
    defect("GapNotReturned", "gap-not-returned", &["gap_free", "one_ending", "positions_follow"], "a gap moves the cursor, and the user does not learn of it", "facts, E"),
    defect("RunNotChecked", "run-not-checked", &["gap_free"], "the events of another run continue the stream", "facts, 3.6"),
    defect("BudgetNeverRefilled", "budget-never-refilled", &["justified_failure"], "the budget counts all losses together, despite progress", "facts, 3.7"),
    defect("BudgetRefilledByConnecting", "budget-refilled-by-connecting", &["bounded_ending"], "a server that accepts and closes is tried for ever", "facts, 3.7"),
    defect("NoPauses", "no-pauses", &["bounded_work"], "the attempts follow each other at once", "facts, 3.7"),
    defect("PausesDoNotGrow", "pauses-do-not-grow", &["pauses_grow"], "all pauses between attempts are short", "derived from facts, 3.7"),
    defect("RequestsAreRushed", "requests-are-rushed", &["justified_failure"], "a single request has no time for its answer", "derived from facts, 3.7"),
    defect("ConflictIsFatal", "conflict-is-fatal", &["conflict_is_true"], "409 is a failure, although the other stream may be dead", "facts, H"),
    defect("SilenceIsTolerated", "silence-is-tolerated", &["bounded_ending"], "a dead connection is never given up", "facts, 3.9"),
    defect("StartWithoutId", "start-without-id", &["at_most_once"], "a repeated start runs the command again", "facts, G"),
    defect("AttemptsNotNumbered", "attempts-not-numbered", &["justified_failure"], "a new attempt does not replace the stream of the one before", "facts, H"),
    defect("OnlyEventsAreSigns", "only-events-are-signs", &["expect"], "a part of an event is no sign of life of a connection", "derived from facts, 3.9"),
    defect("AgeCountsFromTheLast", "age-counts-from-the-last", &["at_most_once"], "the age of a repeated start counts from the last attempt", "derived from facts, G"),
    defect("AgeCountsFromTheLoss", "age-counts-from-the-loss", &["at_most_once"], "the age of a repeated start counts from the loss of its answer", "derived from facts, G"),
    defect("LogsForgetTheRun", "logs-forget-the-run", &["logs_are_true"], "the cursor after a page of logs names no run, so the next page may be of another run", "derived from facts, 3.6"),
    defect("ParameterBeforeHeader", "parameter-before-header", &["cursor_is_checked", "expect"], "the first position in the address counts more than the last event that arrived", "the standard of server-sent events"),
    defect("CursorFreesNothing", "cursor-frees-nothing", &["expect"], "a command that waits for its client goes on waiting when the client comes back with all events", "derived"),
];

/// The seeded bugs with which a server behaves as the branch of execd does. Its leak (J) is left out:
/// it breaks every run, and hides the losses.
const OF_EXECD: &[&str] = &[
    "id-before-lock",
    "attach-then-flush",
    "ended-means-replayed",
    "finished-before-ending",
    "log-gone-after-a-second",
    "overflow-is-silent",
    "output-before-stream-unlogged",
    "start-runs-twice",
    "restart-forgets-the-start",
    "stuck-stream-stays",
    "no-write-deadline",
    "slow-reader-holds-command",
    "no-heartbeat-after-resume",
    "loser-ends-cleanly",
    "garbage-cursor-is-zero",
    "future-cursor-accepted",
    "epoch-ignored",
];

/// The versions.
#[rustfmt::skip]
pub const VARIANTS: &[VariantDoc] = &[
    variant("execd", OF_EXECD, "the branch of execd that resumes streams, and this client as it talks to an original execd"),
    variant("reknit", &[], "this crate: no window, and a gap is reported"),
];

/// Whether a run has all seeded bugs of the variant `execd`.
pub(in crate::subjects::sse) fn is_execd(defects: &[String]) -> bool {
    OF_EXECD.iter().all(|bug| defects.iter().any(|defect| defect == bug))
}
