//! One client of the broker: its requests, and its outbox.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use reknit_jsonrpc::RequestId;
use reknit_seams::defect;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::outside::CutReason;
use crate::wire::method;

/// The bytes that a request takes without its texts, so that requests without content count, too.
const REQUEST_BYTES: usize = 128;

/// A request of a client.
#[derive(Debug)]
pub(super) struct Asked {
    pub id: RequestId,
    pub method: String,
    pub params: Option<Box<RawValue>>,
}

impl Asked {
    /// Whether it interrupts a turn.
    pub fn is_interrupt(&self) -> bool {
        self.method == method::TURN_INTERRUPT
    }

    /// Returns the bytes that the request takes until it is answered.
    pub fn weight(&self) -> usize {
        let id = match &self.id {
            RequestId::Number(_) => 0,
            // The bug: a client may fill the memory of the broker with its ids.
            RequestId::Text(_) if defect!(IdsWeighNothing) => 0,
            RequestId::Text(text) => text.len(),
        };
        let params = self.params.as_ref().map_or(0, |params| params.get().len());
        REQUEST_BYTES + id + self.method.len() + params
    }
}

/// A connected client.
pub(super) struct Client {
    /// Wakes the task of its connection.
    pub wake: Arc<Notify>,
    outbox: VecDeque<String>,
    outbox_bytes: usize,
    /// Requests that wait until the app-server is initialized.
    pub early: Vec<Asked>,
    /// Until when the client is admitted before others, because it has started a thread.
    pub reserved: Option<Instant>,
    /// When the last message of the client arrived, or the last message for it was queued.
    pub active: Instant,
    /// Why the broker closes the connection. Nothing new is sent any more.
    pub cut: Option<CutReason>,
}

impl Client {
    pub fn new(wake: Arc<Notify>, now: Instant) -> Self {
        let (outbox, early) = (VecDeque::new(), Vec::new());
        Self { wake, outbox, outbox_bytes: 0, early, reserved: None, active: now, cut: None }
    }

    /// Returns when the client has been silent for too long, unless its connection ends anyway.
    pub fn idle_at(&self, most: Duration) -> Option<Instant> {
        self.cut.is_none().then(|| self.active + most)
    }

    /// Appends a message; returns whether the outbox is within its limit of `most` bytes.
    pub fn push(&mut self, text: String, most: usize, now: Instant) -> bool {
        if self.cut.is_some() {
            return true;
        }
        if !defect!(AnswersAreNoActivity) {
            self.active = now;
        }
        self.outbox_bytes += text.len();
        self.outbox.push_back(text);
        self.wake.notify_one();
        self.outbox_bytes <= most
    }

    pub fn outbox_bytes(&self) -> usize {
        self.outbox_bytes
    }

    pub fn pull(&mut self) -> Option<String> {
        let text = self.outbox.pop_front()?;
        // The bug: what the client has got counts against its limit, too.
        if !defect!(SentBytesStayCounted) {
            self.outbox_bytes -= text.len();
        }
        Some(text)
    }

    /// Ends the connection. A slow client does not get the rest of its messages.
    pub fn cut(&mut self, reason: CutReason) {
        if reason == CutReason::Slow {
            self.outbox.clear();
            self.outbox_bytes = 0;
        }
        self.cut.get_or_insert(reason);
        self.early.clear();
        self.reserved = None;
        self.wake.notify_one();
    }

    /// Returns why the connection ends, once its last message was pulled.
    pub fn over(&self) -> Option<CutReason> {
        self.cut.filter(|_| self.outbox.is_empty())
    }
}
