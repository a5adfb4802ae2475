//! The page with the differences: docs/exec-conformance.md.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use codex_peer::install::VERSION;
use serde_json::Value;

use super::Outcome;
use super::compare::Difference;

const PAGE: &str = "../../docs/exec-conformance.md";
const COMMAND: &str = "REKNIT_BLESS=1 cargo test -p codex_peer --test conformance";
/// The maximum length of a value and of a field, in characters.
const LONGEST: usize = 90;
const LONGEST_FIELD: usize = 70;

/// Compares the tables on the page with the outcomes. With REKNIT_BLESS, writes them.
pub fn check(outcomes: &[Outcome]) {
    let (begin, end) = (format!("<!-- drawn: {COMMAND} -->\n"), "<!-- end -->\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(&begin).expect("the page has a place for the tables");
    let (there, after) = rest.split_once(end).expect("the place has an end");
    let drawn = format!("{}\n{}", counts(outcomes), differences(outcomes));
    if std::env::var_os("REKNIT_BLESS").is_some() {
        fs::write(&path, format!("{before}{begin}{drawn}{end}{after}")).unwrap();
    } else {
        assert_eq!(there, drawn, "`{COMMAND}` writes it anew");
    }
}

/// The number of cases of each family.
fn counts(outcomes: &[Outcome]) -> String {
    let mut table = "| family | cases | equal | different |\n|---|---:|---:|---:|\n".to_owned();
    let mut families: Vec<_> = outcomes.iter().map(|outcome| &*outcome.family).collect();
    families.dedup();
    let mut row = |name: &str, of: &dyn Fn(&&Outcome) -> bool| {
        let (cases, equal) = outcomes.iter().filter(of).fold((0, 0), |(cases, equal), outcome| {
            (cases + 1, equal + usize::from(outcome.differences.is_empty()))
        });
        writeln!(table, "| {name} | {cases} | {equal} | {} |", cases - equal).unwrap();
    };
    for family in families {
        row(family, &|outcome| outcome.family == family);
    }
    row("all", &|_| true);
    table
}

/// One row for each case that differs.
fn differences(outcomes: &[Outcome]) -> String {
    let mut table = format!("| case | codex {VERSION} | reknit-exec | why |\n|---|---|---|---|\n");
    for outcome in outcomes.iter().filter(|outcome| !outcome.differences.is_empty()) {
        let name = cell(&format!("{}: {}", outcome.family, outcome.case.name));
        let why = outcome.case.deliberate.as_deref().unwrap_or_default();
        let side = |value: fn(&Difference) -> &Option<Value>| {
            let lines = outcome.differences.iter().map(|difference| {
                let field = cell(&short(&difference.field, LONGEST_FIELD));
                format!("{field}: {}", shown(value(difference).as_ref()))
            });
            lines.collect::<Vec<_>>().join("<br>")
        };
        let (codex, ours) =
            (side(|difference| &difference.codex), side(|difference| &difference.ours));
        writeln!(table, "| {name} | {codex} | {ours} | {why} |").unwrap();
    }
    table
}

/// A value in a cell.
fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "absent".into() };
    let text = match value {
        Value::Object(fields) => match (fields.get("error"), fields.get("result")) {
            (Some(error), _) if error["code"].is_number() => format!("error {}", error["code"]),
            (_, Some(result)) => format!("result {result}"),
            _ => value.to_string(),
        },
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    format!("`{}`", cell(&short(&text, LONGEST)))
}

/// Shortens a text.
fn short(text: &str, longest: usize) -> String {
    let start: String = text.chars().take(longest).collect();
    if start.len() < text.len() { format!("{start} …") } else { start }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', "⏎").replace('`', "'")
}
