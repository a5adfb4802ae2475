//! The client of each notification. A notification belongs to a turn, and through it to the client
//! that started the turn. Notifications of a turn without a client are dropped. Those of a thread that
//! several turns can own wait until one of them claims it.

use std::collections::BTreeMap;

use reknit_jsonrpc::{Message, unreadable_text};
use reknit_seams::{defect, milestone};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::BrokerCore;
use super::forwarded::{Forwarded, Purpose};
use super::outside::ClientId;
use super::threads::ThreadOwner;
use super::turn::TurnToken;
use super::unclaimed::News;
use crate::wire::{Item, LONGEST_ID, MessagePhase, Notification, Scope, ThreadStatusKind, code};

/// To whom a notification goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The client of a turn, if it is still connected.
    Turn(TurnToken),
    Client(ClientId),
    /// Several turns can own the thread.
    Unclaimed,
    /// The notification concerns no connected client.
    Dropped,
}

impl BrokerCore {
    /// Handles a notification of the app-server.
    pub fn on_notification(&mut self, method: &str, params: Option<&RawValue>, now: Instant) {
        self.catch_up(now);
        self.route(method, params, now);
        self.deliver_claimed(now);
        self.interrupt_all(now);
        self.after_input(now);
    }

    /// Passes the notifications of every thread on that a turn or a client has claimed, in their order. One
    /// of them can claim another thread.
    pub(super) fn deliver_claimed(&mut self, now: Instant) {
        let mut claimed = BTreeMap::new();
        loop {
            claimed.extend(self.unclaimed.take(|thread| self.threads.owner(thread).is_some()));
            let Some((_, News { method, params })) = claimed.pop_first() else { return };
            self.route(&method, params.as_deref(), now);
        }
    }

    /// Drops the notifications of unclaimed threads when no turn can claim them any more.
    pub(super) fn drop_unclaimed(&mut self) {
        if !self.unclaimed.is_empty() && !self.may_claim() {
            fenced(self.unclaimed.clear());
        }
    }

    fn route(&mut self, method: &str, params: Option<&RawValue>, now: Instant) {
        let notification = Notification::parse(method, params).unwrap_or_else(|error| {
            tracing::debug!(%error, method, "an unreadable notification");
            // The bug: it goes to the client that is served now, not to the owner of its turn.
            let scope =
                if defect!(UnreadableNewsGoAnywhere) { Scope::default() } else { scope(params) };
            Notification::Other { scope, method: method.to_owned() }
        });
        let target = self.target(&notification);
        // The bug: only a thread that is known at once has an owner.
        if target == Target::Unclaimed
            && !defect!(UnclaimedThreadsAreDropped)
            && let Some(thread) = unclaimed_thread(&notification)
        {
            let news = News { method: method.to_owned(), params: params.map(ToOwned::to_owned) };
            return fenced(self.unclaimed.hold(thread, news));
        }
        self.learn(&notification, target, now);
        let client = match target {
            Target::Turn(token) => self.turns.get(&token).and_then(|turn| turn.client),
            Target::Client(client) => Some(client),
            Target::Unclaimed | Target::Dropped => None,
        };
        // The bug: news of a turn without a client go to the client that works now.
        let client = client.or_else(|| {
            let has_owner = matches!(target, Target::Turn(_));
            self.holder().filter(|_| has_owner && defect!(AbandonedNewsAreShared))
        });
        // The bug: notifications belong to the client that is served now.
        let client = if defect!(OwnerPerSocket) { self.holder() } else { client };
        match client {
            Some(client) => {
                let (method, params) = (method.to_owned(), params.map(ToOwned::to_owned));
                let text = Message::Notification { method, params }.to_text();
                self.tell(client, text, now);
            }
            None => fenced(1),
        }
    }

    /// Handles a line of the app-server that is no message. It may have been anything, also news of the
    /// client that has live work. So this client receives a line that it cannot read either: an error
    /// without an id. Its capture then counts the line, and infers nothing from silence.
    pub fn on_unreadable(&mut self, why: &str, now: Instant) {
        self.catch_up(now);
        tracing::debug!(why, "an unreadable line of the app-server");
        if let Some(client) = self.holder() {
            let why = format!("the app-server sent an unreadable line: {why}");
            self.tell(client, unreadable_text(code::PARSE, why), now);
        }
        self.after_input(now);
    }

    fn target(&mut self, notification: &Notification) -> Target {
        let Some(thread) = notification.thread().map(str::to_owned) else {
            // The bug: news that concern no thread reach no client.
            let holder = self.holder().filter(|_| !defect!(ServerNewsAreDropped));
            return holder.map_or(Target::Dropped, Target::Client);
        };
        let (turn, root) = match notification {
            Notification::TurnStarted { turn, .. } | Notification::TurnCompleted { turn, .. } => {
                (turn.id(), turn.root())
            }
            _ => (notification.turn(), None),
        };
        if let Some(turn) = turn
            && let Some(token) = self.owner_of_turn(&thread, turn, root)
        {
            return Target::Turn(token);
        }
        match self.threads.owner(&thread) {
            Some(ThreadOwner::Turn(token)) => return Target::Turn(token),
            Some(ThreadOwner::Gone) => return Target::Dropped,
            // A turn on the thread of a client, but not one that a client has started.
            Some(ThreadOwner::Client(_)) if turn.is_some() => return Target::Dropped,
            Some(ThreadOwner::Client(client)) => return Target::Client(client),
            None => {}
        }
        let parent = match notification {
            Notification::ThreadStarted(thread) => thread.parent_thread_id.as_deref(),
            _ => None,
        };
        match parent {
            Some(parent) => match (self.owner_of_thread(parent), self.threads.owner(parent)) {
                (Some(token), _) => Target::Turn(token),
                // The parent may be reported later.
                (None, None) => self.target_of_new(),
                // No turn uses the parent, so nothing is left to claim it.
                (None, Some(_)) => Target::Dropped,
            },
            None => self.target_of_unknown(notification),
        }
    }

    /// Returns the turn of a client that this turn belongs to.
    fn owner_of_turn(&mut self, thread: &str, turn: &str, root: Option<&str>) -> Option<TurnToken> {
        let known = self.turns.iter().find(|(_, owned)| owned.has(thread, turn, root));
        if let Some((token, _)) = known {
            return Some(*token);
        }
        // The app-server handles requests in order, so the oldest start comes first.
        let (token, expected) = self.turns.iter_mut().find(|(_, owned)| owned.expects(thread))?;
        expected.learn(root.unwrap_or(turn).to_owned());
        expected.running.entry((thread.to_owned(), root.unwrap_or(turn).to_owned())).or_default();
        Some(*token)
    }

    /// Returns the newest turn of a client that uses this thread.
    fn owner_of_thread(&self, thread: &str) -> Option<TurnToken> {
        match self.threads.owner(thread) {
            Some(ThreadOwner::Turn(token)) => Some(token),
            _ => {
                self.turns.iter().rfind(|(_, turn)| turn.thread == thread).map(|(token, _)| *token)
            }
        }
    }

    /// Returns the client that probably causes a notification of an unknown thread: a thread that it
    /// starts, or a subagent whose app-server is too old to name the parent.
    fn target_of_unknown(&self, notification: &Notification) -> Target {
        if matches!(notification, Notification::ThreadStarted(_)) {
            let starter = self.forwarded.values().find_map(|forwarded| match forwarded {
                Forwarded::Client { client, purpose: Purpose::Thread, .. } => *client,
                _ => None,
            });
            if let Some(client) = starter {
                return Target::Client(client);
            }
        }
        // The order within a thread stays.
        if unclaimed_thread(notification).is_some_and(|thread| self.unclaimed.holds(thread)) {
            return Target::Unclaimed;
        }
        self.target_of_new()
    }

    /// Returns the target of news about a thread that nothing has named yet.
    fn target_of_new(&self) -> Target {
        match self.sole_candidate() {
            Some(token) => Target::Turn(token),
            None if self.may_claim() => {
                // The bug: the client that works now gets such news.
                let holder = self.holder().filter(|_| defect!(UnclaimedNewsAreShared));
                holder.map_or(Target::Unclaimed, Target::Client)
            }
            None => Target::Dropped,
        }
    }

    /// Returns the live turn that must own a new thread, because no other turn can.
    fn sole_candidate(&self) -> Option<TurnToken> {
        let mut unfinished = self.turns.iter().filter(|(_, turn)| !turn.is_finished());
        let (token, turn) = unfinished.next()?;
        // The late answer to its own start names no other turn.
        let starts_another = |forwarded: &Forwarded| match forwarded {
            Forwarded::LateStart { token: other } => other != token,
            _ => false,
        };
        let is_sole = unfinished.next().is_none() && !self.forwarded.values().any(starts_another);
        (is_sole && turn.client.is_some() && turn.is_live()).then_some(*token)
    }

    /// Whether a turn can still name an unknown thread as its own.
    fn may_claim(&self) -> bool {
        self.turns.values().any(|turn| !turn.is_finished()) || self.awaits_late_start()
    }

    fn awaits_late_start(&self) -> bool {
        self.forwarded.values().any(|forwarded| matches!(forwarded, Forwarded::LateStart { .. }))
    }

    /// Learns threads and turns from a notification.
    fn learn(&mut self, notification: &Notification, target: Target, now: Instant) {
        match notification {
            Notification::ThreadClosed { thread } => self.on_thread_closed(thread),
            Notification::ThreadStatusChanged { thread, status }
                if status.kind != ThreadStatusKind::Active =>
            {
                self.on_thread_rests(thread);
            }
            Notification::TurnCompleted { thread, turn } => {
                self.on_turn_completed(&(thread.clone(), turn.id.clone()));
            }
            _ => {}
        }
        let Target::Turn(token) = target else { return };
        // The bug: the final answer counts as the end of its turn.
        if defect!(AnswersFreeTheBroker)
            && let Notification::ItemCompleted { scope, item } = notification
            && matches!(item, Item::AgentMessage { phase: Some(MessagePhase::FinalAnswer), .. })
            && let Some(turn) = self.turns.get_mut(&token)
            && scope.thread_id.as_ref() == Some(&turn.thread)
        {
            turn.over = true;
        }
        match notification {
            Notification::ThreadStarted(thread) => self.learn_thread(&thread.id, token),
            Notification::TurnStarted { thread, turn } => {
                self.learn_thread(thread, token);
                self.on_turn_started(token, (thread.clone(), turn.id.clone()), turn.root(), now);
            }
            Notification::ItemStarted { item, .. } | Notification::ItemCompleted { item, .. } => {
                match item {
                    Item::CollabAgentToolCall { receiver_thread_ids, agents_states, .. } => {
                        for thread in receiver_thread_ids.iter().chain(agents_states.keys()) {
                            self.learn_thread(thread, token);
                        }
                    }
                    Item::SubAgentActivity { agent_thread_id, .. } => {
                        self.learn_thread(agent_thread_id, token);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Learns that a thread is one of a turn's subagents.
    fn learn_thread(&mut self, thread: &str, token: TurnToken) {
        let is_main = self.turns.get(&token).is_none_or(|turn| turn.thread == thread);
        if !is_main && !thread.is_empty() && thread.len() <= LONGEST_ID {
            self.threads.set(thread, ThreadOwner::Turn(token));
        }
    }
}

/// Returns the thread whose claim decides about a notification: a new thread follows its parent.
fn unclaimed_thread(notification: &Notification) -> Option<&str> {
    match notification {
        // The bug: it follows itself.
        Notification::ThreadStarted(thread) if defect!(NewThreadsFollowThemselves) => {
            Some(&thread.id)
        }
        Notification::ThreadStarted(thread) => {
            thread.parent_thread_id.as_deref().or(Some(&thread.id))
        }
        _ => notification.thread(),
    }
}

/// Records that the broker dropped notifications.
fn fenced(notifications: usize) {
    for _ in 0..notifications {
        milestone!("turn.broker.fenced");
    }
}

/// Reads the thread and the turn of a notification whose content cannot be read.
fn scope(params: Option<&RawValue>) -> Scope {
    let scope = reknit_jsonrpc::read::<Scope>(params).unwrap_or_default();
    let is_valid = |id: &String| id.len() <= LONGEST_ID;
    Scope { thread_id: scope.thread_id.filter(is_valid), turn_id: scope.turn_id.filter(is_valid) }
}
