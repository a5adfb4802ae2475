//! The channels: the root, sessions, chats.
//!
//! A chat without holders and without work in progress leaves memory: it is saved, and restored at
//! the next subscription. Holders are computed, not counted by hand: a channel is held by each
//! client that has it among the subscriptions of any of its connections, active or still waiting
//! for a restore. So a holder is never released twice, and a connection that closes does not affect
//! another one that waits.

use std::collections::BTreeSet;

use reknit_seams::net::ConnId;
use reknit_seams::{defect, milestone};
use tokio::time::Instant;

use super::HostCore;
use super::channel::{Channel, Restoring};
use super::outside::{HostEffect, Stored};
use super::transport::Subscription;
use crate::state::{chat, defects, session};
use crate::wire::ahp::actions::{PartialChatSummary, SessionChatUpdatedAction};
use crate::wire::ahp::state::ChatState;
use crate::wire::{Snapshot, SnapshotState, StateAction};

impl HostCore {
    /// Returns the chats of a session.
    pub(super) fn chats_of(&self, session: &str) -> Vec<String> {
        let chats =
            self.channels.iter().filter(|(_, channel)| channel.session.as_deref() == Some(session));
        chats.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the number of sessions.
    pub(super) fn sessions(&self) -> usize {
        self.channels
            .values()
            .filter(|channel| matches!(channel.state, Some(SnapshotState::Session(_))))
            .count()
    }

    /// Returns the current state of a channel.
    pub(super) fn snapshot(&self, channel: &str) -> Option<Snapshot> {
        let state = self.state(channel)?.clone();
        Some(Snapshot {
            resource: channel.to_owned(),
            state,
            from_seq: i64::try_from(self.seq).unwrap_or(i64::MAX),
        })
    }

    /// Starts a restore if the channel is not in memory. Returns whether it is in memory.
    pub(super) fn load(&mut self, channel: &str, now: Instant) -> bool {
        let number = self.serial + 1;
        let until = now + self.limits.restore_deadline;
        let known = self.channels.entry(channel.to_owned());
        let known = known.or_insert_with(|| Channel::absent(None));
        if known.state.is_some() {
            return true;
        }
        if known.restoring.is_none() {
            known.restoring = Some(Restoring { number, until });
            self.serial = number;
            milestone!("toolcall.host.restoring", channel);
            self.push_effect(HostEffect::Restore(channel.to_owned(), number));
        }
        false
    }

    /// Handles the end of the restore with this number. If the restore was given up, or its channel
    /// was removed since, the result is ignored.
    pub fn restored(&mut self, channel: &str, number: u64, stored: Option<Stored>, now: Instant) {
        self.catch_up(now);
        let is_it = |known: &&mut Channel| {
            known.restoring.is_some_and(|restoring| restoring.number == number)
        };
        let Some(known) = self.channels.get_mut(channel).filter(is_it) else { return };
        known.restoring = None;
        if let Some(stored) = stored
            && known.state.is_none()
        {
            let chats = chats_in(&stored.state);
            let is_session = matches!(stored.state, SnapshotState::Session(_));
            let state = if defect!(RestoredCallsReopen) {
                defects::reopened(stored.state)
            } else {
                stored.state
            };
            let made = if defect!(RestoreForgetsTheCreation) { 0 } else { known.made };
            *known = Channel { made, ..Channel::of(state, stored.session) };
            milestone!("toolcall.host.restored", channel);
            self.catalog(channel, chats);
            if self.renew_entries(channel, now) && !defect!(RenewedEntriesAreNotSaved) {
                let session = self.channels.get(channel).and_then(|known| known.session.clone());
                self.save(session.as_deref().unwrap_or(channel));
            }
            if is_session && !defect!(RestoredSessionsMissing) {
                self.notify_sessions(now);
            }
        }
        self.settle(channel, now);
    }

    /// Updates the entry of a restored chat, or the entries of all chats of a restored session: the
    /// session and its chats are saved at different times. Returns whether an entry changed.
    fn renew_entries(&mut self, restored: &str, now: Instant) -> bool {
        let is_it = |name: &str, known: &Channel| {
            name == restored || known.session.as_deref() == Some(restored)
        };
        let chats = self.channels.iter().filter(|(name, known)| is_it(name, known));
        let summaries = chats.filter_map(|(name, known)| match &known.state {
            Some(SnapshotState::Chat(chat)) => {
                Some((name.clone(), chat.status, chat.modified_at.clone()))
            }
            _ => None,
        });
        let mut has_changed = false;
        for (chat, status, modified_at) in summaries.collect::<Vec<_>>() {
            has_changed |= self.update_chat_entry(&chat, status, modified_at, now);
        }
        has_changed
    }

    /// Registers the chats of a restored session. They are restored on demand.
    fn catalog(&mut self, session: &str, chats: Vec<String>) {
        for chat in chats {
            let known = self.channels.entry(chat).or_insert_with(|| Channel::absent(None));
            // A client may have requested the chat before its session was known.
            if known.state.is_none() {
                known.session.get_or_insert_with(|| session.to_owned());
            }
        }
    }

    /// Fails the restores that are past their deadline.
    pub(super) fn give_up_restores(&mut self, now: Instant) {
        if defect!(RestoreWithoutDeadline) {
            return;
        }
        let late = self.channels.iter().filter(|(_, channel)| {
            channel.restoring.is_some_and(|restoring| restoring.until <= now)
        });
        for channel in late.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            if let Some(known) = self.channels.get_mut(&channel) {
                known.restoring = None;
            }
            milestone!("toolcall.host.restore-late", channel = channel.as_str());
            if !defect!(LateRestoreIsMissing) {
                self.refuse_waiting_sessions(&channel);
            }
            self.settle(&channel, now);
        }
    }

    /// Notifies all waiting requests that a channel is in memory or does not exist.
    fn settle(&mut self, channel: &str, now: Instant) {
        if !defect!(SubscribersBeforeTheCreation) {
            self.create_waiting_sessions(channel, now);
        }
        let there = self.state(channel).is_some();
        let waiting = self.transports.iter().filter(|(_, transport)| transport.waits_for(channel));
        for conn in waiting.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            // The bug: the request succeeds without a state.
            let is_granted = there || defect!(UnknownChannelsAreWatched);
            self.settle_subscription(conn, channel, is_granted, now);
            self.settle_handshake(conn, channel, there, now);
        }
        if defect!(SubscribersBeforeTheCreation) {
            self.create_waiting_sessions(channel, now);
        }
        if !there {
            // A chat of the catalog that cannot be restored now stays in the catalog.
            self.channels.remove_if_unknown(channel);
        }
        self.update_waits(now);
        self.evict_if_unused(channel);
    }

    /// Returns the clients that hold a channel, each client once, over any number of connections.
    pub fn holders(&self, channel: &str) -> BTreeSet<&str> {
        let holding = self.transports.values().filter(|transport| transport.holds(channel));
        holding.filter_map(|transport| transport.client()).collect()
    }

    /// Whether any connection holds a channel.
    fn is_held(&self, channel: &str) -> bool {
        self.transports.values().any(|transport| transport.holds(channel))
    }

    /// Evicts a chat from memory if no client holds it and no work is in progress in it.
    pub(super) fn evict_if_unused(&mut self, channel: &str) {
        if self.is_held(channel) || self.causes.contains_key(channel) || defect!(ChatsStayLoaded) {
            return;
        }
        self.evict(channel);
    }

    /// Evicts an idle chat from memory.
    pub(super) fn evict(&mut self, channel: &str) {
        if !self.is_idle_chat(channel) {
            return;
        }
        self.save(channel);
        if let Some(known) = self.channels.get_mut(channel) {
            known.state = None;
        }
        milestone!("toolcall.host.evicted", channel);
    }

    fn is_idle_chat(&self, channel: &str) -> bool {
        matches!(self.state(channel), Some(SnapshotState::Chat(state)) if state.active_turn.is_none())
    }

    /// Saves a channel to the archive.
    pub(super) fn save(&mut self, channel: &str) {
        let Some(known) = self.channels.get(channel) else { return };
        let Some(mut state) = known.state.clone() else { return };
        match &mut state {
            SnapshotState::Session(session) => {
                session.active_clients.clear();
                // A chat is saved without the turn in progress.
                let entries = session.chats.iter_mut();
                entries.for_each(|entry| entry.status = chat::at_rest(entry.status));
            }
            SnapshotState::Chat(chat) if chat.active_turn.is_none() => {}
            _ => return,
        }
        let stored = Stored { session: known.session.clone(), state };
        self.push_effect(HostEffect::Save(channel.to_owned(), Box::new(stored)));
    }

    /// Adds a session.
    pub(super) fn add_session(&mut self, name: &str, provider: &str) {
        let state = session::new(provider, name);
        self.add_channel(name, SnapshotState::Session(Box::new(state)), None);
    }

    /// Adds a chat.
    pub(super) fn add_chat(&mut self, chat: ChatState, session: &str) {
        let name = chat.resource.clone();
        self.add_channel(&name, SnapshotState::Chat(Box::new(chat)), Some(session.to_owned()));
        // The bug: those who watch the session get the actions of the chat.
        if defect!(NewChatsHaveSubscribers) {
            self.subscribe_watchers(session, &name);
        }
    }

    /// Adds a channel. The next action announces it.
    fn add_channel(&mut self, name: &str, state: SnapshotState, session: Option<String>) {
        let channel = Channel { made: self.seq + 1, ..Channel::of(state, session) };
        self.channels.insert(name.to_owned(), channel);
        self.save(name);
    }

    /// Removes a channel and all its subscriptions. Requests that wait for it get the answer that
    /// it does not exist.
    pub(super) fn remove_channel(&mut self, channel: &str, now: Instant) {
        milestone!("toolcall.host.removed", channel);
        let removed = self.channels.remove(channel).and_then(|removed| removed.state);
        self.causes.remove(channel);
        self.push_effect(HostEffect::Forget(channel.to_owned()));
        if let Some(turn) = self.turns.remove(channel) {
            if let Some(SnapshotState::Chat(chat)) = removed {
                self.keep_call_outcomes(channel, &turn.id, &chat);
            }
            self.push_effect(HostEffect::Stop { chat: channel.to_owned(), turn: turn.id });
        }
        // A client may be waiting to create a session with this name; that is refused while the
        // channel is being removed.
        self.refuse_waiting_sessions(channel);
        self.settle(channel, now);
        let subscribers = self.transports.values_mut();
        for transport in subscribers.filter(|_| !defect!(RemovedChannelsHaveSubscribers)) {
            transport.forget(channel);
        }
    }

    /// Updates the chat's entry in its session.
    pub(super) fn update_chat_entry(
        &mut self,
        chat: &str,
        status: u32,
        modified_at: String,
        now: Instant,
    ) -> bool {
        let Some(session) = self.channels.get(chat).and_then(|chat| chat.session.clone()) else {
            return false;
        };
        let Some(SnapshotState::Session(state)) = self.state(&session) else { return false };
        let Some(before) = state.chats.iter().find(|known| known.resource == chat) else {
            return false;
        };
        let (same_status, same_time) = (before.status == status, before.modified_at == modified_at);
        if same_status && same_time
            || (same_status || same_time) && defect!(EntryChangesWithItsTime)
        {
            return false;
        }
        let changes = PartialChatSummary {
            status: Some(status),
            modified_at: Some(modified_at),
            ..PartialChatSummary::default()
        };
        let action = StateAction::SessionChatUpdated(SessionChatUpdatedAction {
            chat: chat.to_owned(),
            changes,
        });
        self.apply(&session, action, None, now).expect("the chat is in its session's list");
        true
    }

    /// Answers the pending requests for a subscription after its channel was restored or found
    /// missing.
    fn settle_subscription(&mut self, conn: ConnId, channel: &str, there: bool, now: Instant) {
        let Some(transport) = self.transports.get_mut(&conn) else { return };
        let Some(Subscription::Pending(ids)) = transport.subscriptions.get_mut(channel) else {
            return;
        };
        let ids = std::mem::take(ids);
        for id in ids {
            self.answer_subscribe(conn, id, channel, there, now);
        }
        if defect!(CancelledCleansNewer) {
            self.clean_cancelled(conn, channel);
        }
    }
}

/// Returns the chats in the list of a session.
fn chats_in(state: &SnapshotState) -> Vec<String> {
    match state {
        SnapshotState::Session(session) => {
            session.chats.iter().map(|chat| chat.resource.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// Removal of channels that never existed.
trait Catalog {
    fn remove_if_unknown(&mut self, channel: &str);
}

impl Catalog for std::collections::BTreeMap<String, Channel> {
    fn remove_if_unknown(&mut self, channel: &str) {
        let unknown = |known: &Channel| {
            known.state.is_none() && known.session.is_none() && known.restoring.is_none()
        };
        if self.get(channel).is_some_and(unknown) {
            self.remove(channel);
        }
    }
}
