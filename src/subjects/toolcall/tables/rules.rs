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
    rule("toolcall.live-owner-kept", "while the owner of a call has any live connection, nothing fails the call as disconnected; silence is not an absence", CHANGE),
    rule("toolcall.list-of-connections", "a client has a list of live connections; the end of one, the newest or another, says nothing about the others", LATER),
    rule("toolcall.grace", "a call whose owner is gone is failed 30 s after the end of the last connection, once", CHANGE),
    rule("toolcall.grace-pinned", "the grace is counted from the last loss: neither a call that begins later nor anything else makes it begin anew", "facts, 42"),
    rule("toolcall.waits", "a client is waited for only while something depends on it, and nobody who holds the channel is", "facts, 3 and G8"),
    rule("toolcall.return-keeps", "a client that comes back within the grace and names the channel keeps its calls and its place", CHANGE),
    rule("toolcall.rollback", "a handshake that comes to nothing leaves the grace as it was", "facts, 30"),
    rule("toolcall.release", "what a user lets go of is given up at once, or when its client comes back without naming it; nothing else is", LATER),
    rule("toolcall.dead-peer", "5 s of inbound silence bring a ping, 20 s more end the connection, on both sides", "facts, 24 and B.5"),
    rule("toolcall.unknown-owner", "of a client that this host has never seen nothing is known, and its calls are not failed", "facts, 5"),
    rule("toolcall.clocks", "no deadline depends on a wall clock", "facts, 26"),
    rule("toolcall.retention", "a client that nothing depends on is remembered for 300 s", "facts, B.3"),
    // -- calls
    rule("toolcall.client-tools", "an agent calls a tool, a window that offers it runs it, and the result goes back to the agent", "facts, B.1"),
    rule("toolcall.owner-can-run", "a call is given to a client that is active, offers the tool, is connected and looks at the chat; the one that began the turn first", "facts, 4, 7 and 8"),
    rule("toolcall.new-id", "a window that is loaded again is another client", "facts, 4"),
    rule("toolcall.retry-hint", "the model is told to try again only where another client that is here offers the tool", "facts, 41"),
    rule("toolcall.once-over", "a call that is over stays as it is: a late result is refused, and its client hears so", "facts, 6 and 32"),
    rule("toolcall.permission", "whoever waits for a permission of a call that is over is not kept waiting", "facts, 6"),
    rule("toolcall.no-work-for-what-is-over", "no tool begins for a call that is over, or about to be failed", "facts, 33"),
    rule("toolcall.runner", "a tool is stopped when its call is over; one that breaks down has failed", "facts, 7 and 33"),
    // -- channels
    rule("toolcall.replay", "a client that comes back is told what it missed, in order, and nothing twice", "facts, B.4 and 12"),
    rule("toolcall.snapshot", "where that cannot be, it is told how every channel is, as of the answer", "facts, B.4, 13 and 20"),
    rule("toolcall.ring", "the newest 1000 actions are kept; what is one older is not replayed, and what has not happened is not either", "facts, 35 and 36"),
    rule("toolcall.baseline", "actions are replayed only upon a state that the client was given", "facts, 10"),
    rule("toolcall.missing", "a channel that is gone is said to be missing, and spoils the replay of no other", "facts, 11 and 37"),
    rule("toolcall.cursor-each", "each connection has a cursor of its own: falling back to an older one leaves no hole", "facts, 23"),
    rule("toolcall.holds", "a channel is held by whoever looks at it, over whatever connection, once", "facts, 14 and 15"),
    rule("toolcall.restore", "a restore takes 10 s at most; then the channel counts as missing", "facts, 29"),
    rule("toolcall.epoch", "another life of the host takes nobody for one of its own clients, and a client that was forgotten starts over", "facts, 17 and 35"),
    // -- actions and requests
    rule("toolcall.echo", "an action that took effect is told to everybody who looks, its origin included", "facts, B.1"),
    rule("toolcall.rejection", "an action that is refused is told to its client, which takes it back", "facts, 32"),
    rule("toolcall.authority", "a client does not do what only the host does", "facts, 21"),
    rule("toolcall.repeat", "an action whose echo did not come is said again, and takes effect once", "facts, 25"),
    rule("toolcall.turn-once", "a turn begins once, whatever is forgotten of it", "facts, 25"),
    rule("toolcall.in-order", "actions and requests are said in the order in which they were asked for", "facts, 40"),
    rule("toolcall.held", "what is asked for without a connection waits for one", "facts, B.5"),
    rule("toolcall.requests", "a request in flight at a cut fails at once; nobody knows whether the host did it", "facts, B.5"),
    rule("toolcall.questions", "a question to a client is over with the connection over which it was asked, or after 30 s", "facts, 38"),
    // -- peers that say anything
    rule("toolcall.hostile-client", "what is not a message, or out of place, is answered with an error; who says what is not a notification, or too much, loses its connection; nobody else notices", "facts, B.1"),
    rule("toolcall.hostile-host", "a client gives up a connection over which it is told what is not a message, keeps within its limits, and tries again", "facts, B.5"),
    // -- the client
    rule("toolcall.attempts", "attempts back off from 1 s to 30 s, and there is no last one; a loss in the middle of a handshake is one", "facts, 18 and 19"),
    rule("toolcall.tokens", "a host that does not know the client is handed its tokens again, before anything else", "facts, 17"),
];
