//! `limits_hold`: nothing that users can count exceeds its limit.

use std::collections::BTreeMap;

use super::facts::UserOperation;
use super::story::Story;
use crate::history::{Call, EventKind, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::judging::{has_puppet, host, judged};
use crate::subjects::toolcall::contents::Contents;
use crate::subjects::toolcall::notes::OfChannel;
use crate::subjects::toolcall::setup::{self, SESSION};
use reknit_toolcall::wire::SnapshotState;

kinds! {
    pub(super) LIMITS_HOLD;
    EXCEEDED = "exceeded": "{subject:}there are {count} {what}, and the limit is {limit} {moment}";
}

/// The operations that are one action until they end.
const ACTIONS: [&str; 4] = ["rename", "start-turn", "cancel-turn", "forge"];

/// The operations that are at least one request until they end.
const REQUESTS: [&str; 6] =
    ["new-chat", "dispose-chat", "remake-chat", "dispose-session", "create-session", "send-token"];

/// A count, and its limit.
struct Counted {
    what: &'static str,
    count: usize,
    limit: usize,
}

/// See the module.
pub(super) fn limits_hold(story: &Story<'_>) -> Vec<Violation> {
    if has_puppet(story.cx) {
        return Vec::new();
    }
    let mut waiting: BTreeMap<Call, &UserOperation<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    let mut judge = |subject: &str, counted: Vec<Counted>, at: Time| {
        for Counted { what, count, limit } in counted.into_iter().filter(|it| it.count > it.limit) {
            let data = fields! { count, what, limit };
            found.push(Violation::new("limits_hold", subject, at, &EXCEEDED, data));
        }
    };
    for event in judged(story.cx) {
        let (at, host) = (event.at, host(event));
        match &event.what {
            EventKind::Answered { call, .. } | EventKind::Failed { call, .. } => {
                judge(host, of_user(story, &waiting, host, at), at);
                waiting.remove(call);
            }
            EventKind::Asked { call, .. } => {
                waiting.extend(story.asked.get(call).map(|asked| (*call, asked)));
            }
            EventKind::Died { .. } => waiting.retain(|_, asked| asked.host != host),
            EventKind::Observed { stream, saw } => match saw.downcast_ref() {
                Some(OfChannel::Stored) if setup::is_session(&stream.0) => {
                    judge(&stream.0, sessions(story, at), at);
                }
                Some(OfChannel::Stable { contents: Some(contents), .. }) => {
                    judge(&stream.0, of_state(story, contents), at);
                }
                _ => {}
            },
            _ => {}
        }
    }
    found.truncate(5);
    found
}

/// The requests for which a user waits. A request that a client refuses or answers at once never waited.
fn of_user(
    story: &Story<'_>,
    waiting: &BTreeMap<Call, &UserOperation<'_>>,
    host: &str,
    at: Time,
) -> Vec<Counted> {
    let count = |verbs: &[&str]| {
        let own = waiting.values().filter(|asked| asked.host == host && asked.at < at);
        own.filter(|asked| verbs.contains(&asked.verb())).count()
    };
    let watched =
        story.watch_spans.iter().filter(|look| look.host == host && look.from < at && look.to > at);
    let limits = &story.client_limits;
    vec![
        Counted { what: "actions that wait", count: count(&ACTIONS), limit: limits.unconfirmed },
        Counted { what: "requests that wait", count: count(&REQUESTS), limit: limits.held },
        Counted { what: "channels", count: watched.count(), limit: limits.subscriptions },
    ]
}

/// The sessions in the memory of the host. A stored session gets there when a window subscribes to it;
/// after a restart of the host, that is unknown here.
fn sessions(story: &Story<'_>, at: Time) -> Vec<Counted> {
    if !story.deaths.is_empty() {
        return Vec::new();
    }
    let mut looks = story.watch_spans.iter().filter(|look| look.channel == SESSION);
    let is_loaded = looks.any(|look| look.from <= at);
    let is_held = |session: &&str| {
        let since = story.existence.throughout(session, at, at);
        since.is_some_and(|since| since > Time::ZERO || is_loaded)
    };
    let count = setup::SESSIONS.iter().copied().filter(|session| is_held(session)).count();
    vec![Counted { what: "sessions", count, limit: story.host_limits.sessions }]
}

fn of_state(story: &Story<'_>, contents: &Contents) -> Vec<Counted> {
    let limits = &story.host_limits;
    match contents.state() {
        SnapshotState::Session(session) => {
            let declared = setup::chats(story.cx.plan).len();
            let tools = session.active_clients.iter().map(|active| active.tools.len()).max();
            vec![
                Counted {
                    what: "chats",
                    count: session.chats.len(),
                    limit: limits.chats.max(declared),
                },
                Counted {
                    what: "active clients",
                    count: session.active_clients.len(),
                    limit: limits.active_clients,
                },
                Counted { what: "tools", count: tools.unwrap_or(0), limit: limits.tools },
            ]
        }
        SnapshotState::Chat(chat) => {
            let over = chat.turns.iter().map(|turn| turn.response_parts.len());
            let active = chat.active_turn.iter().map(|turn| turn.response_parts.len());
            let turns = chat.turns.len() + chat.active_turn.iter().count();
            let parts = over.chain(active).max().unwrap_or(0);
            vec![
                Counted { what: "turns", count: turns, limit: limits.turns },
                Counted { what: "parts in a turn", count: parts, limit: limits.parts },
            ]
        }
        _ => Vec::new(),
    }
}
