//! The requests on the way to the app-server, by their numbers on the connection.

use std::collections::BTreeMap;

use super::core::{BrokerCore, Ticket};
use crate::upstream::RequestNumber;

/// The tickets of the requests whose answers the core awaits.
#[derive(Default)]
pub(super) struct Tickets(BTreeMap<RequestNumber, Ticket>);

impl Tickets {
    pub fn insert(&mut self, number: RequestNumber, ticket: Ticket) {
        self.0.insert(number, ticket);
    }

    /// Takes the ticket of a request that has an answer.
    pub fn take(&mut self, number: RequestNumber) -> Option<Ticket> {
        self.0.remove(&number)
    }

    /// Keeps the ticket of a request whose deadline has passed, if its late answer matters. The core
    /// forgets the oldest of these requests when there are too many; then their tickets go, too.
    pub fn keep(&mut self, number: RequestNumber, ticket: Ticket, core: &BrokerCore) {
        if core.awaits(ticket) {
            self.0.insert(number, ticket);
        }
        if self.0.len() > core.unanswered() {
            self.0.retain(|_, ticket| core.awaits(*ticket));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reknit_jsonrpc::{ErrorBody, LineEvent, Message};
    use serde_json::json;
    use tokio::sync::Notify;
    use tokio::time::Instant;

    use super::*;
    use crate::broker::{BrokerEffect, ClientId};
    use crate::limits::BrokerLimits;
    use crate::wire::{ClientInfo, InitializeParams};

    /// An app-server that never answers a start would otherwise fill the memory of the broker.
    #[test]
    fn the_ticket_of_a_late_start_goes_when_the_broker_forgets_the_start() {
        let client_info = ClientInfo { name: "b".into(), title: None, version: "1".into() };
        let initialize = InitializeParams::new(client_info);
        let mut core = BrokerCore::new(BrokerLimits::default(), &initialize);
        let mut now = Instant::now();
        let next = |core: &mut BrokerCore| {
            std::iter::from_fn(|| core.effect()).find_map(|effect| match effect {
                BrokerEffect::Request { ticket, .. } => Some(ticket),
                _ => None,
            })
        };
        let hello = serde_json::value::to_raw_value(&json!({})).unwrap();
        let ticket = next(&mut core).unwrap();
        core.on_answer(ticket, Ok(hello), false, now);
        let mut tickets = Tickets::default();
        for n in 0..200 {
            let start = json!({ "threadId": format!("t{n}") });
            core.open(ClientId(n), Arc::new(Notify::new()), now);
            let start = LineEvent::Message(Message::request(1, "turn/start", &start));
            core.on_line(ClientId(n), start, now);
            let (number, ticket) = (RequestNumber::of(n), next(&mut core).unwrap());
            tickets.insert(number, ticket);
            core.close(ClientId(n), now);
            now += BrokerLimits::default().connection.request;
            let error = ErrorBody { code: -1, message: "no answer in time".into(), data: None };
            let ticket = tickets.take(number).unwrap();
            core.on_answer(ticket, Err(error), true, now);
            tickets.keep(number, ticket, &core);
            assert!(tickets.0.len() <= core.unanswered(), "{n}");
        }
        let counts = core.counts();
        assert!(counts.late_starts <= counts.finished_turns + counts.turns, "{counts:?}");
        assert!(counts.finished_turns <= 64, "{counts:?}");
        assert_eq!(tickets.0.len(), counts.late_starts);
    }
}
