//! The sentence of a violation, from its kind and its values.

use crate::history::History;
use crate::property::violation::ViolationEntry;
use crate::property::{About, Violation, ViolationFields, ViolationKind, ViolationValue};
use crate::schedule::units;

use super::rendering;

/// Returns the violation as a sentence: `s1: item 20 was delivered after item 18; 19 never was
/// (generation 2, at 4.231 s)`.
///
/// # Panics
///
/// In debug builds, if the violation lacks a value for a name in the sentence of its kind.
pub fn sentence(violation: &Violation) -> String {
    let Violation { subject, at, kind, data, .. } = violation;
    fill(kind, &|name| match name {
        "subject" => Some(subject.to_string()),
        "subject:" => {
            Some(if *subject == About::Run { String::new() } else { format!("{subject}: ") })
        }
        "at" => Some(at.to_string()),
        "moment" => Some(match data.get("generation") {
            Some(generation) => format!("(generation {}, at {at})", value(generation)),
            None => format!("(at {at})"),
        }),
        _ => data.get(name).map(value),
    })
}

/// Returns the title of a file that reproduces the violation: `gap_free breaks: s1: …`.
pub fn title(violation: &Violation) -> String {
    format!("{} breaks: {}", violation.property, sentence(violation))
}

/// Returns a value as it appears in a sentence.
pub fn value(value: &ViolationValue) -> String {
    match value {
        ViolationValue::Number(n) => n.to_string(),
        ViolationValue::Text(text) => text.clone(),
        ViolationValue::Time(at) => at.to_string(),
        ViolationValue::Duration(span) => units::duration(*span),
        ViolationValue::Phrase(phrase) => phrase_of(phrase.kind, &phrase.data),
        ViolationValue::Entry(entry) => line(entry),
    }
}

fn phrase_of(kind: &ViolationKind, data: &ViolationFields) -> String {
    fill(kind, &|name| data.get(name).map(value))
}

fn line(entry: &ViolationEntry) -> String {
    let history = History { conns: entry.conns.clone(), ..History::default() };
    let line = rendering::entry(&entry.plan, &history, &entry.event);
    format!("`{} {}: {}`", line.at, line.place, line.text)
}

/// Replaces the names in a sentence by their values.
fn fill(kind: &ViolationKind, value: &dyn Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut rest = kind.sentence;
    while let Some((before, name, behind)) = next_name(rest) {
        filled += before;
        let value = value(name);
        debug_assert!(value.is_some(), "`{}` has no value for `{name}`", kind.name);
        filled += &value.unwrap_or_else(|| format!("{{{name}}}"));
        rest = behind;
    }
    filled + rest
}

/// Returns the text before the first name, the name, and the text after it.
fn next_name(sentence: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = sentence.split_once('{')?;
    let (name, behind) = rest.split_once('}')?;
    Some((before, name, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Time;
    use crate::property::Phrase;
    use crate::property::violation::{fields, kinds};

    kinds! {
        MISSING = "missing": "{subject:}item {item} was delivered {place} {moment}";
        AFTER = "after": "after item {item}";
        ALONE = "alone": "{subject} is left, {left} {at}";
    }

    fn sentence_of(
        subject: impl Into<About>,
        kind: &'static ViolationKind,
        data: ViolationFields,
    ) -> String {
        sentence(&Violation::new("gap_free", subject, Time(4_231), kind, data))
    }

    #[test]
    fn a_sentence_has_values_in_place_of_their_names() {
        let after = Phrase::new(&AFTER, fields! { item: 18_u64 });
        let data = fields! { item: 20_u64, place: after };
        assert_eq!(
            sentence_of("s1", &MISSING, data.clone()),
            "s1: item 20 was delivered after item 18 (at 4.231 s)"
        );
        let data = data.with("generation", Some(2_u64));
        assert_eq!(
            sentence_of(About::Run, &MISSING, data),
            "item 20 was delivered after item 18 (generation 2, at 4.231 s)"
        );
        assert_eq!(sentence_of("p1", &ALONE, fields! { left: "so" }), "p1 is left, so 4.231 s");
    }

    #[test]
    #[should_panic(expected = "`alone` has no value for `left`")]
    #[cfg(debug_assertions)]
    fn a_sentence_without_a_value_is_a_mistake() {
        sentence_of("p1", &ALONE, ViolationFields::default());
    }
}
