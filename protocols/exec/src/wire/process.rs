//! The process family: start, read, write, signal, terminate, and what the server tells by itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Base64;

/// The parameters of `process/start`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartParams {
    /// What the client calls it; free within its session.
    pub process_id: String,
    /// The program, and its arguments.
    pub argv: Vec<String>,
    /// Where it starts: a path, or a `file:` URI.
    pub cwd: String,
    /// Its whole environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether it gets a terminal in the place of pipes.
    #[serde(default)]
    pub tty: bool,
    /// Whether its standard input can be written to; it is empty otherwise. A terminal's always can.
    #[serde(default)]
    pub pipe_stdin: bool,
    /// What it is told that its name is, where that is not `argv[0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arg0: Option<String>,
}

/// The result of `process/start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartResult {
    /// The id that was asked for.
    pub process_id: String,
}

/// The parameters of `process/read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    /// Which process.
    pub process_id: String,
    /// Chunks after this sequence number are asked for; 0 where nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    /// No more bytes than this, but one chunk at least; without a bound where nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// How long to wait for something to answer with; not at all where nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// The result of `process/read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResult {
    /// The chunks, in order.
    pub chunks: Vec<Chunk>,
    /// Unbounded: the sequence number that the next event will have; exit and close have numbers, too. Bounded: the number to
    /// read on from, less one, is what was answered last.
    pub next_seq: u64,
    /// Whether it has exited, and everything that it printed before is known.
    pub exited: bool,
    /// With which code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether it has exited, its output has ended, and all of that is known.
    pub closed: bool,
    /// Why it could not be watched to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Whether a sandbox stopped it; this server has none.
    #[serde(default)]
    pub sandbox_denied: bool,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its number in the one sequence of its process, from 1.
    pub seq: u64,
    /// What it came out of.
    pub stream: OutputStream,
    /// The bytes.
    pub chunk: Base64,
}

/// What output comes out of.
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
    /// Its name on the wire.
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
    /// Which process.
    pub process_id: String,
    /// The bytes.
    pub chunk: Base64,
    /// What the write is known by: the same id again is accepted, and writes nothing. Clients of June 2026 send none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_id: Option<String>,
}

/// The result of `process/write`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteResult {
    /// What became of it.
    pub status: WriteStatus,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteStatus {
    /// It is on its way to the process, after those before it.
    Accepted,
    /// There is no such process.
    UnknownProcess,
    /// Nobody reads there any more, or nobody ever did.
    StdinClosed,
    /// The process is not there yet.
    Starting,
}

/// The parameters of `process/signal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    /// Which process.
    pub process_id: String,
    /// Which signal.
    pub signal: Signal,
}

/// A signal that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// As if somebody pressed control-C.
    Interrupt,
}

/// The result of `process/signal`: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalResult {}

/// The parameters of `process/terminate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// Which process.
    pub process_id: String,
}

/// The result of `process/terminate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminateResult {
    /// Whether there was something to kill.
    pub running: bool,
}

/// What `process/output` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Which process.
    pub process_id: String,
    /// The number in its sequence.
    pub seq: u64,
    /// What it came out of.
    pub stream: OutputStream,
    /// The bytes.
    pub chunk: Base64,
}

/// What `process/exited` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exited {
    /// Which process.
    pub process_id: String,
    /// The number in its sequence.
    pub seq: u64,
    /// With which code.
    pub exit_code: i32,
}

/// What `process/closed` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Closed {
    /// Which process.
    pub process_id: String,
    /// The number in its sequence: the last one.
    pub seq: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_on_the_wire_are_those_of_the_facts() {
        let start = StartParams {
            process_id: "p1".into(),
            argv: vec!["sh".into()],
            cwd: "/".into(),
            ..StartParams::default()
        };
        let text =
            r#"{"processId":"p1","argv":["sh"],"cwd":"/","env":{},"tty":false,"pipeStdin":false}"#;
        assert_eq!(serde_json::to_string(&start).unwrap(), text);
        let least = r#"{"processId":"p1","argv":["sh"],"cwd":"/","sandbox":{"mode":"none"}}"#;
        assert_eq!(serde_json::from_str::<StartParams>(least).unwrap(), start);

        let chunk = Chunk { seq: 3, stream: OutputStream::Stdout, chunk: Base64("hi".into()) };
        let read = ReadResult {
            chunks: vec![chunk],
            next_seq: 5,
            exited: true,
            exit_code: Some(7),
            ..ReadResult::default()
        };
        let text = r#"{"chunks":[{"seq":3,"stream":"stdout","chunk":"aGk="}],"nextSeq":5,"exited":true,"exitCode":7,"closed":false,"sandboxDenied":false}"#;
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(serde_json::from_str::<ReadResult>(text).unwrap(), read);

        let status = |status| serde_json::to_string(&WriteResult { status }).unwrap();
        assert_eq!(status(WriteStatus::UnknownProcess), r#"{"status":"unknownProcess"}"#);
        assert_eq!(status(WriteStatus::StdinClosed), r#"{"status":"stdinClosed"}"#);
        assert_eq!(serde_json::to_string(&Signal::Interrupt).unwrap(), r#""interrupt""#);
        let exited = Exited { process_id: "p1".into(), seq: 4, exit_code: 0 };
        assert_eq!(
            serde_json::to_string(&exited).unwrap(),
            r#"{"processId":"p1","seq":4,"exitCode":0}"#
        );
    }

    #[test]
    fn an_exit_code_of_null_is_none() {
        let text = r#"{"chunks":[],"nextSeq":1,"exited":false,"exitCode":null,"closed":false,"failure":null}"#;
        assert_eq!(
            serde_json::from_str::<ReadResult>(text).unwrap(),
            ReadResult { next_seq: 1, ..ReadResult::default() }
        );
    }
}
