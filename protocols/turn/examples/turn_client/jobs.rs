//! Jobs: in the background, and what a user does with them.

use std::path::Path;
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::process::Detached;
use reknit_turn::command::Command;
use reknit_turn::jobs::{Job, JobError, JobId, JobStore, NewJob};
use reknit_turn::limits::{CancelLimits, JobLimits};
use reknit_turn::runner::{self, JobRunner, view};
use serde_json::{Value, json};

use crate::arguments::{Options, Place, Task};
use crate::foreground::{broker, cancelled, client, order, variables};
use crate::{Failure, NAME};

/// How long `wait` waits.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How many lines of the log `status` shows.
const LOG_LINES: usize = 4;

/// The jobs of a directory.
struct Jobs<'a> {
    env: &'a Env,
    options: &'a Options,
    state: &'a Path,
    store: JobStore,
}

/// Opens the store of a directory.
pub async fn store(env: &Env, state: &Path) -> Result<JobStore, Failure> {
    Ok(JobStore::open(env, state.join("jobs"), JobLimits::default()).await?)
}

/// Does what the user wants with jobs. Returns the exit status.
pub async fn run(env: &Env, options: &Options, task: Task) -> Result<i32, Failure> {
    let Place::State(state) = &options.place else {
        return Err(Failure(2, "jobs need a directory: write --state DIRECTORY".to_owned()));
    };
    let jobs = Jobs { env, options, state, store: store(env, state).await? };
    match task {
        Task::Run { command, .. } => jobs.launch(command).await,
        Task::Work { job } => jobs.work(&job).await,
        Task::List { all } => jobs.list(all).await,
        Task::Show { job } => jobs.show(&job).await,
        Task::Wait { job } => {
            let id = jobs.find(&job).await?.id;
            jobs.result(runner::wait(&jobs.store, &id, PATIENCE).await?)
        }
        Task::Result { job } => jobs.result(jobs.find(&job).await?),
        Task::Cancel { job } => jobs.cancel(&job).await,
        Task::EndSession => jobs.end_session().await,
    }
}

impl Jobs<'_> {
    /// Finds the job that the user names.
    async fn find(&self, reference: &str) -> Result<Job, Failure> {
        self.store.find(reference).await.map_err(|error| match error {
            JobError::Missing(_) | JobError::Ambiguous { .. } => Failure(2, error.to_string()),
            error => error.into(),
        })
    }

    fn print(&self, text: impl FnOnce() -> String, value: impl FnOnce() -> Value) {
        match self.options.json {
            true => println!("{:#}", value()),
            false => print!("{}", text()),
        }
    }

    async fn launch(&self, command: Command) -> Result<i32, Failure> {
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        let state = self.state.to_string_lossy().into_owned();
        let new = NewJob::of(order(self.env, command), self.options.session.clone());
        let program = |id: &JobId| Detached {
            argv: vec![own, "--state".into(), state, "work".into(), id.to_string()],
            cwd: Some(self.env.machine.directory.clone()),
            env: variables(self.env),
            log: self.store.output_path(id),
        };
        let job = self.store.launch(new, program).await?;
        self.print(|| format!("{}\n", job.id), || view::job_json(&job, &[]));
        Ok(0)
    }

    async fn work(&self, job: &str) -> Result<i32, Failure> {
        let id = self.find(job).await?.id;
        let runner = JobRunner::new(self.store.clone(), client(self.env, &self.options.place));
        let run = runner.work(&id, cancelled()).await?;
        if let Err(error) = &run.recorded {
            eprintln!("{NAME}: {error}");
        }
        Ok(run.exit_status())
    }

    async fn list(&self, all: bool) -> Result<i32, Failure> {
        let session = self.options.session.as_deref().filter(|_| !all);
        let listing = self.store.list(session).await?;
        self.print(|| view::table(&listing), || view::table_json(&listing));
        Ok(0)
    }

    async fn show(&self, job: &str) -> Result<i32, Failure> {
        let job = self.find(job).await?;
        let log = self.store.log(&job.id).tail(LOG_LINES).await?;
        self.print(|| view::details(&job, &log), || view::job_json(&job, &log));
        Ok(0)
    }

    fn result(&self, job: Job) -> Result<i32, Failure> {
        self.print(|| view::result(&job), || view::job_json(&job, &[]));
        Ok(job.state.exit_status().unwrap_or(1))
    }

    async fn cancel(&self, job: &str) -> Result<i32, Failure> {
        let id = self.find(job).await?.id;
        let (broker, limits) = (broker(self.env, self.state), CancelLimits::default());
        runner::cancel(&self.store, self.env, Some(&broker), &id, limits).await?;
        self.print(|| format!("{id} is cancelled\n"), || json!({ "cancelled": [id] }));
        Ok(0)
    }

    async fn end_session(&self) -> Result<i32, Failure> {
        let (broker, limits) = (broker(self.env, self.state), CancelLimits::default());
        let session = self.options.session.as_deref().unwrap_or_default();
        let end =
            runner::end_session(&self.store, self.env, Some(&broker), session, limits).await?;
        for (id, error) in &end.failed {
            eprintln!("{NAME}: {id}: {error}");
        }
        let count = end.cancelled.len();
        let text = || format!("{count} jobs are cancelled\n");
        self.print(text, || json!({ "cancelled": end.cancelled }));
        Ok(i32::from(!end.failed.is_empty()))
    }
}
