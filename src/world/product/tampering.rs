//! Changes the messages that a host receives, for the fault `tamper`. It sits between the socket and
//! its user, so packets, windows and cuts are those of the messages that the peer wrote.

use std::io;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use tokio::io::ReadBuf;

use crate::history::{ConnIndex, Side};
use crate::subject::{Dissector, DynSubject, Label};
use crate::world::local;

/// The bytes of one direction of a connection, between the socket and its user.
pub(super) struct TamperedBytes {
    conn: ConnIndex,
    /// The end that wrote the bytes.
    from: Side,
    subject: Arc<dyn DynSubject>,
    dissector: Box<dyn Dissector>,
    /// The number of bytes that the socket has delivered.
    received: u64,
    /// The part of the current message that has arrived.
    message: Arriving,
    /// Bytes for the user.
    ready: BytesMut,
    /// The end of the bytes, until the user has read it: an end of stream or an error.
    end: Option<io::Result<()>>,
}

/// The part of a message that has arrived.
enum Arriving {
    /// Nothing.
    Empty,
    /// A part that the user gets at once, because no fault was in force when the message began.
    Passed,
    /// A part that waits for the rest.
    Held(Vec<u8>),
}

impl TamperedBytes {
    pub(super) fn new(conn: ConnIndex, from: Side) -> Self {
        let subject = local::with(|world| world.subject.clone());
        let dissector = subject.tampered_messages(from);
        let (message, ready, end) = (Arriving::Empty, BytesMut::new(), None);
        Self { conn, from, subject, dissector, received: 0, message, ready, end }
    }

    /// Whether the user has not read all bytes that the socket has delivered.
    pub(super) fn has_unread(&self) -> bool {
        !self.ready.is_empty() || matches!(self.message, Arriving::Held(_))
    }

    /// Passes bytes to the user. Returns whether there were any.
    pub(super) fn read(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        self.release();
        let n = self.ready.len().min(buf.remaining());
        buf.put_slice(&self.ready[..n]);
        self.ready.advance(n);
        n > 0
    }

    /// Processes bytes from the socket.
    pub(super) fn receive(&mut self, mut bytes: &[u8]) {
        for message in self.dissector.feed(bytes) {
            let (part, rest) = bytes.split_at((message.end - self.received) as usize);
            self.part(part);
            self.message_ends(message.label);
            bytes = rest;
        }
        self.part(bytes);
    }

    /// Processes the end of the bytes. Before it, the user reads the message that never ended.
    pub(super) fn ends(&mut self, end: io::Result<()>) {
        self.pass();
        self.end = Some(end);
    }

    /// Returns the end of the bytes once, after all bytes.
    pub(super) fn take_end(&mut self) -> Option<io::Result<()>> {
        self.end.take()
    }

    /// Passes the held part of a message to the user if no fault is in force any more. Its rest may never
    /// come.
    fn release(&mut self) {
        if matches!(self.message, Arriving::Held(_)) && !self.is_touched() {
            self.pass();
        }
    }

    /// Passes the held part of the current message to the user.
    fn pass(&mut self) {
        if let Arriving::Held(message) = &mut self.message {
            self.ready.extend(std::mem::take(message));
            self.message = Arriving::Passed;
        }
    }

    /// Whether a fault may change messages now.
    fn is_touched(&self) -> bool {
        local::with(|world| !world.net.tampering(self.conn, self.from).is_empty())
    }

    /// Processes a part of the current message.
    fn part(&mut self, part: &[u8]) {
        self.received += part.len() as u64;
        if matches!(self.message, Arriving::Empty) && !part.is_empty() {
            let is_held = self.is_touched();
            self.message = if is_held { Arriving::Held(Vec::new()) } else { Arriving::Passed };
        }
        match &mut self.message {
            Arriving::Held(message) => message.extend_from_slice(part),
            Arriving::Passed | Arriving::Empty => self.ready.extend_from_slice(part),
        }
    }

    /// Changes the current message, if a fault in force does so.
    fn message_ends(&mut self, label: Label) {
        let Arriving::Held(message) = std::mem::replace(&mut self.message, Arriving::Empty) else {
            return;
        };
        let faults = local::with(|world| world.net.tampering(self.conn, self.from));
        let changed = faults.into_iter().find_map(|(fault, how)| {
            self.subject.tamper(self.from, how, &message).map(|changed| (fault, changed))
        });
        let Some((fault, changed)) = changed else {
            self.ready.extend(message);
            return;
        };
        self.ready.extend(changed);
        let (conn, from) = (self.conn, self.from);
        local::with(|world| world.net.note_tampered(fault, conn, from, label.text()));
    }
}
