//! Segment batches: consecutive segments of one direction with equal headers.
//!
//! A slow link makes segments small, so tens of thousands of them can be in flight, or held, at
//! once. A batch stores the bytes of all its segments, and their common header once.

use std::collections::BTreeMap;

use turmoil_net::TcpSegment;

use super::acks::is_bare_ack;

/// Consecutive segments. The iterator takes them off the front one by one.
#[derive(Clone, Debug)]
pub(in crate::world) struct SegmentBatch {
    /// The remaining segments, joined into one.
    left: Option<TcpSegment>,
    /// The number of bytes per segment. The last segment may have fewer.
    each: usize,
}

impl SegmentBatch {
    /// Creates a batch of a single segment.
    pub fn alone(segment: TcpSegment) -> Self {
        Self::cut(segment, usize::MAX)
    }

    /// Creates a batch that cuts a segment into pieces of `each` bytes.
    pub fn cut(whole: TcpSegment, each: usize) -> Self {
        Self { left: Some(whole), each: each.max(1) }
    }

    /// Returns the remaining segments, joined into one.
    pub fn left(&self) -> Option<&TcpSegment> {
        self.left.as_ref()
    }

    /// Splits off everything after the first `many` segments, or returns `None` if there is nothing
    /// after them.
    pub fn split_off(&mut self, many: usize) -> Option<Self> {
        let first = self.left.as_mut()?;
        let at = self.each.saturating_mul(many);
        if at >= first.payload.len() {
            return None;
        }
        let mut rest = first.clone();
        rest.payload = first.payload.split_off(at);
        rest.seq = first.seq.wrapping_add(at as u32);
        first.flags.fin = false;
        Some(Self { left: Some(rest), each: self.each })
    }
}

impl Iterator for SegmentBatch {
    type Item = TcpSegment;

    fn next(&mut self) -> Option<TcpSegment> {
        let rest = self.split_off(1);
        std::mem::replace(&mut self.left, rest.and_then(|rest| rest.left))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let many =
            self.left.as_ref().map_or(0, |left| left.payload.len().div_ceil(self.each).max(1));
        (many, Some(many))
    }
}

impl ExactSizeIterator for SegmentBatch {}

/// Sorts batches of one direction in the order in which their segments would be sorted.
///
/// A batch comes with the number of its first segment, if it has one. The order is by sequence
/// number, starting at `base`. For equal sequence numbers, acknowledgements come first, and the
/// previous order is kept otherwise. A batch is split where another one begins inside it, because
/// an RST may have any sequence number.
pub(in crate::world) fn by_sequence(
    batches: Vec<(Option<u64>, SegmentBatch)>,
    base: u32,
) -> Vec<(Option<u64>, SegmentBatch)> {
    let begins = |tcp: &TcpSegment| tcp.seq.wrapping_sub(base).wrapping_add(1); // a SYN is at 0, before the first byte
    let place = |index, batch: &SegmentBatch| {
        batch.left().map(|tcp| (begins(tcp), !is_bare_ack(tcp), index))
    };
    let batches = batches.into_iter().enumerate();
    let mut left: BTreeMap<_, _> = batches
        .filter_map(|(index, (n, batch))| Some((place(index, &batch)?, (n, batch))))
        .collect();
    let mut sorted = Vec::with_capacity(left.len());
    while let Some(((begin, _, index), (n, mut batch))) = left.pop_first() {
        if let Some(((next, ..), _)) = left.first_key_value() {
            let before = ((next - begin) as usize).div_ceil(batch.each).max(1);
            let behind = batch.split_off(before);
            left.extend(behind.and_then(|rest| {
                Some((place(index, &rest)?, (n.map(|n| n + before as u64), rest)))
            }));
        }
        sorted.push((n, batch));
    }
    sorted
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

    /// Returns a segment with an acknowledgement and a FIN.
    pub(in crate::world::network) fn last(seq: u32, payload: &'static str) -> TcpSegment {
        let mut last = segment(seq, payload);
        last.flags.fin = true;
        last
    }

    fn describe(batch: SegmentBatch) -> Vec<(u32, String, bool)> {
        batch
            .map(|tcp| (tcp.seq, String::from_utf8_lossy(&tcp.payload).into_owned(), tcp.flags.fin))
            .collect()
    }

    #[test]
    fn a_segment_in_pieces() {
        let mut batch = SegmentBatch::cut(last(u32::MAX, "abcde"), 2);
        assert_eq!(batch.len(), 3);
        assert_eq!(
            describe(batch.clone()),
            [(u32::MAX, "ab".into(), false), (1, "cd".into(), false), (3, "e".into(), true)]
        );
        batch.next();
        assert_eq!(batch.left().map(|left| left.payload.len()), Some(3));
        assert_eq!(describe(SegmentBatch::cut(last(5, ""), 2)), [(5, String::new(), true)]);
        assert_eq!(SegmentBatch::alone(last(5, "")).len(), 1);
    }

    /// The order is by sequence number, as for single segments: a batch that begins inside another
    /// one splits it.
    #[test]
    fn sorted_by_sequence() {
        let mut reset = segment(103, "");
        reset.flags.rst = true;
        let batch = |seq, payload| (Some(7), SegmentBatch::cut(segment(seq, payload), 2));
        let alone = |tcp| (None, SegmentBatch::alone(tcp));
        let batches = vec![
            batch(107, "hi"),
            batch(101, "abcdef"),
            alone(reset),
            alone(segment(106, "")),
            alone(segment(103, "")),
        ];
        let sorted = by_sequence(batches, 101).into_iter();
        let segments: Vec<_> = sorted
            .flat_map(|(n, batch)| {
                describe(batch).into_iter().map(move |(seq, text, _)| (n, seq, text))
            })
            .collect();
        let expected = [
            (Some(7), 101, "ab"),
            (None, 103, ""),
            (Some(8), 103, "cd"),
            (None, 103, ""),
            (Some(9), 105, "ef"),
            (None, 106, ""),
            (Some(7), 107, "hi"),
        ];
        assert_eq!(segments, expected.map(|(n, seq, text)| (n, seq, text.to_owned())));
    }
}
