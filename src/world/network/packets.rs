//! Records of segments: for the digest and for detailed histories.

use crate::history::{EventKind, Fate, Flags, Time};
use crate::world::options::Detail;

use super::SimNet;
use super::link::Segment;

impl SimNet {
    pub fn digest_packet(&mut self, now: Time, segment: Segment, seq: u32) {
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

    pub fn record_packet(&mut self, segment: Segment, seq: u32, fate: Fate) {
        if self.settings.detail != Detail::Full {
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
