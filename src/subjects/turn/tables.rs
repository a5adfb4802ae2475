//! The tables of `turn`: milestones, points, defects, rules. Those of jobs are in
//! [`jobs`](crate::subjects::turn::jobs::tables).
//!
//! The ledger gives the source of each rule. "facts" are the rules of the plugin's code; "#243" is the
//! change that the protocol comes from. Each defect names the real or deduced bug that it reproduces.

use crate::subject::tables::{defect, milestone, point, rule};
use crate::subject::{DefectDoc, MilestoneDoc, PointDoc, Rule};

/// The milestones of the product code.
#[rustfmt::skip]
pub const MILESTONES: &[MilestoneDoc] = &[
    milestone("turn.upstream.launched", &["pid"], "a client or the broker started an app-server"),
    milestone("turn.upstream.connected", &["conn"], "a client opened a connection to the broker"),
    milestone("turn.upstream.signalled", &["signal"], "an app-server got a signal, because it had not ended in time"),
    milestone("turn.upstream.ended", &["why"], "a connection to an app-server or to the broker ended, after everything that was received"),
    milestone("turn.client.running", &["held"], "the client learned the id of its turn; `held` notifications had waited for it"),
    milestone("turn.client.interrupting", &["known"], "the client has to interrupt its turn; `known` says whether it knows the turn's id"),
    milestone("turn.client.decided", &["thread", "turn", "verdict"], "the turn has a verdict"),
    milestone("turn.broker.serving", &[], "the app-server is initialized, and the broker admits clients"),
    milestone("turn.broker.accepted", &["conn"], "the broker accepted a connection"),
    milestone("turn.broker.start", &["conn"], "the broker passed a request that starts a turn"),
    milestone("turn.broker.busy", &["conn"], "the broker refused a request as busy"),
    milestone("turn.broker.lost", &["conn", "why"], "a client of the broker disconnected"),
    milestone("turn.broker.cut", &["conn", "why"], "the broker cut off a client"),
    milestone("turn.broker.abandoned", &["answered"], "a turn lost its client"),
    milestone("turn.broker.interrupted", &["turn"], "the broker interrupted a turn that had lost its client"),
    milestone("turn.broker.fenced", &[], "the broker dropped a notification that no connected client may get"),
    milestone("turn.broker.stopping", &[], "the broker was asked to end"),
    milestone("turn.broker.upstream-ended", &["why"], "the app-server of the broker ended"),
    milestone("turn.broker.stale", &[], "a client found the record of a dead broker on its machine"),
    milestone("turn.broker.launched", &["pid"], "a client launched a broker on its machine"),
    milestone("turn.broker.published", &["pid"], "a broker of a client's machine listens, and its record is written"),
    milestone("turn.client.connected", &[], "a client opened a connection, and its app-server is initialized"),
    milestone("turn.client.started", &[], "a client asked for its turn"),
    milestone("turn.client.verdict", &["thread", "turn", "verdict"], "a client has its verdict, and its interrupt, if any, is answered"),
    milestone("turn.client.closed", &[], "a client has closed its connection"),
    milestone("turn.client.cancelled", &[], "the user cancelled a command"),
    milestone("turn.client.not_started", &["why"], "a server refused the turn of a client, or did not get the request"),
    milestone("turn.client.asks_again", &[], "a client asks a busy broker again for its turn"),
    milestone("turn.client.fell_back", &["why"], "a client moves from the broker to an app-server of its own"),
];

/// The points at which a task can be held.
#[rustfmt::skip]
pub const POINTS: &[PointDoc] = &[
    point("turn.broker.received", "a line of a client is read, and not handled yet"),
    point("turn.broker.close.unreported", "a connection of a client has ended, and the broker does not know it yet"),
    point("turn.broker.missing", "a client has found no broker on its machine, and takes the lock of the start next"),
    point("turn.broker.listening", "a broker of a client's machine listens, and its record is not written yet"),
    point("turn.client.connected", "a client is connected, and asks for its thread next"),
    point("turn.client.asked", "a request of a client is over, and the next one follows"),
    point("turn.client.started", "a client has asked for its turn, and has handled no event yet"),
    point("turn.client.verdict", "a turn has its verdict, and its interrupt may be unanswered"),
    point("turn.client.closing", "a client closes its connection next"),
];

/// The seeded bugs.
#[rustfmt::skip]
pub const DEFECTS: &[DefectDoc] = &[
    // The verdict of a turn.
    defect("FailureExitsWithZero", "failure-exits-with-zero", &["status_is_the_verdict"], "a command whose turn failed exits with status 0", "facts, rule 10"),
    defect("IgnoresTheEndOfTheServer", "ignores-the-end-of-the-server", &["no_livelock"], "a turn whose app-server ends gets no verdict", "the plugin 1.0.5; facts, 1"),
    defect("FailsAtEveryEndOfTheServer", "fails-at-every-end-of-the-server", &["failure_is_true"], "a turn whose app-server ends after the final answer fails", "the first version of #243; facts, 4"),
    defect("WaitsAfterAnError", "waits-after-an-error", &["ending_is_prompt"], "an error that the app-server does not retry is only remembered", "issue 698; facts, 6"),
    defect("WaitsForEverForATurnId", "waits-for-ever-for-a-turn-id", &["ending_is_prompt"], "a turn whose start was answered without an id buffers all notifications", "issue 781; facts, 7"),
    defect("RequestAfterTheEnd", "request-after-the-end", &[], "a request after the end of the connection waits for ever", "issue 665; facts, 8"),
    defect("RequestWithoutDeadline", "request-without-deadline", &["ending_is_prompt"], "a request waits for ever for an app-server that does not answer", "the plugin 1.0.5"),
    defect("CloseWithoutDeadline", "close-without-deadline", &["ending_is_prompt"], "closing waits for ever for an app-server that ignores the end of its input", "facts, 38"),
    defect("ExitBeforeTheLastLines", "exit-before-the-last-lines", &["failure_is_true"], "the exit of the app-server decides before its last lines are read", "facts, 22"),
    defect("BadLineLeavesTheChild", "bad-line-leaves-the-child", &["ends_in_order"], "after an unreadable line, the app-server lives on", "facts, 37"),
    defect("EndsAtAnUnreadableLine", "ends-at-an-unreadable-line", &["abandoned_is_interrupted"], "an unreadable line fails the turn", "facts, 37"),
    defect("LastLineIsDropped", "last-line-is-dropped", &["report_counts"], "the last message of an app-server that exits before the end of its line is lost", "derived"),
    defect("CommentsHideTheAnswer", "comments-hide-the-answer", &["answer_is_the_answer"], "an answer that comes only with the end of its turn is lost if the agent has said anything before", "derived"),
    defect("InfersFromAnyMessage", "infers-from-any-message", &["success_is_true", "answer_is_the_answer"], "any complete message counts as the final answer", "rejected in #243"),
    defect("CountsAnEmptyAnswer", "counts-an-empty-answer", &["success_is_true"], "a final answer without text counts", "facts, 31"),
    defect("InfersWhileItemsAreOpen", "infers-while-items-are-open", &["success_is_true"], "the client infers the end although an item of the main thread is open", "facts, 29"),
    defect("NeverTestsAgain", "never-tests-again", &["success_is_true"], "the client does not test again, after the pause, whether work is open", "facts, rule 7"),
    defect("LaterEndReplacesTheVerdict", "later-end-replaces-the-verdict", &["interruption_is_true"], "a later end of the turn replaces the verdict", "facts, 32"),
    defect("ReportsTheLastMessage", "reports-the-last-message", &["answer_is_the_answer"], "the command prints the last message instead of the final answer", "facts, 30"),
    defect("AbandonsWithoutAnInterrupt", "abandons-without-an-interrupt", &["abandoned_is_interrupted"], "a turn that failed by a deadline is not interrupted", "the review of pull request 390; facts, 19"),
    defect("InterruptsOnlyKnownTurns", "interrupts-only-known-turns", &["abandoned_is_interrupted", "cancel_interrupts"], "a turn whose id is not known yet is not interrupted", "the review of pull request 623; facts, 16"),
    defect("GivesUpOnARetriedError", "gives-up-on-a-retried-error", &["failure_is_true"], "an error that the app-server retries fails the turn", "derived from facts, 6"),
    defect("LosesTheReason", "loses-the-reason", &["report_counts"], "the report of a failed turn does not say why it failed", "derived from facts, rule 6"),
    // The threads and turns of one capture.
    defect("AcceptsEveryTurnOfItsThread", "accepts-every-turn-of-its-thread", &["success_is_true"], "the report of an earlier turn on the same thread counts", "facts, P3"),
    defect("AdoptsTheInnerTurn", "adopts-the-inner-turn", &["ending_is_prompt"], "a review takes the id of its inner turn", "codex 0.169.0"),
    defect("RegistersEveryThread", "registers-every-thread", &["failure_is_true"], "every new thread counts as a subagent", "facts, 25"),
    defect("DropsThreadsAnnouncedEarly", "drops-threads-announced-early", &["success_is_true"], "a subagent that is announced before the answer to the start is unknown", "facts, 26"),
    defect("KeepsTheFirstTurnOfASubagent", "keeps-the-first-turn-of-a-subagent", &["success_is_true"], "the second turn of a subagent is invisible", "facts, 27"),
    defect("ForgetsEndedTurns", "forgets-ended-turns", &["failure_is_true"], "the end of a subagent's turn that comes before its start keeps it active", "facts, 28"),
    // The start of a turn.
    defect("RunsAgainAfterALostStart", "runs-again-after-a-lost-start", &["at_most_once", "no_thread_is_left"], "a command whose start request has no answer runs again on another server", "facts, rule 12"),
    defect("RunsAgainBesideItsThread", "runs-again-beside-its-thread", &["no_thread_is_left"], "a command that falls back leaves its thread behind", "facts, 36"),
    defect("RefusalHidesTheTurn", "refusal-hides-the-turn", &["job_is_undisturbed"], "a start that a broker refuses because its app-server has ended counts as refused, although the app-server has reported the turn", "a hunt of reknit"),
    // The broker.
    defect("BrokerOutlivesTheAppServer", "broker-outlives-the-app-server", &["ending_is_prompt", "busy_is_true"], "the broker does not react to the end of its app-server", "the plugin 1.0.5; facts, 2"),
    defect("ShutdownLooksLikeACrash", "shutdown-looks-like-a-crash", &["exit_is_true"], "the broker takes its own shutdown for a crash", "the first version of #243; facts, 3"),
    defect("AnswersWithoutTheAppServer", "answers-without-the-app-server", &["fallback_is_taken"], "the broker answers `initialize` before its app-server has", "issue 665; facts, 8"),
    defect("FastTurnStaysLive", "fast-turn-stays-live", &["busy_is_true"], "a turn that ends in the same chunk as its start keeps the broker busy", "facts, 23"),
    defect("StartOfAGoneClientStaysLive", "start-of-a-gone-client-stays-live", &["abandoned_is_interrupted", "busy_is_true"], "a turn that starts after its client has gone keeps the broker busy", "the review of pull request 563; facts, 20 and 24"),
    defect("TimeoutEndsAReportedTurn", "timeout-ends-a-reported-turn", &["success_is_true"], "the broker interrupts a turn whose start was not answered in time, although the app-server reported the turn", "a hunt of reknit"),
    defect("AbandonedTurnRunsOn", "abandoned-turn-runs-on", &["abandoned_is_interrupted"], "the turn of a client that has gone is not interrupted", "facts, 25"),
    defect("OwnerPerSocket", "owner-per-socket", &["ending_is_prompt"], "notifications go to the client that works now, not to the owner of their turn", "the plugin 1.0.5; facts, 25"),
    defect("InterruptIsBusy", "interrupt-is-busy", &["busy_is_true"], "an interrupt is refused as busy while another request is in flight", "facts, 35"),
    defect("RequestsAreNotCounted", "requests-are-not-counted", &[], "the first answer ends the admission of a client with several requests", "facts, 33"),
    defect("AdmissionEndsWithTheThread", "admission-ends-with-the-thread", &["busy_is_true"], "a client loses its admission between thread and turn", "facts, 36"),
    defect("SharedLineBuffer", "shared-line-buffer", &["abandoned_is_interrupted"], "a line that arrives while a request waits is cut at the wrong place", "facts, 34"),
    defect("WaitsForOpenClients", "waits-for-open-clients", &["exit_is_true"], "the broker ends only when all clients have closed their connections", "facts, 39"),
    defect("IdleClientsAreKept", "idle-clients-are-kept", &["no_residue"], "the connection of a client that vanished without a word and without work is kept for ever", "derived from facts, 39"),
    defect("ForwardsEachInitialize", "forwards-each-initialize", &["refusals_are_true"], "the broker passes each `initialize` to its app-server, which refuses all but the first", "derived from facts, A.5"),
    defect("StartsBesideAnAbandonedTurn", "starts-beside-an-abandoned-turn", &["threads_are_free"], "a turn on the thread of an abandoned turn starts before that one has ended", "derived from facts, 20"),
    defect("BusyEndsWithTheStart", "busy-ends-with-the-start", &["one_client_works"], "the broker admits other clients once the start of a turn is answered", "derived from facts, A.5"),
    defect("IdleCutsTheBusy", "idle-cuts-the-busy", &["interrupts_have_a_cause"], "the broker closes the connection of a client whose turn is quiet", "derived from facts, 39"),
    defect("UnnamedTurnsEndSoon", "unnamed-turns-end-soon", &["interrupts_have_a_cause"], "a turn whose start is answered without an id is soon interrupted, although the app-server names it later", "a hunt of reknit"),
    defect("AbandonedTurnsAreKept", "abandoned-turns-are-kept", &["broker_lets_go"], "the broker never gives up an abandoned turn that does not end", "derived from facts, 20"),
    defect("HeldStartOutlivesItsClient", "held-start-outlives-its-client", &["abandoned_is_interrupted"], "a start that waits for the end of an abandoned turn is sent although its client has gone", "derived"),
    defect("RefusedStartStaysLive", "refused-start-stays-live", &["start_is_prompt"], "a turn whose start the app-server refuses keeps the broker busy", "derived"),
    defect("UnclaimedThreadsAreDropped", "unclaimed-threads-are-dropped", &["reports_are_whole", "report_counts", "failure_is_true"], "the broker drops the news of a thread that it does not know while an abandoned turn winds down", "a hunt of reknit"),
    defect("LateNamesRunOn", "late-names-run-on", &["broker_lets_go"], "a late answer to a start names a turn that has ended, and the broker waits for its end", "a hunt of reknit"),
    defect("LateAnswersClaimNothing", "late-answers-claim-nothing", &["broker_lets_go"], "a late answer to a start names a thread, but the broker does not read the end of its turn, which it holds", "a hunt of reknit"),
    defect("OldEndsTakeTheRoom", "old-ends-take-the-room", &["ending_is_prompt"], "a broker that remembers as many ended turns as it may forgets the newest one", "a hunt of reknit"),
    defect("AdoptedTurnsRunOn", "adopted-turns-run-on", &["ended_is_left_alone"], "a turn that ended before its start timed out counts as running", "derived"),
    defect("RefusedInterruptIsFinal", "refused-interrupt-is-final", &["abandoned_is_interrupted"], "the broker interrupts an abandoned turn only once, also if the app-server refuses that", "derived"),
    // The broker of a client's machine.
    defect("StartWithoutLock", "start-without-lock", &["one_broker_serves"], "each of several clients that start at once starts a broker", "issues 543 and 768; facts, 10"),
    defect("DeadBrokerIsTrusted", "dead-broker-is-trusted", &["fallback_is_taken"], "a client does not check whether the broker of a record is alive, and waits for it", "facts, A.5"),
    defect("BusyBrokerIsReplaced", "busy-broker-is-replaced", &["one_broker_serves"], "a broker that does not answer in time counts as dead", "issues 753 and 768; facts, 11"),
    defect("AnyAccountIsMine", "any-account-is-mine", &["account_is_own"], "a client uses the broker of another account", "issue 369; facts, 21"),
    // The client.
    defect("ListensAfterTheStart", "listens-after-the-start", &["success_is_true"], "notifications that precede the answer to the start are lost", "facts, rule 1"),
    defect("LeavesBeforeTheInterrupt", "leaves-before-the-interrupt", &["abandoned_is_interrupted"], "a client leaves before its interrupt is answered", "facts, 19"),
    defect("PrefersItsOwnServer", "prefers-its-own-server", &["fallback_is_needed"], "a command starts its own app-server although the broker is ready", "derived from facts, rule 12"),
    defect("CancelHasNoDeadline", "cancel-has-no-deadline", &["cancel_is_prompt"], "a cancelled command waits for the end of its turn as long as any other", "derived from facts, 19"),
    defect("SubagentsAreSilent", "subagents-are-silent", &["interrupts_have_a_cause"], "the news of subagents do not count against the silence of a turn", "derived"),
    defect("UnnamedThreadIsLeft", "unnamed-thread-is-left", &["no_thread_is_left"], "a command that is cancelled before its thread has a name leaves the thread behind", "derived"),
    defect("TakesBusyForAFailure", "takes-busy-for-a-failure", &["fallback_is_taken"], "a command that the broker refuses as busy fails", "facts, rule 12"),
    defect("UnmadeChangesListed", "unmade-changes-listed", &["reports_are_whole"], "a report lists changes of files that failed or were not allowed", "derived"),
    defect("ReviewMovesLate", "review-moves-late", &["reports_are_whole", "ending_is_prompt"], "the news of a detached review that precede the answer to its start are lost", "derived"),
    defect("EarlySubagentIsIdle", "early-subagent-is-idle", &["reports_are_whole"], "a subagent whose turn started before an item named its thread does not count as at work", "derived"),
    defect("StoredThreadIsLeft", "stored-thread-is-left", &["no_thread_is_left"], "a command unsubscribes from a thread that it must delete", "derived from facts, rule 12"),
];

/// The ledger.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("turn.handler-first", "the client follows notifications before it sends the start request", "facts, rule 1"),
    rule("turn.buffering", "notifications that precede the answer to the start request wait for it, then pass the filter in order", "facts, rule 2"),
    rule("turn.ownership", "a notification belongs to a turn if its thread is one of the turn's, and its turn is the one that the client follows there", "facts, rule 3"),
    rule("turn.threads", "a turn owns the threads of its subagents, and the thread of its review", "facts, rule 4"),
    rule("turn.explicit", "`turn/completed` of the turn on its main thread is its end", "facts, rule 6"),
    rule("turn.inference", "a final answer with text, no open work, and 250 ms without news are a completed turn", "facts, rule 7"),
    rule("turn.end-of-upstream", "the end of the app-server completes a turn with a final answer and no open work at once, and fails every other turn with a message that names the disconnect; all received lines count first", "#243, rule 8"),
    rule("turn.one-verdict", "the first verdict stands, and each turn gets one in bounded time", "facts, rule 9, and P1"),
    rule("turn.status", "the exit status is 0 if and only if the turn completed", "facts, rule 10"),
    rule("turn.answer", "a command prints the final answer of its main thread, or the review", "facts, rule 11, and P9"),
    rule("turn.fallback", "a command that the broker refused, or that finds no broker, runs on an app-server of its own; no turn runs twice", "facts, rule 12"),
    rule("turn.busy", "the broker refuses a client as busy only while work of another client runs", "facts, A.5, and P5"),
    rule("turn.routing", "a notification goes to the client that started its turn", "derived from P3"),
    rule("turn.abandoned", "the broker interrupts the turn of a client that has gone", "derived from P6"),
    rule("turn.upstream-exit", "the end of the broker's app-server ends the broker with status 1, and its clients learn of it", "#243"),
    rule("turn.shutdown", "an intended end of the broker exits with 0, even if the app-server ends meanwhile", "#243"),
    rule("turn.one-broker", "several clients of a machine that start at once start one broker, and none replaces a broker that lives", "facts, A.5"),
    rule("turn.stale-broker", "a client recognizes the files of a dead broker, also if a stranger has its process id, and starts a new one", "facts, A.5"),
    rule("turn.account", "a client never uses a broker of another account", "facts, A.5"),
    rule("turn.deadlines", "a turn that is silent for too long, or takes too long, is interrupted and fails", "pull request 361"),
];
