//! The wire of execd: events, requests, answers, refusals.
//!
//! - [`Record`], [`Event`]: what a stream consists of. [`Framing`]: how it is written.
//!   [`Decoder`]: how it is read.
//! - [`Cursor`]: the place from which a stream continues.
//! - [`RunCommand`], [`CommandStatus`]: the body of a start, and the answer to a status request.
//! - [`CreateSession`], [`RunInSession`]: the bodies of requests for shell sessions.
//! - [`Refusal`]: every answer that is not a success, with its status code.
//!
//! Extensions of the original are optional fields and headers, so that each side also understands a
//! peer that has none of them:
//!
//! | extension | place | purpose |
//! |---|---|---|
//! | `eol`, `bytes` | output events | the exact bytes of a line: its end, and bytes that are not UTF-8 |
//! | `ending` | the terminal event | a signal or a time-out, which `evalue` cannot express |
//! | `gap` | an `error` event without an `eid` | the range of events that are lost |
//! | `epoch` | `init`, the headers of a stream, cursors | which run of a command the positions count |
//! | `operation_id` | the body of a start | an id that the client chooses, so that it can repeat the start |
//! | [`REPEATS`](header::REPEATS) | a header of a repeated start | its age, so that a restarted server does not run the command again |
//! | [`age_asked`](RefusalBody::age_asked), [`ASKED`](header::ASKED) | a refusal, and a header of the repetition | the server asks for that age again, if the connection may have been long on its way |
//! | [`no_effect`](RefusalBody::no_effect) | a refusal | the server says it, and not a proxy before it, so a start did not run |
//! | [`OWNER`](header::OWNER) | a header of a stream request | whose stream it is, so that its owner replaces it at once |

//!
//! # How a client follows a command
//! - It chooses an `operation_id`, and names itself in [`OWNER`](header::OWNER) with a new number for each
//!   request that opens a stream. It starts the command with `POST /command`. If the answer is lost, it
//!   repeats the request with its age in [`REPEATS`](header::REPEATS): the command runs once. If the answer
//!   to that is 425 with [`age_asked`](RefusalBody::age_asked), it sends the request again at once, with its
//!   age then and the question in [`ASKED`](header::ASKED).
//! - It delivers an event, and then moves its [`Cursor`] to the event's position. Positions ascend by
//!   one. A [`Gap`] is the only exception: it says which positions are lost, and the next event
//!   follows the last of them.
//! - If the stream ends in any way without [`Event::Ended`], the client continues with
//!   `GET /command/{id}/resume` and its cursor. The epoch of the cursor is in [`Event::Init`] and in the
//!   header [`EPOCH`](header::EPOCH).
//! - A server sends something at least every 3 s (by default). Silence means that the connection is dead.
//! - Refusals with [`retry_after_ms`](RefusalBody::retry_after_ms) may pass; so may 408, 425 and 503.
//!   `COMMAND_EXPIRED` means that the command has ended, and only its [`CommandStatus`] is left.
//!   `COMMAND_NOT_FOUND` means that the server has lost the command, for example by a restart. Neither
//!   is a success. All others do not pass.

mod cursor;
mod decode;
mod event;
mod frame;
mod owner;
pub mod path;
mod question;
mod refusal;
mod request;
mod session;
mod status;

pub use cursor::{Cursor, CursorError, Epoch, MalformedCursor};
pub use decode::{DecodeError, Decoded, Decoder};
pub use event::{Ending, Event, Gap, OutputStream, Record, RecordError};
pub use frame::Framing;
pub use owner::{MalformedOwner, StreamOwner};
pub use question::{AgeQuestion, MalformedQuestion};
pub use refusal::{Refusal, RefusalBody};
pub use request::{CommandId, InvalidRequest, RunCommand};
pub use session::{CreateSession, RunInSession, SessionCreated};
pub use status::CommandStatus;

/// The names of headers.
pub mod header {
    /// The secret that a request must carry, if the server has one.
    pub const ACCESS_TOKEN: &str = "x-execd-access-token";
    /// The answer to a request for logs: the cursor of the next request.
    pub const TAIL_CURSOR: &str = "execd-commands-tail-cursor";
    /// The position that a standard client has received, as the `id:` of its last event.
    pub const LAST_EVENT_ID: &str = "last-event-id";
    /// An extension: the [epoch](super::Epoch) of the positions in this answer.
    pub const EPOCH: &str = "x-reknit-epoch";
    /// An extension: the position of the oldest event that the server has.
    pub const OLDEST: &str = "x-reknit-oldest";
    /// An extension: the position that the next new event will have.
    pub const NEXT: &str = "x-reknit-next";
    /// An extension: the number of streams of this command so far, including this one.
    pub const GENERATION: &str = "x-reknit-generation";
    /// An extension: the [owner](super::StreamOwner) of the stream that a request opens.
    pub const OWNER: &str = "x-reknit-owner";
    /// An extension: how long ago, in milliseconds, the client has sent this start for the first time. A
    /// server that is younger cannot know whether an earlier one ran the command, and refuses it. A server
    /// that does not know the command asks for the age again, with 425.
    pub const REPEATS: &str = "x-reknit-repeats";
    /// An extension: the [question](super::AgeQuestion) that the age of this start answers.
    pub const ASKED: &str = "x-reknit-asked";
    /// An extension in an answer with logs: the lost range before them, `FIRST-LAST`.
    pub const GAP: &str = "x-reknit-gap";
}
