//! The broker of a client's machine: how a command finds or starts it, and the program that a command
//! launches. All of it is product code.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

use super::app_server::{self, account_of};
use super::limits;
use super::notes::BrokerNote;
use crate::env::Env;
use crate::files::Open;
use crate::history::Stream;
use crate::net::Endpoint;
use crate::process::{Detached, Exit, Identity, TERMINATE};
use crate::subject::{HostContext, Program, ProgramCode, ProgramContext, Recorder};
use reknit_turn::broker::{Broker, BrokerRecord, BrokerSearch, Publication};
use reknit_turn::upstream::Upstream;
use reknit_turn::wire::{ClientInfo, InitializeParams};

/// The program: `turn-broker`.
pub const PROGRAM: Program =
    Program { name: "turn-broker", code: ProgramCode::Product, run: |it| Box::pin(run(it)) };

/// The directory of the broker.
const DIRECTORY: &str = "/broker";

/// The log of the broker.
const LOG: &str = "/broker.log";

/// Returns the broker that a command of this account looks for.
pub fn search(host: &HostContext, account: &str) -> BrokerSearch {
    BrokerSearch {
        directory: DIRECTORY.into(),
        account: account.to_owned(),
        program: Detached {
            argv: vec![PROGRAM.name.to_owned()],
            cwd: None,
            env: app_server::variables(account),
            log: LOG.into(),
        },
        client: client("client"),
        connection: limits::connection(&host.limits),
        limits: limits::start(&host.limits),
    }
}

/// Returns the address of the broker.
fn endpoint() -> Endpoint {
    Endpoint::unix(format!("{DIRECTORY}/broker.sock"))
}

/// Returns the process that the record of the broker names.
pub async fn recorded(env: &Env) -> Option<Identity> {
    let path = PathBuf::from(DIRECTORY).join("broker.json");
    let file = env.files.open(&path, Open::Read).await.ok()?;
    let size = file.metadata().await.ok()?.size;
    let bytes = file.read_at(0, usize::try_from(size).ok()?).await.ok()?;
    Some(serde_json::from_slice::<BrokerRecord>(&bytes).ok()?.process())
}

/// A program of the user that has nothing to do with brokers.
pub const STRANGER: Program =
    Program { name: "editor", code: ProgramCode::Outside, run: |it| Box::pin(edit(it)) };

/// How long it runs: less than a run lasts after its horizon, even if it begins there.
const EDITS: Duration = Duration::from_secs(10);

async fn edit(process: ProgramContext) -> Exit {
    sleep(EDITS).await;
    drop(process);
    Exit::Code(0)
}

/// The most programs that the user starts until one has the process id of the broker.
const MOST_STRANGERS: usize = 3;

/// Starts another program with the process id of a broker that was killed, if the system gives the id again.
pub async fn replace(env: &Env, broker: &Identity) {
    let program = Detached {
        argv: vec![STRANGER.name.to_owned()],
        cwd: None,
        env: Vec::new(),
        log: "/editor.log".into(),
    };
    for _ in 0..MOST_STRANGERS {
        // The system ends the broker first.
        sleep(Duration::from_millis(5)).await;
        let started = env.processes.launch_detached(&program).await;
        if started.is_ok_and(|stranger| stranger.pid == broker.pid) {
            return;
        }
    }
}

/// Damages the record of the broker: removes its second half.
pub async fn damage(env: &Env) -> std::io::Result<()> {
    let path = PathBuf::from(DIRECTORY).join("broker.json");
    let file = env.files.open(&path, Open::Read).await?;
    let half = usize::try_from(file.metadata().await?.size / 2).unwrap_or_default();
    let half = file.read_at(0, half).await?;
    env.files.open(&path, Open::Replace).await?.write_at(0, half).await
}

fn client(name: &str) -> ClientInfo {
    ClientInfo { name: name.into(), title: None, version: "1".into() }
}

/// Serves the directory, if no other broker does, until it is asked to end or its app-server ends.
async fn run(mut process: ProgramContext) -> Exit {
    process.signals.handle(TERMINATE);
    let (env, limits) = (&process.host.env, limits::broker(&process.host.limits));
    let account = account_of(&process.command.env).unwrap_or_default();
    let at = endpoint();
    let start = limits::start(&process.host.limits);
    let opened = Publication::open(env, Path::new(DIRECTORY), &at, account, start).await;
    let (publication, listener) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(%error, "the broker cannot serve the directory");
            return Exit::Code(1);
        }
    };
    let serving = Serving::begin(&process);
    let command = app_server::command(Some(account));
    let status = match Upstream::launch(env, command, limits.connection).await {
        Ok(upstream) => {
            let broker = Broker::new(limits, &InitializeParams::new(client("broker")));
            let handle = broker.handle();
            let signals = async {
                loop {
                    process.signals.next().await;
                    handle.shutdown();
                }
            };
            tokio::select! {
                biased;
                exit = broker.serve(upstream, listener) => exit.status(),
                () = signals => unreachable!("signals have no end"),
            }
        }
        Err(error) => {
            tracing::error!(%error, "cannot launch the app-server");
            1
        }
    };
    drop(serving);
    if let Err(error) = publication.withdraw().await {
        tracing::error!(%error, "cannot remove the record");
    }
    Exit::Code(status.into())
}

/// Records when the broker serves the directory.
struct Serving {
    record: Recorder,
    stream: Stream,
}

impl Serving {
    fn begin(process: &ProgramContext) -> Self {
        let (record, stream) = (process.host.record.clone(), Stream::from(process.name.as_str()));
        record.observed(&stream, BrokerNote::Serves);
        Self { record, stream }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.record.observed(&self.stream, BrokerNote::Ended);
    }
}
