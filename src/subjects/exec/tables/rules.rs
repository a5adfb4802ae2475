//! The rules that `exec` implements, each with its constant and its source.

use crate::subject::Rule;
use crate::subject::tables::rule;

/// The description of the reconnect change of codex's exec-server.
const CHANGE: &str = "the reconnect change";
/// Its section on the state Connected.
const CONNECTED: &str = "the reconnect change, Connected";
const RECOVERING: &str = "the reconnect change, Recovering";
const FAILED: &str = "the reconnect change, Failed";
const EVENTS: &str = "the reconnect change, recovering process events";
const DETAILS: &str = "the reconnect change, other details";

/// The rules.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    // -- purpose
    rule("exec.resume-session", "a lost connection resumes its session, by the session's id, and its processes go on: nothing starts anew", CHANGE),
    rule("exec.one-logical-client", "one logical client stays while its connections change; handles, wake-ups and subscriptions stay valid", CHANGE),
    rule("exec.same-process-ids", "after an interruption the processes have the ids and the output that they had", "the reconnect change, user impact"),
    // -- Connected
    rule("exec.current-connection", "new calls use the current connection", CONNECTED),
    rule("exec.in-order", "what processes tell is published in the order of its numbers", CONNECTED),
    rule("exec.own-generation-only", "a disconnect begins a recovery only if it is of the current generation; late events of older ones change nothing", CONNECTED),
    // -- Recovering
    rule("exec.calls-wait", "a call that begins during a recovery waits for the new connection, and never uses one that is half up", RECOVERING),
    rule("exec.handles-stay-open", "handles and subscriptions stay open during a recovery", RECOVERING),
    rule("exec.starts-in-flight-first", "a start that is in flight is settled before the new connection is used", RECOVERING),
    rule("exec.ambiguous-start-ended", "a start whose outcome is not known is ended after the recovery, and never adopted", RECOVERING),
    rule("exec.learned-session", "the session that is resumed is the first one that was learned; another one in the answer is an error for good", RECOVERING),
    rule("exec.still-attached-is-retried", "a server that still has the old connection is asked again, until the detach is done", RECOVERING),
    rule("exec.consumer-before-handshake", "notifications are taken before the handshake ends: a busy process holds no answer up (queue of 128)", RECOVERING),
    rule("exec.catch-up-before-install", "every process has caught up by `process/read` before the new connection is installed", RECOVERING),
    // -- Failed
    rule("exec.recovery-deadline", "a recovery ends after 25 s in all, exactly", FAILED),
    rule("exec.permanent-error", "an error that does not pass ends the recovery at once", FAILED),
    rule("exec.stable-error", "what waits is released with one error, which stays the same", FAILED),
    rule("exec.terminal-failure", "every open process gets one terminal failure, and nothing waits for ever", FAILED),
    // -- recovering process events
    rule("exec.one-sequence", "output, exit and close of a process have one sequence, from 1", EVENTS),
    rule("exec.early-events-held", "an early event is held back until every lower number is published, while connected, too", EVENTS),
    rule("exec.read-after-published", "a process is read after the last event that was published", EVENTS),
    rule("exec.chunks-by-number", "retained output is put in by its number", EVENTS),
    rule("exec.exit-and-close-rebuilt", "exit and close are rebuilt at their numbers; never an exit before all output that precedes it", EVENTS),
    rule("exec.duplicates-dropped", "what came as a notification, too, is dropped", EVENTS),
    rule("exec.gap-ends-one", "where retained output does not fill a gap, that process alone is ended and fails; the others go on", EVENTS),
    rule("exec.gap-leaves-nothing", "the process that fails by a gap does not run on at the server", EVENTS),
    rule("exec.full-next-seq", "an unbounded read tells the full next number, exit and close counted", EVENTS),
    rule("exec.closed-readable", "a closed process is readable for 30 s, counted so that a client that noticed a cut late still finds it", EVENTS),
    // -- other details
    rule("exec.detached-lifetime", "a session without a connection is kept for 30 s, decided at the moment of the resume, too", DETAILS),
    rule("exec.sender-under-attach-lock", "attach, detach and the sender of notifications change under one lock", DETAILS),
    rule("exec.detach-own-only", "a connection that ends detaches only itself", DETAILS),
    rule("exec.still-attached-code", "an attached session is told apart from a permanent error by a code of its own, -32010", DETAILS),
    rule("exec.start-identity", "a cleanup of an older start cannot remove a newer process of the same id", DETAILS),
    rule("exec.no-replay", "a mutating call that was in flight is not replayed; one that begins during the recovery waits", DETAILS),
    // -- lessons of the later history
    rule("exec.no-stealing", "a session is taken from nobody: a resume is a barrier behind which nothing of the old connection happens", "facts, server session registry"),
    rule("exec.expiry-harms-no-newer", "no timer of an older detach ends a session that was attached since", "facts, 38"),
    rule("exec.expired-session-killed", "the end of a session kills its processes, and those that are being started", "facts, 32"),
    rule("exec.reads-repeated", "a read is repeated over the new connection, by its cursor", "facts, client recovery"),
    rule("exec.retried-write-once", "with the limit `client.retry-writes`, a write in flight is sent again under its id, in order, and written once", "facts, 15"),
    rule("exec.stdin-in-order", "what is accepted for the standard input arrives in order, each once", "facts, I3"),
    rule("exec.transient-read-error", "an error of one read that may pass is repeated, and harms nobody", "facts, 41"),
    rule("exec.reads-beside-each-other", "one read that is held does not hold the others", "facts, 24"),
    rule("exec.dead-peer", "8 s of inbound silence bring a ping, 8 s more end the connection, on both sides", "facts, 27 and 36"),
    rule("exec.back-off", "attempts back off from 100 ms to 1 s, with jitter", "facts, 17"),
    rule("exec.long-poll-ends", "a disconnect ends a long-poll, and detaches at once", "facts, 11"),
    rule("exec.no-lost-wake-up", "a long-poll is answered by what comes while it looks", "facts, 54"),
    rule("exec.honest-bounded-read", "a bounded read tells of exit and close only when it has told all before them", "facts, 55"),
    rule("exec.output-after-exit", "output may follow the exit; the close comes when nobody holds the pipes any more", "facts, wire protocol"),
    rule("exec.retention-bounds", "each process keeps 1 MiB and 50,000 chunks of its newest output", "facts, 19 and 23"),
    rule("exec.back-pressure", "while connected, output waits for its reader in the place of being lost; a detach lets it go on", "facts, 63"),
    rule("exec.fair-sending", "a process that floods holds up no answer, and no other process", "facts, 64"),
    rule("exec.late-subscriber", "who subscribes late hears everything from the first event on; who is too slow is told", "facts, 8 and 25"),
    rule("exec.live-gap-read", "a number that stays missing while connected is asked for after 1 s", "facts, 57"),
    rule("exec.reorder-bounds", "early events are bounded (256, 1 MiB); what is beyond is read again, and fails nobody", "facts, 19 to 21"),
    rule("exec.reply-before-close", "an answer that arrived before the close wins over it", "facts, 13"),
    rule("exec.dead-candidate", "a connection that died before it is installed is not installed", "facts, 34 and 35"),
    rule("exec.transport-closed-code", "an answer -32000 is the end of its connection, and met with pauses", "facts, 56"),
    rule("exec.write-ids-unique", "ids of writes of two clients of one session differ", "facts, 43"),
    rule("exec.sessions-apart", "ids of processes are free within each session; sessions do not touch each other", "facts, wire protocol"),
    rule("exec.handshake-order", "initialize, its answer, initialized, and then anything else; anything else before is refused", "facts, handshake"),
    rule("exec.malformed-survives", "a message that is none is answered with -32600 and the id -1, and the connection goes on", "facts, framing"),
    rule("exec.malformed-ends-generation", "a client that hears what is not a message gives the connection up, and recovers", "facts, framing"),
    rule("exec.unknown-method", "an unknown method is answered with -32601", "facts, error codes"),
    rule("exec.unexpected-closes", "an unknown notification, or an answer that nobody asked for, ends a connection of the server's", "facts, framing"),
    rule("exec.unclaimed-start-ended", "a start whose caller went away, before or after its answer came, leaves no process behind", "facts, 29 and 48"),
    rule("exec.start-cancelled", "what is ended while it is being started is killed when it is there, and its start is refused", "facts, 49"),
    rule("exec.terminate-kills", "terminate kills a process and all that it started, and its output is still delivered", "facts, process methods"),
    // -- HTTP requests
    rule("exec.body-dies-with-connection", "an HTTP body belongs to the connection that it was asked for over, and fails with it, at once, at both ends", "facts, HTTP streaming and client recovery"),
    rule("exec.body-during-recovery", "an HTTP request that is asked for during a recovery is sent after it, and has nothing to do with the loss before it", "facts, 59"),
    rule("exec.body-pieces-in-order", "the pieces of a body come as 1, 2, 3, …, and the last one's bytes count, too", "facts, 30"),
    rule("exec.body-honest-end", "a body that breaks off is told apart from one that is complete", "facts, 59"),
    rule("exec.response-before-body", "the answer to an HTTP request comes before the first piece of its body", "facts, 30"),
    rule("exec.slow-body-fails-alone", "a body whose reader lets more than 256 pieces or 16 MiB wait fails, alone", "facts, 30"),
    rule("exec.http-not-replayed", "an HTTP request that was in flight at a cut fails, and is not sent again", DETAILS),
];
