//! The kill matrices, whole: each defect is hunted by chance, from the first seed on, and what chance does not find, a sweep does. They
//! take minutes: `cargo test --release --test matrix -- --ignored`. Every test run has a sample of them.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A defect that chance does not find, and the schedule whose sweep finds it. Why that is so, the page says.
type BySweep = (&'static str, &'static str);

#[rustfmt::skip]
const EXEC: &[BySweep] = &[
    ("duplicates-delivered", "scenarios/exec/what-is-read-is-told-too.toml"),
    ("flood-blocks-replies", "scenarios/exec/a-flood-beside-a-quiet-process.toml"),
];

const COUNTER: &[BySweep] =
    &[("stale-close-disconnects", "scenarios/counter/half-open-toward-the-client.toml")];

#[rustfmt::skip]
const TOOLCALL: &[BySweep] = &[
    ("rollback-loses-lease", "scenarios/toolcall/a-handshake-that-comes-to-nothing.toml"),
    ("answers-overtake", "scenarios/toolcall/asked-for-in-a-busy-chat.toml"),
    ("new-taken-for-old", "scenarios/toolcall/a-session-is-made-anew-while-its-window-is-away.toml"),
];

/// What the command printed, and whether all was found.
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
    /// Of the schedule made small; nothing where that cannot be.
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

/// Hunts all defects of a subject, and sweeps for the rest. The page shows the table that came of it.
fn holds(subject: &str, by_sweep: &[BySweep]) {
    let (table, _) = reknit(&["defects", subject, "--runs", "2000"]);
    let rows: Vec<_> =
        table.lines().skip(1).take_while(|line| !line.is_empty()).map(Row::of).collect();
    let missed: Vec<_> = rows.iter().filter(|row| !row.is_found).map(|row| row.defect).collect();
    assert_eq!(
        missed,
        by_sweep.iter().map(|(defect, _)| *defect).collect::<Vec<_>>(),
        "not found by chance\n{table}"
    );
    for (defect, file) in by_sweep {
        let (swept, found) =
            reknit(&["defects", subject, "--defect", defect, "--runs", "1", "--sweep", file]);
        assert!(found, "{swept}");
    }
    let soon = rows.iter().filter(|row| row.is_found && row.schedules <= 100).count();
    assert!(soon * 2 >= rows.len(), "{soon} of {} within 100 schedules\n{table}", rows.len());
    let mut steps: Vec<_> = rows.iter().filter_map(|row| row.steps).collect();
    steps.sort_unstable();
    assert!(steps[steps.len() / 2] <= 3 && steps[steps.len() - 1] <= 8, "{table}");
    shown(subject, &table);
}

/// The page has the table, or gets it where REKNIT_BLESS is set.
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

/// The rows, but for the defect that draws without a seed: it is found when it likes.
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
    holds("exec", EXEC);
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_toolcall_is_found() {
    holds("toolcall", TOOLCALL);
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_counter_is_found() {
    holds("counter", COUNTER);
}
