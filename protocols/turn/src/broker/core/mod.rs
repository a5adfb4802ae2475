//! The broker without sockets: clients, their requests, their turns, and the end. Its inputs are
//! events and the current time.
//!
//! The driver reports clients, their lines, and the events of the app-server. It asks for the next
//! message of a client ([`BrokerCore::pull`]), for other work ([`BrokerCore::effect`]), for the time
//! of the next timeout ([`BrokerCore::due`]), and for the end ([`BrokerCore::exit`]).
//!
//! - `requests`: admission of requests, and their answers. `turns`: turns from start to end, and
//!   interrupts. `routing`: the client of each notification. `stages`: start and end of the broker.
//! - `client`, `forwarded`, `turn`, `threads`, `unclaimed`, `stage`: the data types of these modules. `outside`: the
//!   effects, and the exit. `counts`: the resource counts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use reknit_jsonrpc::LineEvent;
use reknit_seams::{defect, milestone};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::BrokerLimits;
use crate::wire::code;

mod client;
mod counts;
mod defects;
mod forwarded;
mod outside;
mod requests;
mod routing;
mod stage;
mod stages;
#[cfg(test)]
mod tests;
mod threads;
mod turn;
mod turns;
mod unclaimed;

pub use counts::BrokerCounts;
pub use outside::{BrokerEffect, BrokerExit, ClientId, CutReason, Ticket};

use client::Client;
use defects::Defects;
use forwarded::{Forwarded, Held};
use stage::Stage;
use threads::Threads;
use turn::{OwnedTurn, TurnToken};
use unclaimed::Unclaimed;

/// The state machine of a broker.
pub struct BrokerCore {
    limits: BrokerLimits,
    stage: Stage,
    clients: BTreeMap<ClientId, Client>,
    /// The requests that the app-server has not answered.
    forwarded: BTreeMap<Ticket, Forwarded>,
    /// The starts that wait until an abandoned turn on the same thread has ended.
    held: VecDeque<Held>,
    turns: BTreeMap<TurnToken, OwnedTurn>,
    threads: Threads,
    unclaimed: Unclaimed,
    effects: VecDeque<BrokerEffect>,
    /// The counter for tickets and tokens.
    serial: u64,
    defects: Defects,
    /// Signals that an input of a client, or a shutdown, may have caused an effect or a timeout.
    changed: Arc<Notify>,
}

impl BrokerCore {
    /// Creates a broker whose app-server is connected, and not initialized yet. `initialize`
    /// contains the parameters of the broker's own `initialize`.
    pub fn new(limits: BrokerLimits, initialize: &crate::wire::InitializeParams) -> Self {
        let mut core = Self {
            limits,
            stage: Stage::Starting,
            clients: BTreeMap::new(),
            forwarded: BTreeMap::new(),
            held: VecDeque::new(),
            turns: BTreeMap::new(),
            threads: Threads::new(limits.threads),
            unclaimed: Unclaimed::new(limits.threads, limits.connection.outbox_bytes),
            effects: VecDeque::new(),
            serial: 0,
            defects: Defects::default(),
            changed: Arc::default(),
        };
        core.initialize(initialize);
        core
    }

    /// Returns the `Notify` that signals that [`BrokerCore::effect`], [`BrokerCore::due`] and
    /// [`BrokerCore::exit`] must be read again after an input of a client, or a shutdown.
    pub fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    /// Returns the next effect for the driver.
    pub fn effect(&mut self) -> Option<BrokerEffect> {
        self.effects.pop_front()
    }

    /// Adds a client. `wake` is notified when there is something to pull, or the connection ends.
    pub fn open(&mut self, client: ClientId, wake: Arc<Notify>, now: Instant) {
        self.catch_up(now);
        self.clients.insert(client, Client::new(wake, now));
        // The bug: a broker that waits for the ends of turns keeps new clients.
        if self.stage.is_ending() && !defect!(StoppingBrokersAdmit) {
            self.cut(client, CutReason::BrokerEnds, now);
        }
        self.changed.notify_one();
    }

    /// Handles that a client's connection is over.
    pub fn close(&mut self, client: ClientId, now: Instant) {
        self.catch_up(now);
        if self.clients.remove(&client).is_some() {
            self.abandon_all(client, now);
            self.threads.leave(client);
            self.after_input(now);
            self.changed.notify_one();
        }
    }

    /// Handles a line of a client.
    pub fn on_line(&mut self, client: ClientId, line: LineEvent, now: Instant) {
        self.catch_up(now);
        if self.is_served(client) {
            self.touch(client, now);
            self.handle_line(client, line, now);
            self.after_input(now);
            self.changed.notify_one();
        }
    }

    /// Returns the next message for a client.
    pub fn pull(&mut self, client: ClientId) -> Option<String> {
        self.clients.get_mut(&client)?.pull()
    }

    /// Returns why the driver must close a client's connection, once the last message was pulled.
    pub fn over(&self, client: ClientId) -> Option<CutReason> {
        self.clients.get(&client)?.over()
    }

    /// Returns the time of the next timeout, if any.
    pub fn due(&self) -> Option<Instant> {
        let reserved = self.clients.values().filter_map(|client| client.reserved);
        let reserved = reserved.filter(|_| !defect!(ReservesForEver));
        let turns = self.turns.values().filter_map(|turn| turn.until);
        let interrupts = self.turns.values().filter_map(OwnedTurn::retry);
        let idle = self.clients.values().filter_map(|client| client.idle_at(self.limits.idle));
        reserved.chain(turns).chain(interrupts).chain(idle).chain(self.stage.until()).min()
    }

    /// Handles every timeout that has passed. Each input calls this first, so that a timeout takes
    /// effect at its time, and not when a timer fires.
    pub fn catch_up(&mut self, now: Instant) {
        for client in self.clients.values_mut() {
            // The bug: a client that starts no turn is admitted alone forever.
            client.reserved =
                client.reserved.filter(|until| *until > now || defect!(ReservesForEver));
        }
        self.expire_turns(now);
        self.interrupt_all(now);
        self.cut_idle(now);
        self.after_input(now);
    }

    /// Closes the connections of clients that have no work and have said nothing for too long: a
    /// client that vanished without a word would take one of the connections forever.
    fn cut_idle(&mut self, now: Instant) {
        let is_due = |client: &Client| client.idle_at(self.limits.idle).is_some_and(|at| at <= now);
        let due: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, known)| is_due(known))
            .map(|(client, _)| *client)
            .collect();
        for client in due {
            // The bug: only requests count as work.
            let owns = |turn: &OwnedTurn| {
                // The bug: a client that ever ran a turn is never idle.
                let is_work = !turn.is_finished() || defect!(EndedTurnsAreWork);
                turn.client == Some(client) && is_work && !defect!(IdleCutsTheBusy)
            };
            // The bug: a request that waits at the broker is no work.
            let waits = match defect!(WaitingIsNoWork) {
                true => self.is_at_the_app_server(client),
                false => self.waiting(client) > 0,
            };
            let works = waits || self.turns.values().any(owns);
            if works || defect!(IdleClientsAreKept) {
                self.touch(client, now);
            } else {
                self.cut(client, CutReason::Idle, now);
            }
        }
    }

    fn touch(&mut self, client: ClientId, now: Instant) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.active = now;
        }
    }

    /// Continues what an input may have made possible.
    fn after_input(&mut self, now: Instant) {
        self.release_held(now);
        self.forget_finished();
        // The bug: news that nothing can claim any more stay.
        if !defect!(UnclaimedNewsStay) {
            self.drop_unclaimed();
        }
        self.continue_stop(now);
    }

    fn is_served(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|client| client.cut.is_none())
    }

    /// Sends a message to a client. A client that does not read loses its connection.
    fn tell(&mut self, client: ClientId, text: String, now: Instant) {
        let most = self.limits.connection.outbox_bytes;
        let within =
            self.clients.get_mut(&client).is_none_or(|client| client.push(text, most, now));
        if !within {
            self.cut(client, CutReason::Slow, now);
        }
    }

    /// Ends a client's connection. Its turns are abandoned at once.
    fn cut(&mut self, client: ClientId, reason: CutReason, now: Instant) {
        let Some(known) = self.clients.get_mut(&client) else { return };
        milestone!("turn.broker.cut", conn = client.0, why = %reason);
        known.cut(reason);
        if reason != CutReason::BrokerEnds {
            self.abandon_all(client, now);
        }
    }

    fn number(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// The message of a refused request.
    fn refusal(id: reknit_jsonrpc::RequestId, code: i64, why: impl Into<String>) -> String {
        reknit_jsonrpc::Message::error(id, code, why).to_text()
    }

    /// The refusal of a request because the broker ends.
    fn ending(id: reknit_jsonrpc::RequestId) -> String {
        Self::refusal(id, code::SERVER, stage::ENDS)
    }
}
