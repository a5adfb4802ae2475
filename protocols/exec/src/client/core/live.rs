//! What an installed connection is used for: calls go out, answers and notifications come in.

use std::sync::Arc;

use reknit_resume::Taken;
use reknit_seams::{defect, milestone};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Core;
use super::calls::Ticket;
use super::connection::Flying;
use super::phase::Phase;
use super::process::{ProcessEvent, ProcessState, StartStage};
use crate::client::Failure;
use crate::client::command::{Call, Key, RetryPolicy};
use crate::client::generation::CloseReason;
use crate::client::log::Via;
use crate::wire::http::BodyDelta;
use crate::wire::process::{Closed, Exited, Output, TerminateParams};
use crate::wire::{ErrorBody, Message, code, method, read};

/// What a server says whose session another connection has: the code is one for many things.
const RESUMED_ELSEWHERE: &str = "resumed by another connection";

impl Core {
    // -- what the user asks for --------------------------------------------------------------------------------------------

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
                .insert(key.id.clone(), ProcessState::new(key.serial, log.clone(), self.bounds()));
        }
        self.sweep();
        self.calls.put(call);
        if matches!(self.phase, Phase::Connected { .. }) {
            self.flush(now);
        }
    }

    /// Lets calls go that nobody waits for, so that those who come and go do not fill the tables.
    fn sweep(&mut self) {
        let in_flight = self.connection().map_or(0, |connection| connection.calls());
        if self.calls.len() + in_flight < self.limits.calls {
            return;
        }
        self.calls.take(Call::is_abandoned);
        if let Some(connection) = self.connection() {
            connection.take_calls(Call::is_abandoned);
        }
    }

    /// Sends what waits, in the order in which it was asked.
    pub(super) fn flush(&mut self, now: Instant) {
        while let Some((ticket, call)) = self.calls.pop() {
            if call.is_abandoned() {
                continue;
            }
            match self.refusal(&call) {
                Some(failure) => call.end(Err(failure)),
                None => self.dispatch(ticket, call, now),
            }
        }
    }

    /// Why a call is not even sent.
    fn refusal(&self, call: &Call) -> Option<Failure> {
        let (key, log) = call.process.as_ref()?;
        let newer = self.processes.get(&key.id).is_some_and(|process| process.serial != key.serial);
        if defect!(HandlesOfOneConnection) && call.kind != RetryPolicy::Start && self.installed > 1
        {
            return Some(Failure::ConnectionLost);
        }
        log.refusal().or(newer.then_some(Failure::Superseded))
    }

    fn dispatch(&mut self, ticket: Ticket, mut call: Call, now: Instant) {
        call.lower_wait(self.limits.call_wait, now);
        if let Some(connection) = self.connection() {
            let (generation, conn) = (connection.generation.number, connection.conn);
            milestone!("exec.client.sent", generation, conn, method = call.method);
            let feed =
                if let RetryPolicy::Body(feed) = &call.kind { Some(feed.clone()) } else { None };
            let message = connection.call(ticket, call);
            feed.into_iter().for_each(|feed| self.bodies.put(feed));
            self.send(message);
        }
    }

    /// There is no handle of it any more, or never was.
    fn let_go(&mut self, key: &Key) {
        if self.newest.get(&key.id).is_some_and(|(serial, _)| *serial == key.serial) {
            self.newest.remove(&key.id);
        }
    }

    /// A newer process has this id on the server: whoever holds the one before it would speak to the newer one.
    pub(super) fn supersede(&mut self, id: &Arc<str>) {
        if let Some((_, older)) = self.newest.remove(id)
            && let Some(older) = older.upgrade()
        {
            older.supersede();
        }
    }

    /// Nobody holds the process any more: it goes on over there, and is not followed here.
    pub(super) fn release(&mut self, key: &Key, now: Instant) {
        self.let_go(key);
        if self.processes.get(&key.id).is_some_and(|process| process.serial == key.serial) {
            self.processes.remove(&key.id);
            self.caught_up(Some(&key.id), now);
        }
    }

    /// Whoever started the process went away before it had it. What was started is ended; where the start is in flight, its
    /// answer decides what is to be ended.
    pub(super) fn abandon(&mut self, key: &Key, now: Instant) {
        self.let_go(key);
        let is_its_start = |call: &Call| {
            call.kind == RetryPolicy::Start
                && call.process.as_ref().is_some_and(|(other, _)| other == key)
        };
        if !self.calls.take(is_its_start).is_empty() {
            self.processes.remove(&key.id);
            return;
        }
        if self.connection().is_some_and(|connection| connection.has_start_of(key)) {
            self.forgotten.starts += u32::from(defect!(StartCountLeaks));
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

    // -- what the server says ----------------------------------------------------------------------------------------------

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
                "this client answers no requests",
            )),
            Message::Response { id, result } => {
                if let Some(flying) = self.connection().and_then(|connection| connection.land(&id))
                {
                    self.answered(flying, Ok(result), now);
                }
            }
            Message::Error { id, error } => {
                if let Some(flying) = self.connection().and_then(|connection| connection.land(&id))
                {
                    self.refused(flying, error, now);
                }
            }
        }
    }

    /// A request was refused. Some refusals are about the connection, not the request.
    fn refused(&mut self, flying: Flying, error: ErrorBody, now: Instant) {
        let elsewhere =
            error.code == code::INVALID_REQUEST && error.message.contains(RESUMED_ELSEWHERE);
        let renounced = error.code == code::TRANSPORT_CLOSED
            || elsewhere && !defect!(ResumedElsewhereFailsEach);
        if !renounced || matches!(flying, Flying::Initialize) {
            return self.answered(flying, Err(error), now);
        }
        if let Some(connection) = self.connection() {
            milestone!(
                "exec.client.renounced",
                generation = connection.generation.number,
                conn = connection.conn
            );
        }
        if let Flying::Call(ticket, mut call) = flying {
            call.refusals += 1;
            if call.refusals > self.limits.read_retries {
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
        flying: Flying,
        outcome: Result<Box<RawValue>, ErrorBody>,
        now: Instant,
    ) {
        match flying {
            Flying::Initialize => self.initialized(outcome, now),
            Flying::Reading(key) => self.read_answered(&key, outcome, now),
            Flying::Ending(id) => self.ending_answered(&id, outcome.err(), now),
            Flying::Call(_, call) if call.kind == RetryPolicy::Start => {
                self.start_answered(call, outcome, now)
            }
            Flying::Call(_, call) => {
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
                // Who asked has gone.
                self.processes.remove(&key.id);
                self.endings.put(key.id.clone());
            }
            Ok(_) => {
                self.newest.insert(key.id.clone(), (key.serial, Arc::downgrade(log)));
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
                self.endings.refused(id, now, self.pause(1), self.limits.read_retries);
            }
            _ => {
                milestone!("exec.client.ended", process = &**id);
                self.endings.settle(id);
            }
        }
    }

    /// The server tells something by itself.
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
                let Exited { process_id, seq, exit_code } = read(params)?;
                self.process_reported(&process_id, seq, ProcessEvent::Exited(exit_code), now);
            }
            method::CLOSED => {
                let Closed { process_id, seq } = read(params)?;
                self.process_reported(&process_id, seq, ProcessEvent::Closed, now);
            }
            method::HTTP_BODY => self.body_reported(read(params)?, now),
            // Later servers tell more.
            _ => {}
        }
        Ok(())
    }

    fn body_reported(&mut self, delta: BodyDelta, now: Instant) {
        if self.bodies.hear(delta).is_err() {
            self.lost(CloseReason::GivenUp, now);
        }
    }

    fn process_reported(&mut self, id: &str, seq: u64, what: ProcessEvent, now: Instant) {
        let Some(generation) = self.current().map(|generation| generation.number) else { return };
        let Some(process) = self.processes.get_mut(id) else { return };
        if process.stage == StartStage::Starting {
            // An older process of this id may have told it: servers forget one, and start the next, while its events are on their way.
            process.dropped = true;
            return;
        }
        match process.hear(seq, what, Via { generation, live: true }, now) {
            Ok(Taken::Dropped) if defect!(OverflowFailsProcess) => {
                self.fail_process(id, Failure::Contradiction, now)
            }
            Ok(Taken::Dropped) => {
                milestone!("exec.client.reorder-overflow", process = id, seq);
                process.read_again(now);
            }
            Ok(_) if process.is_closed() => self.process_over(id, now),
            Ok(_) => {}
            Err(failure) => self.fail_process(id, failure, now),
        }
    }

    /// A process has told everything: it needs nothing more.
    pub(super) fn process_over(&mut self, id: &str, now: Instant) {
        self.processes.remove(id);
        self.caught_up(Some(id), now);
    }

    /// A process cannot be followed any more: it fails, alone, and is ended over there.
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

    // -- what is due -------------------------------------------------------------------------------------------------------

    /// Asks for what is to be read or ended, as far as the connection may be used for that.
    pub(super) fn tend(&mut self, now: Instant) {
        if !self.is_initialized() {
            return;
        }
        // A process whose read fails is to be ended, too: reads come first.
        self.tend_readings(now);
        for id in self.endings.take_due(now) {
            let params = TerminateParams { process_id: id.to_string() };
            self.request(method::TERMINATE, &params, Flying::Ending(id));
        }
    }

    /// Calls that have waited too long fail.
    pub(super) fn expire(&mut self, now: Instant) {
        let late = |call: &Call| call.until <= now;
        for call in self.calls.take(late) {
            if let (RetryPolicy::Start, Some((key, _))) = (&call.kind, &call.process) {
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
