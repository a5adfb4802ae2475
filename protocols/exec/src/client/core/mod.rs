//! The client's decisions, without clock, socket or task: inputs are commands and reports, outputs
//! are effects.
//!
//! There is one current connection at a time. Every report names its connection; a report of an
//! older connection changes nothing, however late it arrives. The core is in one `Phase`; it sends
//! the user's calls only while it is connected.
//!
//! - `phase`: whether there is a connection, and the progress of an attempt.
//! - `attempt`: the recovery from a lost connection. `live`: the use of an installed connection.
//! - `connection`: the requests in flight on one connection. `calls`: the calls that wait for a
//!   connection.
//! - `bodies`: the HTTP bodies of one connection.
//! - `process`: the events of one process, in order. `reading`: the reads that fetch missing
//!   events. `pages`: how much such a read requests. `endings`: the leftover processes to terminate
//!   on the server. `flow`: the reports of what the subscribers have read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use reknit_resume::{BackOff, Bounds, Recovery};
use reknit_seams::env::Entropy;
use reknit_seams::{defect, milestone};
use tokio::sync::watch;
use tokio::time::Instant;

use self::bodies::Bodies;
use self::calls::Calls;
use self::connection::{Connection, InFlight};
use self::endings::Endings;
use self::flow::Releases;
use self::pages::Pages;
use self::phase::{Phase, Step};
use self::process::ProcessState;
use super::Failure;
use super::command::{Call, Command};
use super::defects::CoreDefects;
use super::generation::{CloseReason, Generation, Report};
use super::log::Log;
use super::missing_watch::WatchSender;
use super::state::{ClientResources, State};
use crate::limits::ClientLimits;
use crate::wire::Message;

mod attempt;
mod bodies;
mod calls;
mod connection;
mod endings;
mod flow;
mod live;
mod pages;
mod phase;
pub(super) mod process;
mod reading;

#[cfg(test)]
mod tests;

/// An action for the driver.
#[derive(Debug)]
pub(super) enum Effect {
    /// Try to open a connection. It replaces the previous one.
    Open(Generation),
    /// Send this message over the connection.
    Send(Generation, Message),
    /// Drop the connection.
    Close(Generation),
    /// The connection is ready: call [`Core::install`] and pass whether it is still alive.
    Install(Generation),
}

/// The client's decisions.
pub(super) struct Core {
    limits: ClientLimits,
    entropy: Arc<dyn Entropy>,
    state: watch::Sender<State>,
    phase: Phase,
    /// The session, once the server has named it.
    session: Option<String>,
    back_off: BackOff,
    /// The number of installed connections, and the number of attempts.
    installed: u64,
    attempts: u64,
    calls: Calls,
    processes: BTreeMap<Arc<str>, ProcessState>,
    /// The newest started process of each id, also after the client has stopped following it.
    newest: BTreeMap<Arc<str>, (u64, Weak<Log>)>,
    endings: Endings,
    releases: Releases,
    pages: Pages,
    bodies: Bodies,
    /// The watches for files of the current connection.
    watches: BTreeMap<u64, WatchSender>,
    effects: VecDeque<Effect>,
    defects: CoreDefects,
}

impl Drop for Core {
    /// Fails the subscriptions and calls that are still pending.
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Failed(_)) {
            self.fail(Failure::Closed);
        }
    }
}

impl Core {
    pub(super) fn new(
        limits: ClientLimits,
        entropy: Arc<dyn Entropy>,
        state: watch::Sender<State>,
        now: Instant,
    ) -> Self {
        let recovery = Recovery::begin(now, limits.recovery_deadline);
        let mut core = Self {
            limits,
            entropy,
            state,
            phase: Phase::Recovering { recovery, step: Step::Pausing { until: now } },
            session: None,
            back_off: BackOff::new(limits.back_off_min, limits.back_off_max),
            installed: 0,
            attempts: 0,
            calls: Calls::default(),
            processes: BTreeMap::new(),
            newest: BTreeMap::new(),
            endings: Endings::default(),
            releases: Releases::default(),
            pages: Pages::default(),
            bodies: Bodies::default(),
            watches: BTreeMap::new(),
            effects: VecDeque::new(),
            defects: CoreDefects::default(),
        };
        core.recover(now);
        core
    }

    /// Returns the next effect to carry out.
    pub(super) fn effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns when [`wake`](Core::wake) is due even without an input.
    pub(super) fn due(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Recovering { recovery, step } => {
                let step = match step {
                    Step::Pausing { until } => Some(*until),
                    Step::Attempting { progress, .. } => progress.due(),
                };
                [Some(recovery.deadline()), step]
            }
            Phase::Connected { connection, .. } => [connection.due(), None],
            Phase::Failed(_) => [None, None],
        };
        let due_requests = if self.is_initialized() {
            [self.endings.due(), self.reading_due()]
        } else {
            [None, None]
        };
        phase.into_iter().chain(due_requests).chain([self.calls.due()]).flatten().min()
    }

    /// The connection is dead, but its final report has not arrived yet. The driver has already
    /// passed on the messages that it read.
    pub(super) fn found_dead(&mut self, generation: Generation, now: Instant) {
        if self.current() == Some(generation) && matches!(self.phase, Phase::Connected { .. }) {
            self.lost(CloseReason::FoundDead, now);
        }
    }

    /// For a defect: registers a call with a connection that was just found dead, so the call never
    /// completes.
    pub(super) fn leak_call(&mut self, call: Call) {
        self.defects.leaked_calls.push(call);
    }

    /// Handles the timers that are due.
    pub(super) fn wake(&mut self, now: Instant) {
        self.wake_attempt(now);
        self.expire(now);
        self.send_due_requests(now);
    }

    /// Handles a command of the user. For a close, it returns the sender that reports the completed
    /// close.
    pub(super) fn on_command(
        &mut self,
        command: Command,
        now: Instant,
    ) -> Option<tokio::sync::oneshot::Sender<()>> {
        match command {
            Command::Call(call) => self.call(call, now),
            Command::Release(key) => self.release(&key, now),
            Command::Abandon(key) => self.abandon(&key, now),
            Command::Progress(key) => self.progress(&key),
            Command::Forget(_) if defect!(DroppedBodyKept) => {}
            Command::Forget(body) => self.bodies.forget(body),
            Command::Close { done } => {
                self.fail(Failure::Closed);
                return Some(done);
            }
        }
        self.send_due_requests(now);
        None
    }

    /// Handles a report of a connection.
    pub(super) fn on_report(&mut self, generation: Generation, report: Report, now: Instant) {
        if self.current() != Some(generation) && !self.accepts_stale_report(generation, &report) {
            return self.ignore(generation, &report);
        }
        if let Phase::Recovering { recovery, .. } = &self.phase
            && recovery.is_over(now)
        {
            return self.fail_deadline();
        }
        match report {
            Report::Opened { conn } => self.opened(conn, now),
            Report::Message(message) => self.message(message, now),
            Report::Over(over) => self.lost(over, now),
        }
        self.send_due_requests(now);
    }

    /// Records a report of an older connection, which changes nothing.
    fn ignore(&mut self, generation: Generation, report: &Report) {
        match report {
            Report::Opened { .. } => {}
            Report::Message(_) => {
                milestone!("exec.client.late-message", generation = generation.number)
            }
            Report::Over(_) => milestone!("exec.client.late-close", generation = generation.number),
        }
        if let (Phase::Failed(failure), Report::Over(_)) = (&mut self.phase, report)
            && defect!(ReasonOverwritten)
        {
            *failure = Failure::ConnectionLost;
        }
    }

    /// Whether a defect accepts this report of a connection that is not the current one.
    fn accepts_stale_report(&self, generation: Generation, report: &Report) -> bool {
        let connected =
            matches!(self.phase, Phase::Connected { .. }) && generation.number < self.installed;
        match report {
            Report::Opened { .. } => false,
            Report::Message(Message::Notification { .. }) => {
                connected && defect!(OldGenerationAccepted)
            }
            Report::Message(_) => connected && defect!(RepliesMatchAcrossGenerations),
            Report::Over(_) => connected && defect!(StaleCloseTearsDown),
        }
    }

    /// Returns the current connection, installed or not.
    fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.phase {
            Phase::Connected { connection, .. }
            | Phase::Recovering { step: Step::Attempting { connection, .. }, .. } => {
                Some(connection)
            }
            _ => None,
        }
    }

    /// Returns the current connection's number in the network, or 0 without a connection.
    pub(super) fn conn(&mut self) -> u64 {
        self.connection().map_or(0, |connection| connection.conn)
    }

    fn current(&mut self) -> Option<Generation> {
        self.connection().map(|connection| connection.generation)
    }

    /// Whether the handshake of the connection is over, so that reads and terminations may be sent.
    fn is_initialized(&self) -> bool {
        match &self.phase {
            Phase::Connected { .. } => true,
            Phase::Recovering { step: Step::Attempting { progress, .. }, .. } => {
                progress.is_initialized()
            }
            _ => false,
        }
    }

    fn send(&mut self, message: Message) {
        if let Some(generation) = self.current() {
            self.effects.push_back(Effect::Send(generation, message));
        }
    }

    fn request(&mut self, method: &str, params: &impl serde::Serialize, in_flight: InFlight) {
        if let Some(connection) = self.connection() {
            let message = connection.request(method, params, in_flight);
            self.send(message);
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds { items: self.limits.reorder_events, weight: self.limits.reorder_bytes }
    }

    /// Returns the pause before the retry of a request that the server refused for a transient
    /// reason.
    fn pause(&self, tries: u32) -> Duration {
        (self.limits.back_off_min * 2_u32.saturating_pow(tries))
            .min(self.limits.back_off_max.max(self.limits.back_off_min))
    }

    /// Fails the client: all pending operations end with this failure, which then stays the same.
    fn fail(&mut self, failure: Failure) {
        if let Some(generation) = self.current() {
            self.effects.push_back(Effect::Close(generation));
        }
        if let Some(connection) = self.connection() {
            for in_flight in connection.drain().into_values() {
                if let InFlight::Call(_, call) = in_flight {
                    call.end(Err(failure.clone()));
                }
            }
        }
        self.calls.fail_all(&failure);
        self.bodies.fail_all(&failure);
        let watches = std::mem::take(&mut self.watches).into_values();
        watches
            .filter(|_| !defect!(ClosedWatchIsLost))
            .for_each(|watch| watch.fail(failure.clone()));
        std::mem::take(&mut self.processes)
            .into_values()
            .for_each(|mut process| process.fail(failure.clone()));
        self.endings.clear();
        self.releases.clear();
        self.phase = Phase::Failed(failure);
        self.state.send_replace(State::Failed);
    }

    /// Returns the resource counts.
    pub(super) fn resources(&self) -> ClientResources {
        let in_flight = match &self.phase {
            Phase::Connected { connection, .. } if !defect!(InFlightUncounted) => {
                connection.calls()
            }
            _ => 0,
        };
        let most = |of: fn(&ProcessState) -> (usize, usize)| {
            let sizes = self.processes.values().map(of);
            sizes.fold((0, 0), |most, size| (size.0.max(most.0), size.1.max(most.1)))
        };
        let (held_back_events, held_back_bytes) = most(ProcessState::held_back);
        let (kept_events, kept_bytes) = most(|process| process.log.size());
        ClientResources {
            calls: self.calls.len() + in_flight,
            processes: self.processes.len(),
            endings: self.endings.len(),
            bodies: if defect!(BodiesUncounted) { 0 } else { self.bodies.len() },
            held_back_events,
            held_back_bytes,
            kept_events,
            kept_bytes,
        }
    }
}
