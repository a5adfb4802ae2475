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
    rule("exec.resume-session", "after a connection loss, the client resumes its session by its id; the processes keep running and are not restarted", CHANGE),
    rule("exec.one-logical-client", "one logical client spans all its connections; handles, wake-ups and subscriptions stay valid", CHANGE),
    rule("exec.same-process-ids", "processes keep their ids and output across an interruption", "the reconnect change, user impact"),
    // -- Connected
    rule("exec.current-connection", "the client sends new calls over the current connection", CONNECTED),
    rule("exec.in-order", "the client publishes process events in the order of their numbers", CONNECTED),
    rule("exec.own-generation-only", "only a disconnect of the current generation starts a recovery; late events of older generations change nothing", CONNECTED),
    // -- Recovering
    rule("exec.calls-wait", "a call that begins during a recovery waits until the new connection is installed", RECOVERING),
    rule("exec.handles-stay-open", "handles and subscriptions stay open during a recovery", RECOVERING),
    rule("exec.starts-in-flight-first", "the client settles starts in flight before it uses the new connection", RECOVERING),
    rule("exec.ambiguous-start-ended", "after the recovery, the client terminates a process whose start has an unknown outcome; it never adopts the process", RECOVERING),
    rule("exec.learned-session", "the client always resumes its first session; a response with a different session is a permanent error", RECOVERING),
    rule("exec.still-attached-is-retried", "if the server still has the old connection attached, the client retries until the server detached it", RECOVERING),
    rule("exec.consumer-before-handshake", "the client processes notifications during the handshake, so a busy process does not block the response (queue of 128)", RECOVERING),
    rule("exec.catch-up-before-install", "the client catches up on every process by `process/read` before it installs the new connection; a process whose log is full, or whose read is not answered within 10 s although another one is, catches up afterwards, so that it delays no other", RECOVERING),
    // -- Failed
    rule("exec.recovery-deadline", "a recovery ends after exactly 45 s in total; 25 s in the profile `seed`", FAILED),
    rule("exec.permanent-error", "a permanent error ends the recovery at once", FAILED),
    rule("exec.stable-error", "all waiting calls fail with the same error, which never changes", FAILED),
    rule("exec.terminal-failure", "every open process gets one terminal failure; no caller hangs", FAILED),
    // -- recovering process events
    rule("exec.one-sequence", "output, exit and close of a process share one number sequence, from 1", EVENTS),
    rule("exec.early-events-held", "the client holds an early event until all lower numbers are published, also while connected", EVENTS),
    rule("exec.read-after-published", "the client reads a process from the last published event", EVENTS),
    rule("exec.chunks-by-number", "the client inserts retained output by its number", EVENTS),
    rule("exec.exit-and-close-rebuilt", "the client restores exit and close at their numbers, and never an exit before the output that precedes it", EVENTS),
    rule("exec.duplicates-dropped", "the client drops an event that also arrived as a notification", EVENTS),
    rule("exec.gap-ends-one", "if retained output does not fill a gap, the client terminates and fails only that process; the others continue", EVENTS),
    rule("exec.gap-leaves-nothing", "a process that fails because of a gap does not keep running at the server", EVENTS),
    rule("exec.full-next-seq", "an unbounded read returns the next number with exit and close counted", EVENTS),
    rule("exec.closed-readable", "the server keeps a closed process readable for 80 s (30 s in the profile `seed`), counted so that a client that detected a cut late can still read it", EVENTS),
    // -- other details
    rule("exec.detached-lifetime", "the server keeps a session without a connection for 80 s (30 s in the profile `seed`), and checks this at a resume as well", DETAILS),
    rule("exec.sender-under-attach-lock", "the server changes attach, detach and the notification sender under one lock", DETAILS),
    rule("exec.detach-own-only", "a connection that ends detaches only itself", DETAILS),
    rule("exec.still-attached-code", "a separate code, -32010, distinguishes an attached session from a permanent error", DETAILS),
    rule("exec.start-identity", "the cleanup of an older start cannot remove a newer process with the same id", DETAILS),
    rule("exec.no-replay", "the client does not repeat a mutating call that was in flight; a call that begins during the recovery waits", DETAILS),
    // -- lessons of the later history
    rule("exec.no-stealing", "a resume never takes a session from an attached connection; after a resume, the old connection has no more effect", "facts, server session registry"),
    rule("exec.expiry-harms-no-newer", "the timer of an older detach does not end a session that was reattached", "facts, 38"),
    rule("exec.expired-session-killed", "the end of a session kills its processes, including those that are being started", "facts, 32"),
    rule("exec.reads-repeated", "the client repeats a read over the new connection, from its cursor", "facts, client recovery"),
    rule("exec.retried-write-once", "with the limit `client.retry-writes`, the client repeats writes in flight with their ids, in order; each is written once", "facts, 15"),
    rule("exec.stdin-in-order", "accepted standard input arrives in order and exactly once", "facts, I3"),
    rule("exec.transient-read-error", "the client repeats a read after a temporary error; other processes are not affected", "facts, 41"),
    rule("exec.requests-beside-each-other", "a request that has to wait delays no other request, except later writes to the same process", "codex 0.169.0, bugs 1, 5 and 6"),
    rule("exec.reads-beside-each-other", "a blocked read does not block other reads", "facts, 24"),
    rule("exec.dead-peer", "each side sends a ping after 8 s without inbound data, and closes the connection after 8 s more", "facts, 27 and 36"),
    rule("exec.back-off", "attempts back off from 100 ms to 1 s, with jitter; after a connection that brought events they start again, with at most 100 ms", "facts, 17"),
    rule("exec.catch-up-in-pages", "if a catch-up is lost with its connection, the client repeats it in pages and keeps each page that arrives, until a connection is installed", "derived from exec.catch-up-before-install"),
    rule("exec.write-ids-kept", "the server remembers the id of an accepted write until its client cannot repeat the write: until a pong proves that the answer arrived, or a later connection has lasted 60 s", "facts, 44"),
    rule("exec.write-needs-a-reader", "the server accepts no write to a process that has exited or has no open input", "facts, process methods"),
    rule("exec.waiting-requests", "a request that waits delays no other request, except later writes to the same process; at most 4,096 requests and 32 MiB of a connection wait", "facts, 64"),
    rule("exec.shared-sessions", "one host has at most 1,024 of the 2,048 sessions; a full server ends only detached sessions of hosts with more than their share", "facts, server session registry"),
    rule("exec.long-poll-ends", "a disconnect ends a long-poll and detaches the connection at once", "facts, 11"),
    rule("exec.no-lost-wake-up", "an event that arrives while a long-poll starts answers the long-poll", "facts, 54"),
    rule("exec.honest-bounded-read", "a bounded read reports exit and close only after all earlier events", "facts, 55"),
    rule("exec.output-after-exit", "output may follow the exit; the close follows when no process holds the pipes", "facts, wire protocol"),
    rule("exec.left-behind", "a process that a command left in the background, with or without its pipes, lives on after the close, until the server forgets the command", "codex 0.169.0"),
    rule("exec.retention-bounds", "the server retains at most the newest 1 MiB and 50,000 chunks of output of each process", "facts, 19 and 23"),
    rule("exec.back-pressure", "while connected, the server pauses output for a slow reader instead of dropping it; a detach resumes the output, without flow control", "facts, 63"),
    rule("exec.flow-control", "if both sides announce it, the server holds a process until its client has consumed its output, also while no client is attached; nothing is lost, and no other process waits", "an extension of reknit"),
    rule("exec.fair-sending", "a flooding process delays no response and no other process", "facts, 64"),
    rule("exec.late-subscriber", "a late subscriber receives all events from the first; a slow subscriber loses none, as far as the server keeps them", "facts, 8 and 25"),
    rule("exec.live-gap-read", "while connected, the client requests a missing event after 1 s", "facts, 57"),
    rule("exec.reorder-bounds", "the client keeps at most 256 early events and 1 MiB; it reads further events again, without a failure", "facts, 19 to 21"),
    rule("exec.reply-before-close", "a response that arrived before the close is delivered", "facts, 13"),
    rule("exec.dead-candidate", "the client does not install a connection that died before", "facts, 34 and 35"),
    rule("exec.transport-closed-code", "the client treats the error -32000 as the end of its connection, and retries with a backoff", "facts, 56"),
    rule("exec.write-ids-unique", "two clients of one session use different write ids", "facts, 43"),
    rule("exec.sessions-apart", "each session has its own namespace of process ids; sessions do not affect each other", "facts, wire protocol"),
    rule("exec.handshake-order", "a connection begins with initialize, its response and initialized; the server refuses any earlier request", "facts, handshake"),
    rule("exec.malformed-survives", "the server answers an invalid message with -32600 and the id -1, and keeps the connection", "facts, framing"),
    rule("exec.malformed-ends-generation", "a client that receives an invalid message closes the connection and recovers", "facts, framing"),
    rule("exec.unknown-method", "the server answers an unknown method with -32601", "facts, error codes"),
    rule("exec.unexpected-closes", "the server closes a connection after an unknown notification or an unexpected response", "facts, framing"),
    rule("exec.unclaimed-start-ended", "if the caller of a start is dropped, before or after the response, no process remains", "facts, 29 and 48"),
    rule("exec.start-cancelled", "if a process is terminated while it is being started, the server kills it and refuses the start", "facts, 49"),
    rule("exec.terminate-kills", "terminate kills a process and all its children; their output is still delivered", "facts, process methods"),
    // -- files
    rule("exec.file-changes-not-replayed", "a change of files that was in flight at a cut fails; the client does not repeat it", DETAILS),
    rule("exec.file-reads-repeated", "the client repeats a request that only reads files over the new connection", "derived from exec.reads-repeated"),
    rule("exec.file-requests-in-order", "requests of one session for one path are done in their order, also over two connections", "codex 0.169.0, fs"),
    rule("exec.file-watches-end", "a watch for files belongs to its connection, and fails with it", "codex 0.169.0, fs/watchMissing"),
    rule("exec.file-handles-end", "an open file belongs to its connection, and is closed with it", "codex 0.169.0, fs/open"),
    // -- HTTP requests
    rule("exec.body-dies-with-connection", "an HTTP body belongs to the connection of its request, and fails with that connection, at once, on both sides", "facts, HTTP streaming and client recovery"),
    rule("exec.body-during-recovery", "the client sends an HTTP request made during a recovery after the recovery; the earlier loss does not affect it", "facts, 59"),
    rule("exec.body-pieces-in-order", "the pieces of a body are numbered 1, 2, 3, …; the data of the last piece counts, too", "facts, 30"),
    rule("exec.body-honest-end", "a truncated body is distinguishable from a complete one", "facts, 59"),
    rule("exec.response-before-body", "the response to an HTTP request precedes the first piece of its body", "facts, 30"),
    rule("exec.slow-body-fails-alone", "a body fails if more than 256 pieces or 16 MiB wait for its reader; only that body fails", "facts, 30"),
    rule("exec.redirects-followed", "the server follows up to 10 redirects within the deadline of the request, unless the client wants the redirect as its answer", "codex 0.169.0"),
    rule("exec.redirect-method", "after a 301, 302 or 303 a POST becomes a GET without a body; after a 307 or 308 the request stays as it is", "RFC 9110, 15.4"),
    rule("exec.redirect-credentials", "a redirect to another origin does not carry credentials", "RFC 9110, 15.4"),
    rule("exec.whole-body-bounded", "the server refuses a response that is not streamed and has more bytes than the limit", "derived from exec.slow-body-fails-alone"),
    rule("exec.http-deadline", "the deadline of an HTTP request prolongs its call by as much", "derived"),
    rule("exec.http-requests-bounded", "a connection has at most 128 HTTP requests in progress; further ones wait", "derived from exec.fair-sending"),
    rule("exec.http-not-replayed", "an HTTP request that was in flight at a cut fails; the client does not repeat it", DETAILS),
];
