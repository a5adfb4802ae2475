//! The CI reports of commands that succeed and of commands that fail.

use std::fs;
use std::path::PathBuf;

use junit_parser::TestSuites;

use crate::cli::act;
use crate::cli::page::Page;
use crate::frontend::{Github, plain};

/// A temporary folder of a test, which is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("reknit-ci-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn junit(&self) -> TestSuites {
        junit_parser::from_reader(self.read("out.xml").as_bytes()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// The output and exit status of a command.
struct Done {
    out: String,
    err: String,
    status: u8,
}

/// Runs a command in a GitHub Actions job. The job summary and the JUnit XML go to the folder.
fn in_a_job(line: &str, folder: &Folder) -> Done {
    let github = Github {
        marks: true,
        summary: Some(folder.file("page.md").into()),
        workspace: std::env::current_dir().ok(),
    };
    command(&format!("{line} --junit {}", folder.file("out.xml")), github)
}

fn command(line: &str, github: Github) -> Done {
    let (mut out, mut err, mut input) = (Vec::new(), Vec::new(), std::io::empty());
    let mut page = Page { github, ..Page::of_test(&mut out, &mut err, &mut input, 100) };
    let args: Vec<_> =
        ["reknit"].into_iter().chain(line.split_whitespace()).map(Into::into).collect();
    let status = act(&args, &crate::subjects::built_in(), &mut page);
    let text = |bytes| plain(&String::from_utf8(bytes).unwrap());
    Done { out: text(out), err: text(err), status }
}

const CUT: &str = "scenarios/counter/short-cut-while-numbers-flow.toml";

#[test]
fn a_failing_file_has_a_failure_an_annotation_and_a_story() {
    let folder = Folder::new("run");
    let plain = "scenarios/counter/client-learns-late.toml";
    let done =
        in_a_job(&format!("run {CUT} {plain} --defect resumes-one-too-late --seeds 2"), &folder);
    assert_eq!(done.status, 1, "{}", done.err);
    let read = folder.junit();
    assert_eq!((read.name.as_str(), read.tests), ("reknit run", 2));
    let [suite] = &read.suites[..] else { panic!("a suite a subject: {read:?}") };
    let failure = suite.cases[0].status.failure_as_ref();
    assert_eq!((suite.cases[0].original_name.as_str(), suite.name.as_str()), (CUT, "counter"));
    assert!(
        failure.message.starts_with("s1: item 20 was delivered after item 18; 19 never was"),
        "{}",
        failure.message
    );
    let again = format!("reknit replay {CUT} --seed 1 --defect resumes-one-too-late");
    assert!(
        failure.text.contains("network  cut client#1") && failure.text.contains(&again),
        "{}",
        failure.text
    );
    // The file has an expectation for the stream; its line is the useful position for the
    // annotation.
    let line = fs::read_to_string(CUT)
        .unwrap()
        .lines()
        .position(|line| line == "[expect.stream.s1]")
        .unwrap()
        + 1;
    let mark = format!(
        "::error file={CUT},line={line},title={CUT} breaks gap_free::s1: item 20 was delivered after item 18; 19"
    );
    assert!(done.err.starts_with(&mark), "{}", done.err);
    assert!(
        done.err
            .lines()
            .all(|line| line.starts_with("::error ") && line.contains("%0Aagain: reknit replay ")),
        "{}",
        done.err
    );
    let page = folder.read("page.md");
    assert!(
        page.starts_with("### ❌ reknit run: ") && page.contains("<details><summary>Story"),
        "{page}"
    );
    assert!(page.contains(&again) && done.out.contains(&again), "{page}");
}

#[test]
fn a_passing_file_has_no_failure_and_no_annotation() {
    let folder = Folder::new("held");
    let done = in_a_job(&format!("run {CUT} --seeds 2 --format json"), &folder);
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    assert!(done.out.lines().all(|line| line.starts_with('{')), "{}", done.out);
    let read = folder.junit();
    assert_eq!((read.tests, read.failures), (1, 0));
    assert!(read.suites[0].system_out.as_ref().unwrap().contains("2 schedules"), "{read:?}");
    assert!(folder.read("page.md").starts_with("### ✅ reknit run: all held (1 case)"));
}

#[test]
fn a_hunt_without_findings_is_one_passing_case_with_its_totals() {
    let folder = Folder::new("hunt");
    let done = in_a_job("hunt counter --runs 20", &folder);
    assert_eq!((done.status, done.err.as_str()), (0, ""));
    let read = folder.junit();
    let [case] = &read.suites[0].cases[..] else { panic!("one case: {read:?}") };
    assert!(case.status.is_success() && case.original_name == "all of counter", "{case:?}");
    assert!(case.system_out.as_ref().unwrap().contains("20 schedules"), "{case:?}");
    assert!(case.system_out.as_ref().unwrap().ends_with("no violation\n"), "{case:?}");
}

#[test]
fn a_finding_of_a_sweep_is_annotated_at_its_saved_file() {
    let folder = Folder::new("sweep");
    let numbers = "format = 1\nsubject = \"counter\"\ntitle = \"Plain\"\nhorizon = \"3s\"\n[stream.s1]\nnumbers = 3\nevery = \"300ms\"\n\
                   [[step]]\nat = \"1s\"\nwatch = { stream = \"s1\" }\n";
    fs::write(folder.file("plain.toml"), numbers).unwrap();
    let done = in_a_job(
        &format!("sweep {} --defect eof-is-completion", folder.file("plain.toml")),
        &folder,
    );
    assert_eq!(done.status, 1, "{}{}", done.out, done.err);
    let read = folder.junit();
    assert!(read.failures >= 1 && read.failures == read.tests, "{read:?}");
    for case in &read.suites[0].cases {
        assert!(case.original_name.starts_with("target/reknit/counter-"), "{case:?}");
        assert!(
            done.err.contains(&format!("::error file={},line=1,title=", case.original_name)),
            "{}",
            done.err
        );
        assert!(
            case.status
                .failure_as_ref()
                .text
                .contains(&format!("reknit replay {}", case.original_name)),
            "{case:?}"
        );
    }
}

#[test]
fn a_write_error_is_reported_before_anything_runs() {
    let long = "--for 1h";
    for line in [
        format!("run {CUT} --junit /nowhere/x.xml"),
        format!("hunt counter {long} --junit /nowhere/x.xml"),
        format!("sweep {CUT} --junit /nowhere/x.xml"),
    ] {
        let done = command(&line, Github::default());
        assert_eq!(
            (done.out.as_str(), done.status, done.err.lines().count()),
            ("", 2, 1),
            "{line}: {}",
            done.err
        );
        assert!(
            done.err.starts_with(
                "reknit: /nowhere/x.xml: this file cannot be written: no folder /nowhere"
            ),
            "{}",
            done.err
        );
    }
    for line in [format!("run {CUT}"), format!("hunt counter {long}"), format!("sweep {CUT}")] {
        let done = command(
            &line,
            Github { summary: Some("/nowhere/page.md".into()), ..Github::default() },
        );
        assert_eq!(
            (done.out.as_str(), done.status, done.err.lines().count()),
            ("", 2, 1),
            "{line}: {}",
            done.err
        );
        assert!(
            done.err.starts_with(
                "reknit: GITHUB_STEP_SUMMARY=/nowhere/page.md: this file cannot be written: "
            ),
            "{}",
            done.err
        );
    }
}
