//! `confirmed_is_done`: what the host confirms to a user has happened.
//!
//! The property compares answers with the outside world: the host's storage, the agents' turns, and
//! the titles and places that the user sees. `refusals_are_true` judges the other answers.

use std::collections::BTreeMap;

use super::facts::{HostConnection, MS, UserOperation};
use super::story::{Story, defaults, window};
use crate::history::{Answer, Call, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Phrase, Violation, ViolationFields};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::answers::{Did, Reason, is_of_no_channel, reason};
use crate::subjects::toolcall::notes::OfChannel;
use crate::subjects::toolcall::setup::SESSION;
use reknit_toolcall::wire::ROOT;

kinds! {
    pub(super) CONFIRMED_IS_DONE;
    CONFIRMED = "confirmed": "{subject:}the host confirmed it ({answer}), but {truth} {moment}";
}

// Parts of that message: what is true instead.
kinds! {
    NOT_CREATED = "not-created": "{channel} was not created";
    NOT_ANNOUNCED = "not-announced": "{channel} was not announced to each second connection of {window}";
    NOT_DELETED = "not-deleted": "{channel} was not deleted";
    NOT_THERE = "not-there": "{channel} did not exist";
    NOT_BEGUN = "not-begun": "its turn did not begin";
    GOES_ON = "goes-on": "the turn in {chat} goes on";
    NOT_SEEN = "not-seen": "its user did not see the title";
    NO_TOKEN = "no-token": "the last token of its window was {token}";
    BAD_TOKEN = "bad-token": "the token was not the right one";
}

/// See the module.
pub(super) fn confirmed_is_done(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let titles = titles(story);
    let answered = answered(story);
    let mut found = Vec::new();
    for event in judged(story.cx) {
        let EventKind::Answered { call, answer: answer @ Answer::Done(_) } = &event.what else {
            continue;
        };
        let Some(asked) = story.asked.get(call) else { continue };
        let (titles, answered, at) = (&titles, &answered, event.at);
        let grant = Grant { story, titles, answered, call: *call, asked, at };
        found.extend(grant.contradiction(answer).map(|truth| {
            let data = fields! { answer, truth };
            Violation::new("confirmed_is_done", *call, event.at, &CONFIRMED, data)
        }));
    }
    found.truncate(5);
    found
}

/// A title of the session, as a user saw it.
struct SeenTitle<'a> {
    at: Time,
    host: &'a str,
    title: &'a str,
}

fn titles<'a>(story: &Story<'a>) -> Vec<SeenTitle<'a>> {
    let seen = judged(story.cx).filter_map(|event| match &event.what {
        EventKind::Observed { saw, .. } => match saw.downcast_ref() {
            Some(OfChannel::Title(title)) => {
                Some(SeenTitle { at: event.at, host: host(event), title })
            }
            _ => None,
        },
        _ => None,
    });
    seen.collect()
}

/// The times at which users had answers to operations that do nothing later. An operation that its user
/// gave up, or that the client ended because its channel was removed, may still be on its way.
fn answered(story: &Story<'_>) -> BTreeMap<Call, Time> {
    let answered = judged(story.cx).filter_map(|event| match &event.what {
        EventKind::Answered { answer: Answer::GivenUp, .. } => None,
        EventKind::Answered { answer: Answer::Refused(why), .. } if is_of_no_channel(why) => None,
        EventKind::Answered { call, .. } => Some((*call, event.at)),
        _ => None,
    });
    answered.collect()
}

/// A confirmation that a user received.
struct Grant<'s, 'a> {
    story: &'s Story<'a>,
    titles: &'s [SeenTitle<'a>],
    /// When users had answers.
    answered: &'s BTreeMap<Call, Time>,
    call: Call,
    asked: &'s UserOperation<'a>,
    at: Time,
}

impl Grant<'_, '_> {
    fn judges(&self) {
        self.story.cx.judges("confirmed_is_done");
    }

    /// Returns the fact that contradicts the confirmation, if there is one.
    fn contradiction(&self, answer: &Answer) -> Option<Phrase> {
        match (self.asked.verb(), answer.done()) {
            ("new-chat", Some(Did::Made(chat))) => self.is_created(chat),
            ("watch" | "watch-twice", _) => self.is_there(self.asked.field("chat")?),
            ("new-session", _) => self.is_created(SESSION).or_else(|| self.is_announced(SESSION)),
            ("dispose-chat", _) => self.is_deleted(self.asked.field("chat")?),
            ("remake-chat", _) => {
                let chat = self.asked.field("chat")?;
                self.is_deleted(chat).or_else(|| self.is_created(chat))
            }
            ("create-session", _) => {
                let name = self.asked.field("name")?;
                self.is_created(name).or_else(|| self.is_announced(name))
            }
            ("end-session", _) => self.is_deleted(self.asked.field("name")?),
            ("dispose-session", _) => self.is_deleted(SESSION),
            ("start-turn", Some(Did::Began(turn))) => {
                self.has_begun(turn).or_else(|| self.has_a_token())
            }
            ("cancel-turn", _) => self.is_cancelled(self.asked.field("chat")?),
            ("rename", Some(Did::Named(title))) => self.is_seen(title),
            ("send-token", _) if self.asked.field("token") == Some("wrong") => {
                self.judges();
                Some(Phrase::new(&BAD_TOKEN, ViolationFields::default()))
            }
            _ => None,
        }
    }

    fn is_created(&self, channel: &str) -> Option<Phrase> {
        self.judges();
        let is_it = self.story.existence.begins_in(channel, self.asked.at, self.at);
        (!is_it).then(|| Phrase::new(&NOT_CREATED, fields! { channel }))
    }

    /// A channel that a user sees existed at some time since the user asked for it. A host that died in that time
    /// may not have stored a channel that it had just created. The root always exists.
    fn is_there(&self, channel: &str) -> Option<Phrase> {
        let Self { story, asked, at, .. } = self;
        let has_died = story.deaths.iter().any(|death| (asked.at..=*at).contains(death));
        if has_died || channel == ROOT {
            return None;
        }
        self.judges();
        let is_it = story.existence.at_all(channel, asked.at, *at);
        (!is_it).then(|| Phrase::new(&NOT_THERE, fields! { channel }))
    }

    /// The host announces a session to all connections. The windows' second connections note it.
    fn is_announced(&self, channel: &str) -> Option<Phrase> {
        let Self { story, asked, at, .. } = self;
        let (before, bound) = (asked.at.before(story.moment()), *at + story.moment());
        let hears = |attached: &&HostConnection<'_>| {
            attached.is_second()
                && attached.at < before
                && attached.is_live(bound)
                && story.is_calm(window(attached.client), before, bound)
                && story.was_retransmitted(attached, before)
        };
        let heard = |on: &str| {
            let noted = judged(story.cx).filter(|event| match &event.what {
                EventKind::Observed { stream, saw } => {
                    &*stream.0 == channel
                        && matches!(saw.downcast_ref(), Some(OfChannel::Announced(_)))
                }
                _ => false,
            });
            noted
                .filter(|event| host(event) == on && event.at >= asked.at && event.at <= bound)
                .count()
        };
        let windows = story.attached.iter().filter(hears).map(|attached| window(attached.client));
        let mut windows = windows.collect::<Vec<_>>();
        windows.sort_unstable();
        if windows.is_empty() || bound >= story.until {
            return None;
        }
        self.judges();
        let few = |on: &&str| heard(on) < windows.iter().filter(|other| *other == on).count();
        let window = windows.iter().copied().find(few)?;
        Some(Phrase::new(&NOT_ANNOUNCED, fields! { channel, window }))
    }

    fn is_deleted(&self, channel: &str) -> Option<Phrase> {
        self.judges();
        let is_it = self.story.existence.deleted_in(channel, self.asked.at, self.at);
        (!is_it).then(|| Phrase::new(&NOT_DELETED, fields! { channel }))
    }

    fn has_begun(&self, turn: &str) -> Option<Phrase> {
        self.judges();
        let is_it = self.story.existence.turn_began_in(turn, self.asked.at, self.at);
        (!is_it).then(|| Phrase::new(&NOT_BEGUN, ViolationFields::default()))
    }

    /// A turn that was in progress during the whole request is the cancelled one.
    fn is_cancelled(&self, chat: &str) -> Option<Phrase> {
        let bound = self.story.later(self.at, self.story.moment());
        let is_in_progress =
            self.story.existence.turn_throughout(chat, self.asked.at, self.asked.at);
        if bound >= self.story.until || !is_in_progress {
            return None;
        }
        self.judges();
        let goes_on = self.story.existence.turn_throughout(chat, self.asked.at, bound);
        goes_on.then(|| Phrase::new(&GOES_ON, fields! { chat }))
    }

    /// The user sees the title, unless another one hides it.
    fn is_seen(&self, title: &str) -> Option<Phrase> {
        let (from, to) = (self.asked.at, self.at + self.story.moment());
        let watches = self.story.watches(self.asked.host, SESSION, from.before(MS), to);
        let own = || self.titles.iter().filter(|seen| seen.host == self.asked.host);
        let competes = |(call, other): (&Call, &UserOperation<'_>)| {
            let is_answered = self.answered.get(call).is_some_and(|at| *at < from);
            let is_over = is_answered && !self.may_be_repeated(other);
            *call != self.call && other.verb() == "rename" && other.at <= to && !is_over
        };
        let mut seen = own().filter(|seen| seen.at >= from && seen.at <= to).peekable();
        let had = own().rfind(|seen| seen.at < from).is_some_and(|seen| seen.title == title);
        let is_unseen = seen.peek().is_none();
        let is_judged = watches
            && !had
            && to < self.story.until
            && seen.all(|seen| seen.title == title)
            && !self.story.asked.iter().any(competes);
        if is_judged {
            self.judges();
        }
        (is_judged && is_unseen).then(|| Phrase::new(&NOT_SEEN, ViolationFields::default()))
    }

    /// Returns whether a host that remembers few outcomes may perform an answered action again: its client
    /// sent it over two connections, and the older message may arrive late.
    fn may_be_repeated(&self, asked: &UserOperation<'_>) -> bool {
        let story = self.story;
        let mut own = story.attached.iter().filter(|other| window(other.client) == asked.host);
        story.host_limits.outcomes < defaults().outcomes
            && own.any(|attached| attached.at > asked.at)
    }

    /// The last token that the window sent before it started the turn, if the window stayed connected
    /// since then: a client sends its token again to a host that does not know it.
    fn has_a_token(&self) -> Option<Phrase> {
        let Self { story, call, asked, at, .. } = self;
        let mut own = story.asked.range(..*call).filter(|(token, other)| {
            other.verb() == "send-token"
                && story.window_of(**token) == story.window_of(*call)
                && !self.was_not_sent(**token)
        });
        let (_, last) = own.next_back()?;
        let token = last.field("token").filter(|token| *token != "right")?;
        let reconnects = || {
            let mut own = story
                .attached
                .iter()
                .filter(|attached| window(attached.client) == asked.host && !attached.is_second());
            own.any(|attached| attached.at >= last.at.before(story.moment()) && attached.at <= *at)
        };
        let has_moved_in = story.watches(asked.host, SESSION, last.at, last.at);
        if !has_moved_in || reconnects() {
            return None;
        }
        self.judges();
        Some(Phrase::new(&NO_TOKEN, fields! { token }))
    }

    /// Returns whether a client refused to send a request, because too many others wait.
    fn was_not_sent(&self, request: Call) -> bool {
        judged(self.story.cx).any(|event| match &event.what {
            EventKind::Answered { call, answer: Answer::Refused(why) } => {
                *call == request && reason(why) == Some(Reason::Full)
            }
            _ => false,
        })
    }
}
