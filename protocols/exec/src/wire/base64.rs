//! The base64 encoding of bytes in JSON.

use std::fmt;

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// Bytes that are encoded in JSON as a base64 string with padding.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Base64(pub Bytes);

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Bytes> for Base64 {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Encodes directly into the serializer, because the data may be megabytes long.
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Base64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string in base64")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Base64, E> {
        STANDARD.decode(text).map(|bytes| Base64(bytes.into())).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_bytes_decode_to_the_same_bytes() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"\xff\x00\n"] {
            let text = serde_json::to_string(&Base64(Bytes::copy_from_slice(bytes))).unwrap();
            assert_eq!(serde_json::from_str::<Base64>(&text).unwrap().0, bytes);
        }
        assert_eq!(serde_json::to_string(&Base64("hi\n".into())).unwrap(), r#""aGkK""#);
    }

    #[test]
    fn invalid_base64_is_an_error() {
        assert!(serde_json::from_str::<Base64>(r#""a""#).is_err());
        assert!(serde_json::from_str::<Base64>("7").is_err());
    }
}
