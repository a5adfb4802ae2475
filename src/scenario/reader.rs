//! Reads TOML with positions: every value has its position, and every table has a list of its known
//! keys.
//!
//! serde loses the line numbers if a type is tagged, untagged or flattened, and a scenario file
//! uses all three. Therefore this module reads a file by hand, with two types: [`Node`], a value
//! with its position, and [`Table`], which rejects unknown keys when it is opened. The caller
//! requests the kind of each value; the error describes the kind found instead.

use std::fmt::Display;
use std::time::Duration;

use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

use super::mistake::{MistakeAt, Parsed, unknown};
use crate::schedule::units;

/// A value with its position and name.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    /// The key of the value.
    pub label: &'a str,
    /// The position of the key; for an entry of a list, the position of the entry.
    pub key_at: usize,
    /// The position of the value.
    pub at: usize,
    value: &'a DeValue<'a>,
}

/// A table whose keys are all known.
pub(super) struct Table<'a> {
    /// The name.
    pub label: &'a str,
    /// The position.
    pub at: usize,
    entries: Vec<Node<'a>>,
}

impl<'a> Node<'a> {
    /// Returns an error at this value.
    pub fn wrong<T>(&self, message: impl Display) -> Parsed<T> {
        Err(MistakeAt { at: self.at, message: message.to_string() })
    }

    /// Returns an error about the type of this value: `expected` completes “must be …”.
    pub fn mistyped<T>(&self, expected: &str) -> Parsed<T> {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "a truth value",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.wrong(format!("`{}` must be {expected}, not {found}", self.label))
    }

    pub fn is_text(&self) -> bool {
        self.value.is_str()
    }

    pub fn is_list(&self) -> bool {
        self.value.is_array()
    }

    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    pub fn text(&self) -> Parsed<&'a str> {
        self.text_like("a string")
    }

    /// Returns a string. `expected` describes it for the error message.
    fn text_like(&self, expected: &str) -> Parsed<&'a str> {
        match self.value {
            DeValue::String(text) => Ok(text),
            _ => self.mistyped(expected),
        }
    }

    /// Parses a string with `read`.
    pub fn read<T, E: Display>(
        &self,
        expected: &str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Parsed<T> {
        read(self.text_like(expected)?).or_else(|error| self.wrong(error))
    }

    pub fn duration(&self) -> Parsed<Duration> {
        self.read("a duration like `\"25s\"`", units::read_duration)
    }

    pub fn size(&self) -> Parsed<u64> {
        self.read("a size like `\"64KiB\"`", units::read_size)
    }

    pub fn jump(&self) -> Parsed<i64> {
        self.read("a duration like `\"-3s\"`", units::read_jump)
    }

    /// Returns a whole number, at least `least`.
    pub fn number(&self, least: u64) -> Parsed<u64> {
        let expected = format!("a whole number from {least}");
        let DeValue::Integer(integer) = self.value else { return self.mistyped(&expected) };
        match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) if number >= least => Ok(number),
            _ => self.wrong(format!("`{}` must be {expected}, not {integer}", self.label)),
        }
    }

    /// Returns a whole number, at least `least`, that fits into 32 bits.
    pub fn small_number(&self, least: u64) -> Parsed<u32> {
        let number = self.number(least)?;
        u32::try_from(number).or_else(|_| {
            self.wrong(format!("`{}` is at most {}, not {number}", self.label, u32::MAX))
        })
    }

    /// Returns a number from 0 to 1.
    pub fn share(&self) -> Parsed<f64> {
        let share = self.weight("a number from 0 to 1")?;
        if share > 1.0 {
            self.wrong(format!("`{}` must be a number from 0 to 1, not {share}", self.label))
        } else {
            Ok(share)
        }
    }

    /// Returns a number from 0, with or without a fraction.
    pub fn weight(&self, expected: &str) -> Parsed<f64> {
        let (text, number) = match self.value {
            DeValue::Integer(n) => (n.as_str(), n.as_str().parse::<f64>().ok()),
            DeValue::Float(n) => (n.as_str(), n.as_str().parse().ok()),
            _ => return self.mistyped(expected),
        };
        match number {
            Some(number) if number >= 0.0 && number.is_finite() => Ok(number),
            _ => self.wrong(format!("`{}` must be {expected}, not {text}", self.label)),
        }
    }

    pub fn flag(&self) -> Parsed<bool> {
        self.value.as_bool().map_or_else(|| self.mistyped("`true` or `false`"), Ok)
    }

    /// Returns the entries of a list.
    pub fn list(&self, expected: &str) -> Parsed<Vec<Node<'a>>> {
        let DeValue::Array(list) = self.value else { return self.mistyped(expected) };
        let node = |entry: &'a toml::Spanned<DeValue<'a>>| {
            let at = entry.span().start;
            Node { label: self.label, key_at: at, at, value: entry.get_ref() }
        };
        Ok(list.iter().map(node).collect())
    }

    /// Returns the strings of a list.
    pub fn texts(&self) -> Parsed<Vec<Node<'a>>> {
        let list = self.list("a list of strings")?;
        list.iter().try_for_each(|entry| entry.text().map(drop))?;
        Ok(list)
    }

    /// Returns a table with these keys and no others.
    pub fn table<'k>(&self, known: impl IntoIterator<Item = &'k str>) -> Parsed<Table<'a>> {
        let table = self.free_table()?;
        table.only(known)?;
        Ok(table)
    }

    /// Returns a table whose keys are names that the file chooses.
    pub fn free_table(&self) -> Parsed<Table<'a>> {
        match self.value {
            DeValue::Table(table) => Ok(Table::open(self.label, self.key_at, table)),
            _ => self.mistyped("a table"),
        }
    }

    /// Returns the value as JSON.
    pub fn json(&self) -> Parsed<Json> {
        match self.value {
            DeValue::String(text) => Ok(Json::from(text.as_ref())),
            DeValue::Boolean(flag) => Ok(Json::from(*flag)),
            DeValue::Array(_) => self.list("a list")?.iter().map(Node::json).collect(),
            DeValue::Table(_) => {
                let pairs = self
                    .free_table()?
                    .entries
                    .into_iter()
                    .map(|entry| Ok((entry.label.to_owned(), entry.json()?)));
                pairs.collect::<Parsed<serde_json::Map<_, _>>>().map(Json::Object)
            }
            DeValue::Integer(n) => {
                let (text, radix) = (n.as_str(), n.radix());
                let number = u64::from_str_radix(text, radix).map(Json::from);
                let number = number.or_else(|_| i64::from_str_radix(text, radix).map(Json::from));
                number.or_else(|_| self.wrong(format!("the number {n} is too large")))
            }
            DeValue::Float(n) => {
                let number = n.as_str().parse().ok().and_then(serde_json::Number::from_f64);
                number.map_or_else(
                    || self.wrong(format!("`{}` must be a finite number, not {n}", self.label)),
                    |n| Ok(n.into()),
                )
            }
            DeValue::Datetime(_) => self.wrong("a date is not possible here; write a string"),
        }
    }
}

impl<'a> Table<'a> {
    /// Creates a table from its entries, in the order of the file.
    pub fn open(label: &'a str, at: usize, table: &'a DeTable<'a>) -> Self {
        let entry = |(key, value): (&'a toml::Spanned<_>, &'a toml::Spanned<DeValue<'a>>)| {
            let label: &'a std::borrow::Cow<'a, str> = key.get_ref();
            Node { label, key_at: key.span().start, at: value.span().start, value: value.get_ref() }
        };
        let mut entries: Vec<_> = table.iter().map(entry).collect();
        entries.sort_by_key(|entry| entry.key_at);
        Self { label, at, entries }
    }

    /// Rejects keys that are not in this list.
    pub fn only<'k>(&self, known: impl IntoIterator<Item = &'k str>) -> Parsed<()> {
        let known: Vec<_> = known.into_iter().collect();
        match self.entries.iter().find(|entry| !known.contains(&entry.label)) {
            None => Ok(()),
            Some(entry) => {
                let what = if self.label.is_empty() {
                    "a key of a scenario file".into()
                } else {
                    format!("a key of `{}`", self.label)
                };
                Err(MistakeAt { at: entry.key_at, message: unknown(&what, entry.label, known) })
            }
        }
    }

    /// Returns an error about the whole table.
    pub fn wrong<T>(&self, message: impl Display) -> Parsed<T> {
        Err(MistakeAt { at: self.at, message: message.to_string() })
    }

    /// Returns the value of a key, if the key exists.
    pub fn get(&self, key: &str) -> Option<Node<'a>> {
        self.entries.iter().find(|entry| entry.label == key).copied()
    }

    /// Returns the value of a required key. `what` completes “needs `key`, …”.
    pub fn need(&self, key: &str, what: &str) -> Parsed<Node<'a>> {
        let whose = if self.label.is_empty() {
            "a scenario file".into()
        } else {
            format!("`{}`", self.label)
        };
        self.get(key).map_or_else(|| self.wrong(format!("{whose} needs `{key}`, {what}")), Ok)
    }

    /// Returns all entries, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = Node<'a>> + '_ {
        self.entries.iter().copied()
    }
}
