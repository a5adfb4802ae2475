//! The user of a simulated client: performs the operations of the schedule, and records their
//! outcomes.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::answers::{ExecFailure, Read, WasRunning};
use super::body::{self, BodyReadOptions, BodyRequest};
use super::files::{self, FileContent};
use super::follow::{self, FollowOptions, Parts};
use super::limits::{client_limits, server_limits};
use super::operations::{After, ExecOperation};
use super::tasks::TaskUser;
use super::transfer_time;
use super::web::{self, WebSetup};
use super::{byte_stream, client_state, reading, tables};
use crate::history::{Answer, Call, Stream};
use crate::subject::{HostContext, OperationQueue, Recorder};
use crate::subjects::records;
use crate::world::process::calls;
use reknit_exec::client::{Client, Failure, Process};
use reknit_exec::wire::Directory;
use reknit_exec::wire::process::{Signal, StartParams};

/// The maximum duration of a client's close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The user of one client.
pub(super) struct ExecUser {
    host: HostContext,
    client: Arc<Client>,
    started: Started,
    /// Operations on a process whose start is not answered yet, in order: they need the handle that
    /// the start returns.
    waiting: VecDeque<(Call, ExecOperation)>,
    /// The operations in progress.
    busy: JoinSet<()>,
}

/// For each process: the number of its starts, and the newest running one, with the task that
/// follows it.
#[derive(Clone, Default)]
struct Started(Arc<Mutex<BTreeMap<String, Newest>>>);

#[derive(Default)]
struct Newest {
    times: u64,
    /// The number of these starts that have an outcome.
    settled: u64,
    held: Option<StartedProcess>,
    /// The record of the process whose handle the newest one replaced.
    before: Option<Stream>,
    /// Earlier processes of the same name whose events are not over: a task follows them.
    older: Vec<StartedProcess>,
}

/// A process that was started.
struct StartedProcess {
    process: Process,
    parts: Parts,
    /// Follows the events of the process until dropped.
    following: JoinSet<()>,
}

impl StartedProcess {
    /// Returns the process if a task still follows it. Otherwise drops its handle.
    fn followed(mut self) -> Option<Self> {
        self.is_followed().then_some(self)
    }

    fn is_followed(&mut self) -> bool {
        while self.following.try_join_next().is_some() {}
        !self.following.is_empty()
    }
}

impl Started {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Newest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether operations on the process must wait for the outcome of a start.
    fn is_awaited(&self, process: &str) -> bool {
        self.all()
            .get(process)
            .is_some_and(|newest| newest.held.is_none() && newest.settled < newest.times)
    }

    /// The newest handle, with the names of its records.
    fn handle(&self, process: &str) -> Option<(Process, Parts)> {
        let all = self.all();
        let held = all.get(process)?.held.as_ref()?;
        Some((held.process.clone(), held.parts.clone()))
    }

    /// The handle that the newest one replaced, if a task still follows its process.
    fn older_handle(&self, process: &str) -> Option<(Process, Parts)> {
        let mut all = self.all();
        let newest = all.get_mut(process)?;
        let before = newest.before.as_ref()?;
        let older = newest.older.iter_mut().find(|older| older.parts.whole() == before)?;
        older.is_followed().then(|| (older.process.clone(), older.parts.clone()))
    }
}

impl ExecUser {
    pub(super) fn new(host: HostContext, client: Client) -> Self {
        let client = Arc::new(client);
        let counted = Arc::downgrade(&client);
        let resources = move || counted.upgrade().map(|client| client.resources());
        host.record.resources(tables::CLIENT_LEVELS, tables::CLIENT_RESOURCES, resources);
        Self {
            host,
            client,
            started: Started::default(),
            waiting: VecDeque::new(),
            busy: JoinSet::new(),
        }
    }

    /// Performs operations as they arrive, then closes the client.
    pub(super) async fn run(mut self, mut operations: OperationQueue<ExecOperation>) {
        loop {
            tokio::select! {
                biased;
                next = operations.next() => match next {
                    Some((call, operation)) => self.waiting.push_back((call, operation)),
                    None => break,
                },
                Some(_) = self.busy.join_next() => {}
            }
            self.perform_all();
        }
        let goodbye = async {
            self.client.close().await;
            while self.busy.join_next().await.is_some() {}
        };
        if timeout(CLOSE_TIMEOUT, goodbye).await.is_err() {
            tracing::warn!("the client did not close in time");
        }
    }

    /// Performs, in order, all operations that do not wait for a start.
    fn perform_all(&mut self) {
        for (call, operation) in std::mem::take(&mut self.waiting) {
            if operation.uses().is_some_and(|process| self.started.is_awaited(process)) {
                self.waiting.push_back((call, operation));
            } else {
                self.perform(call, operation);
            }
        }
    }

    fn perform(&mut self, call: Call, operation: ExecOperation) {
        match operation {
            ExecOperation::Start { process, tty, looks_after, patience, reads, command } => {
                let manner = FollowOptions { call, looks_after: looks_after.0, reads };
                let patience = patience.map_or(Duration::MAX, |span| span.0);
                let mut spec = spec(call, &process, tty);
                command.into_iter().for_each(|command| command.add_to(&mut spec));
                self.start(call, process, spec, manner, patience);
            }
            ExecOperation::Read { process, after, max_bytes, wait, patience, older } => {
                let patience = patience.map_or(Duration::MAX, |span| span.0);
                self.with_handle(call, &process, older, move |process, parts| async move {
                    let (event, told) = match after {
                        After::Event(event) => (event, None),
                        After::LastReceived(_) => {
                            let event = *process.wake().borrow();
                            (event, Some(event))
                        }
                    };
                    let reading = process.read(event, max_bytes.map(|size| size.0), wait.0);
                    let Ok(read) = timeout(patience, reading).await else {
                        return Ok(Answer::GivenUp);
                    };
                    read.map(|read| match parts.seen.changed(&read) {
                        Some(wrong) => wrong.into(),
                        None => Read::of(told, &read).into(),
                    })
                })
            }
            ExecOperation::ReadAll { process, page, wait } => {
                self.with(call, &process, move |process, parts| {
                    reading::all(process, parts, page.0, wait.0)
                });
            }
            ExecOperation::Write { process, bytes, patience, older } => {
                let line = calls::line(call, bytes.map_or(0, |size| size.0 as usize));
                let patience = patience.map_or(Duration::MAX, |span| span.0);
                self.with_handle(call, &process, older, move |process, _| async move {
                    match timeout(patience, process.write(line)).await {
                        Ok(done) => done.map(|()| Answer::queued("accepted")),
                        Err(_) => Ok(Answer::GivenUp),
                    }
                });
            }
            ExecOperation::Pipeline { process, requests } => {
                self.with(call, &process, move |process, parts| async move {
                    let read = |_| process.read(0, Some(1), Duration::ZERO);
                    let answers = try_join_all((0..requests).map(read)).await?;
                    Ok(match answers.iter().find_map(|read| parts.seen.changed(read)) {
                        Some(wrong) => wrong.into(),
                        None => format!("{} answers", answers.len()).into(),
                    })
                })
            }
            ExecOperation::Interrupt { process, older } => {
                self.with_handle(call, &process, older, |process, _| async move {
                    process.signal(Signal::Interrupt).await.map(|()| "sent".into())
                })
            }
            ExecOperation::Terminate { process, older } => {
                self.with_handle(call, &process, older, |process, _| async move {
                    process.terminate().await.map(|running| WasRunning(running).into())
                })
            }
            ExecOperation::DropHandle { process } => self.drop_handle(call, &process),
            ExecOperation::Unfollow { process } => self.unfollow(call, &process),
            ExecOperation::ReadEvents { process, wait, reads } => {
                self.with(call, &process, move |process, parts| {
                    reading::events(process, parts, wait.0, reads)
                });
            }
            ExecOperation::ReadStream { process, wait } => {
                self.with(call, &process, move |process, parts| {
                    byte_stream::read(process, parts, wait.0)
                });
            }
            ExecOperation::WriteStream { process, bytes, shuts_down } => {
                let line = calls::line(call, bytes.map_or(0, |size| size.0 as usize));
                self.with(call, &process, move |process, parts| {
                    byte_stream::write(process, parts, line, shuts_down)
                });
            }
            ExecOperation::UseFiles { tasks, says, apart, every, patience, sandbox } => {
                let (client, record) = (self.client.clone(), self.host.record.clone());
                let user = TaskUser::new(&client, call, apart, sandbox);
                self.busy.spawn(async move {
                    let all = user.perform_all(&tasks, &says, every.0);
                    let outcome = timeout(patience.0, all).await;
                    report(&record, call, outcome.unwrap_or(Ok(Answer::GivenUp)));
                });
            }
            ExecOperation::WriteFile { file, bytes } => {
                let content = calls::line(call, bytes.map_or(0, |size| size.0 as usize));
                self.use_files(call, file, |client, path| async move {
                    client.files().write_file(path, content.into()).await.map(|()| "written".into())
                });
            }
            ExecOperation::ReadFile { file } => {
                self.use_files(call, file, |client, path| async move {
                    let content = client.files().read_file(path).await?;
                    Ok(FileContent::of(&content).into())
                });
            }
            ExecOperation::ReadBlocks { file } => {
                self.use_files(call, file, |client, path| async move {
                    files::read_blocks(&client, &path).await
                });
            }
            ExecOperation::RemoveFile { file } => {
                self.use_files(call, file, |client, path| async move {
                    client.files().remove(path, false, true).await.map(|()| "removed".into())
                });
            }
            ExecOperation::WatchFile { file } => {
                self.use_files(call, file, |client, path| async move {
                    match client.files().watch_missing(&[&path], None).await? {
                        Some(watch) => watch.changed().await.map(|()| files::APPEARED.into()),
                        None => Ok(files::IS_THERE.into()),
                    }
                });
            }
            ExecOperation::Http { body, wait, head } => {
                let (client, wanted) = (self.client.clone(), self.wanted(call, &body));
                let timeout = Some(wait.0).filter(|wait| !wait.is_zero());
                self.busy.spawn(async move {
                    let asked = body::whole(&client, &wanted, timeout, head).await;
                    report(&wanted.record, call, asked);
                });
            }
            ExecOperation::AwaitState { state, wait } => {
                let (client, record) = (self.client.clone(), self.host.record.clone());
                self.busy.spawn(async move {
                    record.answered(call, client_state::wait_for(&client, state, wait.0).await);
                });
            }
            ExecOperation::CloseClient {} => {
                let (client, record) = (self.client.clone(), self.host.record.clone());
                record.gave_up(None, call);
                self.busy.spawn(async move {
                    client.close().await;
                    record.answered(call, client_state::name(client.state()));
                });
            }
            ExecOperation::HttpStream { body, pause, drops_after } => {
                let (client, wanted) = (self.client.clone(), self.wanted(call, &body));
                let manner = BodyReadOptions { pause: pause.0, drops_after };
                self.busy.spawn(async move {
                    if let Err(failure) = body::watch(&client, &wanted, manner).await {
                        report(&wanted.record, call, Err(failure));
                    }
                });
            }
        }
    }

    /// Runs `act` with the client and the path of a file.
    fn use_files<F>(
        &mut self,
        call: Call,
        file: String,
        act: impl FnOnce(Arc<Client>, PathBuf) -> F,
    ) where
        F: Future<Output = Result<Answer, Failure>> + Send + 'static,
    {
        let record = self.host.record.clone();
        let acting = act(self.client.clone(), files::path(&file));
        self.busy.spawn(async move { report(&record, call, acting.await) });
    }

    /// Builds the request of a call for a body of the HTTP server.
    fn wanted(&self, call: Call, body: &str) -> BodyRequest {
        let stream = Stream::from(
            records::name(self.host.name.as_str(), &format!("h{}", call.0), 1).as_str(),
        );
        let url = web::url(web::PORT, body, &stream, call);
        let setup = WebSetup::declared(&self.host.plan, body);
        let (plan, host) = (&self.host.plan, self.host.name.as_str());
        let most = server_limits(&self.host.limits).http_requests;
        let takes = transfer_time::takes(plan, host) + transfer_time::waits(plan, host, most);
        BodyRequest { call, stream, url, setup, takes, record: self.host.record.clone() }
    }

    /// Runs `act` with the newest handle of a process.
    fn with<F>(&mut self, call: Call, process: &str, act: impl FnOnce(Process, Parts) -> F)
    where
        F: Future<Output = Result<Answer, Failure>> + Send + 'static,
    {
        self.with_handle(call, process, false, act);
    }

    /// Runs `act` with the newest handle of a process, or with the older one that it replaced.
    fn with_handle<F>(
        &mut self,
        call: Call,
        process: &str,
        older: bool,
        act: impl FnOnce(Process, Parts) -> F,
    ) where
        F: Future<Output = Result<Answer, Failure>> + Send + 'static,
    {
        let record = self.host.record.clone();
        let wait = client_limits(&self.host.limits).call_wait;
        let handle = match older {
            true => self.started.older_handle(process),
            false => self.started.handle(process),
        };
        match handle {
            Some((process, parts)) => {
                let (asked, acting) = (Instant::now(), act(process.clone(), parts));
                self.busy.spawn(async move {
                    match acting.await {
                        // The process failed because its own read had no answer. A call that had none
                        // itself has waited for longer.
                        Err(failure @ Failure::Unanswered)
                            if process.failure().as_ref() == Some(&failure)
                                && asked.elapsed() < wait =>
                        {
                            record.refused(call, ExecFailure(failure));
                        }
                        outcome => report(&record, call, outcome),
                    }
                });
            }
            None if older => record.refused(call, "no older process is followed"),
            None => record.refused(call, "the process was not started"),
        }
    }

    fn start(
        &mut self,
        call: Call,
        process: String,
        mut spec: StartParams,
        manner: FollowOptions,
        patience: Duration,
    ) {
        self.started.all().entry(process.clone()).or_default().times += 1;
        let name = records::name(self.host.name.as_str(), &process, self.count_start(&process));
        let (client, record, started) =
            (self.client.clone(), self.host.record.clone(), self.started.clone());
        let tty = spec.tty;
        spec.env.insert(calls::NAME.to_owned(), name.clone());
        self.busy.spawn(async move {
            let outcome = timeout(patience, client.launch(spec)).await;
            started.all().entry(process.clone()).or_default().settled += 1;
            match outcome {
                Err(_) => record.answered(call, Answer::GivenUp),
                Ok(Ok(handle)) => {
                    let parts = Parts::new(&name, tty);
                    parts.all().for_each(|part| record.opened(part, call));
                    let mut following = JoinSet::new();
                    let (events, copy) = (handle.clone(), parts.clone());
                    let early = manner.looks_after.is_zero().then(|| handle.events());
                    following.spawn(follow::follow(events, early, copy, record, manner));
                    let held = StartedProcess { process: handle, parts, following };
                    let mut all = started.all();
                    let newest = all.entry(process).or_default();
                    let older = newest.held.replace(held);
                    newest.before = older.as_ref().map(|older| older.parts.whole().clone());
                    newest.older.extend(older.and_then(StartedProcess::followed));
                }
                Ok(Err(failure)) => report(&record, call, Err(failure)),
            }
        });
    }

    /// Counts a start of a process, and returns how often the users of this host have asked for it. An
    /// earlier incarnation of the host may have left a process of the same name.
    fn count_start(&self, process: &str) -> u64 {
        let key = format!("starts of {process}");
        let earlier = self.host.disk.read(&key).and_then(|times| times.parse::<u64>().ok());
        let times = earlier.unwrap_or_default() + 1;
        self.host.disk.write(&key, times.to_string());
        times
    }

    fn unfollow(&mut self, call: Call, process: &str) {
        let mut all = self.started.all();
        let Some(held) = all.get_mut(process).and_then(|newest| newest.held.as_mut()) else {
            return self.host.record.refused(call, "the process was not started");
        };
        held.parts.all().for_each(|part| self.host.record.gave_up(Some(part), call));
        held.following = JoinSet::new();
        self.host.record.answered(call, "not followed");
    }

    fn drop_handle(&mut self, call: Call, process: &str) {
        let held = self.started.all().get_mut(process).and_then(|newest| newest.held.take());
        let Some(held) = held else {
            return self.host.record.refused(call, "the process was not started");
        };
        held.parts.all().for_each(|part| self.host.record.gave_up(Some(part), call));
        drop(held);
        self.host.record.answered(call, "dropped");
    }
}

fn spec(call: Call, process: &str, tty: bool) -> StartParams {
    StartParams {
        process_id: process.to_owned(),
        argv: vec![process.to_owned()],
        cwd: Directory::root(),
        env: [(calls::CALL.to_owned(), call.0.to_string())].into(),
        tty,
        pipe_stdin: true,
        ..StartParams::default()
    }
}

/// Records the outcome of a call. A refusal counts as an answer, because the protocol requires an
/// answer. The same is true of a call on a failed process: the streams of the process report the
/// reason.
pub(super) fn report(record: &Recorder, call: Call, outcome: Result<Answer, Failure>) {
    match outcome {
        Ok(answer) => record.answered(call, answer),
        Err(failure) if is_refusal(&failure) => record.refused(call, ExecFailure(failure)),
        Err(failure) => record.failed(call, ExecFailure(failure)),
    }
}

fn is_refusal(failure: &Failure) -> bool {
    use Failure::{
        AnswerTooLong, Contradiction, Gap, IdTaken, NotKept, NotWritten, Refused, Superseded,
        Unwatched,
    };
    matches!(
        failure,
        AnswerTooLong
            | Refused { .. }
            | IdTaken
            | NotWritten(_)
            | Superseded
            | Gap { .. }
            | Contradiction
            | NotKept
            | Unwatched(_)
    )
}
