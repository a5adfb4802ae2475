//! The recovery: from a lost connection to an installed one.
//!
//! One deadline covers the whole recovery. Before it, the client makes
//! attempts with pauses between them. Each attempt opens a connection, performs the handshake, and
//! reads the events of every process that the client missed. A connection is installed only if it
//! has completed these steps and is still alive.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use reknit_jsonrpc::LinkError;
use reknit_resume::Recovery;
use reknit_seams::{defect, milestone};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;

use super::connection::{Connection, InFlight};
use super::pages::Pages;
use super::phase::{Phase, Progress, Step};
use super::process::{ProcessState, StartStage};
use super::{Core, Effect};
use crate::client::Failure;
use crate::client::command::Call;
use crate::client::command::RetryPolicy;
use crate::client::generation::{CloseReason, Generation};
use crate::client::state::State;
use crate::wire::process::StartResult;
use crate::wire::session::{InitializeParams, InitializeResult, Initialized};
use crate::wire::{ErrorBody, Message, code, method, read};

/// The client name in `initialize`.
const CLIENT_NAME: &str = "reknit";

/// How many events a connection must bring so that the next attempt follows without a pause.
const MANY: u64 = 16;

impl Core {
    /// Begins a recovery. The time until the recovery deadline starts now, when the loss is known.
    pub(super) fn recover(&mut self, now: Instant) {
        milestone!("exec.client.recovering", generation = self.installed + 1);
        if !defect!(StateStaysConnected) {
            self.state.send_replace(State::Recovering);
        }
        self.retry(Recovery::begin(now, self.limits.recovery_deadline), now);
    }

    /// Schedules the next attempt after a pause.
    fn retry(&mut self, recovery: Recovery, now: Instant) {
        let recovery = if defect!(DeadlinePerAttempt) {
            Recovery::begin(now, self.limits.recovery_deadline)
        } else {
            recovery
        };
        let pause = self.back_off.next(self.entropy.below(u64::MAX));
        let pause = match pause {
            _ if defect!(NoBackOff) => Duration::from_millis(1),
            pause if defect!(PausesStayShort) => pause.min(self.limits.back_off_min),
            pause => pause,
        };
        let is_idle = self.processes.is_empty() && self.calls.len() == 0;
        if is_idle && defect!(IdleClientStaysAway) {
            let recovery = Recovery::begin(now, Duration::from_secs(86_400));
            let until = recovery.deadline();
            self.phase = Phase::Recovering { recovery, step: Step::Pausing { until } };
            return;
        }
        let until = if self.defects.leaked_starts > 0 {
            recovery.deadline()
        } else {
            recovery.cap(now, pause)
        };
        self.phase = Phase::Recovering { recovery, step: Step::Pausing { until } };
        self.wake_attempt(now);
    }

    /// Handles the timers of the recovery: its deadline, the pause, and the timeouts of an attempt.
    pub(super) fn wake_attempt(&mut self, now: Instant) {
        let Phase::Recovering { recovery, step } = &self.phase else { return };
        let recovery = *recovery;
        if recovery.is_over(now) {
            return self.fail_deadline();
        }
        match step {
            Step::Pausing { until } if *until <= now => self.attempt(recovery, now),
            Step::Attempting {
                progress: Progress::CatchingUp { until, answered: true, .. },
                ..
            } if *until <= now && !defect!(CatchUpWaitsForAll) => {
                // Processes whose read was not answered do not delay the others: they catch up
                // after the installation.
                self.ready();
            }
            Step::Attempting {
                progress: Progress::Opening { until } | Progress::Initializing { until, .. },
                ..
            } if *until <= now => {
                self.give_up(CloseReason::GivenUp, now);
            }
            _ => {}
        }
    }

    fn attempt(&mut self, recovery: Recovery, now: Instant) {
        if defect!(HttpUnsentFails) {
            let unsent = self.calls.take(|call| matches!(call.kind, RetryPolicy::Body(_)));
            unsent.into_iter().for_each(|call| call.end(Err(Failure::ConnectionLost)));
        }
        self.attempts += 1;
        let generation = Generation { number: self.installed + 1, attempt: self.attempts };
        let connection = Connection::new(generation);
        let progress = Progress::Opening { until: recovery.cap(now, self.limits.connect_timeout) };
        self.phase =
            Phase::Recovering { recovery, step: Step::Attempting { connection, progress } };
        self.effects.push_back(Effect::Open(generation));
    }

    /// Shortens the next pause after a connection that brought this many events, however short it
    /// was: pauses protect a server that gets nothing done, and a process prints during each of
    /// them. A few events leave a pause, so that a server that sends one and closes gets no storm.
    fn credit(&mut self, brought: u64) {
        match brought {
            _ if defect!(EventsShortenNoPause) => {}
            0 => {}
            1..MANY => self.back_off.shorten(),
            MANY.. => self.back_off.restart(),
        }
    }

    /// Gives up the current attempt: closes its connection and schedules another attempt.
    pub(super) fn give_up(&mut self, over: CloseReason, now: Instant) {
        let Phase::Recovering { recovery, step: Step::Attempting { connection, .. } } =
            &mut self.phase
        else {
            return;
        };
        let (recovery, generation, conn) = (*recovery, connection.generation, connection.conn);
        milestone!("exec.client.attempt-failed", generation = generation.number, conn, why = %over);
        let in_flight = connection.drain();
        let brought = connection.brought_events;
        self.credit(brought);
        if has_read(&in_flight) || defect!(PagesAfterEachAttempt) {
            self.pages.lost();
        }
        self.abort_requests(conn, in_flight, over);
        self.effects.push_back(Effect::Close(generation));
        self.retry(recovery, now);
    }

    /// The connection is open: begins the handshake.
    pub(super) fn opened(&mut self, conn: u64, now: Instant) {
        let resume_session_id =
            if defect!(FreshSessionAfterCut) { None } else { self.session.clone() };
        let Phase::Recovering { recovery, step: Step::Attempting { connection, progress } } =
            &mut self.phase
        else {
            return;
        };
        connection.conn = conn;
        let until = match progress {
            Progress::Opening { until } if defect!(HandshakeHasOneTimeout) => *until,
            _ => recovery.cap(now, self.limits.initialize_timeout),
        };
        *progress = Progress::Initializing { until, early: VecDeque::new() };
        let params = InitializeParams {
            client_name: CLIENT_NAME.into(),
            resume_session_id,
            reknit_flow: Some(self.limits.flow_window()),
        };
        self.request(method::INITIALIZE, &params, InFlight::Initialize);
    }

    /// Keeps a notification that arrived before the handshake was over.
    pub(super) fn keep_early(&mut self, message: Message) {
        let room = self.limits.reorder_events;
        if let Phase::Recovering {
            step: Step::Attempting { progress: Progress::Initializing { early, .. }, .. },
            ..
        } = &mut self.phase
            && early.len() < room
        {
            early.push_back(message);
        }
    }

    /// Whether an attempt is under way whose handshake is not over.
    pub(super) fn is_initializing(&self) -> bool {
        let Phase::Recovering { step: Step::Attempting { progress, .. }, .. } = &self.phase else {
            return false;
        };
        !progress.is_initialized()
    }

    /// Handles the answer to the handshake.
    pub(super) fn initialized(&mut self, outcome: Result<Box<RawValue>, ErrorBody>, now: Instant) {
        let result = match outcome {
            Ok(result) => match read::<InitializeResult>(Some(&result)) {
                Ok(result) => result,
                Err(_) => return self.fail_permanent(Failure::HandshakeMalformed),
            },
            Err(error) => return self.handshake_refused(error, now),
        };
        let directories = self.defects.directories(result.directory_form());
        if let Some(connection) = self.connection() {
            connection.directories = directories;
            connection.flow = result.reknit_flow;
        }
        let session = result.session_id;
        match &self.session {
            Some(known) if *known != session && !defect!(FreshSessionAfterCut) => {
                self.fail_permanent(Failure::WrongSession);
            }
            _ => {
                self.session = Some(session);
                self.send(Message::notification(method::INITIALIZED, &Initialized {}));
                self.report_all();
                self.catch_up(now);
            }
        }
    }

    fn handshake_refused(&mut self, error: ErrorBody, now: Instant) {
        let Some((number, conn)) =
            self.connection().map(|connection| (connection.generation.number, connection.conn))
        else {
            return;
        };
        match error.code {
            code::STILL_ATTACHED if !defect!(StillAttachedIsPermanent) => {
                milestone!("exec.client.still-attached", generation = number, conn);
                if defect!(StillAttachedShortensPause) {
                    self.back_off.shorten();
                }
                self.give_up(CloseReason::Renounced, now);
            }
            code::TRANSPORT_CLOSED if !defect!(ClosedHandshakeIsFinal) => {
                self.give_up(CloseReason::Renounced, now)
            }
            code::INVALID_REQUEST if self.session.is_some() => {
                self.fail_permanent(Failure::SessionLost(error.message))
            }
            code => self.fail_permanent(Failure::HandshakeRefused { code, message: error.message }),
        }
    }

    /// Reads the missed events of every process whose log has room for them. It sends all reads at once, so a slow answer does
    /// not delay the other processes.
    fn catch_up(&mut self, now: Instant) {
        let owed: BTreeSet<Arc<str>> = self.owed().collect();
        let next_until = now + self.limits.initialize_timeout;
        let Phase::Recovering { step: Step::Attempting { connection, progress }, .. } =
            &mut self.phase
        else {
            return;
        };
        let (generation, conn) = (connection.generation.number, connection.conn);
        milestone!("exec.client.initialized", generation, conn, processes = owed.len() as u64);
        let next = Progress::CatchingUp { owed: owed.clone(), answered: false, until: next_until };
        let before = std::mem::replace(progress, next);
        if let Progress::Initializing { early, .. } = before {
            early.into_iter().for_each(|message| self.message(message, now));
        }
        if !self.is_initialized() {
            return; // an early notification was invalid, and the connection was given up
        }
        let at_once = if defect!(CatchesUpOneByOne) { 1 } else { usize::MAX };
        owed.iter().take(at_once).for_each(|id| self.send_read(id, now));
        if defect!(CallsBeforeInstall) {
            self.flush(now);
        }
        self.caught_up(None, now);
    }

    /// Marks a process as caught up or ended. When no process is left, the connection can be
    /// installed.
    pub(super) fn caught_up(&mut self, id: Option<&str>, now: Instant) {
        let Phase::Recovering { step: Step::Attempting { progress, .. }, .. } = &mut self.phase
        else {
            return;
        };
        let Progress::CatchingUp { owed, answered, .. } = progress else { return };
        if let Some(id) = id {
            *answered |= owed.remove(id);
        }
        let next = owed.first().cloned();
        match next {
            None => self.ready(),
            Some(next) if defect!(CatchesUpOneByOne) => self.send_read(&next, now),
            Some(_) => {}
        }
    }

    fn ready(&mut self) {
        let Phase::Recovering { step: Step::Attempting { connection, progress }, .. } =
            &mut self.phase
        else {
            return;
        };
        *progress = Progress::Ready;
        let generation = connection.generation;
        milestone!("exec.client.caught-up", generation = generation.number, conn = connection.conn);
        self.effects.push_back(Effect::Install(generation));
    }

    /// Installs the connection if it is still the current one and still alive. The calls that
    /// waited for it are then sent.
    pub(in crate::client) fn install(&mut self, generation: Generation, alive: bool, now: Instant) {
        if self.current() != Some(generation) {
            return;
        }
        let Phase::Recovering {
            recovery,
            step: Step::Attempting { progress: Progress::Ready, .. },
        } = &self.phase
        else {
            return;
        };
        if recovery.is_over(now) {
            return self.fail_deadline();
        }
        let install_dead = !alive && defect!(InstallsTheDead);
        if !alive && !install_dead {
            return self.give_up(CloseReason::GivenUp, now);
        }
        let before = std::mem::replace(&mut self.phase, Phase::Failed(Failure::Closed));
        let Phase::Recovering { step: Step::Attempting { mut connection, .. }, .. } = before else {
            return;
        };
        self.installed += 1;
        if !defect!(PagesOutliveRecovery) {
            self.pages = Pages::default();
        }
        milestone!("exec.client.connected", generation = self.installed, conn = connection.conn);
        connection.defects.is_dead = install_dead;
        self.phase = Phase::Connected { connection, since: now };
        self.state.send_replace(State::Connected);
        self.flush(now);
        self.send_due_requests(now);
    }

    /// Handles the end of the connection, reported by the connection or by the server.
    pub(super) fn lost(&mut self, over: CloseReason, now: Instant) {
        let Phase::Connected { connection, since } = &mut self.phase else {
            return self.give_up(over, now);
        };
        if connection.defects.is_dead {
            return;
        }
        let (generation, conn) = (connection.generation, connection.conn);
        milestone!("exec.client.lost", generation = generation.number, conn, why = %over);
        let in_flight = connection.drain();
        if over == CloseReason::Lost(LinkError::TooLong) && has_read(&in_flight) {
            self.pages.lost();
        }
        if !defect!(HealthShortensNoPause) {
            self.back_off.connection_lasted(now.saturating_duration_since(*since));
        }
        let brought = connection.brought_events;
        self.credit(brought);
        self.abort_requests(conn, in_flight, over);
        self.effects.push_back(Effect::Close(generation));
        if defect!(GivesUpAtFirstCut) {
            return self.fail_permanent(Failure::ConnectionLost);
        }
        self.recover(now);
        if over == CloseReason::Lost(LinkError::Silent)
            && defect!(RecoveryCountsFromPing)
            && let Phase::Recovering { recovery, .. } = &mut self.phase
        {
            let pinged = now - self.limits.wire.pong_deadline;
            *recovery = Recovery::begin(pinged, self.limits.recovery_deadline);
        }
    }

    /// Handles the requests that were in flight on a closed connection: calls without side effects
    /// are resent, the other calls fail. If the connection has ended with a message that was too
    /// long, that message may be the answer to any of the reads, so each is resent only a few times.
    fn abort_requests(&mut self, conn: u64, in_flight: BTreeMap<i64, InFlight>, over: CloseReason) {
        let too_long = over == CloseReason::Lost(LinkError::TooLong);
        self.processes.values_mut().for_each(ProcessState::connection_lost);
        self.endings.connection_lost();
        if !defect!(LostReleaseForgotten) {
            self.releases.connection_lost();
        }
        self.bodies.connection_lost();
        if !defect!(WatchesOutliveConnection) {
            self.watches.clear();
        }
        for (id, in_flight) in in_flight {
            let InFlight::Call(ticket, mut call) = in_flight else { continue };
            call.was_cut_off = true;
            milestone!("exec.client.cut-off", conn, id, method = call.method);
            let again = match call.kind {
                RetryPolicy::Read => true,
                RetryPolicy::Write => self.limits.retry_writes,
                RetryPolicy::Start
                | RetryPolicy::Body(_)
                | RetryPolicy::Watch(_)
                | RetryPolicy::Other => false,
            };
            let may_be_too_long = too_long && call.kind == RetryPolicy::Read;
            call.refusals += u32::from(may_be_too_long);
            if may_be_too_long
                && call.refusals > self.limits.read_retries
                && !defect!(LongAnswerReadForEver)
            {
                call.end(Err(Failure::AnswerTooLong));
            } else if again || defect!(MutationsReplayed) && call.kind != RetryPolicy::Start {
                milestone!("exec.client.repeated", method = call.method);
                if call.kind == RetryPolicy::Write && defect!(RepeatedWriteWaitsAnew) {
                    call.until += self.limits.call_wait;
                }
                self.calls.put_back(ticket, call);
            } else if call.kind == RetryPolicy::Start {
                self.ambiguous(call);
            } else {
                call.end(Err(Failure::ConnectionLost));
            }
        }
    }

    /// The outcome of a start is unknown: terminates the process over the next connection, in case
    /// it was started.
    pub(super) fn ambiguous(&mut self, call: Call) {
        let Some((key, _)) = &call.process else { return };
        milestone!("exec.client.start-ambiguous", process = &*key.id);
        if defect!(AmbiguousStartAdopted) {
            if let Some(process) = self.processes.get_mut(&key.id) {
                process.stage = StartStage::Running;
            }
            let started = StartResult { process_id: key.id.to_string(), sandbox_type: None };
            return call.end(Ok(to_raw_value(&started).expect("a name is JSON")));
        }
        self.processes.remove(&key.id);
        self.supersede(&key.id.clone());
        if !defect!(AmbiguousStartKept) {
            self.endings.put(key.id.clone());
        }
        call.end(Err(Failure::ConnectionLost));
    }

    /// Fails the client: the recovery deadline has passed.
    pub(super) fn fail_deadline(&mut self) {
        milestone!("exec.client.failed-deadline", generation = self.installed + 1);
        self.fail(Failure::RecoveryDeadline);
    }

    /// Fails the client: another attempt would not help.
    pub(super) fn fail_permanent(&mut self, failure: Failure) {
        milestone!("exec.client.failed-permanent", generation = self.installed + 1, why = %failure);
        self.fail(failure);
    }
}

/// Whether one of these requests reads the missing events of a process.
fn has_read(in_flight: &BTreeMap<i64, InFlight>) -> bool {
    in_flight.values().any(|request| matches!(request, InFlight::Reading(_)))
}
