//! Requests of clients: admission, and their answers.
//!
//! One client at a time has live work: a request without an answer, a turn, or a thread that it has
//! just started. Requests of other clients are refused as busy, except `turn/interrupt`, which always
//! passes. The work of a client that has disconnected is not live: the broker interrupts it.

use reknit_jsonrpc::{
    ErrorBody, LineEvent, Message, RequestId, read, response_text, unreadable_text,
};
use reknit_seams::{defect, milestone};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::BrokerCore;
use super::client::Asked;
use super::forwarded::{Forwarded, Held, Purpose};
use super::outside::{BrokerEffect, ClientId, CutReason, Ticket};
use super::stage::Stage;
use super::threads::ThreadOwner;
use super::turn::OwnedTurn;
use crate::wire::{
    LONGEST_ID, Scope, StartAnswer, ThreadAnswer, TurnInterruptParams, code, method,
};

impl BrokerCore {
    pub(super) fn handle_line(&mut self, client: ClientId, line: LineEvent, now: Instant) {
        match line {
            LineEvent::Message(Message::Request { id, method, params }) => {
                self.on_request(client, Asked { id, method, params }, now);
            }
            // Clients have nothing to notify, and are never asked.
            LineEvent::Message(_) | LineEvent::Room => {}
            // The bug: a client does not learn that the broker cannot read its line.
            LineEvent::Malformed(_) if defect!(UnreadableRequestsAreDropped) => {}
            LineEvent::Malformed(malformed) => {
                self.tell(client, unreadable_text(code::PARSE, malformed.to_string()), now);
            }
            LineEvent::TooLong => {
                let why =
                    format!("the line is longer than {} bytes", self.limits.connection.line_bytes);
                self.tell(client, unreadable_text(code::PARSE, why), now);
                // The bug: a client with a line without an end stays connected.
                if !defect!(LongLinesAreForgiven) {
                    self.cut(client, CutReason::TooLong, now);
                }
            }
        }
    }

    pub(super) fn on_request(&mut self, client: ClientId, asked: Asked, now: Instant) {
        // The bug: a chunk that arrives while a request is handled moves the shared line buffer.
        if defect!(SharedLineBuffer) && self.waiting(client) > 0 {
            self.tell(client, unreadable_text(code::PARSE, "malformed message"), now);
            return;
        }
        match (&self.stage, asked.method.as_str()) {
            (_, method::BROKER_SHUTDOWN) => {
                self.tell(client, response_text(&asked.id, &serde_json::Map::new()), now);
                self.shutdown(now);
            }
            (stage, _) if stage.is_ending() => self.tell(client, Self::ending(asked.id), now),
            // The bug: a probe is answered although the app-server is not there.
            (Stage::Starting, method::INITIALIZE) if defect!(AnswersWithoutTheAppServer) => {
                self.tell(client, response_text(&asked.id, &serde_json::Map::new()), now);
            }
            // The bug: before its app-server is ready, the broker keeps any number of requests.
            (Stage::Starting, _)
                if !defect!(EarlyRequestsUncounted) && !self.has_room(client, &asked) =>
            {
                self.refuse_flood(client, asked.id, now);
            }
            (Stage::Starting, _) => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.early.push(asked);
                }
            }
            // The bug: a client introduces itself to the app-server, which knows the broker already.
            (Stage::Serving { hello }, method::INITIALIZE) if !defect!(ForwardsEachInitialize) => {
                let hello = response_text(&asked.id, hello);
                self.tell(client, hello, now);
            }
            _ => self.admit(client, asked, now),
        }
    }

    /// Forwards a request, or refuses it.
    fn admit(&mut self, client: ClientId, asked: Asked, now: Instant) {
        if !self.has_room(client, &asked) {
            return self.refuse_flood(client, asked.id, now);
        }
        // The bug: an interrupt needs a free slot, too.
        let passes = asked.is_interrupt() && !defect!(InterruptIsBusy);
        if !passes && self.holder().is_some_and(|holder| holder != client) {
            milestone!("turn.broker.busy", conn = client.0);
            let why = "the broker works for another client";
            return self.tell(client, Self::refusal(asked.id, code::BUSY, why), now);
        }
        let thread = reknit_jsonrpc::read::<Scope>(asked.params.as_deref())
            .ok()
            .and_then(|scope| scope.thread_id)
            .filter(|thread| !thread.is_empty() && thread.len() <= LONGEST_ID);
        match thread {
            Some(thread) if method::starts_a_turn(&asked.method) => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.reserved = None;
                }
                let is_taken =
                    self.turns.values().any(|turn| turn.winds_down() && turn.thread == thread);
                // The bug: a turn does not wait for the end of an abandoned one on its thread.
                if is_taken && !defect!(StartsBesideAnAbandonedTurn) {
                    self.held.push_back(Held { client, asked, thread });
                } else {
                    self.start(client, asked, thread, now);
                }
            }
            _ => {
                let purpose = match asked.method.as_str() {
                    method::TURN_INTERRUPT => Purpose::Interrupt,
                    method::THREAD_START | method::THREAD_RESUME => Purpose::Thread,
                    _ => Purpose::Other,
                };
                if purpose == Purpose::Interrupt && self.hits_another(client, &asked) {
                    let why = "the turn of another client runs on the thread";
                    return self.tell(client, Self::refusal(asked.id, code::SERVER, why), now);
                }
                self.forward(client, asked, purpose);
            }
        }
    }

    /// Whether an interrupt without the id of a turn would end the turn of another client. Its client means
    /// its own turn on the thread. If that one is over, or the broker has given it up, the interrupt would
    /// hit the live turn of another client. A client that has no turn there means whatever runs there.
    fn hits_another(&self, client: ClientId, asked: &Asked) -> bool {
        let params = read::<TurnInterruptParams>(asked.params.as_deref());
        let Some(params) = params.ok().filter(|params| params.turn_id.is_empty()) else {
            return false;
        };
        let on_thread = self.turns.values().filter(|turn| turn.thread == params.thread_id);
        let (own, others): (Vec<&OwnedTurn>, Vec<&OwnedTurn>) =
            on_thread.partition(|turn| turn.starter == client);
        let has_live = |turns: &[&OwnedTurn]| turns.iter().any(|turn| turn.is_live());
        !own.is_empty()
            && !has_live(&own)
            && has_live(&others)
            && !defect!(InterruptHitsTheNextTurn)
    }

    /// Forwards a request that starts a turn.
    fn start(&mut self, client: ClientId, asked: Asked, thread: String, now: Instant) {
        self.threads.set(&thread, ThreadOwner::Client(client));
        let is_review = asked.method == method::REVIEW_START;
        let token = self.add_turn(client, thread, is_review, now);
        milestone!("turn.broker.start", conn = client.0);
        self.forward(client, asked, Purpose::Start(token));
    }

    /// Forwards the starts whose thread is free.
    pub(super) fn release_held(&mut self, now: Instant) {
        while let Some(held) = self.held.front() {
            if self.turns.values().any(|turn| turn.winds_down() && turn.thread == held.thread) {
                return;
            }
            let Some(Held { client, asked, thread }) = self.held.pop_front() else { return };
            self.start(client, asked, thread, now);
        }
    }

    fn forward(&mut self, client: ClientId, asked: Asked, purpose: Purpose) {
        let (id, weight) = (asked.id.clone(), asked.weight());
        let forwarded = Forwarded::Client { client: Some(client), id, purpose, weight };
        self.send(asked.method, asked.params, forwarded);
        self.defects.takes_the_slot(client);
    }

    /// Sends a request to the app-server.
    pub(super) fn send(
        &mut self,
        method: String,
        params: Option<Box<RawValue>>,
        forwarded: Forwarded,
    ) {
        let ticket = Ticket(self.number());
        self.forwarded.insert(ticket, forwarded);
        self.effects.push_back(BrokerEffect::Request { ticket, method, params });
    }

    /// Returns the client that has live work, if any.
    pub(super) fn holder(&self) -> Option<ClientId> {
        let asks = self.forwarded.values().find_map(|forwarded| match forwarded {
            Forwarded::Client { purpose: Purpose::Interrupt, .. } => None,
            Forwarded::Client { client, .. } => *client,
            _ => None,
        });
        let asks = if defect!(RequestsAreNotCounted) { self.defects.slot() } else { asks };
        let waits = self.held.front().map(|held| held.client);
        // The bug: a turn is work of its client only until its start is answered.
        let is_work =
            |turn: &&OwnedTurn| turn.is_live() && !(turn.answered && defect!(BusyEndsWithTheStart));
        let owns = self.turns.values().filter(is_work).find_map(|turn| turn.client);
        let reserves = self.clients.iter().find(|(_, client)| client.reserved.is_some());
        asks.or(waits).or(owns).or(reserves.map(|(client, _)| *client))
    }

    /// Returns how many requests of a client wait for answers.
    pub(super) fn waiting(&self, client: ClientId) -> usize {
        self.waiting_of(client, true) + self.waiting_of(client, false)
    }

    /// Returns how many interrupts of a client wait for answers, or how many other requests.
    fn waiting_of(&self, client: ClientId, interrupts: bool) -> usize {
        let forwarded = self.forwarded.values().filter(|forwarded| match forwarded {
            Forwarded::Client { client: Some(other), purpose, .. } => {
                *other == client && (*purpose == Purpose::Interrupt) == interrupts
            }
            _ => false,
        });
        // The bug: any number of starts may wait for the end of an abandoned turn.
        let is_counted =
            |held: &&Held| held.client == client && !interrupts && !defect!(HeldStartsUncounted);
        let held = self.held.iter().filter(is_counted);
        let early = self.clients.get(&client).into_iter().flat_map(|client| &client.early);
        let early = early.filter(|asked| asked.is_interrupt() == interrupts);
        // The bug: any number of interrupts may wait until the app-server is ready.
        let early =
            early.filter(|asked| !asked.is_interrupt() || !defect!(EarlyInterruptsUncounted));
        forwarded.count() + held.count() + early.count()
    }

    /// Whether another request fits: in number for its client, and in bytes for all of them, since
    /// the app-server may read slowly. Interrupts have a number of their own: a client must be able to
    /// interrupt the turn whose start has no answer yet.
    fn has_room(&self, client: ClientId, asked: &Asked) -> bool {
        let bytes = self.request_bytes();
        self.waiting_of(client, asked.is_interrupt()) < self.limits.requests
            // The bug: a request that is nearly as long as a line never fits.
            && (bytes == 0 && !defect!(LongRequestsNeverFit)
                || defect!(RequestBytesUncounted)
                || bytes + asked.weight() <= self.limits.connection.line_bytes)
    }

    /// Returns the bytes that the requests without an answer take.
    pub(super) fn request_bytes(&self) -> usize {
        let forwarded = self.forwarded.values().map(|forwarded| match forwarded {
            Forwarded::Client { weight, .. } => *weight,
            _ => 0,
        });
        // The bug: the bytes of starts that wait do not count.
        let held = self.held.iter().filter(|_| !defect!(HeldBytesUncounted));
        let held = held.map(|held| held.asked.weight());
        let early = self.clients.values().flat_map(|client| &client.early).map(Asked::weight);
        forwarded.chain(held).chain(early).sum()
    }

    fn refuse_flood(&mut self, client: ClientId, id: RequestId, now: Instant) {
        // The bug: a refusal for now looks like one forever.
        let code = if defect!(FloodIsAParseError) { code::PARSE } else { code::SERVER };
        let why = "too many requests wait for answers";
        self.tell(client, Self::refusal(id, code, why), now);
    }

    /// Handles the answer to a request, or its failure. `timed_out`: the app-server may still
    /// answer, see [`BrokerCore::on_late`].
    pub fn on_answer(
        &mut self,
        ticket: Ticket,
        outcome: Result<Box<RawValue>, ErrorBody>,
        timed_out: bool,
        now: Instant,
    ) {
        self.catch_up(now);
        match self.forwarded.remove(&ticket) {
            Some(Forwarded::Initialize) => self.initialized(outcome, now),
            Some(Forwarded::Interrupt { token, key }) => {
                self.on_interrupt_answer(token, &key, outcome.is_ok(), now);
            }
            Some(Forwarded::LateStart { token }) => {
                let answer = outcome.as_deref().ok().map(start_answer);
                self.on_late_start_answer(token, answer, now);
                // The bug: the end of a turn that only a late answer names stays unread.
                if !defect!(LateAnswersClaimNothing) {
                    self.deliver_claimed(now);
                }
            }
            Some(Forwarded::Client { client, id, purpose, .. }) => {
                self.defects.leaves_the_slot(client);
                let result = outcome.as_deref().ok();
                let mut reported = None;
                match purpose {
                    Purpose::Start(token) if timed_out => {
                        reported = self.on_start_timeout(token, now);
                        self.forwarded.insert(ticket, Forwarded::LateStart { token });
                    }
                    Purpose::Start(token) => {
                        self.on_start_answer(token, result.map(start_answer), now);
                    }
                    Purpose::Thread => self.on_thread_answer(client, result, now),
                    Purpose::Interrupt | Purpose::Other => {}
                }
                self.deliver_claimed(now);
                if let Some(client) = client {
                    let text = match (reported, outcome) {
                        (Some(answer), _) => response_text(&id, &answer),
                        (None, Ok(result)) => response_text(&id, &result),
                        (None, Err(error)) => Message::Error { id, error }.to_text(),
                    };
                    self.tell(client, text, now);
                }
            }
            None => {}
        }
        self.interrupt_all(now);
        self.after_input(now);
    }

    /// Whether a late answer to this request still matters.
    pub fn awaits(&self, ticket: Ticket) -> bool {
        self.forwarded.contains_key(&ticket)
    }

    /// Returns how many answers the broker awaits, late ones included.
    pub fn unanswered(&self) -> usize {
        self.forwarded.len()
    }

    /// Handles the answer to a request whose deadline has passed. If the request started a turn,
    /// the turn is interrupted.
    pub fn on_late(&mut self, ticket: Ticket, result: Box<RawValue>, now: Instant) {
        if self.awaits(ticket) {
            self.on_answer(ticket, Ok(result), false, now);
        }
    }

    /// Learns the thread that a client has started. The client keeps its admission for its first
    /// turn.
    fn on_thread_answer(
        &mut self,
        client: Option<ClientId>,
        result: Option<&RawValue>,
        now: Instant,
    ) {
        let Some(result) = result else { return };
        let answer: ThreadAnswer = read(Some(result)).unwrap_or_default();
        let thread = answer.thread.id;
        if thread.is_empty() || thread.len() > LONGEST_ID {
            return;
        }
        let Some(client) = client.filter(|client| self.is_served(*client)) else {
            return self.threads.set(&thread, ThreadOwner::Gone);
        };
        self.threads.set(&thread, ThreadOwner::Client(client));
        // The bug: the time to start a turn counts from the request for the thread.
        if let Some(client) = self.clients.get_mut(&client)
            && !defect!(AdmissionEndsWithTheThread)
        {
            let since = if defect!(ReservesFromTheRequest) { client.active } else { now };
            client.reserved = Some(since + self.limits.reserve);
        }
    }

    /// Gives up the requests of a client that has disconnected.
    pub(super) fn orphan_requests(&mut self, of: ClientId) {
        self.held.retain(|held| held.client != of || defect!(HeldStartOutlivesItsClient));
        for forwarded in self.forwarded.values_mut() {
            if let Forwarded::Client { client, .. } = forwarded
                && *client == Some(of)
            {
                *client = None;
            }
        }
        self.defects.leaves_the_slot(Some(of));
    }

    /// Refuses every request that was not forwarded yet, because the broker ends.
    pub(super) fn refuse_unsent(&mut self, why: &str, now: Instant) {
        let mut refused = Vec::new();
        for (client, known) in &mut self.clients {
            refused.extend(known.early.drain(..).map(|asked| (*client, asked.id)));
        }
        // The bug: a start that waits gets no answer.
        let mut held: Vec<Held> = self.held.drain(..).collect();
        held.retain(|_| !defect!(HeldStartsUnrefused));
        refused.extend(held.into_iter().map(|held| (held.client, held.asked.id)));
        for (client, id) in refused {
            self.tell(client, Self::refusal(id, code::SERVER, why), now);
        }
    }

    /// Refuses every request without an answer, because the broker ends.
    pub(super) fn refuse_all(&mut self, why: &str, now: Instant) {
        self.refuse_unsent(why, now);
        let mut refused = Vec::new();
        for forwarded in self.forwarded.values_mut() {
            if let Forwarded::Client { client, id, .. } = forwarded
                && let Some(client) = client.take()
            {
                refused.push((client, id.clone()));
            }
        }
        for (client, id) in refused {
            self.tell(client, Self::refusal(id, code::SERVER, why), now);
        }
    }
}

/// Reads the result of a start request.
fn start_answer(result: &RawValue) -> StartAnswer {
    read(Some(result)).unwrap_or_default()
}
