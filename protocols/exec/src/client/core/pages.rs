//! How much one read of missing events requests.
//!
//! Normally a read requests everything. If a connection dies during a catch-up, the answer may be
//! longer than what any connection carries, and a part of an answer has no use. So the next catch-up
//! requests pages: the client keeps each page that arrives, and several short connections complete
//! the catch-up together.

use reknit_seams::defect;

/// The size of the first page after a lost read, in bytes of output.
const FIRST: u64 = 64 << 10;
/// If a page is lost, the next page is this many times smaller: a few short connections find a size
/// that fits. The least size is one chunk, which a server returns even if it is longer.
const SHRINKS: u64 = 16;

/// The size of the next page. `None` if the reads request everything.
#[derive(Default)]
pub(super) struct Pages(Option<u64>);

impl Pages {
    /// Returns the maximum number of output bytes that the next read requests.
    pub(super) fn size(&self) -> Option<u64> {
        self.0
    }

    /// Handles the loss of a connection that was catching up: its reads are lost.
    pub(super) fn lost(&mut self) {
        self.0 = match self.0 {
            _ if defect!(CatchUpUnbounded) => None,
            None => Some(FIRST),
            Some(page) => Some((page / SHRINKS).max(1)),
        };
    }

    /// Handles a page that arrived: the next page is larger, so that a long catch-up takes few
    /// round trips.
    pub(super) fn arrived(&mut self) {
        if !defect!(PagesStaySmall) {
            self.0 = self.0.map(|page| page.saturating_mul(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_read_is_repeated_in_pages_that_shrink_until_one_arrives() {
        let mut pages = Pages::default();
        let mut sizes = Vec::new();
        for _ in 0..6 {
            pages.lost();
            sizes.extend(pages.size());
        }
        assert_eq!(sizes, [65_536, 4_096, 256, 16, 1, 1]);
        pages.arrived();
        assert_eq!(pages.size(), Some(2));
    }

    #[test]
    fn a_page_that_arrives_makes_only_pages_larger() {
        let mut pages = Pages::default();
        pages.arrived();
        assert_eq!(pages.size(), None, "there are no pages without a loss");
    }
}
