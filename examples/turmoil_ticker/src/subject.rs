//! The ticker in a world: it counts to 80, and the user of each client follows it. It uses
//! turmoil's sockets, so it runs only on stock turmoil.
//!
//! reknit can apply to such sockets the faults that turmoil offers for its links: partitions,
//! stalls, delays, slow links, and hosts that die and restart. The world cannot close an end of
//! such a connection: `cut` and `reset` have no effect, and a refused connection hangs.
use proptest::strategy::{BoxedStrategy, Just, Strategy};
use reknit::history::{Call, Class, Stream};
use reknit::property::Guarantees;
use reknit::schedule::{Host, Limits, Plan};
use reknit::subject::{HostContext, OperationQueue, Operations, Subject};
use tokio::{sync::watch, task::JoinSet, time::sleep};

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Operation {
    /// Follows the count.
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

#[derive(Default)]
pub struct Ticker {
    /// Whether the clients are hasty. This is a bug.
    pub hasty: bool,
}

impl Subject for Ticker {
    type Operation = Operation;
    fn name(&self) -> &'static str {
        "ticker"
    }
    fn description(&self) -> &'static str {
        "a ticker that clients follow across reconnects, over turmoil::net"
    }
    fn guarantees(&self, _: &Limits) -> Guarantees {
        let (detection, attempt) = (crate::SILENCE, crate::SILENCE * 2); // connect, and get an answer
        let (recovery, back_off) = (crate::PATIENCE - detection, crate::PAUSE + attempt);
        Guarantees { attempt, back_off, ..Guarantees::recovering(detection, recovery) }
    }
    async fn serve(&self, host: HostContext) {
        let name = host.env.entropy.below(u64::MAX);
        let (counted, count) = watch::channel(crate::Count { name, reached: 0 });
        let tick = async {
            for n in 1..=80 {
                sleep(std::time::Duration::from_millis(250)).await;
                let counts = (1..=host.plan.clients)
                    .map(|n| Stream(format!("{}-count", Host::client(n)).into()));
                counts.for_each(|count| host.record.produced(&count, format!("{n} of {name}")));
                counted.send_modify(|count| count.reached = n);
            }
        };
        let _ = tokio::join!(tick, crate::serve(count));
    }
    async fn drive(&self, host: HostContext, mut operations: OperationQueue<Operation>) {
        let mut users = JoinSet::new();
        while let Some((call, Operation::Follow {})) = operations.next().await {
            users.spawn(follow(host.clone(), call, users.is_empty(), self.hasty));
        }
    }
}

async fn follow(host: HostContext, call: Call, first: bool, hasty: bool) {
    if !first {
        return host.record.refused(call, "it is followed already");
    }
    let count = Stream(format!("{}-count", host.name).into());
    host.record.opened(&count, call);
    let on_number = |name: &str, connections, n| {
        host.record.delivered(&count, format!("{n} of {name}"), Some(connections))
    };
    let Err(why) = crate::follow("server", hasty, on_number).await;
    host.record.failed_stream(&count, why.to_string());
}
