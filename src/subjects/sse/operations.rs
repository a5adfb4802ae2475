//! The operations of a client's user, as plain data.
//!
//! `p1` is an entry of `[process.p1]`: what the command really does. A command of another host is named
//! with `of`.

use std::time::Duration;

use proptest::option;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use proptest::sample::select;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::wrong::WrongRequest;
use crate::history::Class;
use crate::schedule::Plan;
use crate::schedule::units::{Size, WrittenDuration};
use crate::subject::Operations;
use crate::subjects::pace::ReadingPace;
use crate::world::process::TABLE;

/// An operation of a client's user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SseOperation {
    /// Runs a command, and follows it from its first event. If the same host runs it again, its record is
    /// `p1.2`.
    #[serde(rename_all = "kebab-case")]
    Run {
        /// The process: an entry of `[process.NAME]`.
        process: String,
        /// Whether the answer to the start only reports the start. The user follows the command in the same
        /// way.
        #[serde(default, skip_serializing_if = "is_false")]
        background: bool,
        /// The id of the command; by default, one that no other start has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// How long the command may run; default: without limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time_limit: Option<WrittenDuration>,
        /// How slowly the user reads; default: at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reads: Option<ReadingPace>,
        /// How long the user waits before it drops its question for the next item, and asks again; default:
        /// until there is an item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        polls: Option<WrittenDuration>,
    },
    /// Follows a command that was started before. A follower of this host that follows the command is
    /// closed first.
    #[serde(rename_all = "kebab-case")]
    Follow {
        /// The command.
        #[serde(flatten)]
        command: CommandName,
        /// Where the stream continues.
        #[serde(default)]
        from: From,
        /// How slowly the user reads; default: at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reads: Option<ReadingPace>,
        /// How long the user waits before it drops its question for the next item, and asks again; default:
        /// until there is an item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        polls: Option<WrittenDuration>,
    },
    /// Closes the window that follows a command. The command goes on.
    Leave(CommandName),
    /// Asks a command to end.
    Interrupt(CommandName),
    /// Asks for the state of a command.
    Status(CommandName),
    /// Reads the logs of a background command, page by page, until the command has ended.
    #[serde(rename_all = "kebab-case")]
    Logs {
        /// The command.
        #[serde(flatten)]
        command: CommandName,
        /// How long the user continues to ask.
        wait: WrittenDuration,
    },
    /// Asks for the stream of a command with this text as the cursor, and reads the head of the answer.
    #[serde(rename_all = "kebab-case")]
    Ask {
        /// The command.
        #[serde(flatten)]
        command: CommandName,
        /// The cursor. `RUN` in it becomes the run that this host knows.
        cursor: String,
        /// The parameter `after_eid`. If it is given, the cursor is in the header `Last-Event-ID`, which
        /// counts. By default, the cursor is the parameter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parameter: Option<String>,
    },
    /// Reads the stream of a command as a standard client of server-sent events does, and shows its lines.
    #[serde(rename_all = "kebab-case")]
    Listen {
        /// The command.
        #[serde(flatten)]
        command: CommandName,
        /// The header `Last-Event-ID`; by default, there is none. `RUN` in it becomes the run that this
        /// host knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<String>,
        /// How long the user reads.
        wait: WrittenDuration,
    },
    /// Opens the stream of a command, and never reads from the connection.
    #[serde(rename_all = "kebab-case")]
    Stick {
        /// The command.
        #[serde(flatten)]
        command: CommandName,
        /// How long the connection stays open.
        wait: WrittenDuration,
    },
    /// Sends a request that the server must refuse.
    #[serde(rename_all = "kebab-case")]
    Wrong {
        /// The command that the request is about, if it is about one.
        #[serde(flatten)]
        command: CommandName,
        /// The request.
        request: WrongRequest,
    },
    /// Runs a command in a shell session. Its record is `client-session/p1`, and `client-session/p1.2` if
    /// the same host does that again.
    #[serde(rename_all = "kebab-case")]
    Session {
        /// The process: an entry of `[process.NAME]`.
        process: String,
        /// The process in whose newest session of this host it runs. By default, it gets a new session, which
        /// the user deletes after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        with: Option<String>,
        /// How long the command may run; default: without limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time_limit: Option<WrittenDuration>,
        /// The owner that the request names, in its form on the wire; by default, it names none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
    },
    /// Asks the newest shell session in which this host runs a command to end what it runs.
    #[serde(rename_all = "kebab-case")]
    InterruptSession {
        /// The process of the command.
        process: String,
    },
    /// Deletes the newest shell session in which this host runs a command.
    #[serde(rename_all = "kebab-case")]
    DeleteSession {
        /// The process of the command.
        process: String,
    },
}

/// A command that was started before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CommandName {
    /// The process.
    pub process: String,
    /// The host that started it; by default, the host of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The id of the command, if it was started with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Where a stream continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum From {
    /// At the first event.
    #[default]
    Start,
    /// After the last event that a user of this host received. The host stores the cursor on its disk.
    Last,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Operations for SseOperation {
    fn class(&self) -> Class {
        match self {
            Self::Run { .. } | Self::Follow { .. } => Class::Durable,
            Self::Session { .. } => Class::Bound,
            _ => Class::InFlight,
        }
    }

    fn strategy(plan: &Plan) -> BoxedStrategy<Self> {
        let mut names: Vec<String> = plan.entries(TABLE).map(|(name, _)| name.to_owned()).collect();
        if names.is_empty() {
            names.push("p1".to_owned());
        }
        let process = select(names).boxed();
        let of = prop_oneof![3 => Just(None), 2 => Just(Some("client".to_owned()))];
        let command = (process.clone(), of)
            .prop_map(|(process, of)| CommandName { process, of, id: None })
            .boxed();
        let pace = (select(vec![50, 300, 2_000]), select(vec![64, 4_096, 65_536]))
            .prop_map(|(ms, bytes)| ReadingPace { pause: millis(ms), every: Size(bytes) });
        let reads = option::weighted(0.25, pace).boxed();
        let polls = option::weighted(0.15, select(vec![100, 700]).prop_map(millis)).boxed();
        let time_limit = prop_oneof![
            4 => Just(None), 1 => Just(Some(millis(2_000))), 1 => Just(Some(millis(15_000))),
        ]
        .boxed();
        let background = prop_oneof![3 => Just(false), 1 => Just(true)];
        let from = prop_oneof![Just(From::Start), Just(From::Last)];
        let cursor =
            select(vec!["", "x", "-1", "99999", "RUN-0", "RUN-99999", "7c0ffee15bad0042-1"]);
        let wait = select(vec![2_000, 20_000]).prop_map(millis).boxed();
        let with = option::of(process.clone());
        let session = (process.clone(), with, time_limit.clone());
        let delete = process.clone().prop_map(|process| Self::DeleteSession { process });
        let interrupt = process.clone().prop_map(|process| Self::InterruptSession { process });
        prop_oneof![
            6 => (process, background, time_limit, reads.clone(), polls.clone()).prop_map(|(process, background, time_limit, reads, polls)| {
                Self::Run { process, background, id: None, time_limit, reads, polls }
            }),
            4 => (command.clone(), from, reads, polls).prop_map(|(command, from, reads, polls)| {
                Self::Follow { command, from, reads, polls }
            }),
            2 => command.clone().prop_map(Self::Leave),
            1 => command.clone().prop_map(Self::Interrupt),
            2 => command.clone().prop_map(Self::Status),
            2 => (command.clone(), wait.clone()).prop_map(|(command, wait)| Self::Logs { command, wait }),
            1 => (command.clone(), cursor, select(&[None, None, Some("0")][..])).prop_map(|(command, cursor, parameter)| {
                Self::Ask { command, cursor: cursor.to_owned(), parameter: parameter.map(str::to_owned) }
            }),
            1 => (command.clone(), wait).prop_map(|(command, wait)| Self::Stick { command, wait }),
            2 => (command, select(WrongRequest::ALL)).prop_map(|(command, request)| Self::Wrong { command, request }),
            2 => session.prop_map(|(process, with, time_limit)| Self::Session { process, with, time_limit, owner: None }),
            1 => delete,
            1 => interrupt,
        ]
        .boxed()
    }
}

fn millis(ms: u64) -> WrittenDuration {
    WrittenDuration(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_are_read_as_they_are_written_in_a_file() {
        for value in [
            json!({ "run": { "process": "p1" } }),
            json!({ "run": { "process": "p1", "background": true, "id": "x", "time-limit": "2s", "reads": { "pause": "1s", "every": "4KiB" } } }),
            json!({ "run": { "process": "p1", "polls": "100ms" } }),
            json!({ "follow": { "process": "p1", "of": "client", "from": "last" } }),
            json!({ "follow": { "process": "p1", "from": "start", "polls": "700ms" } }),
            json!({ "leave": { "process": "p1" } }),
            json!({ "interrupt": { "process": "p1", "id": "x" } }),
            json!({ "status": { "process": "p1" } }),
            json!({ "logs": { "process": "p1", "wait": "20s" } }),
            json!({ "ask": { "process": "p1", "cursor": "-1" } }),
            json!({ "listen": { "process": "p1", "last": "RUN-1", "wait": "5s" } }),
            json!({ "stick": { "process": "p1", "of": "client", "wait": "5s" } }),
            json!({ "wrong": { "process": "p1", "request": "no-token" } }),
            json!({ "session": { "process": "p1" } }),
            json!({ "session": { "process": "p1", "time-limit": "2s" } }),
            json!({ "session": { "process": "p1", "with": "p2" } }),
            json!({ "session": { "process": "p1", "owner": "?" } }),
            json!({ "interrupt-session": { "process": "p1" } }),
            json!({ "delete-session": { "process": "p1" } }),
        ] {
            let operation: SseOperation = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(operation).unwrap(), value);
        }
    }
}
