//! The table of the scripts in `docs/exec.md`.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use crate::case::{Case, Outcome, Pairing};
use crate::run::Run;

const PAGE: &str = "docs/exec.md";
const BEGIN: &str =
    "<!-- cuts: REKNIT_BLESS=1 cargo test -p codex_peer --test cuts -- --include-ignored -->\n";
const END: &str = "<!-- end of cuts -->\n";

/// Compares the rows of these runs with the page. `all`: whether they are all rows; then
/// `REKNIT_BLESS=1` writes them.
///
/// # Panics
/// If the page is stale.
pub fn check(runs: &[(&Case, Pairing, Run)], all: bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = fs::read_to_string(&path).expect("the page exists");
    let (head, rest) = page.split_once(BEGIN).expect("the page has a place for the table");
    let (old, tail) = rest.split_once(END).expect("the table ends");
    let rows = rows(runs);
    if !all {
        let stale: Vec<_> = rows.iter().filter(|row| !old.contains(row.as_str())).collect();
        assert!(stale.is_empty(), "{PAGE} lacks these rows:\n{stale:#?}");
        return;
    }
    let new = whole(&rows, runs);
    if env::var_os("REKNIT_BLESS").is_some_and(|bless| bless == "1") {
        fs::write(&path, format!("{head}{BEGIN}{new}{END}{tail}")).expect("the page is writable");
    } else {
        assert!(old == new, "{PAGE} is stale; {BEGIN}it should be:\n{new}");
    }
}

/// Returns a row for each script.
fn rows(runs: &[(&Case, Pairing, Run)]) -> Vec<String> {
    let scripts = runs.chunk_by(|one, other| one.0.name == other.0.name);
    let row = |runs: &[(&Case, Pairing, Run)]| {
        let case = runs[0].0;
        let mut row = format!("| `{}` | {} |", case.name, case.does);
        for (_, pairing, run) in runs {
            let _ = write!(row, " {} |", cell(case, *pairing, run));
        }
        row + "\n"
    };
    scripts.map(row).collect()
}

/// The outcome. A complete one has the number of generations, if that is the same in every run: a
/// client that gives up may or may not have begun another one.
fn cell(case: &Case, pairing: Pairing, run: &Run) -> String {
    let allowed = case.allowed(pairing);
    match allowed {
        [Outcome::Complete] if case.counted => format!("complete, {}", run.generations),
        _ => allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
    }
}

fn whole(rows: &[String], runs: &[(&Case, Pairing, Run)]) -> String {
    let mut text = String::from(
        "\n| script | what happens | our client, codex's server | codex's client, our server | our client, our server |\n\
         |---|---|---|---|---|\n",
    );
    text.extend(rows.iter().map(String::as_str));
    text += "\nWhy a result is not `complete`:\n\n";
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (case, pairing, _) in runs {
        let Some(expected) = case.expect.get(pairing) else { continue };
        let place = format!("`{}`", case.name);
        match reasons.iter_mut().find(|(because, _)| *because == expected.because) {
            Some((_, places)) if places.contains(&place) => {}
            Some((_, places)) => places.push(place),
            None => reasons.push((&expected.because, vec![place])),
        }
    }
    for (because, places) in reasons {
        let _ = writeln!(text, "- {}: {because}", places.join(", "));
    }
    text + "\n"
}
