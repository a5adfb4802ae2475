//! The error codes.

/// The broker works for another client. The request had no effect; the client may ask again, or start
/// its own app-server.
pub const BUSY: i64 = -32001;
/// The app-server failed, and gave no code.
pub const SERVER: i64 = -32000;
/// The request is not valid now. The app-server also reports unknown methods, unknown parameters and
/// unknown threads with this code.
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist. The answer to every request of a server.
pub const UNKNOWN_METHOD: i64 = -32601;
/// The line contains no message. Only a broker answers with it; the app-server skips such a line.
pub const PARSE: i64 = -32700;
