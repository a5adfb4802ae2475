//! Limits: all sizes, windows, deadlines and budgets of a subject, by name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::units;

/// One limit of a subject's table.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The name, dotted and in kebab-case: `client.recovery-deadline`.
    pub name: &'static str,
    /// The value if a plan does not set one. It also determines the kind of the limit.
    pub default: LimitValue,
    /// The least value that makes sense.
    pub least: LimitValue,
    /// A description, including the meaning of the least value.
    pub doc: &'static str,
}

/// The value of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitValue {
    /// For example `25s`.
    Duration(Duration),
    /// For example `1MiB`.
    Bytes(u64),
    /// For example `128`.
    Count(u64),
    /// For example `true`.
    Flag(bool),
}

impl LimitValue {
    /// A number of seconds, for tables.
    pub const fn secs(n: u64) -> Self {
        Self::Duration(Duration::from_secs(n))
    }

    /// A number of milliseconds, for tables.
    pub const fn millis(n: u64) -> Self {
        Self::Duration(Duration::from_millis(n))
    }

    /// Whether both values are of the same kind.
    pub fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for LimitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitValue::Duration(d) => f.pad(&units::duration(*d)),
            LimitValue::Bytes(n) => f.pad(&units::size(*n)),
            LimitValue::Count(n) => n.fmt(f),
            LimitValue::Flag(b) => b.fmt(f),
        }
    }
}

/// A named set of values for some limits of a subject: the rules of another version, for example.
/// A plan that uses it has these values instead of the defaults, except where it sets its own.
#[derive(Clone, Copy, Debug)]
pub struct LimitProfile {
    /// The name, in kebab-case: `seed`.
    pub name: &'static str,
    /// A description: whose values these are.
    pub doc: &'static str,
    /// The values, by the names of their limits.
    pub values: &'static [(&'static str, LimitValue)],
}

impl LimitProfile {
    /// Returns the value of a limit, if the profile sets it.
    pub fn value(&self, limit: &str) -> Option<LimitValue> {
        self.values.iter().find(|(name, _)| *name == limit).map(|(_, value)| *value)
    }

    /// Returns the values by name.
    pub fn limits(&self) -> impl Iterator<Item = (Cow<'static, str>, LimitValue)> + use<> {
        self.values.iter().map(|(name, value)| (Cow::Borrowed(*name), *value))
    }
}

/// Values of limits, by name. A limit without an entry has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits(pub BTreeMap<Cow<'static, str>, LimitValue>);

impl Limits {
    /// Sets the value of a limit.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: LimitValue) {
        self.0.insert(name.into(), value);
    }

    /// Returns the value of each limit of `table`: the one that is set here, or else its default.
    pub fn over(&self, table: &[Limit]) -> Limits {
        let value = |limit: &Limit| self.0.get(limit.name).copied().unwrap_or(limit.default);
        Limits(table.iter().map(|limit| (Cow::Borrowed(limit.name), value(limit))).collect())
    }

    fn get(&self, name: &str) -> LimitValue {
        *self
            .0
            .get(name)
            .unwrap_or_else(|| panic!("the subject does not define the limit `{name}`"))
    }

    /// Returns the duration with this name.
    ///
    /// # Panics
    /// If the subject's table has no duration with this name. The other getters do the same for
    /// their kinds.
    pub fn duration(&self, name: &str) -> Duration {
        match self.get(name) {
            LimitValue::Duration(d) => d,
            other => panic!("the limit `{name}` is {other}, not a duration"),
        }
    }

    /// Returns the count or the size in bytes with this name.
    pub fn count(&self, name: &str) -> u64 {
        match self.get(name) {
            LimitValue::Count(n) | LimitValue::Bytes(n) => n,
            other => panic!("the limit `{name}` is {other}, not a number"),
        }
    }

    /// Returns the flag with this name.
    pub fn flag(&self, name: &str) -> bool {
        match self.get(name) {
            LimitValue::Flag(b) => b,
            other => panic!("the limit `{name}` is {other}, not a flag"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Limit] = &[
        Limit {
            name: "a.deadline",
            default: LimitValue::secs(25),
            least: LimitValue::millis(1),
            doc: "",
        },
        Limit {
            name: "a.size",
            default: LimitValue::Bytes(4096),
            least: LimitValue::Bytes(1),
            doc: "",
        },
    ];

    #[test]
    fn a_plan_overrides_a_default() {
        let mut limits = Limits::default();
        limits.set("a.size", LimitValue::Bytes(1));
        let all = limits.over(TABLE);
        assert_eq!((all.duration("a.deadline"), all.count("a.size")), (Duration::from_secs(25), 1));
    }

    #[test]
    fn sizes_are_written_in_the_largest_unit_that_is_exact() {
        let written: Vec<_> =
            [1 << 20, 4096, 1, 0, 1025].map(|n| LimitValue::Bytes(n).to_string()).into();
        assert_eq!(written, ["1MiB", "4KiB", "1B", "0B", "1025B"]);
    }
}
