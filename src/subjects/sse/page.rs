//! Draws the table of seeded bugs in docs/sse.md.

use std::fs;
use std::path::Path;

use super::Sse;
use crate::subject::Subject;

const MARKS: (&str, &str) =
    ("<!-- bugs: REKNIT_BLESS=1 cargo test --lib seeded_bugs_of_sse -->\n", "<!-- end -->\n");

fn drawn() -> String {
    let execd = Sse.variants().iter().find(|variant| variant.name == "execd").unwrap();
    let row = |defect: &crate::subject::DefectDoc| {
        let broken: Vec<_> = defect.breaks.iter().map(|name| format!("`{name}`")).collect();
        let is_of_execd = if execd.defects.contains(&defect.name) { "yes" } else { "" };
        let (name, doc, source) = (defect.name, defect.doc, defect.source);
        format!("| `{name}` | {doc} | {source} | {is_of_execd} | {} |\n", broken.join(", "))
    };
    let head =
        "| seeded bug | what goes wrong | source | execd | breaks |\n|---|---|---|---|---|\n";
    head.to_owned() + &Sse.defects().iter().map(row).collect::<String>()
}

#[test]
fn seeded_bugs_of_sse_are_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sse.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS.0).unwrap();
    let (there, after) = rest.split_once(MARKS.1).unwrap();
    if std::env::var_os("REKNIT_BLESS").is_some() {
        fs::write(&path, format!("{before}{}{}{}{after}", MARKS.0, drawn(), MARKS.1)).unwrap();
    } else {
        let command = "REKNIT_BLESS=1 cargo test --lib seeded_bugs_of_sse writes it anew";
        assert_eq!(there, drawn(), "{command}");
    }
}
