//! Every JSON line conforms to the schema.

use crate::cli::act;
use crate::cli::page::Page;
use crate::report::json::RecordKind;
use crate::report::json::tests::read;

/// Runs a command with `--format json`. Returns its parsed lines, its exit status and its standard
/// error.
fn lines(line: &str) -> (Vec<RecordKind>, u8, String) {
    let (mut out, mut err, mut input) = (Vec::new(), Vec::new(), PLAIN.as_bytes());
    let mut page = Page::of_test(&mut out, &mut err, &mut input, 100);
    let args: Vec<_> = ["reknit"]
        .into_iter()
        .chain(line.split_whitespace())
        .chain(["--format", "json"])
        .map(Into::into)
        .collect();
    let status = act(&args, &crate::subjects::built_in(), &mut page);
    let out = String::from_utf8(out).unwrap();
    (out.lines().map(read).collect(), status, String::from_utf8(err).unwrap())
}

/// A schedule in which nothing goes wrong.
const PLAIN: &str = r#"
format = 1
subject = "counter"
title = "Three numbers"
horizon = "3s"
[stream.s1]
numbers = 3
every = "300ms"
[[step]]
at = "1s"
watch = { stream = "s1" }
"#;

#[test]
fn a_run_prints_one_line_per_file_and_the_totals() {
    let (lines, status, err) = lines(
        "run scenarios/counter/canary.toml scenarios/counter/client-learns-late.toml --seeds 2",
    );
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(
        matches!(&lines[..], [RecordKind::Scenario(canary), RecordKind::Scenario(_), RecordKind::Totals(_)] if canary.failures.len() == 2)
    );
}

#[test]
fn a_hunt_prints_its_findings_a_summary_and_the_totals() {
    let (lines, status, err) = lines("hunt counter --runs 40 --defect resumes-one-too-late");
    assert_eq!((status, err.as_str()), (1, ""));
    let [finds @ .., RecordKind::Hunt(hunt), RecordKind::Totals(totals)] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!((finds.len() as u64, hunt.schedules, totals.schedules), (hunt.saved, 40, 40));
    assert!(hunt.broke > 0 && hunt.properties.contains_key("gap_free"), "{hunt:?}");
    for find in finds {
        let RecordKind::Find(find) = find else { panic!("{find:?}") };
        assert!(
            find.toml.contains("[[step]]")
                && find.replay.starts_with("reknit replay target/reknit/"),
            "{find:?}"
        );
    }
}

#[test]
fn a_sweep_prints_its_positions_a_summary_and_the_totals() {
    let (lines, status, err) = lines("sweep - --positions");
    assert_eq!((status, err.as_str()), (0, ""));
    let [positions @ .., RecordKind::Sweep(sweep), RecordKind::Totals(totals)] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!((positions.len() as u64, sweep.done + 1), (sweep.positions, totals.schedules));
    assert!(positions.iter().all(|line| matches!(line, RecordKind::Position(_))));
    assert_eq!(sweep.faults.values().flat_map(|counts| counts.values()).sum::<u64>(), sweep.done);
}

#[test]
fn defects_print_one_line_each_and_a_summary() {
    let (lines, status, err) = lines(
        "defects counter --defect resumes-one-too-late --defect eof-is-completion --runs 100 --sweep -",
    );
    assert_eq!((status, err.as_str()), (0, ""));
    let [RecordKind::Kill(_), RecordKind::Kill(_), RecordKind::Matrix(matrix)] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!((matrix.defects, matrix.missed), (2, 0));
}
