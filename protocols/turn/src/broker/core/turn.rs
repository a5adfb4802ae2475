//! One turn that a client started, from its start request to the end of all its work.

use std::collections::{BTreeMap, VecDeque};

use reknit_seams::defect;
use tokio::time::Instant;

use super::outside::ClientId;

/// The number of a turn in the broker: it exists before the app-server gives the turn an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TurnToken(pub u64);

/// A thread and a turn on it.
pub(super) type TurnKey = (String, String);

/// How often the broker interrupts a turn that refuses.
const MOST_INTERRUPTS: u32 = 5;

/// A turn that a client started.
pub(super) struct OwnedTurn {
    /// The client. `None` if it has disconnected: the turn is abandoned.
    pub client: Option<ClientId>,
    /// The client that has started it. It may have disconnected, or no longer wait for the turn.
    pub starter: ClientId,
    /// The thread on which it runs. A detached review moves it to another one.
    pub thread: String,
    /// Whether it is a review.
    pub is_review: bool,
    /// Its id, once the app-server has named it.
    pub id: Option<String>,
    /// The id of the first turn that the app-server reported on its thread before it answered the start
    /// request.
    pub reported: Option<String>,
    /// Whether the start request is over.
    pub answered: bool,
    /// Whether the turn is over. Turns of its subagents may still run.
    pub over: bool,
    /// Whether the turn must end: each turn that runs for it is interrupted.
    pub ends: bool,
    /// The turns that run for it: its own, and those of its subagents.
    pub running: BTreeMap<TurnKey, Interrupts>,
    /// The last turns that ended before the answer to the start request, or before the report of their
    /// start. The answer may contain the id of one of them, and the report starts nothing.
    pub ended: VecDeque<TurnKey>,
    /// When the broker gives it up.
    pub until: Option<Instant>,
    /// How long its client may own it.
    most: Instant,
}

/// The interrupts of one running turn.
#[derive(Default)]
pub(super) struct Interrupts {
    pub sent: u32,
    /// Whether the app-server has refused the last one.
    pub refused: bool,
    /// When the next one is sent.
    pub retry: Option<Instant>,
}

impl Interrupts {
    pub fn may_repeat(&self) -> bool {
        self.sent < MOST_INTERRUPTS || defect!(InterruptsHaveNoEnd)
    }

    /// Handles that the turn begins: those that the app-server refused before count no more.
    pub fn begins(&mut self) {
        if self.refused {
            // The bug: the interrupts that were refused before the turn began count.
            let sent = if defect!(EarlyRefusalsCount) { self.sent } else { 0 };
            *self = Self { sent, ..Self::default() };
        }
    }
}

impl OwnedTurn {
    pub fn new(client: ClientId, thread: String, is_review: bool, until: Instant) -> Self {
        Self {
            client: Some(client),
            starter: client,
            thread,
            is_review,
            id: None,
            reported: None,
            answered: false,
            over: false,
            ends: false,
            running: BTreeMap::new(),
            ended: VecDeque::new(),
            until: Some(until),
            most: until,
        }
    }

    /// Whether its client waits for its start or its end.
    pub fn is_live(&self) -> bool {
        !self.answered || !self.over
    }

    /// Whether it, or a subagent, may still run although it has lost its client, or its time is over.
    pub fn winds_down(&self) -> bool {
        // The bug: only a turn without a client is awaited.
        let ends = self.ends && !defect!(StartsBesideAnExpiredTurn);
        (self.client.is_none() || ends) && (self.is_live() || !self.running.is_empty())
    }

    /// Whether nothing of it is left to wait for.
    pub fn is_finished(&self) -> bool {
        !self.is_live() && self.running.is_empty()
    }

    /// Whether the turn with this key belongs to it. `root` is the turn of the user that the turn
    /// with this key works for.
    pub fn has(&self, thread: &str, turn: &str, root: Option<&str>) -> bool {
        let own = self.id.as_deref();
        // The bug: a subagent belongs to a turn only if something else names its thread.
        let root = root.filter(|_| !defect!(RootsAreNotRouted));
        own.is_some() && (own == root || own == Some(turn) && self.thread == thread)
            || self.running.contains_key(&(thread.to_owned(), turn.to_owned()))
    }

    /// Whether an unknown turn on this thread must be this one.
    pub fn expects(&self, thread: &str) -> bool {
        self.id.is_none() && self.is_live() && self.thread == thread
    }

    /// Learns the id from the first report of a turn on its thread. A turn that had no id until now may
    /// run as long as any other.
    pub fn learn(&mut self, id: String) {
        self.id = Some(id);
        // The bug: the turn has only the time in which its id must follow.
        if !self.ends && self.until.is_some() && !defect!(UnnamedTurnsEndSoon) {
            self.until = Some(self.most);
        }
    }

    /// Handles the answer to the start request: `id` is the turn's id, if the answer contains one.
    pub fn start(&mut self, id: Option<String>, is_over: bool) {
        self.answered = true;
        self.id = id.or_else(|| self.id.take());
        let Some(id) = &self.id else { return };
        let key = (self.thread.clone(), id.clone());
        // The bug: a turn that was given up is over.
        let is_given_up = self.over && defect!(GivenUpTurnsStayOver);
        self.over = is_over || is_given_up || self.ended.contains(&key);
        self.ended.clear();
        if self.over {
            // The broker may have held the report of its start until this answer named its thread.
            self.ended.push_back(key);
            self.end();
        } else {
            self.running.entry(key).or_default();
        }
    }

    /// Follows the turn with this id, although the start request has no answer. The answer can still
    /// come, and contain another id: a review has two.
    pub fn adopt(&mut self, id: String) {
        self.answered = true;
        let key = (self.thread.clone(), id);
        self.id = Some(key.1.clone());
        // The bug: the turn runs, although its end was reported.
        if self.ended.contains(&key) && !defect!(AdoptedTurnsRunOn) {
            self.end();
        } else {
            self.running.entry(key).or_default();
        }
    }

    /// Handles the end of a turn, perhaps of this one.
    pub fn on_completed(&mut self, key: &TurnKey, most: usize) {
        let had_begun = self.running.remove(key).is_some();
        if self.answered && self.thread == key.0 && self.id.as_ref() == Some(&key.1) {
            self.end();
        } else if self.may_be_named() || (self.id.is_some() && !had_begun) {
            self.keep_end(key.clone(), most);
        }
    }

    /// Remembers the end of a turn. The oldest one makes room, because a turn that runs ends after it.
    fn keep_end(&mut self, key: TurnKey, most: usize) {
        self.ended.push_back(key);
        while self.ended.len() > most {
            // The bug: the newest end makes room.
            match defect!(OldEndsTakeTheRoom) {
                true => self.ended.pop_back(),
                false => self.ended.pop_front(),
            };
        }
    }

    /// Whether an answer to the start request can still name it, or name it anew. A turn without an id
    /// may get a late answer.
    fn may_be_named(&self) -> bool {
        let late = self.id.is_none() && !defect!(LateNamesRunOn);
        !self.answered || self.reported.is_some() || late
    }

    /// Handles the end of this turn.
    pub fn end(&mut self) {
        self.over = true;
        let thread = &self.thread;
        // The app-server reports no end of the turn inside of a review.
        self.running.retain(|(other, _), _| other != thread);
    }

    /// Gives up waiting for anything.
    pub fn give_up(&mut self) {
        self.answered = true;
        self.over = true;
        self.running.clear();
        self.until = None;
    }

    /// Returns the running turns that must end. The turn inside of a review ends with the review.
    fn ending(&self) -> impl Iterator<Item = (&TurnKey, &Interrupts)> {
        let is_inner =
            |(thread, turn): &TurnKey| *thread == self.thread && self.id.as_ref() != Some(turn);
        // The bug: the turns of its subagents run on.
        let is_spared = |key: &TurnKey| key.0 != self.thread && defect!(SubagentsAreSpared);
        let ends = move |key: &TurnKey| self.ends && !is_inner(key) && !is_spared(key);
        self.running.iter().filter(move |(key, _)| ends(key))
    }

    /// Returns the turns to interrupt now: each that has not been, and each whose repetition is due.
    pub fn to_interrupt(&self, now: Instant) -> Vec<TurnKey> {
        let is_due = |interrupts: &Interrupts| match interrupts.retry {
            Some(at) => at <= now,
            None => interrupts.sent == 0,
        };
        let due = self.ending().filter(|(_, interrupts)| is_due(interrupts));
        due.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the time of the next repetition of an interrupt.
    pub fn retry(&self) -> Option<Instant> {
        self.ending().filter_map(|(_, interrupts)| interrupts.retry).min()
    }
}
