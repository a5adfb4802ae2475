//! What the two ends say to each other: JSON-RPC messages without a version field, one a WebSocket frame.
//!
//! - [`Message`]: a request, a response, an error, or a notification; what it carries stays unread until somebody knows what to
//!   expect ([`Message::parse`], [`read`]).
//! - [`session`], [`process`], [`http`]: parameters and results of the three families of methods.
//! - [`code`]: the numbers of errors. [`method`]: the names of methods.
//! - [`Base64`]: bytes, as they stand in JSON.
//!
//! The names on the wire are those of the codex exec-server of June 2026. A field that is not known here is skipped, as that
//! server does: later versions of it add some.

mod base64;

pub mod http;
pub mod process;
pub mod session;

pub use base64::Base64;
pub use reknit_jsonrpc::{
    ErrorBody, Malformed, Message, RequestId, notification_text, read, response_text,
};

/// The numbers of errors.
pub mod code {
    /// The transport below the answering side is closed. A client treats it like the end of its own connection.
    pub const TRANSPORT_CLOSED: i64 = -32000;
    /// The session is attached to another connection; this passes.
    pub const STILL_ATTACHED: i64 = -32010;
    /// The request is out of place: no handshake yet, unknown process or session, an id that is taken.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub const UNKNOWN_METHOD: i64 = -32601;
    /// The parameters are not those of the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The answering side failed.
    pub const INTERNAL: i64 = -32603;
}

/// The names of methods and notifications.
pub mod method {
    /// Opens or resumes a session; the first request of a connection.
    pub const INITIALIZE: &str = "initialize";
    /// The client has read the answer to [`INITIALIZE`]; a notification.
    pub const INITIALIZED: &str = "initialized";
    /// Starts a process.
    pub const START: &str = "process/start";
    /// Reads what a process has printed.
    pub const READ: &str = "process/read";
    /// Writes to the standard input of a process.
    pub const WRITE: &str = "process/write";
    /// Sends a signal to a process.
    pub const SIGNAL: &str = "process/signal";
    /// Kills a process.
    pub const TERMINATE: &str = "process/terminate";
    /// A process printed something; a notification of the server's.
    pub const OUTPUT: &str = "process/output";
    /// A process exited; a notification of the server's.
    pub const EXITED: &str = "process/exited";
    /// A process exited, and its output has ended; a notification of the server's.
    pub const CLOSED: &str = "process/closed";
    /// Sends an HTTP request from where the server is.
    pub const HTTP_REQUEST: &str = "http/request";
    /// A piece of an HTTP response's body; a notification of the server's.
    pub const HTTP_BODY: &str = "http/request/bodyDelta";
}
