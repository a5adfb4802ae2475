//! The messages that users write: where each ends, and when it was delivered.

use crate::history::{ConnIndex, EventKind, Side};
use crate::subject::{Dissector, Message};
use crate::world::options::Detail;
use crate::world::thread;

use super::SimNet;
use super::conns::MessageSent;

impl SimNet {
    /// Counts bytes that the user of an end wrote. Returns what has read the direction before.
    pub fn wrote(
        &mut self,
        conn: ConnIndex,
        from: Side,
        bytes: usize,
    ) -> Option<Box<dyn Dissector>> {
        let direction = self.conns.get_mut(conn).from(from);
        direction.written += bytes as u64;
        direction.dissector.take()
    }

    /// Stores the messages that a dissector found.
    pub fn read(
        &mut self,
        conn: ConnIndex,
        from: Side,
        dissector: Box<dyn Dissector>,
        found: Vec<Message>,
    ) {
        let host = self.conns.get(conn).host(from);
        let direction = self.conns.get_mut(conn).from(from);
        direction.dissector = Some(dissector);
        direction
            .messages
            .extend(found.iter().map(|message| MessageSent { end: message.end, delivered: None }));
        if self.settings.detail == Detail::Full {
            for message in found {
                let what = EventKind::Message {
                    conn,
                    from,
                    label: message.label.text(),
                    end: message.end,
                    delivered: None,
                };
                thread::note_on(host, thread::Noted::Entry(what));
            }
        }
    }
}
