//! Milestones and points of `toolcall`.

use crate::subject::tables::{milestone, only, point};
use crate::subject::{MilestoneDoc, PointDoc};

/// The milestones of product code.
#[rustfmt::skip]
pub const MILESTONES: &[MilestoneDoc] = &[
    milestone("toolcall.client.opened", &["generation", "conn", "client"], "the client opened a connection and started the handshake"),
    milestone("toolcall.client.initialized", &["generation"], "the host accepted the client as a new client"),
    milestone("toolcall.client.replayed", &["generation", "actions"], "the client received a replay of the actions that it missed"),
    milestone("toolcall.client.reseated", &["generation"], "the client received snapshots, because no replay was possible"),
    milestone("toolcall.client.connected", &["generation"], "the handshake completed, and the client is up to date"),
    milestone("toolcall.client.refused", &["generation", "code"], "the host refused the handshake"),
    milestone("toolcall.client.lost", &["generation", "pause"], "a connection ended, or an attempt failed; `pause` is the time until the next attempt, in ms"),
    milestone("toolcall.client.closed", &["generation", "why"], "the client closed permanently"),
    milestone("toolcall.client.gone", &["channel"], "the client learned that a channel no longer exists"),
    milestone("toolcall.client.rejected", &["channel", "seq", "why"], "the host refused an action, and the client rolled it back"),
    milestone("toolcall.client.withdrawn", &["channel", "seq"], "the client withdrew an action that is longer than the host accepts, or that concerns a call of an earlier host"),
    milestone("toolcall.client.repeated", &["seq"], "the client repeated an action that the host may not have received"),
    milestone("toolcall.client.joins-again", &["session"], "the client joined a session again that no longer listed it as active"),
    milestone("toolcall.client.unwanted", &["channel"], "the client received an action of a channel to which it is not subscribed"),
    only("a puppet or `tamper`", milestone("toolcall.client.overtaken", &["channel", "number", "included"], "the client received an action over a connection on which an answer had included it")),
    milestone("toolcall.client.unanswered", &["method"], "a request timed out"),
    milestone("toolcall.client.runs", &["call", "tool"], "the client started to run a call"),
    milestone("toolcall.client.ran", &["call"], "the client has the result of a call"),
    milestone("toolcall.client.stopped", &["call"], "the client stopped a call because the call ended at the host"),
    only("a puppet or `tamper`", milestone("toolcall.client.malformed", &["generation"], "the host sent an invalid message")),
    only("an invalid token", milestone("toolcall.client.token-refused", &["code"], "the host refused a token that the client sent again")),
    milestone("toolcall.host.arriving", &["conn", "client"], "a client sent its id, and its handshake began"),
    milestone("toolcall.host.initialized", &["conn", "client"], "the host accepted a new client"),
    milestone("toolcall.host.replayed", &["conn", "client", "actions"], "a client reconnected, and the host sent a replay of the missed actions"),
    milestone("toolcall.host.reseated", &["conn", "client"], "a client reconnected, and the host sent snapshots"),
    milestone("toolcall.host.unknown-client", &["conn", "client"], "the host does not know this client, or the client knows another epoch of the host"),
    milestone("toolcall.host.subscribed", &["conn", "channel"], "the host subscribed a connection to a channel"),
    milestone("toolcall.host.restoring", &["channel"], "the host started to restore a channel"),
    milestone("toolcall.host.restored", &["channel"], "the host restored a channel"),
    milestone("toolcall.host.restore-late", &["channel"], "the restore of a channel timed out; the channel counts as missing"),
    milestone("toolcall.host.removal-reported", &["conn", "chat"], "the host reported the removal of a chat to a connection that may be subscribed to the chat but not to its session"),
    milestone("toolcall.host.removed", &["channel"], "the host removed a session or a chat that was disposed of; a session is removed after its chats"),
    milestone("toolcall.host.evicted", &["channel"], "the host unloaded a chat without subscribers"),
    milestone("toolcall.host.turn-started", &["chat", "turn"], "a turn began"),
    milestone("toolcall.host.turn-over", &["chat", "turn"], "an agent ended a turn"),
    milestone("toolcall.host.call", &["chat", "call", "owner"], "a call began; an empty `owner` means that no client can run it"),
    milestone("toolcall.host.call-failed", &["chat", "call", "owner", "away"], "the host failed a call because its owner is absent or no longer takes part"),
    milestone("toolcall.host.deactivated", &["session", "client"], "the host removed a client from the active clients of a session"),
    milestone("toolcall.host.asked", &["conn", "client"], "the host sent a request to a client over this connection"),
    milestone("toolcall.host.transport-lost", &["client", "conn"], "a connection ended; its client still has other connections"),
    milestone("toolcall.host.away", &["client", "conn"], "the last connection of a client ended"),
    milestone("toolcall.host.waits", &["client", "channel"], "the host waits for a client on which something in a channel depends, and which is not subscribed to the channel"),
    milestone("toolcall.host.waits-no-more", &["client", "channel"], "the host stopped waiting for a client: it returned, the grace period ended, or nothing in the channel depends on it any more"),
    milestone("toolcall.host.forgotten", &["client"], "the host forgot a client that was absent for too long"),
    milestone("toolcall.host.repeated", &["client", "seq"], "the host received an action that it had already applied or refused"),
    milestone("toolcall.host.rejected", &["client", "channel", "seq", "why"], "an action was refused"),
    milestone("toolcall.host.behind", &["conn"], "a connection was so far behind that its unsent actions are no longer kept"),
    milestone("toolcall.host.lost", &["conn", "why"], "a connection was lost"),
    milestone("toolcall.host.cut", &["conn", "why"], "the host closed a connection"),
    milestone("toolcall.host.no-handshake", &["conn"], "the handshake of a connection timed out"),
    only("a puppet", milestone("toolcall.host.no-websocket", &["conn"], "a connection ended, or timed out, before its WebSocket upgrade")),
    only("a puppet", milestone("toolcall.host.malformed", &["conn"], "a client sent an invalid message")),
    only("a puppet", milestone("toolcall.host.refused-origin", &["conn"], "the server refused a connection with an `Origin` header (from a browser)")),
];

/// The points at which the world can hold a task.
#[rustfmt::skip]
pub const POINTS: &[PointDoc] = &[
    point("toolcall.client.opened", "a connection is open; its task has not reported this to the client yet"),
    point("toolcall.client.close.unreported", "a connection ended; its task has not reported this to the client yet"),
    point("toolcall.host.received", "the host read a frame; it has not processed the frame yet"),
    point("toolcall.host.close.unreported", "a connection ended; its task has not reported this to the host yet"),
];
