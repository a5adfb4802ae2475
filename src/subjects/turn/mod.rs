//! The subject `turn`: the adapter that runs [`reknit_turn`] in a world.
//!
//! - [`operations`]: the operations of a user. [`setup`]: how the app-server plays a turn.
//! - [`app_server`]: the app-server of the outside world, a program that a broker or a client launches.
//!   [`notes`]: what it records. `played`, `items`, `subagents`, `extras`: what it sends about a turn.
//! - [`workspace`]: the broker of a client's machine, a process of that machine. [`jobs`]: the jobs of
//!   that machine, and their workers.
//! - `user`: the user of a client, who records the [outcomes](outcome) of commands. `heard`: the network of a
//!   client, which records the news of the threads of others.
//! - [`tables`]: milestones, points, defects, rules. [`variants`]: versions, as sets of defects.
//!   [`limits`]: sizes and deadlines.
//! - `properties`, `story`: the specific properties, and the facts that they read.
//!
//! Each host plays one machine. The host `broker` runs the broker, and the broker's app-server is its
//! child process. Clients connect to the broker, or launch their own app-server. With the route
//! `workspace`, they find or start a broker on their own machine. Each command runs in a separate
//! client, because each command of a user is a separate process.

use std::time::Duration;

use super::census::counted;
use crate::history::Stream;
use crate::net::Endpoint;
use crate::property::{CheckContext, Guarantees, Property, Violation, WorkBounds};
use crate::schedule::{Limit, Limits};
use crate::subject::{
    DefectDoc, HostContext, MilestoneDoc, OperationQueue, PointDoc, Program, Rule, Subject,
    VariantDoc,
};
use reknit_turn::broker::Broker;
use reknit_turn::upstream::Upstream;
use reknit_turn::wire::{ClientInfo, InitializeParams};

pub mod app_server;
mod extras;
mod heard;
mod items;
pub mod jobs;
pub mod limits;
pub mod notes;
pub mod operations;
pub mod outcome;
#[cfg(test)]
mod page;
mod played;
mod properties;
mod route;
pub mod setup;
mod story;
mod subagents;
pub mod tables;
mod user;
pub mod variants;
pub mod workspace;

use notes::{BrokerCounted, BrokerExited};
use operations::TurnOperation;
use setup::{BROKER, PORT};

/// The subject for [`reknit_turn`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn;

/// How long a supervisor waits before it starts the broker again.
const RESTART: Duration = Duration::from_millis(500);

/// Joins two tables.
macro_rules! joined {
    ($row:ty: $first:expr, $second:expr) => {{
        const FIRST: &[$row] = $first;
        const SECOND: &[$row] = $second;
        const ALL: [$row; FIRST.len() + SECOND.len()] = {
            let mut all = [FIRST[0]; FIRST.len() + SECOND.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = if at < FIRST.len() { FIRST[at] } else { SECOND[at - FIRST.len()] };
                at += 1;
            }
            all
        };
        &ALL
    }};
}

impl Subject for Turn {
    type Operation = TurnOperation;

    fn name(&self) -> &'static str {
        "turn"
    }

    fn description(&self) -> &'static str {
        "turns of an app-server, alone or shared through a broker: each turn gets exactly one verdict"
    }

    fn limits(&self) -> &'static [Limit] {
        joined!(Limit: limits::LIMITS, jobs::limits::LIMITS)
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        joined!(MilestoneDoc: tables::MILESTONES, jobs::tables::MILESTONES)
    }

    fn points(&self) -> &'static [PointDoc] {
        joined!(PointDoc: tables::POINTS, jobs::tables::POINTS)
    }

    fn defects(&self) -> &'static [DefectDoc] {
        joined!(DefectDoc: tables::DEFECTS, jobs::tables::DEFECTS)
    }

    fn variants(&self) -> &'static [VariantDoc] {
        variants::VARIANTS
    }

    fn rules(&self) -> &'static [Rule] {
        joined!(Rule: tables::RULES, jobs::tables::RULES)
    }

    fn swarm(&self) -> Option<&'static str> {
        Some(include_str!("../../../scenarios/turn/swarm-default.toml"))
    }

    fn servers(&self) -> &'static [&'static str] {
        &[BROKER]
    }

    fn port(&self) -> u16 {
        PORT
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        vec![
            (setup::TABLE, schemars::schema_for!(setup::TurnSetup)),
            (setup::APP_SERVERS, schemars::schema_for!(setup::AppServerSetup)),
        ]
    }

    fn programs(&self) -> &'static [Program] {
        &[app_server::PROGRAM, workspace::PROGRAM, workspace::STRANGER, jobs::worker::PROGRAM]
    }

    /// Runs the broker, and starts it again when it ends, as a supervisor does.
    async fn serve(&self, host: HostContext) {
        loop {
            let exit = serve_once(&host).await;
            host.record.observed(&Stream::from(BROKER), BrokerExited(exit));
            tokio::time::sleep(RESTART).await;
        }
    }

    async fn drive(&self, host: HostContext, operations: OperationQueue<TurnOperation>) {
        user::TurnUser::new(host).run(operations).await;
    }

    fn guarantees(&self, limits: &Limits) -> Guarantees {
        let (turn, connection) = (limits::turn(limits), limits::connection(limits));
        let broker = limits::broker(limits);
        // A command: requests, a turn, an interrupt, and the end of the app-server; twice, because it
        // can fall back to its own app-server.
        let ends = connection.close + connection.terminate + Duration::from_secs(1);
        let client = limits::client(limits);
        let search = limits::start(limits);
        let start = search.start * 2
            + search.probe * 2
            + client.connect
            + client.busy
            + connection.request * 3;
        let command = start + turn.absolute + turn.interrupt * 2 + ends;
        let cancel = jobs::limits::cancel(limits);
        let end_of_a_job = cancel.interrupt + cancel.grace + jobs::limits::jobs(limits).lock * 3;
        Guarantees {
            attempt: command * 2 + end_of_a_job * 4,
            work: WorkBounds {
                attempts: 20,
                // A command that looks for its broker connects each 50 ms until the broker is up, and
                // one command may follow the other.
                attempts_a_minute: 20 * 60,
                attempts_per_item: 0,
                frames: 400,
                polls: 400,
            },
            settle: broker.settle + broker.shutdown + broker.reserve + turn.interrupt + ends,
            ..Guarantees::fail_fast()
        }
    }

    fn properties(&self) -> &'static [Property] {
        properties::OWN
    }

    fn violations(&self, cx: &CheckContext<'_>) -> Vec<Violation> {
        properties::violations(cx)
    }
}

/// Runs a broker to its end. Returns its exit status.
async fn serve_once(host: &HostContext) -> u8 {
    let limits = limits::broker(&host.limits);
    let command = app_server::command(None);
    let upstream = match Upstream::launch(&host.env, command, limits.connection).await {
        Ok(upstream) => upstream,
        Err(error) => {
            tracing::error!(%error, "cannot launch the app-server");
            return 1;
        }
    };
    let at = Endpoint::tcp(BROKER, PORT);
    let listener = match host.env.net.listen(&at).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cannot listen");
            return 1;
        }
    };
    let info = ClientInfo { name: "broker".into(), title: None, version: "1".into() };
    let broker = Broker::new(limits, &InitializeParams::new(info));
    let handle = broker.handle();
    let serving = broker.serve(upstream, listener);
    let counts = (move || handle.counts(), BrokerCounted::data as fn(_) -> _);
    counted(&host.record, Stream::from(BROKER), counts, serving).await.status()
}
