//! `states_are_true`: each field of the states that the host has is what the outside world says.
//!
//! Host and windows apply actions by the same rules, so `replicas_converge` finds no mistake in the
//! rules. This property compares the states in the memory of the host with a model: the storage, the
//! users' operations, the agents, the tools, and the users' replies.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::chats::untrue_chat;
use super::facts::MS;
use super::story::{Story, window};
use crate::history::{EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Phrase, Violation};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::archive::PROVIDER;
use crate::subjects::toolcall::notes::OfChannel;
use crate::subjects::toolcall::setup::{self, SESSION};
use reknit_toolcall::state::session;
use reknit_toolcall::wire::SnapshotState;
use reknit_toolcall::wire::ahp::state::{RootState, SessionState, SessionStatus};

kinds! {
    pub(super) STATES_ARE_TRUE;
    UNTRUE = "untrue": "{subject:}in the state that the host has, {what} {moment}";
}

// Parts of that message: what is wrong.
kinds! {
    DIFFERS = "differs": "{field} is {value} instead of {truth}";
    WRONG = "wrong": "{field} is wrong: {value}";
}

/// A field that is not what the model says.
pub(super) fn differs(field: &str, value: &str, truth: &str) -> Option<Phrase> {
    (value != truth).then(|| Phrase::new(&DIFFERS, fields! { field, value, truth }))
}

/// A field with a value that is wrong in any case.
pub(super) fn wrong(field: &str, value: &str) -> Phrase {
    Phrase::new(&WRONG, fields! { field, value })
}

/// See the module.
pub(super) fn states_are_true(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) || story.has_no_window() {
        return Vec::new();
    }
    let mut model = Model::new(story);
    let mut found = Vec::new();
    for event in judged(story.cx) {
        match &event.what {
            EventKind::Observed { stream, saw } => {
                let Some(note) = saw.downcast_ref::<OfChannel>() else { continue };
                let what = model.pass(&stream.0, note, event.at);
                let violation = |what| {
                    let data = fields! { what };
                    Violation::new("states_are_true", &*stream.0, event.at, &UNTRUE, data)
                };
                found.extend(what.filter(|_| !model.is_held(event.at)).map(violation));
            }
            EventKind::Died { .. } if story.cx.servers.contains(&host(event)) => model.died(),
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// The states of the host, as the outside world reports them.
struct Model<'s, 'a> {
    story: &'s Story<'a>,
    /// The chats of the session, and the one that is its default.
    chats: BTreeSet<String>,
    default: DefaultChat<'a>,
    /// The sessions in the memory of the host, with the time of the note.
    sessions: BTreeMap<&'a str, Time>,
    /// The last state of the main session in the memory of the host.
    held: Option<&'a SessionState>,
}

/// The default chat of the session: its first chat, while that exists.
#[derive(Clone, Copy, PartialEq)]
enum DefaultChat<'a> {
    Is(Option<&'a str>),
    /// The host was restarted, and a power loss may have undone its last writes.
    Unknown,
}

impl<'a> Model<'_, 'a> {
    fn new<'s>(story: &'s Story<'a>) -> Model<'s, 'a> {
        Model {
            story,
            chats: setup::chats(story.cx.plan).into_iter().collect(),
            default: DefaultChat::Is(None),
            sessions: BTreeMap::new(),
            held: None,
        }
    }

    /// Returns whether a fault held a task of the host, so that its agents and its storage may be late.
    fn is_held(&self, at: Time) -> bool {
        let Self { story, .. } = self;
        story.cx.servers.iter().any(|server| story.is_held(server, at.before(story.moment()), at))
    }

    /// Counts a comparison, unless a fault excuses its result.
    fn judges(&self, at: Time) {
        if !self.is_held(at) {
            self.story.cx.judges("states_are_true");
        }
    }

    fn died(&mut self) {
        self.default = DefaultChat::Unknown;
        self.sessions.clear();
    }

    fn pass(&mut self, channel: &'a str, note: &'a OfChannel, at: Time) -> Option<Phrase> {
        match note {
            OfChannel::Stored | OfChannel::Deleted if channel == SESSION => self.renew(),
            OfChannel::Stored | OfChannel::Deleted if setup::is_session(channel) => {}
            OfChannel::Stored => {
                if self.chats.is_empty() && self.default != DefaultChat::Unknown {
                    self.default = DefaultChat::Is(Some(channel));
                }
                self.chats.insert(channel.to_owned());
            }
            OfChannel::Deleted => {
                self.chats.remove(channel);
                if self.default == DefaultChat::Is(Some(channel)) {
                    self.default = DefaultChat::Is(None);
                }
            }
            OfChannel::Stable { contents: Some(contents), .. } => match contents.state() {
                SnapshotState::Root(root) => return self.root(root, at),
                SnapshotState::Session(session) => {
                    self.sessions.insert(channel, at);
                    self.held = Some(&**session).filter(|_| channel == SESSION).or(self.held);
                    self.judges(at);
                    return self.session(channel, session, at);
                }
                SnapshotState::Chat(chat) => {
                    self.judges(at);
                    return untrue_chat(self.story, channel, chat, at);
                }
                _ => {}
            },
            OfChannel::Announced(summary) => {
                self.judges(at);
                let truth = json!({ "resource": channel, "provider": PROVIDER, "title": channel, "status": "idle" });
                return (*summary != truth).then(|| wrong("an announcement", &summary.to_string()));
            }
            OfChannel::Lists { chats, stored: Some(stored) } => {
                if let SnapshotState::Session(stored) = stored.state() {
                    self.judges(at);
                    return self.stored(chats, stored);
                }
            }
            _ => {}
        }
        None
    }

    /// The session begins or ends: it has no chats.
    fn renew(&mut self) {
        self.chats.clear();
        self.default = DefaultChat::Is(None);
    }

    fn root(&self, root: &RootState, at: Time) -> Option<Phrase> {
        let RootState { agents, active_sessions, terminals, config, meta } = root;
        // A session that begins or ends in this millisecond may count.
        let (before, existence) = (at.before(MS), &self.story.existence);
        let others = || setup::SESSIONS.into_iter().filter(|session| *session != SESSION);
        let lasts = |session: &&str| existence.throughout(session, before, at).is_some();
        let least = others().filter(lasts).count();
        let most = others().filter(|session| existence.at_all(session, before, at)).count();
        let asks = |verb: &str| self.story.asked.values().any(|asked| asked.verb() == verb);
        if asks("create-session") && !self.story.deaths.is_empty() {
            return None; // a restarted host does not count the sessions that it has not restored
        }
        self.judges(at);
        let own = self.sessions.values().filter(|noted| **noted == at).count();
        let providers: Vec<&str> = agents.iter().map(|agent| agent.provider.as_str()).collect();
        let counted = active_sessions.map_or("missing".to_owned(), |n| n.to_string());
        let is_true = (least..=most).any(|others| counted == (others + own).to_string());
        let sessions = (most + own).to_string();
        let number = differs("the number of sessions", &counted, &sessions);
        number
            .filter(|_| !is_true)
            .or_else(|| differs("the kind of agent", &providers.join(", "), PROVIDER))
            .or_else(|| {
                let others = terminals.is_some() || config.is_some() || meta.is_some();
                others.then(|| wrong("an unused field", "set"))
            })
    }

    fn session(&self, name: &str, session: &SessionState, at: Time) -> Option<Phrase> {
        let plain = SessionState {
            title: session.title.clone(),
            active_clients: session.active_clients.clone(),
            chats: session.chats.clone(),
            default_chat: session.default_chat.clone(),
            ..session::new(PROVIDER, name)
        };
        let renames = self.story.asked.values().any(|asked| asked.verb() == "rename");
        if *session != plain {
            return Some(wrong("a field that no action changes", "changed"));
        }
        let default = session.default_chat.as_deref();
        let title = (!renames).then(|| differs("the title", &session.title, name)).flatten();
        title
            .or_else(|| match self.default {
                DefaultChat::Is(truth) if name == SESSION => differs(
                    "the default chat",
                    default.unwrap_or("missing"),
                    truth.unwrap_or("missing"),
                ),
                _ => None,
            })
            .or_else(|| {
                let is_listed = |chat: &str| session.chats.iter().any(|it| it.resource == chat);
                let ghost = default.filter(|chat| !is_listed(chat));
                ghost.map(|chat| wrong("the default chat", chat))
            })
            .or_else(|| self.entries(session))
            .or_else(|| self.clients(session, at))
    }

    /// The entries of chats, as far as they do not follow from the chats in memory.
    fn entries(&self, session: &SessionState) -> Option<Phrase> {
        let statuses = [SessionStatus::Idle, SessionStatus::InProgress, SessionStatus::InputNeeded];
        session.chats.iter().find_map(|entry| {
            let title = differs("the title of an entry", &entry.title, &entry.resource);
            title.or_else(|| {
                let is_possible = statuses.iter().any(|status| status.bits() == entry.status);
                (!is_possible).then(|| wrong("the status of an entry", &entry.status.to_string()))
            })
        })
    }

    /// The active clients: each once, with the tools that its window offers.
    fn clients(&self, session: &SessionState, at: Time) -> Option<Phrase> {
        let mut seen = BTreeSet::new();
        session.active_clients.iter().find_map(|active| {
            let id = active.client_id.as_str();
            let tools: Vec<&str> = active.tools.iter().map(|tool| tool.name.as_str()).collect();
            let offered = setup::tools_of(self.story.cx.plan, window(id)).into_iter();
            let mut offered: Vec<String> = offered.map(|(name, _)| name).collect();
            offered.sort();
            let twice = (!seen.insert(id)).then(|| wrong("an active client", id));
            let never = || {
                let is_known = self.story.of_client(id, at).next().is_some();
                (!is_known).then(|| wrong("an active client", id))
            };
            let outlives =
                || self.outlives(id, at).then(|| wrong("a place of an absent client", id));
            twice.or_else(never).or_else(outlives).or_else(|| {
                differs("the tools of an active client", &tools.join(", "), &offered.join(", "))
            })
        })
    }

    /// Returns whether the host must have noticed that the grace period of an absent client is over, so that
    /// the client has no place any more.
    fn outlives(&self, client: &str, at: Time) -> bool {
        let Self { story, .. } = self;
        story.away_since(client, at).is_some_and(|away| {
            let grace = story.later(away, story.host_limits.grace);
            story.later(story.no_handshake(client, grace), story.moment()) < at
        })
    }

    /// The session in the storage: the same chats as in memory, and nothing that ends with the host.
    fn stored(&self, listed: &[String], stored: &SessionState) -> Option<Phrase> {
        let chats: Vec<&str> = stored.chats.iter().map(|entry| entry.resource.as_str()).collect();
        let active = stored.active_clients.first().map_or("none", |active| &active.client_id);
        let is_at_rest = |status: u32| status == SessionStatus::Idle.bits();
        let busy = stored.chats.iter().find(|entry| !is_at_rest(entry.status));
        let default = stored.default_chat.as_deref().unwrap_or("missing");
        let died = self.default == DefaultChat::Unknown;
        let untrue_copy = || self.held.and_then(|held| untrue_copy(held, stored, died));
        differs("the list of chats in the storage", &chats.join(", "), &listed.join(", "))
            .or_else(|| differs("an active client in the storage", active, "none"))
            .or_else(|| busy.map(|entry| wrong("the status of a stored entry", &entry.resource)))
            .or_else(untrue_copy)
            .or_else(|| match self.default {
                DefaultChat::Is(truth) => {
                    differs("the default chat in the storage", default, truth.unwrap_or("missing"))
                }
                DefaultChat::Unknown => None,
            })
    }
}

/// A difference between the session in the memory of the host and the one in its storage. A chat is
/// stored without the turn in progress. A restarted host corrects the entry of a chat whose turn it
/// lost, and stores that with the next change.
fn untrue_copy(held: &SessionState, stored: &SessionState, died: bool) -> Option<Phrase> {
    let is_at_rest = |status: u32| status == SessionStatus::Idle.bits() && !died;
    let at_rest = held.chats.iter().filter(|entry| is_at_rest(entry.status));
    let mut both = at_rest.filter_map(|entry| {
        let copy = stored.chats.iter().find(|copy| copy.resource == entry.resource)?;
        Some((&copy.modified_at, &entry.modified_at))
    });
    differs("the title in the storage", &stored.title, &held.title).or_else(|| {
        both.find_map(|(copy, entry)| differs("the time of a stored entry", copy, entry))
    })
}
