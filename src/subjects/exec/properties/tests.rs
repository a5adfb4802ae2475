//! Tests over hand-written runs. This file contains what several of them need.

use serde_json::json;

use crate::history::{Call, Class, EventKind};
use crate::property::scripted::{ScriptedRun, history};
use crate::property::{CheckContext, Violation};
use crate::report::sentence;
use crate::schedule::MilestoneValue;
use crate::subjects::exec::answers::Read;
use crate::subjects::exec::limits::LIMITS;

mod catch_up;
mod clients;
mod counts;
mod excuses;
mod generations;
mod http;
mod prompt;
mod reads;
mod repair;
mod retained;
mod served;
mod shares;
mod wanted_ending;

/// A run in which call 1 started `p1`, which printed a line at 1 s and is still running.
pub(super) fn started() -> ScriptedRun {
    started_as(r#"{"process":"p1"}"#)
}

/// The same, with these fields of the start.
pub(super) fn started_as(fields: &str) -> ScriptedRun {
    let opened = EventKind::Opened { stream: "p1".into(), call: Call(1) };
    let started = history().asked_as(1, 100, Class::InFlight, "start", fields);
    started.effect(1, 110, "p1").user(120, opened).produced("p1/stdout", 1_000, "a")
}

fn start(call: u64, ms: u64) -> ScriptedRun {
    history().asked_as(call, ms, Class::InFlight, "start", r#"{"process":"p1"}"#)
}

fn read(scripted: ScriptedRun, ms: u64, after: u64) -> ScriptedRun {
    scripted.asked_as(
        2,
        ms,
        Class::Durable,
        "read",
        &json!({ "process": "p1", "after": after, "wait": "2m" }).to_string(),
    )
}

/// An empty answer.
fn nothing(next: u64) -> Read {
    Read { next, ..Read::default() }
}

pub(super) fn violations(
    scripted: &ScriptedRun,
    property: fn(&CheckContext<'_>) -> Vec<Violation>,
) -> Vec<String> {
    let found = scripted.with_limits(LIMITS, property);
    let is_listed = |it: &Violation| {
        super::OWN.iter().any(|own| own.name == it.property && own.kinds.contains(&it.kind))
    };
    assert!(found.iter().all(is_listed), "{found:?}");
    found.iter().map(sentence).collect()
}

/// Adds a milestone of the client's product code.
pub(super) fn milestone(
    scripted: ScriptedRun,
    ms: u64,
    name: &'static str,
    fields: &[(&'static str, &str)],
) -> ScriptedRun {
    let value = |name: &str, text: &str| match text.parse() {
        Ok(number) if name == "conn" => MilestoneValue::Number(number),
        _ => MilestoneValue::Text(text.to_owned()),
    };
    let fields = fields.iter().map(|(name, text)| (*name, value(name, text))).collect();
    scripted.user(ms, EventKind::Milestone { name, fields })
}
