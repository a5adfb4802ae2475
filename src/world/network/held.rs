//! The segments of a direction that faults hold.

use turmoil_net::TcpSegment;

use super::acks::is_bare_ack;

/// The segments of a direction that faults hold, in the order in which they were held.
#[derive(Default)]
pub(in crate::world) struct HeldSegments(Vec<TcpSegment>);

impl HeldSegments {
    /// Holds one more segment.
    pub fn push(&mut self, tcp: TcpSegment) {
        self.0.push(tcp);
    }

    /// Drops the held acknowledgements.
    pub fn forget_acks(&mut self) {
        self.0.retain(|tcp| !is_bare_ack(tcp));
    }

    /// Returns the segment that the receiver misses first: among the segments that must stay in
    /// order, the one with the lowest sequence number from `base` on. If there are none, considers
    /// all segments.
    ///
    /// A segment in flight is held at its arrival time, so a segment that left after it may have
    /// been held before it.
    pub fn lowest(&self, base: u32, in_order: impl Fn(&TcpSegment) -> bool) -> Option<&TcpSegment> {
        self.0.iter().min_by_key(|tcp| (!in_order(tcp), begins(tcp, base)))
    }

    /// Returns the number of held payload bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|tcp| tcp.payload.len()).sum()
    }

    /// Returns whether an RST is held.
    pub fn has_reset(&self) -> bool {
        self.0.iter().any(|tcp| tcp.flags.rst)
    }

    /// Drops everything that is held.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes out all segments.
    pub fn take(&mut self) -> Vec<TcpSegment> {
        std::mem::take(&mut self.0)
    }
}

/// Sorts segments of one direction by sequence number, starting at `base`. For equal sequence numbers,
/// acknowledgements come first.
pub(super) fn sort_by_sequence<T>(segments: &mut [(T, TcpSegment)], base: u32) {
    segments.sort_by_key(|(_, tcp)| (begins(tcp, base), !is_bare_ack(tcp)));
}

/// The position of a segment in its direction, whose first payload byte has the number `base`. A SYN
/// is at 0.
fn begins(tcp: &TcpSegment, base: u32) -> u32 {
    tcp.seq.wrapping_sub(base).wrapping_add(1)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a segment with an acknowledgement.
    pub(in crate::world::network) fn segment(seq: u32, payload: &'static str) -> TcpSegment {
        let flags = turmoil_net::TcpFlags { ack: true, ..Default::default() };
        TcpSegment {
            src_port: 1,
            dst_port: 2,
            seq,
            ack: 7,
            flags,
            window: 9,
            payload: payload.as_bytes().into(),
        }
    }

    #[test]
    fn the_lowest_segment_is_missed_first_regardless_of_when_it_was_held() {
        let lowest = |base, segments: &[TcpSegment]| {
            let mut held = HeldSegments::default();
            segments.iter().for_each(|tcp| held.push(tcp.clone()));
            held.lowest(base, |tcp| !is_bare_ack(tcp)).map(|tcp| tcp.seq)
        };
        assert_eq!(lowest(5, &[]), None);
        assert_eq!(lowest(5, &[segment(14, "ef"), segment(10, "ab"), segment(12, "cd")]), Some(10));
        assert_eq!(
            lowest(u32::MAX, &[segment(1, "cd"), segment(u32::MAX, "ab")]),
            Some(u32::MAX),
            "numbers wrap"
        );
        assert_eq!(
            lowest(5, &[segment(8, ""), segment(10, "ab")]),
            Some(10),
            "an acknowledgement is not sent again"
        );
        assert_eq!(lowest(5, &[segment(8, "")]), Some(8));
    }

    #[test]
    fn acknowledgements_are_forgotten_and_data_is_kept() {
        let mut held = HeldSegments::default();
        for tcp in [segment(10, "ab"), segment(12, ""), segment(12, "c")] {
            held.push(tcp);
        }
        held.forget_acks();
        assert_eq!((held.bytes(), held.take().len()), (3, 2));
    }

    #[test]
    fn segments_are_sorted_by_sequence_with_acknowledgements_first() {
        let mut reset = segment(103, "");
        reset.flags.rst = true;
        let mut segments = vec![
            (1, segment(107, "hi")),
            (2, segment(103, "cd")),
            (3, reset),
            (4, segment(u32::MAX, "a")),
            (5, segment(103, "")),
        ];
        sort_by_sequence(&mut segments, u32::MAX);
        assert_eq!(segments.into_iter().map(|(n, _)| n).collect::<Vec<_>>(), [4, 5, 2, 3, 1]);
    }
}
