//! The use of an installed connection: calls are sent, answers and notifications are received.

use std::sync::Arc;
use std::time::Duration;

use reknit_resume::InsertOutcome;
use reknit_seams::{defect, milestone};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Core;
use super::calls::Ticket;
use super::connection::InFlight;
use super::phase::Phase;
use super::process::{ProcessEvent, ProcessState, StartStage};
use crate::client::Failure;
use crate::client::command::{Call, Key, RetryPolicy};
use crate::client::generation::CloseReason;
use crate::client::log::Via;
use crate::client::missing_watch::WatchSender;
use crate::wire::files::MissingChanged;
use crate::wire::http::BodyDelta;
use crate::wire::process::{Closed, Exited, Output, TerminateParams};
use crate::wire::{ErrorBody, Message, code, method, read};

/// The server's message if another connection has the session. The error code alone is ambiguous.
const RESUMED_ELSEWHERE: &str = "resumed by another connection";

impl Core {
    // -- calls of the user ------------------------------------------------------------------------

    pub(super) fn call(&mut self, call: Call, now: Instant) {
        if let Phase::Failed(failure) = &self.phase {
            let failure = failure.clone();
            return call.end(Err(failure));
        }
        if let (RetryPolicy::Start, Some((key, log))) = (&call.kind, &call.process) {
            if self.processes.contains_key(&key.id) || self.endings.has(&key.id) {
                return call.end(Err(Failure::IdTaken));
            }
            self.processes
                .insert(key.id.clone(), ProcessState::new(key, log.clone(), self.bounds()));
        }
        let may_wait = matches!(call.kind, RetryPolicy::Read | RetryPolicy::Start);
        if defect!(RecoveringFailsCalls) && self.installed > 0 && !may_wait && !self.is_connected()
        {
            return call.end(Err(Failure::ConnectionLost));
        }
        self.sweep();
        self.calls.put(call);
        if self.is_connected() {
            self.flush(now);
        }
    }

    fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Connected { .. })
    }

    /// Removes abandoned calls once the tables are full. Otherwise callers that stop waiting would
    /// fill the tables.
    fn sweep(&mut self) {
        let in_flight = self.connection().map_or(0, |connection| connection.calls());
        if self.calls.len() + in_flight < self.limits.calls || defect!(AbandonedCallsKept) {
            return;
        }
        self.calls.take(Call::is_abandoned);
        if let Some(connection) = self.connection() {
            connection.take_calls(Call::is_abandoned);
        }
    }

    /// Sends the waiting calls in order.
    pub(super) fn flush(&mut self, now: Instant) {
        while let Some((ticket, call)) = self.calls.pop() {
            if call.is_abandoned() {
                if defect!(AbandonedCallEndsFlush) {
                    return;
                }
                continue;
            }
            match self.refusal(&call) {
                Some(failure) => call.end(Err(failure)),
                None => self.dispatch(ticket, call, now),
            }
            if defect!(FlushSendsOneCall) {
                return;
            }
        }
    }

    /// Returns why a call is refused locally, if it is.
    fn refusal(&self, call: &Call) -> Option<Failure> {
        let (key, log) = call.process.as_ref()?;
        let newer = self.processes.get(&key.id).is_some_and(|process| process.serial != key.serial);
        if defect!(HandlesOfOneConnection) && call.kind != RetryPolicy::Start && self.installed > 1
        {
            return Some(Failure::ConnectionLost);
        }
        if defect!(OlderHandlesReachNewer) {
            return log.failure();
        }
        log.refusal().or(newer.then_some(Failure::Superseded))
    }

    fn dispatch(&mut self, ticket: Ticket, mut call: Call, now: Instant) {
        call.lower_wait(self.limits.call_wait, now);
        if let Some(connection) = self.connection() {
            let (generation, conn) = (connection.generation.number, connection.conn);
            milestone!("exec.client.sent", generation, conn, method = call.method);
            let kind = call.kind.clone();
            call.write_directory_as(connection.directories);
            let message = connection.call(ticket, call);
            match kind {
                RetryPolicy::Body(feed) => self.bodies.put(feed),
                RetryPolicy::Watch(watch) => self.watch(watch),
                _ => {}
            }
            self.send(message);
        }
    }

    /// Registers a watch for the current connection, and forgets those that users have dropped.
    fn watch(&mut self, watch: WatchSender) {
        self.watches.retain(|_, watch| !watch.is_dropped());
        self.watches.insert(watch.number, watch);
    }

    /// Forgets a process that has no handle any more, or never had one.
    fn forget_handle(&mut self, key: &Key) {
        if self.newest.get(&key.id).is_some_and(|(serial, _)| *serial == key.serial) {
            self.newest.remove(&key.id);
        }
    }

    /// A newer process has taken this id on the server: marks the older one as superseded, because
    /// its handles would reach the newer process.
    pub(super) fn supersede(&mut self, id: &Arc<str>) {
        if let Some((_, older)) = self.newest.remove(id)
            && let Some(older) = older.upgrade()
        {
            older.supersede();
        }
    }

    /// The last handle was dropped: the process continues to run on the server, and the client
    /// stops following it.
    pub(super) fn release(&mut self, key: &Key, now: Instant) {
        self.forget_handle(key);
        let is_its =
            |process: &ProcessState| process.serial == key.serial || defect!(OlderReleaseEndsNewer);
        if self.processes.get(&key.id).is_some_and(is_its) {
            self.processes.remove(&key.id);
            self.release_flow(key.id.clone());
            if !defect!(CatchUpWaitsForReleased) {
                self.caught_up(Some(&key.id), now);
            }
        }
    }

    /// The caller of a start was dropped before it received the process. The client terminates the
    /// process if it was started. If the start is in flight, its answer decides whether a process
    /// must be terminated.
    pub(super) fn abandon(&mut self, key: &Key, now: Instant) {
        self.forget_handle(key);
        let is_its_start = |call: &Call| {
            call.kind == RetryPolicy::Start
                && call.process.as_ref().is_some_and(|(other, _)| other == key)
        };
        if !self.calls.take(is_its_start).is_empty() {
            self.processes.remove(&key.id);
            return;
        }
        if self.connection().is_some_and(|connection| connection.has_start_of(key)) {
            self.defects.leaked_starts += u32::from(defect!(StartCountLeaks));
            return;
        }
        if self.processes.get(&key.id).is_some_and(|process| process.serial == key.serial)
            && !defect!(UnclaimedStartKept)
        {
            self.processes.remove(&key.id);
            self.endings.put(key.id.clone());
            self.caught_up(Some(&key.id), now);
        }
    }

    // -- messages from the server -----------------------------------------------------------------

    pub(super) fn message(&mut self, message: Message, now: Instant) {
        match message {
            Message::Notification { .. } if self.is_initializing() => self.keep_early(message),
            Message::Notification { method, params } => {
                if self.notification(&method, params.as_deref(), now).is_err() {
                    self.lost(CloseReason::Malformed, now);
                }
            }
            Message::Request { id, .. } => self.send(Message::error(
                id,
                code::UNKNOWN_METHOD,
                "this client does not support requests",
            )),
            Message::Response { id, result } => {
                if let Some(in_flight) =
                    self.connection().and_then(|connection| connection.take_request(&id))
                {
                    self.answered(in_flight, Ok(result), now);
                }
            }
            Message::Error { id, error } => {
                if let Some(in_flight) =
                    self.connection().and_then(|connection| connection.take_request(&id))
                {
                    self.refused(in_flight, error, now);
                }
            }
        }
    }

    /// Handles an error response. Some errors are about the connection, not about the request.
    fn refused(&mut self, in_flight: InFlight, error: ErrorBody, now: Instant) {
        let elsewhere =
            error.code == code::INVALID_REQUEST && error.message.contains(RESUMED_ELSEWHERE);
        let renounced = error.code == code::TRANSPORT_CLOSED
            || elsewhere && !defect!(ResumedElsewhereFailsEach);
        if !renounced || matches!(in_flight, InFlight::Initialize) {
            return self.answered(in_flight, Err(error), now);
        }
        if let Some(connection) = self.connection() {
            milestone!(
                "exec.client.renounced",
                generation = connection.generation.number,
                conn = connection.conn
            );
        }
        if let InFlight::Call(ticket, mut call) = in_flight {
            call.refusals += 1;
            let is_repeated = matches!(call.kind, RetryPolicy::Read | RetryPolicy::Write)
                || defect!(RenouncedStartKeepsId);
            if is_repeated
                && call.refusals > self.limits.read_retries
                && !defect!(RenouncedReadRepeatedForEver)
            {
                call.was_cut_off = true; // whether a write was written is unknown
                call.end(Err(error.into()));
            } else if defect!(TransportClosedRetriedHot) && call.kind == RetryPolicy::Read {
                call.refusals = 0;
                return self.dispatch(ticket, call, now);
            } else if let Some(connection) = self.connection() {
                connection.put_back(ticket, call);
            }
        }
        self.lost(CloseReason::Renounced, now);
    }

    fn answered(
        &mut self,
        in_flight: InFlight,
        outcome: Result<Box<RawValue>, ErrorBody>,
        now: Instant,
    ) {
        match in_flight {
            InFlight::Initialize => self.initialized(outcome, now),
            InFlight::Reading(key) => self.read_answered(&key, outcome, now),
            InFlight::Report => {}
            InFlight::Release(id) => self.releases.settle(&id),
            InFlight::Ending(id) => self.ending_answered(&id, outcome.err(), now),
            InFlight::Call(_, call) if call.kind == RetryPolicy::Start => {
                self.start_answered(call, outcome, now)
            }
            InFlight::Call(_, call) => {
                if let RetryPolicy::Body(feed) = &call.kind {
                    self.bodies.answered(feed, outcome.is_ok());
                }
                call.end(outcome.map_err(Failure::from));
            }
        }
    }

    fn start_answered(
        &mut self,
        call: Call,
        outcome: Result<Box<RawValue>, ErrorBody>,
        now: Instant,
    ) {
        let Some((key, log)) = &call.process else { return };
        if outcome.is_ok() {
            self.supersede(&key.id);
        }
        match &outcome {
            Err(_) => drop(self.processes.remove(&key.id)),
            Ok(_) if call.answer.is_closed() && !defect!(UnclaimedStartKept) => {
                // The caller was dropped.
                self.processes.remove(&key.id);
                self.endings.put(key.id.clone());
            }
            Ok(_) => {
                self.newest.insert(key.id.clone(), (key.serial, Arc::downgrade(log)));
                log.report_as(self.flow());
                if let Some(process) = self.processes.get_mut(&key.id) {
                    process.started(now);
                }
            }
        }
        call.end(outcome.map_err(Failure::from));
    }

    fn ending_answered(&mut self, id: &Arc<str>, error: Option<ErrorBody>, now: Instant) {
        match error {
            Some(error) if error.code == code::INTERNAL => {
                milestone!("exec.client.end-refused", process = &**id, code = error.code);
                let pause = self.pause(1);
                let pause =
                    if defect!(RefusedEndingRepeatedAtOnce) { Duration::ZERO } else { pause };
                self.endings.refused(id, now, pause, self.limits.read_retries);
            }
            _ => {
                milestone!("exec.client.ended", process = &**id);
                if !defect!(EndingKept) {
                    self.endings.settle(id);
                }
            }
        }
    }

    /// Handles a notification.
    fn notification(
        &mut self,
        name: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) -> Result<(), serde_json::Error> {
        match name {
            method::OUTPUT => {
                let Output { process_id, seq, stream, chunk } = read(params)?;
                self.process_reported(&process_id, seq, ProcessEvent::Output(stream, chunk.0), now);
            }
            method::EXITED => {
                let Exited { process_id, seq, exit_code, .. } = read(params)?;
                self.process_reported(&process_id, seq, ProcessEvent::Exited(exit_code), now);
            }
            method::CLOSED => {
                let Closed { process_id, seq } = read(params)?;
                self.process_reported(&process_id, seq, ProcessEvent::Closed, now);
            }
            method::HTTP_BODY => self.body_reported(read(params)?, now),
            method::MISSING_CHANGED => {
                let MissingChanged { watch_id } = read(params)?;
                if defect!(ChangeEndsAllWatches) {
                    self.watches.values().for_each(WatchSender::report);
                }
                if let Some(watch) = self.watches.remove(&watch_id) {
                    watch.report();
                }
            }
            _ if defect!(UnknownNotificationEnds) => {
                return Err(serde::de::Error::custom("an unknown notification"));
            }
            // Later servers send other notifications.
            _ => {}
        }
        Ok(())
    }

    fn body_reported(&mut self, delta: BodyDelta, now: Instant) {
        if self.bodies.on_piece(delta).is_err() {
            self.lost(CloseReason::GivenUp, now);
        }
    }

    fn process_reported(&mut self, id: &str, seq: u64, what: ProcessEvent, now: Instant) {
        let Some(generation) = self.current().map(|generation| generation.number) else { return };
        let generation =
            if defect!(EarlyEventsNameOldConnection) { self.installed } else { generation };
        let Some(process) = self.processes.get_mut(id) else { return };
        if process.stage == StartStage::Starting {
            // The event may belong to an older process with this id: a server can forget a process
            // and start the next one while the older one's events are in flight.
            process.dropped = true;
            return;
        }
        let before = process.published();
        let outcome = process.on_event(seq, what, Via { generation, live: true }, now);
        let (brought, closed) = (process.published() - before, process.is_closed());
        let is_dropped = matches!(outcome, Ok(InsertOutcome::Dropped));
        if is_dropped && !defect!(OverflowFailsProcess) {
            milestone!("exec.client.reorder-overflow", process = id, seq);
            process.read_again(now);
        }
        self.count_events(brought);
        match outcome {
            Ok(_) if is_dropped && defect!(OverflowFailsProcess) => {
                self.fail_process(id, Failure::Contradiction, now)
            }
            Ok(_) if closed => self.process_over(id, now),
            Ok(_) => {}
            Err(failure) => self.fail_process(id, failure, now),
        }
    }

    /// Counts the events that the current connection brought.
    pub(super) fn count_events(&mut self, brought: u64) {
        if let Some(connection) = self.connection() {
            connection.brought_events += brought;
        }
    }

    /// Stops following a process whose events are complete.
    pub(super) fn process_over(&mut self, id: &str, now: Instant) {
        if !defect!(ClosedProcessFollowed) {
            self.processes.remove(id);
        }
        self.caught_up(Some(id), now);
    }

    /// Fails a single process that cannot be followed any longer, and terminates it on the server.
    pub(super) fn fail_process(&mut self, id: &str, failure: Failure, now: Instant) {
        milestone!("exec.client.process-failed", process = id, why = %failure);
        if defect!(GapFailsAll) {
            return self.fail(failure);
        }
        let Some((id, mut process)) = self.processes.remove_entry(id) else { return };
        process.fail(failure);
        if !defect!(GapLeavesOrphan) {
            self.endings.put(id.clone());
        }
        self.caught_up(Some(&id), now);
    }

    // -- timers -----------------------------------------------------------------------------------

    /// Sends the reads and terminations that are due, if the handshake of the connection is over.
    pub(super) fn send_due_requests(&mut self, now: Instant) {
        if !self.is_initialized() {
            return;
        }
        // Reads first: a process that fails on an overdue read must be terminated too.
        self.send_due_reads(now);
        for id in self.endings.take_due(now) {
            if self.flow().is_some() && !defect!(EndedProcessHeld) {
                // Otherwise its last output would wait for a reader.
                self.send_report(&id, None, InFlight::Report);
            }
            let params = TerminateParams { process_id: id.to_string() };
            self.request(method::TERMINATE, &params, InFlight::Ending(id));
        }
    }

    /// Fails the calls whose deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) {
        let late = |call: &Call| call.until <= now;
        for call in self.calls.take(late) {
            if let (RetryPolicy::Start, Some((key, _))) = (&call.kind, &call.process)
                && !defect!(UnsentStartKeepsId)
            {
                self.processes.remove(&key.id);
            }
            milestone!("exec.client.unanswered", method = call.method);
            call.end(Err(Failure::Unanswered));
        }
        let in_flight = self.connection().map(|connection| connection.take_calls(late));
        for call in in_flight.into_iter().flatten() {
            milestone!("exec.client.unanswered", method = call.method);
            if let (RetryPolicy::Start, Some((key, _))) = (&call.kind, &call.process) {
                self.processes.remove(&key.id);
                self.endings.put(key.id.clone());
                self.supersede(&key.id.clone());
            }
            call.end(Err(Failure::Unanswered));
        }
    }
}
