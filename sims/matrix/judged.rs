//! How often each property judges something in random schedules. A property that judges in less than 1 % of them
//! has a reason in this table, or needs other draws.

use std::collections::BTreeSet;

use reknit::subjects::built_in;
use serde_json::Value;

use super::{reknit, shown};

/// The number of schedules.
const RUNS: &str = "5000";

/// A subject, a property, and the reason why random schedules seldom give it anything to judge.
type Seldom = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const SELDOM: &[Seldom] = &[
    ("exec", "attempts_are_answered", "an attempt must begin and end without a fault, but most attempts follow one"),
    ("exec", "catch_ups_progress", "six connections in a row must be cut within one catch-up"),
    ("exec", "catches_up_at_once", "several processes must catch up after the last fault, over a link that carries little"),
    ("exec", "gaps_are_requested", "an event must be missing for longer than a client waits: only the script of a server does that"),
    ("exec", "logs_are_bounded", "a host must have one process, one slow reader and more events than its log holds"),
    ("exec", "refusals_pass", "a server never refuses a read for a while: only a script does"),
    ("exec", "renounced_is_over", "a server never renounces a session: only a script does"),
    ("exec", "repetitions_pause", "a server never refuses a read twice: only a script does"),
    ("exec", "sessions_are_shared", "a random host has one or two sessions, and the least limit is four"),
    ("exec", "terminates_tell_truth", "a terminate must be answered, and no fault may come during the call or since the process ended"),
    ("exec", "turns_are_fair", "a process must print while another one has more to send than the link carries, on a first connection without a fault of a host"),
    ("exec", "unfollowed_run_on", "a user must stop to follow a process that still prints and then ends by itself, and no fault may come later"),
    ("exec", "watches_are_true", "a file must change while a user watches it, and no fault may come before the news"),
    ("exec", "write_ids_are_own", "two clients, or one client before and after its crash, must write"),
    ("exec", "writes_have_a_reader", "a user must write after it has received the exit of the process"),
    ("sse", "sessions_run_one", "two users must run commands in one shell session at the same time"),
    ("sse", "stale_generation_inert", "the packets of a stream carry no generation: `stale_close_is_inert` judges late ends"),
    ("sse", "takeover_is_due", "a stream must be taken from a reader that lives: most readers that lose it are gone"),
    ("toolcall", "released_at_once", "a window must leave its last chat while a call of it waits"),
    ("turn", "bounded_delivery", "turn records no streams: its own properties judge what users see"),
    ("turn", "bounded_ending", "turn records no streams: its own properties judge what users see"),
    ("turn", "bounded_memory", "turn declares no gauge of bytes: `broker_lets_go` judges what the broker holds"),
    ("turn", "gap_free", "turn records no streams: its own properties judge what users see"),
    ("turn", "isolation", "turn records no streams: its own properties judge what users see"),
    ("turn", "justified_failure", "turn records no streams: its own properties judge what users see"),
    ("turn", "stale_generation_inert", "a connection of turn has no generations"),
    ("turn", "start_is_prompt", "a client must ask for a turn beside one that is over, and no job may run"),
    ("turn", "threads_are_free", "a client must resume the thread of a turn that winds down"),
];

/// Returns the rows of the page: each property that judges seldom, in how many schedules, and the reason.
fn rows() -> String {
    let mut rows = String::new();
    let mut reasons: BTreeSet<_> =
        SELDOM.iter().map(|(subject, name, _)| (*subject, *name)).collect();
    for subject in built_in() {
        let subject = subject.name();
        let lines = reknit(&["hunt", subject, "--runs", RUNS, "--seed", "1", "--format", "json"]);
        let mut lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let totals = lines.find(|line| line["kind"] == "totals").unwrap();
        for (name, runs) in totals["seldom"].as_object().unwrap() {
            let reason = SELDOM.iter().find(|(of, known, _)| *of == subject && *known == name);
            let reason = reason.map_or("no reason is known", |(.., reason)| reason);
            reasons.retain(|(of, known)| (*of, *known) != (subject, name.as_str()));
            rows += &format!("| {subject} | `{name}` | {runs} | {reason} |\n");
        }
    }
    assert!(!rows.contains("no reason is known"), "draw what these judge, or say why not:\n{rows}");
    assert!(reasons.is_empty(), "these judge often enough: {reasons:?}");
    rows
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn each_property_that_judges_seldom_has_a_reason() {
    let head = "| subject | property | schedules | why so few |\n|---|---|---|---|\n";
    shown("<!-- seldom -->\n", "<!-- end -->\n", &format!("{head}{}", rows()));
}
