//! The items of a turn: messages, commands, and changes of files.

use serde_json::{Value, json};

use super::notes::{TurnNote, Work};
use super::played::Played;
use super::setup::Edits;
use reknit_turn::wire::method;

/// The file that agents change.
const FILE: &str = "src/lib.rs";

/// The command whose start no client can read.
pub(super) const GARBLED: &str = "cargo bench";

impl Played {
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

    pub(super) fn open_command(&mut self) {
        let id = self.item_id();
        self.opened();
        let run = json!({ "type": "commandExecution", "id": id, "command": "sleep", "status": "inProgress" });
        self.item(None, run, false);
    }

    /// Starts a command with a line that no client can read.
    pub(super) fn garbled_command(&mut self) {
        self.opened();
        self.held.extend(br#"{"method":"item/started","params":{"item":{"type":"comm"#);
        self.held.push(b'\n');
        self.flush_unless_burst();
        if self.setup.unreadable + 1 > self.takes.lines {
            self.too_much();
        }
    }

    /// Completes the command.
    pub(super) fn complete_garbled(&mut self) {
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
    pub(super) fn edit(&mut self) {
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
}
