//! The check of a whole message, before anything in it is used: JSON leaves open what a repeated key
//! means, and a peer must not make this end use unbounded stack or memory. The limits are those of a
//! codex exec-server.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The maximum number of JSON values in one message.
pub(super) const MOST_VALUES: usize = 262_144;

/// How much of a key an error shows, in characters.
const SHOWN: usize = 64;

/// Checks that a text is one JSON value, that no object in it has a key twice, that it has at most
/// [`MOST_VALUES`] values, and that its nesting is below 128 (the limit of `serde_json`).
pub(super) fn check(text: &[u8]) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(text);
    Values { left: &mut MOST_VALUES.clone() }.deserialize(&mut json)?;
    json.end()
}

/// Reads a value, and counts the values in it.
struct Values<'c> {
    /// How many values may follow.
    left: &'c mut usize,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
struct Key<'k>(#[serde(borrow)] Cow<'k, str>);

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        let left = self.left.checked_sub(1);
        *self.left =
            left.ok_or_else(|| D::Error::custom(format!("more than {MOST_VALUES} values")))?;
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Values { left: self.left })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut keys: Vec<Key> = Vec::new();
        while let Some(key) = fields.next_key()? {
            keys.push(key);
            fields.next_value_seed(Values { left: self.left })?;
        }
        keys.sort_unstable();
        match keys.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => {
                let key: String = pair[0].0.chars().take(SHOWN).collect();
                Err(A::Error::custom(format!("duplicate key `{key}`")))
            }
        }
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_without_a_repeated_key_is_well_formed() {
        for text in [
            r#"{"a":[1,-2,3.5,1e3,true,null,"x\u00e9"],"b":{"a":{}}}"#,
            r#"[{"a":1},{"a":1}]"#,
            " 7 ",
            r#""""#,
        ] {
            assert!(check(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_repeated_key_is_refused_at_any_depth() {
        for text in [
            r#"{"a":1,"b":2,"a":3}"#,
            r#"{"x":[{"y":{"a":1,"a":1}}]}"#,
            r#"{"key":1,"\u006bey":2}"#,
            r#"{"":1,"":2}"#,
        ] {
            let error = check(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("duplicate key"), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in ["", "{", "{}{}", "[1,]", "nul", r#""\ud800""#, "01", "\u{feff}{}"] {
            assert!(check(text.as_bytes()).is_err(), "{text}");
        }
        assert!(check(b"\"\xff\"").is_err());
    }

    #[test]
    fn nesting_and_values_have_limits() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check(nested(127).as_bytes()).is_ok());
        assert!(check(nested(128).as_bytes()).is_err());
        assert!(check(nested(100_000).as_bytes()).is_err());
        let values = |count: usize| format!("[0{}]", ",0".repeat(count - 2));
        assert!(check(values(MOST_VALUES).as_bytes()).is_ok());
        assert!(check(values(MOST_VALUES + 1).as_bytes()).is_err());
    }

    #[test]
    fn an_error_shows_only_the_start_of_a_key() {
        let key = "k".repeat(100_000);
        let error = check(format!(r#"{{"{key}":1,"{key}":2}}"#).as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 200);
    }
}
