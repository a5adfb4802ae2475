//! The chat in a world: the server writes 80 lines, and the user of each client follows them. The
//! client records them under its own name.
use proptest::strategy::{BoxedStrategy, Just, Strategy};
use reknit::history::{Call, Class, Stream};
use reknit::schedule::{Host, Limits, Plan};
use reknit::subject::{HostContext, MilestoneDoc, OperationQueue, Operations, Subject};
use reknit::{net::Endpoint, property::Guarantees};
use tokio::{sync::watch, task::JoinSet, time::sleep};

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Operation {
    /// Follows the log.
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

pub struct Chat;
impl Subject for Chat {
    type Operation = Operation;
    fn name(&self) -> &'static str {
        "chat"
    }
    fn description(&self) -> &'static str {
        "a chat log that clients follow across reconnects"
    }
    fn milestones(&self) -> &'static [MilestoneDoc] {
        &[MilestoneDoc {
            name: "chat.client.connected",
            fields: &["generation", "conn"],
            doc: "a client connected",
            only: None,
        }]
    }
    fn generation_milestone(&self) -> Option<&'static str> {
        Some("chat.client.connected")
    }
    fn guarantees(&self, _: &Limits) -> Guarantees {
        let (detection, attempt) = (crate::SILENCE, crate::SILENCE * 2); // connect, and get an answer
        let (recovery, back_off) = (crate::PATIENCE - detection, crate::PAUSE + attempt);
        Guarantees { attempt, back_off, ..Guarantees::recovering(detection, recovery) }
    }
    async fn serve(&self, host: HostContext) {
        let (id, at) = (host.env.entropy.below(u64::MAX), Endpoint::tcp("server", 80));
        let (said, log) = watch::channel(crate::Log { id, lines: Vec::new() });
        let talk = async {
            for n in 1..=80 {
                sleep(std::time::Duration::from_millis(250)).await;
                let line = format!("line {n} of log {id}");
                let logs = (1..=host.plan.clients)
                    .map(|n| Stream(format!("{}-log", Host::client(n)).into()));
                logs.for_each(|log| host.record.produced(&log, line.clone()));
                said.send_modify(|log| log.lines.push(line));
            }
        };
        let _ = tokio::join!(talk, crate::serve(&host.env.net, &at, log));
    }
    async fn drive(&self, host: HostContext, mut operations: OperationQueue<Operation>) {
        let mut users = JoinSet::new();
        while let Some((call, Operation::Follow {})) = operations.next().await {
            users.spawn(follow(host.clone(), call, users.is_empty()));
        }
    }
}

async fn follow(host: HostContext, call: Call, first: bool) {
    if !first {
        return host.record.refused(call, "it is followed already");
    }
    let log = Stream(format!("{}-log", host.name).into());
    host.record.opened(&log, call);
    let on_line =
        |generation, line: &str| host.record.delivered(&log, line.to_owned(), Some(generation));
    let Err(why) = crate::follow(&host.env.net, &Endpoint::tcp("server", 80), on_line).await;
    host.record.failed_stream(&log, why.to_string());
}
