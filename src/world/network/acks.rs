//! Rules for acknowledgements: which ones can be dropped.

use rustc_hash::FxHashMap;
use turmoil_net::{Packet, TcpSegment, Transport};

/// Returns whether a segment is a bare acknowledgement: an ACK without payload, SYN, FIN or RST.
pub(in crate::world) fn is_bare_ack(tcp: &TcpSegment) -> bool {
    tcp.payload.is_empty() && !tcp.flags.syn && !tcp.flags.fin && !tcp.flags.rst
}

/// The number of bare acknowledgements of one end above which [`keep_last_ack`] merges them. A window
/// holds fewer segments of the usual size.
pub(in crate::world) const MOST_ACKS: usize = 64;

/// Keeps only the last acknowledgement if more than [`MOST_ACKS`] leave an end together.
///
/// A kernel acknowledges every segment. A slow link makes segments small, so thousands can arrive
/// at the same moment. The last acknowledgement then covers all of them.
pub(in crate::world) fn keep_last_ack(packets: &mut Vec<Packet>) {
    let end = |packet: &Packet| match &packet.payload {
        Transport::Tcp(tcp) if is_bare_ack(tcp) => {
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

    /// 65 acknowledgements of one end are reduced to one. 64 acknowledgements stay as they are, and
    /// so does data.
    #[test]
    fn the_last_of_too_many_acknowledgements_is_kept() {
        let many = MOST_ACKS as u32;
        let mut packets: Vec<_> =
            (0..=many).flat_map(|n| [packet(1, n, b""), packet(2, n, b"")]).collect();
        packets.pop();
        packets.insert(3, packet(1, 1, b"data"));
        keep_last_ack(&mut packets);
        let (mut first, second): (Vec<_>, Vec<_>) =
            acks(&packets).into_iter().partition(|(port, _)| *port == 1);
        assert_eq!(second, (0..many).map(|n| (2, n)).collect::<Vec<_>>());
        first.sort_unstable();
        assert_eq!(first, [(1, 1), (1, many)]);
    }
}
