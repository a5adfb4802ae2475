//! `ends_are_true`: a call ends as its tool and its user decide, or for a reason of the host that is
//! true.

use std::time::Duration;

use super::facts::{CallStory, MS, UserOperation};
use super::story::{Story, defaults, window};
use crate::history::{EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{Phrase, Violation, ViolationFields, ViolationKind};
use crate::subjects::judging::judged;
use crate::subjects::toolcall::notes::{Became, By, CallEnd, OfCall, ToolWork};
use crate::subjects::toolcall::setup::{self, TOOL, ToolEnds, ToolSetup};
use crate::subjects::toolcall::tools::FAILED;

kinds! {
    pub(super) ENDS_ARE_TRUE;
    UNTRUE = "untrue": "{subject:}{call} is {end}, but {truth} {moment}";
    RETURNED = "returned": "{subject:}a call of {tool} in one step was {what}, although {truth} {moment}";
    DENIED = "denied": "{subject:}the tool of {call} began on {host}, although the user had denied it {moment}";
}

// Parts of these messages: what is true instead.
kinds! {
    NO_RESULT = "no-result": "its tool had no such result";
    A_RESULT = "a-result": "its tool had a result";
    IS_HERE = "is-here": "{owner} was connected";
    IS_AWAY = "is-away": "{owner} was not connected";
    HAS_OWNER = "has-owner": "{owner} offered the tool";
    FITS = "fits": "the result was short";
    WANTED = "wanted": "no user had denied it or ended its turn";
    ROOM = "room": "its turn was in progress, and its chat had room";
    NOT_OFFERED = "not-offered": "no window offers that tool";
}

/// The operations that end the turn of a chat.
const ENDS_TURNS: [&str; 3] = ["cancel-turn", "dispose-chat", "remake-chat"];

/// See the module.
pub(super) fn ends_are_true(story: &Story<'_>) -> Vec<Violation> {
    if !story.cx.is_honest() {
        return Vec::new();
    }
    let mut found = Vec::new();
    // A result that a user reports is not the result of a tool.
    for call in story.calls.iter().filter(|call| !story.reports_result(call, call.left)) {
        let setup: ToolSetup =
            call.tool.and_then(|tool| story.cx.plan.entry(TOOL, tool)).unwrap_or_default();
        found.extend(untrue_end(story, call, &setup));
        found.extend(denied(story, call));
    }
    found.extend(judged(story.cx).filter_map(|event| {
        let EventKind::Observed { stream, saw } = &event.what else { return None };
        let Some(OfCall { by: By::Agent, call: tool, what: Became::Returns(returned) }) =
            saw.downcast_ref()
        else {
            return None;
        };
        let (what, truth) = untrue_return(story, tool, returned)?;
        let truth = Phrase::new(truth, ViolationFields::default());
        let data = fields! { tool, what, truth };
        Some(Violation::new("ends_are_true", stream, event.at, &RETURNED, data))
    }));
    found
}

/// Returns the result of a call in one step if it is wrong, and what is true instead. The agent of
/// a turn that is over does not get an answer any more. A call of a tool that no window offers
/// fails at once, and is not refused for that.
fn untrue_return(
    story: &Story<'_>,
    tool: &str,
    returned: &Result<CallEnd, String>,
) -> Option<(String, &'static ViolationKind)> {
    let plan = story.cx.plan;
    let mut windows = plan.client_hosts().map(|host| setup::tools_of(plan, host.as_str()));
    let is_offered = windows.any(|tools| tools.iter().any(|(name, _)| name == tool));
    let untrue = match returned {
        Err(why) if why == FULL && story.may_be_full() => return None,
        Err(why) => Some((format!("refused ({why})"), &ROOM)),
        Ok(CallEnd::Failed(why)) if why == "no client offers this tool" => None,
        Ok(end) => (!is_offered).then(|| (end.to_string(), &NOT_OFFERED)),
    };
    story.cx.judges("ends_are_true");
    untrue
}

/// The refusal of an action that adds data to a full channel.
const FULL: &str = "the channel is full";

/// The failure of a call whose chat the window left and watches again.
const STOPPED: &str = "the client had already stopped this call";

/// The failure of a call whose result does not fit.
pub(super) const TOO_LONG: &str = "the result is too long";

fn untrue_end(story: &Story<'_>, call: &CallStory<'_>, setup: &ToolSetup) -> Option<Violation> {
    let (at, end) = call.over?;
    let has_ended = call.tools.iter().any(|(when, _, work)| *work == ToolWork::Ends && *when <= at);
    let is_short =
        setup.letters == 0 && story.host_limits.channel_bytes >= defaults().channel_bytes;
    if is_short || !matches!(end, CallEnd::Failed(why) if why == TOO_LONG) {
        story.cx.judges("ends_are_true");
    }
    let truth = |kind| Some(Phrase::new(kind, ViolationFields::default()));
    let truth = match end {
        CallEnd::Completed if !has_ended || setup.ends != ToolEnds::Works => truth(&NO_RESULT),
        CallEnd::Failed(why) => match why.as_str() {
            FAILED if !has_ended || setup.ends != ToolEnds::Fails => truth(&NO_RESULT),
            FAILED => None,
            "no client offers this tool" if !call.owner.is_empty() => {
                Some(Phrase::new(&HAS_OWNER, fields! { owner: call.owner }))
            }
            TOO_LONG if is_short => truth(&FITS),
            "no client offers this tool" | TOO_LONG => None,
            why if why.starts_with("the client that ran this tool") => {
                wrong_cause(story, call.owner, why, at)
            }
            STOPPED if was_dropped(story, call, at) || was_stopped(story, call, at) => None,
            _ if has_ended && setup.ends == ToolEnds::Works => truth(&A_RESULT),
            _ => None,
        },
        CallEnd::Cancelled => {
            let is_denied = call.has_decision(false, at);
            let ends = |asked: &UserOperation<'_>| match asked.verb() {
                "dispose-session" => true,
                verb => ENDS_TURNS.contains(&verb) && asked.field("chat") == Some(call.chat),
            };
            let is_ended = story.asked.values().any(|asked| asked.at <= at && ends(asked));
            (!is_denied && !is_ended).then(|| truth(&WANTED)).flatten()
        }
        CallEnd::Completed => None,
    }?;
    let data = fields! { call: call.id, end: end.to_string(), truth };
    Some(Violation::new("ends_are_true", call.turn, at, &UNTRUE, data))
}

/// Returns whether the user of the tool's window unsubscribed from the chat before the window took the
/// result. The window ignores the result then. The order of the two does not matter if both came
/// before the window's task ran again: in the same millisecond, or while a fault held the task.
fn was_dropped(story: &Story<'_>, call: &CallStory<'_>, over: Time) -> bool {
    let held = |host: &str, from, to| {
        let mut periods = story.fault_periods.iter();
        periods.any(|it| it.holds == Some(host) && it.from <= from && it.to >= to)
    };
    let mut ends = call.tools.iter().filter(|(.., work)| *work == ToolWork::Ends);
    ends.any(|(at, host, _)| {
        let mut looks = story.watch_spans.iter();
        looks.any(|look| {
            let is_own = look.host == *host && look.channel == call.chat;
            let is_left = look.to >= call.began && look.to <= over;
            let is_at_once = look.to == *at || held(host, look.to.min(*at), look.to.max(*at));
            is_own && is_left && is_at_once
        })
    })
}

/// Returns whether the newest window of the owner began the tool again, and stopped it. A result that
/// the tool had before that is of an earlier window, which was reloaded with its id. The newer one
/// does not know that result, and the host may receive it late.
fn was_stopped(story: &Story<'_>, call: &CallStory<'_>, at: Time) -> bool {
    let host = window(call.owner);
    let own = || call.tools.iter().filter(|(when, on, _)| *on == host && *when <= at);
    let is_stopped = own().next_back().is_some_and(|(.., work)| *work == ToolWork::Stopped);
    let begun = own().rfind(|(.., work)| *work == ToolWork::Begins);
    let Some((begun, ..)) = begun else { return false };
    let is_of_an_earlier =
        |ended: &Time| story.begins_of(host).any(|begins| begins >= *ended && begins <= *begun);
    let mut ends = own().filter(|(.., work)| *work == ToolWork::Ends);
    is_stopped && ends.all(|(ended, ..)| is_of_an_earlier(ended))
}

/// The host says that the owner of a call is disconnected, or that it no longer takes part. Returns what is
/// true instead. The host knows which of its connections are open, unless its task is held.
fn wrong_cause(story: &Story<'_>, owner: &str, why: &str, at: Time) -> Option<Phrase> {
    let before = at.before(MS);
    let is_here = || story.of_client(owner, before).any(|attached| attached.over > at);
    let was_here = || {
        let mut own = story.of_client(owner, at);
        own.any(|attached| story.later(attached.over, Duration::ZERO) >= before)
    };
    match why.contains("is disconnected") {
        true => is_here().then(|| Phrase::new(&IS_HERE, fields! { owner })),
        false => (!was_here()).then(|| Phrase::new(&IS_AWAY, fields! { owner })),
    }
}

/// A tool does not begin if the user denied its call.
fn denied(story: &Story<'_>, call: &CallStory<'_>) -> Option<Violation> {
    let is_denied =
        call.has_decision(false, call.left) && call.replies.iter().any(|(.., it)| it.is_ok());
    if !is_denied {
        return None;
    }
    story.cx.judges("ends_are_true");
    let (at, host) = call.begins.first()?;
    let data = fields! { call: call.id, host };
    Some(Violation::new("ends_are_true", call.turn, *at, &DENIED, data))
}
