//! Tests the JSON lines: their text, and a strict reader that follows the schema.

use std::path::Path;

use super::*;
use crate::history::{Stream, Time};
use crate::hunt;
use crate::property::violation::sample_violation;
use crate::report::TableRow;

/// Parses a line strictly: no field may be missing or unknown, and the record must serialize to the
/// same text.
pub(crate) fn read(line: &str) -> RecordKind {
    let read: Record = serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
    assert_eq!(read.text().trim_end(), line);
    read.what
}

#[test]
fn a_scenario_line_has_the_table_row_and_the_failures() {
    let broken = sample_violation("gap_free", &Stream::from("s1"), Time(4231), "gone");
    let verdict = hunt::ScenarioVerdict::Broke { properties: vec!["gap_free".into()], runs: 1 };
    let line = scenario(
        &TableRow { scenario: "a.toml".into(), runs: 2, verdict, ..TableRow::default() },
        "counter",
        &[(7, &[broken])],
    );
    insta::assert_snapshot!(line.text().trim_end(), @r#"{"reknit":1,"kind":"scenario","scenario":"a.toml","subject":"counter","runs":2,"virtual_ms":0,"digest":"cbf29ce484222325","milestones":{"reached":0,"of":0},"verdict":"broke","held":false,"why":null,"failures":[{"seed":7,"broken":[{"property":"gap_free","kind":"said","subject":{"sort":"stream","name":"s1"},"at_ms":4231,"stream":"s1","data":{"text":"gone"},"sentence":"s1: gone"}]}]}"#);
    assert!(matches!(read(line.text().trim_end()), RecordKind::Scenario(_)));
}

#[test]
fn totals_are_a_separate_line() {
    let line = totals(&hunt::RunTotals {
        schedules: 3,
        unsupported: 2,
        seldom: vec![("isolation".into(), 3)],
        ..hunt::RunTotals::default()
    });
    insta::assert_snapshot!(line.text().trim_end(), @r#"{"reknit":1,"kind":"totals","schedules":3,"virtual_ms":0,"wall_ms":0,"repeated":0,"inconclusive":0,"unsupported":2,"unreached":[],"seldom":{"isolation":3}}"#);
}

#[test]
fn a_line_with_another_version_or_an_unknown_field_is_rejected() {
    let line = totals(&hunt::RunTotals::default()).text();
    assert!(serde_json::from_str::<Record>(&line.replace("\"reknit\":1", "\"reknit\":2")).is_err());
    assert!(
        serde_json::from_str::<Record>(&line.replace("\"inconclusive\":0", "\"unclear\":0"))
            .is_err()
    );
    assert!(
        serde_json::from_str::<Record>(
            &line.replace("\"inconclusive\":0", "\"inconclusive\":0,\"more\":1")
        )
        .is_err()
    );
    assert!(serde_json::from_str::<Record>(&line.replace("totals", "summary")).is_err());
}

#[test]
fn the_schema_in_the_docs_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.schema.json");
    let schema = serde_json::to_string_pretty(&Record::schema()).unwrap() + "\n";
    if std::env::var_os("REKNIT_BLESS").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == schema,
        "docs/json.schema.json is out of date; REKNIT_BLESS=1 cargo test --lib up_to_date writes it anew"
    );
}

#[test]
fn the_page_names_every_kind_and_every_field() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md"))
        .unwrap();
    let schema = serde_json::to_value(Record::schema()).unwrap();
    let mut fields = Vec::new();
    names(&schema, &mut fields);
    assert!(fields.len() > 40, "{fields:?}");
    for field in fields {
        assert!(page.contains(&format!("`{field}`")), "{field}");
    }
}

/// Collects the names of all properties and kinds in a schema.
fn names(schema: &serde_json::Value, found: &mut Vec<String>) {
    use serde_json::Value;
    match schema {
        Value::Object(parts) => parts.iter().for_each(|(part, inner)| match inner {
            Value::Object(fields) if part == "properties" => {
                fields.iter().for_each(|(name, field)| {
                    found.push(name.clone());
                    found.extend(
                        field["const"].as_str().filter(|_| name == "kind").map(str::to_owned),
                    );
                    names(field, found);
                })
            }
            other => names(other, found),
        }),
        Value::Array(items) => items.iter().for_each(|inner| names(inner, found)),
        _ => {}
    }
}
