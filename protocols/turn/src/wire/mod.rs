//! The messages of the app-server: names, parameters, answers and notifications.
//!
//! - [`method`], [`code`]: the names of methods and notifications, and the error codes.
//! - [`request`], [`answer`]: the requests that a client of this crate makes, and their answers.
//!   Other requests have no types here; a broker passes them through.
//! - [`thread`], [`item`]: threads, turns, and the items of a turn.
//! - [`notification`]: what the server reports about threads and turns.
//!
//! All readers are tolerant. They skip unknown fields. They keep unknown kinds, phases and statuses
//! under their names as `Other`. Each field that may be missing says what its absence means. The
//! types follow `codex app-server` 0.169.0, and the older versions where they differ.

pub mod answer;
pub mod code;
pub mod item;
pub mod method;
pub mod notification;
mod open;
pub mod request;
pub mod thread;

#[cfg(test)]
mod tests;

/// The longest id of a thread, turn or item, in bytes.
pub const LONGEST_ID: usize = 512;

pub use answer::{InitializeAnswer, StartAnswer, ThreadAnswer};
pub use item::{AgentTool, ChangeKind, FileChange, Item, MessagePhase, WorkStatus};
pub use notification::{Notification, Scope};
pub use request::{
    ClientInfo, Delivery, InitializeCapabilities, InitializeParams, ReviewStartParams,
    ReviewTarget, SandboxMode, ThreadResumeParams, ThreadSetNameParams, ThreadStartParams,
    TurnInput, TurnInterruptParams, TurnStartParams,
};
pub use thread::{Thread, ThreadStatus, ThreadStatusKind, Turn, TurnError, TurnStatus};
