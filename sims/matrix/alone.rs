//! Each property of `sse` finds a bug that no other property finds. Otherwise, the property would not be
//! needed.

use std::path::Path;
use std::sync::Arc;

use reknit::hunt::judge::{JudgedRun, judge};
use reknit::scenario::{Expect, ScenarioFile};
use reknit::subject::{DynSubject, Subject};
use reknit::subjects::Sse;
use reknit::world::Options;

/// A property, a bug that only this property finds, and the scenario file that shows it.
type Alone = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const SSE: &[Alone] = &[
    ("gap_is_exact", "gap-too-long", "more-output-than-the-log-keeps"),
    ("positions_follow", "holes-ignored", "holes-are-noticed"),
    ("hold_is_lossless", "buffers-count-as-read", "a-cut-with-full-buffers"),
    ("server_keeps_the_protocol", "attach-then-flush", "output-during-the-handoff"),
    ("success_has_an_ending", "end-of-stream-is-success", "a-stream-that-ends-early"),
    ("outcomes_stay", "failed-followers-go-on", "a-failure-stays"),
    ("conflict_is_true", "conflict-is-fatal", "two-clients-want-one-stream"),
    ("takeover_is_due", "newest-always-wins", "two-clients-want-one-stream"),
    ("stale_close_is_inert", "stale-close-detaches", "a-late-close-of-an-old-stream"),
    ("producer_is_not_delayed", "slow-reader-holds-command", "a-stuck-reader-delays-no-command"),
    ("command_lives_on", "command-dies-with-connection", "a-follower-vanishes"),
    ("commands_are_bounded", "commands-unbounded", "too-many-commands"),
    ("cursor_is_checked", "epoch-ignored", "a-cursor-of-another-run"),
    ("status_is_true", "killed-is-success", "an-interrupted-command"),
    ("endings_are_true", "grace-is-a-time-limit", "an-interrupt-of-a-stubborn-command"),
    ("logs_are_true", "logs-skip-the-rest", "a-background-command"),
    ("refusal_is_true", "log-gone-after-a-second", "two-followers-after-a-part-of-a-line"),
    ("refusals_are_true", "used-id-is-accepted", "a-used-id"),
    ("ends_when_asked", "interrupt-wakes-no-task", "an-interrupt-of-a-quiet-command"),
    ("streams_stay", "heartbeat-only-once", "a-quiet-command-for-a-minute"),
    ("pauses_grow", "pauses-do-not-grow", "a-server-that-is-away-for-long"),
    ("deadlines_hold", "budget-counts-from-the-last-byte", "a-budget-counts-from-the-loss"),
    ("output_is_prompt", "output-wakes-no-stream", "output-arrives-at-once"),
    ("output_is_whole", "open-errors-are-lost", "the-last-words-of-a-command"),
    ("items_are_lines", "lines-are-joined", "many-lines-at-once"),
    ("sessions_run_one", "lost-stream-frees-the-session", "a-session-whose-command-has-lost-its-stream"),
    ("sessions_are_bounded", "deleted-sessions-count", "more-sessions-than-allowed"),
    ("deleted_is_gone", "idle-session-stays", "a-deleted-session-is-gone"),
    ("server_lets_go", "sweeps-with-the-last", "logs-go-one-by-one"),
];

/// Returns the violated properties of a file with a bug, in the order of their first violations.
fn broken(subject: &Arc<dyn DynSubject>, bug: &str, file: &str) -> Vec<&'static str> {
    let path = format!("{}/scenarios/sse/{file}.toml", env!("CARGO_MANIFEST_DIR"));
    let scenario = ScenarioFile::load(Path::new(&path), std::slice::from_ref(subject)).unwrap();
    let mut plan = scenario.plans().remove(0);
    plan.defects.push(bug.to_owned());
    let run = JudgedRun { subject, plan: &plan, expect: &Expect::default() };
    let judged = judge(run, &Options::default(), |_| true).unwrap();
    let mut properties: Vec<_> = judged.broken.iter().map(|broken| broken.property).collect();
    properties.dedup();
    properties
}

#[test]
fn each_property_of_sse_finds_a_bug_alone() {
    let subject: Arc<dyn DynSubject> = Arc::new(Sse);
    let named: Vec<_> = SSE.iter().map(|(property, ..)| *property).collect();
    let all: Vec<_> = Subject::properties(&Sse).iter().map(|property| property.name).collect();
    assert_eq!(named, all);
    for (property, bug, file) in SSE {
        assert_eq!(broken(&subject, bug, file), [*property], "{bug} in {file}");
    }
}
