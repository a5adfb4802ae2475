//! The operations of the user of an exec client, as plain data.
//!
//! `p1` is an entry of `[process.p1]`, which declares the real behaviour of the process. `b1` is an
//! entry of `[web.b1]`, which declares the response of the HTTP server behind the exec server.

use std::time::Duration;

use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::network_fault::AROUND;
use super::web;
use crate::history::Class;
use crate::schedule::units::{Size, WrittenDuration};
use crate::schedule::{Action, Operation, Plan};
use crate::subject::Operations;
use crate::subject::dyn_subject::read;
pub use crate::subjects::pace::ReadingPace;
use crate::world::process::{Input, Setup, TABLE};
use reknit_exec::server::CHUNK;

/// An operation that a client's user performs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ExecOperation {
    /// Starts a process, and follows its events from the first one. If the same host starts it
    /// again, its record is `p1.2`.
    #[serde(rename_all = "kebab-case")]
    Start {
        /// The process: an entry of `[process.NAME]`.
        process: String,
        /// Whether the process gets a terminal instead of pipes.
        #[serde(default, skip_serializing_if = "is_false")]
        tty: bool,
        /// The delay from the start until the user begins to follow its events; default: none.
        #[serde(default, skip_serializing_if = "WrittenDuration::is_zero")]
        looks_after: WrittenDuration,
        /// How long the user waits for the start before giving up; default: without limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        patience: Option<WrittenDuration>,
        /// How slowly the user reads the events; default: at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reads: Option<ReadingPace>,
    },
    /// Reads the output of a process after an event, and waits if there is none yet.
    #[serde(rename_all = "kebab-case")]
    Read {
        /// The process.
        process: String,
        /// The event: its number, or `"last-received"` for the last one that the user received.
        #[serde(default)]
        after: After,
        /// The maximum size of the answer, which contains at least one chunk.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_bytes: Option<Size>,
        /// How long to wait.
        #[serde(default, skip_serializing_if = "WrittenDuration::is_zero")]
        wait: WrittenDuration,
    },
    /// Reads all output of a process, page by page, until the server reports that it closed.
    #[serde(rename_all = "kebab-case")]
    ReadAll {
        /// The process.
        process: String,
        /// The maximum size of a page.
        page: Size,
        /// How long the user continues to read.
        wait: WrittenDuration,
    },
    /// Writes a line to the standard input of a process.
    #[serde(rename_all = "kebab-case")]
    Write {
        /// The process.
        process: String,
        /// The length of the line; default: the shortest possible.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Size>,
        /// How long the user waits for the process to accept the line; default: without limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        patience: Option<WrittenDuration>,
    },
    /// Sends many reads of a process at once, before the first of them is answered. Each asks for
    /// the first chunk of output, and does not wait for one.
    #[serde(rename_all = "kebab-case")]
    Pipeline {
        /// The process.
        process: String,
        /// The number of reads.
        requests: u64,
    },
    /// Interrupts a process.
    #[serde(rename_all = "kebab-case")]
    Interrupt {
        /// The process.
        process: String,
    },
    /// Kills a process.
    #[serde(rename_all = "kebab-case")]
    Terminate {
        /// The process.
        process: String,
    },
    /// Drops the handle of a process, and stops following its events. The process keeps running.
    #[serde(rename_all = "kebab-case")]
    DropHandle {
        /// The process.
        process: String,
    },
    /// Stops following the events of a process, and keeps its handle. The process keeps running.
    #[serde(rename_all = "kebab-case")]
    Unfollow {
        /// The process.
        process: String,
    },
    /// Follows the events of a process once more, from the first one, in addition to its start.
    #[serde(rename_all = "kebab-case")]
    ReadEvents {
        /// The process.
        process: String,
        /// How long the user continues to read.
        wait: WrittenDuration,
        /// How slowly the user reads the events; default: at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reads: Option<ReadingPace>,
    },
    /// Writes a file on the server.
    #[serde(rename_all = "kebab-case")]
    WriteFile {
        /// The name of the file, in the root directory.
        file: String,
        /// The length of the content; default: the shortest possible.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Size>,
    },
    /// Reads a whole file on the server.
    #[serde(rename_all = "kebab-case")]
    ReadFile {
        /// The name of the file, in the root directory.
        file: String,
    },
    /// Opens a file on the server, reads it block by block, and closes it.
    #[serde(rename_all = "kebab-case")]
    ReadBlocks {
        /// The name of the file, in the root directory.
        file: String,
    },
    /// Removes a file on the server. A missing file is no error.
    #[serde(rename_all = "kebab-case")]
    RemoveFile {
        /// The name of the file, in the root directory.
        file: String,
    },
    /// Waits until a missing file on the server appears.
    #[serde(rename_all = "kebab-case")]
    WatchFile {
        /// The name of the file, in the root directory.
        file: String,
    },
    /// Makes the server send an HTTP request, and waits for the whole response.
    #[serde(rename_all = "kebab-case")]
    Http {
        /// The requested body: an entry of `[web.NAME]`.
        body: String,
        /// The deadline of the request at the server; default: none. The user waits for so long in
        /// addition to the wait of any call.
        #[serde(default, skip_serializing_if = "WrittenDuration::is_zero")]
        wait: WrittenDuration,
    },
    /// The same, with a body that arrives piece by piece. Its record is `h7`, after the number of
    /// the call.
    #[serde(rename_all = "kebab-case")]
    HttpStream {
        /// The requested body: an entry of `[web.NAME]`.
        body: String,
        /// How long the user pauses after each piece; default: no pause.
        #[serde(default, skip_serializing_if = "WrittenDuration::is_zero")]
        pause: WrittenDuration,
        /// The number of pieces after which the user drops the body; default: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drops_after: Option<u64>,
    },
}

/// The files that random schedules use.
const FILES: [&str; 2] = ["f1", "f2"];

/// The event after which a read asks for more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "this must be the number of an event, or \"last-received\"")]
pub enum After {
    /// The event with this number; 0 asks for all events.
    Event(u64),
    /// The last event that the user received: the user polls for the next one.
    LastReceived(Word),
}

/// A keyword instead of a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// The last event that the user received.
    LastReceived,
}

impl Default for After {
    fn default() -> Self {
        Self::Event(0)
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

impl ExecOperation {
    /// The process that must have been started before this operation.
    pub(super) fn uses(&self) -> Option<&str> {
        match self {
            Self::Read { process, .. }
            | Self::ReadAll { process, .. }
            | Self::Write { process, .. }
            | Self::Pipeline { process, .. }
            | Self::Interrupt { process }
            | Self::Terminate { process }
            | Self::Unfollow { process }
            | Self::ReadEvents { process, .. }
            | Self::DropHandle { process } => Some(process),
            Self::Start { .. }
            | Self::WriteFile { .. }
            | Self::ReadFile { .. }
            | Self::ReadBlocks { .. }
            | Self::RemoveFile { .. }
            | Self::WatchFile { .. }
            | Self::Http { .. }
            | Self::HttpStream { .. } => None,
        }
    }
}

/// Returns the number of requests that an operation sends at once.
pub(super) fn requests(operation: &Operation) -> u64 {
    operation.fields.get("requests").and_then(serde_json::Value::as_u64).unwrap_or(1)
}

/// Returns the number of bytes of all answers to a pipeline: each contains the first chunk of what the
/// process prints, or echoes. The answers to other operations are short, or part of a stream.
pub(super) fn answer_bytes(plan: &Plan, operation: &Operation) -> u64 {
    let process = operation.fields.get("process").and_then(serde_json::Value::as_str);
    let (Some(process), "pipeline") = (process, operation.verb.as_str()) else { return 0 };
    let setup: Setup = plan.entry(TABLE, process).unwrap_or_default();
    let printed = [setup.print, setup.stderr].into_iter().flatten();
    let printed =
        printed.map(|lines| lines.lines.saturating_mul(lines.bytes.map_or(LINE, |bytes| bytes.0)));
    let echoed = match setup.stdin {
        Input::Echo => written(plan, process),
        Input::Read | Input::Ignore => 0,
    };
    let chunk = printed.fold(echoed, u64::saturating_add).min(CHUNK as u64);
    requests(operation).saturating_mul(chunk + AROUND as u64)
}

/// Returns the number of bytes that all users write to a process in a run.
fn written(plan: &Plan, process: &str) -> u64 {
    let writes = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Operation(operation) if operation.verb == "write" => {
            Some(read::<ExecOperation>(operation).expect("operations are checked before a run"))
        }
        _ => None,
    });
    let bytes = writes.map(|write| match write {
        ExecOperation::Write { process: to, bytes, .. } if to == process => {
            bytes.map_or(0, |bytes| bytes.0)
        }
        _ => 0,
    });
    bytes.fold(0, u64::saturating_add)
}

/// The length of a printed line without a length of its own, at most.
const LINE: u64 = 64;

impl Operations for ExecOperation {
    fn class(&self) -> Class {
        match self {
            Self::Read { .. }
            | Self::ReadAll { .. }
            | Self::Pipeline { .. }
            | Self::ReadFile { .. }
            | Self::Unfollow { .. }
            | Self::ReadEvents { .. }
            | Self::DropHandle { .. } => Class::Durable,
            Self::HttpStream { .. } | Self::WatchFile { .. } => Class::Bound,
            _ => Class::InFlight,
        }
    }

    fn strategy(plan: &Plan) -> BoxedStrategy<Self> {
        let process = select(declared(plan, "process", "p1")).boxed();
        let looks_after = prop_oneof![6 => Just(0), 1 => Just(3_000)]
            .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
        let wait = select(vec![0, 100, 5_000, 20_000])
            .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
        let max_bytes = prop_oneof![2 => Just(None), 1 => select(vec![1, 80, 4096]).prop_map(|bytes| Some(Size(bytes)))];
        let page = select(vec![1, 500, 65_536]).prop_map(Size);
        let bytes = prop_oneof![3 => Just(None), 1 => select(vec![100, 4096, 100_000]).prop_map(|bytes| Some(Size(bytes)))];
        let patience = prop_oneof![5 => Just(None), 1 => select(vec![0, 10, 1_000]).prop_map(|ms| Some(WrittenDuration(Duration::from_millis(ms))))];
        // The slowest reader needs some seconds for the output of most processes.
        let reads = prop_oneof![3 => Just(None), 1 => (select(vec![50, 300, 2_000]), select(vec![64, 4_096, 65_536]))
            .prop_map(|(ms, bytes)| Some(ReadingPace { pause: WrittenDuration(Duration::from_millis(ms)), every: Size(bytes) }))];
        // Occasionally selects a process that no table declares, so that the launch fails.
        let launched = prop_oneof![24 => process.clone(), 1 => Just("nobody".to_owned())];
        let start = (
            launched,
            prop_oneof![5 => Just(false), 1 => Just(true)],
            looks_after,
            patience,
            reads,
        );
        let after = prop_oneof![
            1 => Just(After::Event(0)), 1 => (0..50_u64).prop_map(After::Event), 4 => Just(After::LastReceived(Word::LastReceived)),
        ];
        let read = (process.clone(), after, max_bytes, wait);
        let body = select(declared(plan, web::TABLE, "b1")).boxed();
        let drops_after = prop_oneof![4 => Just(None), 1 => (1..10_u64).prop_map(Some)];
        // The pauses are short, so that a reader finishes soon after the body ends. A much slower
        // reader could finish after the end of the connection.
        let pause = prop_oneof![2 => Just(0), 1 => Just(20)]
            .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
        let http_wait = prop_oneof![1 => Just(0), 2 => Just(20_000)]
            .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
        let streamed = (body.clone(), pause, drops_after);
        let unread: Vec<String> = plan
            .entries("process")
            .filter(|(_, entry)| entry.get("stdin").is_some_and(|stdin| stdin == "ignore"))
            .map(|(name, _)| name.to_owned())
            .collect();
        // Many large chunks would take too long.
        let large: Vec<String> = plan
            .entries("process")
            .filter(|(name, _)| longest_line(plan, name) > 500)
            .map(|(name, _)| name.to_owned())
            .collect();
        let requests = select(vec![20, 150, 300]);
        let file = select(FILES.as_slice()).prop_map(str::to_owned);
        let content = prop_oneof![4 => Just(None), 1 => Just(Some(Size(4096)))];
        let with_file = (file, content, any::<u8>());
        // Each strategy is boxed, because the selection moves large strategy trees often.
        prop_oneof![
            5 => start.prop_map(|(process, tty, looks_after, patience, reads)| Self::Start { process, tty, looks_after, patience, reads }).boxed(),
            5 => (process.clone(), bytes).prop_map(move |(process, bytes)| {
                let patience = unread.contains(&process).then_some(NO_READER);
                Self::Write { process, bytes, patience }
            }).boxed(),
            2 => read.prop_map(|(process, after, max_bytes, wait)| Self::Read { process, after, max_bytes, wait }).boxed(),
            1 => (process.clone(), page).prop_map(|(process, page)| {
                Self::ReadAll { process, page, wait: WrittenDuration(Duration::from_secs(20)) }
            }).boxed(),
            1 => (process.clone(), requests).prop_map(move |(process, requests)| {
                let requests = if large.contains(&process) { 20 } else { requests };
                Self::Pipeline { process, requests }
            }).boxed(),
            2 => (process, any::<u8>()).prop_map(|(process, which)| match which % 9 {
                0 => Self::Interrupt { process },
                1 | 2 => Self::Terminate { process },
                3 | 4 => Self::DropHandle { process },
                5 | 6 => Self::Unfollow { process },
                _ => Self::ReadEvents { process, wait: WrittenDuration(Duration::from_secs(20)), reads: None },
            }).boxed(),
            2 => with_file.prop_map(|(file, bytes, which)| match which % 9 {
                0..3 => Self::WriteFile { file, bytes },
                3..5 => Self::ReadFile { file },
                5..7 => Self::ReadBlocks { file },
                7 => Self::RemoveFile { file },
                _ => Self::WatchFile { file },
            }).boxed(),
            1 => (body, http_wait).prop_map(|(body, wait)| Self::Http { body, wait }).boxed(),
            2 => streamed.prop_map(|(body, pause, drops_after)| Self::HttpStream { body, pause, drops_after }).boxed(),
        ]
        .boxed()
    }
}

/// The length of the longest line that a process prints, or 0 if its lines have no declared length.
fn longest_line(plan: &Plan, process: &str) -> u64 {
    let setup: Setup = plan.entry(TABLE, process).unwrap_or_default();
    let lines = [setup.print, setup.stderr].into_iter().flatten();
    lines.filter_map(|lines| lines.bytes).map(|bytes| bytes.0).max().unwrap_or(0)
}

/// How long a user waits for a process that never reads its standard input to accept a line.
const NO_READER: WrittenDuration = WrittenDuration(Duration::from_secs(8));

/// The names that a table of the plan declares. If it declares none, a name for which every world
/// has a default.
fn declared(plan: &Plan, table: &str, otherwise: &str) -> Vec<String> {
    let names: Vec<String> = plan.entries(table).map(|(name, _)| name.to_owned()).collect();
    if names.is_empty() { vec![otherwise.to_owned()] } else { names }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_are_read_as_they_are_written_in_a_file() {
        for value in [
            json!({ "start": { "process": "p1" } }),
            json!({ "start": { "process": "p1", "tty": true, "looks-after": "3s", "patience": "10ms" } }),
            json!({ "start": { "process": "p1", "reads": { "pause": "1s", "every": "4KiB" } } }),
            json!({ "read": { "process": "p1", "after": 3, "max-bytes": "1B", "wait": "5s" } }),
            json!({ "read": { "process": "p1", "after": "last-received", "wait": "5s" } }),
            json!({ "read-all": { "process": "p1", "page": "64KiB", "wait": "20s" } }),
            json!({ "write": { "process": "p1" } }),
            json!({ "write": { "process": "p1", "bytes": "4KiB", "patience": "8s" } }),
            json!({ "pipeline": { "process": "p1", "requests": 300 } }),
            json!({ "interrupt": { "process": "p1" } }),
            json!({ "terminate": { "process": "p1" } }),
            json!({ "drop-handle": { "process": "p1" } }),
            json!({ "write-file": { "file": "f1", "bytes": "4KiB" } }),
            json!({ "read-file": { "file": "f1" } }),
            json!({ "read-blocks": { "file": "f1" } }),
            json!({ "remove-file": { "file": "f1" } }),
            json!({ "unfollow": { "process": "p1" } }),
            json!({ "read-events": { "process": "p1", "wait": "20s", "reads": { "pause": "1s", "every": "4KiB" } } }),
            json!({ "watch-file": { "file": "f1" } }),
            json!({ "http": { "body": "b1" } }),
            json!({ "http": { "body": "b1", "wait": "20s" } }),
            json!({ "http-stream": { "body": "b1", "pause": "1s", "drops-after": 3 } }),
        ] {
            let operation: ExecOperation = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(operation).unwrap(), value);
        }
    }

    #[test]
    fn errors_name_the_valid_form() {
        let mistake =
            |value| serde_json::from_value::<ExecOperation>(value).unwrap_err().to_string();
        assert!(
            mistake(json!({ "read": { "process": "p1", "wait": "1us" } }))
                .contains("`1us` is not a duration")
        );
        assert!(
            mistake(json!({ "read": { "process": "p1", "after": "tomorrow" } }))
                .contains("or \"last-received\"")
        );
        assert!(
            mistake(json!({ "start": { "process": "p1", "speed": 1 } }))
                .contains("unknown field `speed`")
        );
    }
}
