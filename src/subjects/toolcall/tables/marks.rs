//! Milestones and points of `toolcall`.

use crate::subject::tables::{milestone, only, point};
use crate::subject::{MilestoneDoc, PointDoc};

/// The milestones of product code.
#[rustfmt::skip]
pub const MILESTONES: &[MilestoneDoc] = &[
    milestone("toolcall.client.opened", &["generation", "conn", "client"], "a connection is open, and the handshake begins"),
    milestone("toolcall.client.initialized", &["generation"], "the host took a client in, anew"),
    milestone("toolcall.client.replayed", &["generation", "actions"], "a client was told what it had missed"),
    milestone("toolcall.client.reseated", &["generation"], "a client that had missed too much was told how things are"),
    milestone("toolcall.client.connected", &["generation"], "the handshake is over, and everything that was missed is known"),
    milestone("toolcall.client.refused", &["generation", "code"], "a handshake was refused"),
    milestone("toolcall.client.lost", &["generation", "pause"], "a connection is over, or came to nothing; the next attempt is after so many milliseconds"),
    milestone("toolcall.client.closed", &["generation", "why"], "a client is over, until the end of the run"),
    milestone("toolcall.client.gone", &["channel"], "a channel does not exist any more"),
    milestone("toolcall.client.rejected", &["channel", "seq", "why"], "an action was refused, and is taken back"),
    milestone("toolcall.client.repeated", &["seq"], "an action of which the host may not have heard is said again"),
    milestone("toolcall.client.joins-again", &["session"], "a session had forgotten a client that is active in it"),
    milestone("toolcall.client.unanswered", &["method"], "a request waited too long"),
    milestone("toolcall.client.runs", &["call", "tool"], "a client begins to run a call"),
    milestone("toolcall.client.ran", &["call"], "it has a result"),
    milestone("toolcall.client.stopped", &["call"], "a call was over for the host before it had one"),
    only("a puppet", milestone("toolcall.client.malformed", &["generation"], "the host said what is not a message of this protocol")),
    only("a token that is not good", milestone("toolcall.client.token-refused", &["code"], "a token was refused when it was handed over again")),
    milestone("toolcall.host.arriving", &["conn", "client"], "a client said who it is"),
    milestone("toolcall.host.initialized", &["conn", "client"], "a client is here, anew"),
    milestone("toolcall.host.replayed", &["conn", "client", "actions"], "a client is here again, and was told what it had missed"),
    milestone("toolcall.host.reseated", &["conn", "client"], "a client is here again, and was told how things are"),
    milestone("toolcall.host.unknown-client", &["conn", "client"], "nobody knows this client, or it knows another life of the host"),
    milestone("toolcall.host.subscribed", &["conn", "channel"], "a connection is told of a channel from now on"),
    milestone("toolcall.host.restoring", &["channel"], "a channel is being restored"),
    milestone("toolcall.host.restored", &["channel"], "it is in memory again"),
    milestone("toolcall.host.restore-late", &["channel"], "it took too long, and counts as missing"),
    milestone("toolcall.host.told-of-removal", &["conn", "chat"], "a connection that will not hear in the session that a chat of it is gone, and may look at that chat, was told so"),
    milestone("toolcall.host.removed", &["channel"], "a session or a chat is there no more, for it was disposed of; a session goes after its chats"),
    milestone("toolcall.host.evicted", &["channel"], "a chat that nobody holds left memory"),
    milestone("toolcall.host.turn-started", &["chat", "turn"], "a turn began"),
    milestone("toolcall.host.turn-over", &["chat", "turn"], "an agent is done with it"),
    milestone("toolcall.host.call", &["chat", "call", "owner"], "a call began; where its owner has no name, no client can run it"),
    milestone("toolcall.host.call-failed", &["chat", "call", "owner", "away"], "a call was failed, for its owner is away, or does not take part any more"),
    milestone("toolcall.host.deactivated", &["session", "client"], "a client is active in a session no more"),
    milestone("toolcall.host.transport-lost", &["client", "conn"], "a connection ended; its client has others"),
    milestone("toolcall.host.away", &["client", "conn"], "the last connection of a client ended"),
    milestone("toolcall.host.waits", &["client", "channel"], "a client is waited for: something in a channel depends on it, and it does not hold that"),
    milestone("toolcall.host.waits-no-more", &["client", "channel"], "it is back, or too late, or nothing there depends on it any more"),
    milestone("toolcall.host.forgotten", &["client"], "a client was away for so long that it is not remembered"),
    milestone("toolcall.host.repeated", &["client", "seq"], "an action came that had been done, or refused, before"),
    milestone("toolcall.host.rejected", &["client", "channel", "seq", "why"], "an action was refused"),
    milestone("toolcall.host.behind", &["conn"], "a connection was so far behind that what it is owed is not kept"),
    milestone("toolcall.host.lost", &["conn", "why"], "a connection was lost"),
    milestone("toolcall.host.cut", &["conn", "why"], "a connection was given up by the host"),
    milestone("toolcall.host.no-handshake", &["conn"], "a connection took too long to say whose it is"),
    only("a puppet", milestone("toolcall.host.no-websocket", &["conn"], "a connection ended, or took too long, before it was a WebSocket")),
    only("a puppet", milestone("toolcall.host.malformed", &["conn"], "a client said what is not a message")),
    only("a puppet", milestone("toolcall.host.refused-origin", &["conn"], "a browser asked")),
];

/// The points at which the world can hold a task.
#[rustfmt::skip]
pub const POINTS: &[PointDoc] = &[
    point("toolcall.client.opened", "a connection is open, and the client does not know"),
    point("toolcall.client.close.unreported", "a connection is over, and the client does not know"),
    point("toolcall.host.heard", "a frame was read, and nobody has looked at it"),
    point("toolcall.host.close.unreported", "a connection is over, and the host does not know"),
];
