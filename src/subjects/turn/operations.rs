//! The operations of a client's user, as plain data.

use std::time::Duration;

use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use proptest::sample::select;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::setup::TABLE;
use crate::history::Class;
use crate::schedule::Plan;
use crate::schedule::units::WrittenDuration;
use crate::subject::Operations;

/// An operation of a client's user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TurnOperation {
    /// Runs a task to its verdict. Each task runs in a separate client, as each command of a user
    /// does.
    #[serde(rename_all = "kebab-case")]
    Task {
        /// The turn: an entry of `[turn.NAME]`.
        turn: String,
        /// The way to an app-server.
        #[serde(default)]
        route: RouteSetup,
        /// The account of the command. A broker and an app-server of another account are not used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<String>,
        /// Whether it runs as a job: in the background, in a worker that outlives the command.
        #[serde(default, skip_serializing_if = "is_false")]
        background: bool,
        /// Whether the program of the worker cannot be started. For a command that is no job:
        /// whether its own app-server cannot be started.
        #[serde(default, skip_serializing_if = "is_false")]
        unstartable: bool,
        /// How long the worker of the job takes to begin.
        #[serde(default, skip_serializing_if = "is_default")]
        worker_takes: WrittenDuration,
        /// The session of the job.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Whether it continues the thread of this user's last task that is over, if there is one.
        #[serde(default, skip_serializing_if = "is_false")]
        resume: bool,
        /// The wishes of the user.
        #[serde(default, skip_serializing_if = "is_default")]
        wishes: Wishes,
    },
    /// Runs a review to its verdict, in the same way.
    #[serde(rename_all = "kebab-case")]
    Review {
        /// The turn: an entry of `[turn.NAME]`.
        turn: String,
        /// The way to an app-server.
        #[serde(default)]
        route: RouteSetup,
        /// The changes to review.
        #[serde(default, skip_serializing_if = "is_default")]
        of: Of,
        /// Whether the user asks for a separate thread.
        #[serde(default, skip_serializing_if = "is_false")]
        detached: bool,
        /// Whether it looks for reasons against the changes.
        #[serde(default, skip_serializing_if = "is_false")]
        adversarial: bool,
        /// A subject that matters most to the user of an adversarial review.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
        /// Whether it runs as a job.
        #[serde(default, skip_serializing_if = "is_false")]
        background: bool,
        /// The session of the job.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// The wishes of the user. A review has no prompt, and changes no files.
        #[serde(default, skip_serializing_if = "is_default")]
        wishes: Wishes,
    },
    /// Cancels all runs of a turn that this user started and that have no verdict yet, and the active
    /// jobs of the turn.
    #[serde(rename_all = "kebab-case")]
    Cancel {
        /// The turn.
        turn: String,
    },
    /// Kills the clients of all runs of a turn that this user started and that have no verdict yet, and
    /// the workers of its jobs: they vanish without a word.
    #[serde(rename_all = "kebab-case")]
    Abandon {
        /// The turn.
        turn: String,
    },
    /// Asks the workers of a turn's jobs to end, as an operator does: with SIGTERM. No command records that.
    #[serde(rename_all = "kebab-case")]
    StopWorker {
        /// The turn.
        turn: String,
    },
    /// Interrupts all runs of a turn that this user started and that have no verdict yet, over another
    /// connection to the broker, as a second command of the user does.
    #[serde(rename_all = "kebab-case")]
    Interrupt {
        /// The turn.
        turn: String,
    },
    /// Shows the jobs of the user's machine.
    Jobs {},
    /// Waits until the jobs of a turn are over.
    #[serde(rename_all = "kebab-case")]
    AwaitJob {
        /// The turn.
        turn: String,
        /// How long the user waits for each job, at most.
        wait: WrittenDuration,
    },
    /// Ends a session of the user: cancels its active jobs.
    #[serde(rename_all = "kebab-case")]
    EndSession {
        /// The session.
        session: String,
    },
    /// Damages the records of a turn's jobs, as an editor or a full disk may do.
    #[serde(rename_all = "kebab-case")]
    DamageRecord {
        /// The turn.
        turn: String,
        /// How.
        #[serde(default, skip_serializing_if = "is_default")]
        how: Damage,
    },
    /// Shows the record of a turn's job, as the file contains it.
    #[serde(rename_all = "kebab-case")]
    ReadRecord {
        /// The turn.
        turn: String,
    },
    /// Removes the records of old jobs, and files without a record.
    PruneJobs {},
    /// Sends lines to the broker over a separate connection, and shows what the broker sends.
    #[serde(rename_all = "kebab-case")]
    Speak {
        /// The lines. `LETTERS` in them becomes the letters.
        lines: Vec<String>,
        /// The number of letters. If no line contains them, they are one more line, which comes first; none
        /// by default.
        #[serde(default, skip_serializing_if = "is_default")]
        letters: usize,
        /// Whether the user ends the output after the lines.
        #[serde(default, skip_serializing_if = "is_false")]
        ends: bool,
        /// How long the user reads.
        wait: WrittenDuration,
    },
    /// Asks the broker to end.
    Shutdown {},
    /// Kills the broker of the user's machine with signal 9: the process that its record names.
    #[serde(rename_all = "kebab-case")]
    KillBroker {
        /// Whether another program of the user gets its process id then, and runs for 20 s.
        #[serde(default, skip_serializing_if = "is_false")]
        stranger: bool,
    },
    /// Damages the record of the broker of the user's machine: removes its second half.
    DamageBroker {},
    /// Holds the lock of the job records of the user's machine, as a command that hangs does.
    #[serde(rename_all = "kebab-case")]
    HoldJobs {
        /// How long.
        lasts: WrittenDuration,
    },
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The wishes of the user of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Wishes {
    /// Whether the agent may change files.
    #[serde(skip_serializing_if = "is_false")]
    pub write: bool,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The prompt of a task.
    #[serde(skip_serializing_if = "is_default")]
    pub prompt: Prompt,
}

/// The prompt of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Prompt {
    /// A short line.
    #[default]
    Short,
    /// Several long lines.
    Long,
    /// None, if the task continues a thread. Its model then names the turn.
    None,
}

/// The changes to review. Their name contains that of the turn; if they have none, the model names the
/// turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// Those that instructions name.
    #[default]
    Custom,
    /// Those that are not committed.
    Uncommitted,
    /// Those since a branch.
    Branch,
    /// Those of a commit.
    Commit,
}

/// The damage of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// Its second half is missing.
    #[default]
    Half,
    /// It is empty.
    Emptied,
    /// It was removed.
    Removed,
    /// It names another job.
    Renamed,
    /// It has a later version.
    Newer,
    /// It names no process.
    Orphaned,
    /// It is longer by 64 KiB.
    Grown,
    /// It contains no order.
    Orderless,
    /// It contains a member that no program knows.
    Extended,
}

/// The way to an app-server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouteSetup {
    /// Through the broker; if it is busy or absent, as `direct`.
    #[default]
    BrokerOrDirect,
    /// Through the broker only.
    Broker,
    /// The client starts its own app-server.
    Direct,
    /// Through the broker of the client's machine, which the client finds or starts; if it is busy or
    /// does not start, as `direct`.
    Workspace,
}

/// The names of the routes.
const ROUTES: [(RouteSetup, &str); 4] = [
    (RouteSetup::BrokerOrDirect, "broker-or-direct"),
    (RouteSetup::Broker, "broker"),
    (RouteSetup::Direct, "direct"),
    (RouteSetup::Workspace, "workspace"),
];

impl RouteSetup {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        ROUTES.iter().find(|(route, _)| *route == self).map_or("", |(_, name)| name)
    }

    /// Returns the route with this name.
    pub fn named(name: &str) -> Option<Self> {
        ROUTES.iter().find(|(_, known)| *known == name).map(|(route, _)| *route)
    }
}

/// The subject of a drawn review, whether it is detached, whether it is adversarial, and its focus.
type ReviewKind = (Of, bool, bool, Option<String>);

impl Operations for TurnOperation {
    fn class(&self) -> Class {
        Class::InFlight
    }

    fn strategy(plan: &Plan) -> BoxedStrategy<Self> {
        let mut turns: Vec<String> = plan.entries(TABLE).map(|(name, _)| name.to_owned()).collect();
        if turns.is_empty() {
            turns.push("t1".to_owned());
        }
        let turn = select(turns).boxed();
        let route = prop_oneof![
            5 => Just(RouteSetup::BrokerOrDirect),
            3 => Just(RouteSetup::Broker),
            2 => Just(RouteSetup::Direct),
            4 => Just(RouteSetup::Workspace),
        ];
        let run = (turn.clone(), route).boxed();
        let account = prop_oneof![2 => Just(None), 1 => select(vec!["a", "b"]).prop_map(Some)];
        let session = select(vec!["s1".to_owned(), "s2".to_owned()]).boxed();
        let background = prop_oneof![3 => Just(None), 1 => session.clone().prop_map(Some)];
        let resume = prop_oneof![3 => Just(false), 1 => Just(true)];
        let unstartable = prop_oneof![7 => Just(false), 1 => Just(true)];
        let takes = select(vec![0, 0, 2, 6]);
        let takes = takes.prop_map(|s| WrittenDuration(Duration::from_secs(s)));
        let stranger = prop_oneof![1 => Just(false), 3 => Just(true)];
        let wish =
            |name: &'static str| prop_oneof![4 => Just(None), 1 => Just(Some(name.to_owned()))];
        let prompt =
            prop_oneof![4 => Just(Prompt::Short), 1 => Just(Prompt::Long), 1 => Just(Prompt::None)];
        let wishes =
            (prop_oneof![3 => Just(false), 1 => Just(true)], wish("m1"), wish("high"), prompt);
        let wishes = wishes.prop_map(|(write, model, effort, prompt)| Wishes {
            write,
            model,
            effort,
            prompt,
        });
        let wishes = wishes.boxed();
        let of = prop_oneof![3 => Just(Of::Custom), 1 => Just(Of::Uncommitted), 1 => Just(Of::Branch), 1 => Just(Of::Commit)];
        let kind = (
            of,
            prop_oneof![3 => Just(false), 1 => Just(true)],
            prop_oneof![2 => Just(false), 1 => Just(true)],
            wish("races"),
        );
        let reviewed = prop_oneof![4 => Just(None), 1 => session.clone().prop_map(Some)];
        let review = |((turn, route), (of, detached, adversarial, focus), session, wishes): (
            (_, _),
            ReviewKind,
            Option<String>,
            Wishes,
        )| {
            let background = session.is_some();
            // The title of a job names its turn.
            let of = if background && of == Of::Uncommitted { Of::Custom } else { of };
            let (detached, focus) = (detached && !adversarial, focus.filter(|_| adversarial));
            // A review has no prompt, and changes no files.
            let wishes = Wishes { write: false, prompt: Prompt::Short, ..wishes };
            Self::Review {
                turn,
                route,
                of,
                detached,
                adversarial,
                focus,
                background,
                session,
                wishes,
            }
        };
        let damage = select(vec![Damage::Half, Damage::Emptied, Damage::Renamed, Damage::Newer]);
        type TaskDraw<'a> = (
            (String, RouteSetup),
            Option<&'a str>,
            Option<String>,
            (bool, bool, WrittenDuration),
            Wishes,
        );
        let task = |(run, account, session, (resume, unstartable, takes), wishes): TaskDraw<'_>| {
            let (turn, route) = run;
            // Only a broker of the client's machine is chosen by its account.
            let account = account.filter(|_| route == RouteSetup::Workspace).map(str::to_owned);
            let background = session.is_some();
            // A job continues no thread. One that was drawn to do so has no session.
            let session = session.filter(|_| !resume);
            let (resume, unstartable) = (resume && !background, unstartable && background);
            let worker_takes = if background { takes } else { WrittenDuration::default() };
            Self::Task {
                turn,
                route,
                account,
                background,
                unstartable,
                worker_takes,
                session,
                resume,
                wishes,
            }
        };
        let wait = select(vec![1, 4, 15]).prop_map(|s| WrittenDuration(Duration::from_secs(s)));
        prop_oneof![
            9 => (run.clone(), account, background, (resume, unstartable, takes), wishes.clone()).prop_map(task),
            3 => (run, kind, reviewed, wishes).prop_map(review),
            2 => turn.clone().prop_map(|turn| Self::Cancel { turn }),
            2 => turn.clone().prop_map(|turn| Self::Abandon { turn }),
            1 => turn.clone().prop_map(|turn| Self::Interrupt { turn }),
            1 => session.prop_map(|session| Self::EndSession { session }),
            1 => (turn.clone(), damage).prop_map(|(turn, how)| Self::DamageRecord { turn, how }),
            1 => Just(Self::PruneJobs {}),
            1 => (turn, wait).prop_map(|(turn, wait)| Self::AwaitJob { turn, wait }),
            1 => stranger.prop_map(|stranger| Self::KillBroker { stranger }),
            1 => Just(Self::Shutdown {}),
        ]
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_are_read_as_they_are_written_in_a_file() {
        for value in [
            json!({ "task": { "turn": "t1", "route": "direct" } }),
            json!({ "review": { "turn": "t1", "route": "broker-or-direct" } }),
            json!({ "cancel": { "turn": "t1" } }),
            json!({ "abandon": { "turn": "t1" } }),
            json!({ "stop-worker": { "turn": "t1" } }),
            json!({ "interrupt": { "turn": "t1" } }),
            json!({ "shutdown": {} }),
            json!({ "task": { "turn": "t1", "route": "workspace", "account": "a" } }),
            json!({ "kill-broker": {} }),
            json!({ "kill-broker": { "stranger": true } }),
            json!({ "task": { "turn": "t1", "route": "direct", "background": true, "worker-takes": "2s" } }),
            json!({ "task": { "turn": "t1", "route": "direct", "background": true, "session": "s1" } }),
            json!({ "task": { "turn": "t1", "route": "broker", "resume": true } }),
            json!({ "task": { "turn": "t1", "route": "direct", "background": true, "unstartable": true } }),
            json!({ "jobs": {} }),
            json!({ "await-job": { "turn": "t1", "wait": "5s" } }),
            json!({ "end-session": { "session": "s1" } }),
            json!({ "damage-record": { "turn": "t1" } }),
            json!({ "read-record": { "turn": "t1" } }),
        ] {
            let operation: TurnOperation = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(operation).unwrap(), value);
        }
        let short: TurnOperation =
            serde_json::from_value(json!({ "task": { "turn": "t1" } })).unwrap();
        let route = RouteSetup::BrokerOrDirect;
        let task = TurnOperation::Task {
            turn: "t1".into(),
            route,
            account: None,
            background: false,
            unstartable: false,
            worker_takes: WrittenDuration::default(),
            session: None,
            resume: false,
            wishes: Wishes::default(),
        };
        assert_eq!(short, task);
        for (route, name) in ROUTES {
            assert_eq!(serde_json::to_value(route).unwrap(), name);
            assert_eq!(RouteSetup::named(name), Some(route));
        }
    }
}
