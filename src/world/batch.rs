//! Trains of segments: what follows each other in one direction, and is alike.
//!
//! Where a slow link makes segments small, tens of thousands of them are on their way, or held, at once. A train has the bytes of
//! all of them, and says the rest once.

use std::collections::BTreeMap;

use turmoil_net::TcpSegment;

use super::acks::bare;

/// Segments that follow each other, taken off the front one by one.
#[derive(Clone, Debug)]
pub(super) struct SegmentBatch {
    /// All that are left, as one.
    left: Option<TcpSegment>,
    /// So many bytes are in each; the last may have fewer.
    each: usize,
}

impl SegmentBatch {
    /// A segment alone.
    pub fn alone(segment: TcpSegment) -> Self {
        Self::cut(segment, usize::MAX)
    }

    /// A segment in pieces of `each` bytes.
    pub fn cut(whole: TcpSegment, each: usize) -> Self {
        Self { left: Some(whole), each: each.max(1) }
    }

    /// All that are left, as one segment.
    pub fn left(&self) -> Option<&TcpSegment> {
        self.left.as_ref()
    }

    /// Takes off what is behind so many segments, if there is any.
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

/// Sorts trains of one direction, each with the number of its first segment where it has one, as their segments would be sorted: by
/// sequence number, from `base` on; of one number acknowledgements come first, then what came first before. So a train is split where
/// another begins amid it: an RST may have any number.
pub(super) fn by_sequence(
    batches: Vec<(Option<u64>, SegmentBatch)>,
    base: u32,
) -> Vec<(Option<u64>, SegmentBatch)> {
    let begins = |tcp: &TcpSegment| tcp.seq.wrapping_sub(base).wrapping_add(1); // a SYN, before the first byte, at 0
    let place =
        |index, batch: &SegmentBatch| batch.left().map(|tcp| (begins(tcp), !bare(tcp), index));
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
mod tests {
    use super::*;

    fn segment(seq: u32, payload: &'static str) -> TcpSegment {
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

    fn last(seq: u32, payload: &'static str) -> TcpSegment {
        let mut last = segment(seq, payload);
        last.flags.fin = true;
        last
    }

    fn reported(batch: SegmentBatch) -> Vec<(u32, String, bool)> {
        batch
            .map(|tcp| (tcp.seq, String::from_utf8_lossy(&tcp.payload).into_owned(), tcp.flags.fin))
            .collect()
    }

    #[test]
    fn a_segment_in_pieces() {
        let mut batch = SegmentBatch::cut(last(u32::MAX, "abcde"), 2);
        assert_eq!(batch.len(), 3);
        assert_eq!(
            reported(batch.clone()),
            [(u32::MAX, "ab".into(), false), (1, "cd".into(), false), (3, "e".into(), true)]
        );
        batch.next();
        assert_eq!(batch.left().map(|left| left.payload.len()), Some(3));
        assert_eq!(reported(SegmentBatch::cut(last(5, ""), 2)), [(5, String::new(), true)]);
        assert_eq!(SegmentBatch::alone(last(5, "")).len(), 1);
    }

    /// By sequence number, as single segments would be: what begins amid a train comes amid it.
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
        let reported: Vec<_> = sorted
            .flat_map(|(n, batch)| {
                reported(batch).into_iter().map(move |(seq, text, _)| (n, seq, text))
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
        assert_eq!(reported, expected.map(|(n, seq, text)| (n, seq, text.to_owned())));
    }
}
