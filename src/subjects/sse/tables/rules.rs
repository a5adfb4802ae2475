//! The ledger of `sse`.

use crate::subject::Rule;
use crate::subject::tables::rule;

/// The rules. "facts" are the rules and windows of the branch of execd that resumes streams.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("sse.positions", "a position is the place of an event in the log of its command, given by the append", "facts, A"),
    rule("sse.one-loop", "the past and the present of a stream are one loop that reads by position", "facts, B and B'"),
    rule("sse.ending", "the ending is an event of the log, and always the last; a command has ended when it is there", "facts, C"),
    rule("sse.incomplete", "a stream that ends without the ending is an incomplete answer, and never a success", "facts, C"),
    rule("sse.retention", "a log is kept for 300 s after the ending; before that, its newest 8 MiB and 65,536 events", "facts, D and E"),
    rule("sse.gap", "lost events are reported with their exact range, before the events that follow", "facts, E"),
    rule("sse.early-output", "output before the first stream is in the log", "facts, F"),
    rule("sse.start-once", "a repeated start with the same id finds the command; a server that does not know an earlier attempt refuses it", "facts, G"),
    rule("sse.takeover", "a client replaces its own stream at once, and that of another client after 10 s without progress; otherwise it is refused with the time to wait", "facts, H and I"),
    rule("sse.session-commands", "a command of a shell session ends with its stream, and with its session", "derived from facts, H"),
    rule("sse.fence", "what an older stream does later has no effect", "facts, I"),
    rule("sse.heartbeat", "each stream carries something at least every 3 s", "facts, H"),
    rule("sse.slow-reader", "a command waits for no reader, unless the operator sets how long", "facts, H"),
    rule("sse.write-deadline", "a connection that takes no byte for 30 s is closed", "facts, H"),
    rule("sse.cursor", "a malformed cursor, one of another run, and one in the future are three refusals before the first byte", "facts, K"),
    rule("sse.delivery", "the cursor of a client moves when its user has the event", "facts, 3.4"),
    rule("sse.contiguous", "a client continues from its cursor if a position is left out", "facts, 3.2"),
    rule("sse.budget", "a client tries for 60 s without progress, with pauses that grow to 5 s", "facts, 3.7"),
];
