//! The messages of clients and app-servers.

use arbitrary::Arbitrary;
use serde_json::{Value, json};

use crate::script::{Bytes, Name, Rarely};

/// A request of a client.
#[derive(Arbitrary, Debug)]
pub(super) enum Ask {
    /// `initialize`.
    Initialize,
    /// `thread/start`.
    StartThread,
    /// `thread/resume`.
    ResumeThread(Name),
    /// `thread/delete`.
    DeleteThread(Name),
    /// `turn/start`.
    StartTurn(Name),
    /// `review/start`.
    StartReview(Name),
    /// `thread/compact/start`.
    Compact(Name),
    /// `turn/interrupt`.
    Interrupt(Name, Name),
    /// `broker/shutdown`.
    Shutdown(Rarely<bool>),
    /// Any method with this much content.
    Other(Name, Bytes),
}

impl Ask {
    /// Encodes the request. `text`: whether its id is a string.
    pub fn message(&self, id: u64, text: &Rarely<Name>) -> Value {
        let on = |thread: &Name| json!({ "threadId": thread.text(), "input": [] });
        let (method, params) = match self {
            Self::Initialize => ("initialize".to_owned(), json!({})),
            Self::StartThread => ("thread/start".to_owned(), json!({ "cwd": "/" })),
            Self::ResumeThread(thread) => ("thread/resume".to_owned(), on(thread)),
            Self::DeleteThread(thread) => ("thread/delete".to_owned(), on(thread)),
            Self::StartTurn(thread) => ("turn/start".to_owned(), on(thread)),
            Self::StartReview(thread) => ("review/start".to_owned(), on(thread)),
            Self::Compact(thread) => ("thread/compact/start".to_owned(), on(thread)),
            Self::Interrupt(thread, turn) => (
                "turn/interrupt".to_owned(),
                json!({ "threadId": thread.text(), "turnId": turn.text() }),
            ),
            Self::Shutdown(Rarely(Some(_))) => ("broker/shutdown".to_owned(), json!({})),
            Self::Shutdown(Rarely(None)) => ("model/list".to_owned(), json!({})),
            Self::Other(method, content) => (method.text(), json!({ "x": content.base64() })),
        };
        let id = text.0.as_ref().map_or(json!(id), |name| json!(format!("{}{id}", name.text())));
        json!({ "id": id, "method": method, "params": params })
    }
}

/// A notification of an app-server.
#[derive(Arbitrary, Debug)]
pub(super) enum News {
    /// `thread/started`, with the parent.
    ThreadStarted(Name, Option<Name>),
    /// `thread/status/changed`.
    Status(Name, u8),
    /// `thread/name/updated`.
    Named(Name, Option<Name>),
    /// `thread/closed`.
    ThreadClosed(Name),
    /// `turn/started`, with the root.
    TurnStarted(Name, Name, Option<Name>),
    /// `turn/completed`.
    TurnCompleted(Name, Name, u8),
    /// `item/started`, or `item/completed`.
    Item { is_complete: bool, thread: Name, turn: Name, item: Item },
    /// `error`.
    Error { thread: Name, turn: Name, will_retry: bool },
    /// Any notification.
    Other(Name, Option<Name>),
}

/// An item of a turn.
#[derive(Arbitrary, Debug)]
pub(super) struct Item {
    id: Name,
    kind: u8,
    phase: u8,
    other: Name,
    text: Bytes,
}

const KINDS: [&str; 12] = [
    "agentMessage",
    "agentMessage",
    "userMessage",
    "plan",
    "reasoning",
    "commandExecution",
    "fileChange",
    "mcpToolCall",
    "collabAgentToolCall",
    "subAgentActivity",
    "exitedReviewMode",
    "somethingNew",
];

const PHASES: [Option<&str>; 4] = [Some("final_answer"), Some("commentary"), None, Some("new")];

const STATUSES: [&str; 6] = ["completed", "inProgress", "failed", "interrupted", "idle", "active"];

impl Item {
    fn value(&self) -> Value {
        let text = String::from_utf8_lossy(&self.text.bytes()).into_owned();
        let status = STATUSES[usize::from(self.phase) % STATUSES.len()];
        let other = self.other.text();
        json!({
            "type": KINDS[usize::from(self.kind) % KINDS.len()],
            "id": self.id.text(),
            "text": text,
            "phase": PHASES[usize::from(self.phase) % PHASES.len()],
            "command": text,
            "status": status,
            "exitCode": self.phase,
            "changes": [{ "path": other, "kind": { "type": "add" }, "diff": "" }],
            "receiverThreadIds": [other],
            "agentsStates": { (other.clone()): { "status": status } },
            "agentThreadId": other,
            "review": text,
        })
    }
}

impl News {
    pub fn message(&self) -> Value {
        let name = |name: &Option<Name>| name.as_ref().map(Name::text);
        let status = |n: u8| STATUSES[usize::from(n) % STATUSES.len()];
        let (method, params) = match self {
            Self::ThreadStarted(thread, parent) => (
                "thread/started".to_owned(),
                json!({ "thread": { "id": thread.text(), "parentThreadId": name(parent) } }),
            ),
            Self::Status(thread, n) => (
                "thread/status/changed".to_owned(),
                json!({ "threadId": thread.text(), "status": { "type": status(*n) } }),
            ),
            Self::Named(thread, new) => (
                "thread/name/updated".to_owned(),
                json!({ "threadId": thread.text(), "threadName": name(new) }),
            ),
            Self::ThreadClosed(thread) => {
                ("thread/closed".to_owned(), json!({ "threadId": thread.text() }))
            }
            Self::TurnStarted(thread, turn, root) => {
                let turn =
                    json!({ "id": turn.text(), "rootTurnId": name(root), "status": "inProgress" });
                ("turn/started".to_owned(), json!({ "threadId": thread.text(), "turn": turn }))
            }
            Self::TurnCompleted(thread, turn, n) => {
                let turn = json!({ "id": turn.text(), "status": status(*n) });
                ("turn/completed".to_owned(), json!({ "threadId": thread.text(), "turn": turn }))
            }
            Self::Item { is_complete, thread, turn, item } => {
                let method = if *is_complete { "item/completed" } else { "item/started" };
                let params = json!({
                    "threadId": thread.text(), "turnId": turn.text(), "item": item.value(),
                });
                (method.to_owned(), params)
            }
            Self::Error { thread, turn, will_retry } => (
                "error".to_owned(),
                json!({
                    "threadId": thread.text(), "turnId": turn.text(),
                    "error": { "message": "no" }, "willRetry": will_retry,
                }),
            ),
            Self::Other(method, thread) => (method.text(), json!({ "threadId": name(thread) })),
        };
        json!({ "method": method, "params": params })
    }
}

/// An answer of an app-server.
#[derive(Arbitrary, Debug)]
pub(super) enum Answer {
    /// A thread.
    Thread(Name),
    /// A turn, and the thread of a review.
    Turn(Name, u8, Option<Name>),
    /// An empty object.
    Empty,
    /// An error with this code.
    Error(u8, Name),
}

/// Error codes with a meaning, and one without.
const CODES: [i64; 5] = [-32600, -32601, -32001, -32000, 7];

impl Answer {
    /// Encodes the answer to the request with this id.
    pub fn message(&self, id: &Value) -> Value {
        match self {
            Self::Thread(thread) => {
                json!({ "id": id, "result": { "thread": { "id": thread.text() } } })
            }
            Self::Turn(turn, n, review) => {
                let status = STATUSES[usize::from(*n) % STATUSES.len()];
                let review = review.as_ref().map(Name::text);
                let turn = json!({ "id": turn.text(), "status": status });
                json!({ "id": id, "result": { "turn": turn, "reviewThreadId": review } })
            }
            Self::Empty => json!({ "id": id, "result": {} }),
            Self::Error(n, why) => {
                let code = CODES[usize::from(*n) % CODES.len()];
                json!({ "id": id, "error": { "code": code, "message": why.text() } })
            }
        }
    }
}
