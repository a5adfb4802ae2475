//! The complete kill matrices: each defect is hunted with random schedules from the first seed on.
//! A sweep covers the defects that random schedules miss. This takes minutes: `cargo test --release
//! --test matrix -- --ignored`. Every test run executes a sample.

use std::fs;
use std::path::Path;
use std::process::Command;

#[path = "matrix/alone.rs"]
mod alone;

/// A defect that random schedules miss, and the schedule whose sweep finds it. The page explains
/// the reason.
type BySweep = (&'static str, &'static str);

#[rustfmt::skip]
const EXEC: &[BySweep] = &[
    ("catch-up-unbounded", "scenarios/exec/catch-up-longer-than-any-connection.toml"),
    ("duplicates-delivered", "scenarios/exec/read-overtakes-events.toml"),
    ("slow-user-stops-connection", "scenarios/exec/a-slow-user-of-codex.toml"),
    ("report-lost-at-cut", "scenarios/exec/a-slow-user-is-cut-off.toml"),
    ("full-stdin-blocks-requests", "scenarios/exec/a-full-stdin-beside-a-terminate.toml"),
    ("redirects-unbounded", "scenarios/exec/http-redirects.toml"),
    ("write-ids-forgotten", "scenarios/exec/more-writes-than-remembered-ids.toml"),
    ("sessions-first-come", "scenarios/exec/a-host-opens-many-sessions.toml"),
    ("flood-blocks-replies", "scenarios/exec/a-flood-beside-a-quiet-process.toml"),
    ("flow-ends-with-connection", "scenarios/exec/a-slow-user-is-cut-off.toml"),
];

const COUNTER: &[BySweep] =
    &[("stale-close-disconnects", "scenarios/counter/half-open-toward-the-client.toml")];

#[rustfmt::skip]
const TOOLCALL: &[BySweep] = &[
    ("rollback-loses-lease", "scenarios/toolcall/failed-handshake-keeps-the-grace-period.toml"),
    ("answers-overtake", "scenarios/toolcall/subscription-to-a-busy-chat.toml"),
    ("new-taken-for-old", "scenarios/toolcall/session-recreated-while-its-window-is-away.toml"),
    ("tokens-handed-over-once", "scenarios/toolcall/tokens-lost-on-their-way.toml"),
    ("two-queues", "scenarios/toolcall/requests-without-a-connection.toml"),
];

#[rustfmt::skip]
const SSE: &[BySweep] = &[
    ("restart-forgets-the-start", "scenarios/sse/a-start-across-a-restart.toml"),
    ("stuck-stream-stays", "scenarios/sse/a-stuck-reader-is-replaced.toml"),
    ("no-write-deadline", "scenarios/sse/a-stuck-reader-is-closed.toml"),
    ("loser-ends-cleanly", "scenarios/sse/the-loser-of-a-takeover.toml"),
    ("loss-ends-hold", "scenarios/sse/a-command-waits-for-a-client-that-is-away.toml"),
    ("buffers-count-as-read", "scenarios/sse/a-cut-with-full-buffers.toml"),
    ("logs-skip-the-rest", "scenarios/sse/a-background-command.toml"),
    ("end-of-stream-is-success", "scenarios/sse/a-stream-that-ends-early.toml"),
    ("holes-ignored", "scenarios/sse/holes-are-noticed.toml"),
    ("duplicates-delivered", "scenarios/sse/a-repeated-event-is-dropped.toml"),
    ("run-not-checked", "scenarios/sse/a-restarted-server-has-another-run.toml"),
    ("budget-refilled-by-connecting", "scenarios/sse/a-server-that-only-answers.toml"),
];

#[rustfmt::skip]
const TURN: &[BySweep] = &[
    ("runs-again-beside-its-thread", "scenarios/turn/busy-between-thread-and-turn.toml"),
    ("fast-turn-stays-live", "scenarios/turn/a-fast-turn-and-a-silent-client.toml"),
    ("idle-clients-are-kept", "scenarios/turn/a-client-vanishes-before-its-turn.toml"),
    ("works-on-a-cancelled-job", "scenarios/turn/a-worker-learns-of-a-cancel-from-the-record.toml"),
    ("signals-whoever-has-the-id", "scenarios/turn/a-stranger-has-the-id-of-a-worker.toml"),
];

/// A defect that no schedule reaches, and the unit test of the product that reaches it: its file and
/// its name.
type ByUnitTest = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const TURN_BY_UNIT_TEST: &[ByUnitTest] = &[
    ("request-after-the-end", "protocols/turn/src/upstream/tests.rs", "a_request_after_the_end_fails_at_once"),
    ("reader-looks-once", "protocols/turn/src/jobs/tests/defects.rs", "reader_looks_once"),
    ("requests-are-not-counted", "protocols/turn/src/broker/core/tests/defects.rs", "requests_are_not_counted"),
];

const NONE: &[ByUnitTest] = &[];

/// A defect that only a scenario file shows, because one peer must break the protocol, or because its
/// effect needs a rare sequence of steps. The suite checks that the file detects it.
type ByFile = (&'static str, &'static str);

#[rustfmt::skip]
const EXEC_BY_FILE: &[ByFile] = &[
    ("serves-before-initialized", "scenarios/exec/client-sends-invalid-messages.toml"),
    ("malformed-ends-connection", "scenarios/exec/client-sends-invalid-messages.toml"),
    ("unknown-method-unanswered", "scenarios/exec/client-sends-invalid-messages.toml"),
    ("unexpected-response-ignored", "scenarios/exec/client-sends-invalid-messages.toml"),
    ("malformed-skipped", "scenarios/exec/resume-answered-with-another-session.toml"),
    ("many-polls-block-requests", "scenarios/exec/a-terminate-passes-many-long-polls.toml"),
    ("unfollowed-counts-as-unread", "scenarios/exec/a-process-that-nobody-follows-runs-on.toml"),
    ("repeated-write-refused", "scenarios/exec/a-write-is-repeated-after-the-exit.toml"),
    ("read-pieces-count", "scenarios/exec/a-long-body-and-a-steady-reader.toml"),
    ("unsubscribing-makes-no-room", "scenarios/exec/a-slow-subscription-ends.toml"),
    ("lost-release-forgotten", "scenarios/exec/a-release-is-lost-with-its-connection.toml"),
    ("catch-up-waits-for-released", "scenarios/exec/a-process-is-dropped-during-its-catch-up.toml"),
    ("later-subscriber-loses-events", "scenarios/exec/a-second-subscription-is-slow.toml"),
    ("file-requests-per-connection", "scenarios/exec/a-slow-write-and-its-successor.toml"),
    ("running-session-evicted", "scenarios/exec/a-host-has-all-its-sessions.toml"),
];

#[rustfmt::skip]
const SSE_BY_FILE: &[ByFile] = &[
    ("early-interrupt-lost", "scenarios/sse/an-interrupt-during-the-launch.toml"),
    ("session-command-outlives-stream", "scenarios/sse/a-long-command-of-a-lost-session.toml"),
    ("deleted-session-runs-on", "scenarios/sse/a-session-is-deleted.toml"),
    ("hold-never-ends", "scenarios/sse/a-held-command-of-a-client-that-never-returns.toml"),
    ("time-limit-delays-the-kill", "scenarios/sse/an-interrupt-before-a-time-limit.toml"),
    ("older-attempt-supersedes", "scenarios/sse/a-delayed-attempt-to-resume.toml"),
    ("only-events-are-signs", "scenarios/sse/an-event-longer-than-the-silence.toml"),
    ("age-counts-from-the-last", "scenarios/sse/a-start-across-a-restart-and-a-cut.toml"),
    ("age-counts-from-the-loss", "scenarios/sse/a-start-before-a-restart-noticed-late.toml"),
];

const COUNTER_BY_FILE: &[ByFile] =
    &[("malformed-line-skipped", "scenarios/counter/a-client-sends-malformed-data.toml")];

/// The bounds of the matrix of a subject.
struct Held {
    subject: &'static str,
    /// The defects that only a sweep finds, those that only a unit test finds, and those that only the
    /// expectations of a file show.
    by_sweep: &'static [BySweep],
    by_unit_test: &'static [ByUnitTest],
    by_file: &'static [ByFile],
    /// The number of schedules within which half of the defects are found.
    soon: u64,
    /// The median number of steps, at most.
    steps: usize,
}

/// Runs `reknit`; returns the output, and whether every defect was found.
fn reknit(args: &[&str]) -> (String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reknit"));
    let output = command
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("COLUMNS")
        .env_remove("GITHUB_ACTIONS")
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.success())
}

/// A row of the table.
struct Row<'a> {
    defect: &'a str,
    schedules: u64,
    is_found: bool,
    /// The number of steps of the shrunk schedule; `None` if it cannot be shrunk.
    steps: Option<usize>,
}

impl<'a> Row<'a> {
    fn of(line: &'a str) -> Self {
        let cells: Vec<_> = line.split_whitespace().collect();
        let [defect, schedules, _drawn, steps, ..] = cells[..] else {
            panic!("a row has five cells: {line}")
        };
        let is_found = !line.ends_with("not found");
        Row { defect, schedules: schedules.parse().unwrap(), is_found, steps: steps.parse().ok() }
    }
}

/// Hunts all defects of a subject, and sweeps for the rest. Compares the resulting table with the
/// page.
fn holds(held: &Held) {
    let subject = held.subject;
    let (table, _) = reknit(&["defects", subject, "--runs", "2000"]);
    let rows: Vec<_> =
        table.lines().skip(1).take_while(|line| !line.is_empty()).map(Row::of).collect();
    let missed: Vec<_> = rows.iter().filter(|row| !row.is_found).map(|row| row.defect).collect();
    let mut otherwise: Vec<_> = held.by_sweep.iter().map(|(defect, _)| *defect).collect();
    otherwise.extend(held.by_unit_test.iter().map(|(defect, _, _)| *defect));
    otherwise.extend(held.by_file.iter().map(|(defect, _)| *defect));
    otherwise.sort_by_key(|defect| rows.iter().position(|row| row.defect == *defect));
    assert_eq!(missed, otherwise, "not found by chance\n{table}");
    for (defect, file, test) in held.by_unit_test {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let is_there = fs::read_to_string(path).unwrap().contains(&format!("fn {test}()"));
        assert!(is_there, "{file} has no test `{test}` of {defect}");
    }
    for (defect, file) in held.by_file {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = fs::read_to_string(path).unwrap();
        let kills = text.lines().find(|line| line.starts_with("kills"));
        assert!(kills.is_some_and(|kills| kills.contains(&format!("\"{defect}\""))), "{file}");
    }
    for (defect, file) in held.by_sweep {
        let (swept, found) =
            reknit(&["defects", subject, "--defect", defect, "--runs", "1", "--sweep", file]);
        assert!(found, "{swept}");
    }
    let soon = rows.iter().filter(|row| row.is_found && row.schedules <= held.soon).count();
    let [all, within] = [rows.len() as u64, held.soon];
    assert!(soon * 2 >= rows.len(), "{soon} of {all} within {within} schedules\n{table}");
    let mut steps: Vec<_> = rows.iter().filter_map(|row| row.steps).collect();
    steps.sort_unstable();
    assert!(steps[steps.len() / 2] <= held.steps && steps[steps.len() - 1] <= 8, "{table}");
    shown(subject, &table);
}

/// Checks that the page contains the table. With REKNIT_BLESS, writes it.
fn shown(subject: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kill-matrix.md");
    let page = fs::read_to_string(&path).unwrap();
    let mark = format!("```console\n$ reknit defects {subject} --runs 2000\n");
    let (before, rest) = page.split_once(&mark).expect("the page shows the command");
    let (there, after) = rest.split_once("```\n").expect("what it shows has an end");
    if std::env::var_os("REKNIT_BLESS").is_some() {
        fs::write(&path, format!("{before}{mark}{table}```\n{after}")).unwrap();
    } else {
        assert_eq!(
            steady(there),
            steady(table),
            "REKNIT_BLESS=1 cargo test --release --test matrix -- --ignored writes it anew"
        );
    }
}

/// Returns the rows, except the one of the defect whose randomness has no seed: its number of
/// schedules varies.
fn steady(table: &str) -> Vec<&str> {
    table
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.ends_with("same_digest"))
        .collect()
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_exec_is_found() {
    let (by_sweep, by_unit_test) = (EXEC, NONE);
    holds(&Held {
        subject: "exec",
        by_sweep,
        by_unit_test,
        by_file: EXEC_BY_FILE,
        soon: 100,
        steps: 3,
    });
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_toolcall_is_found() {
    let (by_sweep, by_unit_test) = (TOOLCALL, NONE);
    holds(&Held { subject: "toolcall", by_sweep, by_unit_test, by_file: &[], soon: 100, steps: 3 });
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_counter_is_found() {
    let (by_sweep, by_unit_test) = (COUNTER, NONE);
    holds(&Held {
        subject: "counter",
        by_sweep,
        by_unit_test,
        by_file: COUNTER_BY_FILE,
        soon: 100,
        steps: 3,
    });
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_sse_is_found() {
    let (by_sweep, by_unit_test) = (SSE, NONE);
    let by_file = SSE_BY_FILE;
    holds(&Held { subject: "sse", by_sweep, by_unit_test, by_file, soon: 60, steps: 4 });
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_turn_is_found() {
    let (by_sweep, by_unit_test) = (TURN, TURN_BY_UNIT_TEST);
    holds(&Held { subject: "turn", by_sweep, by_unit_test, by_file: &[], soon: 60, steps: 4 });
}
