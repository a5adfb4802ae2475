//! Draws the table of known bugs in docs/turn.md.

use std::fs;
use std::path::Path;

use super::Turn;
use crate::subject::Subject;

const MARKS: (&str, &str) =
    ("<!-- bugs: REKNIT_BLESS=1 cargo test --lib known_bugs -->\n", "<!-- end -->\n");

fn drawn() -> String {
    let row = |defect: &crate::subject::DefectDoc| {
        let broken: Vec<_> = defect.breaks.iter().map(|name| format!("`{name}`")).collect();
        let broken = if broken.is_empty() { "a unit test".to_owned() } else { broken.join(", ") };
        format!("| `{}` | {} | {} | {broken} |\n", defect.name, defect.doc, defect.source)
    };
    let head = "| seeded bug | what goes wrong | source | breaks |\n|---|---|---|---|\n";
    head.to_owned() + &Turn.defects().iter().map(row).collect::<String>()
}

#[test]
fn known_bugs_are_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/turn.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS.0).unwrap();
    let (there, after) = rest.split_once(MARKS.1).unwrap();
    if std::env::var_os("REKNIT_BLESS").is_some() {
        fs::write(&path, format!("{before}{}{}{}{after}", MARKS.0, drawn(), MARKS.1)).unwrap();
    } else {
        assert_eq!(there, drawn(), "REKNIT_BLESS=1 cargo test --lib known_bugs writes it anew");
    }
}
