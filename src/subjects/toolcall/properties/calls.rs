//! Properties of tool calls: which window runs them, when, and how they end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::facts::{CallStory, MS, text};
use super::story::{Story, window};
use crate::history::{EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Phrase, Violation, ViolationFields};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::notes::{Became, By, OfCall, Status, ToolWork};
use crate::subjects::toolcall::setup;

kinds! {
    pub(super) UNOWNED_FAILS;
    WAITS_FOR_NONE = "waits-for-none": "{subject:}{call} had not ended by {at}, although no client could run it";
}

kinds! {
    pub(super) ONE_OUTCOME;
    TWO_ENDS = "two-ends": "{subject:}{call} is {what} for {host} at {at}, but {how} for others at {when}";
    NOT_OVER = "not-over": "{subject:}{call} is {what} for {host} at {at}, although it ended at {over}";
}

kinds! {
    pub(super) NO_WORK_FOR_WHAT_IS_OVER;
    WORKS = "works": "{subject:}the tool of {call} {what} on {host}, {wrong} {moment}";
    RUNS_EARLY = "runs-early": "{subject:}{call} runs for {host}, although its agent has not permitted it {moment}";
}

// Parts of these messages: the reason why a tool must not work.
kinds! {
    OF_ANOTHER = "of-another": "although the call belongs to {owner}";
    OVER = "over": "although the call ended at {over}";
    UNWATCHED = "unwatched": "although its user had not watched {chat} since {when}";
    KNEW = "knew": "although its user knew since {when} that the call had ended";
}

kinds! {
    pub(super) TOOLS_BEGIN_ONCE;
    AGAIN = "again": "{subject:}the tool of {call} began again on {host}, although it began at {first} {moment}";
    NOT_BEGUN = "not-begun": "{subject:}the tool of {call} had not begun on {host} by {at}, although it could since {since}";
}

kinds! {
    pub(super) RESULTS_COUNT;
    TOOL_ENDED = "tool-ended": "{subject:}{call} had not ended by {at}, although its tool ended on {host} at {ended}";
    TOOL_STOPPED = "tool-stopped": "{subject:}{call} had not ended by {at}, although its tool was stopped on {host} at {stopped}, and its user watches it again since {since}";
}

kinds! {
    pub(super) OWNER_CAN_RUN;
    OTHER_WAS_THERE = "other-was-there": "{subject:}{call} was assigned to {owner}, although {ready} was connected and could run it {moment}";
    DOES_NOT_WATCH = "does-not-watch": "{subject:}{call} was assigned to {owner}, although its user does not watch {chat} {moment}";
    NO_OTHER = "no-other": "{subject:}{call} was {end}, but no other client can run it {moment}";
}

// Parts of these messages: the owner of a call.
kinds! {
    NOBODY = "nobody": "nobody";
    CLIENT = "client": "{client}";
}

/// G4: a call has the same end for its agent and all users, and does not change afterwards, even if
/// the host restarts.
pub(super) fn one_outcome(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in &story.calls {
        let mut first: Option<(Time, Status)> = call.over.map(|(at, end)| (at, end.status()));
        let mut ended: BTreeMap<&str, Time> = BTreeMap::new();
        for (at, host, what) in &call.users {
            // From its end on, the call must not change for this user.
            if what.is_end() {
                story.cx.judges("one_outcome");
            }
            let (kind, data) = match (what.is_end(), first) {
                (true, Some((when, how))) if how != *what => (
                    &TWO_ENDS,
                    fields! { call: call.id, what: what.to_string(), host, how: how.to_string(), when },
                ),
                (false, _) if ended.contains_key(host) => (
                    &NOT_OVER,
                    fields! { call: call.id, what: what.to_string(), host, over: ended[host] },
                ),
                (true, _) => {
                    first.get_or_insert((*at, *what));
                    ended.insert(host, *at);
                    continue;
                }
                (false, _) => continue,
            };
            found.push(Violation::new("one_outcome", call.turn, *at, kind, data));
            break;
        }
    }
    found
}

/// A tool does not work for a call that is over, that may not run yet, or that another client owns.
pub(super) fn no_work_for_what_is_over(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in &story.calls {
        for (at, host, what) in &call.tools {
            if *what != ToolWork::Stopped {
                story.cx.judges("no_work_for_what_is_over");
            }
            let wrong = match *what {
                ToolWork::Begins => begins_wrongly(story, call, *at, host),
                ToolWork::Ends => {
                    works_on(call, *at, host).or_else(|| works_unwatched(story, call, *at, host))
                }
                ToolWork::Stopped => None,
            };
            if let Some(wrong) = wrong {
                let data = fields! { call: call.id, what: what.to_string(), host, wrong };
                found.push(Violation::new(
                    "no_work_for_what_is_over",
                    call.turn,
                    *at,
                    &WORKS,
                    data,
                ));
                break;
            }
        }
        let seen = call.users.iter().chain(&call.seconds);
        let mut running = seen
            .filter(|(_, _, what)| *what == Status::Running)
            .inspect(|_| story.cx.judges("no_work_for_what_is_over"));
        let early = running.find(|(at, ..)| call.ready.is_none_or(|ready| ready > *at));
        if let Some((at, host, _)) = early {
            let data = fields! { call: call.id, host };
            found.push(Violation::new(
                "no_work_for_what_is_over",
                call.turn,
                *at,
                &RUNS_EARLY,
                data,
            ));
        }
    }
    found
}

fn begins_wrongly(story: &Story<'_>, call: &CallStory<'_>, at: Time, host: &str) -> Option<Phrase> {
    if window(call.owner) != host {
        return Some(Phrase::new(&OF_ANOTHER, fields! { owner: call.owner }));
    }
    let (over, _) = call.over.filter(|(over, _)| *over < at)?;
    let since = story
        .attached
        .iter()
        .filter(|attached| attached.client == call.owner && !attached.is_second());
    // The host may accept a connection that the window has given up.
    let knew = since
        .filter(|attached| attached.at > over && attached.at <= at && attached.gone > attached.at)
        .map(|attached| attached.at)
        .min();
    let calm = (over + story.moment() < at && story.is_calm(host, over.before(story.moment()), at))
        .then_some(over);
    knew.or(calm).map(|_| Phrase::new(&OVER, fields! { over }))
}

/// Detects a tool that works to its end although its own window knew that the call was over.
fn works_on(call: &CallStory<'_>, at: Time, host: &str) -> Option<Phrase> {
    let mut ends = call.users.iter().filter(|(_, by, what)| *by == host && what.is_end());
    ends.find(|(when, ..)| *when < at).map(|(when, ..)| Phrase::new(&KNEW, fields! { when }))
}

/// Detects a tool that works to its end although its user stopped watching the chat after the tool had begun.
/// The window stops such a tool at once, with or without a connection. If its user watches the chat again,
/// the tool does not begin again.
fn works_unwatched(
    story: &Story<'_>,
    call: &CallStory<'_>,
    at: Time,
    host: &str,
) -> Option<Phrase> {
    let (began, _) = call.begins.iter().rfind(|(begun, on)| *on == host && *begun <= at)?;
    let mut looks =
        story.watch_spans.iter().filter(|look| look.host == host && look.channel == call.chat);
    let when = looks.find(|look| look.to > *began && look.to < at.before(MS))?.to;
    let is_another = story.begins_of(host).any(|begins| begins >= *began && begins <= at);
    (!is_another && !story.is_held(host, when, at))
        .then(|| Phrase::new(&UNWATCHED, fields! { chat: call.chat, when }))
}

/// A tool begins once for its call, however often its window reconnects, and as soon as it can. A turn that
/// a restarted host begins again has other calls. A window that is reloaded and keeps its id runs its calls
/// again.
pub(super) fn tools_begin_once(story: &Story<'_>) -> Vec<Violation> {
    let is_reloaded =
        |host, from, to| story.begins_of(host).any(|begin| begin >= from && begin <= to);
    // A client remembers only so many calls that it has begun.
    let is_forgotten = |call: &CallStory<'_>, on: &str, from, to| {
        others_begun(story, call, on, from, to) >= story.client_limits.begun_calls
    };
    let again = story.calls.iter().filter_map(|call| match call.begins[..] {
        // Nothing would excuse another begin now.
        [_] => {
            story.cx.judges("tools_begin_once");
            None
        }
        [(first, _), (at, host), ..]
            if !is_reloaded(host, first, at) && !is_forgotten(call, host, first, at) =>
        {
            story.cx.judges("tools_begin_once");
            let data = fields! { call: call.id, host, first };
            Some(Violation::new("tools_begin_once", call.turn, at, &AGAIN, data))
        }
        _ => None,
    });
    again.chain(story.calls.iter().filter_map(|call| not_begun(story, call))).collect()
}

/// Returns how many other calls a window began in an interval. Agents do not note the calls that
/// they make in one step. A tool that is stopped at once notes no begin, so the client's milestones
/// count, too.
fn others_begun(story: &Story<'_>, call: &CallStory<'_>, on: &str, from: Time, to: Time) -> usize {
    let own = judged(story.cx).filter(|event| host(event) == on && (from..=to).contains(&event.at));
    let begun = own.filter_map(|event| match &event.what {
        EventKind::Milestone { name: "toolcall.client.runs", fields } => Some(text(fields, "call")),
        EventKind::Observed { saw, .. } => match saw.downcast_ref() {
            Some(OfCall { by: By::Tool, call, what: Became::Works(ToolWork::Begins) }) => {
                Some(call.as_str())
            }
            _ => None,
        },
        _ => None,
    });
    begun.filter(|id| *id != call.id).collect::<BTreeSet<_>>().len()
}

/// Detects that a window did not begin a call that may run. The window may need the room of another call
/// first, so it could begin since the call may run, or since another of its calls ended.
fn not_begun(story: &Story<'_>, call: &CallStory<'_>) -> Option<Violation> {
    let host = window(call.owner);
    if peers_may_lie(story.cx) || is_replaced(story, call.owner) {
        return None;
    }
    // A report of its user ends a call without its tool.
    let permitted =
        may_run_since(call, host).filter(|_| !story.reports_result(call, story.until))?;
    let others = story.calls.iter().filter(|other| other.owner == call.owner).map(|call| call.left);
    let looks =
        story.watch_spans.iter().filter(|look| look.host == host && look.channel == call.chat);
    let began = looks.map(|look| look.from).chain(others).filter(|at| *at > permitted);
    let late = began.chain([permitted]).filter_map(|since| {
        let bound = begins_by(story, call.owner, since);
        let begins = |(at, on, _): &(Time, &str, ToolWork)| *at <= bound && *on == host;
        let could = bound < story.until
            && call.goes_on(bound)
            && story.watches(host, call.chat, since, bound)
            && has_room(story, call, since, bound);
        if could {
            story.cx.judges("tools_begin_once");
        }
        (could && !call.tools.iter().any(begins)).then_some((bound, since))
    });
    let (bound, since) = late.min()?;
    let data = fields! { call: call.id, host, since };
    Some(Violation::new("tools_begin_once", call.turn, bound, &NOT_BEGUN, data))
}

/// Returns whether the window of a client may have been replaced since the client opened its first
/// connection, or whether there is no such connection.
fn is_replaced(story: &Story<'_>, client: &str) -> bool {
    let own = story.of_client(client, story.until);
    let conns = own.filter_map(|attached| story.cx.history.conns.get(attached.conn));
    let first = conns.map(|conn| conn.opened).min();
    first.is_none_or(|first| story.begins_of(window(client)).any(|at| at >= first))
}

/// The time since which a call may run: its agent needs no consent, or the only reply of its user approves
/// it and was accepted.
fn may_run_since(call: &CallStory<'_>, host: &str) -> Option<Time> {
    let ready = call.ready?;
    match (&call.decisions[..], &call.replies[..]) {
        _ if !call.asks => Some(ready),
        ([(_, true)], [(at, on, Ok(()))]) if *on == host => Some(ready.max(*at)),
        _ => None,
    }
}

/// The time by which a client has what the host knew at a time: soon if one connection carries it without
/// a fault, otherwise after the client has returned.
fn begins_by(story: &Story<'_>, client: &str, since: Time) -> Time {
    let host = window(client);
    let soon = since + story.moment() * 2;
    let mut own = story.of_client(client, since).filter(|attached| !attached.is_second());
    let carries = own.any(|attached| {
        attached.is_live(since)
            && attached.is_live(soon)
            && story.was_retransmitted(attached, since)
    });
    if carries && story.is_calm(host, since.before(story.moment()), soon) {
        return soon;
    }
    story.reconnects_by(host, since)
}

/// Returns whether the window of a call has room for its tool: fewer others of its calls than it may run at
/// once can be open in an interval. The host's milestones also show the calls that agents made in one step.
fn has_room(story: &Story<'_>, call: &CallStory<'_>, from: Time, to: Time) -> bool {
    let limit = story.client_limits.running_tools;
    let assigned = judged(story.cx).filter(|event| match &event.what {
        EventKind::Milestone { name: "toolcall.host.call", fields } => {
            text(fields, "owner") == call.owner
        }
        _ => false,
    });
    let own = || story.calls.iter().filter(|other| other.owner == call.owner);
    let others = own().filter(|other| {
        (other.turn, other.id) != (call.turn, call.id) && other.began <= to && other.left > from
    });
    let assigned = assigned.count();
    assigned <= limit || assigned == own().count() && others.count() < limit
}

/// The result of a tool counts: its call ends soon after. A call whose tool was stopped ends, too.
pub(super) fn results_count(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in &story.calls {
        let Some((at, host, _)) = call.tools.iter().find(|(_, _, what)| *what == ToolWork::Ends)
        else {
            continue;
        };
        // A reloaded or dead window cannot report the result.
        let newer = story.attached.iter().any(|attached| {
            window(attached.client) == *host && attached.client != call.owner && attached.at > *at
        });
        let looks = story.watches(host, call.chat, *at, story.until);
        if newer || !looks {
            continue;
        }
        let soon = *at + story.moment() * 2;
        let is_calm = story.is_calm(host, at.before(story.moment()), soon);
        let at_once = is_calm && story.has_main_connection(call.owner, *at) && soon < story.until;
        let bound = if at_once { soon } else { story.reconnects_by(host, *at) };
        // The call may have ended before its tool, or its agent may not wait for it.
        if bound >= story.until || call.left < *at || call.given_up <= bound {
            continue;
        }
        // A result that its user reported before counts, and waits for consent.
        if story.reports_result(call, bound) {
            continue;
        }
        story.cx.judges("results_count");
        if call.goes_on(bound) {
            let data = fields! { call: call.id, host, ended: *at };
            found.push(Violation::new("results_count", call.turn, bound, &TOOL_ENDED, data));
        }
    }
    found.extend(story.calls.iter().filter_map(|call| goes_on_stopped(story, call)));
    found
}

/// Detects that a call goes on although its tool was stopped, and its user watches its chat again. The
/// window does not begin a tool twice, so it has to report that the call has failed.
fn goes_on_stopped(story: &Story<'_>, call: &CallStory<'_>) -> Option<Violation> {
    let host = window(call.owner);
    let (stopped, _, last) = call.tools.iter().rev().find(|(_, on, _)| *on == host)?;
    if *last != ToolWork::Stopped
        || peers_may_lie(story.cx)
        || is_replaced(story, call.owner)
        || story.reports_result(call, story.until)
    {
        return None;
    }
    let looks =
        story.watch_spans.iter().filter(|look| look.host == host && look.channel == call.chat);
    let again = looks.map(|look| look.from).filter(|from| from > stopped);
    let late = again.filter_map(|since| {
        let bound = begins_by(story, call.owner, since);
        let is_due = bound < story.until
            && call.left > since
            && call.given_up > bound
            && story.watches(host, call.chat, since, bound)
            && has_room(story, call, since, bound);
        if is_due {
            story.cx.judges("results_count");
        }
        (is_due && call.goes_on(bound)).then_some((bound, since))
    });
    let (bound, since) = late.min()?;
    let data = fields! { call: call.id, host, stopped: *stopped, since };
    Some(Violation::new("results_count", call.turn, bound, &TOOL_STOPPED, data))
}

/// The time that a host may take for an action that is due.
const AT_ONCE: Duration = Duration::from_millis(100);

/// A call that no client can run fails at once.
pub(super) fn unowned_fails(story: &Story<'_>) -> Vec<Violation> {
    let unowned = story.calls.iter().filter(|call| call.owner.is_empty() && call.chosen);
    let found = unowned.filter_map(|call| {
        let bound = story.later(call.began, AT_ONCE);
        if bound >= story.until || call.given_up <= bound {
            return None;
        }
        story.cx.judges("unowned_fails");
        call.goes_on(bound).then(|| {
            let data = fields! { call: call.id };
            Violation::new("unowned_fails", call.turn, bound, &WAITS_FOR_NONE, data)
        })
    });
    found.collect()
}

/// G7: the host assigns a call to a client that can run it, if there is one.
pub(super) fn owner_can_run(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in &story.calls {
        let ready = ready_window(story, call, call.began);
        if call.chosen && (ready.is_some() || is_beside(story, call)) {
            story.cx.judges("owner_can_run");
        }
        if call.chosen
            && is_absent(story, call)
            && let Some(ready) = ready
        {
            let owner = if call.owner.is_empty() {
                Phrase::new(&NOBODY, ViolationFields::default())
            } else {
                Phrase::new(&CLIENT, fields! { client: call.owner })
            };
            let data = fields! { call: call.id, owner, ready };
            found.push(Violation::new(
                "owner_can_run",
                call.turn,
                call.began,
                &OTHER_WAS_THERE,
                data,
            ));
        }
        if call.chosen
            && !call.owner.is_empty()
            && story.holds_nothing_of(call.owner, call.chat, call.began)
        {
            let data = fields! { call: call.id, owner: call.owner, chat: call.chat };
            found.push(Violation::new(
                "owner_can_run",
                call.turn,
                call.began,
                &DOES_NOT_WATCH,
                data,
            ));
        }
        if let Some((at, how)) = call.over.filter(|(_, how)| how.offers_another()) {
            story.cx.judges("owner_can_run");
            if !offers_another(story, call, at) {
                let data = fields! { call: call.id, end: how.to_string() };
                found.push(Violation::new("owner_can_run", call.turn, at, &NO_OTHER, data));
            }
        }
    }
    found
}

/// Returns whether a connected client does not watch the chat of a call, so that the host must not assign
/// the call to it.
fn is_beside(story: &Story<'_>, call: &CallStory<'_>) -> bool {
    let at = call.began;
    let mut there =
        story.attached.iter().filter(|attached| attached.at <= at && attached.is_live(at));
    there.any(|attached| {
        !story.watches(window(attached.client), call.chat, at, at)
            && story.holds_nothing_of(attached.client, call.chat, at)
    })
}

/// Returns whether the host must know that the owner of a call is absent: it was notified, or had
/// enough time to be notified.
fn is_absent(story: &Story<'_>, call: &CallStory<'_>) -> bool {
    let [heard, quiet] = [1, 2].map(|moments| call.began.before(story.moment() * moments));
    let accepted = story.attached.iter().take(call.accepted);
    let own: Vec<_> = accepted.filter(|attached| attached.client == call.owner).collect();
    let is_connected = own.iter().any(|attached| attached.over > call.began.before(MS));
    let lived = || own.iter().any(|attached| attached.is_live(heard));
    let noticed = || own.iter().all(|attached| story.was_retransmitted(attached, call.began));
    !is_connected || !lived() && story.is_calm(window(call.owner), quiet, call.began) && noticed()
}

/// Another window that has been connected for a while without faults, watches the chat, and offers
/// the tool. Its user must have seen for that long that it takes part in the session, because the
/// host knows its tools only from then on. A user sees nothing over a second connection.
fn ready_window<'s>(story: &'s Story<'_>, call: &CallStory<'_>, at: Time) -> Option<&'s str> {
    let before = at.before(story.moment() * 2);
    let there =
        story.attached.iter().filter(|attached| attached.at < before && attached.is_live(at));
    let mut there = there.filter(|attached| !attached.is_second());
    let found = there.find(|attached| {
        let host = window(attached.client);
        let looks = |channel| story.watches(host, channel, before, at);
        let newest = !story.attached.iter().any(|other| {
            window(other.client) == host
                && other.at > attached.at
                && other.client != attached.client
        });
        let calm = story.is_calm(host, before, at);
        newest
            && calm
            && offers(story, host, call)
            && story.takes_part(host, before, at)
            && !story.leaves(host, before, at)
            && looks(call.chat)
    });
    found.map(|attached| attached.client)
}

/// Returns whether the window of a host offers the tool of a call.
pub(super) fn offers(story: &Story<'_>, host: &str, call: &CallStory<'_>) -> bool {
    let tools = setup::tools_of(story.cx.plan, host);
    // The host refuses a client that offers more tools than its limit.
    tools.len() <= story.host_limits.tools
        && tools.iter().any(|(name, _)| Some(name.as_str()) == call.tool)
}

/// Returns whether another client that offers the tool is connected, as far as the host can know:
/// the host notices the end of a connection only when none of its tasks is held.
fn offers_another(story: &Story<'_>, call: &CallStory<'_>, at: Time) -> bool {
    let mut others =
        story.attached.iter().filter(|attached| attached.at <= at && attached.client != call.owner);
    others.any(|attached| {
        story.later(attached.over, Duration::ZERO) >= at
            && offers(story, window(attached.client), call)
    })
}
