//! Requests of the host to clients.
//!
//! Each request is bound to one connection, the newest of its client, and ends with that
//! connection: answered, refused, or failed, within its deadline. An answer is accepted only over
//! the connection that carried the request. Ids are never reused, so a late answer never matches
//! another request.

use reknit_seams::net::ConnId;
use reknit_seams::{defect, milestone};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::HostCore;
use super::host_request::{Answer, HostRequest, Unanswered};
use crate::wire::{ErrorBody, Message, RequestId};

impl HostCore {
    /// Sends a request to a client.
    pub fn send_host_request(
        &mut self,
        client: &str,
        method: &str,
        params: Box<RawValue>,
        now: Instant,
    ) -> oneshot::Receiver<Answer> {
        self.catch_up(now);
        let (answer, answered) = oneshot::channel();
        let presence = self.clients.get(client).map(|client| &client.presence);
        let conn = presence.and_then(|presence| match defect!(AsksOverTheOldest) {
            true => presence.connections().next(),
            false => presence.newest(),
        });
        let Some(conn) = conn else {
            // If the caller dropped the receiver, it does not need the answer.
            let _ = answer.send(Err(Unanswered::Away));
            return answered;
        };
        milestone!("toolcall.host.asked", conn = conn.0, client);
        self.serial += 1;
        // The bug: a request gets the id of one that is over.
        let id = match defect!(QuestionIdsAreUsedAgain) {
            true => self.unused_request_id(),
            false => i64::try_from(self.serial).unwrap_or(i64::MAX),
        };
        self.host_requests
            .insert(id, HostRequest { conn, until: now + self.limits.reverse_deadline, answer });
        self.send(
            conn,
            Message::Request {
                id: RequestId::Number(id),
                method: method.to_owned(),
                params: Some(params),
            },
        );
        self.changed.notify_one();
        answered
    }

    /// Handles an answer.
    pub(super) fn on_client_answer(
        &mut self,
        conn: ConnId,
        id: &RequestId,
        answer: Result<Box<RawValue>, ErrorBody>,
    ) {
        let RequestId::Number(id) = id else { return };
        if self.host_requests.get(id).is_none_or(|request| request.conn != conn) {
            return; // it was given up, or asked elsewhere
        }
        let Some(request) = self.host_requests.remove(id) else { return };
        let answer = answer
            .map_err(|error| Unanswered::Refused { code: error.code, message: error.message });
        // If the caller dropped the receiver, it does not need the answer.
        let _ = request.answer.send(answer);
    }

    /// Fails the requests on a closed connection.
    pub(super) fn fail_host_requests(&mut self, conn: ConnId) {
        if !defect!(ReverseOutlivesTransport) {
            self.give_up(|request| request.conn == conn, &Unanswered::Lost);
        }
    }

    /// Gives up requests that are past their deadline, or whose caller has stopped with its turn.
    pub(super) fn expire_host_requests(&mut self, now: Instant) {
        self.give_up(
            |request| request.until <= now || request.answer.is_closed(),
            &Unanswered::Late,
        );
    }

    fn give_up(&mut self, over: impl Fn(&HostRequest) -> bool, why: &Unanswered) {
        let given_up = self
            .host_requests
            .iter()
            .filter(|(_, request)| over(request))
            .map(|(id, _)| *id)
            .collect::<Vec<_>>();
        for id in given_up {
            if let Some(request) = self.host_requests.remove(&id) {
                // If the caller dropped the receiver, it does not need the answer.
                let _ = request.answer.send(Err(why.clone()));
            }
        }
    }
}
