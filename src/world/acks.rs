//! Acknowledgements: what may be left out of them, and what an old one says.

use rustc_hash::FxHashMap;
use turmoil_net::{Packet, TcpSegment, Transport};

use super::conns::Direction;

/// Whether a segment only acknowledges.
pub(super) fn bare(tcp: &TcpSegment) -> bool {
    tcp.payload.is_empty() && !tcp.flags.syn && !tcp.flags.fin && !tcp.flags.rst
}

/// An acknowledgement that was overtaken by a newer one says what the newer one said.
pub(super) fn freshen(direction: &mut Direction, n: u64, tcp: &mut TcpSegment) {
    if !tcp.flags.ack {
        return;
    }
    match direction.seen_ack {
        Some((newest, ack, window)) if newest > n => (tcp.ack, tcp.window) = (ack, window),
        _ => direction.seen_ack = Some((n, tcp.ack, tcp.window)),
    }
}

/// More segments of the usual size than this do not fit into a window.
pub(super) const MOST_ACKS: usize = 64;

/// A kernel acknowledges every segment. Where a slow link makes them small, and thousands come in one moment, one acknowledgement says what
/// all say; so of more than [`MOST_ACKS`] that leave an end together the last is kept.
pub(super) fn thin_out(packets: &mut Vec<Packet>) {
    let end = |packet: &Packet| match &packet.payload {
        Transport::Tcp(tcp) if bare(tcp) => {
            Some((packet.src, tcp.src_port, packet.dst, tcp.dst_port))
        }
        _ => None,
    };
    let mut left: FxHashMap<_, usize> = FxHashMap::default();
    packets.iter().filter_map(end).for_each(|end| *left.entry(end).or_default() += 1);
    left.retain(|_, many| *many > MOST_ACKS);
    packets.retain(|packet| match end(packet).and_then(|end| left.get_mut(&end)) {
        Some(left) => {
            *left -= 1;
            *left == 0
        }
        None => true,
    });
}

#[cfg(test)]
mod tests {
    use turmoil_net::TcpFlags;

    use super::*;

    fn packet(port: u16, ack: u32, payload: &'static [u8]) -> Packet {
        let flags = TcpFlags { ack: true, ..TcpFlags::default() };
        let tcp = TcpSegment {
            src_port: port,
            dst_port: 80,
            seq: 1,
            ack,
            flags,
            window: 9,
            payload: payload.into(),
        };
        let ip = std::net::Ipv4Addr::LOCALHOST.into();
        Packet { src: ip, dst: ip, ttl: 64, payload: Transport::Tcp(tcp) }
    }

    fn acks(packets: &[Packet]) -> Vec<(u16, u32)> {
        packets
            .iter()
            .filter_map(|packet| match &packet.payload {
                Transport::Tcp(tcp) => Some((tcp.src_port, tcp.ack)),
                Transport::Udp(_) => None,
            })
            .collect()
    }

    /// An end that acknowledges 65 segments at once does so once; one that acknowledges 64 is left alone, and so is data.
    #[test]
    fn of_too_many_acknowledgements_the_last_is_kept() {
        let many = MOST_ACKS as u32;
        let mut packets: Vec<_> =
            (0..=many).flat_map(|n| [packet(1, n, b""), packet(2, n, b"")]).collect();
        packets.pop();
        packets.insert(3, packet(1, 1, b"data"));
        thin_out(&mut packets);
        let (mut first, second): (Vec<_>, Vec<_>) =
            acks(&packets).into_iter().partition(|(port, _)| *port == 1);
        assert_eq!(second, (0..many).map(|n| (2, n)).collect::<Vec<_>>());
        first.sort_unstable();
        assert_eq!(first, [(1, 1), (1, many)]);
    }
}
