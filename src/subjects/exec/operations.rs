//! What the user of an exec client can ask for: plain data.
//!
//! `p1` is an entry of `[process.p1]`, which says what the process really does; `b1` one of `[web.b1]`, which says what the HTTP
//! server behind the exec server answers.

use std::time::Duration;

use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::web;
use crate::history::Class;
use crate::schedule::Plan;
use crate::schedule::units::{Size, WrittenDuration};
use crate::subject::Operations;

/// What the user of a client can ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ExecOperation {
    /// Starts a process, and follows its events from the first on. Started again on the same host, its record is `p1.2`.
    #[serde(rename_all = "kebab-case")]
    Start {
        /// The process: an entry of `[process.NAME]`.
        process: String,
        /// Whether it gets a terminal in the place of pipes.
        #[serde(default, skip_serializing_if = "is_false")]
        tty: bool,
        /// How long after its start the user begins to look at its events; at once where it is left out.
        #[serde(default, skip_serializing_if = "WrittenDuration::is_zero")]
        looks_after: WrittenDuration,
        /// How long the user waits for the start before it thinks better of it; as long as it takes where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        patience: Option<WrittenDuration>,
    },
    /// Asks for what a process has printed after an event, and waits for it if there is nothing yet.
    #[serde(rename_all = "kebab-case")]
    Read {
        /// The process.
        process: String,
        /// The event: its number, or `"scripted"` for the last one that its user was told of.
        #[serde(default)]
        after: After,
        /// No more bytes than this, but one chunk at least.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_bytes: Option<Size>,
        /// How long to wait.
        #[serde(default, skip_serializing_if = "WrittenDuration::is_zero")]
        wait: WrittenDuration,
    },
    /// Reads all that a process prints, page after page, until it is told to be closed.
    #[serde(rename_all = "kebab-case")]
    ReadAll {
        /// The process.
        process: String,
        /// How many bytes a page has, at most.
        page: Size,
        /// How long the user goes on.
        wait: WrittenDuration,
    },
    /// Writes a line to the standard input of a process.
    #[serde(rename_all = "kebab-case")]
    Write {
        /// The process.
        process: String,
        /// How long the line is; as long as it must be where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Size>,
        /// How long the user waits for the process to take it; as long as it takes where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        patience: Option<WrittenDuration>,
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
    /// Drops the handle of a process, and what follows it. The process runs on.
    #[serde(rename_all = "kebab-case")]
    DropHandle {
        /// The process.
        process: String,
    },
    /// Has the server send an HTTP request, and waits for the whole answer.
    #[serde(rename_all = "kebab-case")]
    Http {
        /// What is asked for: an entry of `[web.NAME]`.
        body: String,
    },
    /// The same, with a body that comes piece by piece. Its record is `h7`, after the number of the call.
    #[serde(rename_all = "kebab-case")]
    HttpStream {
        /// What is asked for: an entry of `[web.NAME]`.
        body: String,
        /// How long the user pauses after each piece; not at all where it is left out.
        #[serde(default, skip_serializing_if = "WrittenDuration::is_zero")]
        pause: WrittenDuration,
        /// After how many pieces the user drops the body; never where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drops_after: Option<u64>,
    },
}

/// After which event a read asks for more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "this must be the number of an event, or \"told\"")]
pub enum After {
    /// The event of this number; all of them where it is 0.
    Event(u64),
    /// The last one that the user was told of: it polls for what comes next.
    Told(Word),
}

/// A word of its own in the place of a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// What the user was told.
    Told,
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
    /// The process that must have been started for it.
    pub(super) fn uses(&self) -> Option<&str> {
        match self {
            Self::Read { process, .. }
            | Self::ReadAll { process, .. }
            | Self::Write { process, .. }
            | Self::Interrupt { process }
            | Self::Terminate { process }
            | Self::DropHandle { process } => Some(process),
            Self::Start { .. } | Self::Http { .. } | Self::HttpStream { .. } => None,
        }
    }
}

impl Operations for ExecOperation {
    fn class(&self) -> Class {
        match self {
            Self::Read { .. } | Self::ReadAll { .. } | Self::DropHandle { .. } => Class::Durable,
            Self::HttpStream { .. } => Class::Bound,
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
        let bytes = prop_oneof![4 => Just(None), 1 => select(vec![100, 4096, 100_000]).prop_map(|bytes| Some(Size(bytes)))];
        let patience = prop_oneof![5 => Just(None), 1 => select(vec![0, 10, 1_000]).prop_map(|ms| Some(WrittenDuration(Duration::from_millis(ms))))];
        // Now and then something that cannot be launched: nobody knows it.
        let launched = prop_oneof![24 => process.clone(), 1 => Just("nobody".to_owned())];
        let start =
            (launched, prop_oneof![5 => Just(false), 1 => Just(true)], looks_after, patience);
        let after = prop_oneof![
            1 => Just(After::Event(0)), 1 => (0..50_u64).prop_map(After::Event), 4 => Just(After::Told(Word::Told)),
        ];
        let read = (process.clone(), after, max_bytes, wait);
        let body = select(declared(plan, web::TABLE, "b1")).boxed();
        let drops_after = prop_oneof![4 => Just(None), 1 => (1..10_u64).prop_map(Some)];
        // A reader is through soon after the body: whoever is much slower ends when it likes, also behind the end of the connection.
        let pause = prop_oneof![2 => Just(0), 1 => Just(20)]
            .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
        let streamed = (body.clone(), pause, drops_after);
        let unread: Vec<String> = plan
            .entries("process")
            .filter(|(_, entry)| entry.get("stdin").is_some_and(|stdin| stdin == "ignore"))
            .map(|(name, _)| name.to_owned())
            .collect();
        // Boxed one by one: a choice of large trees is moved often while it is drawn.
        prop_oneof![
            5 => start.prop_map(|(process, tty, looks_after, patience)| Self::Start { process, tty, looks_after, patience }).boxed(),
            5 => (process.clone(), bytes).prop_map(move |(process, bytes)| {
                let patience = unread.contains(&process).then_some(NO_READER);
                Self::Write { process, bytes, patience }
            }).boxed(),
            2 => read.prop_map(|(process, after, max_bytes, wait)| Self::Read { process, after, max_bytes, wait }).boxed(),
            1 => (process.clone(), page).prop_map(|(process, page)| {
                Self::ReadAll { process, page, wait: WrittenDuration(Duration::from_secs(20)) }
            }).boxed(),
            1 => (process, any::<u8>()).prop_map(|(process, which)| match which % 4 {
                0 => Self::Interrupt { process },
                1 | 2 => Self::Terminate { process },
                _ => Self::DropHandle { process },
            }).boxed(),
            1 => body.prop_map(|body| Self::Http { body }).boxed(),
            2 => streamed.prop_map(|(body, pause, drops_after)| Self::HttpStream { body, pause, drops_after }).boxed(),
        ]
        .boxed()
    }
}

/// How long a user waits for a process that never reads to take what is written to it.
const NO_READER: WrittenDuration = WrittenDuration(Duration::from_secs(8));

/// The names that a table of the plan declares; one that every world has a default for, where there are none.
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
            json!({ "read": { "process": "p1", "after": 3, "max-bytes": "1B", "wait": "5s" } }),
            json!({ "read": { "process": "p1", "after": "told", "wait": "5s" } }),
            json!({ "read-all": { "process": "p1", "page": "64KiB", "wait": "20s" } }),
            json!({ "write": { "process": "p1" } }),
            json!({ "write": { "process": "p1", "bytes": "4KiB", "patience": "8s" } }),
            json!({ "interrupt": { "process": "p1" } }),
            json!({ "terminate": { "process": "p1" } }),
            json!({ "drop-handle": { "process": "p1" } }),
            json!({ "http": { "body": "b1" } }),
            json!({ "http-stream": { "body": "b1", "pause": "1s", "drops-after": 3 } }),
        ] {
            let operation: ExecOperation = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(operation).unwrap(), value);
        }
    }

    #[test]
    fn mistakes_say_what_would_be_right() {
        let mistake =
            |value| serde_json::from_value::<ExecOperation>(value).unwrap_err().to_string();
        assert!(
            mistake(json!({ "read": { "process": "p1", "wait": "1us" } }))
                .contains("`1us` is not a duration")
        );
        assert!(
            mistake(json!({ "read": { "process": "p1", "after": "tomorrow" } }))
                .contains("or \"told\"")
        );
        assert!(
            mistake(json!({ "start": { "process": "p1", "speed": 1 } }))
                .contains("unknown field `speed`")
        );
    }
}
