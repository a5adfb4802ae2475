//! `limits_hold`: nothing that users can count exceeds its limit.

use std::collections::BTreeMap;

use super::facts::UserOperation;
use super::story::Story;
use crate::history::{Call, EventKind, Time};
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::contents::Contents;
use crate::subjects::toolcall::notes::{Became, By, OfCall, OfChannel, ToolWork};
use crate::subjects::toolcall::setup::{self, SESSION, TOOL, ToolSetup};
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
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let mut waiting: BTreeMap<Call, &UserOperation<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    let mut judge = |subject: &str, counted: Vec<Counted>, at: Time| {
        // A count below its limit does not show that the limit holds.
        for Counted { what, count, limit } in counted.into_iter().filter(|it| it.count >= it.limit)
        {
            story.cx.judges("limits_hold");
            if count > limit {
                let data = fields! { count, what, limit };
                found.push(Violation::new("limits_hold", subject, at, &EXCEEDED, data));
            }
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
    let limit = story.client_limits.running_tools;
    let works = works(story);
    for one in &works {
        let count = works.iter().filter(|other| other.is_beside(one)).count();
        judge(one.host, vec![Counted { what: "tools at work", count, limit }], one.from);
    }
    found.truncate(5);
    found
}

/// The work of a tool.
struct Work<'a> {
    host: &'a str,
    turn: &'a str,
    call: &'a str,
    from: Time,
    to: Time,
}

impl Work<'_> {
    /// Returns whether this tool works as another one begins, or is that one. A tool that is stopped at
    /// that moment makes room for the other.
    fn is_beside(&self, other: &Self) -> bool {
        self.host == other.host && self.from <= other.from && self.to > other.from
    }
}

/// The work of all tools. The tools of a window that is reloaded do not count any more: it may still be
/// closing while the next one begins.
fn works<'a>(story: &Story<'a>) -> Vec<Work<'a>> {
    let mut all: Vec<Work<'a>> = Vec::new();
    for event in judged(story.cx) {
        let (at, host) = (event.at, host(event));
        match &event.what {
            EventKind::Asked { operation, .. } if operation.verb == "reload" => {
                end(&mut all, at, |work| work.host == host);
            }
            EventKind::Died { .. } => end(&mut all, at, |work| work.host == host),
            EventKind::Observed { stream, saw } => {
                let Some(OfCall { by: By::Tool, call, what: Became::Works(did) }) =
                    saw.downcast_ref()
                else {
                    continue;
                };
                let (turn, call) = (&*stream.0, call.as_str());
                match did {
                    ToolWork::Begins => all.push(Work { host, turn, call, from: at, to: NEVER }),
                    ToolWork::Ends | ToolWork::Stopped => end(&mut all, at, |work| {
                        (work.host, work.turn, work.call) == (host, turn, call)
                    }),
                }
            }
            _ => {}
        }
    }
    all
}

/// Ends the open work that matches a predicate.
fn end(all: &mut [Work<'_>], at: Time, is_it: impl Fn(&Work<'_>) -> bool) {
    let open = all.iter_mut().filter(|work| work.to == NEVER && is_it(work));
    open.for_each(|work| work.to = at);
}

/// The results of tools, with their lengths. The host also sends each to the second connections of
/// windows.
pub(in crate::subjects::toolcall) fn results(cx: &CheckContext<'_>) -> Vec<(Time, u64)> {
    let plan = cx.plan;
    let mut tools = plan.entries(TOOL).filter_map(|(name, _)| plan.entry::<ToolSetup>(TOOL, name));
    // This is usually the case, and a story takes its time.
    if tools.all(|setup| setup.letters == 0) {
        return Vec::new();
    }
    let story = Story::of(cx);
    let seconds = story.asked.values().filter(|asked| asked.verb() == "open-second").count();
    let mut found = Vec::new();
    for call in &story.calls {
        let setup: Option<ToolSetup> = call.tool.and_then(|tool| plan.entry(TOOL, tool));
        let letters = setup.unwrap_or_default().letters * (1 + seconds as u64);
        let ends = call.tools.iter().filter(|(_, _, work)| *work == ToolWork::Ends);
        found.extend(ends.map(|(at, ..)| (*at, letters)));
    }
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
