//! The subagents of a turn: their threads, turns and work.

use serde_json::json;

use super::played::Played;
use super::setup::Subagent;
use reknit_turn::wire::method;

/// A subagent: its thread, its turn, and the item that started it.
#[derive(Clone)]
pub(super) struct Worker {
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

/// Returns the turn for which the subagent with this thread works.
pub(super) fn turn_of(thread: &str) -> Option<&str> {
    let (turn, _) = thread.split_once("-agent-")?;
    turn.starts_with("turn-").then_some(turn)
}

impl Played {
    pub(super) fn start_subagent(&mut self, n: u64) -> Worker {
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
        if self.setup.subagent == Subagent::Rooted {
            self.subagent_turn(&worker, method::TURN_STARTED, "inProgress");
            return worker;
        }
        if self.setup.subagent == Subagent::NamedLast {
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

    pub(super) async fn end_subagents(&mut self, subagents: &mut Vec<Worker>) {
        for worker in std::mem::take(subagents) {
            // Items of a turn that is not announced belong to no turn.
            let is_announced = !self.setup.subagent.is_reported_last();
            if self.setup.subagent == Subagent::Failing {
                self.pause().await;
                let error = json!({ "message": "the subagent has no room" });
                let params = json!({ "threadId": worker.thread, "turnId": worker.turn, "error": error, "willRetry": false });
                self.notify(method::ERROR, params);
            }
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
        if !self.setup.subagent.is_reported_last() {
            let scope = (worker.thread.clone(), worker.turn.clone());
            self.message(Some(scope), "The subagent is done.", Some("final_answer"));
        }
        self.closed();
        match self.setup.subagent {
            Subagent::Nested => {
                self.subagent_turn(&worker.helper(), method::TURN_COMPLETED, "completed");
                self.subagent_turn(worker, method::TURN_COMPLETED, "completed");
            }
            Subagent::Idle | Subagent::Broken => {
                let is_idle = self.setup.subagent == Subagent::Idle;
                let status = json!({ "type": if is_idle { "idle" } else { "systemError" } });
                let params = json!({ "threadId": worker.thread, "status": status });
                self.notify(method::THREAD_STATUS_CHANGED, params);
            }
            Subagent::Closed => {
                self.notify(method::THREAD_CLOSED, json!({ "threadId": worker.thread }));
            }
            Subagent::NamedLast => {
                self.subagent_turn(worker, method::TURN_STARTED, "inProgress");
                self.subagent_turn(worker, method::TURN_COMPLETED, "completed");
            }
            _ => self.subagent_turn(worker, method::TURN_COMPLETED, "completed"),
        }
        match self.setup.subagent {
            Subagent::Spawned
            | Subagent::Failing
            | Subagent::Early
            | Subagent::Nested
            | Subagent::Idle
            | Subagent::Broken
            | Subagent::Closed
            | Subagent::NamedLast => {
                self.spawn_item(worker, true);
            }
            Subagent::Backwards => {
                self.subagent_turn(worker, method::TURN_STARTED, "inProgress");
                self.spawn_item(worker, true);
            }
            Subagent::Announced | Subagent::Again | Subagent::Active | Subagent::Rooted => {}
        }
    }

    fn spawn_item(&mut self, worker: &Worker, is_complete: bool) {
        let status = if is_complete { "completed" } else { "inProgress" };
        let Worker { thread, item, .. } = worker;
        let is_named = is_complete || self.setup.subagent != Subagent::NamedLast;
        let threads: Vec<_> = is_named.then_some(thread).into_iter().collect();
        let spawn = json!({ "type": "collabAgentToolCall", "id": item, "tool": "spawnAgent", "status": status, "receiverThreadIds": threads });
        self.item(None, spawn, is_complete);
    }

    fn subagent_turn(&mut self, worker: &Worker, method: &str, status: &str) {
        let mut turn = json!({ "id": worker.turn, "status": status });
        if self.setup.subagent == Subagent::Rooted {
            turn["rootTurnId"] = json!(self.turn);
        }
        self.notify(method, json!({ "threadId": worker.thread, "turn": turn }));
    }
}
