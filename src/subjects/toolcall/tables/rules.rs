//! The rules that `toolcall` implements, each with its constant and its source.

use crate::subject::Rule;
use crate::subject::tables::rule;

/// The description of the grace change of the agent host.
const CHANGE: &str = "the grace change";
/// The results of the versions after it.
const LATER: &str = "facts, B.0 and B.3";

/// The rules.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    // -- who is here
    rule("toolcall.live-owner-kept", "the host does not fail a call as disconnected while the owner has a live connection; a silent client is not absent", CHANGE),
    rule("toolcall.list-of-connections", "the host keeps a list of live connections per client; the end of one, even the newest, does not affect the others", LATER),
    rule("toolcall.grace", "the host fails a call once, 30 s after the last connection of its owner ended", CHANGE),
    rule("toolcall.grace-pinned", "the grace period starts at the last connection loss; a later call or other event does not restart it", "facts, 42"),
    rule("toolcall.waits", "the host waits for a client only while something in a channel depends on it and it is not subscribed to that channel", "facts, 3 and G8"),
    rule("toolcall.return-keeps", "a client that reconnects within the grace period and names the channel keeps its calls and its place", CHANGE),
    rule("toolcall.rollback", "a failed handshake does not change the grace period", "facts, 30"),
    rule("toolcall.release", "the host releases a channel at once when its client unsubscribes, or reconnects without naming it; it releases nothing else", LATER),
    rule("toolcall.dead-peer", "each side sends a ping after 5 s without inbound data, and closes the connection after 20 s more", "facts, 24 and B.5"),
    rule("toolcall.unknown-owner", "the host does not fail the calls of a client that it has never seen", "facts, 5"),
    rule("toolcall.clocks", "no deadline depends on a wall clock", "facts, 26"),
    rule("toolcall.retention", "the host remembers a disconnected client on which nothing depends for 300 s", "facts, B.3"),
    // -- calls
    rule("toolcall.client-tools", "an agent calls a tool, a window that offers the tool runs it, and the agent gets the result", "facts, B.1"),
    rule("toolcall.owner-can-run", "the host assigns a call to an active, connected client that offers the tool and is subscribed to the chat; it prefers the client that began the turn", "facts, 4, 7 and 8"),
    rule("toolcall.new-id", "a reloaded window is a new client", "facts, 4"),
    rule("toolcall.retry-hint", "the host suggests a retry to the model only if another connected client offers the tool", "facts, 41"),
    rule("toolcall.once-over", "a call does not change after its end: the host refuses a late result and notifies its client", "facts, 6 and 32"),
    rule("toolcall.permission", "a wait for the permission of a call ends when the call ends", "facts, 6"),
    rule("toolcall.no-work-for-what-is-over", "no tool starts for a call that has ended or is about to fail", "facts, 33"),
    rule("toolcall.runner", "the client stops a tool when its call ends; a tool that panics fails its call", "facts, 7 and 33"),
    // -- channels
    rule("toolcall.replay", "the host sends a reconnecting client the actions that it missed, in order and each once", "facts, B.4 and 12"),
    rule("toolcall.snapshot", "if a replay is impossible, the host sends a snapshot of every channel, taken at the response", "facts, B.4, 13 and 20"),
    rule("toolcall.ring", "the host keeps the newest 1000 actions; it refuses a replay that needs an older action or begins in the future", "facts, 35 and 36"),
    rule("toolcall.baseline", "the host replays actions only onto a state that the client received", "facts, 10"),
    rule("toolcall.missing", "the host reports a removed channel as missing, and still replays the others", "facts, 11 and 37"),
    rule("toolcall.cursor-each", "each connection has its own cursor, so a fallback to an older connection leaves no gap", "facts, 23"),
    rule("toolcall.holds", "each connection that is subscribed to a channel keeps it loaded, and counts once", "facts, 14 and 15"),
    rule("toolcall.restore", "a restore takes at most 10 s; after that, the channel counts as missing", "facts, 29"),
    rule("toolcall.epoch", "a restarted host does not accept clients of an earlier epoch as known; a forgotten client initializes again", "facts, 17 and 35"),
    // -- actions and requests
    rule("toolcall.echo", "the host sends an action that took effect to all subscribers, including its sender", "facts, B.1"),
    rule("toolcall.states", "the states of the root, sessions, chats and calls show what users, agents and tools did", "facts, B.1"),
    rule("toolcall.view", "a client shows its own actions on top of the confirmed state until the host has answered them", "facts, B.5"),
    rule("toolcall.rejection", "the host reports a refused action to its client, and the client rolls it back", "facts, 32"),
    rule("toolcall.authority", "a client cannot perform actions that are reserved for the host", "facts, 21"),
    rule("toolcall.repeat", "the client repeats an action whose echo did not arrive; the action takes effect once", "facts, 25"),
    rule("toolcall.turn-once", "a turn begins once, even if the host forgot the client that began it", "facts, 25"),
    rule("toolcall.in-order", "the client sends actions and requests in the order in which its user made them", "facts, 40"),
    rule("toolcall.held", "requests and actions without a connection wait for a connection", "facts, B.5"),
    rule("toolcall.requests", "a request in flight at a cut fails at once; its outcome at the host is unknown", "facts, B.5"),
    rule("toolcall.questions", "a request to a client goes over its newest connection, and fails when that connection ends, or after 30 s", "facts, 38"),
    rule("toolcall.refusal", "the host refuses a request, an action or a returning client only for a reason that is true, or because a limit is reached", "facts, B.1"),
    // -- peers that say anything
    rule("toolcall.hostile-client", "the host answers invalid or misplaced messages with an error, and closes a connection after an invalid notification or too much data; other clients are not affected", "facts, B.1"),
    rule("toolcall.hostile-host", "a client that receives an invalid message closes the connection, stays within its limits, and reconnects", "facts, B.5"),
    // -- the client
    rule("toolcall.attempts", "attempts back off from 1 s to 30 s, without a limit on their number; a loss during the handshake counts as a failed attempt", "facts, 18 and 19"),
    rule("toolcall.tokens", "the client sends its tokens again first to a host that does not know it", "facts, 17"),
];
