//! A broker: it starts an app-server and shares it among the clients of one directory.
//!
//! ```console
//! $ cargo run -p reknit-turn --example turn_broker -- /tmp/broker
//! ```
//!
//! The broker listens at the unix socket `broker.sock` in the directory, and writes the record
//! `broker.json` beside it. It starts `codex app-server` in the current folder. The variable
//! `TURN_APP_SERVER` names another program, and the variable `CODEX_HOME` is the account.
//!
//! SIGTERM, Ctrl-C or the request `broker/shutdown` ends the broker: running turns are interrupted, and
//! their clients get their ends. The exit status is 0 if the broker was asked to end, 2 if the arguments
//! are invalid, and 1 if the app-server ended by itself or the broker could not start.

use std::error::Error;
use std::path::PathBuf;

use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_seams::process::Command;
use reknit_turn::broker::{Broker, BrokerHandle, Publication};
use reknit_turn::limits::{BrokerLimits, StartLimits};
use reknit_turn::upstream::Upstream;
use reknit_turn::wire::{ClientInfo, InitializeParams};
use tokio::signal::unix::{SignalKind, signal};

const NAME: &str = "turn_broker";

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let status = match (arguments.next().map(std::path::absolute), arguments.next()) {
        (Some(Ok(directory)), None) => match serve(directory).await {
            Ok(status) => status,
            Err(error) => {
                eprintln!("{NAME}: {error}");
                1
            }
        },
        _ => {
            eprintln!("usage: {NAME} DIRECTORY");
            2
        }
    };
    std::process::exit(status);
}

/// Serves a directory. Returns the exit status.
async fn serve(directory: PathBuf) -> Result<i32, Box<dyn Error>> {
    let env = Env::real();
    let (limits, at) = (BrokerLimits::default(), Endpoint::unix(directory.join("broker.sock")));
    let account = env.machine.variables.get("CODEX_HOME").cloned().unwrap_or_default();
    let start = StartLimits::default();
    let (publication, listener) = Publication::open(&env, &directory, &at, &account, start).await?;
    let program = std::env::var("TURN_APP_SERVER").unwrap_or_else(|_| "codex".into());
    let app_server = Command {
        argv: vec![program, "app-server".into()],
        env: env.machine.variables.clone().into_iter().collect(),
        ..Command::default()
    };
    let upstream = match Upstream::launch(&env, app_server, limits.connection).await {
        Ok(upstream) => upstream,
        Err(error) => {
            publication.withdraw().await?;
            return Err(error.into());
        }
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let client = ClientInfo { name: NAME.into(), title: None, version };
    let broker = Broker::new(limits, &InitializeParams::new(client));
    end_at_signals(broker.handle())?;
    println!("{NAME}: listens at {at}");
    let exit = broker.serve(upstream, listener).await;
    publication.withdraw().await?;
    println!("{NAME}: {exit}");
    Ok(i32::from(exit.status()))
}

fn end_at_signals(broker: BrokerHandle) -> std::io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let (mut signal, broker) = (signal(kind)?, broker.clone());
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                broker.shutdown();
            }
        });
    }
    Ok(())
}
