//! `refusals_are_true`: a refusal gives a reason that is true, or a limit is reached.
//!
//! The property compares refusals with the outside world: the channels in the host's storage, the
//! turns of the agents, the requests of users, and the limits of the run. A refusal whose call the
//! host may have received before it died is not judged. `client_comes_back` judges the refusal of a
//! client without a token, `authority` and `claims_are_checked` judge what must be refused.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{CallStory, MS, UserOperation, text};
use super::room::StatesAsked;
use super::story::{Story, window};
use crate::history::{Answer, Call, Data, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Phrase, Violation, ViolationFields};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::records;
use crate::subjects::toolcall::answers::{Reason, coded, reason, wants_a_token};
use crate::subjects::toolcall::claim::OF_A_KNOWN_CLIENT;
use crate::subjects::toolcall::notes::Status;
use crate::subjects::toolcall::setup::{self, SESSION};
use reknit_toolcall::wire::{ROOT, code};

kinds! {
    pub(super) REFUSALS_ARE_TRUE;
    REFUSED = "refused": "{subject:}it was refused ({answer}), although {truth} {moment}";
    CODE = "code": "{subject:}it was refused ({answer}) with the code {code}, and not with {truth} {moment}";
    REPLY = "reply": "{subject:}the reply of a user was refused ({why}), although {call} waited for it {moment}";
    RETURN = "return": "{subject:}the host did not know the client, although it accepted the client at {since} {moment}";
}

// Parts of these messages: what is true instead.
kinds! {
    IS_THERE = "is-there": "{channel} existed since {since}";
    NOT_THERE = "not-there": "no session existed";
    NO_TURN = "no-turn": "no turn was in progress in {chat}";
    A_TURN = "a-turn": "a turn was in progress in {chat}";
    NEW_TURN = "new-turn": "no turn of that name had begun";
    NO_LIMIT = "no-limit": "no limit was reached";
    STILL_WANTED = "still-wanted": "its user did not unsubscribe";
    KNOWN = "known": "the host knew the client";
    GOOD_TOKEN = "good-token": "the token was right, or there was none";
}

/// More requests and actions than a client makes by itself: tokens, joins, results and replies.
const OWN_REQUESTS: usize = 64;

/// The reason of a refusal that needs a turn in progress.
const TURN_IS_OVER: &str = "the turn is not in progress";

/// The reason of a refusal of a reply to a call that needs no reply any more.
const NEEDS_NO_REPLY: &str = "the call does not wait for a confirmation";

/// See the module.
pub(super) fn refusals_are_true(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let outcomes = outcomes(story);
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let EventKind::Answered { call, answer: answer @ Answer::Refused(why) } = &event.what
        else {
            continue;
        };
        found.extend(wrong_code(story, why).map(|(code, truth)| {
            let data = fields! { answer, code: code.to_string(), truth: truth.to_string() };
            Violation::new("refusals_are_true", *call, event.at, &CODE, data)
        }));
        let (Some(asked), Some(why)) = (story.asked.get(call), reason(why)) else { continue };
        let refusal = Refusal { story, outcomes: &outcomes, call: *call, asked, why, at: event.at };
        let truth = if wants_a_token(answer) { None } else { refusal.contradiction() };
        found.extend(truth.map(|truth| {
            let data = fields! { answer, truth };
            Violation::new("refusals_are_true", *call, event.at, &REFUSED, data)
        }));
    }
    found.extend(story.calls.iter().filter_map(|call| refused_reply(story, call)));
    found.extend(refused_returns(story));
    found.truncate(5);
    found
}

/// The refusals of requests, with the codes that the protocol has for them. A client hides the text if
/// something does not exist, so with the right code none of the last ones is seen.
const CODES: &[(i64, &[&str])] = &[
    (
        code::INVALID_PARAMS,
        &[
            "invalid chat name",
            "invalid session name",
            "a new chat must be empty",
            "too many subscriptions, or an invalid name",
        ],
    ),
    (
        code::INVALID_REQUEST,
        &["too many pending requests for this channel", "a newer connection has sent a token"],
    ),
    (code::AUTH_REQUIRED, &["the token is invalid"]),
    (code::EXISTS, &["a channel with that name already exists"]),
    (code::SESSION_EXISTS, &["a session with that name already exists"]),
    (
        code::CONFLICT,
        &[
            "there are too many chats",
            "there are too many sessions",
            "the channel is full",
            "it is being made",
            "it is unknown whether a channel with that name exists",
            "it is unknown whether a session with that name exists",
        ],
    ),
    (code::NOT_FOUND, &["there is no such channel", "there is no such chat", "unsubscribed"]),
    (
        code::SESSION_NOT_FOUND,
        &["there is no such session", "the session of the chat does not exist"],
    ),
];

/// If the code of a refusal does not belong to its text, returns the code and the right one.
fn wrong_code(story: &Story<'_>, why: &Data) -> Option<(i64, i64)> {
    let (code, text) = coded(why)?;
    let (truth, _) = CODES.iter().find(|(_, texts)| texts.contains(&text))?;
    story.cx.judges("refusals_are_true");
    (code != *truth).then_some((code, *truth))
}

/// The outcome of a call.
#[derive(Clone, Copy)]
struct Outcome {
    at: Time,
    /// Whether the host may still have the request: it failed, or its user gave it up.
    failed: bool,
}

fn outcomes(story: &Story<'_>) -> BTreeMap<Call, Outcome> {
    let outcomes = judged(story.cx).filter_map(|event| match &event.what {
        EventKind::Answered { call, answer } => {
            let failed = matches!(answer, Answer::GivenUp);
            Some((*call, Outcome { at: event.at, failed }))
        }
        EventKind::Failed { call, .. } => Some((*call, Outcome { at: event.at, failed: true })),
        _ => None,
    });
    outcomes.collect()
}

/// A refusal that a user received.
struct Refusal<'s, 'a> {
    story: &'s Story<'a>,
    outcomes: &'s BTreeMap<Call, Outcome>,
    call: Call,
    asked: &'s UserOperation<'a>,
    why: Reason<'a>,
    at: Time,
}

impl Refusal<'_, '_> {
    fn judges(&self) {
        self.story.cx.judges("refusals_are_true");
    }

    /// Returns the fact that contradicts the refusal, if there is one.
    fn contradiction(&self) -> Option<Phrase> {
        let may_be_forgotten =
            self.story.deaths.iter().any(|death| (self.asked.at..=self.at).contains(death));
        if may_be_forgotten {
            return None;
        }
        match self.why {
            Reason::Full if !self.has_room() => None,
            Reason::Full => {
                self.judges();
                Some(no_limit())
            }
            Reason::Unsubscribed if self.story.drops_large_channels() => None,
            Reason::Unsubscribed => {
                self.judges();
                (!self.is_cancelled())
                    .then(|| Phrase::new(&STILL_WANTED, ViolationFields::default()))
            }
            Reason::NoChannel | Reason::Text(_) => match self.asked.verb() {
                "watch" | "watch-twice" => self.watch(),
                "rename" => self.action(SESSION),
                "start-turn" => self.start_turn(),
                "cancel-turn" => self.cancel_turn(),
                "new-chat" if self.has_room_for_a_chat() => self.request_in(SESSION),
                "dispose-chat" | "remake-chat" => self.request(self.asked.field("chat")?),
                "dispose-session" => self.request_in(SESSION),
                "new-session" => self.new_session(SESSION),
                "create-session" => self.new_session(self.asked.field("name")?),
                "end-session" => self.request_in(self.asked.field("name")?),
                "claim" => self.claim(),
                "send-token" if self.asked.field("token") != Some("wrong") => {
                    self.judges();
                    Some(Phrase::new(&GOOD_TOKEN, ViolationFields::default()))
                }
                _ => None,
            },
        }
    }

    fn text(&self) -> &str {
        match self.why {
            Reason::Text(text) => text,
            _ => "",
        }
    }

    /// Returns the outcome of another operation, if the operation was in progress together with this
    /// one.
    fn overlaps(&self, call: Call, other: &UserOperation<'_>) -> Option<Option<Outcome>> {
        let outcome = self.outcomes.get(&call).copied();
        let overlaps = call != self.call
            && other.host == self.asked.host
            && other.at <= self.at
            && outcome.is_none_or(|outcome| outcome.at >= self.asked.at);
        overlaps.then_some(outcome)
    }

    /// Returns whether something else cancels the subscription of this operation: its user
    /// unsubscribes, or an older subscription to the channel fails, perhaps the one with which the
    /// window began.
    fn is_cancelled(&self) -> bool {
        let Refusal { story, asked, at, .. } = self;
        let channel = self.channel();
        let cancels = |call: Call, other: &UserOperation<'_>| {
            let Some(outcome) = self.overlaps(call, other) else { return false };
            let subscribes = other.field("chat").unwrap_or(SESSION) == channel;
            match other.verb() {
                "unwatch" => {
                    other.field("channel").is_some_and(|it| it == channel || it == SESSION)
                }
                "watch-twice" => subscribes,
                "watch" | "new-session" => {
                    subscribes && outcome.is_some_and(|outcome| outcome.failed)
                }
                "reload" => true,
                _ => false,
            }
        };
        let may_be_late = at.since(Time::ZERO) >= story.client_limits.request_deadline
            && !story.is_calm(asked.host, Time::ZERO, *at);
        may_be_late || story.asked.iter().any(|(call, other)| cancels(*call, other))
    }

    /// The channel that the operation subscribes to.
    fn channel(&self) -> &str {
        self.asked.field("chat").unwrap_or(SESSION)
    }

    fn is_there(&self, channel: &str, from: Time) -> Option<Phrase> {
        let since = self.story.existence.throughout(channel, from, self.at)?;
        Some(Phrase::new(&IS_THERE, fields! { channel, since }))
    }

    /// A subscription. A subscription to the session also joins it.
    fn watch(&self) -> Option<Phrase> {
        let channel = self.channel();
        let can_be_there = !self.story.restores_slowly(channel)
            && !self.story.drops_large_channels()
            && self.has_subscriptions()
            && self.has_requests()
            && (channel != SESSION || self.can_join());
        if !can_be_there {
            return None;
        }
        self.judges();
        self.is_there(channel, self.asked.at.before(MS))
    }

    /// An action on a channel that its user watched until after the refusal.
    fn action(&self, channel: &str) -> Option<Phrase> {
        let Refusal { story, asked, at, .. } = self;
        let look = story.watch_spans.iter().find(|look| {
            let is_it = look.host == asked.host && look.channel == channel;
            is_it && look.from < asked.at && look.to > *at
        })?;
        if story.restores_slowly(channel) || story.may_be_full() {
            return None;
        }
        self.judges();
        let since = story.present_since(look, *at)?;
        Some(Phrase::new(&IS_THERE, fields! { channel, since }))
    }

    fn start_turn(&self) -> Option<Phrase> {
        let turn = self.asked.field("turn")?;
        let chat = setup::turn(self.story.cx.plan, turn).chat;
        let existence = &self.story.existence;
        let mut begun = existence.turns_by(&chat, self.at);
        match self.text() {
            "another turn is in progress" => {
                self.judges();
                let is_busy = existence.turn_in(&chat, self.sees_since(), self.at)
                    || self.has_pending_start(&chat);
                (!is_busy).then(|| Phrase::new(&NO_TURN, fields! { chat: chat.as_str() }))
            }
            "a turn with that id already exists" => {
                self.judges();
                let is_new = !begun.any(|name| records::declared(name) == turn);
                is_new.then(|| Phrase::new(&NEW_TURN, ViolationFields::default()))
            }
            "the channel is full" if self.story.may_be_full() => None,
            "the channel is full" => {
                self.judges();
                (begun.count() < self.story.host_limits.turns).then(no_limit)
            }
            _ => self.action(&chat),
        }
    }

    fn cancel_turn(&self) -> Option<Phrase> {
        let chat = self.asked.field("chat")?;
        if self.text() != TURN_IS_OVER {
            return self.action(chat);
        }
        if self.has_pending_cancel(chat) {
            return None;
        }
        let (from, to) = (self.sees_since(), self.at + self.story.moment());
        if from == Time::ZERO {
            return None;
        }
        self.judges();
        let goes_on = self.story.existence.turn_throughout(chat, from, to);
        goes_on.then(|| Phrase::new(&A_TURN, fields! { chat }))
    }

    /// A request about the main session, or one of its chats.
    fn request(&self, channel: &str) -> Option<Phrase> {
        self.request_in(SESSION)?;
        self.is_there(channel, self.asked.at.before(MS))
    }

    /// A request about a session in the memory of the host, or about one of its chats.
    fn request_in(&self, session: &str) -> Option<Phrase> {
        let can_be_there = !self.story.may_be_full()
            && !self.story.restores_slowly(session)
            && self.is_loaded(session);
        if !can_be_there {
            return None;
        }
        self.judges();
        self.is_there(session, self.asked.at.before(MS))
    }

    /// The creation of a session. If it is the main one, the window also subscribes to it.
    fn new_session(&self, name: &str) -> Option<Phrase> {
        let Refusal { story, asked, at, .. } = self;
        match self.text() {
            "a session with that name already exists" => {
                self.judges();
                let exists = story.existence.at_all(name, asked.at, *at);
                (!exists).then(|| Phrase::new(&NOT_THERE, ViolationFields::default()))
            }
            "there are too many sessions" => {
                self.judges();
                (self.sessions().max(self.creations()) < story.host_limits.sessions).then(no_limit)
            }
            _ if name != SESSION => None,
            _ => {
                let has_room = self.has_subscriptions() && self.has_requests();
                if story.restores_slowly(SESSION) || !self.can_join() || !has_room {
                    return None;
                }
                self.judges();
                let since = story.existence.created_in(SESSION, asked.at, *at)?;
                let may_be_gone = story.existence.deleted_in(SESSION, asked.at, *at);
                (!may_be_gone).then(|| Phrase::new(&IS_THERE, fields! { channel: SESSION, since }))
            }
        }
    }

    /// The number of sessions that may have existed during the request.
    fn sessions(&self) -> usize {
        let all = setup::SESSIONS.into_iter();
        all.filter(|name| self.story.existence.at_all(name, self.asked.at, self.at)).count()
    }

    /// The number of other requests to create sessions that may have been in progress. The host may
    /// still have one whose connection was lost.
    fn creations(&self) -> usize {
        let is_creation = |verb: &str| ["new-session", "create-session"].contains(&verb);
        let in_progress = |call: &Call| {
            let outcome = self.outcomes.get(call);
            *call != self.call
                && outcome.is_none_or(|outcome| outcome.failed || outcome.at >= self.asked.at)
        };
        let others = self.story.asked.iter().filter(|(call, other)| {
            is_creation(other.verb()) && other.at <= self.at && in_progress(call)
        });
        others.count()
    }

    /// A returning client that the host accepted a moment ago.
    fn claim(&self) -> Option<Phrase> {
        let limits = &self.story.host_limits;
        let is_kept = self.at.since(self.asked.at) < limits.client_retention;
        let clients = self.story.attached.len() + self.story.asked.len();
        let is_known =
            self.asked.field("what").is_some_and(|what| OF_A_KNOWN_CLIENT.contains(&what))
                && is_kept
                && clients < limits.clients;
        if is_known {
            self.judges();
        }
        is_known.then(|| Phrase::new(&KNOWN, ViolationFields::default()))
    }

    /// The time since which the user can have seen the state of a chat: a moment ago if no fault
    /// ever touched the window. If states that the window asked for had not arrived, it is a moment before the
    /// first of these requests.
    fn sees_since(&self) -> Time {
        let Refusal { story, asked, at, .. } = self;
        let before = asked.at.before(story.moment() * 2);
        let mut own = story
            .attached
            .iter()
            .filter(|attached| window(attached.client) == asked.host && !attached.is_second());
        let is_current = own.any(|attached| attached.at < before && attached.is_live(asked.at));
        if !is_current || !story.is_calm(asked.host, Time::ZERO, *at) {
            return Time::ZERO;
        }
        let backlog = StatesAsked::of(story, asked.host).backlog(before);
        match backlog.filter(|(_, until)| *until > before) {
            Some((began, _)) => began.before(story.moment() * 2),
            None => before,
        }
    }

    /// Returns whether an earlier start of a turn in this chat had no outcome when the user asked.
    /// The window shows such a turn as if it were in progress.
    fn has_pending_start(&self, chat: &str) -> bool {
        let Refusal { story, outcomes, call, asked, .. } = self;
        let plan = story.cx.plan;
        let is_first = setup::first_turn(plan).is_some_and(|(name, first)| {
            let began = story.existence.turns_by(chat, asked.at);
            first.chat == chat && began.filter(|begun| *begun == name).count() == 0
        });
        let earlier = story.asked.range(..*call).filter(|(_, other)| {
            other.host == asked.host
                && other.verb() == "start-turn"
                && setup::turn(plan, other.field("turn").unwrap_or_default()).chat == chat
        });
        let is_pending =
            |call: &Call| outcomes.get(call).is_none_or(|outcome| outcome.at >= asked.at);
        is_first || earlier.map(|(call, _)| call).any(is_pending)
    }

    /// Returns whether an earlier cancellation of the turn in this chat had no outcome when the user
    /// asked. The window shows such a turn as if it had ended.
    fn has_pending_cancel(&self, chat: &str) -> bool {
        let Refusal { story, outcomes, call, asked, .. } = self;
        let mut earlier = story.asked.range(..*call).filter(|(earlier, other)| {
            story.window_of(**earlier) == story.window_of(*call)
                && other.verb() == "cancel-turn"
                && other.field("chat") == Some(chat)
        });
        earlier.any(|(call, _)| outcomes.get(call).is_none_or(|outcome| outcome.at > asked.at))
    }

    /// Returns whether a session is in the memory of the host: it was created in this incarnation of
    /// the host, or a window that watches it was accepted.
    fn is_loaded(&self, session: &str) -> bool {
        let Refusal { story, asked, .. } = self;
        let died = story.deaths.iter().filter(|death| **death <= asked.at).max();
        let since = died.map_or(Time::ZERO, |death| *death + story.moment());
        // A fault may delay data of a host until long after its death.
        let is_accepted = |host: &str, by: Time| {
            let mut own = story
                .attached
                .iter()
                .filter(|attached| window(attached.client) == host && !attached.is_second());
            own.any(|attached| died.is_none_or(|death| attached.at > *death) && attached.at <= by)
        };
        let was_created = || story.existence.created_in(session, since + MS, asked.at).is_some();
        let was_received = || {
            let mut looks = story.watch_spans.iter().filter(|look| look.channel == session);
            looks.any(|look| {
                look.from > since && look.from < asked.at && is_accepted(look.host, look.from)
            })
        };
        let was_named = || {
            let mut accepted = story.attached.iter().filter(|attached| {
                attached.at > since && attached.at < asked.at && !attached.is_second()
            });
            accepted.any(|attached| {
                let before = attached.at.before(story.moment());
                story.watches(window(attached.client), session, before, attached.at)
            })
        };
        was_created() || was_received() || was_named()
    }

    fn can_join(&self) -> bool {
        let Refusal { story, asked, .. } = self;
        let tools = setup::tools_of(story.cx.plan, asked.host).len();
        tools <= story.host_limits.tools
            && story.attached.len() < story.host_limits.active_clients
            && !self.story.may_be_full()
            && !self.is_cancelled()
    }

    fn has_room_for_a_chat(&self) -> bool {
        let story = self.story;
        let new = story.asked.values().filter(|asked| asked.verb() == "new-chat").count();
        setup::chats(story.cx.plan).len() + new < story.host_limits.chats
    }

    /// Returns whether no limit of subscriptions is reached, even if the window watches every channel
    /// that it may have watched before.
    fn has_subscriptions(&self) -> bool {
        let Refusal { story, .. } = self;
        let chats = setup::chats(story.cx.plan);
        let mut channels: BTreeSet<&str> = chats.iter().map(String::as_str).collect();
        channels.extend([SESSION, ROOT]);
        channels.extend(self.subscribed().map(|(channel, _)| channel));
        channels.len() <= story.host_limits.subscriptions.min(story.client_limits.subscriptions)
    }

    /// Returns whether the host accepts all requests to subscribe to the channel of this operation, even
    /// if all of them wait for its restore: those of the user, and one with which the window began.
    fn has_requests(&self) -> bool {
        let own = self.subscribed().filter(|(channel, _)| *channel == self.channel());
        own.map(|(_, requests)| requests).sum::<usize>() < self.story.host_limits.subscriptions
    }

    /// Returns the channels that the operations of this host subscribe to, each with the number of
    /// requests.
    fn subscribed(&self) -> impl Iterator<Item = (&str, usize)> {
        let own = self.story.asked.values().filter(|other| other.host == self.asked.host);
        own.filter_map(|other| match other.verb() {
            "watch" => Some((other.field("chat")?, 1)),
            "watch-twice" => Some((other.field("chat")?, 2)),
            "new-session" => Some((SESSION, 1)),
            _ => None,
        })
    }

    /// Returns whether the client cannot have reached a limit of what waits.
    fn has_room(&self) -> bool {
        let Refusal { story, asked, .. } = self;
        let own = story.asked.values().filter(|other| other.host == asked.host).count();
        let waiting = own + story.calls.len() + OWN_REQUESTS;
        let limits = &story.client_limits;
        self.has_subscriptions() && waiting < limits.held.min(limits.unconfirmed)
    }
}

fn no_limit() -> Phrase {
    Phrase::new(&NO_LIMIT, ViolationFields::default())
}

/// Detects that the only reply to a call was refused although the call waited for it. A call that ran
/// before has an earlier reply. A host that keeps few outcomes, or forgot a client, refuses a
/// repeated reply.
fn refused_reply(story: &Story<'_>, call: &CallStory<'_>) -> Option<Violation> {
    let [(at, host, reply)] = &call.replies[..] else { return None };
    // Another user than the owner's replied to a call of a dead host that had the same name.
    if window(call.owner) != *host {
        return None;
    }
    // A call runs after an accepted reply.
    let before = |when: &Time| reply.is_err() || when < at;
    let ran = call.users.iter().any(|(when, _, what)| *what == Status::Running && before(when));
    let waits = call.ready.is_some_and(|ready| ready < *at) && call.left > *at && !ran;
    let remembers = story.forgotten.is_empty()
        && story.host_limits.outcomes >= super::story::defaults().outcomes;
    let refused_as = |reason: &str| reply.as_ref().is_err_and(|why| why == reason);
    let is_over = refused_as(TURN_IS_OVER) && shows_a_cancellation(story, call, host, *at);
    let is_replied = refused_as(NEEDS_NO_REPLY) && shows_a_reply(story, call, host, *at);
    if !waits || !remembers || is_over || is_replied {
        return None;
    }
    story.cx.judges("refusals_are_true");
    let why = reply.as_ref().err()?;
    let data = fields! { call: call.id, why };
    Some(Violation::new("refusals_are_true", call.turn, *at, &REPLY, data))
}

/// Returns whether a window may show the cancellation of a call's turn by its own user. The window shows
/// it before the host confirms it, and the call may begin at the host in between.
fn shows_a_cancellation(story: &Story<'_>, call: &CallStory<'_>, host: &str, at: Time) -> bool {
    let turn_began = |by| story.existence.turn_began_in(&call.turn.0, Time::ZERO, by);
    story.asked.iter().any(|(asked, cancels)| {
        cancels.verb() == "cancel-turn"
            && cancels.host == host
            && cancels.field("chat") == Some(call.chat)
            && cancels.at <= at
            && (cancels.at >= call.began
                || turn_began(cancels.at) && story.answered_at(*asked) >= call.began)
    })
}

/// Returns whether a window may show an earlier reply of its user to a call. The window shows a reply
/// before the host confirms it. A reply without an answer has no note, so the decisions of the user in
/// this window count.
fn shows_a_reply(story: &Story<'_>, call: &CallStory<'_>, host: &str, at: Time) -> bool {
    let begins = story.begins_of(host).filter(|begins| *begins <= at).max().unwrap_or_default();
    let own = call.decisions.iter().filter(|(when, _)| *when >= begins && *when <= at);
    own.count() > 1
}

/// Detects that the host does not know a returning client that it accepted and did not forget. Its
/// last own `initialize` counts.
fn refused_returns(story: &Story<'_>) -> Vec<Violation> {
    let mut initialized: BTreeMap<&str, Time> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let EventKind::Milestone { name, fields } = &event.what else { continue };
        let (at, host) = (event.at, host(event));
        match *name {
            "toolcall.client.initialized" => drop(initialized.insert(host, at)),
            "toolcall.client.refused" if text(fields, "code") == code::NOT_FOUND.to_string() => {
                let accepted = initialized.get(host).and_then(|known| {
                    let own = story.attached.iter().filter(|attached| {
                        window(attached.client) == host
                            && attached.at <= *known
                            && attached.gone >= *known
                            && !attached.is_second()
                    });
                    own.max_by_key(|attached| attached.at)
                });
                let Some(accepted) = accepted else { continue };
                story.cx.judges("refusals_are_true");
                let since = accepted.at;
                let forgot =
                    story.forgotten.iter().filter(|(client, _)| *client == accepted.client);
                let mut ends = forgot.map(|(_, at)| *at).chain(story.deaths.iter().copied());
                if !ends.any(|end| end >= since && end <= at) {
                    let data = fields! { since };
                    found.push(Violation::new(
                        "refusals_are_true",
                        accepted.client,
                        at,
                        &RETURN,
                        data,
                    ));
                }
            }
            _ => {}
        }
    }
    found
}
