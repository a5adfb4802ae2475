//! The sessions of a server: the attachment of connections, and when each session expires.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use reknit_resume::Refused;
use reknit_seams::Env;
use reknit_seams::net::ConnId;
use reknit_seams::{defect, milestone, point};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::admission::{self, Candidate};
use super::defects::RegistryDefects;
use super::description::describe;
use super::files::RunningRequests;
use super::lobby::Lobby;
use super::peer::Peer;
use super::process::ProcessId;
use super::request_error::RequestError;
use super::session::{ClientConnection, Session};
use crate::limits::ServerLimits;

/// How many characters of an unknown session id the error message repeats.
const LONGEST_ID: usize = 64;

/// The state that all connections share.
pub(super) struct Shared {
    pub(super) env: Env,
    pub(super) limits: ServerLimits,
    /// The description of the server's machine that clients receive.
    pub(super) description: Value,
    sessions: Mutex<BTreeMap<String, Arc<RetainedSession>>>,
    /// Notified when a timer may be due earlier than before.
    pub(super) changed: Arc<Notify>,
    pub(super) connections: Arc<AtomicU64>,
    /// The connections that are not initialized yet.
    pub(super) lobby: Arc<Lobby>,
    pub(super) http_requests: Arc<AtomicU64>,
    pub(super) file_handles: Arc<AtomicU64>,
    pub(super) file_requests: Arc<AtomicU64>,
    /// The requests for files that are being performed, over all connections.
    file_tasks: Mutex<JoinSet<()>>,
    defects: RegistryDefects,
}

/// A session, with the tasks of its processes.
pub(super) struct RetainedSession {
    /// The id on the wire.
    pub(super) id: String,
    /// The host whose client opened it.
    peer: Peer,
    core: Mutex<Session>,
    /// Dropping them kills the processes.
    tasks: Mutex<JoinSet<()>>,
    changed: Arc<Notify>,
    /// The requests for files that are being performed.
    pub(super) files: Arc<RunningRequests>,
}

impl RetainedSession {
    pub(super) fn core(&self) -> MutexGuard<'_, Session> {
        self.core.lock().expect("nothing panics under the lock")
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().expect("nothing panics under the lock")
    }

    /// Wakes the server, because a timer may now be due earlier.
    pub(super) fn changed(&self) {
        self.changed.notify_one();
    }

    /// Returns how many processes are running or being launched, including those whose start was
    /// cancelled.
    pub(super) fn alive(&self) -> usize {
        let mut tasks = self.tasks();
        while tasks.try_join_next().is_some() {} // discard the results of finished tasks
        tasks.len()
    }

    /// Describes the session for the choice of the session to end.
    fn candidate<'a>(&self, id: &'a str) -> Candidate<'a> {
        let core = self.core();
        let runs = core.processes().any(|(_, process)| !process.closed());
        Candidate { id, peer: self.peer, detached: core.detached_since(), runs }
    }

    /// Spawns the task of a process.
    pub(super) fn spawn(&self, lifecycle: impl Future<Output = ()> + Send + 'static) {
        self.tasks().spawn(lifecycle);
    }

    /// Kills all processes and drops all state.
    fn shut_down(&self) {
        self.core().shut_down();
        let mut tasks = std::mem::take(&mut *self.tasks());
        if defect!(LateChildKept) {
            tasks.detach_all();
        }
    }
}

impl Shared {
    pub(super) fn new(env: &Env, limits: ServerLimits) -> Self {
        Self {
            env: env.clone(),
            limits,
            description: serde_json::to_value(describe(&env.machine))
                .expect("a description is plain data"),
            sessions: Mutex::default(),
            changed: Arc::default(),
            connections: Arc::default(),
            lobby: Arc::new(Lobby::new(limits.connections)),
            http_requests: Arc::default(),
            file_handles: Arc::default(),
            file_requests: Arc::default(),
            file_tasks: Mutex::default(),
            defects: RegistryDefects::default(),
        }
    }

    /// Spawns the task of a request for files, which may outlive its connection.
    pub(super) fn spawn_file_task(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.file_tasks.lock().expect("nothing panics under the lock");
        while tasks.try_join_next().is_some() {} // discard the results of finished tasks
        tasks.spawn(task);
    }

    pub(super) fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Arc<RetainedSession>>> {
        self.sessions.lock().expect("nothing panics under the lock")
    }

    /// Attaches a connection to the session that it names, or to a new one.
    pub(super) fn attach(
        &self,
        resume: Option<String>,
        by: ConnId,
        peer: Peer,
        line: ClientConnection,
    ) -> Result<Arc<RetainedSession>, RequestError> {
        let attached = match resume {
            Some(id) => self.resume(id, by, line),
            None => self.open(by, peer, line),
        };
        self.changed.notify_one();
        attached
    }

    fn open(
        &self,
        by: ConnId,
        peer: Peer,
        line: ClientConnection,
    ) -> Result<Arc<RetainedSession>, RequestError> {
        let mut sessions = self.sessions();
        self.make_room(&mut sessions, peer)?;
        let core = Mutex::new(Session::new(by, line, self.limits, Instant::now()));
        let id = self.new_id();
        let others = sessions.values().next().filter(|_| defect!(FileOrderIsGlobal));
        let kept = Arc::new(RetainedSession {
            id: id.clone(),
            peer,
            core,
            tasks: Mutex::default(),
            changed: self.changed.clone(),
            files: others.map(|other| other.files.clone()).unwrap_or_default(),
        });
        sessions.insert(id, kept.clone());
        Ok(kept)
    }

    /// Makes room for one more session of a peer; ends another session if it has to.
    fn make_room(
        &self,
        sessions: &mut BTreeMap<String, Arc<RetainedSession>>,
        peer: Peer,
    ) -> Result<(), RequestError> {
        let limits = &self.limits;
        let own = sessions.values().filter(|kept| kept.peer == peer).count();
        if defect!(SessionsFirstCome) && sessions.len() < limits.sessions {
            return Ok(());
        }
        if sessions.len() < limits.sessions && own < limits.peer_sessions {
            return Ok(()); // the usual case, without a look at each session
        }
        let all: Vec<_> = sessions.iter().map(|(id, kept)| kept.candidate(id)).collect();
        let ended = if own >= limits.peer_sessions {
            // The bug: an idle session of the host makes room only if the server is full, too.
            let is_kept = defect!(IdleKeptWhileRoom) && sessions.len() < limits.sessions;
            admission::own_to_end(&all, peer).filter(|_| !is_kept)
        } else {
            admission::to_end(&all, peer, limits.sessions)
        };
        let ended = ended.filter(|_| !defect!(SessionsFirstCome)).map(str::to_owned);
        let Some(kept) = ended.and_then(|id| sessions.remove(&id)) else {
            return Err(RequestError::TooMany("sessions"));
        };
        self.expire(&kept);
        Ok(())
    }

    /// Holds the lock of all sessions throughout, so that no other connection can attach to a
    /// session that is being removed.
    fn resume(
        &self,
        id: String,
        by: ConnId,
        line: ClientConnection,
    ) -> Result<Arc<RetainedSession>, RequestError> {
        let mut sessions = self.sessions();
        let Some(kept) = sessions.get(&id).cloned() else {
            return Err(RequestError::UnknownSession(id.chars().take(LONGEST_ID).collect()));
        };
        let attached = kept.core().attach(by, line, Instant::now());
        match attached {
            Ok(()) => Ok(kept),
            Err(Refused::StillAttached(_)) => Err(RequestError::StillAttached(id)),
            Err(Refused::Expired) => {
                sessions.remove(&id);
                milestone!("exec.server.expired");
                kept.shut_down();
                Err(RequestError::UnknownSession(id))
            }
        }
    }

    /// Detaches a connection that has ended.
    pub(super) async fn detach(&self, kept: &RetainedSession, by: ConnId) {
        point!("exec.server.detach", conn = by.0).await;
        let own = kept.core().detach(by, Instant::now());
        if own {
            milestone!("exec.server.detached", conn = by.0);
        }
        self.changed.notify_one();
        point!("exec.server.detach.unlocked", conn = by.0).await;
        if defect!(SenderClearedAfterUnlock) {
            kept.core().clear_sender();
        }
        if defect!(DisconnectKills) {
            kept.core().kill_all();
        }
    }

    /// Removes expired sessions and processes; returns when the next timer is due.
    pub(super) fn sweep(&self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        self.sessions().retain(|_, kept| {
            let mut core = kept.core();
            for process in core.forget(now) {
                let conn = core.attached_by().map_or(0, |by| by.0);
                milestone!("exec.process.forgotten", process = process.as_str(), conn);
            }
            if core.expired(now) && !defect!(SessionNeverExpires) {
                drop(core);
                self.expire(kept);
                return false;
            }
            next = next.filter(|_| !defect!(TimersOfOneSession));
            next = next.into_iter().chain(core.due(now)).min();
            true
        });
        next
    }

    fn expire(&self, kept: &Arc<RetainedSession>) {
        milestone!("exec.server.expired");
        if !self.defects.leaks(kept) {
            kept.shut_down();
        }
    }

    /// Ends all sessions.
    pub(super) fn shut_down(&self) {
        let sessions = std::mem::take(&mut *self.sessions());
        sessions.values().for_each(|kept| kept.shut_down());
        self.file_tasks.lock().expect("nothing panics under the lock").abort_all();
    }

    /// The defect `ProcessIdsGlobal`: whether any session has a process with this id.
    pub(super) fn any_session_has(&self, id: &ProcessId) -> bool {
        self.sessions().values().any(|kept| kept.core().processes().any(|(other, _)| other == id))
    }

    /// Returns a random UUID, version 4.
    fn new_id(&self) -> String {
        let mut bytes = [0; 16];
        self.env.entropy.fill(&mut bytes);
        let number =
            u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let hex = format!("{number:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}
