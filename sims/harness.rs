//! End-to-end tests of the harness: they run the command as a user does.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The output and the exit status of the command.
struct Done {
    out: String,
    err: String,
    status: Option<i32>,
}

/// Runs `reknit` from the root of the package.
fn reknit(args: &[&str]) -> Done {
    reknit_reading(args, "")
}

fn reknit_reading(args: &[&str], input: &str) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reknit"));
    command
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("COLUMNS")
        .env_remove("GITHUB_ACTIONS")
        .env_remove("GITHUB_STEP_SUMMARY");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { out: text(output.stdout), err: text(output.stderr), status: output.status.code() }
}

/// Whether these words are next to each other in some line.
fn contains_words(text: &str, words: &str) -> bool {
    text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words)
}

#[test]
fn a_folder_without_violations_is_reported_in_the_table() {
    let done = reknit(&["run", "scenarios/counter"]);
    assert_eq!((done.err.as_str(), done.status), ("", Some(0)), "{}", done.out);
    assert!(contains_words(&done.out, "times real time"), "{}", done.out);
    assert!(!done.out.contains('\x1b'), "colours where nobody sees them");
}

/// A job of CI that is cancelled has no terminal.
#[cfg(unix)]
#[test]
fn an_interrupted_hunt_reports_its_results() {
    let hunt = Command::new(env!("CARGO_BIN_EXE_reknit"))
        .args(["hunt", "counter", "--for", "1h", "--jobs", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let interrupts = format!("sleep 5; kill -INT {}", hunt.id());
    let killed = Command::new("sh").args(["-c", &interrupts]).status().unwrap();
    assert!(killed.success());
    let output = hunt.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{out}");
    assert!(contains_words(&out, "no violation"), "{out}");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let lines = |jobs| {
        let swarm = "scenarios/exec/swarm-tight-limits.toml";
        let out = reknit(&[
            "run",
            "scenarios/counter",
            swarm,
            "--format",
            "json",
            "--seeds",
            "4",
            "--jobs",
            jobs,
        ])
        .out;
        let lines = out.lines().filter(|line| line.contains("\"kind\":\"scenario\""));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let one = lines("1");
    assert!(!one.is_empty());
    // A digest covers every packet of every run.
    let digest =
        |line: &str| line.split_once("\"digest\":\"").map(|(_, rest)| rest[..16].to_owned());
    let digests: BTreeSet<_> = one.iter().map(|line| digest(line).expect(line)).collect();
    assert_eq!(digests.len(), one.len(), "no two files have the same packets");
    assert_eq!(one, lines("4"));
}

#[test]
fn a_usage_error_is_one_line_and_status_2() {
    for args in [
        &["run", "no/such/file.toml"][..],
        &["replay", "README.md"],
        &["new", "cuonter"],
        &["fly"],
        &[],
    ] {
        mistake(args);
    }
}

/// Returns the only line of a command that prints nothing else and exits with status 2.
fn mistake(args: &[&str]) -> String {
    let done = reknit(args);
    assert_eq!(
        (done.out.as_str(), done.status, done.err.lines().count()),
        ("", Some(2), 1),
        "{args:?}: {}",
        done.err
    );
    done.err
}

#[test]
fn a_folder_instead_of_a_file_is_a_usage_error() {
    for args in [
        &["replay", "scenarios"][..],
        &["diff", "scenarios/counter"],
        &["diff", "scenarios/counter/canary.toml", "src"],
    ] {
        let output = mistake(args);
        assert!(
            output.ends_with("this is a folder; name a scenario file in it\n"),
            "{args:?}: {output}"
        );
    }
}

#[test]
#[cfg(unix)]
fn an_unreadable_folder_is_a_usage_error() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("unreadable");
    let closed = folder.0.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    // Root can read every folder, but this one is empty.
    let open_to_us = fs::read_dir(&closed).is_ok();
    let why = if open_to_us {
        "no scenario file (*.toml) in this folder"
    } else {
        "this folder cannot be read: "
    };
    for command in ["run", "check"] {
        let output = mistake(&[command, &folder.path()]);
        assert!(output.contains(why), "{output}");
    }
}

/// A temporary folder of a test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("reknit-harness-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }

    /// Writes a file into it; returns the path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Creates a folder with files that run on both engines and one that stock turmoil cannot express;
/// also returns that file.
fn beyond_turmoil(name: &str) -> (Folder, String) {
    let folder = Folder::new(name);
    folder.file(
        "a.toml",
        &starter_with("at = \"9s\"\nreset = { conn = \"client#2\" }").replace("60s", "12s"),
    );
    let word = "at = \"5s\"\naccept-then-close = { host = \"server\", lasts = \"1s\" }";
    let file = folder.file("b.toml", &starter_with(word).replace("60s", "12s"));
    (folder, file)
}

#[test]
fn a_file_unsupported_by_turmoil_has_its_own_row_and_the_others_run() {
    let (folder, _) = beyond_turmoil("folder");
    let done = reknit(&["run", "--engine", "turmoil", &folder.path()]);
    assert_eq!((done.status, done.err.as_str()), (Some(0), ""), "{}", done.out);
    assert!(
        contains_words(&done.out, "not on turmoil: accept-then-close: it needs a SYN-ACK"),
        "{}",
        done.out
    );
    assert!(
        contains_words(&done.out, "held") && done.out.contains("\n1 schedule,"),
        "{}",
        done.out
    );
}

#[test]
fn a_named_file_unsupported_by_turmoil_is_a_usage_error() {
    let (folder, file) = beyond_turmoil("named");
    let why = "not on turmoil: accept-then-close: it needs a SYN-ACK that turmoil cannot send";
    assert_eq!(mistake(&["run", "--engine", "turmoil", &file]), format!("reknit: {file}: {why}\n"));
    let both = reknit(&[
        "run",
        "--engine",
        "turmoil",
        &folder.0.join("a.toml").display().to_string(),
        &file,
    ]);
    assert_eq!((both.status, both.err), (Some(2), format!("reknit: {file}: {why}\n")));
    assert!(contains_words(&both.out, "held"), "{}", both.out);
    fs::remove_file(folder.0.join("a.toml")).unwrap();
    assert!(
        mistake(&["run", "--engine", "turmoil", &folder.path()]).contains(why),
        "nothing ran at all"
    );
}

#[test]
fn unreached_milestones_are_listed_for_a_folder_and_on_request() {
    let file = "scenarios/counter/canary.toml";
    let lists_unreached = |args: &[&str]| reknit(args).out.contains("that no run reached: ");
    assert!(!lists_unreached(&["run", file]), "of one file it is noise");
    assert!(lists_unreached(&["run", file, "--unreached"]));
    let folder = Folder::new("unreached");
    folder.file("a.toml", &starter_with("at = \"9s\"\nreset = { conn = \"client#2\" }"));
    assert!(lists_unreached(&["run", &folder.path()]));
}

#[test]
fn diff_finds_equal_runs_and_the_divergence_of_a_defect() {
    let file = "scenarios/counter/short-cut-while-numbers-flow.toml";
    let same = reknit(&["diff", file]);
    assert_eq!((same.status, same.err.as_str()), (Some(0), ""), "{}", same.out);
    assert!(same.out.starts_with("the same: "), "{}", same.out);
    let parted = reknit(&["diff", file, "--seed", "3", "--defect-b", "resumes-one-too-late"]);
    assert_eq!((parted.status, parted.err.as_str()), (Some(1), ""), "{}", parted.out);
    let sides = [
        format!("\n{file} --seed 3\n"),
        format!("\n{file} --seed 3 --defect resumes-one-too-late\n"),
    ];
    assert!(sides.iter().all(|side| parted.out.contains(side)), "{}", parted.out);
    let seeds = reknit(&["diff", file, file, "--seed-a", "1", "--seed-b", "2"]);
    assert_eq!(seeds.status, Some(1), "{}", seeds.out);
}

/// Returns a `counter` file with one more step at its end.
fn starter_with(step: &str) -> String {
    format!("{}\n[[step]]\n{step}\n", reknit(&["new", "counter"]).out)
}

#[test]
fn a_step_without_effect_in_any_seed_fails_with_its_line() {
    let file = starter_with("at = \"9s\"\nreset = { conn = \"client#5\" }");
    let line = file.lines().count() - 2;
    let done = reknit_reading(&["run", "-"], &file);
    assert_eq!(done.status, Some(1), "{}{}", done.out, done.err);
    let output = format!(
        "VACUOUS: step 3 in line {line}, `reset`, had no effect: client#5 does not exist yet"
    );
    assert!(contains_words(&done.out, &output), "{output}\n{}", done.out);
    let allowed = reknit_reading(&["run", "-"], &format!("{file}may-miss = true\n"));
    assert_eq!(allowed.status, Some(0), "{}{}", allowed.out, allowed.err);
}

#[test]
fn a_starter_runs() {
    let starter = reknit(&["new", "counter"]).out;
    let done = reknit_reading(&["replay", "-"], &starter);
    assert_eq!((done.err.as_str(), done.status), ("", Some(0)), "{}", done.out);
    assert!(contains_words(&done.out, "all held"), "{}", done.out);
}
