//! The envelope of JSON-RPC: the part of a message that is parsed before its content.

use std::fmt;

use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::strict;

/// A message.
#[derive(Clone, Debug)]
pub enum Message {
    /// A request, which needs an answer.
    Request {
        /// The id of the answer.
        id: RequestId,
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Box<RawValue>>,
    },
    /// A notification, which needs no answer.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Box<RawValue>>,
    },
    /// The answer to a request.
    Response {
        /// The id of the request.
        id: RequestId,
        /// The result.
        result: Box<RawValue>,
    },
    /// The refusal of a request.
    Error {
        /// The id of the request; -1 if it could not be read.
        id: RequestId,
        /// The reason.
        error: ErrorBody,
    },
}

/// The id of a request: a number or a string, valid for one connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestId {
    /// A number.
    Number(i64),
    /// A string.
    Text(String),
}

/// The reason why a request was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error code; each protocol has its own table.
    pub code: i64,
    /// The message for people.
    pub message: String,
    /// Data for programs, if the code is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

/// A frame without a valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {0}")]
pub struct Malformed(pub String);

/// The number of bytes that is enough for the envelope of most messages.
const ENVELOPE: usize = 128;

/// A message in its encoded form. Anything but the four shapes is malformed.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default, deserialize_with = "not_null")]
    id: Option<RequestId>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    error: Option<ErrorBody>,
}

/// A message to encode. It borrows its content, which may be long, so that the content is not
/// copied.
#[derive(Serialize)]
struct Outgoing<'m, C: Serialize + ?Sized> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'m RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'m C>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'m C>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'m ErrorBody>,
}

impl<'m, C: Serialize + ?Sized> Outgoing<'m, C> {
    const EMPTY: Self =
        Self { jsonrpc: None, id: None, method: None, params: None, result: None, error: None };

    /// Encodes the message; its content has about `weight` bytes.
    fn written(&self, weight: usize) -> String {
        let mut text = Vec::with_capacity(weight + ENVELOPE);
        serde_json::to_writer(&mut text, self).expect("what is sent is plain data");
        String::from_utf8(text).expect("JSON is text")
    }
}

/// Deserializes an id that is present. `null` is not an id: without this, a request with the id
/// `null` would look like a notification.
fn not_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RequestId>, D::Error> {
    RequestId::deserialize(deserializer).map(Some)
}

/// Deserializes a `result` that is present, even if it is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl Message {
    /// Creates a request with these parameters.
    pub fn request(id: i64, method: &str, params: &impl Serialize) -> Self {
        Self::Request {
            id: RequestId::Number(id),
            method: method.to_owned(),
            params: Some(raw(params)),
        }
    }

    /// Creates a notification with these parameters.
    pub fn notification(method: &str, params: &impl Serialize) -> Self {
        Self::Notification { method: method.to_owned(), params: Some(raw(params)) }
    }

    /// Creates the answer to a request.
    pub fn response(id: RequestId, result: &impl Serialize) -> Self {
        Self::Response { id, result: raw(result) }
    }

    /// Creates the refusal of a request.
    pub fn error(id: RequestId, code: i64, message: impl Into<String>) -> Self {
        Self::Error { id, error: ErrorBody { code, message: message.into(), data: None } }
    }

    /// Creates the refusal of a request, with data for programs.
    pub fn error_with(
        id: RequestId,
        code: i64,
        message: impl Into<String>,
        data: &impl Serialize,
    ) -> Self {
        Self::Error {
            id,
            error: ErrorBody { code, message: message.into(), data: Some(raw(data)) },
        }
    }

    /// Parses the message in a frame.
    ///
    /// # Errors
    /// [`Malformed`] if the frame is not JSON, has more than 262,144 values or a nesting of 128 or
    /// more, contains an object with a duplicate key, or has none of the four shapes.
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        strict::check(frame).map_err(|error| Malformed(error.to_string()))?;
        let envelope: Envelope =
            serde_json::from_slice(frame).map_err(|error| Malformed(error.to_string()))?;
        match envelope {
            Envelope { id: Some(id), method: Some(method), params, result: None, error: None } => {
                Ok(Self::Request { id, method, params })
            }
            Envelope { id: None, method: Some(method), params, result: None, error: None } => {
                Ok(Self::Notification { method, params })
            }
            Envelope {
                id: Some(id),
                method: None,
                params: None,
                result: Some(result),
                error: None,
            } => Ok(Self::Response { id, result }),
            Envelope {
                id: Some(id),
                method: None,
                params: None,
                result: None,
                error: Some(error),
            } => Ok(Self::Error { id, error }),
            _ => Err(Malformed("neither request, response, error nor notification".into())),
        }
    }

    /// Encodes the message for a frame, without a version.
    pub fn to_text(&self) -> String {
        self.written(None)
    }

    /// Encodes the message for a frame of a protocol that includes the version, JSON-RPC 2.0, in
    /// each message.
    pub fn to_versioned_text(&self) -> String {
        self.written(Some("2.0"))
    }

    /// Returns the size of the content in bytes, without the envelope.
    pub fn weight(&self) -> usize {
        let raw = match self {
            Self::Request { params, .. } | Self::Notification { params, .. } => params.as_deref(),
            Self::Response { result, .. } => Some(&**result),
            Self::Error { error, .. } => error.data.as_deref(),
        };
        raw.map_or(0, |raw| raw.get().len())
    }

    fn written(&self, jsonrpc: Option<&'static str>) -> String {
        let empty = Outgoing { jsonrpc, ..Outgoing::EMPTY };
        let outgoing = match self {
            Self::Request { id, method, params } => {
                Outgoing { id: Some(id), method: Some(method), params: params.as_deref(), ..empty }
            }
            Self::Notification { method, params } => {
                Outgoing { method: Some(method), params: params.as_deref(), ..empty }
            }
            Self::Response { id, result } => {
                Outgoing { id: Some(id), result: Some(&**result), ..empty }
            }
            Self::Error { id, error } => Outgoing { id: Some(id), error: Some(error), ..empty },
        };
        outgoing.written(self.weight())
    }
}

/// Encodes the answer to a request, without a version. Avoids an intermediate [`Message`] if no
/// code needs one.
pub fn response_text(id: &RequestId, result: &impl Serialize) -> String {
    Outgoing { id: Some(id), result: Some(result), ..Outgoing::EMPTY }.written(0)
}

/// Encodes a notification in the same way.
pub fn notification_text(method: &str, params: &impl Serialize) -> String {
    Outgoing { method: Some(method), params: Some(params), ..Outgoing::EMPTY }.written(0)
}

/// Encodes the refusal of a message whose id could not be read: its id is `null`. JSON-RPC requires
/// this form. [`Message::parse`] does not accept it, because it answers no request.
pub fn unreadable_text(code: i64, message: impl Into<String>) -> String {
    #[derive(Serialize)]
    struct Unreadable {
        id: (),
        error: ErrorBody,
    }
    let error = ErrorBody { code, message: message.into(), data: None };
    serde_json::to_string(&Unreadable { id: (), error }).expect("what is sent is plain data")
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("what is sent is plain data")
}

/// Parses the content of a message: the parameters of a method, or its result. If there is no
/// content, parses `{}`.
///
/// # Errors
/// The error of serde.
pub fn read<T: DeserializeOwned>(carried: Option<&RawValue>) -> Result<T, serde_json::Error> {
    serde_json::from_str(carried.map_or("{}", RawValue::get))
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = RequestId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id: a whole number or a string")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<RequestId, E> {
        Ok(RequestId::Number(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<RequestId, E> {
        i64::try_from(number)
            .map(RequestId::Number)
            .map_err(|_| E::custom("an id that is too large"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RequestId, E> {
        Ok(RequestId::Text(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        Message::parse(text.as_bytes()).unwrap().to_text()
    }

    #[test]
    fn the_four_shapes_survive_a_round_trip() {
        for text in [
            r#"{"id":1,"method":"process/read","params":{"processId":"p1"}}"#,
            r#"{"id":"a","method":"initialize"}"#,
            r#"{"method":"initialized","params":{}}"#,
            r#"{"id":1,"result":{}}"#,
            r#"{"id":2,"result":null}"#,
            r#"{"id":-1,"error":{"code":-32600,"message":"no"}}"#,
        ] {
            assert_eq!(again(text), text);
        }
    }

    #[test]
    fn a_versioned_message_contains_the_version() {
        let message = Message::error_with(RequestId::Number(1), -32005, "no", &["1.0.0"]);
        let text =
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"no","data":["1.0.0"]}}"#;
        assert_eq!(message.to_versioned_text(), text);
        assert_eq!(Message::parse(text.as_bytes()).unwrap().to_versioned_text(), text);
    }

    #[test]
    fn direct_encoding_gives_the_same_text() {
        let (id, carried) = (RequestId::Text("a".into()), ("\"", [1.5, 2.0]));
        assert_eq!(response_text(&id, &carried), Message::response(id, &carried).to_text());
        assert_eq!(
            notification_text("m", &carried),
            Message::notification("m", &carried).to_text()
        );
    }

    #[test]
    fn the_refusal_of_an_unreadable_message_has_no_id() {
        let text = r#"{"id":null,"error":{"code":-32700,"message":"no"}}"#;
        assert_eq!(unreadable_text(-32700, "no"), text);
    }

    #[test]
    fn unknown_fields_of_an_envelope_are_skipped() {
        assert_eq!(
            again(r#"{"jsonrpc":"2.0","id":1,"method":"m","trace":{"a":1}}"#),
            r#"{"id":1,"method":"m"}"#
        );
    }

    #[test]
    fn other_shapes_are_malformed() {
        for text in [
            "",
            "{",
            "7",
            "[]",
            "{}",
            r#"{"id":1}"#,
            r#"{"id":1,"method":"m","result":1}"#,
            r#"{"id":1,"id":2,"method":"m"}"#,
            r#"{"id":1,"method":"m","params":{"a":1,"a":2}}"#,
            r#"{"id":1.5,"method":"m"}"#,
            r#"{"id":null,"method":"m"}"#,
            r#"{"id":null,"result":1}"#,
            r#"{"id":18446744073709551615,"method":"m"}"#,
            r#"{"result":1}"#,
            "\u{0}\u{ff}",
        ] {
            assert!(Message::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_message_with_too_many_values_is_rejected() {
        let with = |values: usize| format!(r#"{{"id":1,"result":[{}0]}}"#, "0,".repeat(values));
        assert!(Message::parse(with(262_000).as_bytes()).is_ok());
        assert!(Message::parse(with(262_144).as_bytes()).is_err());
        let chunk = r#"{"seq":12345,"stream":"stdout","chunk":"YQ=="}"#;
        let chunks = |count| {
            format!(r#"{{"id":1,"result":{{"chunks":[{}]}}}}"#, vec![chunk; count].join(","))
        };
        assert!(
            Message::parse(chunks(50_000).as_bytes()).is_ok(),
            "as many as a server keeps have four values each"
        );
        assert!(Message::parse(chunks(66_000).as_bytes()).is_err());
        let text = format!(r#"{{"id":1,"result":"{}"}}"#, ",\\\"[".repeat(262_144));
        assert!(Message::parse(text.as_bytes()).is_ok(), "what stands in a string is not a value");
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = format!(r#"{{"id":1,"method":"m","params":{deep},"extra":{deep}}}"#);
        assert!(Message::parse(text.as_bytes()).is_err());
    }
}
