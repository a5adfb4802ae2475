//! The subject `eventsource`: users of the crate `eventsource-client`, and our sse server with simulated
//! processes.
//!
//! A user starts a command with the client itself. The client repeats the same request after each loss, with
//! `Last-Event-ID`, and the server continues the command instead of running it again. The user trusts the
//! client: it takes every event that the client returns. Only if the client loses its connection before the
//! first event, the user gives up: the first event names the run of the command.

use std::time::Duration;

use proptest::strategy::{BoxedStrategy, Strategy};
use reknit::history::{Class, Side};
use reknit::net::Endpoint;
use reknit::property::{Guarantees, WorkBounds};
use reknit::schedule::{Limit, Limits, Plan};
use reknit::subject::tables::{limit, milestone, millis, secs};
use reknit::subject::{
    Dissector, HostContext, LineMessages, MilestoneDoc, OperationQueue, Operations, Subject,
};
use reknit::world::process;
use reknit_sse::limits::ServerLimits;
use reknit_sse::server::{Server, ServerConfig};

use crate::user::{self, PARTS};

/// The address of the server.
pub(crate) fn server() -> Endpoint {
    Endpoint::tcp("server", 80)
}

/// An operation of a user.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Operation {
    /// Starts a command and follows it: it behaves like `[process.NAME]`. Each user starts a process once.
    Run {
        /// The entry.
        process: String,
    },
}

impl Operations for Operation {
    fn class(&self) -> Class {
        Class::InFlight
    }

    fn strategy(plan: &Plan) -> BoxedStrategy<Self> {
        let mut names: Vec<String> =
            plan.entries(process::TABLE).map(|(name, _)| name.to_owned()).collect();
        names.push("p1".to_owned());
        proptest::sample::select(names).prop_map(|process| Self::Run { process }).boxed()
    }
}

const LIMITS: &[Limit] = &[
    limit("client.pause", millis(200), millis(1), "the pause between two attempts"),
    limit(
        "client.silence",
        secs(3),
        millis(100),
        "after how long without a byte a connection counts as dead",
    ),
    limit("server.heartbeat", secs(1), millis(10), "the pause between two signs of life"),
    limit(
        "server.takeover-after",
        secs(3),
        millis(1),
        "after how long without progress a stream can be replaced",
    ),
    limit(
        "server.write-deadline",
        secs(5),
        millis(100),
        "how long a connection may refuse to take bytes",
    ),
];

const MILESTONES: &[MilestoneDoc] = &[
    milestone(
        "eventsource.client.opened",
        &["generation", "conn"],
        "the client opened a connection",
    ),
    milestone(
        "eventsource.client.connected",
        &["generation"],
        "their client says that it is connected",
    ),
    milestone("eventsource.client.lost", &[], "their client reports an error, and goes on"),
];

/// The client of the crate `eventsource-client`, and our server.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventSourceSubject;

impl Subject for EventSourceSubject {
    type Operation = Operation;

    fn name(&self) -> &'static str {
        "eventsource"
    }

    fn description(&self) -> &'static str {
        "the client of the crate eventsource-client against our sse server"
    }

    fn limits(&self) -> &'static [Limit] {
        LIMITS
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        MILESTONES
    }

    fn swarm(&self) -> Option<&'static str> {
        Some(include_str!("../scenarios/eventsource/swarm-default.toml"))
    }

    fn port(&self) -> u16 {
        80
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        vec![(process::TABLE, process::schema())]
    }

    async fn serve(&self, host: HostContext) {
        let listener = match host.env.net.listen(&server()).await {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot listen"),
        };
        let limits = ServerLimits {
            heartbeat: host.limits.duration("server.heartbeat"),
            takeover_after: host.limits.duration("server.takeover-after"),
            write_deadline: host.limits.duration("server.write-deadline"),
            ..ServerLimits::default()
        };
        // Without a shell, a command line is the name of a process.
        let config = ServerConfig { shell: Vec::new(), ..ServerConfig::default() };
        Server::new(&host.env, config, limits).serve(listener).await;
    }

    async fn drive(&self, host: HostContext, operations: OperationQueue<Operation>) {
        user::run(host, operations).await;
    }

    fn guarantees(&self, limits: &Limits) -> Guarantees {
        let silence = limits.duration("client.silence");
        // The server refuses a client until the old stream of the client shows no life.
        let recovery = limits.duration("server.takeover-after") + silence;
        Guarantees {
            gives_up: false,
            attempt: silence,
            back_off: limits.duration("client.pause") + silence,
            round_trips: 3,
            parts: PARTS,
            work: WorkBounds {
                attempts: 200,
                attempts_a_minute: 200 * 60, // the pauses do not grow
                attempts_per_item: 0,
                frames: 400,
                polls: 400,
            },
            settle: Duration::from_secs(310) + limits.duration("server.write-deadline"),
            ..Guarantees::recovering(silence, recovery)
        }
    }

    fn dissector(&self, _: Side) -> Box<dyn Dissector> {
        Box::new(LineMessages::default())
    }
}
