//! `list`: the names that scenario files and the command line accept. They come from the same
//! tables that the code uses.

use std::sync::Arc;

use clap::ValueEnum;

use crate::property;
use crate::report::line::{Tone, paint, wrap};
use crate::scenario;
use crate::schedule::faults::WORDS;
use crate::schedule::words::{FaultWord, Fidelity, Need};
use crate::subject::DynSubject;

use super::args::ListKind;
use super::page::{Page, UserError};
use super::{files, ledger};

/// A name and its documentation, one string per paragraph.
struct Entry {
    name: String,
    docs: Vec<String>,
}

impl Entry {
    fn new(name: &str, docs: impl IntoIterator<Item = String>) -> Self {
        Self {
            name: name.to_owned(),
            docs: docs.into_iter().filter(|doc| !doc.is_empty()).collect(),
        }
    }
}

/// Prints a list, or the available kinds of lists.
pub fn list(
    what: Option<ListKind>,
    of: Option<&str>,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let of = of.map(|name| files::named(name, subjects)).transpose()?;
    let subjects = of.map_or(subjects, std::slice::from_ref);
    let rendered = match what {
        None => set(&lists(), page.width),
        Some(ListKind::Subjects) => set(
            &subjects
                .iter()
                .map(|it| Entry::new(it.name(), [it.description().into()]))
                .collect::<Vec<_>>(),
            page.width,
        ),
        Some(ListKind::Faults) => set(&WORDS.iter().map(word).collect::<Vec<_>>(), page.width),
        Some(ListKind::Schema) => format!("{:#}\n", scenario::schema(subjects)),
        Some(what) => subjects
            .iter()
            .map(|subject| of_subject(what, subject, subjects.len() > 1, page.width))
            .collect(),
    };
    page.print(&rendered)?;
    Ok(true)
}

fn lists() -> Vec<Entry> {
    let values = ListKind::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    values
        .map(|value| Entry::new(value.get_name(), value.get_help().map(ToString::to_string)))
        .collect()
}

fn of_subject(
    what: ListKind,
    subject: &Arc<dyn DynSubject>,
    heading: bool,
    width: usize,
) -> String {
    let entries = entries(what, subject);
    let heading = if heading {
        format!("{}\n", paint(Tone::Schedule.style(), subject.name()))
    } else {
        String::new()
    };
    let empty =
        if entries.is_empty() { format!("{} has none\n", subject.name()) } else { String::new() };
    format!("{heading}{empty}{}", set(&entries, width))
}

fn entries(what: ListKind, subject: &Arc<dyn DynSubject>) -> Vec<Entry> {
    match what {
        ListKind::Subjects | ListKind::Faults | ListKind::Schema => Vec::new(),
        ListKind::Limits => {
            let values = subject.limits().iter();
            let range = values.map(|it| {
                let profiles = subject.limit_profiles().iter().filter_map(|profile| {
                    Some(format!("{} in the profile {}", profile.value(it.name)?, profile.name))
                });
                let range = format!("{}, at least {}. {}", it.default, it.least, it.doc);
                Entry::new(it.name, [range].into_iter().chain(profiles))
            });
            range.collect()
        }
        ListKind::Profiles => {
            let row = |it: &crate::schedule::LimitProfile| {
                let values = it.values.iter().map(|(limit, value)| format!("· {limit}: {value}"));
                Entry::new(it.name, [it.doc.into()].into_iter().chain(values))
            };
            subject.limit_profiles().iter().map(row).collect()
        }
        ListKind::Milestones => {
            let row = |it: &crate::subject::MilestoneDoc| {
                let fields = if it.fields.is_empty() {
                    String::new()
                } else {
                    format!("fields: {}", it.fields.join(", "))
                };
                let only = it.only.map_or(String::new(), |only| format!("only with {only}"));
                Entry::new(it.name, [it.doc.into(), fields, only])
            };
            subject.milestones().iter().map(row).collect()
        }
        ListKind::Points => {
            let only = |defect: Option<&str>| {
                defect.map_or(String::new(), |defect| format!("only with {defect}"))
            };
            subject
                .points()
                .iter()
                .map(|it| Entry::new(it.name, [it.doc.into(), only(it.defect)]))
                .collect()
        }
        ListKind::Defects => {
            let breaks = |breaks: &[&str]| format!("breaks {}", breaks.join(", "));
            let row = |it: &crate::subject::DefectDoc| {
                Entry::new(it.name, [it.doc.into(), breaks(it.breaks), it.source.into()])
            };
            subject.defects().iter().map(row).collect()
        }
        ListKind::Variants => {
            let made_of = |it: &crate::subject::VariantDoc| match it.defects {
                [] => "the subject without defects".to_owned(),
                defects => format!("has {}", defects.join(", ")),
            };
            subject
                .variants()
                .iter()
                .map(|it| Entry::new(it.name, [it.doc.into(), made_of(it)]))
                .collect()
        }
        ListKind::Rules => {
            let scenarios = ledger::scenarios(subject);
            let row = |rule: &crate::subject::Rule| {
                let links = ledger::links(rule, &scenarios);
                Entry::new(rule.id, [rule.doc.into(), rule.source.into()].into_iter().chain(links))
            };
            subject.rules().iter().map(row).collect()
        }
        ListKind::Properties => property::list(subject.properties())
            .map(|(name, doc)| Entry::new(name, [doc.into()]))
            .collect(),
        ListKind::Operations => operations(subject.operations().as_value()),
    }
}

/// Returns the entry for a row of the fault table.
fn word(word: &FaultWord) -> Entry {
    let fields = word.fields.iter().map(|field| {
        let need = match field.need {
            Need::Always => String::new(),
            Need::Else(otherwise) => format!("; else {otherwise}"),
            Need::OneOf => "; one of these".into(),
            Need::SomeOf => "; at least one of these".into(),
            Need::With(other) => format!("; goes with {other}"),
            Need::WithElse(other, otherwise) => format!("; goes with {other}, else {otherwise}"),
        };
        format!("· {}: {} ({}{need})", field.name, field.doc, field.kind.written())
    });
    let sees = [
        format!("client: {}", word.client_sees),
        format!("server: {}", word.server_sees),
        format!("outside: {}", word.outside),
    ];
    let engines =
        [("event", word.event), ("turmoil", word.turmoil)].map(
            |(engine, fidelity)| match fidelity {
                Fidelity::Full => String::new(),
                Fidelity::Partly(why) => format!("on {engine}, in part: {why}"),
                Fidelity::None(why) => format!("not on {engine}: {why}"),
            },
        );
    Entry::new(
        word.name,
        [word.does.to_owned()].into_iter().chain(fields).chain(sees).chain(engines),
    )
}

/// Returns the operations of a subject, from the JSON schema of its operation type. Each
/// alternative is a verb.
fn operations(schema: &serde_json::Value) -> Vec<Entry> {
    let text = |value: &serde_json::Value| {
        value.get("description").and_then(|it| it.as_str()).unwrap_or_default().to_owned()
    };
    let alternatives =
        schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(|it| it.as_array());
    let mut entries = Vec::new();
    for alternative in alternatives.into_iter().flatten() {
        let verbs = alternative.get("properties").and_then(|it| it.as_object());
        for (verb, inner) in verbs.into_iter().flatten() {
            let fields = inner.get("properties").and_then(|it| it.as_object());
            let required = inner.get("required").and_then(|it| it.as_array());
            let must = |name: &str| required.is_some_and(|all| all.iter().any(|it| it == name));
            let fields = fields.into_iter().flatten().map(|(name, field)| {
                let optional = if must(name) { "" } else { " (optional)" };
                format!("· {name}: {}{optional}", text(field))
            });
            entries
                .push(Entry::new(verb, [text(alternative), text(inner)].into_iter().chain(fields)));
        }
    }
    entries
}

/// The maximum width of the column of names.
const NAMES: usize = 36;

/// Formats entries in two columns.
fn set(entries: &[Entry], width: usize) -> String {
    let names =
        entries.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0).min(NAMES);
    let room = width.saturating_sub(names + 2).max(24);
    let mut rendered = String::new();
    for entry in entries {
        let mut name = entry.name.as_str();
        if name.chars().count() > NAMES {
            rendered += &format!("{name}\n");
            name = "";
        }
        let lines: Vec<_> = entry.docs.iter().flat_map(|doc| wrap(doc, room)).collect();
        for line in &lines {
            rendered += &format!("{name:<names$}  {line}\n");
            name = "";
        }
        if lines.is_empty() && !name.is_empty() {
            rendered += &format!("{name}\n");
        }
    }
    rendered
}
