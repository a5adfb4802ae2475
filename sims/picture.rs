//! Pictures in a real browser: the browser shows everything that was drawn, and shows a long run
//! quickly.
//!
//! Without Chromium, the tests print that and pass; with `REKNIT_BROWSER=required` they fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The possible names of the Chromium executable.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The time limit for a page, including the start of the browser on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the browser, if it is installed.
fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&folders).collect();
    let found = BROWSERS.iter().find_map(|name| {
        folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    });
    if found.is_none() {
        let advice = "no Chromium in PATH; `apt-get install chromium` brings one";
        assert!(
            std::env::var_os("REKNIT_BROWSER").is_none_or(|wish| wish != "required"),
            "{advice}"
        );
        println!("nothing was looked at: {advice}");
    }
    found
}

/// A temporary folder of one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("reknit-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Draws a run with `reknit replay`; returns the path of the picture.
fn draw(folder: &Folder, args: &[&str]) -> PathBuf {
    drawn(folder, "replay", args, "picture")
}

/// Runs a `reknit` command that draws a file of kind `called`; returns its path.
fn drawn(folder: &Folder, verb: &str, args: &[&str], called: &str) -> PathBuf {
    let out = folder.0.join("run.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_reknit"));
    command.arg(verb).args(args).arg("--html").arg(&out).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.env_remove("GITHUB_ACTIONS").env_remove("GITHUB_STEP_SUMMARY");
    let done = command.output().unwrap();
    let output = String::from_utf8(done.stdout).unwrap();
    assert!(
        output.contains(&format!("{called}  {}\n", out.display())),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    out
}

/// Opens a page in the browser; returns the resulting document and the elapsed time.
#[allow(clippy::disallowed_methods)] // how long a browser takes is real time
fn look(browser: &Path, folder: &Folder, page: &Path) -> (String, Duration) {
    let started = Instant::now();
    let mut command = Command::new(browser);
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    // On its first start, the browser looks for updates and waits for them.
    command.args([
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
    ]);
    command.arg(format!("--user-data-dir={}", folder.0.join("profile").display()));
    let seen =
        command.arg(format!("file://{}", page.display())).stderr(Stdio::null()).output().unwrap();
    (String::from_utf8(seen.stdout).unwrap(), started.elapsed())
}

#[test]
fn a_failure_shows_its_lanes_its_fault_and_its_violation() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new("picture-failure");
    let args = [
        "scenarios/counter/short-cut-while-numbers-flow.toml",
        "--seed",
        "1",
        "--defect",
        "resumes-one-too-late",
    ];
    let (seen, _) = look(&browser, &folder, &draw(&folder, &args));
    for part in [
        "<title>counter: gap_free breaks</title>",
        ">client</text>",
        ">server</text>",
        ">cut client#1: both ends learn of it at once</text>",
        "<g class=\"fault kills\">",
        "✖ gap_free of s1 is violated here: s1: item 20 was delivered after item 18; 19 never was (generation 2, at 21.011 s)",
        ">20 ✖</text>",
        "--seed 1 --defect resumes-one-too-late</code>",
        "</html>",
    ] {
        assert!(seen.contains(part), "{part}");
    }
}

/// A small scenario for a sweep: three numbers.
const NUMBERS: &str = "format = 1\nsubject = \"counter\"\ntitle = \"Three numbers\"\nhorizon = \"3s\"\n[stream.s1]\nnumbers = 3\n\
                       every = \"300ms\"\n[[step]]\nat = \"1s\"\nwatch = { stream = \"s1\" }\n";

#[test]
fn a_map_opens_in_a_browser_with_a_cell_for_each_run() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new("map");
    let file = folder.0.join("numbers.toml");
    std::fs::write(&file, NUMBERS).unwrap();
    let page = drawn(
        &folder,
        "sweep",
        &[&file.display().to_string(), "--defect", "eof-is-completion"],
        "map",
    );
    let (seen, _) = look(&browser, &folder, &page);
    let cells = |class: &str| seen.matches(&format!("<i class=\"{class}\"></i>")).count();
    assert!(
        cells("b") > 1 && cells("r") > 1 && cells("u") > 1,
        "{} {} {}",
        cells("b"),
        cells("r"),
        cells("u")
    );
    for part in [
        "one_ending</a>",
        ">client</text>",
        "is-broken",
        "<b>cut, client first</b>: ",
        "--trial 1</code>",
        ">story<",
        "</html>",
    ] {
        assert!(seen.contains(part), "{part}");
    }
    assert!(seen.matches("<details class=\"row").count() > 10);
}

#[test]
fn a_matrix_opens_in_a_browser_with_a_row_for_each_defect() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new("matrix");
    let args = [
        "counter",
        "--defect",
        "resumes-one-too-late",
        "--defect",
        "stale-close-disconnects",
        "--runs",
        "40",
    ];
    let page = drawn(&folder, "defects", &args, "matrix");
    let (seen, _) = look(&browser, &folder, &page);
    for part in [
        "<tr class=\"found\">",
        "<tr class=\"missed\">",
        "resumes-one-too-late<small>",
        "not in 40",
        "1 of 2 defects not found",
        "</html>",
    ] {
        assert!(seen.contains(part), "{part}");
    }
}

#[test]
fn a_picture_with_an_end_time_omits_later_events() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new("until");
    let args = [
        "scenarios/counter/short-cut-while-numbers-flow.toml",
        "--defect",
        "resumes-one-too-late",
        "--until",
        "20.01 s",
    ];
    let (seen, _) = look(&browser, &folder, &draw(&folder, &args));
    assert!(
        seen.contains(">cut client#1: both ends learn of it at once</text>")
            && !seen.contains("21.027 s")
    );
}

#[test]
fn a_run_with_thousands_of_segments_is_small_and_loads_fast() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new("picture-long");
    let page = draw(&folder, &["scenarios/exec/http-slow-reader.toml"]);
    let size = std::fs::metadata(&page).unwrap().len();
    let empty = folder.0.join("empty.html");
    std::fs::write(&empty, "<!DOCTYPE html><title>nothing</title>").unwrap();
    // The first start creates the browser's own files; the second measures a normal start.
    look(&browser, &folder, &empty);
    let (_, start) = look(&browser, &folder, &empty);
    let (seen, took) = look(&browser, &folder, &page);
    let (took_ms, start) = (took.as_millis(), start.as_millis());
    println!("{size} bytes; there after {took_ms} ms, where an empty page takes {start} ms");
    assert!(seen.contains("</html>"));
    assert!(size < 1_000_000, "{size} bytes");
    assert!(took < PATIENCE, "{took:?}");
}
