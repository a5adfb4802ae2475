//! Which threads and turns belong to one turn of the user.
//!
//! The turn of the user runs on the main thread. Its subagents work on other threads. A thread
//! of a subagent belongs to the turn for one of three reasons: a turn on it names the turn of the user
//! as its root, the thread names a thread of the turn as its parent, or an item of the turn names the
//! thread. Servers before 0.169 give only the last reason. A thread without a reason is foreign: it may
//! belong to an earlier turn, or to another client of the same broker.

use std::collections::{BTreeMap, VecDeque};

use reknit_seams::defect;

use crate::wire::{Item, LONGEST_ID, Notification, ThreadStatusKind, Turn};

/// How many turns of one subagent are remembered after their end.
const ENDED_TURNS: usize = 8;

/// Whose notification it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// The main thread's, of this turn.
    Main,
    /// A subagent's.
    Subagent,
    /// Another turn's, or the server's.
    Foreign,
}

/// The turns on the thread of a subagent.
#[derive(Default)]
struct Subagent {
    running: Option<String>,
    /// The last turns that ended. The end of a turn can come before its start.
    ended: VecDeque<String>,
}

/// The threads and turns of one turn of the user.
pub(super) struct Tree {
    main: String,
    turn: Option<String>,
    /// The turn inside of a review. It has its own id. The server never reports its end.
    inner: Option<String>,
    subagents: BTreeMap<String, Subagent>,
    /// Turns that run on foreign threads and have no root. An item may name their threads later.
    rootless: BTreeMap<String, String>,
    /// The parents of foreign threads. A reason for a parent may come after its child.
    orphans: BTreeMap<String, String>,
    /// New threads of subagents.
    new: Vec<String>,
    /// How many threads may be remembered.
    limit: usize,
    is_full: bool,
}

impl Tree {
    pub fn new(main: String, limit: usize) -> Self {
        Self {
            main,
            turn: None,
            inner: None,
            subagents: BTreeMap::new(),
            rootless: BTreeMap::new(),
            orphans: BTreeMap::new(),
            new: Vec::new(),
            limit,
            is_full: false,
        }
    }

    pub fn main(&self) -> &str {
        &self.main
    }

    pub fn turn(&self) -> Option<&str> {
        self.turn.as_deref()
    }

    /// Moves the turn to another thread: that of a detached review.
    pub fn move_to(&mut self, main: String) {
        self.main = main;
    }

    /// Learns the id of the turn.
    pub fn name(&mut self, turn: String) {
        self.turn = Some(turn);
    }

    /// Returns the id that the start of a turn on the main thread gives to the turn of the user.
    pub fn name_in(&self, notification: &Notification) -> Option<String> {
        match notification {
            Notification::TurnStarted { thread, turn } if *thread == self.main => {
                let root = turn.root().filter(|_| !defect!(AdoptsTheInnerTurn));
                root.or(turn.id()).map(str::to_owned)
            }
            _ => None,
        }
    }

    /// Whether no subagent works. If there were too many, some may.
    pub fn is_quiet(&self) -> bool {
        // The bug: subagents that are not followed do not work.
        let may_work = self.is_full && !defect!(FullTreesAreQuiet);
        !may_work && self.subagents.values().all(|subagent| subagent.running.is_none())
    }

    /// Takes a notification: finds out whose it is, and follows the threads and turns.
    pub fn take(&mut self, notification: &Notification) -> Relation {
        match notification {
            Notification::ThreadStarted(thread) => {
                let parent = thread.parent_thread_id.as_deref();
                if parent.is_some_and(|parent| self.owns(parent)) || defect!(RegistersEveryThread) {
                    self.register(&thread.id);
                } else if let Some(parent) = parent {
                    self.note_orphan(&thread.id, parent);
                }
                self.relate_thread(&thread.id)
            }
            Notification::TurnStarted { thread, turn } => {
                let relation = self.relate_turn(thread, turn);
                if relation == Relation::Foreign {
                    self.note_rootless(thread, turn);
                } else if let Some(subagent) = self.subagents.get_mut(thread) {
                    subagent.start(&turn.id);
                }
                relation
            }
            Notification::TurnCompleted { thread, turn } => {
                let relation = self.relate_turn(thread, turn);
                if relation == Relation::Foreign {
                    // The bug: the end of a turn counts only if its thread is known by then.
                    if !defect!(EndsBeforeTheNameAreLost) {
                        self.rootless.remove(thread);
                    }
                } else if let Some(subagent) = self.subagents.get_mut(thread) {
                    subagent.end(&turn.id);
                }
                relation
            }
            Notification::ThreadStatusChanged { thread, status }
                if status.kind != ThreadStatusKind::Active
                    && !defect!(IdleThreadsWork)
                    && (status.kind == ThreadStatusKind::Idle || !defect!(BrokenThreadsWork)) =>
            {
                self.rests(thread)
            }
            Notification::ThreadClosed { thread } if !defect!(ClosedThreadsWork) => {
                self.rests(thread)
            }
            _ => self.take_other(notification),
        }
    }

    /// Returns the threads of subagents that are new since the last call.
    pub fn take_new(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new)
    }

    fn take_other(&mut self, notification: &Notification) -> Relation {
        let relation = match (notification.thread(), notification.turn()) {
            (None, _) => Relation::Foreign,
            (Some(thread), None) => self.relate_thread(thread),
            (Some(thread), Some(turn)) => self.relate_item(thread, turn),
        };
        if relation != Relation::Foreign
            && let Notification::ItemStarted { item, .. } | Notification::ItemCompleted { item, .. } =
                notification
        {
            for thread in named_threads(item) {
                self.register(thread);
            }
        }
        relation
    }

    /// No turn runs on a thread.
    fn rests(&mut self, thread: &str) -> Relation {
        if let Some(subagent) = self.subagents.get_mut(thread) {
            subagent.rest();
        }
        // An item may name the thread only after this.
        self.rootless.remove(thread);
        self.relate_thread(thread)
    }

    fn owns(&self, thread: &str) -> bool {
        thread == self.main || self.subagents.contains_key(thread)
    }

    fn relate_thread(&self, thread: &str) -> Relation {
        if thread == self.main {
            Relation::Main
        } else if self.subagents.contains_key(thread) {
            Relation::Subagent
        } else {
            Relation::Foreign
        }
    }

    fn relate_turn(&mut self, thread: &str, turn: &Turn) -> Relation {
        // The bug: a subagent is known only if something else names its thread.
        let root = turn.root().filter(|_| thread == self.main || !defect!(RootsNameNoThread));
        let has_our_root = root.map(|root| self.turn.is_some() && self.is_this(root));
        if thread != self.main {
            match has_our_root {
                Some(true) => self.register(thread),
                Some(false) => return Relation::Foreign,
                None => {}
            }
            return self.relate_thread(thread);
        }
        if has_our_root == Some(true) && self.turn() != turn.id() {
            self.inner = turn.id().map(str::to_owned);
        }
        turn.id().map_or(Relation::Main, |turn| self.relate_on_main(turn))
    }

    fn relate_on_main(&self, turn: &str) -> Relation {
        if self.is_this(turn) || defect!(AcceptsEveryTurnOfItsThread) {
            Relation::Main
        } else {
            Relation::Foreign
        }
    }

    fn note_rootless(&mut self, thread: &str, turn: &Turn) {
        let is_possible = turn.root().is_none() && thread != self.main && !thread.is_empty();
        if is_possible && self.rootless.len() < self.limit {
            self.rootless.insert(thread.to_owned(), turn.id.clone());
        }
    }

    fn note_orphan(&mut self, thread: &str, parent: &str) {
        let is_long = thread.len() > LONGEST_ID || parent.len() > LONGEST_ID;
        let is_possible = !is_long && !thread.is_empty() && !self.owns(thread);
        if is_possible && self.orphans.len() < self.limit {
            self.orphans.insert(thread.to_owned(), parent.to_owned());
        }
    }

    fn relate_item(&self, thread: &str, turn: &str) -> Relation {
        if thread == self.main {
            return self.relate_on_main(turn);
        }
        let is_known = self.subagents.get(thread).is_some_and(|subagent| {
            subagent.running.as_deref() == Some(turn) || subagent.has_ended(turn)
        });
        if is_known { Relation::Subagent } else { Relation::Foreign }
    }

    /// Whether an id on the main thread is this turn. Until the turn has an id, every turn is.
    fn is_this(&self, turn: &str) -> bool {
        let Some(this) = self.turn() else { return true };
        this == turn || self.inner.as_deref() == Some(turn)
    }

    /// Whether an id is that of the turn inside of a review.
    pub fn is_inner(&self, turn: &Turn) -> bool {
        self.inner.is_some() && self.inner.as_deref() == turn.id()
    }

    /// Learns that a thread is that of a subagent, and so are those that name it as their parent.
    fn register(&mut self, thread: &str) {
        self.register_one(thread);
        let mut parents = vec![thread.to_owned()];
        while let Some(parent) = parents.pop() {
            // A thread that is not followed has no children here.
            if !self.owns(&parent) {
                continue;
            }
            let own = self.orphans.iter().filter(|(_, of)| **of == parent);
            let own: Vec<String> = own.map(|(thread, _)| thread.clone()).collect();
            for thread in &own {
                self.orphans.remove(thread);
                self.register_one(thread);
            }
            parents.extend(own);
        }
    }

    fn register_one(&mut self, thread: &str) {
        // The main thread counts, too.
        let others = usize::from(!defect!(OneThreadMoreIsFollowed));
        let has_room = self.subagents.len() + others < self.limit;
        // The bug: a thread that is known takes more room.
        let is_known = self.owns(thread) && (has_room || !defect!(KnownThreadsFillTheTree));
        if thread.is_empty() || thread.len() > LONGEST_ID || is_known {
            return;
        }
        if !has_room {
            self.is_full = true;
            return;
        }
        self.new.push(thread.to_owned());
        let running = self.rootless.remove(thread).filter(|_| !defect!(EarlySubagentIsIdle));
        self.subagents.insert(thread.to_owned(), Subagent { running, ended: VecDeque::new() });
    }
}

/// Returns the threads that an item names.
fn named_threads(item: &Item) -> &[String] {
    match item {
        Item::CollabAgentToolCall { receiver_thread_ids, .. } => receiver_thread_ids,
        Item::SubAgentActivity { agent_thread_id, .. } if !defect!(ActivityNamesNoThread) => {
            std::slice::from_ref(agent_thread_id)
        }
        _ => &[],
    }
}

impl Subagent {
    /// A thread runs one turn at a time, so an earlier turn is over even if its end never came.
    fn start(&mut self, turn: &str) {
        let is_later = self.running.is_some() || !self.ended.is_empty();
        if self.has_ended(turn) || (is_later && defect!(KeepsTheFirstTurnOfASubagent)) {
            return;
        }
        if let Some(earlier) = self.running.replace(turn.to_owned()) {
            self.remember(&earlier);
        }
    }

    fn end(&mut self, turn: &str) {
        self.remember(turn);
        if turn.is_empty() || self.running.as_deref() == Some(turn) {
            self.running = None;
        }
    }

    fn rest(&mut self) {
        if let Some(turn) = self.running.take_if(|_| !defect!(ForgetsEndedTurns)) {
            self.remember(&turn);
        }
    }

    fn has_ended(&self, turn: &str) -> bool {
        self.ended.iter().any(|ended| ended == turn)
    }

    fn remember(&mut self, turn: &str) {
        if turn.is_empty() || self.has_ended(turn) || defect!(ForgetsEndedTurns) {
            return;
        }
        if self.ended.len() == ENDED_TURNS {
            self.ended.pop_front();
        }
        self.ended.push_back(turn.to_owned());
    }
}
