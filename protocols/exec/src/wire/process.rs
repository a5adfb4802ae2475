//! The process family: start, read, write, signal, terminate, and the server's notifications.

use std::collections::BTreeMap;

use reknit_seams::defect;
use serde::{Deserialize, Deserializer, Serialize};

use super::environment::EnvPolicy;
use super::sandbox::{Restrictions, SandboxType};
use super::{Base64, Directory};

/// The parameters of `process/start`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartParams {
    /// The id that the client chooses for the process; it must be unused in the session.
    pub process_id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The working directory. A client writes it in the form that its server reads.
    pub cwd: Directory,
    /// Which of the server's variables the process inherits; without it, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_policy: Option<EnvPolicy>,
    /// The environment of the process, laid over the variables of the policy. Codex 0.169.0 requires
    /// it, and `tty`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether the process gets a terminal instead of pipes.
    #[serde(default)]
    pub tty: bool,
    /// Whether the client can write to the standard input; otherwise it is empty. A terminal can
    /// always be written to.
    #[serde(default)]
    pub pipe_stdin: bool,
    /// The `argv[0]` that the process sees, if it differs from the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arg0: Option<String>,
    /// The restrictions of the process; by default, there are none.
    #[serde(flatten)]
    pub restrictions: Restrictions,
}

/// The result of `process/start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartResult {
    /// The requested id.
    pub process_id: String,
    /// The kind of sandbox that the process runs in. Servers of June 2026 do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_type: Option<SandboxType>,
}

/// The parameters of `process/read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    /// The process to read.
    pub process_id: String,
    /// The answer contains the chunks after this sequence number; the default is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    /// The maximum number of bytes, but at least one chunk is returned. Without it, the read is
    /// unbounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// How long to wait for new events, in milliseconds; by default the read does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// The result of `process/read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResult {
    /// The chunks, in order.
    pub chunks: Vec<Chunk>,
    /// In an answer without left-out chunks: the sequence number of the next event (exit and close
    /// have numbers too). In an answer that leaves chunks out: one more than the last returned
    /// number. To continue, read after `next_seq - 1`.
    pub next_seq: u64,
    /// Whether the process has exited and the reader has all of its output before the exit.
    pub exited: bool,
    /// The exit code; `null` before the exit.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Whether the process has exited, its output has ended, and the reader has all of it.
    pub closed: bool,
    /// Why the server could not observe the process to its end.
    #[serde(default)]
    pub failure: Option<String>,
    /// Whether a sandbox stopped the process; this server has no sandbox.
    #[serde(default)]
    pub sandbox_denied: bool,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its number in the process's single sequence, from 1.
    pub seq: u64,
    /// The stream that the output was printed to.
    pub stream: OutputStream,
    /// The bytes.
    pub chunk: Base64,
}

/// An output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The terminal.
    Pty,
}

impl OutputStream {
    /// Returns its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Pty => "pty",
        }
    }
}

/// The parameters of `process/write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// The process to write to.
    pub process_id: String,
    /// The bytes.
    pub chunk: Base64,
    /// Identifies the write: the server accepts a repeated id but writes nothing. Codex 0.169.0
    /// requires it; clients of June 2026 send none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_id: Option<String>,
}

/// The result of `process/write`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteResult {
    /// The outcome of the write.
    pub status: WriteStatus,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteStatus {
    /// The bytes are queued for the process, after earlier writes.
    Accepted,
    /// The process does not exist.
    UnknownProcess,
    /// The standard input is closed, or was never open.
    StdinClosed,
    /// The process is still being launched.
    Starting,
}

/// The parameters of `process/signal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    /// The process to signal.
    pub process_id: String,
    /// The signal to send.
    pub signal: Signal,
}

/// A signal that a client can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// The signal of Ctrl-C.
    Interrupt,
}

/// The result of `process/signal`: empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalResult {}

/// The parameters of `process/terminate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// The process to kill.
    pub process_id: String,
}

/// The result of `process/terminate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminateResult {
    /// Whether the process was starting or running.
    pub running: bool,
}

/// The parameters of `process/output`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The process that printed.
    pub process_id: String,
    /// The number of the event.
    pub seq: u64,
    /// The stream that the output was printed to.
    pub stream: OutputStream,
    /// The bytes.
    pub chunk: Base64,
}

/// The parameters of `process/exited`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exited {
    /// The process that exited.
    pub process_id: String,
    /// The number of the event.
    pub seq: u64,
    /// The exit code.
    #[serde(deserialize_with = "code_or_unknown")]
    pub exit_code: i32,
    /// Whether a sandbox stopped the process. Servers of June 2026 do not say it.
    #[serde(default)]
    pub sandbox_denied: bool,
}

/// The value for an unknown exit code.
pub const UNKNOWN_EXIT_CODE: i32 = -1;

/// Reads an exit code that may be `null`; it is unknown then.
fn code_or_unknown<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    if defect!(UnknownExitIsMalformed) {
        return i32::deserialize(deserializer);
    }
    Ok(Option::deserialize(deserializer)?.unwrap_or(UNKNOWN_EXIT_CODE))
}

/// The parameters of `process/closed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Closed {
    /// The process that closed.
    pub process_id: String,
    /// The number of the event, which is the last one.
    pub seq: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_on_the_wire_match_upstream() {
        let start = StartParams {
            process_id: "p1".into(),
            argv: vec!["sh".into()],
            cwd: Directory::root(),
            ..StartParams::default()
        };
        let text =
            r#"{"processId":"p1","argv":["sh"],"cwd":"/","env":{},"tty":false,"pipeStdin":false}"#;
        assert_eq!(serde_json::to_string(&start).unwrap(), text);
        let least = r#"{"processId":"p1","argv":["sh"],"cwd":"/","sandbox":null,"metadata":{}}"#;
        assert_eq!(serde_json::from_str::<StartParams>(least).unwrap(), start);

        let chunk = Chunk { seq: 3, stream: OutputStream::Stdout, chunk: Base64("hi".into()) };
        let read = ReadResult {
            chunks: vec![chunk],
            next_seq: 5,
            exited: true,
            exit_code: Some(7),
            ..ReadResult::default()
        };
        let text = r#"{"chunks":[{"seq":3,"stream":"stdout","chunk":"aGk="}],"nextSeq":5,"exited":true,"exitCode":7,"closed":false,"failure":null,"sandboxDenied":false}"#;
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(serde_json::from_str::<ReadResult>(text).unwrap(), read);

        let status = |status| serde_json::to_string(&WriteResult { status }).unwrap();
        assert_eq!(status(WriteStatus::UnknownProcess), r#"{"status":"unknownProcess"}"#);
        assert_eq!(status(WriteStatus::StdinClosed), r#"{"status":"stdinClosed"}"#);
        assert_eq!(serde_json::to_string(&Signal::Interrupt).unwrap(), r#""interrupt""#);
        let exited =
            Exited { process_id: "p1".into(), seq: 4, exit_code: 0, sandbox_denied: false };
        let text = r#"{"processId":"p1","seq":4,"exitCode":0,"sandboxDenied":false}"#;
        assert_eq!(serde_json::to_string(&exited).unwrap(), text);
        let older = r#"{"processId":"p1","seq":4,"exitCode":0}"#;
        assert_eq!(serde_json::from_str::<Exited>(older).unwrap(), exited);
    }

    #[test]
    fn an_exit_code_of_null_is_none() {
        let text = r#"{"chunks":[],"nextSeq":1,"exited":false,"exitCode":null,"closed":false,"failure":null}"#;
        assert_eq!(
            serde_json::from_str::<ReadResult>(text).unwrap(),
            ReadResult { next_seq: 1, ..ReadResult::default() }
        );
        assert!(
            serde_json::to_string(&ReadResult::default()).unwrap().contains(r#""exitCode":null"#)
        );
        let text = r#"{"processId":"p1","seq":4,"exitCode":null,"sandboxDenied":true}"#;
        let exited: Exited = serde_json::from_str(text).unwrap();
        assert_eq!((exited.exit_code, exited.sandbox_denied), (UNKNOWN_EXIT_CODE, true));
    }
}
