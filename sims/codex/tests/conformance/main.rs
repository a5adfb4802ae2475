//! The conformance table: the same raw frames to codex exec-server and to ours, and both answers.
//!
//! A case whose answers differ names the reason in `deliberate`, or fails. So does a case with a
//! reason whose answers are equal. docs/exec-conformance.md lists the differences.
//!
//! `REKNIT_CASES=TEXT` selects the cases whose names contain the text, and prints both results.

mod case;
mod compare;
mod heard;
mod page;
mod run;
mod script;
mod usual;
mod web;

use std::path::Path;

use case::{Case, Family, families};
use codex_peer::install;
use codex_peer::servers::Server;
use compare::{Difference, compare};
use futures_util::{StreamExt, stream};
use run::Place;
use serde_json::Value;
use web::Web;

/// How many cases run at a time on each server.
const AT_A_TIME: usize = 8;

/// The variables of both servers, for the cases of `envPolicy`.
const VARIABLES: [(&str, &str); 8] = [
    ("MX_A", "1"),
    ("mx_b", "2"),
    ("MY_KEY", "3"),
    ("My_Token", "4"),
    ("A_SECRET_B", "5"),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("WEB_TOKEN", "from the environment"),
];

/// A case, and what differs.
pub struct Outcome {
    pub family: String,
    pub case: Case,
    pub differences: Vec<Difference>,
}

/// Runs all cases on a server; returns their results in order.
async fn results(server: &Server, web: &Web, families: &[Family]) -> Vec<Value> {
    let home = server.home().expect("it is a process");
    let mut places = Vec::new();
    for family in families {
        let usual = family.before.as_ref().map(|_| home.join(&family.name));
        if let (Some(folder), Some(commands)) = (&usual, &family.before) {
            run::prepare(folder, commands).await;
        }
        for (number, case) in family.cases.iter().enumerate() {
            let folder = home.join(format!("{}-{number}", family.name));
            let (usual, web) = (usual.clone(), web.address.to_string());
            places.push((case, Place { server, folder, usual, web }));
        }
    }
    let runs = places
        .iter()
        .enumerate()
        .map(|(number, (case, place))| async move { (number, run::run(case, place).await) });
    let mut results: Vec<_> = stream::iter(runs).buffer_unordered(AT_A_TIME).collect().await;
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns what is wrong with a case.
fn complaint(outcome: &Outcome) -> Option<String> {
    let name = format!("{}: {}", outcome.family, outcome.case.name);
    match (&outcome.case.deliberate, &outcome.differences[..]) {
        (None, []) | (Some(_), [_, ..]) => None,
        (Some(_), []) => Some(format!("{name}\n  the answers are equal: remove `deliberate`")),
        (None, differences) => {
            let lines = differences.iter().map(|Difference { field, codex, ours }| {
                let shown = |value: &Option<Value>| {
                    value.as_ref().map_or("absent".into(), Value::to_string)
                };
                format!("\n  {field}\n    codex  {}\n    ours   {}", shown(codex), shown(ours))
            });
            Some(format!("{name}{}", lines.collect::<String>()))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_answer_alike_or_differ_for_a_reason() {
    let Some(program) = install::codex() else { return };
    let wanted = std::env::var("REKNIT_CASES").ok();
    let mut families = families();
    for Family { name, cases, .. } in &mut families {
        cases.retain(|case| {
            wanted.as_ref().is_none_or(|wanted| format!("{name}: {}", case.name).contains(wanted))
        });
    }
    let web = Web::start().await;
    let codex = Server::launch(&program, &["exec-server"], &VARIABLES).await;
    let ours = Path::new(env!("CARGO_BIN_EXE_exec_server"));
    let ours = Server::launch(ours, &[], &VARIABLES).await;
    let (codex, ours) =
        tokio::join!(results(&codex, &web, &families), results(&ours, &web, &families));
    let cases = families
        .into_iter()
        .flat_map(|family| family.cases.into_iter().map(move |case| (family.name.clone(), case)));
    let mut outcomes = Vec::new();
    for ((family, case), (codex, ours)) in cases.zip(codex.iter().zip(&ours)) {
        if wanted.is_some() {
            println!("{family}: {}\n  codex  {codex}\n  ours   {ours}", case.name);
        }
        outcomes.push(Outcome { family, case, differences: compare(codex, ours) });
    }
    let complaints: Vec<_> = outcomes.iter().filter_map(complaint).collect();
    assert!(
        complaints.is_empty(),
        "{} of {} cases:\n\n{}",
        complaints.len(),
        outcomes.len(),
        complaints.join("\n\n")
    );
    if wanted.is_none() {
        page::check(&outcomes);
    }
}
