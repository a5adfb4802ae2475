//! The view of a window's user on the watched channels: records the agents' words, and notes
//! changes of calls and channels, from the state that the host confirmed. The observer works with
//! any client that has that state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::agent::{ASIDE, OVER};
use super::digests::digest;
use super::notes::{Became, By, OfCall, OfChannel, Status};
use super::setup::SESSION;
use crate::history::{Call, Stream};
use crate::subject::Recorder;
use reknit_toolcall::state::call;
use reknit_toolcall::wire::SnapshotState;
use reknit_toolcall::wire::ahp::state::{ChatState, ResponsePart, SessionState, ToolCallState};

/// The state that a user has seen of the watched channels. A reloaded window has a new observer.
pub struct Observer {
    record: Recorder,
    /// The client with which the user is active in the session.
    client: String,
    all: Mutex<BTreeMap<String, Seen>>,
}

/// The state that the user has seen of a channel.
#[derive(Default)]
struct Seen {
    /// The state at the last look.
    state: Option<SnapshotState>,
    /// The number of the client's copy at the last look.
    copy: Option<u64>,
    /// Whether the state changed since its digest was last recorded.
    is_changed: bool,
    /// The turns that are open for the user, with the text read of each.
    open: BTreeMap<String, String>,
    /// The turns that ended for the user.
    over: BTreeSet<String>,
    /// The status of each call at the last look.
    calls: BTreeMap<String, Status>,
    title: Option<String>,
    chats: BTreeSet<String>,
    /// Whether the user's client is active in the session.
    takes_part: bool,
    /// The calls whose subscriptions are not answered.
    asked: BTreeSet<Call>,
    /// Whether the user has watched the channel since the window was opened.
    is_first: bool,
    /// The turns of other chats that the window showed in this one.
    foreign: BTreeSet<String>,
}

/// A call that waits for the user's consent.
pub struct WaitingCall {
    /// The chat.
    pub chat: String,
    /// The turn in it.
    pub turn: String,
    /// The call in that turn.
    pub call: String,
    /// The called tool.
    pub tool: String,
    /// The client that will run it.
    pub owner: String,
}

impl Observer {
    /// Creates the observer of a client's user, which writes to `record`.
    pub fn new(record: Recorder, client: impl Into<String>) -> Self {
        Self { record, client: client.into(), all: Mutex::default() }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channels that the user watches.
    pub(super) fn channels(&self) -> Vec<String> {
        self.all().keys().cloned().collect()
    }

    /// Whether the user watches a channel.
    pub(super) fn watches(&self, channel: &str) -> bool {
        self.all().contains_key(channel)
    }

    /// Whether the user has watched a channel since the window was opened, without a break.
    pub(super) fn watches_from_start(&self, channel: &str) -> bool {
        self.all().get(channel).is_some_and(|seen| seen.is_first)
    }

    /// Starts to watch a channel as the window is opened.
    pub fn watch(&self, channel: &str) {
        self.all().entry(channel.to_owned()).or_default().is_first = true;
    }

    /// Notes that the user subscribes to a channel. The channel stays watched even if an earlier
    /// one of the same name is removed in the meantime.
    pub(super) fn ask(&self, channel: &str, by: Call) {
        self.all().entry(channel.to_owned()).or_default().asked.insert(by);
    }

    /// Notes that a subscription was answered. Returns whether the user watches the channel because
    /// of it: not if the user stopped watching in the meantime, even if a later call watches again.
    pub(super) fn answered(&self, channel: &str, by: Call) -> bool {
        self.all().get_mut(channel).is_some_and(|seen| seen.asked.remove(&by))
    }

    /// Notes that a subscription failed: the user stops watching the channel, unless another
    /// subscription to it is not answered yet.
    pub(super) fn refused(&self, channel: &str, by: Call) {
        let is_ours = self.answered(channel, by);
        let is_last = self.all().get(channel).is_some_and(|seen| seen.asked.is_empty());
        if is_ours && is_last {
            self.let_go(channel, by);
        }
    }

    /// Stops watching a channel.
    pub fn let_go(&self, channel: &str, by: Call) {
        let Some(seen) = self.all().remove(channel) else { return };
        self.give_up(&seen, by);
        if seen.state.is_some() {
            OfChannel::Unsubscribed.note(&self.record, channel);
        }
    }

    /// The active turn of a chat, as the user sees it.
    pub(super) fn turn_in(&self, chat: &str) -> Option<String> {
        match self.all().get(chat)?.state.as_ref()? {
            SnapshotState::Chat(state) => state.active_turn.as_ref().map(|turn| turn.id.clone()),
            _ => None,
        }
    }

    /// Reads the confirmed states of all channels. Returns the calls that begin to wait for a
    /// consent, and whether a digest must be recorded later.
    pub fn observe(
        &self,
        confirmed: impl Fn(&str) -> Option<SnapshotState>,
    ) -> (Vec<WaitingCall>, bool) {
        self.observe_copies(|channel| confirmed(channel).map(|state| (0, state)))
    }

    /// Does the same for a client that numbers its copies of channels: the user notices that a channel
    /// was removed although another one of the same name has arrived since the last look.
    pub(super) fn observe_copies(
        &self,
        copy: impl Fn(&str) -> Option<(u64, SnapshotState)>,
    ) -> (Vec<WaitingCall>, bool) {
        let (mut waits, mut is_changed) = (Vec::new(), false);
        let mut gone = Vec::new();
        for (channel, seen) in self.all().iter_mut() {
            let (number, state) = copy(channel).unzip();
            if seen.state.is_some() && state.is_some() && number != seen.copy {
                OfChannel::Removed.note(&self.record, channel);
                self.give_up(seen, Call::NONE);
                let (asked, is_first) = (std::mem::take(&mut seen.asked), seen.is_first);
                *seen = Seen { asked, is_first, ..Seen::default() };
            }
            if state == seen.state {
                is_changed |= seen.is_changed;
                continue;
            }
            match &state {
                None => gone.push(channel.clone()),
                Some(state) => {
                    let note =
                        if seen.state.is_none() { OfChannel::Received } else { OfChannel::Changed };
                    if seen.state.is_none() || !seen.is_changed {
                        note.note(&self.record, channel);
                    }
                    self.read(channel, state, seen, &mut waits);
                }
            }
            (seen.state, seen.copy) = (state, number);
            (seen.is_changed, is_changed) = (true, true);
        }
        gone.iter().for_each(|channel| self.remove_channel(channel));
        (waits, is_changed)
    }

    /// Reads what the window shows of all chats, with the actions that the host has not confirmed. A user
    /// notices a turn of another chat. `chat_of`: the chat of a turn.
    pub(super) fn read_views(
        &self,
        shown: impl Fn(&str) -> Option<SnapshotState>,
        chat_of: impl Fn(&str) -> String,
    ) {
        for (channel, seen) in self.all().iter_mut() {
            let Some(SnapshotState::Chat(chat)) = shown(channel) else { continue };
            let foreign = chat.active_turn.filter(|turn| chat_of(&turn.id) != *channel);
            if let Some(turn) = foreign.filter(|turn| seen.foreign.insert(turn.id.clone())) {
                OfChannel::ShowsForeignTurn(turn.id).note(&self.record, channel);
            }
        }
    }

    /// Records the digests of the changed channels.
    pub fn record_digests(&self) {
        self.record_digests_as_of(None);
    }

    /// Does the same for a client that knows the number of the last action that it saw.
    pub(super) fn record_digests_as_of(&self, number: Option<u64>) {
        for (channel, seen) in self.all().iter_mut().filter(|(_, seen)| seen.is_changed) {
            seen.is_changed = false;
            let digest = seen.state.as_ref().map(digest).unwrap_or_default();
            let contents = None;
            OfChannel::Stable { second: false, digest, contents, number }
                .note(&self.record, channel);
        }
    }

    /// Notes that a channel no longer exists.
    fn remove_channel(&self, channel: &str) {
        let Some(seen) = self.all().remove(channel) else { return };
        OfChannel::Removed.note(&self.record, channel);
        self.give_up(&seen, Call::NONE);
        if !seen.asked.is_empty() {
            let Seen { asked, is_first, .. } = seen;
            self.all().insert(channel.to_owned(), Seen { asked, is_first, ..Seen::default() });
        }
    }

    /// Records that the user gave up the open turns of a channel.
    fn give_up(&self, seen: &Seen, by: Call) {
        seen.open
            .keys()
            .for_each(|turn| self.record.gave_up(Some(&Stream::from(turn.as_str())), by));
    }

    fn read(
        &self,
        channel: &str,
        state: &SnapshotState,
        seen: &mut Seen,
        waits: &mut Vec<WaitingCall>,
    ) {
        match state {
            SnapshotState::Session(session) => self.read_session(session, seen),
            SnapshotState::Chat(chat) => self.read_chat(channel, chat, seen, waits),
            _ => {}
        }
    }

    fn read_session(&self, session: &SessionState, seen: &mut Seen) {
        if seen.title.as_ref() != Some(&session.title) {
            OfChannel::Title(session.title.clone()).note(&self.record, SESSION);
            seen.title = Some(session.title.clone());
        }
        let chats: BTreeSet<String> =
            session.chats.iter().map(|chat| chat.resource.clone()).collect();
        chats
            .difference(&seen.chats)
            .for_each(|chat| OfChannel::ContainsChat(chat.clone()).note(&self.record, SESSION));
        seen.chats = chats;
        let takes_part =
            session.active_clients.iter().any(|active| active.client_id == self.client);
        if takes_part != seen.takes_part {
            OfChannel::Joined(takes_part).note(&self.record, SESSION);
            seen.takes_part = takes_part;
        }
    }

    fn read_chat(
        &self,
        name: &str,
        chat: &ChatState,
        seen: &mut Seen,
        waits: &mut Vec<WaitingCall>,
    ) {
        let mut known = BTreeSet::new();
        for turn in &chat.turns {
            known.insert(turn.id.clone());
            if seen.over.contains(&turn.id) {
                continue;
            }
            self.read_turn(name, &turn.id, &turn.response_parts, seen, waits);
            self.record.completed(&Stream::from(turn.id.as_str()), OVER);
            seen.open.remove(&turn.id);
            seen.over.insert(turn.id.clone());
        }
        if let Some(turn) = &chat.active_turn {
            known.insert(turn.id.clone());
            self.read_turn(name, &turn.id, &turn.response_parts, seen, waits);
        }
        let lost: Vec<String> =
            seen.open.keys().filter(|turn| !known.contains(*turn)).cloned().collect();
        for turn in lost {
            seen.open.remove(&turn);
            self.record
                .failed_stream(&Stream::from(turn.as_str()), "the host no longer knows the turn");
        }
    }

    fn read_turn(
        &self,
        chat: &str,
        turn: &str,
        parts: &[ResponsePart],
        seen: &mut Seen,
        waits: &mut Vec<WaitingCall>,
    ) {
        let stream = Stream::from(turn);
        let wording: String = parts.iter().filter_map(wording).collect();
        let earlier = seen.open.get(turn);
        if earlier.is_some_and(|read| !wording.starts_with(read.as_str())) {
            // A restarted host began the turn again. Any other text that does not extend the text
            // so far is a violation: the host did not die, or no agent said the whole text.
            self.record.failed_stream(&stream, "the text of the turn began again");
            seen.open.remove(turn);
        }
        let read = seen.open.entry(turn.to_owned()).or_insert_with(|| {
            self.record.opened(&stream, Call::NONE);
            String::new()
        });
        let news = &wording[read.len()..];
        if !news.is_empty() {
            self.record.delivered(&stream, news.to_owned(), None);
        }
        *read = wording;
        for state in parts.iter().filter_map(called) {
            let (id, status) = (call::id(state).to_owned(), status(state));
            if seen.calls.insert(format!("{turn} {id}"), status) == Some(status) {
                continue;
            }
            OfCall { by: By::User, call: id.clone(), what: Became::Is(status) }
                .note(&self.record, &stream);
            if let ToolCallState::PendingConfirmation(pending) = state {
                let owner = call::owner(state).unwrap_or_default().to_owned();
                let (chat, turn, tool) =
                    (chat.to_owned(), turn.to_owned(), pending.tool_name.clone());
                waits.push(WaitingCall { chat, turn, call: id, tool, owner });
            }
        }
    }
}

fn wording(part: &ResponsePart) -> Option<&str> {
    match part {
        ResponsePart::Markdown(part) if part.content.starts_with(ASIDE) => None,
        ResponsePart::Markdown(part) => Some(&part.content),
        _ => None,
    }
}

fn called(part: &ResponsePart) -> Option<&ToolCallState> {
    match part {
        ResponsePart::ToolCall(part) => Some(&part.tool_call),
        _ => None,
    }
}

/// The calls of a chat's active turn, with their statuses.
pub(super) fn statuses(chat: &ChatState) -> Vec<(String, String, Status)> {
    let turn = chat.active_turn.iter();
    let calls = turn.flat_map(|turn| {
        turn.response_parts.iter().filter_map(called).map(move |state| (turn, state))
    });
    calls
        .map(|(turn, state)| (turn.id.clone(), call::id(state).to_owned(), status(state)))
        .collect()
}

/// The status of a call.
fn status(state: &ToolCallState) -> Status {
    match state {
        ToolCallState::Streaming(_) => Status::Streaming,
        ToolCallState::PendingConfirmation(_) => Status::ToBeConfirmed,
        ToolCallState::Running(_) => Status::Running,
        ToolCallState::Completed(done) if done.success => Status::Completed,
        ToolCallState::Completed(_) => Status::Failed,
        ToolCallState::Cancelled(_) => Status::Cancelled,
        _ => Status::SomethingElse,
    }
}
