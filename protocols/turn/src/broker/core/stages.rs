//! The start and the end of the broker.

use std::sync::Arc;

use reknit_jsonrpc::ErrorBody;
use reknit_seams::{defect, milestone};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::BrokerCore;
use super::forwarded::{Forwarded, Purpose};
use super::outside::{BrokerEffect, BrokerExit, ClientId, CutReason};
use super::stage::{ENDS, Stage};
use crate::upstream::UpstreamEnd;
use crate::wire::{InitializeParams, method};

impl BrokerCore {
    /// Sends the broker's own `initialize`.
    pub(super) fn initialize(&mut self, params: &InitializeParams) {
        let params = serde_json::value::to_raw_value(params).ok();
        self.send(method::INITIALIZE.to_owned(), params, Forwarded::Initialize);
    }

    /// Handles the answer to the broker's own `initialize`.
    pub(super) fn initialized(&mut self, outcome: Result<Box<RawValue>, ErrorBody>, now: Instant) {
        // The bug: a broker that ends serves again if its app-server is ready only then.
        if !matches!(self.stage, Stage::Starting) && !defect!(LateHellosReviveTheBroker) {
            return;
        }
        match outcome {
            Ok(hello) => {
                milestone!("turn.broker.serving");
                // The bug: the app-server waits for the greeting.
                if !defect!(InitializedIsUnsaid) {
                    self.effects.push_back(BrokerEffect::Notify { method: method::INITIALIZED });
                }
                self.stage = Stage::Serving { hello };
                let clients: Vec<ClientId> = self.clients.keys().copied().collect();
                for client in clients {
                    let early = self.clients.get_mut(&client).map(|c| std::mem::take(&mut c.early));
                    for asked in early.unwrap_or_default() {
                        self.on_request(client, asked, now);
                    }
                }
            }
            Err(error) => {
                // The bug: clients do not learn why the broker ends.
                if !defect!(EarlyRequestsUnanswered) {
                    self.refuse_all(&error.message, now);
                }
                self.close_upstream(BrokerExit::NotInitialized(error.message), now);
            }
        }
    }

    /// Starts to end the broker because a client or a signal asks for it. Running turns are
    /// interrupted, and their clients get their ends.
    pub fn shutdown(&mut self, now: Instant) {
        self.catch_up(now);
        if self.stage.is_ending() {
            return;
        }
        milestone!("turn.broker.stopping");
        self.stage = Stage::Stopping { until: now + self.limits.shutdown };
        self.refuse_unsent(ENDS, now);
        for client in self.clients.values_mut() {
            client.reserved = None;
        }
        self.end_turns(now);
        self.after_input(now);
        self.changed.notify_one();
    }

    /// Continues the end once all turns and requests of connected clients are over, or their time
    /// is.
    pub(super) fn continue_stop(&mut self, now: Instant) {
        let Stage::Stopping { until } = self.stage else { return };
        let asks = self.forwarded.values().any(|forwarded| {
            matches!(forwarded, Forwarded::Client { client: Some(_), purpose, .. } if *purpose != Purpose::Interrupt)
        });
        // The bug: only turns are awaited.
        let asks = asks && !defect!(ShutdownLosesRequests);
        if until > now && (asks || !self.held.is_empty() || self.has_live_turn()) {
            return;
        }
        self.refuse_all(ENDS, now);
        self.close_upstream(BrokerExit::Asked, now);
    }

    /// Closes all clients and the connection to the app-server.
    fn close_upstream(&mut self, exit: BrokerExit, now: Instant) {
        self.stage = Stage::Closing(exit);
        self.cut_all(now);
        self.effects.push_back(BrokerEffect::CloseUpstream);
    }

    /// Handles the end of the app-server. Everything that it sent was handled before.
    pub fn upstream_ended(&mut self, end: Arc<UpstreamEnd>, now: Instant) {
        self.catch_up(now);
        // The bug: the broker does not react, and its clients wait forever.
        if defect!(BrokerOutlivesTheAppServer) {
            return;
        }
        milestone!("turn.broker.upstream-ended", why = %end.reason);
        // The bug: the connections end before their clients have answers.
        if defect!(ClientsCutUnanswered) {
            self.cut_all(now);
        }
        self.refuse_all(&end.to_string(), now);
        let asked = match &self.stage {
            Stage::Stopping { .. } => Some(BrokerExit::Asked),
            Stage::Closing(exit) => Some(exit.clone()),
            Stage::Over(_) => return,
            _ => None,
        };
        // The bug: the end that the broker itself causes counts as a crash.
        let asked = asked.filter(|_| !defect!(ShutdownLooksLikeACrash));
        self.stage = Stage::Over(asked.unwrap_or(BrokerExit::UpstreamEnded(end)));
        self.cut_all(now);
    }

    fn cut_all(&mut self, now: Instant) {
        let clients: Vec<ClientId> = self.clients.keys().copied().collect();
        for client in clients {
            self.cut(client, CutReason::BrokerEnds, now);
        }
    }

    /// Whether the broker accepts no more clients.
    pub fn is_closing(&self) -> bool {
        matches!(self.stage, Stage::Closing(_) | Stage::Over(_))
    }

    /// Returns how the broker ended, once it has.
    pub fn exit(&self) -> Option<&BrokerExit> {
        match &self.stage {
            Stage::Over(exit) => Some(exit),
            _ => None,
        }
    }
}
