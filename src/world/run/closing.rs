//! How a run begins, and how it ends: the users stop, the clients close, and the remaining resources are
//! counted.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{EventKind, Side, Time};

use crate::world::hosts::Role;
use crate::world::local;
use crate::world::process::Processes;
use crate::world::run::resources;
use crate::world::state::{Phase, World};
use crate::world::thread;

/// The time that the clients get to close after their users have stopped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Finishes a run: if it is complete, counts the remaining resources. Writes the remaining notes.
pub(in crate::world) fn finish() {
    if local::with(|world| world.phase) == Phase::Over {
        resources::close();
    }
    local::with(World::seal);
}

impl World {
    /// Begins the run: schedules the steps, and starts the hosts.
    pub(in crate::world) fn begin_run(&mut self) {
        self.arm();
        self.start_all();
    }

    /// Handles the end of the first turn.
    pub(in crate::world) fn after_start(&mut self) {
        self.phase = self.phase.max(Phase::Running);
    }

    /// Moves to the next closing phase when the run has reached its planned end. Returns the new
    /// end, or `None` if the run is over.
    pub(in crate::world) fn at_end(&mut self) -> Option<Time> {
        let now = self.net.now();
        match self.phase {
            Phase::Starting | Phase::Running => {
                self.phase = Phase::Closing;
                self.users.clear();
                Some(now + CLOSE_TIMEOUT)
            }
            Phase::Closing => {
                self.phase = Phase::Settling;
                for host in self.net.directory.indices() {
                    let state = self.hosts.get(host);
                    if state.role == Role::Client {
                        state.processes.iter().for_each(Processes::terminate_product);
                        self.net.stack.stop(host);
                    }
                }
                Some(now + self.settle)
            }
            Phase::Settling | Phase::Over => {
                self.phase = Phase::Over;
                None
            }
        }
    }

    /// Returns whether a task of the subject panicked.
    pub(in crate::world) fn has_panicked(&self) -> bool {
        let events = &self.net.history.events;
        events.iter().any(|event| matches!(event.what, EventKind::Panicked { .. }))
    }

    /// Writes the last entries of the history.
    fn seal(&mut self) {
        self.read_notes();
        if let Some(what) = self.livelock.take() {
            self.net.record(None, EventKind::Livelock { what });
        }
        self.net.history.end = self.net.now();
        self.net.history.polls = self.net.directory.indices().map(thread::polls_of).sum();
        self.note_deliveries();
    }

    /// Adds the delivery time to each message of a detailed history.
    fn note_deliveries(&mut self) {
        let mut seen = BTreeMap::new();
        for event in &mut self.net.history.events {
            if let EventKind::Message { conn, from, delivered, .. } = &mut event.what {
                let at: &mut usize = seen.entry((*conn, *from == Side::Server)).or_default();
                *delivered = self.net.conns.get(*conn).directions[*from as usize]
                    .messages
                    .get(*at)
                    .and_then(|message| message.delivered);
                *at += 1;
            }
        }
    }
}
