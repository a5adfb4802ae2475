//! Streams as the truth has them, and as a user saw them; and where the two part.
//!
//! What was delivered may have other borders than what was produced: bytes are compared, and items only name the place.

use bytes::Buf;

use crate::history::{Call, Content, Data, Ending, Stream, Time};

/// An item that entered or left a stream.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Its entry's place in the history.
    pub index: usize,
    /// When.
    pub at: Time,
    /// Its bytes.
    pub bytes: &'a Content,
    /// The bytes of the stream up to and with it.
    pub end: u64,
    /// The generation over which it came, if it was delivered and the client tells.
    pub generation: Option<u64>,
}

/// The truth of a stream.
#[derive(Debug)]
pub struct Source<'a> {
    /// The stream.
    pub stream: &'a Stream,
    /// The host that produced it, or where it began, if that is known.
    pub host: Option<&'a str>,
    /// What was produced.
    pub items: Vec<Item<'a>>,
    /// The items with which a life of the producer begins: the first, and the first after each death of its host. What is
    /// delivered may begin with any of them.
    pub incarnations: Vec<usize>,
    /// Its real ends, one a life at most: entry, time, outcome.
    pub ends: Vec<(usize, Time, &'a Data)>,
}

impl Source<'_> {
    /// How many items were produced before an entry.
    pub fn produced_before(&self, index: usize) -> usize {
        self.items.partition_point(|item| item.index < index)
    }

    /// How many bytes the first `items` have.
    pub fn bytes_of(&self, items: usize) -> u64 {
        items.checked_sub(1).map_or(0, |last| self.items[last].end)
    }

    /// The last thing that happened to it, an item or its end: entry and time.
    pub fn last_change(&self) -> Option<(usize, Time)> {
        let item = self.items.last().map(|item| (item.index, item.at));
        item.max(self.ends.last().map(|&(index, at, _)| (index, at)))
    }

    /// When it was over: its producer ended, and nothing new began after that. The last byte counts if it came later.
    pub fn ended(&self) -> Option<Time> {
        let (ended, ..) = *self.ends.last()?;
        let began_anew = self
            .incarnations
            .last()
            .and_then(|contact| self.items.get(*contact))
            .is_some_and(|item| self.incarnations.len() > 1 && item.index > ended);
        self.last_change().filter(|_| !began_anew).map(|(_, at)| at)
    }
}

/// A stream as one user saw it, from its opening to its ending.
#[derive(Debug)]
pub struct View<'a> {
    /// The stream.
    pub stream: &'a Stream,
    /// Its source, by number.
    pub source: usize,
    /// The user's host.
    pub host: &'a str,
    /// The path, by number.
    pub path: usize,
    /// When it was opened, and by which call; `None` if it never was.
    pub opened: Option<(usize, Time, Call)>,
    /// What came.
    pub delivered: Vec<Item<'a>>,
    /// How it ended, each time that it was told.
    pub endings: Vec<(usize, Time, &'a Ending)>,
    /// When its user gave it up, itself or with the client.
    pub gave_up: Option<Time>,
    /// When its user's host died.
    pub orphaned: Option<Time>,
    /// Where an earlier view of the same user stopped, as a number of items of the source.
    pub resumes: Option<usize>,
    /// How what was delivered fits what was produced.
    pub fit: Fit,
}

impl View<'_> {
    /// The first time that it was told how it ended: entry, time and ending.
    pub fn ending(&self) -> Option<(usize, Time, &Ending)> {
        self.endings.first().copied()
    }

    /// The generation over which the last item before an entry came.
    pub fn generation_before(&self, index: usize) -> Option<u64> {
        let before = self.delivered.partition_point(|item| item.index < index);
        before.checked_sub(1).and_then(|last| self.delivered[last].generation)
    }

    /// Whether nothing is owed to its user any more at a moment.
    pub fn is_abandoned(&self, at: Time) -> bool {
        [self.gave_up, self.orphaned].into_iter().flatten().any(|since| since <= at)
    }
}

/// How what was delivered fits what was produced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// The item of the source with which it begins, from 0.
    pub start: usize,
    /// How many bytes fit.
    pub bytes: u64,
    /// How many whole items of the source fit, `start` included.
    pub items: usize,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// Where what was delivered first differs from what was produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// In which delivered item, from 0.
    pub delivered: usize,
    /// Where in it the produced item begins that it differs from; `None` if that began in an earlier delivered item.
    pub begins: Option<usize>,
    /// Which produced item it differs from, from 0 (the number of all, if it comes after the last).
    pub produced: usize,
    /// At which byte of that, from 0.
    pub byte: usize,
}

impl Fit {
    /// The best fit over everything with which the view may begin: a life of the producer, and if its user had opened the stream
    /// before, the place where that stopped, or what was new at the opening. Of those that fit, the one that reaches furthest.
    pub fn best(source: &Source<'_>, view: &View<'_>) -> Fit {
        let opened = view
            .opened
            .map(|(index, ..)| source.produced_before(index))
            .filter(|_| view.resumes.is_some());
        let first = source.incarnations.first().copied().unwrap_or(0);
        let others = source.incarnations.iter().copied().skip(1).chain(view.resumes).chain(opened);
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

    /// Whether all that was produced before an entry was delivered.
    pub fn is_all_before(&self, source: &Source<'_>, index: usize) -> bool {
        let produced = source.bytes_of(source.produced_before(index).max(self.start))
            - source.bytes_of(self.start);
        self.difference.is_none() && self.bytes == produced
    }
}
