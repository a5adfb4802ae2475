//! A turn, as the app-server of the outside world plays it: its start, its work, and its end. `items` and
//! `subagents` have what the agent and its subagents do, `extras` what a plain turn has not.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::notes::{Reported, Sent, Tag, TurnNote};
use super::setup::{Answer, End, Noise, Open, Start, TurnSetup};
use crate::process::Exit;
use crate::subject::Recorder;
use reknit_turn::wire::{LONGEST_ID, method};

/// The exit of an app-server that crashes.
pub(super) const CRASH: Exit = Exit::Code(3);

/// A turn that is played.
pub(super) struct Played {
    pub(super) request: Value,
    pub(super) thread: String,
    pub(super) turn: String,
    pub(super) tag: Tag,
    pub(super) setup: TurnSetup,
    pub(super) is_review: bool,
    pub(super) record: Recorder,
    pub(super) out: mpsc::UnboundedSender<Vec<u8>>,
    pub(super) exits: mpsc::UnboundedSender<Exit>,
    /// The interrupts to answer at the end.
    pub(super) waiting: Arc<Mutex<Vec<Value>>>,
    /// The lines of a burst.
    pub(super) held: Vec<u8>,
    /// The answer that comes with the report of the end.
    pub(super) answer: Option<Value>,
    /// The turn at its end, for the answer to the start request.
    pub(super) over: Option<Value>,
    pub(super) items: u64,
    /// The number of commands and subagents that work.
    pub(super) open: u64,
    /// Whether the id of the turn was sent.
    pub(super) is_named: bool,
    /// Whether the start request is answered.
    pub(super) is_answered: bool,
    /// When the last message left, or the turn started.
    pub(super) sent: Sent,
    /// The limits of its client.
    pub(super) takes: Takes,
    /// The bytes of the messages before the answer to the start request.
    pub(super) unanswered: u64,
    /// The number of these messages.
    pub(super) early: u64,
    /// Whether that was more than its client takes.
    pub(super) is_too_much: bool,
}

/// The amounts that a client takes before it gives a turn up.
pub(super) struct Takes {
    /// The bytes of messages before the answer to the start request.
    pub(super) bytes: u64,
    /// The number of these messages.
    pub(super) early: u64,
    /// The lines that it cannot read.
    pub(super) lines: u64,
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

    pub(super) async fn play(mut self, mut interrupted: watch::Receiver<bool>) {
        match self.setup.start {
            Start::Refused => {
                let error = json!({ "code": -32600, "message": "the model is not available" });
                self.note(TurnNote::Refused);
                self.send(&json!({ "id": self.request, "error": error }));
                return self.flush();
            }
            Start::Silent => return std::future::pending().await,
            Start::Mute => {
                self.answer_request();
                return std::future::pending().await;
            }
            Start::Answered
            | Start::NotifiedFirst
            | Start::Late
            | Start::Last
            | Start::Unnamed
            | Start::Garbled
            | Start::Ended
            | Start::Unanswered => {}
        }
        let waits = self.setup.waits();
        if !waits.is_zero() {
            self.answer_request();
            sleep(waits).await;
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
        if !answers_late && !answers_last && !self.is_answered {
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
        for n in 1..=self.setup.drafts {
            self.pause().await;
            self.draft(n);
        }
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
        for _ in 0..self.setup.talk {
            self.pause().await;
            self.message(None, "There is more to say.", Some("commentary"));
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
            Noise::Id => {
                let id = "i".repeat(LONGEST_ID + 1);
                self.item(None, json!({ "type": "reasoning", "id": id }), true);
            }
            Noise::Line => {
                self.held.extend(b"warning: this line is not a message\n");
                self.flush_unless_burst();
            }
            Noise::Item => {
                let params = json!({ "threadId": self.thread, "turnId": self.turn, "item": 7 });
                self.notify(method::ITEM_COMPLETED, params);
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
        let is_noisy = !matches!(self.setup.noise, Noise::None | Noise::Work);
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
            if self.setup.inner_names_its_root() {
                turn["rootTurnId"] = json!(self.turn);
            }
        }
        // Only the answer says that the thread of a detached review is this turn's, or names the review around a
        // turn without a root.
        let is_nameless = self.setup.inner && !self.setup.inner_names_its_root();
        if !(self.is_review && (self.setup.detached || is_nameless)) {
            self.named();
        }
        self.notify(method::TURN_STARTED, json!({ "threadId": self.thread, "turn": turn }));
    }

    fn named(&mut self) {
        if !std::mem::replace(&mut self.is_named, true) {
            self.note(TurnNote::Named);
        }
    }

    pub(super) fn opened(&mut self) {
        self.open += 1;
        if self.open == 1 {
            self.note(TurnNote::Works);
        }
    }

    pub(super) fn closed(&mut self) {
        self.open -= 1;
        if self.open == 0 {
            self.note(TurnNote::Rests);
        }
    }

    pub(super) async fn pause(&self) {
        if !self.setup.burst {
            sleep(self.setup.every.0).await;
        }
    }

    fn answer_request(&mut self) {
        self.is_answered = true;
        match self.setup.start {
            Start::Unnamed | Start::Mute => {}
            // The client cannot know whether the turn starts.
            Start::Garbled => self.too_much(),
            _ => self.named(),
        }
        let turn = match (self.setup.start, self.over.take()) {
            (Start::Unnamed | Start::Mute, _) => json!({ "status": "inProgress" }),
            (Start::Garbled, _) => json!(7),
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
        let Some((text, phase)) = self.phased(self.tag.answer()) else { return };
        if self.setup.answer_at_end {
            let id = self.item_id();
            let message = json!({ "type": "agentMessage", "id": id, "text": text, "phase": phase });
            self.answer = Some(message);
        } else {
            self.say(&text, phase);
        }
    }

    /// Gives an answer that is not the last one.
    fn draft(&mut self, n: u64) {
        if let Some((text, phase)) = self.phased(format!("Draft {n}.")) {
            self.say(&text, phase);
        }
    }

    /// Returns the text and the phase of an answer, if the agent answers.
    fn phased(&self, text: String) -> Option<(String, Option<&'static str>)> {
        match self.setup.answer {
            Answer::Final => Some((text, Some("final_answer"))),
            Answer::Empty => Some((String::new(), Some("final_answer"))),
            Answer::Partial => Some((text, Some("partial_answer"))),
            Answer::Unphased => Some((text, None)),
            Answer::None => None,
        }
    }

    fn say(&mut self, text: &str, phase: Option<&str>) {
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
            End::Closes => {
                self.note(TurnNote::Left);
                self.notify(method::THREAD_CLOSED, json!({ "threadId": self.thread }));
            }
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

    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "method": method, "params": params }));
    }

    pub(super) fn send(&mut self, message: &Value) {
        let line = line(message);
        self.count(line.len());
        self.held.extend(line);
        self.flush_unless_burst();
    }

    /// Counts a message before the answer to the start request.
    pub(super) fn count(&mut self, bytes: usize) {
        if !self.is_answered {
            self.unanswered += bytes as u64;
            self.early += 1;
            if self.unanswered > self.takes.bytes || self.early > self.takes.early {
                self.too_much();
            }
        }
    }

    /// The client may give the turn up now.
    pub(super) fn too_much(&mut self) {
        if !std::mem::replace(&mut self.is_too_much, true) {
            self.note(TurnNote::TooMuch);
        }
    }

    pub(super) fn flush_unless_burst(&mut self) {
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

pub(super) fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}
