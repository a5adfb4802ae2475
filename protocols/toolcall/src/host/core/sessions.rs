//! Creation and removal of sessions.
//!
//! A session that is not in memory may exist in the archive. So a request to create one waits until
//! the host knows that there is no session with that name. If the host cannot find out in time, the
//! request fails.

use reknit_seams::defect;
use reknit_seams::net::ConnId;
use tokio::time::Instant;

use super::pending_creation::PendingCreation;
use super::requests::{Answered, answered, refused};
use super::{FULL, HostCore};
use crate::wire::ahp::actions::{RootActiveSessionsChangedAction, SessionActiveClientSetAction};
use crate::wire::ahp::notifications::{SessionAddedParams, SessionRemovedParams};
use crate::wire::ahp::state::{SessionState, SessionSummary};
use crate::wire::{
    CreateSessionParams, DisposeSessionParams, ROOT, RequestId, SnapshotState, StateAction, code,
    is_name, method, weight,
};

impl HostCore {
    /// Handles a client's request to create a session. The answer follows when the host knows
    /// whether the name is in use.
    pub(super) fn create_session(
        &mut self,
        conn: ConnId,
        id: RequestId,
        client: String,
        params: CreateSessionParams,
        now: Instant,
    ) {
        if let Err((code, why)) = self.check_creation(&client, &params) {
            return self.answer(conn, id, refused(code, why));
        }
        let name = params.channel.clone();
        self.pending_creation.push(PendingCreation { conn, id, client, params });
        self.load(&name, now);
    }

    fn check_creation(
        &self,
        client: &str,
        params: &CreateSessionParams,
    ) -> Result<(), (i64, &'static str)> {
        let name = &params.channel;
        if !is_name(name) || name == ROOT {
            return Err((code::INVALID_PARAMS, "invalid session name"));
        }
        if self
            .channels
            .get(name)
            .is_some_and(|known| known.state.is_some() || known.session.is_some())
        {
            return Err((code::SESSION_EXISTS, "a session with that name already exists"));
        }
        let sessions = if defect!(SessionsAlwaysCountOne) { 1 } else { self.sessions() };
        if sessions.max(self.pending_creation.len()) >= self.limits.sessions {
            return Err((code::CONFLICT, "there are too many sessions"));
        }
        if params.provider.as_ref().is_some_and(|provider| *provider != self.identity.provider) {
            return Err((-32002, "there is no such provider"));
        }
        if params.active_client.as_ref().is_some_and(|active| active.client_id != client) {
            return Err((code::INVALID_PARAMS, "a client can activate only itself"));
        }
        if params.active_client.as_ref().is_some_and(|active| !self.is_small(active))
            && !defect!(CreatorsBringAnyTools)
        {
            return Err((code::INVALID_PARAMS, "too many tools"));
        }
        let room = self.limits.channel_bytes / 2; // a new session needs less than the other half
        if params.active_client.as_ref().is_some_and(|active| weight(active) > room) {
            return Err((code::CONFLICT, FULL));
        }
        Ok(())
    }

    /// Continues the waiting requests to create a session with this name, after the host knows
    /// whether it exists. The first request succeeds.
    pub(super) fn create_waiting_sessions(&mut self, name: &str, now: Instant) {
        for PendingCreation { conn, id, client, params } in
            self.take_pending_creations(|pending_creation| pending_creation.params.channel == name)
        {
            let takes_place = params.active_client.is_some();
            let made = match self.check_creation(&client, &params) {
                Ok(()) => self.create(params, now),
                Err((code::CONFLICT, _)) if defect!(SessionsCountAtTheirRequest) => {
                    self.create(params, now)
                }
                Err((code, why)) => refused(code, why),
            };
            if takes_place && made.is_ok() {
                self.note_place(conn, &client);
            }
            self.answer(conn, id, made);
        }
    }

    /// Refuses the waiting requests to create this session, because the host could not find out
    /// whether it exists.
    pub(super) fn refuse_waiting_sessions(&mut self, name: &str) {
        for PendingCreation { conn, id, .. } in
            self.take_pending_creations(|pending_creation| pending_creation.params.channel == name)
        {
            self.answer(
                conn,
                id,
                refused(code::CONFLICT, "it is unknown whether a session with that name exists"),
            );
        }
    }

    /// Drops the requests to create sessions that came over this connection.
    pub(super) fn drop_creations_of(&mut self, conn: ConnId) {
        drop(self.take_pending_creations(|pending_creation| pending_creation.conn == conn));
    }

    fn take_pending_creations(
        &mut self,
        which: impl Fn(&PendingCreation) -> bool,
    ) -> Vec<PendingCreation> {
        let (these, others) =
            std::mem::take(&mut self.pending_creation).into_iter().partition(which);
        self.pending_creation = others;
        these
    }

    fn create(&mut self, params: CreateSessionParams, now: Instant) -> Answered {
        let CreateSessionParams { channel: name, active_client: active, .. } = params;
        let provider = self.identity.provider.clone();
        self.add_session(&name, &provider);
        self.notify_sessions(now);
        self.announce(&name);
        if let Some(active_client) = active {
            let set =
                StateAction::SessionActiveClientSet(SessionActiveClientSetAction { active_client });
            self.apply(&name, set, None, now).map_err(|why| (code::INTERNAL, why.to_owned()))?;
        }
        answered(&())
    }

    /// Announces a session to all clients.
    fn announce(&mut self, name: &str) {
        let Some(SnapshotState::Session(state)) = self.state(name) else { return };
        let summary = self.summary_of(name, state);
        self.broadcast(
            method::SESSION_ADDED,
            &SessionAddedParams { channel: ROOT.to_owned(), summary },
        );
    }

    fn summary_of(&self, name: &str, state: &SessionState) -> SessionSummary {
        let now = self.stamp();
        SessionSummary {
            provider: state.provider.clone(),
            title: state.title.clone(),
            status: state.status,
            activity: None,
            origin: None,
            project: None,
            working_directories: None,
            annotations: None,
            resource: name.to_owned(),
            created_at: now.clone(),
            modified_at: now,
            changes: None,
            meta: None,
            chats: None,
            default_chat: state.default_chat.clone(),
        }
    }

    /// Updates the number of sessions in the root.
    pub(super) fn notify_sessions(&mut self, now: Instant) {
        let active_sessions = i64::try_from(self.sessions()).unwrap_or(i64::MAX);
        let changed = StateAction::RootActiveSessionsChanged(RootActiveSessionsChangedAction {
            active_sessions,
        });
        self.apply(ROOT, changed, None, now).expect("the root takes a number");
    }

    /// Removes a session with its chats. The subscribers of each are notified, and all clients are
    /// notified about the session.
    pub(super) fn dispose_session(
        &mut self,
        params: DisposeSessionParams,
        now: Instant,
    ) -> Answered {
        let name = params.channel;
        if self
            .pending_creation
            .iter()
            .any(|pending_creation| pending_creation.params.channel == name)
        {
            return refused(code::CONFLICT, "it is being made");
        }
        if !matches!(self.state(&name), Some(SnapshotState::Session(_))) {
            return refused(code::SESSION_NOT_FOUND, "there is no such session");
        }
        let mut chats = self.chats_of(&name);
        if defect!(UnloadedChatsOutliveTheirSession) {
            chats.retain(|chat| self.state(chat).is_some());
        }
        for chat in chats {
            self.remove_chat(&chat, &name, now);
        }
        for conn in self.connections_matching(|transport| transport.is_active(&name)) {
            self.notify_removals(conn, &name);
        }
        self.remove_channel(&name, now);
        if !defect!(RemovedSessionsCount) {
            self.notify_sessions(now);
        }
        self.broadcast(
            method::SESSION_REMOVED,
            &SessionRemovedParams { channel: ROOT.to_owned(), session: name },
        );
        self.changes.send_modify(|version| *version += 1);
        answered(&())
    }
}
