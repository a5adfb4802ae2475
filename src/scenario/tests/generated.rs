//! The generated files are up to date and correct.

use std::path::PathBuf;

use super::*;
use crate::schedule::faults::WORDS;

/// Compares a file in the repository with its expected text, or writes it if REKNIT_BLESS is set.
fn up_to_date(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name);
    if std::env::var_os("REKNIT_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == text,
        "scenarios/{name} is out of date; REKNIT_BLESS=1 cargo test --lib up_to_date writes it anew"
    );
}

#[test]
fn the_reference_in_the_tree_is_up_to_date() {
    up_to_date("README.md", &reference(&crate::subjects::built_in()));
}

#[test]
fn the_schema_in_the_tree_is_up_to_date() {
    let schema = serde_json::to_string_pretty(&schema(&crate::subjects::built_in())).unwrap();
    up_to_date("schema.json", &(schema + "\n"));
}

#[test]
fn the_reference_names_every_key_every_word_and_every_name_of_a_subject() {
    let text = reference(&[subject::ferry()]);
    let keys = keys::SECTIONS.iter().flat_map(|section| section.names());
    let words =
        WORDS.iter().flat_map(|word| word.fields.iter().map(|field| field.name).chain([word.name]));
    let own = [
        "process",
        "late-output",
        "drop-handle",
        "client.event-queue",
        "ferry.client.recovering",
        "stale-close-detaches",
    ];
    for name in keys.chain(words).chain(own) {
        assert!(
            text.contains(&format!("`{name}`")) || text.contains(&format!("[{name}.")),
            "{name}"
        );
    }
}

#[test]
fn a_starter_has_an_operation_and_a_cut() {
    let ferry = subject::ferry();
    let text = starter(&ferry);
    let scenario = parse(&text).unwrap_or_else(|mistake| panic!("{mistake}\n{text}"));
    let verbs: Vec<_> = (plan(&scenario).steps.iter())
        .map(|step| match &step.action {
            crate::schedule::Action::Operation(operation) => operation.verb.clone(),
            crate::schedule::Action::Fault(fault) => fault.word().name.to_owned(),
        })
        .collect();
    assert_eq!(verbs, ["start", "cut"]);
    assert!(text.contains("# \"client.recovery-deadline\" = \"25s\"\n"), "{text}");
}

#[test]
fn the_schema_knows_the_names_of_the_subjects() {
    let schema = schema(&[subject::ferry()]);
    let at = |path: &str| schema.pointer(path).unwrap_or_else(|| panic!("{path}"));
    assert_eq!(at("/required"), &serde_json::json!(["format", "subject", "title"]));
    assert_eq!(at("/properties/step/items/properties/cut/required"), &serde_json::json!(["conn"]));
    assert_eq!(
        at("/properties/step/items/properties/write/properties/how/enum/1"),
        "til-it-sticks"
    );
    assert_eq!(at("/properties/process/additionalProperties/properties/exit/type"), "integer");
    assert_eq!(at("/properties/limits/properties/client.event-queue/default"), 128);
    assert_eq!(
        at("/properties/expect/properties/stream/additionalProperties/properties/output/enum/1"),
        "prefix"
    );
    assert_eq!(
        at(
            "/properties/expect/properties/process/additionalProperties/properties/exit/anyOf/1/enum/0"
        ),
        "signal"
    );
    assert!(!schema.to_string().contains("$ref"), "nothing refers to what is not there");
}

#[test]
fn the_schema_knows_the_milestones_and_points_that_faults_are_aimed_at() {
    let schema = schema(&[subject::ferry()]);
    let at =
        &schema["properties"]["swarm"]["properties"]["faults"]["properties"]["at"]["properties"];
    assert!(at["ferry.client.recovering"].is_object(), "{at}");
}
