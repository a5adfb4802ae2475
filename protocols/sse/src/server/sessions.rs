//! Shell sessions. No clock, no socket, no task.
//!
//! As in execd, a session is not a process. Each of its commands is a new shell, which first restores
//! the exported variables and the working directory of the command before it, and saves its own when it
//! ends. They are saved in a file that only the user of the server can read. When a session is deleted,
//! the server removes the file after the end of its last command, because a command saves its state also
//! if a signal ends it.
//!
//! A session runs one command at a time, because two would overwrite each other's state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reknit_seams::defect;

use super::registry::Running;
use crate::wire::Refusal;

/// All sessions.
pub(super) struct Sessions {
    most: usize,
    all: BTreeMap<String, Session>,
    /// How many there were.
    created: usize,
}

struct Session {
    /// The first working directory.
    cwd: String,
    /// The newest command.
    newest: Option<Arc<Running>>,
}

/// The script that runs a command of a session. Its arguments are the file with the state, the working
/// directories of the session and of the command, and the command.
const SCRIPT: &str = r#"
__state=$1 __first=$2 __cwd=$3 __command=$4; set --
if [ -r "$__state" ]; then . "$__state" 2>/dev/null
elif [ -n "$__first" ]; then mkdir -p -- "$__first" && cd -- "$__first" || exit 1; fi
if [ -n "$__cwd" ]; then cd -- "$__cwd" || exit 1; fi
__save() { (umask 077; { export -p; printf 'cd -- %q\n' "$PWD"; } > "$__state.new") && mv -f -- "$__state.new" "$__state"; }
trap '__exit=$?; __save; exit $__exit' EXIT
eval "$__command"
"#;

impl Sessions {
    pub(super) fn new(most: usize) -> Self {
        Self { most, all: BTreeMap::new(), created: 0 }
    }

    /// Adds a session.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn create(&mut self, id: String, cwd: String) -> Result<(), Refusal> {
        // The bug: a session that was deleted does not give its place back.
        let count = if defect!(DeletedSessionsCount) { self.created } else { self.all.len() };
        if count >= self.most {
            return Err(Refusal::TooMany("shell sessions"));
        }
        self.created += 1;
        self.all.insert(id, Session { cwd, newest: None });
        Ok(())
    }

    /// Whether there is such a session.
    pub(super) fn has(&self, id: &str) -> bool {
        self.all.contains_key(id)
    }

    /// Returns the first working directory of a session that can run a command now.
    ///
    /// # Errors
    /// If there is no such session, or it runs another command.
    pub(super) fn check(&self, id: &str) -> Result<String, Refusal> {
        let session = self.all.get(id).ok_or_else(|| Refusal::UnknownSession(id.to_owned()))?;
        if self.running(id).is_some() {
            return Err(Refusal::SessionBusy(id.to_owned()));
        }
        Ok(session.cwd.clone())
    }

    /// Records the newest command of a session.
    pub(super) fn runs(&mut self, id: &str, newest: Arc<Running>) {
        let Some(session) = self.all.get_mut(id) else { return };
        if session.newest.is_none() || !defect!(FirstCommandStays) {
            session.newest = Some(newest);
        }
    }

    /// Returns the command that a session runs.
    pub(super) fn running(&self, id: &str) -> Option<Arc<Running>> {
        let newest = self.all.get(id)?.newest.clone()?;
        let runs = {
            let command = newest.command();
            // The bug: a command that was asked to end counts as over.
            let is_over = command.interrupted() && defect!(InterruptedIsIdle);
            // The bug: a command whose stream is lost counts as over.
            let is_lost = !command.has_stream() && defect!(LostStreamFreesTheSession);
            command.runs() && !is_over && !is_lost
        };
        runs.then_some(newest)
    }

    /// Removes a session. Returns the command that it runs.
    ///
    /// # Errors
    /// If there is no such session.
    pub(super) fn remove(&mut self, id: &str) -> Result<Option<Arc<Running>>, Refusal> {
        let running = self.running(id);
        // The bug: there is nothing to end, so nothing is done.
        if running.is_none() && self.has(id) && defect!(IdleSessionStays) {
            return Ok(None);
        }
        let removed = self.all.remove(id);
        removed.map(|_| running).ok_or_else(|| Refusal::UnknownSession(id.to_owned()))
    }
}

/// Returns the file with the state of a session.
pub(super) fn state_file(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("reknit-sse-{id}"))
}

/// Returns the file that becomes the state of a session when it is complete.
pub(super) fn new_state_file(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("reknit-sse-{id}.new"))
}

/// Returns the arguments for the shell that run a command of a session.
pub(super) fn script(state: &Path, first: String, cwd: String, command: String) -> [String; 6] {
    let state = state.to_string_lossy().into_owned();
    [SCRIPT.to_owned(), "bash".to_owned(), state, first, cwd, command]
}
