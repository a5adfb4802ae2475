//! Milestones and points of `exec`.

use crate::subject::{MilestoneDoc, PointDoc};

const fn milestone(name: &'static str, fields: &'static [&'static str], doc: &'static str) -> MilestoneDoc {
    MilestoneDoc { name, fields, doc, only: None }
}

const fn only(by: &'static str, milestone: MilestoneDoc) -> MilestoneDoc {
    MilestoneDoc { only: Some(by), ..milestone }
}

/// What product code says.
#[rustfmt::skip]
pub const MILESTONES: &[MilestoneDoc] = &[
    milestone("exec.client.recovering", &["generation"], "a client has no connection, and tries to get one; generation is the one it would be"),
    milestone("exec.client.attempt-failed", &["generation", "conn", "why"], "an attempt came to nothing"),
    milestone("exec.client.still-attached", &["generation", "conn"], "the server still had another connection"),
    milestone("exec.client.initialized", &["generation", "conn", "processes"], "the handshake is over; so many processes have to catch up"),
    milestone("exec.client.caught-up", &["generation", "conn"], "all of them have"),
    milestone("exec.client.connected", &["generation", "conn"], "a client installed a connection"),
    milestone("exec.client.sent", &["generation", "conn", "method"], "a call of the user's was handed to a connection"),
    milestone("exec.client.lost", &["generation", "conn", "why"], "a client lost its connection"),
    milestone("exec.client.heard", &["conn", "id"], "the answer to a request was read from a connection"),
    milestone("exec.client.cut-off", &["conn", "id", "method"], "a call was in flight when its connection was given up"),
    milestone("exec.client.repeated", &["method"], "a call that was in flight at a cut is sent again"),
    milestone("exec.client.start-ambiguous", &["process"], "a start was in flight at a cut: whatever it started is ended"),
    milestone("exec.client.ended", &["process"], "what was to be ended is"),
    milestone("exec.client.failed-deadline", &["generation"], "a client gave up at its recovery deadline"),
    milestone("exec.client.failed-permanent", &["generation", "why"], "a client gave up at an error that does not pass"),
    milestone("exec.client.gap", &["process", "next", "last"], "events of a process are missing for good"),
    milestone("exec.client.live-gap", &["process"], "a number was missing for too long while connected, and is asked for"),
    milestone("exec.client.process-failed", &["process", "why"], "a process failed, alone"),
    milestone("exec.client.read-refused", &["process", "code"], "a catch-up was refused"),
    milestone("exec.client.reorder-overflow", &["process", "seq"], "an early event had no room, and will be read"),
    milestone("exec.client.late-message", &["generation"], "a message came of a generation that is not the current one"),
    milestone("exec.client.late-close", &["generation"], "a generation ended that is not the current one"),
    milestone("exec.client.unanswered", &["method"], "a call waited too long"),
    milestone("exec.client.body-failed", &["body", "why"], "an HTTP body ended before its end"),
    only("http-body-before-response", milestone("exec.client.body-early", &["body", "seq"], "a piece of an HTTP body came before its answer")),
    milestone("exec.server.attached", &["conn", "resumed"], "a connection was attached to a session"),
    milestone("exec.server.detached", &["conn"], "the attached connection of a session is over"),
    milestone("exec.server.expired", &[], "a session was without a connection for too long"),
    milestone("exec.server.refused-still-attached", &["conn"], "a resume was refused, for another connection was attached"),
    milestone("exec.server.refused-unknown-session", &["conn"], "a resume was refused, for there is no such session"),
    milestone("exec.server.silent", &["conn"], "a client was silent for too long"),
    milestone("exec.server.stuck", &["conn"], "a client read nothing for too long"),
    milestone("exec.server.no-handshake", &["conn"], "a connection ended, or took too long, before its handshake was over"),
    milestone("exec.process.started", &["process"], "a process runs"),
    milestone("exec.process.start-failed", &["process"], "a process could not be launched"),
    milestone("exec.process.start-cancelled", &["process"], "a process was launched that nobody wants any more, and killed"),
    milestone("exec.process.paused", &["process"], "the output of a process waits for somebody to take it"),
    milestone("exec.process.evicted", &["process", "seq"], "output was let go that nobody may have taken"),
    milestone("exec.process.exited", &["process", "code", "seq"], "a process exited"),
    milestone("exec.process.closed", &["process", "seq"], "a process exited, and its output has ended"),
    milestone("exec.process.forgotten", &["processes"], "closed processes are readable no more"),
    milestone("exec.http.responded", &["status"], "an HTTP request that a client had sent from the server was answered"),
    milestone("exec.http.failed", &[], "it was not answered"),
    milestone("exec.http.cut", &["seq"], "the body of its answer ended before its end"),
    only("a puppet", milestone("exec.server.malformed", &["conn"], "a client sent what is no message")),
    only("a puppet", milestone("exec.server.broke-protocol", &["conn"], "a client sent what ends its connection")),
    only("a puppet", milestone("exec.server.refused-full", &["conn"], "there were too many sessions")),
    only("a puppet", milestone("exec.server.refused-origin", &["conn"], "a browser asked")),
];

const fn point(name: &'static str, doc: &'static str) -> PointDoc {
    PointDoc { name, doc, defect: None }
}

const fn of(defect: &'static str, point: PointDoc) -> PointDoc {
    PointDoc { defect: Some(defect), ..point }
}

/// Where a task can be held.
#[rustfmt::skip]
pub const POINTS: &[PointDoc] = &[
    point("exec.client.opened", "a connection is open, and nothing was said"),
    point("exec.client.install", "all processes have caught up, and the connection is not installed"),
    point("exec.client.close.unreported", "a generation is over, and has not reported it"),
    point("exec.client.start.unclaimed", "a start was answered, and its caller does not have it yet"),
    point("exec.server.attach.unlocked", "a connection is attached, the lock is released, and the answer is not written"),
    point("exec.server.detach", "a connection is over, and its session does not know yet"),
    point("exec.server.detach.unlocked", "a connection was detached, and the lock is released"),
    point("exec.server.launched", "a process was launched, and its session does not know yet"),
    point("exec.server.read-output", "output was read, and has no number yet"),
    point("exec.server.exit-known", "a process exited, and its session does not know yet"),
    of("looks-before-subscribing", point("exec.client.events.looked", "between looking for an event, and listening for the next")),
    of("write-remembered-late", point("exec.server.write.queued", "bytes are queued, and their id is not kept")),
    of("long-poll-lost-wake-up", point("exec.server.read.looked", "between looking for an answer, and listening for one")),
];
