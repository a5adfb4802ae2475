//! The worker of a job in the background: a program of product code.

use std::time::Duration;

use tokio::time::sleep;

use super::notes::WorkerBegan;
use super::{DIRECTORY, store};
use crate::process::{Detached, Exit, TERMINATE};
use crate::subject::{Program, ProgramCode, ProgramContext};
use crate::subjects::turn::app_server;
use crate::subjects::turn::heard;
use crate::subjects::turn::limits;
use crate::subjects::turn::notes::Tag;
use crate::subjects::turn::operations::RouteSetup;
use crate::subjects::turn::route::route;
use reknit_turn::client::Client;
use reknit_turn::jobs::{JobError, JobId};
use reknit_turn::runner::{JobRun, JobRunner};

/// The program: `turn-worker`.
pub const PROGRAM: Program =
    Program { name: "turn-worker", code: ProgramCode::Product, run: |it| Box::pin(run(it)) };

/// The log of all workers of a machine. The output of a job is removed with its record, and a worker
/// writes none.
const LOG: &str = "/worker.log";

/// Returns the command that starts the worker of a job. The worker takes this long to begin.
pub fn program(id: &JobId, route: RouteSetup, tag: &Tag, takes: Duration) -> Detached {
    let argv = [PROGRAM.name, id.as_str(), route.name(), &tag.to_string()];
    let mut argv = argv.map(str::to_owned).to_vec();
    argv.extend((!takes.is_zero()).then(|| takes.as_millis().to_string()));
    Detached { argv, cwd: Some(DIRECTORY.into()), env: Vec::new(), log: LOG.into() }
}

/// Returns a command that cannot be started: its program does not exist.
pub fn missing() -> Detached {
    Detached {
        argv: vec!["no-such-program".to_owned()],
        cwd: Some(DIRECTORY.into()),
        env: Vec::new(),
        log: LOG.into(),
    }
}

/// Does the job that the arguments name. SIGTERM cancels it.
async fn run(process: ProgramContext) -> Exit {
    let ProgramContext { name, command, host, mut signals, .. } = process;
    signals.handle(TERMINATE);
    let [_, id, way, tag, rest @ ..] = &command.argv[..] else { return Exit::Code(2) };
    let known = (JobId::new(id), RouteSetup::named(way), Tag::find(tag));
    let (Some(id), Some(way), Some(tag)) = known else { return Exit::Code(2) };
    if let Ok(own) = host.env.processes.own() {
        let began = WorkerBegan { job: id.to_string(), name, process: (&own).into() };
        host.record.observed(&tag.stream(), began);
    }
    if let Some(takes) = rest.first().and_then(|ms| ms.parse().ok()) {
        sleep(Duration::from_millis(takes)).await;
    }
    let worked = async {
        let route = route(&host, way, None, app_server::command(None));
        let env = heard::recorded(&host, tag.call);
        let client = Client::new(&env, route, limits::client(&host.limits));
        let cancel = async {
            signals.next().await;
        };
        JobRunner::new(store(&host).await?, client).work(&id, cancel).await
    };
    match worked.await as Result<JobRun, JobError> {
        Ok(run) => {
            if let Err(error) = &run.recorded {
                tracing::warn!(%error, "the end of the job is not recorded");
            }
            Exit::Code(run.exit_status())
        }
        Err(error) => {
            tracing::warn!(%error, "there is nothing to do");
            Exit::Code(2)
        }
    }
}
