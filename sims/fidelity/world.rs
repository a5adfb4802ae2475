//! A world: the same exchanges over simulated sockets, and the table of differences from Linux.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit::history::EventKind;
use reknit::net::{Endpoint, Net};
use reknit::property::Guarantees;
use reknit::schedule::{Action, Conn, Fault, Limits, Plan, Step, When, faults};
use reknit::subject::{DynSubject, HostContext, Nothing, OperationQueue, Subject};
use reknit::world::{Options, run};

use crate::stage::{Exchange, RESET_AT, Stage, Toward};

/// An exchange with different observations in a world and on Linux.
pub struct Differs {
    /// The name of the exchange.
    pub exchange: &'static str,
    /// The observations in a world.
    pub world: &'static [&'static str],
    /// The reason why the difference stays.
    pub because: &'static str,
}

/// The remaining differences. Each row is pinned: if a world shows anything else, even the result
/// of Linux, the suite fails.
pub const DIFFERS: &[Differs] = &[Differs {
    exchange: "listen_again_while_a_connection_lives",
    world: &["listener closes", "second listener listens: AddrInUse"],
    because: "the simulated stack refuses to bind a port that still has a connection; a restarted host has none",
}];

/// Runs an exchange in a world; returns what the ends observed.
pub fn play(exchange: &'static Exchange) -> Vec<String> {
    let subject: Arc<dyn DynSubject> = Arc::new(Played { exchange, server: Mutex::default() });
    let mut plan = Plan::new("played");
    plan.latency = (Duration::from_millis(1), Duration::from_millis(5));
    if let Some(toward) = exchange.reset {
        let host = match toward {
            Toward::Client => "client",
            Toward::Server => "server",
        };
        let reset = Fault::Reset(faults::Reset {
            conn: Conn::number("client", 1),
            toward: Some(host.into()),
        });
        plan.steps = vec![Step { when: When::At(RESET_AT), action: Action::Fault(reset) }];
    }
    let history = run(&subject, &plan, &Options::default()).expect("a world runs").history;
    let lines = history.events.iter().filter_map(|event| match &event.what {
        EventKind::Delivered { bytes, .. } => {
            Some(String::from_utf8_lossy(&bytes.whole()).into_owned())
        }
        EventKind::Panicked { message } => Some(format!("panicked: {message}")),
        _ => None,
    });
    lines.collect()
}

/// A subject that runs one exchange: its client host controls both ends, over the networks of both
/// hosts.
struct Played {
    exchange: &'static Exchange,
    server: Mutex<Option<Net>>,
}

impl Subject for Played {
    type Operation = Nothing;

    fn name(&self) -> &'static str {
        "played"
    }

    fn description(&self) -> &'static str {
        "one exchange"
    }

    async fn serve(&self, host: HostContext) {
        *self.server.lock().unwrap() = Some(host.env.net);
        std::future::pending().await
    }

    async fn drive(&self, host: HostContext, _: OperationQueue<Nothing>) {
        let server = self.server.lock().unwrap().clone().expect("servers start first");
        // The network causes the reset: the end that would send it keeps its socket, and stays
        // silent.
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = kept.clone();
        let reset = Arc::new(move |stream| keep.lock().unwrap().push(stream));
        let stage = Stage::new(host.env.net.clone(), server, Endpoint::tcp("server", 80), reset);
        for line in self.exchange.on(stage).await {
            host.record.delivered(&"said".into(), line, None);
        }
        kept.lock().unwrap().clear();
    }

    fn guarantees(&self, _: &Limits) -> Guarantees {
        Guarantees::default()
    }
}
