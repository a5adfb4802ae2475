//! The HTTP bodies that come over the connection that there is.
//!
//! A body is here from the moment in which its request goes out: pieces that come before the answer are kept, as far as there is
//! room. It goes when it ends, or when nobody reads it any more; what comes for it then is for nobody. When the connection dies,
//! all that are here fail at once, and only those: a request that still waits for a connection has lost nothing.

use std::collections::BTreeMap;

use reknit_seams::{defect, milestone};

use crate::client::Failure;
use crate::client::body::{self, Feed};
use crate::wire::http::BodyDelta;

/// Those whose requests were sent, and that have not ended.
#[derive(Default)]
pub(super) struct Bodies(BTreeMap<u64, Live>);

struct Live {
    feed: Feed,
    /// The number of the piece that comes next.
    next: u64,
    answered: bool,
}

impl Bodies {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Its request goes out.
    pub(super) fn put(&mut self, feed: Feed) {
        self.0.insert(feed.number(), Live { feed, next: 1, answered: false });
    }

    /// Its request was answered: the pieces may come, or there will be none.
    pub(super) fn answered(&mut self, feed: &Feed, is_there: bool) {
        if !is_there {
            self.forget(feed.number());
        } else if let Some(live) = self.0.get_mut(&feed.number()) {
            live.answered = true;
        }
    }

    /// Nobody reads it any more.
    pub(super) fn forget(&mut self, number: u64) {
        self.0.remove(&number);
    }

    /// A piece came. What is wrong with it, or with its reader, is the end of its body, and of nothing else.
    ///
    /// # Errors
    /// None but those that a defect takes for errors of the connection.
    pub(super) fn hear(&mut self, delta: BodyDelta) -> Result<(), Failure> {
        let Some(number) = body::number(&delta.request_id) else { return Ok(()) };
        let Some(live) = self.0.get_mut(&number) else { return Ok(()) };
        if !live.answered {
            milestone!("exec.client.body-early", body = number, seq = delta.seq);
        }
        let is_over = match live.hear(delta) {
            Ok(is_over) => is_over,
            Err(Failure::BodyOverrun) if defect!(HttpSlowReaderEndsConnection) => {
                return Err(Failure::BodyOverrun);
            }
            Err(failure) => {
                milestone!("exec.client.body-failed", body = number, why = %failure);
                match failure {
                    Failure::BodyOverrun => live.feed.fail(failure),
                    failure => live.feed.end(Err(failure)),
                }
                true
            }
        };
        if is_over {
            self.0.remove(&number);
        }
        Ok(())
    }

    /// The connection is gone, and with it all of them.
    pub(super) fn connection_lost(&mut self) {
        if defect!(HttpBodyWaitsForEver) {
            return;
        }
        let failure =
            if defect!(HttpLossIsGap) { Failure::BodyGap } else { Failure::ConnectionLost };
        self.fail_all(&failure);
    }

    /// All fail at once.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        for (number, live) in std::mem::take(&mut self.0) {
            milestone!("exec.client.body-failed", body = number, why = %failure);
            live.feed.fail(failure.clone());
        }
    }
}

impl Live {
    /// Takes a piece. Says whether it was the last one.
    fn hear(&mut self, delta: BodyDelta) -> Result<bool, Failure> {
        if delta.seq != self.next {
            return Err(Failure::BodyGap);
        }
        self.next += 1;
        if !(delta.done && defect!(HttpLastPieceIgnored)) {
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
