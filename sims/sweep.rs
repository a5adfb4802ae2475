//! Sweeps over plain schedules of `exec`: no fault at any of their positions causes a violation.
//! Other sweeps find defects, which proves that the first result means something.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use reknit::hunt::{self, Checks, Pool};
use reknit::scenario::ScenarioFile;
use reknit::subject::{DynSubject, Subject};

/// The output and the exit status of the command.
struct Done {
    out: String,
    err: String,
    status: Option<i32>,
}

/// Returns the path of a plain scenario of `exec`.
fn plain(name: &str) -> String {
    format!("scenarios/exec/plain-{name}.toml")
}

fn sweep(file: &str) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reknit"));
    command
        .args(["sweep", file])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("COLUMNS")
        .env_remove("GITHUB_ACTIONS")
        .env_remove("GITHUB_STEP_SUMMARY");
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { out: text(output.stdout), err: text(output.stderr), status: output.status.code() }
}

/// Returns the numbers of a row of the table of faults: runs, untouched, recovered, failed,
/// violations.
fn row(out: &str, fault: &str) -> [u64; 5] {
    let row =
        out.lines().filter_map(|line| line.strip_prefix(fault)).find(|rest| rest.starts_with(' '));
    let cells =
        row.unwrap_or_else(|| panic!("there is no row of {fault}: {out}")).split_whitespace();
    let figures: Vec<_> = cells.map(|cell| cell.parse().unwrap_or(0)).collect();
    figures.try_into().unwrap_or_else(|figures| panic!("{fault}: {figures:?}"))
}

fn holds(name: &str) {
    let done = sweep(&plain(name));
    assert_eq!((done.status, done.err.as_str()), (Some(0), ""), "{}", done.out);
    assert!(done.out.ends_with("no violation\n"), "{}", done.out);
    assert!(
        !done.out.contains("had no effect"),
        "each fault is tried where it makes sense: {}",
        done.out
    );
    let (_, table) = done.out.split_once("\n\n").expect("positions, then faults");
    let [runs, untouched, recovered, failed, broken] = row(table, "all");
    assert!(runs >= 100 && runs == untouched + recovered + failed + broken, "{}", done.out);
    assert!(untouched > 0 && recovered > 0 && failed > 0 && broken == 0, "{}", done.out);
    for fault in [
        "cut, client first",
        "cut, server first",
        "half-open at client",
        "half-open at server",
        "cut inside",
        "crash",
    ] {
        assert!(row(table, fault)[0] > 0, "{}", done.out);
    }
}

#[test]
fn output_and_an_exit_survive_every_fault_at_every_position() {
    holds("output-and-exit");
}

#[test]
fn writes_and_their_echo_survive_every_fault_at_every_position() {
    holds("write-and-echo");
}

#[test]
fn two_processes_survive_every_fault_at_every_position() {
    holds("two-processes");
}

/// Returns the first violation of a sweep over a plain scenario with a defect on: the fault, and
/// the properties.
fn first_find(name: &str, defect: &str) -> Option<(&'static str, Vec<&'static str>)> {
    let subject: Arc<dyn DynSubject> = Arc::new(reknit::subjects::Exec);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(plain(name));
    let scenario = ScenarioFile::load(&file, std::slice::from_ref(&subject)).unwrap();
    let mut plan = scenario.plans().remove(0);
    plan.defects.push(defect.to_owned());
    let swept = hunt::sweep(&subject, &plan, &Checks::default(), &Pool::default(), |_, caught| {
        if caught.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let found = swept.unwrap().trials.into_iter().find(|trial| !trial.broken.is_empty())?;
    Some((found.fault.name, found.broken))
}

#[test]
fn defects_are_found_at_the_faults_that_show_them() {
    for (defect, fault) in
        [("fresh-session-after-cut", "cut"), ("ping-without-deadline", "half-open")]
    {
        let (at, broken) = first_find("output-and-exit", defect)
            .unwrap_or_else(|| panic!("{defect} was not found"));
        let known = Subject::defects(&reknit::subjects::Exec)
            .iter()
            .find(|known| known.name == defect)
            .unwrap();
        assert!(
            at.starts_with(fault) && broken.iter().any(|it| known.breaks.contains(it)),
            "{defect}: {at}, {broken:?}"
        );
    }
}

#[test]
fn a_swarm_is_not_swept() {
    let file = "scenarios/exec/swarm-default.toml";
    let done = sweep(file);
    let wants = "this file is a swarm; a sweep needs a schedule, which is a file with steps";
    assert_eq!((done.status, done.err), (Some(2), format!("reknit: {file}: {wants}\n")));
}
