//! The commands of a server: which run, which have ended and keep their logs, and which are only
//! remembered. No clock, no socket, no task.
//!
//! A start is idempotent if its client chose the id: a repetition finds the command in
//! every state, and never runs it again. To that end the registry remembers the state of a command
//! longer than its log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use reknit_resume::SeenIds;
use reknit_seams::{defect, milestone};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::defects::RegistryDefects;
use super::command::Command;
use crate::limits::ServerLimits;
use crate::wire::{CommandId, CommandStatus, Refusal, RunCommand};

#[path = "defects/registry.rs"]
mod defects;

/// A command, as all tasks share it.
pub(super) struct Running {
    pub(super) id: CommandId,
    /// The request that started it. A repetition must be equal to it.
    pub(super) request: RunCommand,
    command: Mutex<Command>,
    /// Wakes the stream and the task of the process.
    changes: watch::Sender<()>,
    /// Wakes the task of the process when a stream has taken events, or has ended.
    reads: watch::Sender<()>,
    /// The task of the process. Its end kills what is left of the process.
    task: Mutex<Option<AbortHandle>>,
}

impl Running {
    pub(super) fn new(id: CommandId, request: RunCommand, command: Command) -> Arc<Self> {
        let (command, task) = (Mutex::new(command), Mutex::default());
        Arc::new(Self {
            id,
            request,
            command,
            changes: watch::Sender::default(),
            reads: watch::Sender::default(),
            task,
        })
    }

    /// Looks at the command.
    pub(super) fn command(&self) -> MutexGuard<'_, Command> {
        self.command.lock().expect("nothing panics under the lock")
    }

    /// Changes the command, and wakes its stream and its process.
    pub(super) fn change<T>(&self, act: impl FnOnce(&mut Command) -> T) -> T {
        let done = act(&mut self.command());
        self.changes.send_replace(());
        done
    }

    /// Returns a receiver of all changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Waits until the command has ended.
    pub(super) async fn ended(&self) {
        let _ = self.changes().wait_for(|_| !self.command().runs()).await;
    }

    /// Reports that a stream has taken events, or has ended.
    pub(super) fn was_read(&self) {
        self.reads.send_replace(());
    }

    /// Returns a receiver of these reports.
    pub(super) fn reads(&self) -> watch::Receiver<()> {
        self.reads.subscribe()
    }

    /// Records the task of the process.
    pub(super) fn own(&self, task: AbortHandle) {
        *self.task.lock().expect("nothing panics under the lock") = Some(task);
    }

    /// Ends the task of the process, and with it what is left of the process.
    fn end_task(&self) {
        if let Some(task) = self.task.lock().expect("nothing panics under the lock").take() {
            task.abort();
        }
    }

    /// Returns its state.
    pub(super) fn status(&self) -> CommandStatus {
        self.command().status(&self.id, self.request.content())
    }
}

/// All commands.
pub(super) struct Registry {
    limits: ServerLimits,
    commands: BTreeMap<CommandId, Arc<Running>>,
    /// The last states of commands whose logs were dropped.
    forgotten: SeenIds<CommandId, CommandStatus>,
    defects: RegistryDefects,
}

/// The result of a start.
pub(super) enum Started {
    /// The command is new, and its process is still to be launched.
    New(Arc<Running>),
    /// The same request has started it before.
    Known(Arc<Running>),
}

impl Registry {
    pub(super) fn new(limits: ServerLimits) -> Self {
        Self {
            limits,
            commands: BTreeMap::new(),
            forgotten: SeenIds::new(limits.forgotten_commands),
            defects: RegistryDefects::default(),
        }
    }

    /// Starts a command, or finds it if the same request has started it before. `create` makes a new
    /// one. `continues`: the client has received events of it, or may have started it on an earlier
    /// server, so it must be known.
    ///
    /// # Errors
    /// If the id was used for another request, if the log of the command was dropped, if it should
    /// be known, or if too many commands run.
    pub(super) fn start(
        &mut self,
        id: CommandId,
        request: RunCommand,
        continues: bool,
        create: impl FnOnce() -> Command,
    ) -> Result<Started, Refusal> {
        // The bug: only the command line counts.
        let is_same = |known: &RunCommand| match defect!(CommandIsTheRequest) {
            true => known.command == request.command,
            false => *known == request,
        };
        if !defect!(StartRunsTwice) {
            match self.commands.get(&id) {
                // The bug: the id alone decides.
                Some(known) if is_same(&known.request) || defect!(UsedIdIsAccepted) => {
                    // The bug: a command that has ended counts as one that is still to begin.
                    if defect!(EndedStartsNeedRoom)
                        && !known.command().runs()
                        && self.running() >= self.limits.running_commands
                    {
                        return Err(Refusal::TooMany("running commands"));
                    }
                    milestone!("sse.command.start-repeated", command = id.as_str());
                    return Ok(Started::Known(known.clone()));
                }
                Some(_) => return Err(Refusal::IdInUse(id)),
                // The bug: a client that has events of a forgotten command asks for an unknown one.
                None if continues && defect!(ForgottenIsUnknown) => {
                    return Err(Refusal::UnknownCommand(id));
                }
                None if self.forgotten.contains(&id) => return Err(Refusal::Expired(id)),
                None if continues => return Err(Refusal::UnknownCommand(id)),
                None => {}
            }
        }
        let running = if defect!(SessionsRunBeside) { self.free() } else { self.running() };
        if running >= self.limits.running_commands && !defect!(CommandsUnbounded) {
            return Err(Refusal::TooMany("running commands"));
        }
        let running = Running::new(id.clone(), request, create());
        self.commands.insert(id, running.clone());
        Ok(Started::New(running))
    }

    /// Returns the command with this id.
    ///
    /// # Errors
    /// If the server does not know it, or no longer has its log.
    pub(super) fn find(&self, id: &CommandId) -> Result<Arc<Running>, Refusal> {
        match self.commands.get(id) {
            Some(running) => Ok(running.clone()),
            None if self.forgotten.contains(id) => Err(Refusal::Expired(id.clone())),
            None => Err(Refusal::UnknownCommand(id.clone())),
        }
    }

    /// Returns the state of a command, also if its log was dropped.
    ///
    /// # Errors
    /// If the server does not know it.
    pub(super) fn status(&self, id: &CommandId) -> Result<CommandStatus, Refusal> {
        match (self.commands.get(id), self.forgotten.get(id)) {
            (Some(running), _) => Ok(running.status()),
            (None, Some(status)) => Ok(status.clone()),
            (None, None) => Err(Refusal::UnknownCommand(id.clone())),
        }
    }

    /// Returns how many commands run.
    pub(super) fn running(&self) -> usize {
        self.commands.values().filter(|running| running.command().runs()).count()
    }

    /// Returns how many commands have a log.
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Returns how many streams are attached, and how many bytes all logs hold.
    pub(super) fn census(&self) -> (usize, usize) {
        let of = |running: &Arc<Running>| {
            let command = running.command();
            (usize::from(command.has_stream()), command.log.weight())
        };
        let all = self.commands.values().chain(&self.defects.leaked);
        all.map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Drops the logs whose time is over, and those for which there is no room. Returns when the next
    /// one is due.
    pub(super) fn sweep(&mut self, now: Instant) -> Option<Instant> {
        let retention = match self.limits.ended_retention {
            _ if defect!(LogGoneAfterASecond) => std::time::Duration::from_secs(1),
            retention => retention,
        };
        self.drop_bound();
        let mut ended: Vec<(Instant, CommandId, usize)> = (self.commands.values())
            .filter_map(|running| {
                let command = running.command();
                let at = command.log.ended()?.at;
                let request = running.request.size();
                let request = if defect!(RequestsWeighNothing) { 0 } else { request };
                Some((at, running.id.clone(), command.log.weight() + request))
            })
            .collect();
        ended.sort_unstable();
        let (mut count, mut bytes) =
            (ended.len(), ended.iter().map(|(_, _, weight)| weight).sum::<usize>());
        // The bug: the logs of running commands take room from those of ended ones.
        if defect!(RunningLogsCrowd) {
            bytes += self.running_bytes();
        }
        if defect!(SweepsWithTheLast) {
            defects::end_together(&mut ended);
        }
        let mut ended = ended.into_iter();
        loop {
            let due = ended.as_slice().first()?.0 + retention;
            let over = due <= now;
            if !over && count <= self.limits.ended_commands && bytes <= self.limits.ended_bytes {
                return Some(due);
            }
            // The bug: for lack of room, the newest log goes.
            let from_the_end = !over && defect!(NewestLogGoes);
            let next = if from_the_end { ended.next_back() } else { ended.next() };
            let (_, id, weight) = next?;
            // The bug: the room that this log has left is not noticed.
            if !defect!(CrowdingCountsOnce) {
                (count, bytes) = (count - 1, bytes - weight);
            }
            self.forget(&id, over);
        }
    }

    /// Drops the commands of shell sessions that have ended: they cannot be resumed.
    fn drop_bound(&mut self) {
        self.commands.retain(|_, running| {
            let command = running.command();
            let over = command.is_bound() && command.log.ended().is_some() && !command.has_stream();
            drop(command);
            if over {
                running.end_task();
            }
            !over
        });
    }

    /// Drops the log of a command, because its time is over, or for lack of room.
    fn forget(&mut self, id: &CommandId, over: bool) {
        let Some(running) = self.commands.remove(id) else { return };
        if over {
            milestone!("sse.command.forgotten", command = id.as_str());
        } else {
            milestone!("sse.command.crowded-out", command = id.as_str());
        }
        // The text of the command may be large.
        let status = CommandStatus { content: String::new(), ..running.status() };
        self.forgotten.keep(id.clone(), status);
        if defect!(ForgottenLogLeaks) {
            self.defects.leaked.push(running);
            return;
        }
        running.end_task();
    }

    /// Ends all commands.
    pub(super) fn clear(&mut self) {
        std::mem::take(&mut self.commands).into_values().for_each(|running| running.end_task());
        self.defects.leaked.clear();
    }
}

#[cfg(test)]
#[path = "tests/registry.rs"]
mod tests;
