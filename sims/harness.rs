//! The harness, tested by itself: the command as a person runs it, end to end.

use std::io::Write;
use std::process::{Command, Stdio};

/// What the command printed, and its status.
struct Done {
    out: String,
    err: String,
    status: Option<i32>,
}

/// Runs `reknit`, from the root of the package.
fn reknit(args: &[&str]) -> Done {
    reknit_reading(args, "")
}

fn reknit_reading(args: &[&str], input: &str) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reknit"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("COLUMNS");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { out: text(output.stdout), err: text(output.stderr), status: output.status.code() }
}

/// Words that stand beside each other in some line.
fn says(text: &str, words: &str) -> bool {
    text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words)
}

#[test]
fn all_files_hold_and_the_table_says_so() {
    let done = reknit(&["run"]);
    assert_eq!((done.err.as_str(), done.status), ("", Some(0)), "{}", done.out);
    assert!(says(&done.out, "times real time"), "{}", done.out);
    assert!(!done.out.contains('\x1b'), "colours where nobody sees them");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let lines = |jobs| {
        let out = reknit(&["run", "--format", "json", "--seeds", "8", "--jobs", jobs]).out;
        let lines = out.lines().filter(|line| line.contains("\"kind\":\"scenario\""));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let one = lines("1");
    assert!(!one.is_empty());
    assert_eq!(one, lines("4"));
}

#[test]
fn a_mistake_is_one_line_and_status_2() {
    for args in [&["run", "no/such/file.toml"][..], &["replay", "README.md"], &["new", "cuonter"], &["fly"], &[]] {
        let done = reknit(args);
        assert_eq!((done.out.as_str(), done.status, done.err.lines().count()), ("", Some(2), 1), "{args:?}: {}", done.err);
    }
}

#[test]
fn the_same_run_is_the_same_twice_and_parts_where_a_defect_shows() {
    let file = "scenarios/counter/short-cut-while-numbers-flow.toml";
    let same = reknit(&["diff", file]);
    assert_eq!((same.status, same.err.as_str()), (Some(0), ""), "{}", same.out);
    assert!(same.out.starts_with("the same: "), "{}", same.out);
    let parted = reknit(&["diff", file, "--seed", "3", "--defect-b", "resumes-one-too-late"]);
    assert_eq!((parted.status, parted.err.as_str()), (Some(1), ""), "{}", parted.out);
    let sides = [format!("\n{file} --seed 3\n"), format!("\n{file} --seed 3 --defect resumes-one-too-late\n")];
    assert!(sides.iter().all(|side| parted.out.contains(side)), "{}", parted.out);
    let seeds = reknit(&["diff", file, file, "--seed-a", "1", "--seed-b", "2"]);
    assert_eq!(seeds.status, Some(1), "{}", seeds.out);
}

/// A file of `counter` with one more step at its end.
fn starter_with(step: &str) -> String {
    format!("{}\n[[step]]\n{step}\n", reknit(&["new", "counter"]).out)
}

#[test]
fn a_step_that_did_nothing_in_any_seed_fails_its_file_by_its_line() {
    let file = starter_with("at = \"9s\"\nreset = { conn = \"client#5\" }");
    let line = file.lines().count() - 2;
    let done = reknit_reading(&["run", "-"], &file);
    assert_eq!(done.status, Some(1), "{}{}", done.out, done.err);
    let said = format!("TOO TAME: step 3 in line {line}, `reset`, did nothing: there is no client#5 yet");
    assert!(says(&done.out, &said), "{said}\n{}", done.out);
    let allowed = reknit_reading(&["run", "-"], &format!("{file}may-miss = true\n"));
    assert_eq!(allowed.status, Some(0), "{}{}", allowed.out, allowed.err);
}

#[test]
fn a_starter_runs() {
    let starter = reknit(&["new", "counter"]).out;
    let done = reknit_reading(&["replay", "-"], &starter);
    assert_eq!((done.err.as_str(), done.status), ("", Some(0)), "{}", done.out);
    assert!(says(&done.out, "all held"), "{}", done.out);
}
