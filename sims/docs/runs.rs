//! The runs that pages show: a block that begins with `$ reknit run FILE --set variant=NAME`. After the
//! command, it contains the violations of the run, or the verdict of a run without any.

use std::fs;

use super::{commands, reknit, root, text, variants};

const PAGES: &[&str] = &["docs/sse.md", "docs/toolcall.md", "docs/turn.md"];

/// The violations of a run, without their stories. A run without any: its row in the table.
fn excerpt(output: &str) -> String {
    let mut excerpt = String::new();
    let mut is_violation = false;
    for line in output.lines() {
        is_violation |= line.starts_with("FAIL ");
        is_violation &= !line.is_empty() && !line.contains(", seed ");
        if is_violation {
            excerpt.push_str(line);
            excerpt.push('\n');
        }
    }
    if excerpt.is_empty() {
        excerpt = output.lines().take(2).map(|line| format!("{line}\n")).collect();
    }
    excerpt
}

/// Returns a page as it should be, and the number of runs in it.
fn real(page: &str) -> (String, usize) {
    let mut blocks = page.split("```\n$ reknit run ");
    let mut real = blocks.next().unwrap_or_default().to_owned();
    let mut count = 0;
    for block in blocks {
        let (shown, after) = block.split_once("```").expect("a block has an end");
        let command = format!("$ reknit run {}", shown.lines().next().unwrap_or_default());
        let run = commands(&command);
        let output = text(reknit(&run.first().expect("a command").args).stdout);
        real.push_str(&format!("```\n{command}\n{}```{after}", excerpt(&output)));
        count += 1;
    }
    (real, count)
}

#[test]
fn the_runs_in_the_pages_are_real() {
    for name in PAGES {
        let path = root().join(name);
        let page = fs::read_to_string(&path).expect("the page");
        let (mut real, count) = real(&page);
        if *name == variants::PAGE {
            real = variants::redrawn(&real);
        }
        assert!(count > 3, "{name} shows {count} runs");
        if std::env::var_os("REKNIT_BLESS").is_some() {
            fs::write(&path, real).expect("the page can be written");
        } else {
            assert_eq!(page, real, "REKNIT_BLESS=1 cargo test --test docs writes {name} anew");
        }
    }
}
