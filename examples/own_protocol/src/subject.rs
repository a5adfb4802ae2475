//! The chat in a world: 80 lines are said, one every 250 ms, and whoever uses a client follows them.
use std::time::Duration;

use proptest::strategy::{BoxedStrategy, Just, Strategy};
use reknit::history::{Class, Stream};
use reknit::schedule::{Host, Limits, Plan};
use reknit::subject::{HostContext, MilestoneDoc, Operated, Operations, Subject};
use reknit::{net::Endpoint, property::Promise};
use tokio::{sync::watch, task::JoinSet, time::sleep};

/// What the user of a client can ask for.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Operation {
    /// To follow the log.
    Follow {},
}

impl Operations for Operation {
    fn class(&self) -> Class {
        Class::Durable
    }
    fn strategy(_: &Plan) -> BoxedStrategy<Self> {
        Just(Operation::Follow {}).boxed()
    }
}

/// The log as one user has it: each has a name of its own for it.
fn log_of(client: &Host) -> Stream {
    format!("{client}-log").as_str().into()
}

pub struct Chat;

impl Subject for Chat {
    type Operation = Operation;
    fn name(&self) -> &'static str {
        "chat"
    }
    fn about(&self) -> &'static str {
        "a chat log that clients follow across reconnects"
    }
    fn milestones(&self) -> &'static [MilestoneDoc] {
        &[MilestoneDoc { name: "chat.client.connected", fields: &["generation", "conn"], doc: "a client connected", only: None }]
    }
    fn generation_milestone(&self) -> Option<&'static str> {
        Some("chat.client.connected")
    }

    async fn serve(&self, host: HostContext) {
        let id = host.env.entropy.below(u64::MAX);
        let (said, log) = watch::channel(crate::Log { id, lines: Vec::new() });
        let talk = async {
            for n in 1..=80 {
                sleep(Duration::from_millis(250)).await;
                let line = format!("line {n} of log {id}");
                let users = (1..=host.plan.clients).map(|n| log_of(&Host::client(n)));
                users.for_each(|log| host.record.produced(&log, line.clone()));
                said.send_modify(|log| log.lines.push(line));
            }
        };
        let at = Endpoint::tcp("server", 80);
        let _ = tokio::join!(talk, crate::serve(&host.env.net, &at, log));
    }

    async fn drive(&self, host: HostContext, mut operations: Operated<Operation>) {
        let mut following = JoinSet::new();
        while let Some((call, Operation::Follow {})) = operations.next().await {
            let (net, record, log) = (host.env.net.clone(), host.record.clone(), log_of(&host.name));
            if !following.is_empty() {
                record.answered(call, "refused: it is followed already");
                continue;
            }
            record.opened(&log, call);
            following.spawn(async move {
                let told = |generation, line: &str| record.delivered(&log, line.to_owned(), Some(generation));
                let Err(why) = crate::follow(&net, &Endpoint::tcp("server", 80), told).await;
                record.broke(&log, why.to_string());
            });
        }
    }

    fn promise(&self, _: &Limits) -> Promise {
        let (detection, attempt) = (crate::SILENCE, crate::SILENCE * 2); // to connect, and to be answered
        let (recovery, back_off) = (crate::PATIENCE - detection, crate::PAUSE + attempt);
        Promise { detection, recovery, attempt, back_off, ..Promise::default() }
    }
}
