//! The operations of the user of an exec client, as plain data.
//!
//! `p1` is an entry of `[process.p1]`, which declares the real behaviour of the process. `b1` is an
//! entry of `[web.b1]`, which declares the response of the HTTP server behind the exec server.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::command::CommandOptions;
use super::files;
use super::limits::{LIMITS, client_limits, server_limits};
use super::network_fault::AROUND;
use super::tasks::FileTask;
use crate::property::Retention;
use crate::schedule::units::{Size, WrittenDuration, read_size};
use crate::schedule::{Action, Operation, Plan};
use crate::subject::dyn_subject::read;
pub use crate::subjects::pace::ReadingPace;
use crate::world::process::{Input, PrintedLines, Setup, TABLE};
use reknit_exec::limits::ServerLimits;
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
        /// The command, beyond the name of the process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<Box<CommandOptions>>,
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
        /// How long the user waits for the answer before giving up; default: without limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        patience: Option<WrittenDuration>,
        /// Whether the user acts over the handle of the process that had this name before the newest
        /// one, if it still follows that process.
        #[serde(default, skip_serializing_if = "is_false")]
        older: bool,
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
        /// Whether the user acts over the handle of the process that had this name before the newest
        /// one, if it still follows that process.
        #[serde(default, skip_serializing_if = "is_false")]
        older: bool,
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
        /// Whether the user acts over the handle of the process that had this name before the newest
        /// one, if it still follows that process.
        #[serde(default, skip_serializing_if = "is_false")]
        older: bool,
    },
    /// Kills a process.
    #[serde(rename_all = "kebab-case")]
    Terminate {
        /// The process.
        process: String,
        /// Whether the user acts over the handle of the process that had this name before the newest
        /// one, if it still follows that process.
        #[serde(default, skip_serializing_if = "is_false")]
        older: bool,
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
    /// Reads the standard output of a process, or its terminal, as a byte stream up to its end.
    #[serde(rename_all = "kebab-case")]
    ReadStream {
        /// The process.
        process: String,
        /// How long the user continues to read.
        wait: WrittenDuration,
    },
    /// Writes a line to a process through a byte stream, flushes it or shuts it down, and drops it.
    #[serde(rename_all = "kebab-case")]
    WriteStream {
        /// The process.
        process: String,
        /// The length of the line; default: the shortest possible.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Size>,
        /// Whether the user shuts the stream down instead of flushing it.
        #[serde(default, skip_serializing_if = "is_false")]
        shuts_down: bool,
    },
    /// Does tasks with the files of the server, one after the other.
    #[serde(rename_all = "kebab-case")]
    UseFiles {
        /// The tasks.
        tasks: Vec<FileTask>,
        /// The answers to the tasks, as far as the scenario demands them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        says: Vec<String>,
        /// Whether the tasks have a directory of their own, which no other call uses.
        #[serde(default, skip_serializing_if = "is_false")]
        apart: bool,
        /// The pause before each task.
        #[serde(default, skip_serializing_if = "WrittenDuration::is_zero")]
        every: WrittenDuration,
        /// How long the user waits for all tasks together before giving up.
        patience: WrittenDuration,
        /// The permissions of the tasks: the content of `sandbox` in the protocol.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<Value>,
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
        /// The request, beyond the body that it asks for; the answer to the user then is the head of
        /// the response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<HeadOptions>,
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
    /// Waits until the client is in a state.
    #[serde(rename_all = "kebab-case")]
    AwaitState {
        /// The state.
        state: ClientState,
        /// How long the user waits for it; default: not at all.
        #[serde(default, skip_serializing_if = "WrittenDuration::is_zero")]
        wait: WrittenDuration,
    },
    /// Closes the client. All later requests of the user fail.
    CloseClient {},
}

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClientState {
    /// It has a connection.
    Connected,
    /// It tries to connect.
    Recovering,
    /// It has given up, or was closed.
    Failed,
}

/// A request of a user, beyond the body that it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct HeadOptions {
    /// Whether a redirect is the response, and is not followed.
    #[serde(skip_serializing_if = "is_false")]
    pub stops: bool,
    /// More headers, each a name and a value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// More headers, each a name and the variable of the server whose value it gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<(String, String)>,
}

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
    /// The process that must have been started before this operation. An operation over an older handle
    /// waits for no start.
    pub(super) fn uses(&self) -> Option<&str> {
        match self {
            Self::Read { older: true, .. }
            | Self::Write { older: true, .. }
            | Self::Interrupt { older: true, .. }
            | Self::Terminate { older: true, .. } => None,
            Self::Read { process, .. }
            | Self::ReadAll { process, .. }
            | Self::Write { process, .. }
            | Self::Pipeline { process, .. }
            | Self::Interrupt { process, .. }
            | Self::Terminate { process, .. }
            | Self::Unfollow { process }
            | Self::ReadEvents { process, .. }
            | Self::ReadStream { process, .. }
            | Self::WriteStream { process, .. }
            | Self::DropHandle { process } => Some(process),
            Self::Start { .. }
            | Self::UseFiles { .. }
            | Self::WriteFile { .. }
            | Self::ReadFile { .. }
            | Self::ReadBlocks { .. }
            | Self::RemoveFile { .. }
            | Self::WatchFile { .. }
            | Self::AwaitState { .. }
            | Self::CloseClient {}
            | Self::Http { .. }
            | Self::HttpStream { .. } => None,
        }
    }
}

/// Returns whether the client answers an operation itself, without the server. A subscription reads the
/// log of the client, and ends when the user has waited for long enough.
pub(super) fn is_local(operation: &Operation) -> bool {
    matches!(operation.verb.as_str(), "await-state" | "read-events" | "read-stream")
}

/// Returns the number of requests that an operation sends at once.
pub(super) fn requests(operation: &Operation) -> u64 {
    operation.fields.get("requests").and_then(serde_json::Value::as_u64).unwrap_or(1)
}

/// Returns whether an operation may send requests after those of operations that came later. It reads or
/// writes piece by piece, or it does one task after the other, or it waits for the start of its process,
/// which is one of the `open` operations.
pub(super) fn sends_later(open: &[&Operation], operation: &Operation) -> bool {
    let process = |operation: &Operation| operation.fields.get("process").cloned();
    let is_its_start = |other: &&Operation| {
        other.verb == "start" && process(other).is_some() && process(other) == process(operation)
    };
    let in_pieces = ["read-blocks", "read-all", "write-stream", "use-files"];
    in_pieces.contains(&operation.verb.as_str())
        || operation.verb != "start" && open.iter().any(is_its_start)
}

/// Returns the number of tasks with files of an operation.
pub(super) fn tasks(operation: &Operation) -> u64 {
    let tasks = operation.fields.get("tasks").and_then(Value::as_array);
    tasks.map_or(1, |tasks| tasks.len() as u64)
}

/// A disk that hangs for less than this delays a call less than the margin of its bounds.
const SHORT_HANG: Duration = Duration::from_secs(1);

/// Returns whether a disk, a process, or a slow user of a host may hold a call of this host:
///
/// - a call on a file whose disk hangs: it also waits for the calls on this file that came before it, and an
///   outage may have taken a part of its time;
/// - a call on a process whose launch takes some time;
/// - a write to a process that never reads its input, or slowly, or that prints each line that it
///   reads, and reads no more while its output waits for the user. Then the server queues only so many
///   bytes of input.
pub(super) fn is_held(plan: &Plan, all: &[&Operation], call: &Operation) -> bool {
    let process = |operation: &Operation| operation.fields.get("process").cloned();
    let is_write =
        |operation: &&Operation| matches!(operation.verb.as_str(), "write" | "write-stream");
    if files::hangs(plan, call) >= SHORT_HANG {
        return true;
    }
    let Some(name) = process(call) else { return false };
    let setup: Setup = name.as_str().and_then(|name| plan.entry(TABLE, name)).unwrap_or_default();
    if setup.launch_takes.is_some() {
        return true;
    }
    if !is_write(&call) {
        return false;
    }
    let limits = plan.limits.over(LIMITS);
    let (client, server) = (client_limits(&limits), server_limits(&limits));
    let is_controlled = server.flow_window(client.flow_window()).is_some();
    let own = || all.iter().copied().filter(|other| process(other).as_ref() == Some(&name));
    let is_slow = own().any(|other| other.pauses().is_some() || !other.looks_after().is_zero());
    let bytes = |write: &Operation| written_bytes(write).unwrap_or_default().max(LONGEST_LINE);
    let written = own().filter(is_write).map(bytes).fold(0, u64::saturating_add);
    let waits_for_its_user = is_controlled && setup.stdin == Input::Echo && is_slow;
    let reads_slowly = setup.stdin == Input::Ignore || setup.reads_every.is_some();
    (waits_for_its_user || reads_slowly) && written > server.stdin_bytes as u64
}

/// Returns the declared number of bytes that an operation writes.
pub(super) fn written_bytes(operation: &Operation) -> Option<u64> {
    read_size(operation.fields.get("bytes")?.as_str()?).ok()
}

/// Returns the declared maximum size of the answer to a read.
fn read_most(operation: &Operation) -> Option<u64> {
    read_size(operation.fields.get("max-bytes")?.as_str()?).ok()
}

/// The minimum size of a retained chunk in bytes, unless the chunk is a line.
pub(super) const KEPT: u64 = CHUNK as u64 / 2;

/// Returns the part of the output of a process that the server keeps for reads.
pub(super) fn retained(server: &ServerLimits) -> Retention {
    Retention {
        items: Some(server.retained_chunks as u64),
        piece: Some(KEPT),
        bytes: Some(server.retained_bytes as u64),
    }
}

/// The most bytes of a written line without a declared length.
pub(super) const LONGEST_LINE: u64 = 40;

/// Returns the number of bytes of all answers to an operation that reads output. Each answer to a
/// pipeline contains the first chunk of what the process prints, or echoes. The answers to `read-all`
/// contain all of it. The answer to a `read` contains what the server retains of it, up to the maximum
/// size of the answer. The answers to other operations are short, or part of a stream.
pub(super) fn answer_bytes(plan: &Plan, operation: &Operation) -> u64 {
    let process = operation.fields.get("process").and_then(serde_json::Value::as_str);
    let verb = operation.verb.as_str();
    let (Some(process), "pipeline" | "read-all" | "read") = (process, verb) else { return 0 };
    let setup: Setup = plan.entry(TABLE, process).unwrap_or_default();
    let printed = || [setup.print, setup.stderr].into_iter().flatten();
    let (echoes, echoed) = match setup.stdin {
        Input::Echo => written(plan, process),
        Input::Read | Input::Ignore => (0, 0),
    };
    let lines = printed().map(|lines| lines.lines).fold(echoes, u64::saturating_add);
    let printed = printed().map(printed_bytes).fold(echoed, u64::saturating_add);
    let chunk = printed.min(CHUNK as u64);
    if verb == "pipeline" {
        return requests(operation).saturating_mul(chunk + AROUND as u64);
    }
    // A piece is a line that the server read alone, or half a chunk of a longer one.
    let pieces = lines.saturating_add(printed / KEPT).saturating_add(1);
    let (bytes, pieces) = if verb == "read" {
        let limits = server_limits(&plan.limits.over(LIMITS));
        let most = read_most(operation).map_or(u64::MAX, |most| most.max(chunk));
        let most = most.min(limits.retained_bytes.max(CHUNK) as u64);
        (printed.min(most), pieces.min(limits.retained_chunks as u64).min(most))
    } else {
        (printed, pieces)
    };
    bytes.saturating_add(pieces.saturating_mul(AROUND as u64))
}

/// Returns the number of bytes in these lines.
fn printed_bytes(lines: PrintedLines) -> u64 {
    lines.lines.saturating_mul(lines.bytes.map_or(LINE, |bytes| bytes.0))
}

/// Returns the number of lines that all users write to a process in a run, and of their bytes.
fn written(plan: &Plan, process: &str) -> (u64, u64) {
    let writes = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Operation(operation) if operation.verb.starts_with("write") => {
            Some(read::<ExecOperation>(operation).expect("operations are checked before a run"))
        }
        _ => None,
    });
    let lengths = writes.filter_map(|write| match write {
        ExecOperation::Write { process: to, bytes, .. }
        | ExecOperation::WriteStream { process: to, bytes, .. }
            if to == process =>
        {
            Some(bytes.map_or(LONGEST_LINE, |bytes| bytes.0.max(LONGEST_LINE)))
        }
        _ => None,
    });
    lengths.fold((0, 0), |(lines, all), length| (lines + 1, length.saturating_add(all)))
}

/// The maximum length of a printed line that states no length.
const LINE: u64 = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::schedule::{LimitValue, When};

    #[test]
    fn operations_are_read_as_they_are_written_in_a_file() {
        for value in [
            json!({ "start": { "process": "p1" } }),
            json!({ "start": { "process": "p1", "tty": true, "looks-after": "3s", "patience": "10ms" } }),
            json!({ "start": { "process": "p1", "reads": { "pause": "1s", "every": "4KiB" } } }),
            json!({ "read": { "process": "p1", "after": 3, "max-bytes": "1B", "wait": "5s" } }),
            json!({ "read": { "process": "p1", "after": "last-received", "wait": "5s" } }),
            json!({ "read": { "process": "p1", "after": 0, "wait": "5s", "patience": "300ms" } }),
            json!({ "read-all": { "process": "p1", "page": "64KiB", "wait": "20s" } }),
            json!({ "write": { "process": "p1" } }),
            json!({ "write": { "process": "p1", "bytes": "4KiB", "patience": "8s" } }),
            json!({ "pipeline": { "process": "p1", "requests": 300 } }),
            json!({ "interrupt": { "process": "p1" } }),
            json!({ "terminate": { "process": "p1" } }),
            json!({ "read": { "process": "p1", "after": 0, "older": true } }),
            json!({ "write": { "process": "p1", "older": true } }),
            json!({ "interrupt": { "process": "p1", "older": true } }),
            json!({ "terminate": { "process": "p1", "older": true } }),
            json!({ "drop-handle": { "process": "p1" } }),
            json!({ "write-file": { "file": "f1", "bytes": "4KiB" } }),
            json!({ "read-file": { "file": "f1" } }),
            json!({ "read-blocks": { "file": "f1" } }),
            json!({ "remove-file": { "file": "f1" } }),
            json!({ "unfollow": { "process": "p1" } }),
            json!({ "read-events": { "process": "p1", "wait": "20s", "reads": { "pause": "1s", "every": "4KiB" } } }),
            json!({ "watch-file": { "file": "f1" } }),
            json!({ "start": { "process": "p1", "command": { "arguments": ["a"], "directory": "/w", "policy": { "inherits": "core", "without-secrets": true, "excludes": ["A*"] } } } }),
            json!({ "read-stream": { "process": "p1", "wait": "20s" } }),
            json!({ "write-stream": { "process": "p1", "bytes": "200KiB" } }),
            json!({ "write-stream": { "process": "p1", "shuts-down": true } }),
            json!({ "http": { "body": "b1", "head": { "stops": true, "headers": [["a", "b"]], "variables": [["c", "HOME"]] } } }),
            json!({ "await-state": { "state": "recovering", "wait": "5s" } }),
            json!({ "close-client": {} }),
            json!({ "use-files": { "tasks": [{ "list": { "path": "/d" } }, { "read-blocks": { "path": "/d/f", "blocks": [[0, 3]] } }], "says": ["nothing"], "apart": true, "every": "1s", "patience": "20s" } }),
            json!({ "http": { "body": "b1" } }),
            json!({ "http": { "body": "b1", "wait": "20s" } }),
            json!({ "http-stream": { "body": "b1", "pause": "1s", "drops-after": 3 } }),
        ] {
            let operation: ExecOperation = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(operation).unwrap(), value);
        }
    }

    #[test]
    fn an_answer_has_bytes_around_each_line() {
        let mut plan = Plan::new("exec");
        let print = json!({ "lines": 1500, "bytes": "20B" });
        plan.setup.insert("process".into(), json!({ "p1": { "print": print, "stdin": "echo" } }));
        let operation = |verb: &str, fields: serde_json::Value| {
            let fields = fields.as_object().expect("fields").clone();
            Operation { verb: verb.into(), client: "client".into(), fields }
        };
        let own = json!({ "process": "p1" });
        let all = |plan: &Plan, verb| answer_bytes(plan, &operation(verb, own.clone()));
        let (bytes, around) = (1_500 * 20, AROUND as u64);
        let pieces = |bytes: u64| 1_500 + bytes / KEPT + 1;
        let long = bytes + pieces(bytes) * around;
        assert_eq!([all(&plan, "read"), all(&plan, "read-all")], [long, long]);
        let write = Action::Operation(operation("write", own.clone()));
        let echoes = plan.clone().step(When::At(Duration::ZERO), write);
        let echoed = long + LONGEST_LINE + around;
        assert_eq!([all(&echoes, "read"), all(&echoes, "read-all")], [echoed, echoed]);
        let short = operation("read", json!({ "process": "p1", "max-bytes": "1B" }));
        let chunk = CHUNK as u64;
        assert_eq!(answer_bytes(&plan, &short), chunk + pieces(bytes) * around);
        let mut retained = plan.clone();
        retained.limits.set("server.retained-chunks", LimitValue::Count(3));
        assert_eq!(all(&retained, "read"), bytes + 3 * around);
        assert_eq!(all(&retained, "read-all"), long, "its pages are read one after the other");
        retained.limits.set("server.retained-bytes", LimitValue::Bytes(1));
        assert_eq!(all(&retained, "read"), chunk + 3 * around, "it retains a chunk at least");
    }

    #[test]
    fn a_slow_launch_holds_each_call_and_a_slow_reader_the_writes_without_room() {
        let operation = |verb: &str, fields: serde_json::Value| {
            let fields = fields.as_object().expect("fields").clone();
            Operation { verb: verb.into(), client: "client".into(), fields }
        };
        let plan = |process: serde_json::Value| {
            let mut plan = Plan::new("exec");
            plan.setup.insert("process".into(), json!({ "p1": process }));
            plan
        };
        let own = || json!({ "process": "p1" });
        let [start, read] = ["start", "read"].map(|verb| operation(verb, own()));
        let write = |bytes: &str| operation("write", json!({ "process": "p1", "bytes": bytes }));
        let (small, large) = (write("256KiB"), write("257KiB"));
        let held = |process: serde_json::Value| {
            let plan = plan(process);
            [&start, &read, &small, &large].map(|call| is_held(&plan, &[call], call))
        };
        assert_eq!(held(json!({})), [false; 4]);
        assert_eq!(held(json!({ "launch-takes": "1s" })), [true; 4]);
        assert_eq!(held(json!({ "reads-every": "1s" })), [false, false, false, true]);
        assert_eq!(held(json!({ "stdin": "ignore" })), [false, false, false, true]);

        let read_file = operation("read-file", json!({ "file": "f1" }));
        let is_held = |file: serde_json::Value| {
            let mut plan = Plan::new("exec");
            plan.setup.insert("file".into(), json!({ "f1": file }));
            is_held(&plan, &[&read_file], &read_file)
        };
        assert!(!is_held(json!({})) && !is_held(json!({ "hangs": "200ms" })));
        assert!(is_held(json!({ "hangs": "3s" })) && is_held(json!({ "reads-hang": "1s" })));
    }

    #[test]
    fn the_client_answers_a_subscription_itself() {
        let operation = |verb: &str| Operation {
            verb: verb.into(),
            client: "client".into(),
            fields: serde_json::Map::new(),
        };
        let answers_alone = |verb| is_local(&operation(verb));
        assert!(["await-state", "read-events", "read-stream"].into_iter().all(answers_alone));
        assert!(!["read", "read-all", "write"].into_iter().any(answers_alone));
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
