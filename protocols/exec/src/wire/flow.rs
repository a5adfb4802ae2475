//! Flow control for each process: an extension of this crate. Codex has nothing like it.
//!
//! A client offers its window in `initialize`. A server that controls the flow says so in its
//! answer, and only then does the client use the extension. Neither side sends anything that the
//! other has not announced.
//!
//! With flow control, a process is held when the client has not consumed a window of its output:
//! the server stops reading the output, and the process blocks when its pipe is full. Other
//! processes of the connection continue. The server evicts no output that the client has not
//! consumed, also while no connection is attached. The client reports its progress with
//! [`CONSUMED`](super::method::CONSUMED).

use serde::{Deserialize, Serialize};

/// How much output of one process may be unconsumed: what a client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowWindow {
    /// The maximum number of bytes of output.
    pub window_bytes: u64,
    /// The maximum number of chunks of output.
    pub window_chunks: u64,
}

/// How often a client must report its progress: the answer of a server that controls the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowReports {
    /// A report is due when the client has consumed more than this many bytes since the last one.
    pub report_bytes: u64,
    /// A report is due when the client has consumed more than this many events since the last one.
    pub report_events: u64,
}

/// The parameters of `reknit/consumed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumedParams {
    /// The process. A server ignores a report about a process that it does not have.
    pub process_id: String,
    /// The number of the last consumed event. Without it, the client consumes nothing more, and the
    /// flow of the process is no longer controlled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// The result of `reknit/consumed`: empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumedResult {}
