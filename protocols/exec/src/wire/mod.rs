//! The messages between client and server: JSON-RPC messages without a version field, one per
//! WebSocket frame.
//!
//! - [`Message`]: a request, a response, an error, or a notification. Its payload stays raw until
//!   the receiver knows its type ([`Message::parse`], [`read`]).
//! - [`session`], [`process`], [`files`], [`http`]: parameters and results of the families of methods.
//!   [`environment`]: the server's machine, and the variables of a process; [`sandbox`]: what a
//!   process may not do.
//! - [`flow`]: flow control for each process, an extension that both sides announce.
//! - [`code`]: the error codes. [`method`]: the names of methods.
//! - [`Base64`]: the encoding of bytes in JSON. [`Directory`]: a path or a `file:` URI.
//!   [`FilePath`]: a `file:` URI.
//!
//! The names on the wire are those of the codex exec-server of June 2026, and those that 0.169.0
//! added, and those of [`flow`], which begin with `reknit`. Unknown fields are skipped, as that server
//! does, because later versions of it add fields.

mod base64;
mod directory;
mod file_path;

pub mod environment;
pub mod files;
pub mod flow;
pub mod http;
pub mod process;
pub mod sandbox;
pub mod session;

pub use base64::Base64;
pub use directory::{Directory, DirectoryError, DirectoryForm};
pub use file_path::{FilePath, FilePathError};
pub use reknit_jsonrpc::{
    ErrorBody, Malformed, Message, RequestId, notification_text, read, response_text,
};

/// The error codes.
pub mod code {
    /// The transport behind the peer is closed. A client treats this like the end of the client's
    /// connection.
    pub const TRANSPORT_CLOSED: i64 = -32000;
    /// There is no such file or handle.
    pub const NOT_FOUND: i64 = -32004;
    /// The session is attached to another connection. The error is transient.
    pub const STILL_ATTACHED: i64 = -32010;
    /// The request is not valid now: before the handshake, for an unknown process or session, or
    /// with an id that is taken.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const UNKNOWN_METHOD: i64 = -32601;
    /// The parameters do not match the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The peer failed to handle the request.
    pub const INTERNAL: i64 = -32603;
}

/// The names of methods and notifications.
pub mod method {
    /// The method that opens or resumes a session. It must be the first request of a connection.
    pub const INITIALIZE: &str = "initialize";
    /// The client has read the answer to [`INITIALIZE`] (a notification).
    pub const INITIALIZED: &str = "initialized";
    /// Describes the server's machine.
    pub const ENVIRONMENT_INFO: &str = "environment/info";
    /// Says whether the server can run commands.
    pub const ENVIRONMENT_STATUS: &str = "environment/status";
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
    /// Reports how much output of a process the client has consumed: see [`flow`](super::flow).
    pub const CONSUMED: &str = "reknit/consumed";
    /// A process printed output (a notification from the server).
    pub const OUTPUT: &str = "process/output";
    /// A process exited (a notification from the server).
    pub const EXITED: &str = "process/exited";
    /// A process exited, and its output has ended (a notification from the server).
    pub const CLOSED: &str = "process/closed";
    /// Reads a whole file.
    pub const READ_FILE: &str = "fs/readFile";
    /// Writes a whole file.
    pub const WRITE_FILE: &str = "fs/writeFile";
    /// Creates a directory.
    pub const CREATE_DIRECTORY: &str = "fs/createDirectory";
    /// Describes a file.
    pub const GET_METADATA: &str = "fs/getMetadata";
    /// Removes the links from a path.
    pub const CANONICALIZE: &str = "fs/canonicalize";
    /// Lists a directory.
    pub const READ_DIRECTORY: &str = "fs/readDirectory";
    /// Lists a directory and the directories in it.
    pub const WALK: &str = "fs/walk";
    /// Removes a file or a directory.
    pub const REMOVE: &str = "fs/remove";
    /// Copies a file or a directory.
    pub const COPY: &str = "fs/copy";
    /// Opens a file.
    pub const OPEN: &str = "fs/open";
    /// Reads a block of an open file.
    pub const READ_BLOCK: &str = "fs/readBlock";
    /// Writes a block of an open file.
    pub const WRITE_BLOCK: &str = "fs/writeBlock";
    /// Closes a file.
    pub const CLOSE: &str = "fs/close";
    /// Watches for files to appear.
    pub const WATCH_MISSING: &str = "fs/watchMissing";
    /// A watched file appeared (a notification from the server).
    pub const MISSING_CHANGED: &str = "fs/missingChanged";
    /// Sends an HTTP request from the server's machine.
    pub const HTTP_REQUEST: &str = "http/request";
    /// A piece of the body of an HTTP response (a notification from the server).
    pub const HTTP_BODY: &str = "http/request/bodyDelta";
}
