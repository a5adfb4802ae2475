//! Tests of the documentation: each command of the README works as described, the example run in it
//! is real, and every link of a page has a target.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "docs/architecture.rs"]
mod architecture;
#[path = "docs/limits.rs"]
mod limits;
#[path = "docs/runs.rs"]
mod runs;
#[path = "docs/variants.rs"]
mod variants;
#[path = "docs/wild.rs"]
mod wild;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// Runs `reknit` from the root of the package, with the line width of a page.
fn reknit(args: &[String]) -> Output {
    reknit_in(root(), args)
}

fn reknit_in(folder: &Path, args: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reknit"));
    command
        .args(args)
        .current_dir(folder)
        .env_remove("COLUMNS")
        .env_remove("GITHUB_ACTIONS")
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// A command of the README: its arguments, and the file that receives its output.
struct Line {
    args: Vec<String>,
    into: Option<String>,
}

/// Returns the commands of the README that run `reknit`, in order.
fn commands(readme: &str) -> Vec<Line> {
    let lines = readme.lines().filter_map(|line| line.strip_prefix("$ "));
    let ours = lines.filter_map(|line| {
        line.strip_prefix("reknit ").or(line.strip_prefix("cargo run --release -- "))
    });
    let ours = ours.map(|line| line.split(" #").next().unwrap_or_default());
    ours.map(|line| {
        let (args, into) = line
            .split_once(" > ")
            .map_or((line, None), |(args, into)| (args, Some(into.trim().to_owned())));
        Line { args: args.split_whitespace().map(str::to_owned).collect(), into }
    })
    .collect()
}

/// A command that switches a defect on reports a violation, or shows where two runs diverge; every
/// other command succeeds. Without a file, `run` runs every file that it finds. The suites run all
/// files; here it finds only a few of each subject.
#[test]
fn each_command_of_the_readme_works() {
    let commands = commands(&readme());
    assert!(commands.len() >= 10, "the README shows its commands");
    let folder = tempdir("readme");
    a_few_scenarios(&folder);
    let moved = |word: &str| match word.strip_prefix("scenarios/counter/mine") {
        Some(_) => folder.join("mine.toml").display().to_string(),
        None => word.to_owned(),
    };
    for Line { args, into } in commands {
        let args: Vec<_> = args.iter().map(|arg| moved(arg)).collect();
        let done = if args == ["run"] { reknit_in(&folder, &args) } else { reknit(&args) };
        let breaks = args.iter().any(|arg| arg.starts_with("--defect"));
        assert_eq!(done.status.code(), Some(i32::from(breaks)), "{args:?}: {}", text(done.stderr));
        assert!(!done.stdout.is_empty() && done.stderr.is_empty(), "{args:?}");
        if let Some(file) = into {
            fs::write(moved(&file), done.stdout).unwrap();
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Hunts and `shrink` write into `scenarios/found`. Only a run that names this folder runs its files.
#[test]
fn a_run_without_files_leaves_out_what_hunts_have_saved() {
    let folder = tempdir("found");
    a_few_scenarios(&folder);
    let (counter, found) = (folder.join("scenarios/counter"), folder.join("scenarios/found"));
    fs::create_dir_all(&found).unwrap();
    fs::copy(counter.join("two-clients-one-cut.toml"), found.join("saved.toml")).unwrap();
    let run = |args: &[&str]| {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let done = reknit_in(&folder, &args);
        assert_eq!(done.status.code(), Some(0), "{args:?}: {}", text(done.stderr));
        text(done.stdout)
    };
    let (all, named) = (run(&["run"]), run(&["run", "scenarios/found"]));
    let checked = run(&["check"]);
    fs::remove_dir_all(&folder).unwrap();
    assert!(all.contains("two-clients-one-cut") && !all.contains("saved.toml"), "{all}");
    assert!(named.contains("saved.toml"), "{named}");
    assert_eq!(checked, "4 scenario files: no mistake\n");
}

/// Copies files of each subject to the place where a command that runs in `folder` finds them.
fn a_few_scenarios(folder: &Path) {
    for subject in ["counter", "exec"] {
        let (from, to) =
            (root().join("scenarios").join(subject), folder.join("scenarios").join(subject));
        fs::create_dir_all(&to).unwrap();
        for name in ["half-open-toward-the-client.toml", "two-clients-one-cut.toml"] {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

/// Creates a folder for this process.
fn tempdir(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("reknit-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

const MARK: &str = "<!-- a real run: REKNIT_BLESS=1 cargo test --test docs -->\n```console\n";

/// The example is the output of the command above it, starting from the report of the failure. The
/// part before, a table and the elapsed time, differs between machines.
#[test]
fn the_example_run_in_the_readme_is_real() {
    let readme = readme();
    let (before, rest) = readme.split_once(MARK).expect("the README shows a run");
    let (shown, after) = rest.split_once("```\n").expect("what it shows has an end");
    let command = shown.lines().next().unwrap_or_default();
    let run = commands(command);
    let output = text(reknit(&run.first().expect("it shows a command").args).stdout);
    let story = output.find("FAIL").map(|at| &output[at..]).expect("it fails");
    let real = format!("{command}\n…\n{story}");
    if std::env::var_os("REKNIT_BLESS").is_some() {
        fs::write(root().join("README.md"), format!("{before}{MARK}{real}```\n{after}")).unwrap();
    } else {
        assert_eq!(shown, real, "REKNIT_BLESS=1 cargo test --test docs writes it anew");
    }
}

/// Returns the pages: those at the root, the one about scenario files, and all in `docs`.
fn pages() -> Vec<String> {
    let named =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "BENCHMARKS.md", "scenarios/README.md"];
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let docs = docs.map(|name| format!("docs/{}", name.to_string_lossy()));
    let mut pages: Vec<_> = named.into_iter().map(str::to_owned).chain(docs).collect();
    pages.retain(|page| page.ends_with(".md"));
    pages
}

/// Returns the text of a page without its blocks of code.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let mut prose = String::new();
    for line in fs::read_to_string(root().join(page)).unwrap().lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// Returns the anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Checks the links of the pages, and the paths in the README's overview.
#[test]
fn every_link_of_a_page_has_a_target() {
    let pages = pages();
    assert!(pages.len() > 20, "{pages:?}");
    for page in &pages {
        let text = prose(page);
        let links =
            text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        let folder = Path::new(page).parent().unwrap();
        for link in links.filter(|link| !link.contains("://")) {
            let (file, part) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { PathBuf::from(page) } else { folder.join(file) };
            assert!(root().join(&target).exists(), "{page} points to {link}");
            if !part.is_empty() {
                let text = prose(target.to_str().unwrap());
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                let is_there = headings.any(|line| anchor(line.trim_start_matches('#')) == part);
                assert!(is_there, "{page} points to {link}, which is no heading");
            }
        }
        for path in text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|word| word.starts_with("src/") || word.starts_with("sims"))
            .filter(|word| !word.contains("NAME") && !word.contains('*'))
        {
            let file = root().join(format!("{path}.rs"));
            assert!(root().join(path).exists() || file.exists(), "{page} names {path}");
        }
    }
}

/// Each step of the nightly checks is explained at the top of the script, and runs without arguments.
#[test]
fn each_nightly_step_is_explained_and_runs() {
    let script = fs::read_to_string(root().join(".ci/nightly")).unwrap();
    let explained = script.lines().filter_map(|line| line.strip_prefix("#   "));
    let explained = explained.filter(|line| !line.starts_with(' '));
    let explained: Vec<_> = explained.filter_map(|line| line.split(' ').next()).collect();
    let (_, all) = script.split_once("|| set -- ").unwrap();
    let all: Vec<_> = all.lines().next().unwrap().split(' ').collect();
    assert_eq!(explained, all);
    for step in ["fuzz", "bugs"].iter().chain(&all) {
        assert!(script.contains(&format!("\n{step}() {{")), "there is no function {step}");
        assert!(all.contains(step), "{step} does not run");
    }
}

/// The example stays as short as the documentation promises.
#[test]
fn the_example_is_small() {
    let folder = root().join("examples/own_protocol");
    let files = ["src", "tests"].map(|sub| fs::read_dir(folder.join(sub)).unwrap());
    let lines: usize = files
        .into_iter()
        .flatten()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap().lines().count())
        .sum();
    assert!(lines <= 170, "{lines} lines");
}

/// The Rust that the README shows is code of a test that runs.
#[test]
fn the_property_test_in_the_readme_is_a_real_one() {
    let (readme, real) = (readme(), fs::read_to_string(root().join("sims/properties.rs")).unwrap());
    let (_, rest) = readme.split_once("```rust\n").expect("the README shows a property test");
    let (shown, _) = rest.split_once("```\n").expect("it has an end");
    assert!(real.contains(shown), "sims/properties.rs does not contain:\n{shown}");
}
