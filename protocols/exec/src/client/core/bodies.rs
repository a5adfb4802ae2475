//! The HTTP bodies of the current connection.
//!
//! A body is added when its request is sent. Pieces that arrive before the answer are kept if there
//! is room. A body is removed when it ends, or when its reader is dropped; later pieces are
//! ignored. When the connection dies, all bodies in this table fail at once. A request that still
//! waits for a connection is not in this table and does not fail.

use std::collections::BTreeMap;

use reknit_seams::{defect, milestone};

use crate::client::Failure;
use crate::client::body::{self, BodySender};
use crate::wire::http::BodyDelta;

/// The bodies whose requests were sent and that have not ended.
#[derive(Default)]
pub(super) struct Bodies(BTreeMap<u64, OpenBody>);

struct OpenBody {
    feed: BodySender,
    /// The number of the next piece.
    next: u64,
    answered: bool,
}

impl Bodies {
    /// Returns the number of bodies.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a body whose request is being sent.
    pub(super) fn put(&mut self, feed: BodySender) {
        self.0.insert(feed.number(), OpenBody { feed, next: 1, answered: false });
    }

    /// Records the answer to the request; without success, the body is removed.
    pub(super) fn answered(&mut self, feed: &BodySender, is_there: bool) {
        if !is_there {
            self.forget(feed.number());
        } else if let Some(body) = self.0.get_mut(&feed.number()) {
            body.answered = true;
        }
    }

    /// Removes a body whose reader was dropped.
    pub(super) fn forget(&mut self, number: u64) {
        self.0.remove(&number);
    }

    /// Handles a piece. An invalid piece or a slow reader ends only that body.
    ///
    /// # Errors
    /// Only if a defect treats an error of the body as an error of the connection.
    pub(super) fn on_piece(&mut self, delta: BodyDelta) -> Result<(), Failure> {
        let Some(number) = body::number(&delta.request_id) else { return Ok(()) };
        let Some(body) = self.0.get_mut(&number) else { return Ok(()) };
        if !body.answered {
            milestone!("exec.client.body-early", body = number, seq = delta.seq);
            if defect!(EarlyPiecesDropped) {
                return Ok(());
            }
        }
        let is_over = match body.on_piece(delta) {
            Ok(is_over) => is_over,
            Err(Failure::BodyOverrun) if defect!(HttpSlowReaderEndsConnection) => {
                return Err(Failure::BodyOverrun);
            }
            Err(failure) => {
                milestone!("exec.client.body-failed", body = number, why = %failure);
                match failure {
                    Failure::BodyOverrun => body.feed.fail(failure),
                    failure => body.feed.end(Err(failure)),
                }
                true
            }
        };
        if is_over {
            self.0.remove(&number);
        }
        Ok(())
    }

    /// Fails all bodies because their connection is lost.
    pub(super) fn connection_lost(&mut self) {
        if defect!(HttpBodyWaitsForever) {
            return;
        }
        let failure =
            if defect!(HttpLossIsGap) { Failure::BodyGap } else { Failure::ConnectionLost };
        self.fail_all(&failure);
    }

    /// Fails all bodies at once.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        for (number, body) in std::mem::take(&mut self.0) {
            milestone!("exec.client.body-failed", body = number, why = %failure);
            body.feed.fail(failure.clone());
        }
    }
}

impl OpenBody {
    /// Takes a piece. Returns whether it was the last one.
    fn on_piece(&mut self, delta: BodyDelta) -> Result<bool, Failure> {
        if delta.seq != self.next && !defect!(BodyGapIgnored) {
            return Err(Failure::BodyGap);
        }
        self.next += 1;
        let is_error = delta.error.is_some() && defect!(ErrorDropsLastBytes);
        if !(is_error || delta.done && defect!(HttpLastPieceIgnored)) {
            self.feed.push(delta.delta_base64.0)?;
        }
        match delta.error {
            Some(error) => Err(Failure::BodyBroken(error)),
            None if delta.done => {
                self.feed.end(Ok(()));
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod edges;
#[cfg(test)]
mod tests;
