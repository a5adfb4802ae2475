//! A world: the same exchanges over simulated sockets, and the table of what differs from Linux.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit::history::EventKind;
use reknit::net::{Endpoint, Net};
use reknit::property::Guarantees;
use reknit::schedule::{Action, Conn, Fault, Limits, Plan, Step, When};
use reknit::subject::{DynSubject, HostContext, Nothing, Operated, Subject};
use reknit::world::{Options, run};

use crate::stage::{Exchange, RESET_AT, Stage, Toward};

/// An exchange of which a world shows something else than Linux.
pub struct Differs {
    /// Its name.
    pub exchange: &'static str,
    /// What a world shows.
    pub world: &'static [&'static str],
    /// Why it stays so.
    pub because: &'static str,
}

/// What still differs. Each row is pinned: a world that shows something else, also what Linux shows, fails the suite.
pub const DIFFERS: &[Differs] = &[Differs {
    exchange: "listen_again_while_a_connection_lives",
    world: &["listener closes", "second listener listens: AddrInUse"],
    because: "the simulated stack binds no port at which a connection is still held; a host that died and starts again holds none",
}];

/// Plays an exchange in a world, and returns what the ends saw.
pub fn play(exchange: &'static Exchange) -> Vec<String> {
    let subject: Arc<dyn DynSubject> = Arc::new(Played { exchange, server: Mutex::default() });
    let mut plan = Plan::new("played");
    plan.latency = (Duration::from_millis(1), Duration::from_millis(5));
    if let Some(toward) = exchange.reset {
        let host = match toward {
            Toward::Client => "client",
            Toward::Server => "server",
        };
        let reset = Fault::Reset { conn: Conn::number("client", 1), toward: Some(host.into()) };
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

/// A subject that plays one exchange: its client host moves both ends, over both hosts' networks.
struct Played {
    exchange: &'static Exchange,
    server: Mutex<Option<Net>>,
}

impl Subject for Played {
    type Operation = Nothing;

    fn name(&self) -> &'static str {
        "played"
    }

    fn about(&self) -> &'static str {
        "one exchange"
    }

    async fn serve(&self, host: HostContext) {
        *self.server.lock().unwrap() = Some(host.env.net);
        std::future::pending().await
    }

    async fn drive(&self, host: HostContext, _: Operated<Nothing>) {
        let server = self.server.lock().unwrap().clone().expect("servers start first");
        // The network brings the reset: the end that would send it keeps its socket, and says nothing more.
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
