//! An app-server that works correctly: it answers at once, and a turn takes a few steps.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// An app-server that works correctly.
#[derive(Default)]
pub(super) struct AppServer {
    last: u64,
    /// The running turns, by their ids.
    turns: BTreeMap<String, Running>,
    /// The status with which the last turn of each thread ended.
    ended: BTreeMap<String, &'static str>,
}

struct Running {
    thread: String,
    steps: u8,
    interrupted: bool,
}

impl AppServer {
    /// Answers a request.
    pub fn answer(&mut self, id: &Value, method: &str, params: &Value) -> Value {
        let text = |key: &str| params[key].as_str().unwrap_or_default().to_owned();
        let refusal = json!({ "id": id, "error": { "code": -32600, "message": "no" } });
        let result = match method {
            "initialize" => json!({ "userAgent": "model" }),
            "thread/start" => {
                self.last += 1;
                json!({ "thread": { "id": format!("p{}", self.last % 4) } })
            }
            "thread/resume" => json!({ "thread": { "id": text("threadId") } }),
            "turn/start" | "review/start" | "thread/compact/start" => {
                let thread = text("threadId");
                if thread.is_empty() {
                    return refusal;
                }
                let running = self.turns.iter().find(|(_, turn)| turn.thread == thread);
                let turn = running.map(|(turn, _)| turn.clone()).unwrap_or_else(|| {
                    self.last += 1;
                    format!("u{}", self.last)
                });
                let running = Running { thread, steps: 0, interrupted: false };
                self.turns.entry(turn.clone()).or_insert(running);
                json!({ "turn": { "id": turn, "status": "inProgress" } })
            }
            "turn/interrupt" => {
                let (thread, turn) = (text("threadId"), text("turnId"));
                // The empty id is the turn that runs on the thread.
                let is_meant = |id: &str, running: &Running| {
                    id == turn || turn.is_empty() && running.thread == thread
                };
                match self.turns.iter_mut().find(|(id, running)| is_meant(id, running)) {
                    Some((_, running)) if running.steps > 0 => running.interrupted = true,
                    _ => return refusal,
                }
                json!({})
            }
            _ => json!({}),
        };
        json!({ "id": id, "result": result })
    }

    /// Lets each turn do its next step. Returns the notifications.
    pub fn work(&mut self) -> Vec<Value> {
        let mut news = Vec::new();
        let mut over = Vec::new();
        for (id, turn) in &mut self.turns {
            turn.steps += 1;
            let scope = |turn: &Running| json!({ "threadId": turn.thread, "turnId": id });
            match turn.steps {
                _ if turn.interrupted => over.push((id.clone(), "interrupted")),
                1 => {
                    let started = json!({ "id": id, "status": "inProgress" });
                    let params = json!({ "threadId": turn.thread, "turn": started });
                    news.push(json!({ "method": "turn/started", "params": params }));
                }
                2 => {
                    let mut params = scope(turn);
                    params["item"] = json!({
                        "type": "agentMessage", "id": "m", "text": "done", "phase": "final_answer",
                    });
                    news.push(json!({ "method": "item/completed", "params": params }));
                }
                _ => over.push((id.clone(), "completed")),
            }
        }
        for (id, status) in over {
            let Some(turn) = self.turns.remove(&id) else { continue };
            let completed = json!({ "id": id, "status": status });
            let params = json!({ "threadId": turn.thread, "turn": completed });
            news.push(json!({ "method": "turn/completed", "params": params }));
            self.ended.insert(turn.thread, status);
        }
        news
    }

    /// Returns the n-th running turn: its thread, and its id.
    pub fn turn(&self, n: u8) -> Option<(String, String)> {
        let at = usize::from(n).checked_rem(self.turns.len())?;
        self.turns.iter().nth(at).map(|(id, turn)| (turn.thread.clone(), id.clone()))
    }

    /// Returns how the last turn of a thread ended.
    pub fn ended(&self, thread: &str) -> Option<&'static str> {
        self.ended.get(thread).copied()
    }
}
