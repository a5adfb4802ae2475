//! The complete kill matrices: each defect is hunted with random schedules from the first seed on.
//! Scenario files or unit tests find the defects that random schedules miss. This takes minutes:
//! `cargo test --release --test matrix -- --ignored`. Every test run executes a sample.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reknit::scenario::ScenarioFile;
use reknit::subjects::built_in;

#[path = "matrix/alone.rs"]
mod alone;
#[path = "matrix/judged.rs"]
mod judged;
#[path = "matrix/lie.rs"]
mod lie;
#[path = "matrix/lies.rs"]
mod lies;

/// A defect that no schedule reaches, and the unit test of the product that reaches it: its file and
/// its name.
type ByUnitTest = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const BY_UNIT_TEST: &[ByUnitTest] = &[
    ("request-after-the-end", "protocols/turn/src/upstream/tests.rs", "a_request_after_the_end_fails_at_once"),
    ("reader-looks-once", "protocols/turn/src/jobs/tests/defects.rs", "reader_looks_once"),
    ("requests-are-not-counted", "protocols/turn/src/broker/core/tests/defects.rs", "requests_are_not_counted"),
];

/// The bounds of the matrix of a subject.
struct Held {
    subject: &'static str,
    /// The number of schedules within which half of the found defects are found.
    soon: u64,
    /// The median number of steps, at most.
    steps: usize,
}

/// Runs `reknit`, and returns its output.
fn reknit(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reknit"));
    let output = command
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("COLUMNS")
        .env_remove("GITHUB_ACTIONS")
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
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

/// Returns the scenario files of a subject, in the order of their names.
fn scenario_paths(subject: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(subject);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

/// Returns the scenario files of a subject by the defect that they detect. The suite runs each of
/// these files with its defect.
fn files(subject: &str) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for path in scenario_paths(subject) {
        let scenario = ScenarioFile::load(&path, &built_in()).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for defect in scenario.kills {
            files.entry(defect).or_insert_with(|| name.clone());
        }
    }
    files
}

/// Returns the table of the defects that random schedules miss, and of what finds each of them.
fn otherwise(subject: &str, missed: &[&str]) -> String {
    let files = files(subject);
    let mut table = String::from("| defect | found by |\n|---|---|\n");
    for defect in missed {
        let found_by = match BY_UNIT_TEST.iter().find(|(name, ..)| name == defect) {
            Some((_, file, test)) => {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
                let is_there = fs::read_to_string(path).unwrap().contains(&format!("fn {test}()"));
                assert!(is_there, "{file} has no test `{test}` of {defect}");
                format!("the unit test `{test}`")
            }
            None => {
                let file = files.get(*defect);
                format!("`{}`", file.unwrap_or_else(|| panic!("nothing finds {defect}")))
            }
        };
        table += &format!("| `{defect}` | {found_by} |\n");
    }
    table
}

/// Hunts all defects of a subject. Compares the results with the page.
fn holds(held: &Held) {
    let subject = held.subject;
    let table = reknit(&["defects", subject, "--runs", "2000"]);
    let rows: Vec<_> =
        table.lines().skip(1).take_while(|line| !line.is_empty()).map(Row::of).collect();
    let missed: Vec<_> = rows.iter().filter(|row| !row.is_found).map(|row| row.defect).collect();
    let otherwise = otherwise(subject, &missed);
    let found: Vec<_> = rows.iter().filter(|row| row.is_found).collect();
    let soon = found.iter().filter(|row| row.schedules <= held.soon).count();
    let [all, within] = [found.len() as u64, held.soon];
    assert!(soon * 2 >= found.len(), "{soon} of {all} within {within} schedules\n{table}");
    let mut steps: Vec<_> = rows.iter().filter_map(|row| row.steps).collect();
    steps.sort_unstable();
    assert!(steps[steps.len() / 2] <= held.steps && steps[steps.len() - 1] <= 8, "{table}");
    let command = format!("```console\n$ reknit defects {subject} --runs 2000\n");
    shown(&command, "```\n", &table);
    shown(&format!("<!-- missed: {subject} -->\n"), "<!-- end -->\n", &otherwise);
}

/// Checks that the page contains a text between two marks. With REKNIT_BLESS, writes it.
fn shown(begin: &str, end: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kill-matrix.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(begin).expect("the page has this mark");
    let (there, after) = rest.split_once(end).expect("the text has an end");
    if std::env::var_os("REKNIT_BLESS").is_some() {
        fs::write(&path, format!("{before}{begin}{text}{end}{after}")).unwrap();
    } else {
        assert_eq!(
            steady(there),
            steady(text),
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

/// Every test run checks the second tables: a file that no longer finds a defect, or a defect that nothing
/// finds, shows at once.
#[test]
fn what_finds_the_missed_is_up_to_date() {
    let page = include_str!("../docs/kill-matrix.md");
    for subject in ["exec", "toolcall", "counter", "sse", "turn"] {
        let (_, table) =
            page.split_once(&format!("$ reknit defects {subject} --runs 2000\n")).unwrap();
        let rows = table.lines().skip(1).take_while(|line| !line.is_empty()).map(Row::of);
        let missed: Vec<_> = rows.filter(|row| !row.is_found).map(|row| row.defect).collect();
        shown(
            &format!("<!-- missed: {subject} -->\n"),
            "<!-- end -->\n",
            &otherwise(subject, &missed),
        );
    }
}

/// One test: the hunts use all cores, and all of them write the same page.
#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_is_found() {
    for held in [
        Held { subject: "exec", soon: 100, steps: 3 },
        Held { subject: "toolcall", soon: 100, steps: 3 },
        Held { subject: "counter", soon: 100, steps: 3 },
        Held { subject: "sse", soon: 60, steps: 4 },
        Held { subject: "turn", soon: 100, steps: 4 },
    ] {
        holds(&held);
    }
}
