//! The user of a simulated client: performs the operations of the schedule, and records their outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{AbortHandle, JoinSet};

use super::follow::{Following, Pace, Stored, id_key, stored};
use super::limits;
use super::names::{Named, TOKEN, server_endpoint};
use super::notes::SseNote;
use super::operations::{CommandName, From, SseOperation};
use super::requests::{self, SessionRun, Sessions};
use super::tables::is_execd;
use crate::history::{Answer, Call};
use crate::subject::{HostContext, OperationQueue};
use crate::world::process::{TABLE, calls};
use reknit_sse::client::{Client, ClientConfig, Dialect};
use reknit_sse::wire::{CommandId, Cursor, RunCommand};

/// The user of one host.
pub(super) struct SseUser {
    host: HostContext,
    client: Client,
    /// The client for single requests. Its connections have a label.
    asks: Client,
    /// The followers, by record.
    followers: BTreeMap<String, Open>,
    busy: JoinSet<()>,
    sessions: Sessions,
}

/// A follower that may be open.
struct Open {
    call: Call,
    task: AbortHandle,
    /// Whether the server has confirmed that it has the command, so that its stream is open.
    confirmed: Arc<AtomicBool>,
}

impl SseUser {
    pub(super) fn new(host: HostContext) -> Self {
        let config = ClientConfig { access_token: Some(TOKEN.to_owned()), dialect: dialect(&host) };
        let limits = limits::client(&host.limits);
        let asked = server_endpoint().labelled("request");
        let asks = Client::new(&host.env, asked, config.clone(), limits);
        let client = Client::new(&host.env, server_endpoint(), config, limits);
        Self {
            host,
            client,
            asks,
            followers: BTreeMap::new(),
            busy: JoinSet::new(),
            sessions: Sessions::default(),
        }
    }

    /// Performs operations as they arrive. At the end, the user ends its commands, and all followers are
    /// dropped.
    pub(super) async fn run(mut self, mut operations: OperationQueue<SseOperation>) {
        loop {
            tokio::select! {
                biased;
                next = operations.next() => match next {
                    Some((call, operation)) => self.perform(call, operation),
                    None => break,
                },
                Some(_) = self.busy.join_next() => {}
            }
        }
        let mut ends = JoinSet::new();
        for named in self.all_started() {
            ends.spawn(requests::end(self.host.clone(), named));
        }
        // All at once: the user has only a second until it is stopped.
        for path in requests::all_sessions(&self.host) {
            ends.spawn(requests::end_session(self.host.clone(), path));
        }
        while ends.join_next().await.is_some() {}
    }

    fn perform(&mut self, call: Call, operation: SseOperation) {
        let host = self.host.clone();
        match operation {
            SseOperation::Run { process, background, id, time_limit, reads, polls } => {
                let nth = self.starts(&process) + 1;
                host.disk.write(&starts_key(&process), nth.to_string());
                let named = Named::nth(host.name.as_str(), &process, nth, id.as_deref());
                if let Some(id) = &id {
                    host.disk.write(&id_key(&named.record), id);
                }
                let time_limit = time_limit.map(|limit| limit.0.as_millis() as i64);
                let request = RunCommand {
                    background,
                    timeout: time_limit,
                    ..self.request(call, &process, &named)
                };
                match self.client.run(request) {
                    Ok(follower) => {
                        self.close(&named, call);
                        let new =
                            Stored { cursor: Cursor::START, has_gap: false, has_ending: false };
                        let pace = Pace { reads, polls };
                        self.follow(Following::new(host, named, call, pace, &new, true), follower);
                    }
                    Err(why) => host.record.refused(call, why.to_string()),
                }
            }
            SseOperation::Follow { command, from, reads, polls } => {
                let named = self.named(&command);
                let stored = match from {
                    From::Last => stored(&host, &named),
                    From::Start => {
                        Stored { cursor: Cursor::START, has_gap: false, has_ending: false }
                    }
                };
                self.close(&named, call);
                let follower = self.client.follow(named.id.clone(), stored.cursor);
                let pace = Pace { reads, polls };
                self.follow(Following::new(host, named, call, pace, &stored, false), follower);
            }
            SseOperation::Leave(command) => {
                let was_open = self.close(&self.named(&command), call);
                host.record.answered(call, if was_open { "left" } else { "nothing to leave" });
            }
            SseOperation::Interrupt(command) => {
                let id = self.named(&command).id;
                self.busy.spawn(requests::interrupt(host, call, self.asks.clone(), id));
            }
            SseOperation::Status(command) => {
                let named = self.named(&command);
                self.busy.spawn(requests::status(host, call, self.asks.clone(), named));
            }
            SseOperation::Logs { command, wait } => {
                let named = self.named(&command);
                self.busy.spawn(requests::logs(host, call, self.asks.clone(), named, wait.0));
            }
            SseOperation::Ask { command, cursor, parameter } => {
                let named = self.named(&command);
                let (cursor, knows_run) = cursor_of(&host, &named, &cursor);
                let text = cursor.clone();
                let note = SseNote::Asks { call, cursor: text, knows_run };
                host.record.observed(&named.whole(), note);
                self.busy.spawn(requests::ask(host, call, named, cursor, parameter));
            }
            SseOperation::Listen { command, last, wait } => {
                let named = self.named(&command);
                let last = last.map(|last| cursor_of(&host, &named, &last).0);
                self.busy.spawn(requests::listen(host, call, named, last, wait.0));
            }
            SseOperation::Stick { command, wait } => {
                let named = self.named(&command);
                self.busy.spawn(requests::stick(host, call, named, wait.0));
            }
            SseOperation::Wrong { command, request } => {
                let named = self.named(&command);
                self.busy.spawn(requests::wrong(host, call, named, request));
            }
            SseOperation::Session { process, with, time_limit, owner } => {
                let session = with.map(|with| self.sessions.path(&with).ok_or(with)).transpose();
                let Ok(session) = session else {
                    return host.record.refused(call, "the process runs in no session");
                };
                let nth = self.session_runs(&process) + 1;
                host.disk.write(&sessions_key(&process), nth.to_string());
                let named = Named::in_session(host.name.as_str(), &process, nth);
                let time_limit = time_limit.map(|limit| limit.0);
                let run = SessionRun { named, process, session, time_limit, owner };
                self.busy.spawn(requests::session(host, call, run, self.sessions.clone()));
            }
            SseOperation::InterruptSession { process } => {
                let session = self.sessions.path(&process);
                let Some((session, id)) =
                    session.and_then(|path| Some((path.clone(), id_of(&path)?)))
                else {
                    return host.record.refused(call, "the process runs in no session");
                };
                let nth = self.session_runs(&process);
                let named = Named::in_session(host.name.as_str(), &process, nth);
                host.record.observed(&named.whole(), SseNote::Interrupts { call, session });
                self.busy.spawn(requests::interrupt(host, call, self.asks.clone(), id));
            }
            SseOperation::DeleteSession { process } => {
                let Some(session) = self.sessions.path(&process) else {
                    return host.record.refused(call, "the process runs in no session");
                };
                let nth = self.session_runs(&process);
                let named = Named::in_session(host.name.as_str(), &process, nth);
                let note = SseNote::Deletes { call, session: session.clone() };
                host.record.observed(&named.whole(), note);
                self.busy.spawn(requests::delete_session(host, call, session));
            }
        }
    }

    /// Returns the request that runs a process of the world. The world reads the name of the
    /// process and the call from its variables.
    fn request(&self, call: Call, process: &str, named: &Named) -> RunCommand {
        let variables = [(calls::NAME, named.record.clone()), (calls::CALL, call.0.to_string())];
        let envs = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        // An execd does not know this field.
        let id = (dialect(&self.host) == Dialect::Reknit).then(|| named.id.to_string());
        RunCommand { operation_id: id, envs: Some(envs), ..RunCommand::shell(process) }
    }

    /// Returns how often this host has started a process, also before a crash.
    fn starts(&self, process: &str) -> u64 {
        let stored = self.host.disk.read(&starts_key(process));
        stored.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Returns how often this host has run a process in a shell session, also before a crash.
    fn session_runs(&self, process: &str) -> u64 {
        let stored = self.host.disk.read(&sessions_key(process));
        stored.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Returns all commands that this host has started, also before a crash.
    fn all_started(&self) -> Vec<Named> {
        let host = self.host.name.as_str();
        let named = |process: &str, nth| {
            let record = Named::nth(host, process, nth, None).record;
            let id = self.host.disk.read(&id_key(&record));
            Named::nth(host, process, nth, id.as_deref())
        };
        let processes = self.host.plan.entries(TABLE).map(|(process, _)| process);
        processes
            .flat_map(|process| (1..=self.starts(process)).map(move |nth| (process, nth)))
            .map(|(process, nth)| named(process, nth))
            .collect()
    }

    fn named(&self, command: &CommandName) -> Named {
        let mut named = Named::of(self.host.name.as_str(), command, self.starts(&command.process));
        // The server chose the id, if it is an execd.
        let stored = self.host.disk.read(&id_key(&named.record));
        if let Some(id) = stored.and_then(|id| id.parse().ok()) {
            named.id = id;
        }
        named
    }

    fn follow(&mut self, following: Following, follower: reknit_sse::client::Follower) {
        let record = following.named.record.clone();
        let (call, confirmed) = (following.call, following.confirmed.clone());
        let task = self.busy.spawn(following.run(follower));
        self.followers.insert(record, Open { call, task, confirmed });
    }

    /// Closes the follower of a command. Returns whether there was one.
    fn close(&mut self, named: &Named, call: Call) -> bool {
        let Some(open) = self.followers.remove(&named.record) else { return false };
        let is_open = !open.task.is_finished();
        if is_open {
            open.task.abort();
            if open.confirmed.load(Ordering::Relaxed) {
                named.all().iter().for_each(|stream| self.host.record.gave_up(Some(stream), call));
            } else {
                self.host.record.answered(open.call, Answer::GivenUp);
            }
        }
        is_open
    }
}

/// Returns a cursor with the run of a command that a host knows in the place of `RUN`, and whether the host
/// knows one.
fn cursor_of(host: &HostContext, named: &Named, cursor: &str) -> (String, bool) {
    let run = stored(host, named).cursor.epoch;
    let text = run.map_or("0".repeat(16), |run| run.to_string());
    (cursor.replace("RUN", &text), run.is_some())
}

/// Returns the id of the shell session with this path.
fn id_of(session: &str) -> Option<CommandId> {
    session.rsplit_once('/')?.1.parse().ok()
}

fn sessions_key(process: &str) -> String {
    format!("sessions {process}")
}

fn starts_key(process: &str) -> String {
    format!("starts {process}")
}

/// Returns the kind of server for which the client is set up.
fn dialect(host: &HostContext) -> Dialect {
    if is_execd(&host.plan.defects) { Dialect::Execd } else { Dialect::Reknit }
}
