//! The names of methods and notifications.

use reknit_seams::defect;

/// The first request of a connection.
pub const INITIALIZE: &str = "initialize";
/// Follows the answer to `initialize` (a notification of the client).
pub const INITIALIZED: &str = "initialized";
/// Starts a thread.
pub const THREAD_START: &str = "thread/start";
/// Loads a thread of the past.
pub const THREAD_RESUME: &str = "thread/resume";
/// Deletes a thread that the server keeps.
pub const THREAD_DELETE: &str = "thread/delete";
/// Ends the interest of a client in a thread. The only way to give up a thread that the server does not
/// keep.
pub const THREAD_UNSUBSCRIBE: &str = "thread/unsubscribe";
/// Names a thread.
pub const THREAD_SET_NAME: &str = "thread/name/set";
/// Starts a turn.
pub const TURN_START: &str = "turn/start";
/// Starts a review, which is a turn.
pub const REVIEW_START: &str = "review/start";
/// Compacts the history of a thread, which is a turn.
pub const COMPACT_START: &str = "thread/compact/start";
/// Interrupts a turn.
pub const TURN_INTERRUPT: &str = "turn/interrupt";
/// Ends the broker. The app-server does not know it.
pub const BROKER_SHUTDOWN: &str = "broker/shutdown";

/// A thread exists (this and all below are notifications of the server).
pub const THREAD_STARTED: &str = "thread/started";
/// A thread has a new name.
pub const THREAD_NAME_UPDATED: &str = "thread/name/updated";
/// A thread became active or idle.
pub const THREAD_STATUS_CHANGED: &str = "thread/status/changed";
/// The server unloaded a thread.
pub const THREAD_CLOSED: &str = "thread/closed";
/// A turn started.
pub const TURN_STARTED: &str = "turn/started";
/// A turn is over.
pub const TURN_COMPLETED: &str = "turn/completed";
/// An item of a turn started.
pub const ITEM_STARTED: &str = "item/started";
/// An item of a turn is complete.
pub const ITEM_COMPLETED: &str = "item/completed";
/// A turn met an error.
pub const ERROR: &str = "error";

/// The notifications that a client of this crate never reads, and which it refuses at `initialize`:
/// messages and reasoning, piece by piece.
pub const REFUSED_NOTIFICATIONS: [&str; 4] = [
    "item/agentMessage/delta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/summaryPartAdded",
    "item/reasoning/textDelta",
];

/// Whether a method starts a turn: its answer contains the turn, and notifications follow.
pub fn starts_a_turn(method: &str) -> bool {
    // The bug: a compaction is a request like any other.
    let is_compaction = method == COMPACT_START && !defect!(CompactionsAreNoTurns);
    matches!(method, TURN_START | REVIEW_START) || is_compaction
}
