//! Converts the segments that wait on turmoil's held links to packets.
//!
//! The world identifies a segment by its ends and its sequence numbers. turmoil numbers segments,
//! so this module counts the bytes. turmoil does not mark new segments and does not let callers
//! identify one, so a list runs parallel to each link's queue. New segments are at the end of a
//! queue, and delivered segments are removed after the next tick.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ::turmoil::{Protocol, Segment, Sim};
use bytes::Bytes;
use turmoil_net::{Packet, TcpFlags, TcpSegment, Transport};

use crate::world::network::stack::DeliveryResult;

/// The path from one socket to another.
type Way = (SocketAddr, SocketAddr);

/// The segments that wait on all links.
#[derive(Default)]
pub(super) struct Links {
    /// The segments that wait on each link, in turmoil's order.
    queues: Vec<Vec<Waiting>>,
    /// The next sequence number of each path.
    next: BTreeMap<Way, u32>,
    /// Segments that were not yet reported to the world.
    pub new: Vec<Packet>,
    /// Whether any segment was marked for delivery since the last tick.
    marked: bool,
}

/// A segment on a link.
struct Waiting {
    way: Way,
    /// Its sequence number and the next one, or `None` if its bytes were taken back.
    range: Option<(u32, u32)>,
    rst: bool,
    payload: Bytes,
    /// Whether it will be delivered before the next tick.
    marked: bool,
}

impl Links {
    /// Delivers the marked segments to the receivers' kernels, for the next tick.
    pub fn deliver_marked(&mut self, sim: &Sim<'_>) {
        if !std::mem::take(&mut self.marked) {
            return;
        }
        sim.links(|links| {
            for (link, queue) in links.zip(&mut self.queues) {
                link.zip(queue.iter())
                    .filter(|(_, waiting)| waiting.marked)
                    .for_each(|(sent, _)| sent.deliver());
                queue.retain(|waiting| !waiting.marked);
            }
        });
    }

    /// Collects the segments that the last tick sent.
    pub fn collect(&mut self, sim: &Sim<'_>) {
        let Self { queues, next, new, .. } = self;
        sim.links(|links| {
            for (n, link) in links.enumerate() {
                if queues.len() == n {
                    queues.push(Vec::new());
                }
                let seen = queues[n].len();
                for sent in link.skip(seen) {
                    let way = sent.pair();
                    let segment = report(sent.protocol(), way, next);
                    let occupied = segment.payload.len() as u32
                        + u32::from(segment.flags.syn)
                        + u32::from(segment.flags.fin);
                    let (end, rst) = (segment.seq.wrapping_add(occupied), segment.flags.rst);
                    next.insert(way, end);
                    let range = Some((segment.seq, end));
                    queues[n].push(Waiting {
                        way,
                        range,
                        rst,
                        payload: segment.payload.clone(),
                        marked: false,
                    });
                    new.push(Packet {
                        src: way.0.ip(),
                        dst: way.1.ip(),
                        ttl: 64,
                        payload: Transport::Tcp(segment),
                    });
                }
            }
        });
    }

    /// Marks a segment for delivery. If the world merged several segments into it, marks these.
    pub fn mark(&mut self, packet: &Packet) -> DeliveryResult {
        let Transport::Tcp(tcp) = &packet.payload else { return DeliveryResult::Taken };
        let way =
            (SocketAddr::new(packet.src, tcp.src_port), SocketAddr::new(packet.dst, tcp.dst_port));
        let occupied =
            tcp.payload.len() as u32 + u32::from(tcp.flags.syn) + u32::from(tcp.flags.fin);
        let end = tcp.seq.wrapping_add(occupied);
        let is_part = |waiting: &&mut Waiting| {
            let within = |(from, to): (u32, u32)| {
                from.wrapping_sub(tcp.seq) <= occupied && end.wrapping_sub(to) <= occupied
            };
            waiting.way == way
                && !waiting.marked
                && waiting.rst == tcp.flags.rst
                && waiting.range.is_some_and(within)
        };
        let mut parts: Vec<_> = self.all().filter(is_part).collect();
        if parts.is_empty()
            || parts.iter().map(|part| part.payload.len()).sum::<usize>() != tcp.payload.len()
        {
            // The segment was shortened on its way.
            return DeliveryResult::Part(tcp.payload.clone());
        }
        parts.iter_mut().for_each(|part| part.marked = true);
        self.marked = true;
        DeliveryResult::Taken
    }

    /// Keeps the marked but undelivered segments on their link, and returns their bytes.
    pub fn take_back(&mut self, from: SocketAddr, to: SocketAddr) -> Vec<Bytes> {
        let marked = self.all().filter(|waiting| waiting.marked && waiting.way == (from, to));
        marked
            .map(|waiting| {
                (waiting.marked, waiting.range) = (false, None);
                waiting.payload.clone()
            })
            .collect()
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Waiting> {
        self.queues.iter_mut().flatten()
    }
}

/// Converts a segment of turmoil to a packet of the event engine.
fn report(sent: &Protocol, (src, dst): Way, next: &mut BTreeMap<Way, u32>) -> TcpSegment {
    let none = TcpFlags { ack: true, ..TcpFlags::default() };
    let (flags, payload) = match sent {
        Protocol::Tcp(Segment::Syn(_)) => {
            (TcpFlags { syn: true, ..TcpFlags::default() }, Bytes::new())
        }
        Protocol::Tcp(Segment::Data(_, bytes)) => (none, bytes.clone()),
        Protocol::Tcp(Segment::Fin(_)) => (TcpFlags { fin: true, ..none }, Bytes::new()),
        Protocol::Tcp(Segment::Rst) | Protocol::Udp(_) => {
            (TcpFlags { rst: true, ..none }, Bytes::new())
        }
    };
    if flags.syn {
        // A reused port starts again at sequence number 0.
        next.remove(&(src, dst));
        next.remove(&(dst, src));
    }
    let seq = next.get(&(src, dst)).copied().unwrap_or(0);
    TcpSegment {
        src_port: src.port(),
        dst_port: dst.port(),
        seq,
        ack: 0,
        flags,
        window: u16::MAX,
        payload,
    }
}
