//! The user of a simulated client: runs commands, and records their outcomes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

use super::app_server;
use super::heard;
use super::jobs::asks::{self, Ask, Worker};
use super::jobs::{has_jobs, watch::watch};
use super::limits;
use super::notes::{Shown, Tag};
use super::operations::{Of, Prompt, RouteSetup, TurnOperation, Wishes};
use super::outcome::{CommandOutcome, SeenRefusal, SeenVerdict};
use super::route::{broker, route};
use super::workspace;
use crate::history::{Answer, Call};
use crate::process::{KILL, Reach, TERMINATE};
use crate::subject::{HostContext, OperationQueue};
use reknit_turn::capture::{Progress, Report, Verdict};
use reknit_turn::client::{Client, News};
use reknit_turn::command::{Command, Order, Settings, TaskThread};
use reknit_turn::runner::view;
use reknit_turn::upstream::Upstream;
use reknit_turn::wire::{ClientInfo, Delivery, ReviewTarget, TurnInterruptParams, method};

/// What precedes the exit status of a command that got no turn.
pub(super) const EXIT_STATUS: &str = "exit status ";

/// The user of one host.
pub(super) struct TurnUser {
    host: HostContext,
    /// The runs, by turn.
    runs: BTreeMap<String, Vec<Started>>,
    /// All tasks, with their threads.
    tasks: Vec<(AbortHandle, Known<String>)>,
    /// Whether the plan has jobs.
    has_jobs: bool,
    busy: JoinSet<()>,
}

/// The way of a command to its app-server.
#[derive(Default)]
struct Way {
    route: RouteSetup,
    account: Option<String>,
    /// Whether the command cannot start its own app-server.
    unstartable: bool,
}

/// A run of a turn, until it has a verdict.
struct Started {
    call: Call,
    cancel: watch::Sender<bool>,
    task: AbortHandle,
    ids: Ids,
}

/// Something that a client learns.
type Known<T> = Arc<Mutex<Option<T>>>;

/// The ids of a turn, once its client knows them.
type Ids = Known<TurnInterruptParams>;

impl TurnUser {
    pub(super) fn new(host: HostContext) -> Self {
        let has_jobs = has_jobs(&host.plan);
        let mut busy = JoinSet::new();
        if has_jobs {
            busy.spawn(watch(host.clone()));
        }
        Self { host, runs: BTreeMap::new(), tasks: Vec::new(), has_jobs, busy }
    }

    /// Performs operations as they arrive. At the end, all open commands are killed.
    pub(super) async fn run(mut self, mut operations: OperationQueue<TurnOperation>) {
        loop {
            tokio::select! {
                biased;
                next = operations.next() => match next {
                    Some((call, operation)) => self.perform(call, operation),
                    None => return,
                },
                Some(_) = self.busy.join_next() => {}
            }
        }
    }

    fn perform(&mut self, call: Call, operation: TurnOperation) {
        match operation {
            TurnOperation::Task {
                turn,
                route,
                account,
                background,
                unstartable,
                worker_takes,
                session,
                resume,
                wishes,
            } => {
                let tag = Tag { turn, call };
                let order = task(&tag, self.last_thread().filter(|_| resume), wishes);
                if background {
                    let (order, takes) = (Box::new(order), worker_takes.0);
                    let worker = Worker { unstartable, takes };
                    self.ask(call, Ask::Launch { tag, order, route, session, worker });
                } else {
                    self.start(tag, Way { route, account, unstartable }, order);
                }
            }
            TurnOperation::Review {
                turn,
                route,
                of,
                detached,
                adversarial,
                focus,
                background,
                session,
                wishes,
            } => {
                let tag = Tag { turn, call };
                let target = target(&tag, of);
                let delivery = if detached { Delivery::Detached } else { Delivery::Inline };
                let command = match adversarial {
                    true => Command::AdversarialReview { target, focus },
                    false => Command::Review { target, delivery },
                };
                let is_named = of != Of::Uncommitted;
                let order = Order { command, settings: settings(&tag, &wishes, is_named) };
                if background {
                    let (order, worker) = (Box::new(order), Worker::default());
                    self.ask(call, Ask::Launch { tag, order, route, session, worker });
                } else {
                    self.start(tag, Way { route, ..Way::default() }, order);
                }
            }
            TurnOperation::Cancel { turn } => {
                let open = self.open(&turn);
                let answer = if open.is_empty() { "nothing to cancel" } else { "cancelled" };
                for run in &open {
                    let _ = run.cancel.send(true); // the run may just have ended
                }
                if self.has_jobs {
                    self.ask(call, Ask::Cancel { turn });
                } else {
                    self.host.record.answered(call, answer);
                }
            }
            TurnOperation::Abandon { turn } => {
                for run in self.open(&turn) {
                    run.task.abort();
                    self.host.record.answered(run.call, Answer::GivenUp);
                }
                if self.has_jobs {
                    self.ask(call, Ask::Signal { turn, number: KILL });
                } else {
                    self.host.record.answered(call, "abandoned");
                }
            }
            TurnOperation::StopWorker { turn } => {
                self.ask(call, Ask::Signal { turn, number: TERMINATE });
            }
            TurnOperation::Interrupt { turn } => {
                let runs = self.runs.get(&turn).into_iter().flatten();
                let open = runs.filter(|run| !run.task.is_finished());
                let ids = open.filter_map(|run| locked(&run.ids).clone()).collect();
                drop(self.busy.spawn(interrupt(self.host.clone(), call, ids)));
            }
            TurnOperation::KillBroker { stranger } => {
                drop(self.busy.spawn(kill_broker(self.host.clone(), call, stranger)));
            }
            TurnOperation::Jobs {} => self.ask(call, Ask::Show),
            TurnOperation::AwaitJob { turn, wait } => {
                self.ask(call, Ask::Wait { turn, at_most: wait.0 });
            }
            TurnOperation::EndSession { session } => self.ask(call, Ask::EndSession { session }),
            TurnOperation::DamageRecord { turn, how } => self.ask(call, Ask::Damage { turn, how }),
            TurnOperation::ReadRecord { turn } => self.ask(call, Ask::Read { turn }),
            TurnOperation::PruneJobs {} => self.ask(call, Ask::Prune),
            TurnOperation::Speak { mut lines, letters, ends, wait } => {
                let text = "x".repeat(letters);
                if lines.iter().any(|line| line.contains(LETTERS)) {
                    lines.iter_mut().for_each(|line| *line = line.replace(LETTERS, &text));
                } else if letters > 0 {
                    lines.insert(0, text);
                }
                drop(self.busy.spawn(speak(self.host.clone(), call, lines, (ends, wait.0))));
            }
            TurnOperation::DamageBroker {} => {
                drop(self.busy.spawn(damage_broker(self.host.clone(), call)));
            }
            TurnOperation::HoldJobs { lasts } => self.ask(call, Ask::Hold { lasts: lasts.0 }),
            TurnOperation::Shutdown {} => drop(self.busy.spawn(shut_down(self.host.clone(), call))),
        }
    }

    /// Does something with jobs.
    fn ask(&mut self, call: Call, ask: Ask) {
        drop(self.busy.spawn(asks::perform(self.host.clone(), call, ask)));
    }

    /// Returns the thread of the last task that is over.
    fn last_thread(&self) -> Option<String> {
        let over = self.tasks.iter().rev().filter(|(task, _)| task.is_finished());
        over.filter_map(|(_, thread)| locked(thread).clone()).next()
    }

    /// Removes and returns the runs of a turn without a verdict.
    fn open(&mut self, turn: &str) -> Vec<Started> {
        let runs = self.runs.remove(turn).unwrap_or_default();
        runs.into_iter().filter(|run| !run.task.is_finished()).collect()
    }

    fn start(&mut self, tag: Tag, way: Way, order: Order) {
        let (cancel, mut cancelled) = watch::channel(false);
        let (host, ids, thread) = (self.host.clone(), Ids::default(), Known::default());
        let Tag { turn, call } = tag;
        let Order { command, settings } = order;
        let is_task = matches!(command, Command::Task { .. });
        let (known, its_thread) = (ids.clone(), thread.clone());
        let task = self.busy.spawn(async move {
            let account = way.account.as_deref();
            let app_server = match way.unstartable {
                true => app_server::missing(),
                false => app_server::command(account),
            };
            let route = route(&host, way.route, account, app_server);
            let env = heard::recorded(&host, call);
            let client = Client::new(&env, route, limits::client(&host.limits));
            let cancel = async {
                if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let show = |text| host.record.observed(&Shown::stream(call), Shown(text));
            let news = |news| {
                show(format!("{news:?}"));
                match news {
                    News::Thread(thread) => *locked(&its_thread) = Some(thread),
                    News::Turn(Progress::Started { thread, turn }) => {
                        let ids = TurnInterruptParams { thread_id: thread, turn_id: turn };
                        *locked(&known) = Some(ids);
                    }
                    _ => {}
                }
            };
            let answer = match client.run(command, settings, cancel, news).await {
                Ok(report) => {
                    show(format!("{report}{}", view::report_json(&report)));
                    answer(&report)
                }
                Err(why) => {
                    show(format!("{EXIT_STATUS}{}", why.exit_status()));
                    Answer::refused(SeenRefusal(why))
                }
            };
            host.record.answered(call, answer);
        });
        if is_task {
            self.tasks.push((task.clone(), thread));
        }
        self.runs.entry(turn).or_default().push(Started { call, cancel, task, ids });
    }
}

/// Returns a task on a new thread, or on that of an earlier one.
fn task(tag: &Tag, thread: Option<String>, wishes: Wishes) -> Order {
    let prompt = match wishes.prompt {
        Prompt::Long => format!("{tag}\n\n  {}", "Do it well, and say what you did.\n".repeat(3)),
        _ => tag.to_string(),
    };
    let is_named = thread.is_none() || wishes.prompt != Prompt::None;
    let thread = match thread {
        Some(thread) => TaskThread::Resume { thread, prompt: Some(prompt).filter(|_| is_named) },
        None => TaskThread::New { prompt },
    };
    let settings = settings(tag, &wishes, is_named);
    Order { command: Command::Task { thread, write: wishes.write }, settings }
}

fn target(tag: &Tag, of: Of) -> ReviewTarget {
    match of {
        Of::Custom => ReviewTarget::Custom { instructions: tag.to_string() },
        Of::Uncommitted => ReviewTarget::UncommittedChanges,
        Of::Branch => ReviewTarget::BaseBranch { branch: format!("topic {tag}") },
        Of::Commit => {
            ReviewTarget::Commit { sha: tag.to_string(), title: Some("A change".to_owned()) }
        }
    }
}

/// `is_named`: the text of the command names its turn. Otherwise, its model does.
fn settings(tag: &Tag, wishes: &Wishes, is_named: bool) -> Settings {
    let model = if is_named { wishes.model.clone() } else { Some(tag.to_string()) };
    Settings { cwd: "/".into(), model, effort: wishes.effort.clone(), service: "world".into() }
}

fn locked<T>(known: &Known<T>) -> std::sync::MutexGuard<'_, Option<T>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(report: &Report) -> Answer {
    let verdict = match &report.verdict {
        Verdict::Completed(_) => SeenVerdict::Completed,
        Verdict::Failed(failure) => SeenVerdict::Failed(failure.to_string()),
        Verdict::Interrupted(_) => SeenVerdict::Interrupted,
    };
    let is_complete = verdict == SeenVerdict::Completed;
    let (answer, status) = (report.answer.clone(), report.exit_status());
    let runs = report.commands.iter();
    let commands = runs.map(|run| (run.command.clone(), run.status.as_str().into(), run.exit_code));
    let files = report.files.iter().map(|file| (file.path.clone(), file.kind.as_str().into()));
    let outcome = CommandOutcome {
        verdict,
        answer,
        commands: commands.collect(),
        files: files.collect(),
        left_out: report.left_out,
        error: report.error.clone(),
        status,
    };
    // A turn that did not complete may not have started.
    if is_complete { Answer::Done(outcome.into()) } else { Answer::queued(outcome) }
}

/// The word in a spoken line that letters replace.
const LETTERS: &str = "LETTERS";

/// Kills the broker of the user's machine. `stranger`: another program gets its process id.
async fn kill_broker(host: HostContext, call: Call, stranger: bool) {
    let Some(broker) = workspace::recorded(&host.env).await else {
        return host.record.refused(call, "there is no broker");
    };
    let killed = host.env.processes.signal(&broker, KILL, Reach::Process);
    if stranger && killed.is_ok() {
        workspace::replace(&host.env, &broker).await;
    }
    match killed {
        Ok(()) => host.record.answered(call, "killed"),
        Err(error) => host.record.refused(call, error.to_string()),
    }
}

/// Damages the record of the broker of the user's machine.
async fn damage_broker(host: HostContext, call: Call) {
    match workspace::damage(&host.env).await {
        Ok(()) => host.record.answered(call, "damaged"),
        Err(error) => host.record.refused(call, error.to_string()),
    }
}

/// Sends lines to the broker, and shows what it sends, until it has closed the connection or the time is
/// over. `ends`: whether the output ends after the lines.
async fn speak(host: HostContext, call: Call, lines: Vec<String>, (ends, wait): (bool, Duration)) {
    let mut stream = match host.env.net.connect(&broker()).await {
        Ok(stream) => stream,
        Err(error) => return host.record.refused(call, error.to_string()),
    };
    let (mut heard, until) = (Vec::new(), Instant::now() + wait);
    let spoken: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let end = async {
        stream.write_all(spoken.as_bytes()).await?;
        if ends {
            stream.shutdown().await?;
        }
        while stream.read_buf(&mut heard).await? > 0 {}
        std::io::Result::Ok(())
    };
    let end = match timeout_at(until, end).await {
        Ok(Ok(())) => "closed",
        Ok(Err(_)) => "broken",
        Err(_) => "open",
    };
    host.record.answered(call, format!("{}{end}", String::from_utf8_lossy(&heard)));
}

/// Asks the broker to end.
async fn shut_down(host: HostContext, call: Call) {
    let asked = async {
        let stream = host.env.net.connect(&broker()).await.map_err(|error| error.to_string())?;
        let mut upstream = Upstream::over(stream, limits::connection(&host.limits));
        let answer = upstream.call(method::BROKER_SHUTDOWN, None).await;
        answer.map_err(|failure| failure.to_string())
    };
    match asked.await {
        Ok(_) => host.record.answered(call, "the broker ends"),
        Err(why) => host.record.refused(call, why),
    }
}

/// Interrupts turns over a separate connection.
async fn interrupt(host: HostContext, call: Call, turns: Vec<TurnInterruptParams>) {
    if turns.is_empty() {
        return host.record.answered(call, "nothing to interrupt");
    }
    let asked = async {
        let stream = host.env.net.connect(&broker()).await.map_err(|error| error.to_string())?;
        let mut upstream = Upstream::over(stream, limits::connection(&host.limits));
        let info = ClientInfo { name: "world".into(), title: None, version: "1".into() };
        upstream.initialize(info).await.map_err(|failure| failure.to_string())?;
        for turn in turns {
            let params = serde_json::value::to_raw_value(&turn).ok();
            let answer = upstream.call(method::TURN_INTERRUPT, params).await;
            answer.map_err(|failure| failure.to_string())?;
        }
        Ok::<_, String>(())
    };
    match asked.await {
        Ok(()) => host.record.answered(call, "interrupted"),
        Err(why) => host.record.refused(call, why),
    }
}
