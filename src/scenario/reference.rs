//! The reference of scenario files as Markdown: `scenarios/README.md` is this text.

use std::fmt::Write;
use std::sync::Arc;

use super::keys::{self, Section};
use super::starter;
use super::verbs::{FieldDoc, fields, verbs};
use crate::schedule::faults::WORDS;
use crate::schedule::words::{FaultWord, Fidelity, Field, Need};
use crate::subject::DynSubject;

/// Returns the reference of scenario files for these subjects.
pub fn reference(subjects: &[Arc<dyn DynSubject>]) -> String {
    let mut text = String::from(HEAD);
    if let Some(subject) = subjects.first() {
        text += &format!(
            "\nA starter file, as `reknit new {}` prints it:\n\n```toml\n#:schema ../schema.json\n{}```\n",
            subject.name(),
            starter(subject)
        );
    }
    text += UNITS;
    keys::SECTIONS.iter().for_each(|section| self::section(&mut text, section));
    text += FAULTS;
    WORDS.iter().for_each(|word| self::word(&mut text, word));
    subjects.iter().for_each(|subject| self::subject(&mut text, &**subject));
    text
}

const HEAD: &str = "# Scenario files

<!-- Generated from the tables of src/scenario and src/schedule/words. A test checks that it is up to date; REKNIT_BLESS=1 rewrites it. -->

A scenario is a TOML file. It contains a schedule, or the weights from which schedules are drawn (a swarm), and expectations. Put it into
the folder of its subject, and the suite runs it. `reknit check FILE` checks it without running it, and `reknit run FILE`
runs it. With `#:schema ../schema.json` on the first line, an editor that supports TOML schemas completes names.
`reknit list schema` prints that schema.

The reader is strict. An unknown key, a wrong unit or an unknown name is an error, reported with line, column and the nearest known name.
";

const UNITS: &str = "
## Values

| value | notation |
|---|---|
| duration | a whole number and `ms`, `s`, `m` or `h`: `\"25s\"`. Virtual time counts whole milliseconds |
| size | a whole number and `B`, `KiB`, `MiB` or `GiB`: `\"64KiB\"` |
| range | two values, both included: `\"1ms..20ms\"`; a single value is also a range |
| host | a server of the subject, or `client`, `client2`, `client3`, … |
| connection | `client#2` is the second connection that `client` opened, `client/status#3` the third with the label `status`, `client:gen2` the one of its generation 2, `client#last` its newest |
";

const FAULTS: &str = "
## The faults

Except for `tamper`, a fault delays data and does not lose it: as with real TCP, the sender retransmits, and the data arrives at the first retransmission after the fault
(backoff from 200 ms, doubling, counted from the first loss). A connection whose data stays unacknowledged for about 15 min 24 s fails
with `TimedOut`; a connect whose SYN stays unanswered for 127 s fails. A fault with a duration that names a connection that does not
exist yet takes effect when it is opened; a `cut` or `reset` of such a connection does nothing, and the run reports that.
";

/// Appends a line. Writing to a string cannot fail.
fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line).expect("a string takes all that is written");
}

fn section(text: &mut String, section: &Section) {
    put(text, format_args!("\n## {}\n\n{}\n", quoted(section.title), section.doc));
    if section.keys.is_empty() {
        return;
    }
    *text += "\n| key | value | default | meaning |\n|---|---|---|---|\n";
    for key in section.keys {
        let without = key.without.unwrap_or("required");
        put(
            text,
            format_args!(
                "| `{}` | {} | {} | {} |\n",
                key.name,
                cell(&key.form.written()),
                cell(without),
                cell(key.doc)
            ),
        );
    }
}

/// Formats a title as code if it is code.
fn quoted(title: &str) -> String {
    if title.contains(' ') { title.to_owned() } else { format!("`{title}`") }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn word(text: &mut String, word: &FaultWord) {
    put(text, format_args!("\n### `{}`\n\n{}\n\n", word.name, word.does));
    *text += "| field | value | default | meaning |\n|---|---|---|---|\n";
    for field in word.fields {
        let (kind, doc) = (cell(&field.kind.written()), cell(field.doc));
        put(text, format_args!("| `{}` | {kind} | {} | {doc} |\n", field.name, need(word, field)));
    }
    put(
        text,
        format_args!(
            "\n- The client sees: {}\n- The server sees: {}\n",
            word.client_sees, word.server_sees
        ),
    );
    put(text, format_args!("- Outside: {}\n", word.outside));
    put(
        text,
        format_args!(
            "- Engines: `event` {}; `turmoil` {}.\n",
            fidelity(word.event),
            fidelity(word.turmoil)
        ),
    );
}

fn need(word: &FaultWord, field: &Field) -> String {
    let others = || {
        let group =
            word.fields.iter().filter(|other| other.need == field.need && other.name != field.name);
        group.map(|other| format!("`{}`", other.name)).collect::<Vec<_>>().join(" or ")
    };
    match field.need {
        Need::Always => "required".into(),
        Need::Else(without) => without.into(),
        Need::OneOf | Need::SomeOf => format!("there is {}", others()),
        Need::With(other) => format!("there is no `{other}`"),
        Need::WithElse(_, without) => without.into(),
    }
}

fn fidelity(fidelity: Fidelity) -> String {
    match fidelity {
        Fidelity::Full => "does this".into(),
        Fidelity::Partly(what) => format!("does part of this ({what})"),
        Fidelity::None(why) => format!("cannot ({why})"),
    }
}

fn subject(text: &mut String, subject: &dyn DynSubject) {
    put(
        text,
        format_args!(
            "\n## The subject `{}`\n\n`{0}`: {}. Its servers: {}.\n",
            subject.name(),
            subject.description(),
            servers(subject)
        ),
    );
    for (key, schema) in subject.setup() {
        let schema = schema.as_value();
        put(text, format_args!("\n### `[{key}.NAME]`\n"));
        fields_of(text, &fields(schema, schema));
    }
    for verb in verbs(subject) {
        put(text, format_args!("\n### `{}`\n\n{}\n", verb.name, verb.doc));
        fields_of(text, &fields(&verb.schema, &verb.root));
    }
    tables(text, subject);
}

/// Appends the subject's tables of names.
fn tables(text: &mut String, subject: &dyn DynSubject) {
    names(
        text,
        "Limits",
        ["limit", "default", "least", "meaning"],
        subject.limits().iter().map(|limit| {
            [code(limit.name), limit.default.to_string(), limit.least.to_string(), limit.doc.into()]
        }),
    );
    names(
        text,
        "Profiles of limits",
        ["profile", "values", "meaning"],
        subject.limit_profiles().iter().map(|profile| {
            let values =
                profile.values.iter().map(|(limit, value)| format!("{} {value}", code(limit)));
            [code(profile.name), values.collect::<Vec<_>>().join(", "), profile.doc.into()]
        }),
    );
    names(
        text,
        "Milestones",
        ["milestone", "fields", "reached", "reached only"],
        subject.milestones().iter().map(|milestone| {
            let only = milestone.only.map(|only| format!("by `{only}`")).unwrap_or_default();
            [code(milestone.name), milestone.fields.join(", "), milestone.doc.into(), only]
        }),
    );
    names(
        text,
        "Points",
        ["point", "where it is", "only with defect"],
        subject.points().iter().map(|point| {
            [code(point.name), point.doc.into(), point.defect.map(code).unwrap_or_default()]
        }),
    );
    names(
        text,
        "Defects",
        ["defect", "wrong behaviour", "breaks", "original bug"],
        subject.defects().iter().map(|defect| {
            [code(defect.name), defect.doc.into(), defect.breaks.join(", "), defect.source.into()]
        }),
    );
    names(
        text,
        "Rules",
        ["rule", "what it says", "source"],
        subject.rules().iter().map(|rule| [code(rule.id), rule.doc.into(), rule.source.into()]),
    );
}

fn code(name: &str) -> String {
    format!("`{name}`")
}

fn servers(subject: &dyn DynSubject) -> String {
    subject.servers().iter().map(|name| code(name)).collect::<Vec<_>>().join(", ")
}

fn fields_of(text: &mut String, fields: &[FieldDoc]) {
    if fields.is_empty() {
        return;
    }
    *text += "\n| field | value | required | meaning |\n|---|---|---|---|\n";
    for field in fields {
        let must = if field.required { "yes" } else { "no" };
        put(
            text,
            format_args!(
                "| `{}` | {} | {must} | {} |\n",
                field.name,
                cell(&field.written),
                cell(&field.doc)
            ),
        );
    }
}

/// Appends a table of names.
fn names<const N: usize>(
    text: &mut String,
    title: &str,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let row = |cells: [String; N]| format!("| {} |\n", cells.map(|text| cell(&text)).join(" | "));
    put(
        text,
        format_args!("\n### {title}\n\n{}|{}\n", row(head.map(str::to_owned)), "---|".repeat(N)),
    );
    rows.for_each(|cells| *text += &row(cells));
}
