//! `[limits]`: the values of limits. The subject's table defines the kind of each.

use std::collections::BTreeMap;

use crate::scenario::mistake::{MistakeAt, Parsed, unknown};
use crate::scenario::reader::Node;
use crate::schedule::{Limit, LimitProfile, LimitValue, units};
use crate::subject::DynSubject;

/// Returns the profile of limits that a file uses.
pub(in crate::scenario) fn profile(
    node: Option<Node<'_>>,
    subject: &dyn DynSubject,
) -> Parsed<Option<&'static LimitProfile>> {
    let Some(node) = node else { return Ok(None) };
    find_profile(node.text()?, subject).map(Some).or_else(|message| node.wrong(message))
}

/// Returns the subject's profile of limits with this name.
///
/// # Errors
/// If the subject has none with this name. The message suggests a known name.
pub fn find_profile(name: &str, subject: &dyn DynSubject) -> Result<&'static LimitProfile, String> {
    let profiles = subject.limit_profiles();
    profiles.iter().find(|profile| profile.name == name).ok_or_else(|| {
        let what = format!("a profile of limits of {}", subject.name());
        unknown(&what, name, profiles.iter().map(|profile| profile.name))
    })
}

/// Returns the entries of a table of limits. `value` parses one entry: a value, or a choice of
/// values.
pub(in crate::scenario) fn limits<T>(
    node: Option<Node<'_>>,
    subject: &dyn DynSubject,
    value: impl Fn(&Limit, &Node<'_>) -> Parsed<T>,
) -> Parsed<BTreeMap<String, T>> {
    let Some(node) = node else { return Ok(BTreeMap::new()) };
    let known = || subject.limits().iter().map(|limit| limit.name);
    let entry =
        |entry: Node<'_>| match subject.limits().iter().find(|limit| limit.name == entry.label) {
            Some(limit) => Ok((limit.name.to_owned(), value(limit, &entry)?)),
            None if entry.is_table() => {
                let message =
                    format!("write the limit's name between quotes: `\"{}\"`", dotted(&entry));
                Err(MistakeAt { at: entry.key_at, message })
            }
            None => Err(MistakeAt {
                at: entry.key_at,
                message: unknown(&format!("a limit of {}", subject.name()), entry.label, known()),
            }),
        };
    node.free_table()?.entries().map(entry).collect()
}

/// Returns the intended name if the user wrote a dotted name without quotes.
fn dotted(node: &Node<'_>) -> String {
    let inner =
        node.free_table().ok().and_then(|table| table.entries().next().map(|inner| dotted(&inner)));
    inner.map_or_else(|| node.label.to_owned(), |inner| format!("{}.{inner}", node.label))
}

/// Returns the value of a limit.
pub(in crate::scenario) fn value(limit: &Limit, node: &Node<'_>) -> Parsed<LimitValue> {
    let value = match limit.default {
        LimitValue::Duration(_) => LimitValue::Duration(node.duration()?),
        LimitValue::Bytes(_) => LimitValue::Bytes(node.size()?),
        LimitValue::Count(_) => LimitValue::Count(node.number(0)?),
        LimitValue::Flag(_) => LimitValue::Flag(node.flag()?),
    };
    not_below_least(limit, value).or_else(|message| node.wrong(message))
}

/// Parses the value of a limit from the command line: `25s`, `4KiB`, `128`, `true`.
///
/// # Errors
/// If the value does not have the limit's kind, or is below its minimum. The message suggests a
/// correct value.
pub fn read_limit(limit: &Limit, text: &str) -> Result<LimitValue, String> {
    let number = || {
        text.parse().map_err(|_| format!("`{}` must be a whole number, not `{text}`", limit.name))
    };
    let flag = || {
        text.parse()
            .map_err(|_| format!("`{}` must be `true` or `false`, not `{text}`", limit.name))
    };
    let value = match limit.default {
        LimitValue::Duration(_) => {
            LimitValue::Duration(units::read_duration(text).map_err(|error| error.to_string())?)
        }
        LimitValue::Bytes(_) => {
            LimitValue::Bytes(units::read_size(text).map_err(|error| error.to_string())?)
        }
        LimitValue::Count(_) => LimitValue::Count(number()?),
        LimitValue::Flag(_) => LimitValue::Flag(flag()?),
    };
    not_below_least(limit, value)
}

pub(in crate::scenario) fn not_below_least(
    limit: &Limit,
    value: LimitValue,
) -> Result<LimitValue, String> {
    if value < limit.least {
        Err(format!("`{}` is at least {}, not {value}", limit.name, limit.least))
    } else {
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_parsed_by_its_kind_and_has_a_minimum() {
        let limit = |default, least| Limit { name: "a.b", default, least, doc: "" };
        let deadline = limit(LimitValue::secs(25), LimitValue::millis(1));
        assert_eq!(read_limit(&deadline, "3s"), Ok(LimitValue::secs(3)));
        assert_eq!(read_limit(&deadline, "0ms"), Err("`a.b` is at least 1ms, not 0ms".into()));
        let queue = limit(LimitValue::Count(128), LimitValue::Count(1));
        assert_eq!(read_limit(&queue, "2"), Ok(LimitValue::Count(2)));
        assert_eq!(read_limit(&queue, "2s"), Err("`a.b` must be a whole number, not `2s`".into()));
        let retry = limit(LimitValue::Flag(false), LimitValue::Flag(false));
        assert_eq!(read_limit(&retry, "true"), Ok(LimitValue::Flag(true)));
        assert_eq!(
            read_limit(&retry, "yes"),
            Err("`a.b` must be `true` or `false`, not `yes`".into())
        );
    }
}
