//! Connections that break, with a real codex at one end: our client with the server of codex, codex
//! itself with our server, and, for comparison, our client with our server.
//!
//! `cuts.toml` lists the scripts: what breaks, and what each pair of ends must make of it. Five of
//! them run in every test run; the others, and the table in `docs/exec.md`, need
//! `cargo test -p codex_peer --test cuts -- --include-ignored`.
//!
//! The variable `REKNIT_CUTS` selects the scripts whose names contain its value.

mod case;
mod run;
mod table;
mod work;

use std::fmt::Write;

use codex_peer::install;
use futures_util::stream::{self, StreamExt};

use case::{Case, Cases, Outcome, Pairing};
use run::Run;

/// How many runs there are at the same time: most of them wait.
const PARALLEL: usize = 10;

fn cases() -> Vec<Case> {
    let cases: Cases = toml::from_str(include_str!("cuts.toml")).expect("valid scripts");
    cases.case
}

#[tokio::test(flavor = "multi_thread")]
async fn quick_scripts_have_the_expected_results() {
    check(cases().into_iter().filter(|case| case.quick).collect(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes several minutes"]
async fn every_script_has_the_expected_results() {
    check(cases(), true).await;
}

/// Runs scripts with every pairing, and compares the results with the allowed ones and the table.
async fn check(mut cases: Vec<Case>, all: bool) {
    let codex = install::codex();
    let filter = std::env::var("REKNIT_CUTS").unwrap_or_default();
    cases.retain(|case| case.name.contains(&filter));
    let pairings: Vec<_> = Pairing::ALL
        .into_iter()
        .filter(|pairing| codex.is_some() || !pairing.needs_codex())
        .collect();
    let jobs = cases.iter().flat_map(|case| pairings.iter().map(move |pairing| (case, *pairing)));
    let codex = codex.as_deref();
    let runs = stream::iter(jobs)
        .map(|(case, pairing)| async move {
            let run = run::run(case, pairing, codex).await;
            eprintln!(
                "{} {pairing:?}: {} ({} generations) {}",
                case.name, run.outcome, run.generations, run.reason
            );
            (case, pairing, run)
        })
        .buffered(PARALLEL)
        .collect::<Vec<_>>()
        .await;
    let mut complaints = String::new();
    for (case, pairing, run) in &runs {
        if !case.allowed(*pairing).contains(&run.outcome) {
            complain(&mut complaints, case, *pairing, run);
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
    if codex.is_some() {
        table::check(&runs, all && filter.is_empty());
    }
}

fn complain(complaints: &mut String, case: &Case, pairing: Pairing, run: &Run) {
    let allowed: Vec<_> = case.allowed(pairing).iter().map(Outcome::to_string).collect();
    let _ = writeln!(
        complaints,
        "\n{} {pairing:?}: {}, but must be {}: {}\n{}",
        case.name,
        run.outcome,
        allowed.join(" or "),
        run.reason,
        run.events
    );
}
