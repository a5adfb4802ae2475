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
use tokio::time::sleep;

use super::limits::{self, LIMITS};
use super::notes::{AppServerNote, Got, Reported, Sent, Tag, ThreadNote, TurnNote, Work};
use super::setup::{
    self, Answer, AppServerSetup, Edits, End, Initialize, Noise, Open, Start, Subagent, Threads,
    TurnSetup,
};
use crate::history::Stream;
use crate::net::BoxFuture;
use crate::process::{Command, Exit, Input, TERMINATE};
use crate::schedule::Plan;
use crate::subject::{Program, ProgramCode, ProgramContext, Recorder};
use reknit_turn::wire::method;

/// The program.
pub const PROGRAM: Program = Program { name: "codex", code: ProgramCode::Outside, run };

/// The variable that names the account of an app-server.
const ACCOUNT: &str = "CODEX_HOME";

/// Returns the command that starts an app-server, for this account.
pub fn command(account: Option<&str>) -> Command {
    let env = account.map(variables).unwrap_or_default();
    Command { argv: vec![PROGRAM.name.to_owned()], env, ..Command::default() }
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
    let exit = loop {
        tokio::select! {
            biased;
            Some(exit) = exit.recv() => break exit,
            _ = process.signals.next(), if !server.setup.ignores_terminate => break Exit::Code(143),
            line = input.next_line(), if reads => match line {
                Ok(Some(line)) => server.read(&line),
                _ if server.setup.outlives_input => reads = false,
                _ => break Exit::Code(0),
            },
            Some(()) = server.turns.next() => {}
            () = &mut writer => break Exit::Signal(13),
        }
    };
    killed.has_exited = true;
    drop(server);
    if exit == CRASH {
        let _ = process.stderr.write_all(COMPLAINT.as_bytes()).await; // nothing may read it
    }
    if exit != Exit::Signal(13) {
        writer.await;
    }
    exit
}

/// The exit of an app-server that crashes.
const CRASH: Exit = Exit::Code(3);

/// What it says before: lines with colours and other control characters.
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

/// The file that agents change.
const FILE: &str = "src/lib.rs";

/// The command whose start no client can read.
const GARBLED: &str = "cargo bench";

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
        if running.refused > 0 {
            running.refused -= 1;
            self.record.observed(&running.tag.stream(), TurnNote::InterruptRefused);
            return self.refuse(&id, "the turn cannot be interrupted now");
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
            takes: Takes { bytes: takes.text_bytes as u64, lines: takes.unreadable as u64 },
            unanswered: 0,
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

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

/// A subagent: its thread, its turn, and the item that started it.
#[derive(Clone)]
struct Worker {
    thread: String,
    turn: String,
    item: String,
}

impl Worker {
    /// Returns the subagent of this one.
    fn helper(&self) -> Self {
        let Self { thread, turn, item } = self;
        Self {
            thread: format!("{thread}-helper"),
            turn: format!("{turn}-helper"),
            item: item.clone(),
        }
    }
}

/// A turn that is played.
pub(super) struct Played {
    request: Value,
    pub(super) thread: String,
    pub(super) turn: String,
    tag: Tag,
    pub(super) setup: TurnSetup,
    is_review: bool,
    record: Recorder,
    out: mpsc::UnboundedSender<Vec<u8>>,
    exits: mpsc::UnboundedSender<Exit>,
    /// The interrupts to answer at the end.
    waiting: Arc<Mutex<Vec<Value>>>,
    /// The lines of a burst.
    held: Vec<u8>,
    /// The answer that comes with the report of the end.
    answer: Option<Value>,
    /// The turn at its end, for the answer to the start request.
    over: Option<Value>,
    items: u64,
    /// The number of commands and subagents that work.
    open: u64,
    /// Whether the id of the turn was sent.
    is_named: bool,
    /// Whether the start request is answered.
    is_answered: bool,
    /// When the last message left, or the turn started.
    sent: Sent,
    /// The limits of its client.
    takes: Takes,
    /// The bytes of the messages before the answer to the start request.
    unanswered: u64,
    /// Whether that was more than its client takes.
    is_too_much: bool,
}

/// What a client takes before it gives a turn up.
struct Takes {
    /// The bytes of messages before the answer to the start request.
    bytes: u64,
    /// The lines that it cannot read.
    lines: u64,
}

impl Drop for Played {
    /// A turn that is dropped in the middle ends with its process.
    fn drop(&mut self) {
        self.note(TurnNote::Gone);
    }
}

impl Played {
    pub(super) fn note(&self, note: TurnNote) {
        self.record.observed(&self.tag.stream(), note);
    }

    async fn play(mut self, mut interrupted: watch::Receiver<bool>) {
        match self.setup.start {
            Start::Refused => {
                let error = json!({ "code": -32600, "message": "the model is not available" });
                self.note(TurnNote::Refused);
                self.send(&json!({ "id": self.request, "error": error }));
                return self.flush();
            }
            Start::Silent => return std::future::pending().await,
            Start::Answered
            | Start::NotifiedFirst
            | Start::Late
            | Start::Last
            | Start::Unnamed
            | Start::Ended
            | Start::Unanswered => {}
        }
        self.record.effect(self.tag.call, &*self.tag.stream().0);
        let (turn, thread) = (self.turn.clone(), self.thread.clone());
        self.note(TurnNote::Started { turn, thread });
        let ended = tokio::select! {
            biased;
            _ = interrupted.wait_for(|interrupted| *interrupted) => None,
            end = self.run() => Some(end),
        };
        match ended {
            Some(end) => {
                self.end(end);
                if matches!(self.setup.start, Start::Last | Start::Ended) && !end.exits() {
                    self.answer_request();
                }
            }
            None => {
                // The app-server answers each request, also one of a turn that is over by then.
                if !self.is_answered && self.setup.start != Start::Unanswered {
                    self.answer_request();
                }
                self.note(TurnNote::Interrupted);
                self.note(TurnNote::Silent(self.sent.silence()));
                self.report("interrupted");
            }
        }
        let waiting =
            std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for id in waiting {
            self.send(&json!({ "id": id, "result": {} }));
        }
        self.flush();
    }

    /// Plays the turn up to its end.
    async fn run(&mut self) -> End {
        let answers_late = self.setup.start == Start::NotifiedFirst;
        if self.setup.start == Start::Late {
            self.pause().await;
        }
        let answers_last =
            matches!(self.setup.start, Start::Last | Start::Ended | Start::Unanswered);
        if !answers_late && !answers_last {
            self.answer_request();
        }
        self.started();
        let mut subagents = Vec::new();
        for n in 1..=self.setup.subagents {
            self.pause().await;
            subagents.push(self.start_subagent(n));
        }
        for n in 1..=self.setup.work {
            self.pause().await;
            self.work(n);
            if answers_late && n == 1 {
                self.answer_request();
            }
        }
        if answers_late && self.setup.work == 0 {
            self.answer_request();
        }
        self.disturb();
        if !self.setup.outlast {
            self.end_subagents(&mut subagents).await;
        }
        if self.setup.open == Open::Before {
            self.open_command();
        }
        self.edit();
        self.pause().await;
        self.answer();
        if self.setup.late_message {
            self.message(None, "That was all.", Some("commentary"));
        }
        if self.setup.late_work {
            self.command(None, "cargo test");
        }
        if self.setup.open == Open::After {
            self.open_command();
        }
        if self.setup.noise == Noise::Work {
            self.garbled_command();
        }
        if !self.setup.burst {
            sleep(self.setup.rest.0).await;
        }
        if self.setup.noise == Noise::Work {
            self.complete_garbled();
        }
        self.end_subagents(&mut subagents).await;
        self.pause().await;
        self.setup.end
    }

    /// Sends what the client should take no notice of.
    fn disturb(&mut self) {
        match self.setup.noise {
            Noise::None | Noise::Work => {}
            Noise::Line => {
                self.held.extend(b"warning: this line is not a message\n");
                self.flush_unless_burst();
            }
            Noise::Fields => {
                let params = json!({ "threadId": self.thread, "turnId": 7, "item": "a command" });
                self.notify(method::ITEM_COMPLETED, params);
            }
        }
        for _ in 0..self.setup.unreadable {
            self.held.extend(b"this line is not a message\n");
            self.flush_unless_burst();
        }
        let is_noisy = matches!(self.setup.noise, Noise::Line | Noise::Fields);
        if self.setup.unreadable + u64::from(is_noisy) > self.takes.lines {
            self.too_much();
        }
        self.extras();
        if self.setup.retries {
            let error = json!({ "message": "the connection to the model broke" });
            let params = json!({ "threadId": self.thread, "turnId": self.turn, "error": error, "willRetry": true });
            self.notify(method::ERROR, params);
        }
        if self.setup.errors {
            let error = json!({ "message": "the disk is almost full" });
            let params = json!({ "threadId": self.thread, "turnId": self.turn, "error": error, "willRetry": false });
            self.notify(method::ERROR, params);
        }
        if self.setup.earlier {
            let earlier = json!({ "id": format!("{}-earlier", self.turn), "status": "completed" });
            let params = json!({ "threadId": self.thread, "turn": earlier });
            self.notify(method::TURN_COMPLETED, params);
        }
        if self.setup.stranger {
            let thread = format!("{}-stranger", self.thread);
            self.notify(method::THREAD_STARTED, json!({ "thread": { "id": thread } }));
            let turn = json!({ "id": format!("{thread}-turn"), "status": "inProgress" });
            self.notify(method::TURN_STARTED, json!({ "threadId": thread, "turn": turn }));
        }
    }

    /// Reports the start of the turn.
    fn started(&mut self) {
        let mut turn = json!({ "id": self.turn, "status": "inProgress" });
        if self.is_review && self.setup.inner {
            turn["id"] = json!(format!("{}-inner", self.turn));
            turn["rootTurnId"] = json!(self.turn);
        }
        // Only the answer says that the thread of a detached review is this turn's.
        if !(self.is_review && self.setup.detached) {
            self.named();
        }
        self.notify(method::TURN_STARTED, json!({ "threadId": self.thread, "turn": turn }));
    }

    fn named(&mut self) {
        if !std::mem::replace(&mut self.is_named, true) {
            self.note(TurnNote::Named);
        }
    }

    fn opened(&mut self) {
        self.open += 1;
        if self.open == 1 {
            self.note(TurnNote::Works);
        }
    }

    fn closed(&mut self) {
        self.open -= 1;
        if self.open == 0 {
            self.note(TurnNote::Rests);
        }
    }

    async fn pause(&self) {
        if !self.setup.burst {
            sleep(self.setup.every.0).await;
        }
    }

    fn answer_request(&mut self) {
        self.is_answered = true;
        if self.setup.start != Start::Unnamed {
            self.named();
        }
        let turn = match (self.setup.start, self.over.take()) {
            (Start::Unnamed, _) => json!({ "status": "inProgress" }),
            (_, Some(over)) => over,
            _ => json!({ "id": self.turn, "status": "inProgress" }),
        };
        let mut result = json!({ "turn": turn });
        if self.is_review {
            result["reviewThreadId"] = json!(self.thread);
        }
        self.send(&json!({ "id": self.request, "result": result }));
    }

    fn work(&mut self, n: u64) {
        match n % 3 {
            1 => self.message(None, &format!("Step {n}."), Some("commentary")),
            2 => self.command(None, "ls"),
            _ => {
                let id = self.item_id();
                self.item(None, json!({ "type": "reasoning", "id": id }), true);
            }
        }
    }

    fn answer(&mut self) {
        let text = self.tag.answer();
        let (text, phase) = match self.setup.answer {
            Answer::Final => (text.as_str(), Some("final_answer")),
            Answer::Empty => ("", Some("final_answer")),
            Answer::Partial => (text.as_str(), Some("partial_answer")),
            Answer::Unphased => (text.as_str(), None),
            Answer::None => return,
        };
        if self.setup.answer_at_end {
            let id = self.item_id();
            let message = json!({ "type": "agentMessage", "id": id, "text": text, "phase": phase });
            self.answer = Some(message);
            return;
        }
        self.note(TurnNote::Answered { is_final: self.setup.answer == Answer::Final });
        if self.is_review && self.setup.answer == Answer::Final {
            let id = self.item_id();
            let review = json!({ "type": "exitedReviewMode", "id": id, "review": text });
            self.item(None, review, true);
        } else {
            self.message(None, text, phase);
        }
    }

    fn end(&mut self, end: End) {
        match end {
            End::Completed => self.report("completed"),
            End::Failed => self.report("failed"),
            End::Interrupted => self.report("interrupted"),
            End::Unexplained => self.report("failed"),
            End::Unknown => {
                self.note(TurnNote::Left);
                let turn = json!({ "id": self.turn, "status": "paused" });
                let params = json!({ "threadId": self.thread, "turn": turn });
                self.notify(method::TURN_COMPLETED, params);
            }
            End::Omitted => self.note(TurnNote::Left),
            End::Error => {
                self.note(TurnNote::Left);
                let error = json!({ "message": "the model is overloaded" });
                let params = json!({ "threadId": self.thread, "turnId": self.turn, "error": error, "willRetry": false });
                self.notify(method::ERROR, params);
            }
            End::Exits => {
                self.flush();
                let _ = self.exits.send(Exit::Code(0));
            }
            End::Crashes => {
                self.flush();
                let _ = self.exits.send(CRASH);
            }
            End::ExitsMidLine => {
                self.held.extend(br#"{"method":"turn/comple"#);
                self.flush();
                let _ = self.exits.send(Exit::Code(0));
            }
            End::ExitsReported => {
                let report = self.reported("completed");
                self.held.extend(report.to_string().into_bytes());
                self.flush();
                let _ = self.exits.send(Exit::Code(0));
            }
        }
    }

    fn report(&mut self, status: &'static str) {
        let mut report = self.reported(status);
        if self.setup.start == Start::Ended && !self.is_answered {
            self.over = Some(report["params"]["turn"].take());
        } else {
            self.send(&report);
        }
    }

    /// Returns the report of the end, and records that it is sent.
    fn reported(&mut self, status: &'static str) -> Value {
        let reported = match status {
            "completed" => Reported::Completed,
            "failed" => Reported::Failed,
            _ => Reported::Interrupted,
        };
        let mut turn = json!({ "id": self.turn, "status": status });
        if let Some(answer) = self.answer.take() {
            self.note(TurnNote::Answered { is_final: self.setup.answer == Answer::Final });
            turn["items"] = json!([answer]);
        }
        self.note(TurnNote::Reported(reported));
        if status == "failed" && self.setup.end != End::Unexplained {
            turn["error"] = json!({ "message": "the model refused" });
        }
        let params = json!({ "threadId": self.thread, "turn": turn });
        json!({ "method": method::TURN_COMPLETED, "params": params })
    }

    fn start_subagent(&mut self, n: u64) -> Worker {
        let thread = format!("{}-agent-{n}", self.turn);
        let turn = format!("{}-sub-{n}", self.turn);
        let item = self.item_id();
        let mut worker = Worker { thread, turn, item };
        self.opened();
        if self.setup.subagent == Subagent::Early {
            self.subagent_turn(&worker, method::TURN_STARTED, "inProgress");
            self.spawn_item(&worker, false);
            return worker;
        }
        if self.setup.subagent == Subagent::Nested {
            let helper = worker.helper();
            let agent = json!({ "id": helper.thread, "parentThreadId": worker.thread });
            self.notify(method::THREAD_STARTED, json!({ "thread": agent }));
            self.subagent_turn(&helper, method::TURN_STARTED, "inProgress");
        }
        if self.setup.subagent == Subagent::Active {
            self.activity(&worker.thread);
            self.subagent_turn(&worker, method::TURN_STARTED, "inProgress");
            return worker;
        }
        if self.setup.subagent != Subagent::Announced {
            self.spawn_item(&worker, false);
        }
        let agent = json!({ "id": worker.thread, "parentThreadId": self.thread });
        self.notify(method::THREAD_STARTED, json!({ "thread": agent }));
        if self.setup.subagent != Subagent::Backwards {
            self.subagent_turn(&worker, method::TURN_STARTED, "inProgress");
        }
        if self.setup.subagent == Subagent::Again {
            self.subagent_turn(&worker, method::TURN_COMPLETED, "completed");
            self.spawn_item(&worker, true);
            worker.turn.push_str("-again");
            self.subagent_turn(&worker, method::TURN_STARTED, "inProgress");
        }
        worker
    }

    async fn end_subagents(&mut self, subagents: &mut Vec<Worker>) {
        for worker in std::mem::take(subagents) {
            // Items of a turn that is not announced belong to no turn.
            let is_announced = self.setup.subagent != Subagent::Backwards;
            for n in (1..=self.setup.subagent_work).filter(|_| is_announced) {
                self.pause().await;
                let own = match self.setup.subagent {
                    Subagent::Nested => worker.helper(),
                    _ => worker.clone(),
                };
                let scope = Some((own.thread, own.turn));
                match n % 2 {
                    1 => self.message(scope, &format!("Step {n}."), Some("commentary")),
                    _ => self.command(scope, "wc"),
                }
            }
            self.pause().await;
            self.end_subagent(&worker);
        }
    }

    fn end_subagent(&mut self, worker: &Worker) {
        if self.setup.subagent != Subagent::Backwards {
            let scope = (worker.thread.clone(), worker.turn.clone());
            self.message(Some(scope), "The subagent is done.", Some("final_answer"));
        }
        self.closed();
        match self.setup.subagent {
            Subagent::Nested => {
                self.subagent_turn(&worker.helper(), method::TURN_COMPLETED, "completed");
                self.subagent_turn(worker, method::TURN_COMPLETED, "completed");
            }
            Subagent::Idle => {
                let status = json!({ "type": "idle" });
                let params = json!({ "threadId": worker.thread, "status": status });
                self.notify(method::THREAD_STATUS_CHANGED, params);
            }
            Subagent::Closed => {
                self.notify(method::THREAD_CLOSED, json!({ "threadId": worker.thread }));
            }
            _ => self.subagent_turn(worker, method::TURN_COMPLETED, "completed"),
        }
        match self.setup.subagent {
            Subagent::Spawned
            | Subagent::Early
            | Subagent::Nested
            | Subagent::Idle
            | Subagent::Closed => {
                self.spawn_item(worker, true);
            }
            Subagent::Backwards => {
                self.subagent_turn(worker, method::TURN_STARTED, "inProgress");
                self.spawn_item(worker, true);
            }
            Subagent::Announced | Subagent::Again | Subagent::Active => {}
        }
    }

    fn spawn_item(&mut self, worker: &Worker, is_complete: bool) {
        let status = if is_complete { "completed" } else { "inProgress" };
        let Worker { thread, item, .. } = worker;
        let spawn = json!({ "type": "collabAgentToolCall", "id": item, "tool": "spawnAgent", "status": status, "receiverThreadIds": [thread] });
        self.item(None, spawn, is_complete);
    }

    fn subagent_turn(&mut self, worker: &Worker, method: &str, status: &str) {
        let turn = json!({ "id": worker.turn, "status": status });
        self.notify(method, json!({ "threadId": worker.thread, "turn": turn }));
    }

    pub(super) fn item_id(&mut self) -> String {
        self.items += 1;
        format!("{}-item-{}", self.turn, self.items)
    }

    pub(super) fn message(
        &mut self,
        scope: Option<(String, String)>,
        text: &str,
        phase: Option<&str>,
    ) {
        let id = self.item_id();
        let message = json!({ "type": "agentMessage", "id": id, "text": text, "phase": phase });
        self.item(scope, message, true);
    }

    fn open_command(&mut self) {
        let id = self.item_id();
        self.opened();
        let run = json!({ "type": "commandExecution", "id": id, "command": "sleep", "status": "inProgress" });
        self.item(None, run, false);
    }

    /// Starts a command with a line that no client can read.
    fn garbled_command(&mut self) {
        self.opened();
        self.held.extend(br#"{"method":"item/started","params":{"item":{"type":"comm"#);
        self.held.push(b'\n');
        self.flush_unless_burst();
        if self.setup.unreadable + 1 > self.takes.lines {
            self.too_much();
        }
    }

    /// Completes the command.
    fn complete_garbled(&mut self) {
        let id = self.item_id();
        let run = json!({ "type": "commandExecution", "id": id, "command": GARBLED });
        self.complete_command(None, run, GARBLED);
        self.closed();
    }

    pub(super) fn command(&mut self, scope: Option<(String, String)>, command: &str) {
        let id = self.item_id();
        let run = json!({ "type": "commandExecution", "id": id, "command": command, "status": "inProgress" });
        self.item(scope.clone(), run.clone(), false);
        self.complete_command(scope, run, command);
    }

    fn complete_command(&mut self, scope: Option<(String, String)>, mut run: Value, command: &str) {
        let (status, code) =
            if self.setup.commands_fail { ("failed", 1) } else { ("completed", 0) };
        (run["status"], run["exitCode"]) = (json!(status), json!(code));
        self.note(TurnNote::Did(Work::Command(command.to_owned())));
        self.item(scope, run, true);
    }

    /// Reports what the agent does to a file.
    fn edit(&mut self) {
        let status = match self.setup.edits {
            Edits::None => return,
            Edits::Made => "completed",
            Edits::Failed => "failed",
            Edits::Declined => "declined",
        };
        let id = self.item_id();
        let change = json!({ "path": FILE, "kind": { "type": "update" }, "diff": "-a\n+b\n" });
        let mut edit =
            json!({ "type": "fileChange", "id": id, "changes": [change], "status": "inProgress" });
        self.item(None, edit.clone(), false);
        edit["status"] = json!(status);
        if self.setup.edits == Edits::Made {
            self.note(TurnNote::Did(Work::Edit(FILE.to_owned())));
        }
        self.item(None, edit, true);
    }

    pub(super) fn item(&mut self, scope: Option<(String, String)>, item: Value, is_complete: bool) {
        let (thread, turn) = scope.unwrap_or_else(|| (self.thread.clone(), self.turn.clone()));
        let method = if is_complete { method::ITEM_COMPLETED } else { method::ITEM_STARTED };
        self.notify(method, json!({ "threadId": thread, "turnId": turn, "item": item }));
    }

    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "method": method, "params": params }));
    }

    pub(super) fn send(&mut self, message: &Value) {
        let line = line(message);
        self.count(line.len());
        self.held.extend(line);
        self.flush_unless_burst();
    }

    /// Counts the bytes of a message before the answer to the start request.
    fn count(&mut self, bytes: usize) {
        if !self.is_answered {
            self.unanswered += bytes as u64;
            if self.unanswered > self.takes.bytes {
                self.too_much();
            }
        }
    }

    /// The client may give the turn up now.
    fn too_much(&mut self) {
        if !std::mem::replace(&mut self.is_too_much, true) {
            self.note(TurnNote::TooMuch);
        }
    }

    fn flush_unless_burst(&mut self) {
        if !self.setup.burst {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.held.is_empty() {
            self.sent.sends();
        }
        let _ = self.out.send(std::mem::take(&mut self.held)); // the writer may be gone
    }
}
