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
        /// Whether the program of the worker cannot be started.
        #[serde(default, skip_serializing_if = "is_false")]
        unstartable: bool,
        /// The session of the job.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Whether it continues the thread of this user's last task that is over, if there is one.
        #[serde(default, skip_serializing_if = "is_false")]
        resume: bool,
    },
    /// Runs a review to its verdict, in the same way.
    #[serde(rename_all = "kebab-case")]
    Review {
        /// The turn: an entry of `[turn.NAME]`.
        turn: String,
        /// The way to an app-server.
        #[serde(default)]
        route: RouteSetup,
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
    /// Cuts the records of a turn's jobs in half, as an editor or a full disk may do.
    #[serde(rename_all = "kebab-case")]
    DamageRecord {
        /// The turn.
        turn: String,
    },
    /// Asks the broker to end.
    Shutdown {},
    /// Kills the broker of the user's machine with signal 9: the process that its record names.
    KillBroker {},
}

fn is_false(value: &bool) -> bool {
    !value
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
        let task = |((turn, route), account, session, (resume, unstartable)): (
            (_, _),
            Option<&str>,
            Option<String>,
            (bool, bool),
        )| {
            // Only a broker of the client's machine is chosen by its account.
            let account = account.filter(|_| route == RouteSetup::Workspace).map(str::to_owned);
            let background = session.is_some();
            // A job continues no thread. One that was drawn to do so has no session.
            let session = session.filter(|_| !resume);
            let (resume, unstartable) = (resume && !background, unstartable && background);
            Self::Task { turn, route, account, background, unstartable, session, resume }
        };
        let wait = select(vec![1, 4, 15]).prop_map(|s| WrittenDuration(Duration::from_secs(s)));
        prop_oneof![
            9 => (run.clone(), account, background, (resume, unstartable)).prop_map(task),
            3 => run.prop_map(|(turn, route)| Self::Review { turn, route }),
            2 => turn.clone().prop_map(|turn| Self::Cancel { turn }),
            2 => turn.clone().prop_map(|turn| Self::Abandon { turn }),
            1 => turn.clone().prop_map(|turn| Self::Interrupt { turn }),
            1 => session.prop_map(|session| Self::EndSession { session }),
            1 => turn.clone().prop_map(|turn| Self::DamageRecord { turn }),
            1 => (turn, wait).prop_map(|(turn, wait)| Self::AwaitJob { turn, wait }),
            1 => Just(Self::KillBroker {}),
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
            json!({ "interrupt": { "turn": "t1" } }),
            json!({ "shutdown": {} }),
            json!({ "task": { "turn": "t1", "route": "workspace", "account": "a" } }),
            json!({ "kill-broker": {} }),
            json!({ "task": { "turn": "t1", "route": "direct", "background": true, "session": "s1" } }),
            json!({ "task": { "turn": "t1", "route": "broker", "resume": true } }),
            json!({ "task": { "turn": "t1", "route": "direct", "background": true, "unstartable": true } }),
            json!({ "jobs": {} }),
            json!({ "await-job": { "turn": "t1", "wait": "5s" } }),
            json!({ "end-session": { "session": "s1" } }),
            json!({ "damage-record": { "turn": "t1" } }),
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
            session: None,
            resume: false,
        };
        assert_eq!(short, task);
        for (route, name) in ROUTES {
            assert_eq!(serde_json::to_value(route).unwrap(), name);
            assert_eq!(RouteSetup::named(name), Some(route));
        }
    }
}
