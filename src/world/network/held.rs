//! The segments of a direction that faults hold, stored as batches. A stall can hold tens of
//! thousands of small segments.

use bytes::BytesMut;
use turmoil_net::TcpSegment;

use super::acks::is_bare_ack;
use super::batch::SegmentBatch;

/// How many of the newest batches a segment may join. There can be three: segments held at arrival,
/// segments held at departure, and an acknowledgement after them.
const MAY_GROW: usize = 3;

/// The segments of a direction that faults hold, ordered by when the first segment of each batch
/// was held.
#[derive(Default)]
pub(in crate::world) struct HeldSegments(Vec<Joining>);

impl HeldSegments {
    /// Holds one more segment, which may join the segments before it. It does not join a batch that is followed by an RST, because the RST
    /// has the sequence number of the sender's next data.
    pub fn push(&mut self, tcp: TcpSegment, joins: bool) {
        let newest =
            self.0.iter_mut().rev().take(MAY_GROW).take_while(|batch| !batch.first.flags.rst);
        if !joins || !newest.into_iter().any(|batch| batch.join(&tcp)) {
            self.0.push(Joining { first: tcp, joined: BytesMut::new() });
        }
    }

    /// Drops the held acknowledgements.
    pub fn forget_acks(&mut self) {
        self.0.retain(|batch| !is_bare_ack(&batch.first));
    }

    /// Returns the segment that the receiver misses first: among the segments that must stay in
    /// order, the one with the lowest sequence number from `base` on. If there are none, considers
    /// all segments.
    ///
    /// A segment in flight is held at its arrival time, so a segment that left after it may have
    /// been held before it.
    pub fn lowest(&self, base: u32, in_order: impl Fn(&TcpSegment) -> bool) -> Option<&TcpSegment> {
        let begins = |tcp: &TcpSegment| tcp.seq.wrapping_sub(base).wrapping_add(1); // a SYN is at 0, before the first byte
        self.0
            .iter()
            .map(|batch| &batch.first)
            .min_by_key(|first| (!in_order(first), begins(first)))
    }

    /// Returns the number of held payload bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(Joining::bytes).sum()
    }

    /// Returns whether an RST is held.
    pub fn has_reset(&self) -> bool {
        self.0.iter().any(|batch| batch.first.flags.rst)
    }

    /// Drops everything that is held.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes out all batches.
    pub fn take(&mut self) -> impl Iterator<Item = SegmentBatch> + use<> {
        std::mem::take(&mut self.0).into_iter().map(Joining::closed)
    }
}

/// A batch that can still grow.
struct Joining {
    first: TcpSegment,
    joined: BytesMut,
}

impl Joining {
    fn bytes(&self) -> usize {
        self.first.payload.len() + self.joined.len()
    }

    /// Appends a segment if it follows the last one and has the same header as the first. A FIN
    /// stays alone. Returns whether the segment was appended.
    fn join(&mut self, next: &TcpSegment) -> bool {
        let (each, len) = (self.first.payload.len(), next.payload.len());
        let follows = next.seq == self.first.seq.wrapping_add(self.bytes() as u32);
        let alike = (next.ack, next.window, next.flags)
            == (self.first.ack, self.first.window, self.first.flags);
        let fits =
            (1..=each).contains(&len) && self.joined.len().is_multiple_of(each) && !next.flags.fin;
        let joins = follows && alike && fits;
        if joins {
            self.joined.extend_from_slice(&next.payload);
        }
        joins
    }

    fn closed(self) -> SegmentBatch {
        let Self { first, joined } = self;
        let each = first.payload.len();
        if joined.is_empty() {
            return SegmentBatch::alone(first);
        }
        let mut payload = BytesMut::with_capacity(each + joined.len());
        payload.extend_from_slice(&first.payload);
        payload.extend_from_slice(&joined);
        SegmentBatch::cut(TcpSegment { payload: payload.freeze(), ..first }, each)
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::tests::segment;
    use super::*;

    fn with(mut tcp: TcpSegment, change: impl Fn(&mut TcpSegment)) -> TcpSegment {
        change(&mut tcp);
        tcp
    }

    /// Holds these segments, and returns the resulting batches, each as a list of its segments.
    fn held(segments: impl IntoIterator<Item = TcpSegment>) -> Vec<Vec<(u32, String)>> {
        let mut held = HeldSegments::default();
        segments.into_iter().for_each(|tcp| held.push(tcp, true));
        let describe =
            |tcp: TcpSegment| (tcp.seq, String::from_utf8_lossy(&tcp.payload).into_owned());
        held.take().map(|batch| batch.map(describe).collect()).collect()
    }

    #[test]
    fn consecutive_segments_join_and_are_taken_out_unchanged() {
        let batches =
            held([segment(u32::MAX, "ab"), segment(1, "cd"), segment(3, "e"), segment(4, "fg")]);
        assert_eq!(batches[0], [(u32::MAX, "ab".into()), (1, "cd".into()), (3, "e".into())]);
        assert_eq!(batches[1], [(4, "fg".into())], "nothing joins behind a shorter one");
        assert_eq!(batches.len(), 2);
    }

    #[test]
    fn segments_with_different_headers_do_not_join() {
        let next = || segment(12, "cd");
        let others = [
            segment(13, "cd"),
            segment(10, "ab"),
            segment(12, ""),
            segment(12, "cde"),
            with(next(), |tcp| tcp.flags.fin = true),
            with(next(), |tcp| tcp.ack = 8),
            with(next(), |tcp| tcp.window = 1),
        ];
        for other in others {
            assert_eq!(held([segment(10, "ab"), other.clone()]).len(), 2, "{other:?}");
        }
        assert_eq!(held([segment(10, "ab"), next()]).len(), 1);
        assert_eq!(held([segment(10, ""), segment(10, "")]).len(), 2, "acknowledgements");
        assert_eq!(
            held([with(segment(10, "ab"), |tcp| tcp.flags.fin = true), next()]).len(),
            2,
            "behind a FIN"
        );
    }

    /// Segments that come out of a slow link and segments that go into it are held alternately,
    /// with acknowledgements between them.
    #[test]
    fn two_batches_grow_at_once() {
        let turns = (0..100).flat_map(|n| [segment(n, "a"), segment(1_000 + n, "b")]);
        assert_eq!(held(turns.clone()).len(), 2);
        let mut held = HeldSegments::default();
        for tcp in turns {
            held.push(tcp, true);
            held.forget_acks();
            held.push(segment(5_000, ""), true);
        }
        assert_eq!((held.bytes(), held.take().count()), (200, 3));
    }

    #[test]
    fn the_lowest_segment_is_missed_first_regardless_of_when_it_was_held() {
        let lowest = |base, segments: &[TcpSegment]| {
            let mut held = HeldSegments::default();
            segments.iter().for_each(|tcp| held.push(tcp.clone(), true));
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
    fn nothing_joins_across_a_reset() {
        let reset = with(segment(12, ""), |tcp| tcp.flags.rst = true);
        assert_eq!(held([segment(10, "ab"), reset, segment(12, "cd"), segment(14, "ef")]).len(), 3);
    }
}
