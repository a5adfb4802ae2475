//! The complete kill matrices: each defect is hunted with random schedules from the first seed on.
//! A scenario file shows each defect that random schedules miss. This takes minutes: `cargo test --release
//! --test matrix -- --ignored`. Every test run executes a sample.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use reknit::hunt::{JudgedRun, judge, plans};
use reknit::scenario::ScenarioFile;
use reknit::subject::DynSubject;
use reknit::subjects::built_in;
use reknit::world::Options;

#[path = "matrix/alone.rs"]
mod alone;

/// A defect that no schedule reaches, and the unit test of the product that reaches it: its file and
/// its name.
type ByUnitTest = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const TURN_BY_UNIT_TEST: &[ByUnitTest] = &[
    ("request-after-the-end", "protocols/turn/src/upstream/tests.rs", "a_request_after_the_end_fails_at_once"),
    ("reader-looks-once", "protocols/turn/src/jobs/tests/defects.rs", "reader_looks_once"),
    ("requests-are-not-counted", "protocols/turn/src/broker/core/tests/defects.rs", "requests_are_not_counted"),
];

/// The bounds of the matrix of a subject.
struct Held {
    subject: &'static str,
    by_unit_test: &'static [ByUnitTest],
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

/// Hunts all defects of a subject. Looks for the scenario files that show the missed ones. Compares both
/// tables with the page.
fn holds(held: &Held) {
    let subject = held.subject;
    let (table, _) = reknit(&["defects", subject, "--runs", "2000"]);
    let rows: Vec<_> =
        table.lines().skip(1).take_while(|line| !line.is_empty()).map(Row::of).collect();
    let missed: Vec<_> = rows.iter().filter(|row| !row.is_found).map(|row| row.defect).collect();
    for (defect, file, test) in held.by_unit_test {
        assert!(missed.contains(defect), "random schedules find {defect}");
        let is_there =
            fs::read_to_string(root().join(file)).unwrap().contains(&format!("fn {test}()"));
        assert!(is_there, "{file} has no test `{test}` of {defect}");
    }
    let by_file = by_file(held, &missed);
    let soon = rows.iter().filter(|row| row.is_found && row.schedules <= held.soon).count();
    let [all, within] = [rows.len() as u64, held.soon];
    assert!(soon * 2 >= rows.len(), "{soon} of {all} within {within} schedules\n{table}");
    let mut steps: Vec<_> = rows.iter().filter_map(|row| row.steps).collect();
    steps.sort_unstable();
    assert!(steps[steps.len() / 2] <= held.steps && steps[steps.len() - 1] <= 8, "{table}");
    shown(&format!("```console\n$ reknit defects {subject} --runs 2000\n"), &table, "```\n");
    shown(&format!("<!-- the files for {subject} -->\n"), &by_file, "<!-- end -->\n");
}

/// Returns the table of the missed defects: the file that shows each, and the property that it breaks
/// there.
fn by_file(held: &Held, missed: &[&str]) -> String {
    let subject = built_in().into_iter().find(|subject| subject.name() == held.subject).unwrap();
    let folder = root().join("scenarios").join(held.subject);
    let scenarios = scenarios(&folder, &subject);
    let mut table = "| defect | shown by | property |\n|---|---|---|\n".to_owned();
    for defect in missed {
        let killers = || scenarios.iter().filter(|it| it.kills.iter().any(|kills| kills == defect));
        let broken = killers().find_map(|it| Some((it, broken(&subject, it, defect)?)));
        let (file, property) =
            match (broken, killers().next(), held.by_unit_test.iter().find(|row| row.0 == *defect))
            {
                (Some((it, property)), ..) => (link(it), format!("`{property}`")),
                (None, Some(it), _) => (link(it), "its expectations".to_owned()),
                (None, None, Some((_, file, test))) => {
                    (format!("[`{test}`](../{file})"), "a unit test".to_owned())
                }
                (None, None, None) => {
                    panic!("random schedules miss {defect}, and no file kills it")
                }
            };
        writeln!(table, "| `{defect}` | {file} | {property} |").unwrap();
    }
    table
}

/// Returns all scenarios of a folder and its folders, in the order of their paths.
fn scenarios(folder: &Path, subject: &Arc<dyn DynSubject>) -> Vec<ScenarioFile> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(scenarios(&path, subject));
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(ScenarioFile::load(&path, std::slice::from_ref(subject)).unwrap());
        }
    }
    found
}

/// Returns a property that the defect is declared to violate, if it violates one in a run of the file.
fn broken(
    subject: &Arc<dyn DynSubject>,
    scenario: &ScenarioFile,
    defect: &str,
) -> Option<&'static str> {
    let known = subject.defects().iter().find(|known| known.name == defect)?;
    let expect = plans::expected(scenario);
    plans::of(scenario, subject).into_iter().find_map(|mut plan| {
        plan.defects.push(defect.to_owned());
        let run = JudgedRun { subject, plan: &plan, expect: &expect };
        let judged = judge(run, &Options::default(), |_| false).unwrap();
        let mut broken = judged.broken.iter().map(|broken| broken.property);
        broken.find(|property| known.breaks.contains(property))
    })
}

/// Returns the title of a scenario, with a link to its file.
fn link(scenario: &ScenarioFile) -> String {
    let path = scenario.path.strip_prefix(root()).unwrap().display();
    format!("[{}](../{path})", scenario.title)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Checks that the page contains a table, between two marks. With REKNIT_BLESS, writes it.
fn shown(mark: &str, table: &str, end: &str) {
    // All tests of this file write the same page.
    static PAGE: Mutex<()> = Mutex::new(());
    let _page = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = root().join("docs/kill-matrix.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(mark).expect("the page has the mark");
    let (there, after) = rest.split_once(end).expect("what it shows has an end");
    if std::env::var_os("REKNIT_BLESS").is_some() {
        fs::write(&path, format!("{before}{mark}{table}{end}{after}")).unwrap();
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
    holds(&Held { subject: "exec", by_unit_test: &[], soon: 100, steps: 3 });
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_toolcall_is_found() {
    holds(&Held { subject: "toolcall", by_unit_test: &[], soon: 100, steps: 3 });
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_counter_is_found() {
    holds(&Held { subject: "counter", by_unit_test: &[], soon: 100, steps: 3 });
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_sse_is_found() {
    holds(&Held { subject: "sse", by_unit_test: &[], soon: 60, steps: 4 });
}

#[test]
#[ignore = "it takes minutes, in a release"]
fn every_defect_of_turn_is_found() {
    holds(&Held { subject: "turn", by_unit_test: TURN_BY_UNIT_TEST, soon: 60, steps: 4 });
}
