//! The requests for shell sessions.

use std::path::{Path, PathBuf};

use hyper::body::Incoming;
use hyper::{HeaderMap, Response};
use reknit_seams::{defect, milestone, point};

use super::answer::{self, Body};
use super::command::Command;
use super::registry::{Running, Started};
use super::requests::Requests;
use super::route;
use super::sessions::{new_state_file, script, state_file};
use crate::wire::{CommandId, CreateSession, Cursor, Refusal, RunInSession, SessionCreated};

/// Asks a command to end if its request ends before it has a stream: it never gets another one.
struct EndsUnread<'r>(&'r Running);

impl Drop for EndsUnread<'_> {
    fn drop(&mut self) {
        let has_stream = self.0.command().has_stream();
        if !has_stream {
            self.0.change(Command::interrupt);
        }
    }
}

impl Requests {
    pub(super) async fn create_session(&self, body: Incoming) -> Result<Response<Body>, Refusal> {
        let request = CreateSession::from_json(&self.body(body).await?)?;
        let session_id = CommandId::random(self.random()).to_string();
        self.shared.sessions().create(session_id.clone(), request.cwd)?;
        milestone!("sse.session.created", session = session_id.as_str());
        let created = SessionCreated { session_id };
        Ok(answer::json(serde_json::to_string(&created).expect("an id is plain data")))
    }

    /// Runs a command in a session. Its stream is the only one that the command ever has.
    pub(super) async fn run_in_session(
        &self,
        session: &str,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        let request = RunInSession::from_json(&self.body(body).await?)?;
        // Before the start: a command whose stream is refused would run without one.
        if !defect!(OwnerAfterTheStart) {
            route::owner(headers)?;
        }
        let running = {
            let mut sessions = self.shared.sessions();
            let first = sessions.check(session)?;
            let id = CommandId::random(self.random());
            let create = || self.new_command(Some(session.to_owned()));
            let started = self.shared.registry().start(id, request, false, create)?;
            let (Started::New(running) | Started::Known(running)) = started;
            let (line, cwd) = (running.request.command.clone(), running.request.cwd.clone());
            let shell = &self.shared.config.shell;
            let argv = if shell.is_empty() {
                vec![line]
            } else {
                let state = state_file(&self.state_directory(), session);
                shell.iter().cloned().chain(script(&state, first, cwd, line)).collect()
            };
            self.launch(&running, argv, None);
            sessions.runs(session, running.clone());
            running
        };
        let _unread = EndsUnread(&running);
        milestone!("sse.session.runs", session, conn = self.link.conn().0);
        point!("sse.server.started", conn = self.link.conn().0).await;
        self.open(&running, Cursor::START, Some(session), headers)
    }

    /// Deletes a session, and asks its command to end. The answer does not wait for that.
    pub(super) async fn delete_session(&self, session: &str) -> Result<Response<Body>, Refusal> {
        let running = self.shared.sessions().remove(session)?;
        let forgets = self.forget_state(session);
        let Some(running) = running.filter(|_| !defect!(DeletedSessionRunsOn)) else {
            forgets.await;
            return Ok(answer::empty());
        };
        running.change(Command::interrupt);
        // The bug: the command writes the file again when it ends.
        if defect!(StateGoesBeforeTheEnd) {
            forgets.await;
            return Ok(answer::empty());
        }
        self.shared.spawn(async move {
            running.ended().await;
            forgets.await;
        });
        Ok(answer::empty())
    }

    /// Removes the files with the state of a session, which runs no command.
    fn forget_state(&self, session: &str) -> impl Future<Output = ()> + Send + use<> {
        let directory = self.state_directory();
        let paths = [state_file(&directory, session), new_state_file(&directory, session)];
        let (files, session) = (self.shared.env.files.clone(), session.to_owned());
        async move {
            for path in paths {
                // A session that ran no command has no file.
                let _ = files.remove_file(&path).await;
            }
            milestone!("sse.session.deleted", session = session.as_str());
        }
    }

    /// Returns the directory for temporary files, as the environment of the server has it.
    fn state_directory(&self) -> PathBuf {
        let variables = &self.shared.env.machine.variables;
        variables.get("TMPDIR").map_or(Path::new("/tmp"), Path::new).to_owned()
    }
}
