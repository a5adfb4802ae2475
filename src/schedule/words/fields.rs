//! The fields of a fault as values: reading them to build a fault, and collecting them from one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{FaultWord, FieldValue, Need};
use crate::schedule::fault::values::{Learns, LinkPlace};
use crate::schedule::names::{Conn, Host, Named};

/// The fields of a fault, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultFields(pub BTreeMap<&'static str, FieldValue>);

/// The reason why fields do not form a fault of a word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unfit {
    /// The field that is not allowed or has the wrong type; `None` if a field is missing.
    pub field: Option<&'static str>,
    /// The mistake, and the correct form.
    pub message: String,
}

impl FaultWord {
    /// Checks the fields of a fault.
    ///
    /// # Errors
    /// If a field is missing, is not one of the word's, has the wrong type, or does not fit with
    /// another field.
    pub fn check(&self, fields: &FaultFields) -> Result<(), Unfit> {
        let word = self.name;
        let missing = |message: String| Err(Unfit { field: None, message });
        for (&name, value) in &fields.0 {
            let wrong = |message: String| Err(Unfit { field: Some(name), message });
            match self.field(name) {
                None => return wrong(format!("`{word}` has no field `{name}`")),
                Some(field) if field.kind != value.kind() => {
                    return wrong(format!("`{name}` must be {}", field.kind.written()));
                }
                Some(field) => match field.need {
                    Need::With(other) | Need::WithElse(other, _) if !fields.has(other) => {
                        return wrong(format!(
                            "`{name}` needs `{other}`; leave it out, or add `{other}`"
                        ));
                    }
                    _ => {}
                },
            }
        }
        for field in self.fields.iter().filter(|field| !fields.has(field.name)) {
            match field.need {
                Need::Always => {
                    return missing(format!(
                        "`{word}` needs `{}`, {}",
                        field.name,
                        field.kind.written()
                    ));
                }
                Need::With(other) if fields.has(other) => {
                    return missing(format!(
                        "`{word}` with `{other}` needs `{}`, {}",
                        field.name,
                        field.kind.written()
                    ));
                }
                _ => {}
            }
        }
        self.check_group(fields, Need::OneOf)?;
        self.check_group(fields, Need::SomeOf)
    }

    /// Checks the fields that share a need: exactly one of them, or at least one, must be present.
    fn check_group(&self, fields: &FaultFields, need: Need) -> Result<(), Unfit> {
        let group: Vec<_> =
            self.fields.iter().filter(|field| field.need == need).map(|field| field.name).collect();
        let there: Vec<_> = group.iter().filter(|name| fields.has(name)).collect();
        let names =
            || group.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
        if group.is_empty() || there.len() == 1 || (need == Need::SomeOf && !there.is_empty()) {
            return Ok(());
        }
        let how_many = if need == Need::OneOf { "exactly one" } else { "at least one" };
        Err(Unfit {
            field: there.last().map(|name| **name),
            message: format!("`{}` needs {how_many} of {}", self.name, names()),
        })
    }
}

/// Getters. They panic if a required field is missing, because the fields are
/// [checked](FaultWord::check) before.
impl FaultFields {
    /// Adds a field.
    pub fn with(mut self, name: &'static str, value: FieldValue) -> Self {
        self.0.insert(name, value);
        self
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(in crate::schedule) fn host(&self, name: &str) -> Host {
        let Some(FieldValue::Host(host)) = self.0.get(name) else { panic!("{CHECKED}: {name}") };
        host.clone()
    }

    pub(in crate::schedule) fn toward(&self) -> Option<Host> {
        self.has("toward").then(|| self.host("toward"))
    }

    pub(in crate::schedule) fn hosts(&self) -> (Host, Host) {
        let Some(FieldValue::Hosts(one, other)) = self.0.get("hosts") else {
            panic!("{CHECKED}: hosts")
        };
        (one.clone(), other.clone())
    }

    pub(in crate::schedule) fn conn(&self, name: &str) -> Conn {
        let Some(FieldValue::Conn(conn)) = self.0.get(name) else { panic!("{CHECKED}: {name}") };
        conn.clone()
    }

    pub(in crate::schedule) fn place(&self) -> LinkPlace {
        if self.has("conn") {
            return LinkPlace::Conn(self.conn("conn"));
        }
        let (one, other) = self.hosts();
        LinkPlace::Link(one, other)
    }

    pub(in crate::schedule) fn duration(&self, name: &str) -> Duration {
        self.maybe(name).unwrap_or_else(|| panic!("{CHECKED}: {name}"))
    }

    pub(in crate::schedule) fn maybe(&self, name: &str) -> Option<Duration> {
        match self.0.get(name) {
            Some(FieldValue::Duration(d)) => Some(*d),
            _ => None,
        }
    }

    pub(in crate::schedule) fn lasts(&self) -> Option<Duration> {
        self.maybe("lasts")
    }

    pub(in crate::schedule) fn jump(&self, name: &str) -> i64 {
        let Some(FieldValue::Jump(ms)) = self.0.get(name) else { panic!("{CHECKED}: {name}") };
        *ms
    }

    pub(in crate::schedule) fn learns(&self) -> BTreeMap<Host, Learns> {
        match self.0.get("learns") {
            Some(FieldValue::Learns(learns)) => learns.clone(),
            _ => BTreeMap::new(),
        }
    }

    pub(in crate::schedule) fn named<T: Named>(&self, name: &str) -> Option<T> {
        match self.0.get(name) {
            Some(FieldValue::Name(_, value)) => T::named(value),
            _ => None,
        }
    }

    pub(in crate::schedule) fn number(&self, name: &str) -> Option<u64> {
        match self.0.get(name) {
            Some(FieldValue::Size(n) | FieldValue::Count(n)) => Some(*n),
            _ => None,
        }
    }
}

/// The reason why a required field is there.
pub(in crate::schedule) const CHECKED: &str = "the fields were checked against the table before";

/// Collects the fields of a fault during its conversion.
#[derive(Debug, Default)]
pub struct Parts(pub(in crate::schedule) Vec<(&'static str, FieldValue)>);

impl Parts {
    pub(in crate::schedule) fn push(&mut self, name: &'static str, value: FieldValue) -> &mut Self {
        self.0.push((name, value));
        self
    }

    pub(in crate::schedule) fn conn(&mut self, conn: &Conn) -> &mut Self {
        self.push("conn", FieldValue::Conn(conn.clone()))
    }

    pub(in crate::schedule) fn host(&mut self, host: &Host) -> &mut Self {
        self.push("host", FieldValue::Host(host.clone()))
    }

    pub(in crate::schedule) fn hosts(&mut self, (one, other): &(Host, Host)) -> &mut Self {
        self.push("hosts", FieldValue::Hosts(one.clone(), other.clone()))
    }

    pub(in crate::schedule) fn place(&mut self, place: &LinkPlace) -> &mut Self {
        match place {
            LinkPlace::Conn(conn) => self.conn(conn),
            LinkPlace::Link(one, other) => self.hosts(&(one.clone(), other.clone())),
        }
    }

    pub(in crate::schedule) fn toward(&mut self, toward: Option<&Host>) -> &mut Self {
        self.0.extend(toward.map(|host| ("toward", FieldValue::Host(host.clone()))));
        self
    }

    pub(in crate::schedule) fn time(
        &mut self,
        name: &'static str,
        time: Option<Duration>,
    ) -> &mut Self {
        self.0.extend(time.map(|time| (name, FieldValue::Duration(time))));
        self
    }

    pub(in crate::schedule) fn learns(&mut self, learns: &BTreeMap<Host, Learns>) -> &mut Self {
        if learns.is_empty() {
            self
        } else {
            self.push("learns", FieldValue::Learns(learns.clone()))
        }
    }

    pub(in crate::schedule) fn named<T: Named>(
        &mut self,
        name: &'static str,
        value: T,
    ) -> &mut Self {
        self.push(name, FieldValue::Name(T::LIST, value.name()))
    }

    /// Adds a field, unless its value is the default.
    pub(in crate::schedule) fn unusual<T: Named + Default>(
        &mut self,
        name: &'static str,
        value: T,
    ) -> &mut Self {
        if value == T::default() { self } else { self.named(name, value) }
    }

    pub(in crate::schedule) fn size(&mut self, name: &'static str, size: Option<u64>) -> &mut Self {
        self.0.extend(size.map(|size| (name, FieldValue::Size(size))));
        self
    }
}
