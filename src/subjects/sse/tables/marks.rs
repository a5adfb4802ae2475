//! The milestones and points of `sse`.

use crate::subject::tables::{milestone, only, point, point_of};
use crate::subject::{MilestoneDoc, PointDoc};

/// The milestones of the product code.
#[rustfmt::skip]
pub const MILESTONES: &[MilestoneDoc] = &[
    milestone("sse.client.attempt", &["attempt", "after"], "a follower opens a connection, to continue after event `after`"),
    milestone("sse.client.connected", &["attempt", "conn"], "a connection of a follower is open"),
    milestone("sse.client.streaming", &["attempt"], "a follower has the head of a stream"),
    milestone("sse.client.started", &["command", "attempt"], "the server has confirmed the start of a command"),
    milestone("sse.client.refused", &["attempt", "status", "code"], "the server refused a request of a follower"),
    milestone("sse.client.lost", &["attempt", "why"], "a follower lost a connection or an attempt"),
    only("cursor-forgotten-without-events", milestone("sse.client.duplicate", &["attempt", "position"], "a follower dropped an event that its user has")),
    milestone("sse.client.gap", &["attempt", "first", "last"], "a follower reports a gap to its user"),
    only("overflow-is-silent", milestone("sse.client.hole", &["attempt", "first", "last"], "a follower missed events that the server had left out without a report")),
    milestone("sse.client.ended", &["attempt", "position"], "a follower has the ending of its command"),
    milestone("sse.client.complete", &["attempt"], "a follower continues after the ending of its command: nothing follows"),
    milestone("sse.client.failed", &["attempt", "why"], "a follower failed for good"),
    milestone("sse.command.started", &["command", "conn"], "the server created a command"),
    milestone("sse.command.start-repeated", &["command"], "a start found a command that the same request had started before"),
    milestone("sse.command.launched", &["command"], "the process of a command runs"),
    milestone("sse.command.held", &["command"], "output waits for the stream for the first time"),
    milestone("sse.command.evicted", &["command", "position"], "a command dropped old output for new output for the first time"),
    milestone("sse.command.interrupted", &["command"], "a client asked a command to end"),
    milestone("sse.command.ended", &["command"], "the ending of a command is in its log"),
    milestone("sse.command.forgotten", &["command"], "the time of a log is over"),
    milestone("sse.command.crowded-out", &["command"], "a log was dropped for lack of room"),
    milestone("sse.server.attached", &["generation", "conn", "after", "next"], "a stream is attached to a command; `next` is the next new event"),
    milestone("sse.server.detached", &["generation", "conn"], "the stream of a command has ended with its connection"),
    milestone("sse.server.late-close", &["generation", "conn"], "a connection has ended whose stream had been replaced before"),
    milestone("sse.server.fenced", &["generation", "conn", "old"], "a stream replaces that of connection `old`"),
    milestone("sse.server.replaced", &["conn"], "the server closes a connection because another stream has its place"),
    milestone("sse.server.stuck", &["conn"], "the server closes a connection that took no bytes for too long"),
    only("a puppet", milestone("sse.server.evicted", &["conn"], "the server closes a connection because another one needs its place")),
    milestone("sse.server.gap", &["command", "first", "last"], "a stream reports a gap"),
    milestone("sse.server.refused-active", &["conn"], "another stream of the command makes progress"),
    milestone("sse.server.refused-superseded", &["conn"], "the same client has made a later request"),
    milestone("sse.server.refused-malformed-cursor", &["conn"], "a cursor is not a cursor"),
    milestone("sse.server.refused-foreign-cursor", &["conn"], "a cursor is one of another run"),
    milestone("sse.server.refused-future-cursor", &["conn"], "a cursor lies in the future"),
    milestone("sse.server.refused-unknown", &["conn", "command"], "the server does not know the command"),
    milestone("sse.server.refused-expired", &["conn"], "the server no longer has the log of the command"),
    milestone("sse.server.refused-busy", &["conn"], "too many commands run"),
    only("a puppet", milestone("sse.server.refused-full", &["conn"], "too many connections serve requests")),
    only("a puppet", milestone("sse.server.refused-unauthorized", &["conn"], "the access token is wrong or missing")),
    milestone("sse.server.refused", &["conn", "code"], "another refusal"),
    milestone("sse.server.slow-head", &["conn"], "the head of a request did not arrive in time"),
    only("a puppet", milestone("sse.server.slow-body", &["conn"], "the body of a request did not arrive in time")),
    only("a puppet", milestone("sse.server.malformed", &["conn"], "the bytes of a connection are not HTTP")),
    milestone("sse.session.created", &["session"], "a shell session exists"),
    milestone("sse.session.runs", &["session", "conn"], "a shell session runs a command"),
    milestone("sse.session.deleted", &["session"], "a shell session was deleted"),
];

/// The points at which a task can be held.
#[rustfmt::skip]
pub const POINTS: &[PointDoc] = &[
    point("sse.client.wait", "a follower waits for the next input"),
    point("sse.client.input", "a follower has handled an input"),
    point("sse.server.started", "a command is created, and its stream is not attached yet"),
    point("sse.server.launched", "a process was launched, and its output is not read yet"),
    point("sse.server.read-output", "output was read from a pipe, and is not in the log yet"),
    point("sse.server.exit-known", "the exit of a process is known, and the ending is not in the log yet"),
    point("sse.server.pull", "a stream takes the next events from the log next"),
    point("sse.server.pull.looked", "a stream found no event; it does not wait for new events yet"),
    point("sse.server.hold.looked", "output has to wait for a stream; its task does not wait for the stream yet"),
    point("sse.server.detach", "a connection has ended, and its stream is not detached yet"),
    point_of("id-before-lock", point("sse.server.id-taken", "output has a position, and is not in the log yet")),
    point_of("snapshot-then-attach", point("sse.server.snapshot-sent", "the past was sent, and the stream is not attached yet")),
    point_of("attach-then-flush", point("sse.server.attached-unflushed", "the stream is attached, and what came meanwhile is not sent yet")),
    point_of("finished-before-ending", point("sse.server.finished", "the command counts as finished, and its ending is not in the log yet")),
];
