//! Records of segments and messages: for the digest, for detailed histories, and for faults that
//! count messages.

use crate::history::{ConnIndex, EventKind, Fate, Flags, Side, Time};
use crate::net::ConnId;
use crate::subject::{Dissector, Message};

use super::Detail;
use super::conns::MessageSent;
use super::link::Segment;
use super::local;
use super::state::World;

/// Handles bytes that the user of an end wrote. If the run counts messages, finds the ends of the
/// messages. The dissector is code of the subject, so it is called while the world is not borrowed.
pub(super) fn wrote(conn: ConnIndex, from: Side, bytes: &[u8]) {
    let reading = local::with(|world| {
        let direction = world.conns.get_mut(conn).from(from);
        direction.written += bytes.len() as u64;
        world.dissects.then(|| (direction.dissector.take(), world.subject.clone()))
    });
    let Some((dissector, subject)) = reading else { return };
    let mut dissector = dissector.unwrap_or_else(|| subject.dissector(from));
    let found = dissector.feed(bytes);
    local::with(|world| world.read(conn, from, dissector, found));
}

impl World {
    /// Stores the messages that a dissector found.
    fn read(
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
        if self.options.detail == Detail::Full {
            for message in found {
                let what = EventKind::Message {
                    conn,
                    from,
                    label: message.label.text(),
                    end: message.end,
                    delivered: None,
                };
                local::note_on(host, local::Noted::Entry(what));
            }
        }
    }

    /// Returns the connection with a number that product code uses.
    pub(super) fn index_of(&self, id: ConnId) -> Option<ConnIndex> {
        let index = usize::try_from(id.0).ok()?.checked_sub(1)?;
        (index < self.history.conns.len()).then_some(ConnIndex(index))
    }

    pub(super) fn digest_packet(&mut self, now: Time, segment: Segment, seq: u32) {
        let Flags { syn, ack, fin, rst } = segment.flags;
        let bits = [syn, ack, fin, rst]
            .iter()
            .fold(segment.from as u64, |bits, flag| bits << 1 | u64::from(*flag));
        self.history.packets += 1;
        let chain = &mut self.history.digest;
        chain.number(now.0 << 8 | bits);
        chain.number((segment.conn.0 as u64) << 32 | u64::from(seq));
        chain.number(segment.len as u64);
    }

    pub(super) fn record_packet(&mut self, segment: Segment, seq: u32, fate: Fate) {
        if self.options.detail != Detail::Full {
            return;
        }
        let base = self.conns.get(segment.conn).directions[segment.from as usize].base;
        let offset = if segment.flags.syn || segment.flags.rst {
            0
        } else {
            u64::from(seq.wrapping_sub(base))
        };
        let Segment { conn, from, flags, len, .. } = segment;
        let packet = crate::history::Packet { conn, from, flags, offset, len: len as u32, fate };
        let host = self.conns.get(conn).host(from);
        self.record(Some(host), EventKind::Packet(packet));
    }
}
