//! Flags as cargo, cargo-nextest and users pass them; output as `cargo test` prints it.

use super::*;

fn args(words: &str) -> Result<Args, String> {
    Args { threads: 1, ..Args::default() }.and(words.split_whitespace().map(str::to_owned))
}

fn trials() -> Vec<TestCase> {
    let test = |name: &str, result: Result<(), &str>| {
        TestCase::new(name, {
            let result = result.map_err(str::to_owned);
            move || result
        })
    };
    let mut trials = vec![
        test("b::late", Ok(())),
        test("a", Ok(())),
        test("b::late::kills::x", Err("why:\nFAIL  chat")),
    ];
    trials.push(TestCase::new("panics", || panic!("so {}", 1)));
    trials
}

/// Returns the output, and whether all tests passed.
fn printed(words: &str) -> (String, bool) {
    let mut out = Vec::new();
    let held = run(&args(words).unwrap(), trials(), &mut out).unwrap();
    (anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string(), held)
}

fn names(words: &str) -> Vec<String> {
    let (page, held) = printed(&format!("--list --format terse {words}"));
    assert!(held);
    page.lines().map(|line| line.strip_suffix(": test").unwrap().to_owned()).collect()
}

#[test]
fn a_list_has_a_line_for_each_test_that_is_selected() {
    assert_eq!(names(""), ["b::late", "a", "b::late::kills::x", "panics"]);
    assert_eq!(names("late"), ["b::late", "b::late::kills::x"]);
    assert_eq!(names("a --exact"), ["a"]);
    assert_eq!(names("late panics --skip kills"), ["b::late", "panics"]);
    assert_eq!(names("--skip=b::late --exact"), ["a", "b::late::kills::x", "panics"]);
    assert!(names("--ignored").is_empty() && names("--bench").is_empty());
    assert_eq!(names("--include-ignored").len(), 4);
}

#[test]
fn flags_without_an_effect_are_accepted() {
    let words =
        "--nocapture --no-capture --show-output --test -Z unstable-options --color never -- -x";
    assert_eq!(
        args(words).unwrap(),
        Args {
            threads: 1,
            colour: anstream::ColorChoice::Never,
            filters: vec!["-x".into()],
            ..Args::default()
        }
    );
}

#[test]
fn mistakes_are_one_sentence() {
    let why = |words| args(words).unwrap_err();
    assert_eq!(why("--shuffle"), "unknown option --shuffle; see --help");
    assert_eq!(why("--skip"), "--skip needs a value; see --help");
    assert_eq!(why("--exact=yes"), "--exact takes no value; see --help");
    assert_eq!(why("--test-threads 0"), "--test-threads is `0`, but must be a number from 1");
    assert_eq!(why("--format json"), "--format is `json`, but must be one of pretty, terse");
}

#[test]
fn a_page_ends_with_the_failures_and_the_totals() {
    let (page, held) = printed("");
    assert!(!held);
    let begin = "\nrunning 4 tests\ntest b::late           ... ok\ntest a                 ... ok\ntest b::late::kills::x ... FAILED\n";
    assert!(page.starts_with(begin), "{page}");
    let failures = "\nfailures:\n\n---- b::late::kills::x ----\nwhy:\nFAIL  chat\n\n---- panics ----\ntest panicked: so 1\n\n\n\
                    failures:\n    b::late::kills::x\n    panics\n\ntest result: FAILED. 2 passed; 2 failed; 0 ignored; 0 measured; \
                    0 filtered out; finished in ";
    assert!(page.contains(failures), "{page}");
    let (page, held) = printed("a --exact");
    assert!(
        held && page
            .starts_with("\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed;"),
        "{page}"
    );
    assert!(page.contains("; 3 filtered out; "), "{page}");
}

#[test]
fn quiet_mode_prints_a_letter_per_test() {
    let (page, _) = printed("late --quiet");
    assert!(page.starts_with("\nrunning 2 tests\n.F\nfailures:\n"), "{page}");
}

#[test]
fn threads_run_each_test_once() {
    let (page, held) = printed("--test-threads 3");
    assert!(!held && page.contains("2 passed; 2 failed"), "{page}");
    let mut lines: Vec<_> =
        page.lines().filter(|line| line.starts_with("test ") && line.contains(" ... ")).collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 4);
    assert!(lines[0].starts_with("test a ") && lines[0].ends_with(" ok"), "{page}");
}
