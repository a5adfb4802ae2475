//! The events of a stream.

use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::{Core, Item, Phase, Target};
use crate::client::{Dialect, Failure, Loss};
use crate::wire::{CommandId, Ending, Epoch, Event, Gap, Record};

impl Core {
    /// Bytes have arrived, and these complete events with them.
    pub(in crate::client) fn arrived(
        &mut self,
        records: impl Iterator<Item = Record>,
        now: Instant,
    ) {
        let silent_at = self.silent_at(now);
        let Phase::Streaming(stream) = &mut self.phase else { return };
        let before = self.inbox.len();
        self.inbox.extend(records);
        if self.inbox.len() > before || !defect!(OnlyEventsAreSigns) {
            stream.silent_at = silent_at;
        }
    }

    /// Bytes have arrived that are not an event, after all events so far.
    pub(in crate::client) fn unreadable(&mut self) {
        if let Phase::Streaming(stream) = &mut self.phase {
            stream.unreadable = true;
        }
    }

    /// Handles an event. Returns what the user receives.
    pub(super) fn event(&mut self, record: Record, now: Instant) -> Option<Item> {
        let Phase::Streaming(_) = self.phase else { return None };
        match &record.event {
            Event::Init { command, epoch } => self.init(command, *epoch),
            Event::Ping => self.alive(),
            Event::Status(_) | Event::Other(_) => {}
            Event::Gap(gap) => return self.gap(*gap, now),
            Event::Detached => return self.detached(now),
            Event::Output(stream, bytes) => {
                let item = Item::Output(*stream, bytes.clone());
                return self.logged(record, item, now);
            }
            Event::Ended { ending, took } => {
                let item = Item::Ended { ending: ending.clone(), took: *took };
                return self.logged(record, item, now);
            }
        }
        None
    }

    /// The first event of a start.
    fn init(&mut self, command: &str, epoch: Option<Epoch>) {
        let Ok(id) = command.parse::<CommandId>() else {
            return self.fail(Failure::Protocol("names a command in a way that is not an id"));
        };
        let is_other = self.id().is_some_and(|ours| ours != id) && !defect!(OtherNameIsTaken);
        if is_other && !defect!(StartWithoutId) {
            return self.fail(Failure::Protocol("sends the events of another command"));
        }
        if self.names.dialect == Dialect::Execd && matches!(self.target, Target::Start(_))
            || defect!(StartWithoutId)
        {
            self.target = Target::Known(id);
            self.confirmed = true;
            self.progress();
        }
        if let Some(epoch) = epoch {
            self.run_is(epoch);
        }
    }

    /// An event of the log. It must be the next one.
    fn logged(&mut self, record: Record, item: Item, now: Instant) -> Option<Item> {
        let Some(position) = record.position else { return self.unnumbered(item) };
        let after = self.cursor.after;
        if position <= after && !defect!(DuplicatesDelivered) {
            milestone!("sse.client.duplicate", attempt = self.attempt, position);
            return None;
        }
        if position > after.saturating_add(1) && !defect!(HolesIgnored) {
            let hole = Gap { first: after + 1, last: position - 1 };
            return self.hole(hole, Some(record), now);
        }
        self.delivered(position.max(after));
        self.returned(item)
    }

    /// The cursor moves, because the user receives the item now.
    fn delivered(&mut self, position: u64) {
        self.cursor.after = position;
        if let Phase::Streaming(stream) = &mut self.phase {
            stream.brought = true;
        }
        self.progress();
    }

    fn returned(&mut self, item: Item) -> Option<Item> {
        if let Item::Ended { .. } = item {
            milestone!("sse.client.ended", attempt = self.attempt, position = self.cursor.after);
            self.inbox.clear();
            self.phase = Phase::Over(Ok(()));
        }
        Some(item)
    }

    /// An event of the log without a position. An execd without resumption sends them.
    fn unnumbered(&mut self, item: Item) -> Option<Item> {
        if self.names.dialect == Dialect::Reknit {
            self.fail(Failure::Protocol("sends events without positions"));
            return None;
        }
        self.unnumbered |= matches!(item, Item::Output(..));
        self.progress();
        self.returned(item)
    }

    /// The server reports lost events.
    fn gap(&mut self, gap: Gap, now: Instant) -> Option<Item> {
        let next = self.cursor.after.saturating_add(1);
        if gap.last < next {
            return None; // the user has these events
        }
        if gap.first > next && !defect!(HolesIgnored) {
            return self.hole(Gap { first: next, last: gap.first - 1 }, None, now);
        }
        // The bug: the user has some of these events.
        let first = if defect!(GapsAreNotCut) { gap.first } else { next };
        let gap = Gap { first, ..gap };
        milestone!("sse.client.gap", attempt = self.attempt, first = gap.first, last = gap.last);
        self.delivered(gap.last);
        (!defect!(GapNotReturned)).then_some(Item::Gap(gap))
    }

    /// The server left out events without a report. A new stream can bring them. If it does not, they
    /// are lost.
    fn hole(&mut self, hole: Gap, before: Option<Record>, now: Instant) -> Option<Item> {
        milestone!("sse.client.hole", attempt = self.attempt, first = hole.first, last = hole.last);
        if self.hole != Some(self.cursor.after) {
            self.hole = Some(self.cursor.after);
            self.lost(Loss::Hole, now);
            return None;
        }
        if self.names.dialect == Dialect::Reknit {
            self.fail(Failure::Hole(hole));
            return None;
        }
        if let Some(before) = before {
            self.inbox.push_front(before);
        }
        self.delivered(hole.last);
        Some(Item::Gap(hole))
    }

    /// The start of a background command is complete. An execd without resumption also ends a command
    /// in the foreground in this way.
    fn detached(&mut self, now: Instant) -> Option<Item> {
        match (&self.target, self.names.dialect) {
            (Target::Known(id), _) if self.background => {
                self.background = false;
                self.lost(Loss::Detached(id.clone()), now);
                None
            }
            (Target::Known(_), Dialect::Execd) => {
                self.unnumbered(Item::Ended { ending: Ending::Exited(0), took: 0 })
            }
            _ => {
                self.fail(Failure::Protocol("ends a command without an ending"));
                None
            }
        }
    }
}
