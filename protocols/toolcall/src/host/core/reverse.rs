//! What the host asks of clients: requests in the other direction.
//!
//! Each is bound to one connection, the newest of its client, and is over with it: answered, refused, or failed, within its
//! deadline. An answer counts if it comes over the connection that was asked; numbers are never used twice, so a late answer is
//! nobody else's.

use reknit_seams::defect;
use reknit_seams::net::ConnId;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::HostCore;
use super::question::{Answer, Reverse, Unanswered};
use crate::wire::{ErrorBody, Message, RequestId};

impl HostCore {
    /// Asks a client for something.
    pub fn ask(
        &mut self,
        client: &str,
        method: &str,
        params: Box<RawValue>,
        now: Instant,
    ) -> oneshot::Receiver<Answer> {
        self.catch_up(now);
        let (answer, answered) = oneshot::channel();
        let newest = self.clients.get(client).and_then(|client| client.presence.newest());
        let Some(conn) = newest else {
            // Who dropped the other end does not want to know.
            let _ = answer.send(Err(Unanswered::Away));
            return answered;
        };
        self.serial += 1;
        let id = i64::try_from(self.serial).unwrap_or(i64::MAX);
        self.reverse
            .insert(id, Reverse { conn, until: now + self.limits.reverse_deadline, answer });
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

    /// An answer came.
    pub(super) fn replied(
        &mut self,
        conn: ConnId,
        id: &RequestId,
        answer: Result<Box<RawValue>, ErrorBody>,
    ) {
        let RequestId::Number(id) = id else { return };
        if self.reverse.get(id).is_none_or(|asked| asked.conn != conn) {
            return; // it was given up, or asked elsewhere
        }
        let Some(asked) = self.reverse.remove(id) else { return };
        let answer = answer
            .map_err(|error| Unanswered::Refused { code: error.code, message: error.message });
        // Who dropped the other end does not want to know.
        let _ = asked.answer.send(answer);
    }

    /// A connection is over, and whatever was asked over it.
    pub(super) fn unasked(&mut self, conn: ConnId) {
        if !defect!(ReverseOutlivesTransport) {
            self.give_up(|asked| asked.conn == conn, &Unanswered::Lost);
        }
    }

    /// What took too long, or nobody waits for any more: the turn that asked was stopped.
    pub(super) fn give_up_asking(&mut self, now: Instant) {
        self.give_up(|asked| asked.until <= now || asked.answer.is_closed(), &Unanswered::Late);
    }

    fn give_up(&mut self, over: impl Fn(&Reverse) -> bool, why: &Unanswered) {
        let given_up = self
            .reverse
            .iter()
            .filter(|(_, asked)| over(asked))
            .map(|(id, _)| *id)
            .collect::<Vec<_>>();
        for id in given_up {
            if let Some(asked) = self.reverse.remove(&id) {
                // Who dropped the other end does not want to know.
                let _ = asked.answer.send(Err(why.clone()));
            }
        }
    }
}
