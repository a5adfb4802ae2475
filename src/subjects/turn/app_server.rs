//! The app-server of the outside world: a program that speaks JSON-RPC over its standard streams, and
//! plays the turns of the scenario.
//!
//! It records what it really did as [notes](super::notes) about each turn. The text of a request
//! contains a [`Tag`], so that the notes name the operation of the user.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::limits::{self, LIMITS};
use super::notes::{AppServerNote, Got, Sent, Tag, ThreadNote, TurnNote};
use super::played::{CRASH, Played, Takes, line};
use super::setup::{self, AppServerSetup, Initialize, Threads};
use crate::history::Stream;
use crate::net::BoxFuture;
use crate::process::{Command, Exit, Input, TERMINATE};
use crate::schedule::Plan;
use crate::subject::{Program, ProgramCode, ProgramContext, Recorder};
use reknit_turn::wire::method;

/// Why it refuses to interrupt a turn that runs on.
pub const RUNS_ON: &str = "the turn cannot be interrupted now";

/// The program.
pub const PROGRAM: Program = Program { name: "codex", code: ProgramCode::Outside, run };

/// The variable that names the account of an app-server.
const ACCOUNT: &str = "CODEX_HOME";

/// Returns the command that starts an app-server, for this account.
pub fn command(account: Option<&str>) -> Command {
    let env = account.map(variables).unwrap_or_default();
    Command { argv: vec![PROGRAM.name.to_owned()], env, ..Command::default() }
}

/// Returns a command that cannot be started: its program does not exist.
pub fn missing() -> Command {
    Command { argv: vec!["no-such-program".to_owned()], ..Command::default() }
}

/// Returns the variables of a program that works for this account.
pub fn variables(account: &str) -> Vec<(String, String)> {
    vec![(ACCOUNT.to_owned(), account.to_owned())]
}

/// Returns the account in the variables of a program.
pub fn account_of(variables: &[(String, String)]) -> Option<&str> {
    variables.iter().find(|(name, _)| name == ACCOUNT).map(|(_, account)| account.as_str())
}

fn run(process: ProgramContext) -> BoxFuture<'static, Exit> {
    Box::pin(serve(process))
}

/// Serves one client until its input ends, or until a turn makes it exit.
async fn serve(mut process: ProgramContext) -> Exit {
    let host = process.host.name.to_string();
    let setup = setup::app_server(&process.host.plan, &host);
    process.signals.handle(TERMINATE);
    let (out, lines) = mpsc::unbounded_channel();
    let (exits, mut exit) = mpsc::unbounded_channel();
    let id = format!("{host}-{}", process.name);
    let record = process.host.record.clone();
    let stream = Stream::from(format!("codex@{id}").as_str());
    let mut killed = Killed { stream, record, has_exited: false };
    let mut server = AppServer {
        id,
        stream: killed.stream.clone(),
        setup,
        account: account_of(&process.command.env).map(str::to_owned),
        plan: process.host.plan.clone(),
        record: process.host.record.clone(),
        out,
        exits,
        is_initialized: false,
        names: 0,
        threads: BTreeMap::new(),
        models: BTreeMap::new(),
        stored: BTreeSet::new(),
        ephemeral: BTreeSet::new(),
        nameless: BTreeSet::new(),
        running: BTreeMap::new(),
        turns: FuturesUnordered::new(),
    };
    let mut input = BufReader::new(process.stdin).lines();
    let mut reads = true;
    let mut writer = std::pin::pin!(write(lines, process.stdout));
    let mut why = Why::Itself;
    let mut exit = loop {
        tokio::select! {
            biased;
            Some(exit) = exit.recv() => break exit,
            _ = process.signals.next(), if !server.setup.ignores_terminate => {
                // It would end by itself after the end of its input.
                if !server.setup.outlives_input && !server.setup.input_takes.0.is_zero() {
                    server.record.observed(&server.stream, AppServerNote::Hurried);
                }
                why = Why::Asked;
                break Exit::Code(143);
            }
            line = input.next_line(), if reads => match line {
                Ok(Some(line)) => server.read(&line),
                _ if server.setup.outlives_input => reads = false,
                _ => {
                    why = Why::Input;
                    break Exit::Code(0);
                }
            },
            Some(()) = server.turns.next() => {}
            () = &mut writer => break Exit::Signal(13),
        }
    };
    let setup = server.setup.clone();
    drop(server);
    if why == Why::Input && !setup.input_takes.0.is_zero() {
        tokio::select! {
            biased;
            _ = process.signals.next(), if !setup.ignores_terminate => {
                killed.record.observed(&killed.stream, AppServerNote::Hurried);
                (why, exit) = (Why::Asked, Exit::Code(143));
            }
            () = sleep(setup.input_takes.0) => {}
        }
    }
    if why == Why::Asked && !setup.terminate_takes.0.is_zero() {
        sleep(setup.terminate_takes.0).await;
    }
    killed.has_exited = true;
    if exit == CRASH {
        let _ = process.stderr.write_all(COMPLAINT.as_bytes()).await; // nothing may read it
    }
    if exit != Exit::Signal(13) {
        writer.await;
    }
    exit
}

/// Why an app-server exits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// A turn makes it exit, or nothing reads its output.
    Itself,
    /// Its input has ended.
    Input,
    /// It got SIGTERM.
    Asked,
}

/// The last output of an app-server that crashes: lines with colours and other control characters.
const COMPLAINT: &str = "starting\nthread \u{1b}[31mmain\u{1b}[0m pan\u{7}icked: no model\n\n";

/// Writes what the server sends, until the server is dropped or the pipe has no reader.
async fn write(mut lines: mpsc::UnboundedReceiver<Vec<u8>>, mut to: Input) {
    while let Some(bytes) = lines.recv().await {
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Records that the process is killed, unless it exits by itself.
struct Killed {
    stream: Stream,
    record: Recorder,
    has_exited: bool,
}

impl Drop for Killed {
    fn drop(&mut self) {
        if !self.has_exited {
            self.record.observed(&self.stream, AppServerNote::Killed);
        }
    }
}

struct AppServer {
    /// The host and the name of the process.
    id: String,
    /// The stream of the notes about the process.
    stream: Stream,
    setup: AppServerSetup,
    account: Option<String>,
    plan: Arc<Plan>,
    record: Recorder,
    out: mpsc::UnboundedSender<Vec<u8>>,
    exits: mpsc::UnboundedSender<Exit>,
    is_initialized: bool,
    /// The number of threads and turns so far.
    names: u64,
    /// The commands that named their threads, by thread.
    threads: BTreeMap<String, Tag>,
    /// The commands whose names are those of the models of their threads, by thread.
    models: BTreeMap<String, Tag>,
    /// The threads on its disk.
    stored: BTreeSet<String>,
    /// The threads that it does not keep: those of reviews.
    ephemeral: BTreeSet<String>,
    /// The threads that it has refused to name.
    nameless: BTreeSet<String>,
    /// The turns, by id.
    running: BTreeMap<String, Running>,
    turns: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// A turn that runs, or is over.
struct Running {
    thread: String,
    tag: Tag,
    interrupts: watch::Sender<bool>,
    /// The requests to interrupt it that are answered after its end.
    waiting: Arc<Mutex<Vec<Value>>>,
    answered_last: bool,
    /// How many interrupts are refused.
    refused: u64,
    /// When it begins. Until then, every interrupt is refused.
    begins: Instant,
}

impl AppServer {
    fn name(&mut self, what: &str) -> String {
        self.names += 1;
        format!("{what}-{}-{}", self.id, self.names)
    }

    fn send(&self, message: &Value) {
        let _ = self.out.send(line(message)); // the writer may be gone
    }

    fn refuse(&self, request: &Value, why: &str) {
        let error = json!({ "code": -32600, "message": why });
        self.send(&json!({ "id": request, "error": error }));
    }

    /// Sends messages when the time has passed that the requests for a thread take.
    fn send_after_a_while(&mut self, messages: Vec<Value>) {
        self.send_after(self.setup.threads_take.0, messages);
    }

    /// Sends messages after this time.
    fn send_after(&mut self, takes: Duration, messages: Vec<Value>) {
        let out = self.out.clone();
        let send = move || {
            for message in &messages {
                let _ = out.send(line(message)); // the writer may be gone
            }
        };
        if takes.is_zero() {
            return send();
        }
        self.turns.push(Box::pin(async move {
            sleep(takes).await;
            send();
        }));
    }

    /// Handles a line from the client. A line without a request is skipped.
    fn read(&mut self, line: &str) {
        self.record.observed(&self.stream, Got::of(line));
        let Ok(request) = serde_json::from_str::<Value>(line) else { return };
        let (Some(id), Some(method)) = (request.get("id"), request["method"].as_str()) else {
            return;
        };
        let (params, id) = (&request["params"], id.clone());
        match method {
            method::INITIALIZE if self.setup.initialize == Initialize::Silent => {}
            method::INITIALIZE if self.setup.initialize == Initialize::Exits => {
                let (exits, takes) = (self.exits.clone(), self.setup.initialize_takes.0);
                self.turns.push(Box::pin(async move {
                    sleep(takes).await;
                    let _ = exits.send(Exit::Code(1)); // the process may be over
                }));
            }
            method::INITIALIZE if self.setup.initialize == Initialize::Refused => {
                let error = json!({ "code": -32600, "message": "no user is logged in" });
                self.send_after(
                    self.setup.initialize_takes.0,
                    vec![json!({ "id": id, "error": error })],
                );
            }
            method::INITIALIZE if self.is_initialized => self.refuse(&id, "already initialized"),
            method::INITIALIZE => {
                self.is_initialized = true;
                self.record.observed(&self.stream, AppServerNote::Initialized);
                let hello = json!({ "id": id, "result": { "userAgent": "world" } });
                self.send_after(self.setup.initialize_takes.0, vec![hello]);
            }
            method::THREAD_START if self.setup.threads == Threads::Refused => {
                self.refuse(&id, "there is no room for a thread");
            }
            method::THREAD_START | method::THREAD_RESUME => {
                let thread = match params["threadId"].as_str() {
                    Some(thread) => thread.to_owned(),
                    None => {
                        let thread = self.name("thread");
                        let is_kept = params["ephemeral"] != json!(true);
                        let kind = if is_kept { &mut self.stored } else { &mut self.ephemeral };
                        kind.insert(thread.clone());
                        self.record.observed(&self.stream, ThreadNote::Made(thread.clone()));
                        thread
                    }
                };
                if let Some(tag) = Tag::find(&params.to_string()) {
                    self.models.insert(thread.clone(), tag);
                }
                let result = match self.setup.threads {
                    Threads::Omitted => json!({}),
                    _ => json!({ "thread": { "id": thread } }),
                };
                let answer = json!({ "id": id, "result": result });
                self.send_after_a_while(vec![answer, thread_started(&thread)]);
            }
            method::TURN_START => self.start(id, params, false),
            method::REVIEW_START => self.start(id, params, true),
            method::TURN_INTERRUPT => self.interrupt(id, params),
            method::THREAD_SET_NAME if self.setup.threads == Threads::Nameless => {
                self.nameless.extend(params["threadId"].as_str().map(str::to_owned));
                self.refuse(&id, "a thread has no name here");
            }
            method::THREAD_SET_NAME => {
                let thread = params["threadId"].as_str().unwrap_or_default();
                if let Some(tag) = params["name"].as_str().and_then(Tag::find) {
                    self.record.observed(&tag.stream(), TurnNote::Thread(thread.to_owned()));
                    self.threads.insert(thread.to_owned(), tag);
                }
                self.record.observed(&self.stream, ThreadNote::Settled(thread.to_owned()));
                self.send_after_a_while(vec![json!({ "id": id, "result": {} })]);
            }
            method::THREAD_DELETE | method::THREAD_UNSUBSCRIBE => {
                let thread = params["threadId"].as_str().unwrap_or_default();
                if method == method::THREAD_DELETE {
                    self.stored.remove(thread);
                }
                if self.stored.contains(thread) {
                    // The app-server keeps the thread on its disk.
                } else if let Some(tag) = self.threads.remove(thread) {
                    self.record.observed(&tag.stream(), TurnNote::Removed(thread.to_owned()));
                } else {
                    self.record.observed(&self.stream, ThreadNote::Settled(thread.to_owned()));
                }
                self.send(&json!({ "id": id, "result": {} }));
            }
            _ => self.refuse(&id, &format!("unknown method {method}")),
        }
    }

    fn interrupt(&mut self, id: Value, params: &Value) {
        let turn = params["turnId"].as_str().unwrap_or_default();
        let thread = params["threadId"].as_str().unwrap_or_default();
        // The empty id is that of the turn that runs on the thread.
        let is_meant = |(id, running): &(&String, &Running)| {
            let is_it = *id == turn || turn.is_empty();
            is_it && running.thread == thread && !running.interrupts.is_closed()
        };
        let Some(turn) = self.running.iter().find(is_meant).map(|(id, _)| id.clone()) else {
            if let Some(other) = self.running.get(turn) {
                let note = match other.thread == thread {
                    true => TurnNote::InterruptedLate,
                    false => TurnNote::InterruptedElsewhere,
                };
                self.record.observed(&other.tag.stream(), note);
            }
            return self.refuse(&id, "no such turn");
        };
        let Some(running) = self.running.get_mut(&turn) else { return };
        let is_queued = Instant::now() < running.begins;
        if running.refused > 0 || is_queued {
            running.refused -= u64::from(!is_queued);
            self.record.observed(&running.tag.stream(), TurnNote::InterruptRefused);
            return self.refuse(&id, RUNS_ON);
        }
        if running.answered_last {
            let mut waiting = running.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(id);
        } else {
            let _ = self.out.send(line(&json!({ "id": id, "result": {} }))); // the writer may be gone
        }
        let _ = running.interrupts.send(true); // the turn may just have ended
    }

    fn start(&mut self, id: Value, params: &Value, is_review: bool) {
        let mut thread = params["threadId"].as_str().unwrap_or_default().to_owned();
        let by_model = || self.models.get(&thread).cloned();
        let tag = Tag::find(&params.to_string()).or_else(by_model).unwrap_or_default();
        let setup = setup::turn(&self.plan, &tag.turn);
        if let Some(account) = &self.account {
            self.record.observed(&tag.stream(), TurnNote::Account(account.clone()));
        }
        let turn = self.name("turn");
        let (interrupts, interrupted) = watch::channel(false);
        let waiting = Arc::new(Mutex::new(Vec::new()));
        let answered_last = setup.interrupt_answered_last;
        let takes = limits::turn(&self.plan.limits.over(LIMITS));
        // The thread of a review has no name, and one that the app-server does not name is in use now.
        if is_review || self.ephemeral.contains(&thread) || self.nameless.contains(&thread) {
            self.record.observed(&self.stream, ThreadNote::Settled(thread.clone()));
        }
        if is_review && setup.detached {
            thread = self.name("review");
        }
        let running = Running {
            thread: thread.clone(),
            tag: tag.clone(),
            interrupts,
            waiting: waiting.clone(),
            answered_last,
            refused: setup.refused_interrupts,
            begins: Instant::now() + setup.waits(),
        };
        self.running.insert(turn.clone(), running);
        let earlier = line(&thread_started(&thread)).len();
        let mut played = Played {
            request: id,
            thread,
            turn,
            tag,
            setup,
            is_review,
            record: self.record.clone(),
            out: self.out.clone(),
            exits: self.exits.clone(),
            waiting,
            held: Vec::new(),
            answer: None,
            over: None,
            items: 0,
            open: 0,
            is_named: false,
            is_answered: false,
            sent: Sent::start(),
            takes: Takes {
                bytes: takes.text_bytes as u64,
                early: takes.buffered as u64,
                lines: takes.unreadable as u64,
            },
            unanswered: 0,
            early: 0,
            is_too_much: false,
        };
        // The client may still have waited for this one when it asked for the turn.
        played.count(earlier);
        self.turns.push(Box::pin(played.play(interrupted)));
    }
}

/// The notification of a new thread.
fn thread_started(thread: &str) -> Value {
    json!({ "method": method::THREAD_STARTED, "params": { "thread": { "id": thread } } })
}
