//! The extras of an app-server, beyond the messages, commands and changes of a plain turn.

use serde_json::{Value, json};

use super::notes::{TurnNote, Work};
use super::played::Played;
use reknit_turn::wire::method;

/// The id of the question of an app-server.
const QUESTION: &str = "question";

impl Played {
    /// Sends items of every other kind, and the other news of threads, if the turn has them; and long
    /// texts.
    pub(super) fn extras(&mut self) {
        self.letters();
        if !self.setup.extras {
            return;
        }
        self.send(&json!({ "id": QUESTION, "method": "item/tool/requestUserInput", "params": {} }));
        for (thread, turn) in [(self.thread.clone(), true), (format!("{}-other", self.turn), false)]
        {
            let named = json!({ "threadId": thread, "threadName": "A name" });
            self.notify(method::THREAD_NAME_UPDATED, named);
            self.notify(method::THREAD_NAME_UPDATED, json!({ "threadId": thread }));
            let active = json!({ "threadId": thread, "status": { "type": "active" } });
            self.notify(method::THREAD_STATUS_CHANGED, active);
            let tokens = json!({ "threadId": thread, "turnId": turn.then_some(&self.turn) });
            self.notify("thread/tokenUsage/updated", tokens);
        }
        self.notify("account/updated", json!({ "authMode": null }));
        for (kind, fields) in KINDS {
            let id = self.item_id();
            let mut item = fields();
            (item["type"], item["id"]) = (json!(kind), json!(id));
            self.item(None, item.clone(), false);
            // A plan that is never complete keeps no turn open.
            if *kind != PLAN {
                self.item(None, item, true);
            }
        }
        let id = self.item_id();
        let run = json!({ "type": "commandExecution", "id": id, "command": "make", "status": "interrupted" });
        self.item(None, run.clone(), false);
        self.note(TurnNote::Did(Work::Command("make".to_owned())));
        self.item(None, run, true);
        for (change, path) in [("add", "new.rs"), ("delete", "old.rs")] {
            let id = self.item_id();
            let change = json!({ "path": path, "kind": { "type": change }, "diff": "" });
            let edit = json!({ "type": "fileChange", "id": id, "changes": [change], "status": "completed" });
            self.item(None, edit.clone(), false);
            self.note(TurnNote::Did(Work::Edit(path.to_owned())));
            self.item(None, edit, true);
        }
    }

    /// Reports the activity of a subagent.
    pub(super) fn activity(&mut self, thread: &str) {
        let id = self.item_id();
        let item = json!({ "type": "subAgentActivity", "id": id, "agentThreadId": thread });
        self.item(None, item, true);
    }

    /// Says, runs and changes something with long texts. Each letter has two bytes.
    fn letters(&mut self) {
        let Some(letters) = usize::try_from(self.setup.letters).ok().filter(|it| *it > 0) else {
            return;
        };
        let text = "\u{e4}".repeat(letters);
        self.message(None, &text, Some("commentary"));
        self.command(None, &text);
        let id = self.item_id();
        let change = json!({ "path": "long.rs", "kind": { "type": "update" }, "diff": text });
        let edit =
            json!({ "type": "fileChange", "id": id, "changes": [change], "status": "completed" });
        self.item(None, edit.clone(), false);
        self.note(TurnNote::Did(Work::Edit("long.rs".to_owned())));
        self.item(None, edit, true);
    }
}

/// Returns the kinds of the items that a turn with extras has, in order.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    let complete = KINDS.iter().map(|(kind, _)| *kind).filter(|kind| *kind != PLAN);
    complete.chain(["commandExecution", "fileChange", "fileChange"])
}

/// The kind of a plan.
const PLAN: &str = "plan";

/// A kind of item, and its fields.
type Kind = (&'static str, fn() -> Value);

/// The kinds of items.
const KINDS: &[Kind] = &[
    ("userMessage", || json!({ "content": [] })),
    (PLAN, || json!({ "text": "1. Look. 2. Change." })),
    ("mcpToolCall", || json!({ "server": "files", "tool": "read", "status": "completed" })),
    ("dynamicToolCall", || json!({ "tool": "look", "status": "failed" })),
    ("webSearch", || json!({ "query": "how" })),
    ("enteredReviewMode", || json!({ "review": "uncommitted changes" })),
    ("subAgentActivity", || json!({ "agentThreadId": "" })),
    (
        "collabAgentToolCall",
        || json!({ "tool": "wait", "status": "completed", "receiverThreadIds": [] }),
    ),
    ("imageView", || json!({ "path": "a.png" })),
];
