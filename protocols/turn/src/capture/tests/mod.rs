//! Drives a capture by hand. The messages look like those of the app-server 0.169.0.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::testing::with_defect;

mod cancel;
mod deadlines;
mod defects;
mod limits;
mod ownership;
mod report;
mod resolution;
mod start;
mod subagents;
mod walk;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A capture of turn `u` on thread `t`, and its outputs.
struct CaptureTest {
    capture: Capture,
    began: Instant,
    now: Instant,
    interrupts: Vec<Interrupt>,
    foreign: Vec<String>,
    progress: Vec<Progress>,
    /// When the verdict came, in milliseconds.
    decided: Option<u128>,
}

impl CaptureTest {
    fn new(kind: TurnKind, limits: TurnLimits) -> Self {
        let now = Instant::now();
        Self {
            capture: Capture::new(kind, "t".into(), limits, now),
            began: now,
            now,
            interrupts: Vec::new(),
            foreign: Vec::new(),
            progress: Vec::new(),
            decided: None,
        }
    }

    /// A task whose start request is not answered.
    fn starting() -> Self {
        Self::new(TurnKind::Task, TurnLimits::default())
    }

    /// A task that runs.
    fn running() -> Self {
        let mut test = Self::starting();
        test.answer("u");
        test.turn_started("t", "u", "u");
        test
    }

    fn handle(&mut self, input: Input) {
        self.capture.handle(input, self.now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.capture.output() {
            match output {
                Output::Interrupt(interrupt) => self.interrupts.push(interrupt),
                Output::Progress(progress) => self.progress.push(progress),
                Output::Foreign(raw) => self.foreign.push(raw.method),
            }
        }
        if self.capture.verdict().is_some() {
            self.decided.get_or_insert((self.now - self.began).as_millis());
        }
    }

    /// Advances the time, and wakes the capture when it is due.
    fn wait(&mut self, how_long: Duration) {
        let until = self.now + how_long;
        while let Some(due) = self.capture.due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.capture.wake(self.now);
            self.collect();
            assert!(self.capture.due().is_none_or(|next| next > due), "what was due is done");
        }
        self.now = until;
    }

    fn answer(&mut self, turn: &str) {
        self.answer_with(json!({ "turn": { "id": turn, "items": [], "status": "inProgress" } }));
    }

    fn answer_with(&mut self, answer: Value) {
        self.handle(Input::Answer(serde_json::from_value(answer).unwrap()));
    }

    fn end(&mut self) {
        self.handle(Input::End { why: "gone".into() });
    }

    fn notify(&mut self, method: &str, params: Value) {
        let params = Some(serde_json::value::to_raw_value(&params).unwrap());
        self.handle(Input::Notification(Raw { method: method.into(), params }));
    }

    /// `root` is empty for a server that does not report it.
    fn turn_started(&mut self, thread: &str, turn: &str, root: &str) {
        self.notify("turn/started", turn_params(thread, turn, root, "inProgress"));
    }

    fn turn_completed(&mut self, thread: &str, turn: &str, root: &str, status: &str) {
        self.notify("turn/completed", turn_params(thread, turn, root, status));
    }

    fn complete(&mut self) {
        self.turn_completed("t", "u", "u", "completed");
    }

    fn item_started(&mut self, thread: &str, turn: &str, item: &Value) {
        self.notify("item/started", json!({ "threadId": thread, "turnId": turn, "item": item }));
    }

    fn item_completed(&mut self, thread: &str, turn: &str, item: &Value) {
        self.notify("item/completed", json!({ "threadId": thread, "turnId": turn, "item": item }));
    }

    fn message(&mut self, text: &str, phase: Option<&str>) {
        let item = message(text, phase);
        self.item_started("t", "u", &item);
        self.item_completed("t", "u", &item);
    }

    fn final_answer(&mut self) {
        self.message("the answer", Some("final_answer"));
    }

    fn error(&mut self, message: &str, will_retry: bool) {
        let error = json!({ "message": message });
        let scope =
            json!({ "error": error, "willRetry": will_retry, "threadId": "t", "turnId": "u" });
        self.notify("error", scope);
    }

    fn thread_status(&mut self, thread: &str, status: &str) {
        let params = json!({ "threadId": thread, "status": { "type": status } });
        self.notify("thread/status/changed", params);
    }

    /// Returns the verdict, when it came, the answer and the interrupts.
    fn outcome(&self) -> String {
        let Some(verdict) = self.capture.verdict() else { return "none".into() };
        let mut text = format!("{verdict:?} at {} ms", self.decided.unwrap());
        for Interrupt { thread, turn } in &self.interrupts {
            text += &format!(", interrupts {thread} {}", turn.as_deref().unwrap_or("?"));
        }
        text
    }

    fn report(self) -> Report {
        self.capture.into_report().expect("a verdict")
    }
}

fn turn_params(thread: &str, turn: &str, root: &str, status: &str) -> Value {
    let root = Some(root).filter(|root| !root.is_empty());
    let turn = json!({ "id": turn, "rootTurnId": root, "items": [], "status": status });
    json!({ "threadId": thread, "turn": turn })
}

fn message(text: &str, phase: Option<&str>) -> Value {
    json!({ "type": "agentMessage", "id": "m", "text": text, "phase": phase })
}

fn command(id: &str) -> Value {
    json!({ "type": "commandExecution", "id": id, "command": "make", "status": "completed", "exitCode": 0 })
}

fn edit(path: &str) -> Value {
    let change = json!({ "path": path, "kind": { "type": "add" }, "diff": "+x" });
    json!({ "type": "fileChange", "id": path, "changes": [change], "status": "completed" })
}

fn agents(id: &str, tool: &str, threads: &[&str]) -> Value {
    json!({
        "type": "collabAgentToolCall", "id": id, "tool": tool, "status": "inProgress",
        "receiverThreadIds": threads, "agentsStates": {},
    })
}
