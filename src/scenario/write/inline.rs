//! Inline values of TOML.

use std::fmt::{self, Display};
use std::time::Duration;

use serde_json::Value as Json;

use crate::schedule::units;

/// A value after a `=`.
#[derive(Clone, Debug)]
pub enum Inline {
    /// Literal text.
    Raw(String),
    /// A list.
    List(Vec<Inline>),
    /// A list with one line per entry, even if it is short.
    Lines(Vec<Inline>),
    /// A table.
    Table(Vec<(String, Inline)>),
}

impl Inline {
    /// Creates a number or a boolean.
    pub fn raw(value: impl Display) -> Self {
        Inline::Raw(value.to_string())
    }

    /// Creates a number, with a fraction only if it has one.
    pub fn number(value: f64) -> Self {
        Inline::Raw(format!("{value:?}"))
    }

    pub fn duration(value: Duration) -> Self {
        text(&units::duration(value))
    }

    pub fn list(entries: impl IntoIterator<Item = Inline>) -> Self {
        Inline::List(entries.into_iter().collect())
    }

    pub fn table(entries: impl IntoIterator<Item = (String, Inline)>) -> Self {
        Inline::Table(entries.into_iter().collect())
    }

    /// Returns the same list, with one line per entry.
    pub fn broken(self) -> Self {
        match self {
            Inline::List(entries) if !entries.is_empty() => Inline::Lines(entries),
            other => other,
        }
    }

    /// Creates a value from JSON. Null is left out.
    pub fn json(value: &Json) -> Self {
        match value {
            Json::Null => Inline::Raw("{}".into()),
            Json::String(value) => text(value),
            Json::Bool(value) => Inline::raw(value),
            Json::Number(number) => number
                .as_f64()
                .filter(|_| number.is_f64())
                .map_or_else(|| Inline::raw(number), Inline::number),
            Json::Array(items) => {
                Inline::list(items.iter().filter(|item| !item.is_null()).map(Inline::json))
            }
            Json::Object(fields) => {
                let fields = fields.iter().filter(|(_, value)| !value.is_null());
                Inline::table(fields.map(|(name, value)| (name.clone(), Inline::json(value))))
            }
        }
    }

    /// Returns the text. A list that is longer than `width` has one line per entry.
    pub fn wrapped(&self, width: usize) -> String {
        let line = self.to_string();
        match self {
            Inline::List(entries) if line.chars().count() > width && entries.len() > 1 => {
                Inline::Lines(entries.clone()).to_string()
            }
            _ => line,
        }
    }
}

impl Display for Inline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |entries: &[Inline]| {
            entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        match self {
            Inline::Raw(text) => f.write_str(text),
            Inline::List(entries) => write!(f, "[{}]", joined(entries)),
            Inline::Lines(entries) => {
                f.write_str("[\n")?;
                entries.iter().try_for_each(|entry| writeln!(f, "  {entry},"))?;
                f.write_str("]")
            }
            Inline::Table(entries) if entries.is_empty() => f.write_str("{}"),
            Inline::Table(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(name, value)| format!("{} = {value}", key(name)))
                    .collect();
                write!(f, "{{ {} }}", entries.join(", "))
            }
        }
    }
}

/// Creates a quoted string.
pub fn text(text: &str) -> Inline {
    // JSON and TOML escape the same characters in the same way, except for one.
    Inline::Raw(Json::from(text).to_string().replace('\u{7f}', "\\u007F"))
}

/// Returns a key, quoted if necessary.
pub fn key(name: &str) -> String {
    let bare = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if bare { name.to_owned() } else { text(name).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_survives_being_written_and_read() {
        for odd in [
            "",
            "a\"b\\c",
            "line\nline\r\n\ttab",
            "\u{0}\u{1b}\u{7f}",
            "ü 漢 🦀 \u{2028}",
            "'''\"\"\"",
        ] {
            let file = format!("{} = {}", key(odd), text(odd));
            let read: toml::Table = toml::from_str(&file).unwrap();
            assert_eq!(read.get(odd).and_then(toml::Value::as_str), Some(odd), "{file}");
        }
    }

    #[test]
    fn null_is_left_out() {
        let json = serde_json::json!({ "a": null, "b": [1, null, 2.0], "c": {} });
        assert_eq!(Inline::json(&json).to_string(), "{ b = [1, 2.0], c = {} }");
    }

    #[test]
    fn a_long_list_has_a_line_for_each_entry() {
        let list = Inline::list(["a", "b"].map(text));
        assert_eq!(list.wrapped(20), r#"["a", "b"]"#);
        assert_eq!(list.wrapped(5), "[\n  \"a\",\n  \"b\",\n]");
    }
}
