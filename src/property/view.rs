//! Streams as they were produced, streams as users saw them, and the first difference between the
//! two.
//!
//! Delivered items may have other boundaries than produced items. Bytes are compared; items only
//! describe the position.

use bytes::Buf;

use crate::history::{Call, Content, Data, Ending, Stream, Time};

/// An item that entered or left a stream.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The index of its entry in the history.
    pub index: usize,
    /// The time of the entry.
    pub at: Time,
    /// The bytes of the item.
    pub bytes: &'a Content,
    /// The offset in the stream at which the item ends.
    pub end: u64,
    /// The generation over which it was delivered, if the client reports it.
    pub generation: Option<u64>,
}

/// A stream as it was really produced.
#[derive(Debug)]
pub struct Source<'a> {
    /// The stream.
    pub stream: &'a Stream,
    /// The host that produced it, or on which it began, if known.
    pub host: Option<&'a str>,
    /// The produced items.
    pub items: Vec<Item<'a>>,
    /// For each incarnation of the producer, its first item: item 0, and the first item after each
    /// death of the producer's host. Delivery may begin with any of them.
    pub incarnations: Vec<usize>,
    /// The real ends, at most one per incarnation: entry, time, outcome.
    pub ends: Vec<(usize, Time, &'a Data)>,
}

impl Source<'_> {
    /// Returns the number of items produced before an entry.
    pub fn produced_before(&self, index: usize) -> usize {
        self.items.partition_point(|item| item.index < index)
    }

    /// Returns the number of bytes in the first `items` items.
    pub fn bytes_of(&self, items: usize) -> u64 {
        items.checked_sub(1).map_or(0, |last| self.items[last].end)
    }

    /// Returns the entry and time of the last event of the stream, an item or an end.
    pub fn last_change(&self) -> Option<(usize, Time)> {
        let item = self.items.last().map(|item| (item.index, item.at));
        item.max(self.ends.last().map(|&(index, at, _)| (index, at)))
    }

    /// Returns when the stream was over: its producer ended, and no new incarnation produced
    /// anything after that. If items were produced after the end, returns the time of the last
    /// item.
    pub fn ended(&self) -> Option<Time> {
        let (ended, ..) = *self.ends.last()?;
        let began_anew = self
            .incarnations
            .last()
            .and_then(|first| self.items.get(*first))
            .is_some_and(|item| self.incarnations.len() > 1 && item.index > ended);
        self.last_change().filter(|_| !began_anew).map(|(_, at)| at)
    }
}

/// A stream as one user saw it, from opening to ending.
#[derive(Debug)]
pub struct View<'a> {
    /// The stream.
    pub stream: &'a Stream,
    /// The index of its source.
    pub source: usize,
    /// The user's host.
    pub host: &'a str,
    /// The index of its path.
    pub path: usize,
    /// The entry, time and call of the opening; `None` if it was never opened.
    pub opened: Option<(usize, Time, Call)>,
    /// The delivered items.
    pub delivered: Vec<Item<'a>>,
    /// The ending, once for each time it was reported.
    pub endings: Vec<(usize, Time, &'a Ending)>,
    /// When its user gave up the stream or the whole client.
    pub gave_up: Option<Time>,
    /// When its user's host died.
    pub orphaned: Option<Time>,
    /// Where an earlier view of the same user stopped, as a number of items of the source.
    pub resumes: Option<usize>,
    /// How the delivered bytes match the produced bytes.
    pub fit: Fit,
}

impl View<'_> {
    /// Returns the first report of the ending: entry, time and ending.
    pub fn ending(&self) -> Option<(usize, Time, &Ending)> {
        self.endings.first().copied()
    }

    /// Returns the generation of the last item delivered before an entry.
    pub fn generation_before(&self, index: usize) -> Option<u64> {
        let before = self.delivered.partition_point(|item| item.index < index);
        before.checked_sub(1).and_then(|last| self.delivered[last].generation)
    }

    /// Returns whether its user had given up or died by a given time, so that nothing is due any
    /// more.
    pub fn is_abandoned(&self, at: Time) -> bool {
        [self.gave_up, self.orphaned].into_iter().flatten().any(|since| since <= at)
    }
}

/// How delivered bytes match produced bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// The item of the source with which the view begins, from 0.
    pub start: usize,
    /// The number of matching bytes.
    pub bytes: u64,
    /// The number of whole items of the source that match, including `start`.
    pub items: usize,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// The first difference between delivered and produced bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The delivered item that contains the difference, from 0.
    pub delivered: usize,
    /// The offset in that delivered item at which the produced item begins; `None` if the produced
    /// item began in an earlier delivered item.
    pub begins: Option<usize>,
    /// The produced item that it differs from, from 0. If it comes after the last produced item,
    /// this is the number of items.
    pub produced: usize,
    /// The byte in the produced item, from 0.
    pub byte: usize,
}

impl Fit {
    /// Returns the best match over all positions at which the view may begin. These are the start
    /// of each incarnation of the producer that was not replaced before its user asked for the stream
    /// (`asked`, an entry), and, if its user had opened the stream before, the position where that view
    /// stopped, or the first item after the new opening. Among complete matches, the one that reaches
    /// furthest wins.
    pub fn best(source: &Source<'_>, view: &View<'_>, asked: usize) -> Fit {
        let opened = view
            .opened
            .map(|(index, ..)| source.produced_before(index))
            .filter(|_| view.resumes.is_some());
        let before = source.produced_before(asked);
        let replaced = source.incarnations.iter().skip(1).filter(|start| **start < before).count();
        let mut incarnations = source.incarnations.iter().copied().skip(replaced);
        let first = incarnations.next().unwrap_or(0);
        let others = incarnations.chain(view.resumes).chain(opened);
        others.map(|start| Fit::from(start, &source.items, &view.delivered)).fold(
            Fit::from(first, &source.items, &view.delivered),
            |best, other| {
                let rank = |fit: &Fit| match fit.difference {
                    None => (true, fit.start + fit.items),
                    Some(_) => (false, fit.bytes as usize),
                };
                if rank(&other) > rank(&best) { other } else { best }
            },
        )
    }

    fn from(start: usize, produced: &[Item<'_>], delivered: &[Item<'_>]) -> Fit {
        let mut fit = Fit { start, bytes: 0, items: 0, difference: None };
        let (mut next, mut byte, mut began_in) = (start, 0, None);
        for (number, chunk) in delivered.iter().enumerate() {
            let mut rest = chunk.bytes.reading();
            while rest.has_remaining() {
                if byte == 0 {
                    began_in = Some((number, chunk.bytes.len() - rest.remaining()));
                }
                let wanted = produced
                    .get(next)
                    .filter(|item| item.index < chunk.index)
                    .map(|item| item.bytes.reading().skip(byte));
                let same = wanted.map_or(0, |wanted| wanted.same_start(rest));
                fit.bytes += same as u64;
                let Some(wanted) =
                    wanted.filter(|wanted| same == wanted.remaining().min(rest.remaining()))
                else {
                    let begins = began_in.filter(|(chunk, _)| *chunk == number).map(|(_, at)| at);
                    fit.difference = Some(Difference {
                        delivered: number,
                        begins,
                        produced: next,
                        byte: byte + same,
                    });
                    return fit;
                };
                (rest, byte) = (rest.skip(same), byte + same);
                if same == wanted.remaining() {
                    (next, byte, fit.items) = (next + 1, 0, fit.items + 1);
                }
            }
        }
        fit
    }

    /// Returns whether everything produced before an entry was delivered.
    pub fn is_all_before(&self, source: &Source<'_>, index: usize) -> bool {
        let produced = source.bytes_of(source.produced_before(index).max(self.start))
            - source.bytes_of(self.start);
        self.difference.is_none() && self.bytes == produced
    }
}
