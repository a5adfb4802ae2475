//! The map of a sweep and its runs, as the command produces them.

use crate::cli::act;
use crate::cli::page::Page;
use crate::frontend::plain;

const PLAIN: &str = "format = 1\nsubject = \"counter\"\ntitle = \"Three numbers\"\nhorizon = \"3s\"\n[stream.s1]\nnumbers = 3\n\
                     every = \"300ms\"\n[[step]]\nat = \"1s\"\nwatch = { stream = \"s1\" }\n";

/// Runs `sweep -` with these further arguments. Returns its output and exit status.
fn sweep(words: &str) -> (String, String, u8) {
    let (mut out, mut err, mut input) = (Vec::new(), Vec::new(), PLAIN.as_bytes());
    let mut page = Page::of_test(&mut out, &mut err, &mut input, 100);
    let args: Vec<_> = ["reknit", "sweep", "-"]
        .into_iter()
        .chain(words.split_whitespace())
        .map(Into::into)
        .collect();
    let status = act(&args, &crate::subjects::built_in(), &mut page);
    let text = |bytes| plain(&String::from_utf8(bytes).unwrap());
    (text(out), text(err), status)
}

/// Runs the command, reads the page that it draws, and deletes the page.
fn drawn(name: &str, words: &str) -> (String, String, u8) {
    let path = std::env::temp_dir().join(format!("reknit-{name}-{}.html", std::process::id()));
    let (out, err, status) = sweep(&format!("{words} --html {}", path.display()));
    assert_eq!(err, "");
    let page = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(out.ends_with(&format!("  {}\n", path.display())), "{out}");
    (page, out, status)
}

#[test]
fn a_map_has_stories_of_failures_and_of_recoveries() {
    let (page, out, status) = drawn("map", "--defect eof-is-completion");
    assert_eq!(status, 1);
    assert!(out.contains("\n  map  "), "{out}");
    assert!(page.contains("reknit sweep - --defect eof-is-completion --trial 1</code>"), "{page}");
    assert!(page.contains("<details open><summary>story"), "what broke");
    assert!(page.contains("<details><summary>story"), "what did not");
}

#[test]
fn a_run_of_the_map_can_be_repeated_by_its_number() {
    let (page, out, status) = drawn("trial", "--trial 30 --seed 3");
    assert_eq!(status, 0);
    assert!(
        out.lines().next().is_some_and(|line| line.contains(", at ")) && out.contains("all held"),
        "{out}"
    );
    assert!(
        page.contains("<code>reknit sweep - --seed 3 --trial 30</code>")
            && page.contains("class=\"run\""),
        "{page}"
    );
}

#[test]
fn a_missing_run_is_a_one_line_error() {
    let (out, err, status) = sweep("--trial 100000");
    assert_eq!((out.as_str(), status, err.lines().count()), ("", 2, 1));
    assert!(
        err.starts_with("reknit: --trial 100000: no such trial; they are numbered from 1 to "),
        "{err}"
    );
    let (out, err, status) = sweep("--html /nowhere/x.html");
    let why = "reknit: /nowhere/x.html: this file cannot be written: no folder /nowhere; name another one with --html\n";
    assert_eq!((out.as_str(), err.as_str(), status), ("", why, 2));
}
