//! A script: which connection the proxy breaks, at which moment, and how.
//!
//! ```toml
//! [[rule]]                       # the client never learns whether its first command started
//! conn  = 1
//! at    = { message = { toward = "client", answer-to = "process/start", place = "before" } }
//! fault = { reset = {} }
//!
//! [[rule]]                       # and for a while it cannot come back
//! conn  = 1
//! at    = { message = { toward = "client", answer-to = "process/start", place = "before" } }
//! fault = { refuse = { lasts = "3s" } }
//! ```

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The rules of a proxy. Rules that match at the same place fire in the order of this list; a fault
/// that ends the connection takes effect after the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The rules.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
}

/// One fault, and when it happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The number of the connection, from 1, in the order in which the proxy accepted them. Without
    /// it, the rule applies to every connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conn: Option<u32>,
    /// How often the rule fires at most, over all connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The moment. It comes at most once in each connection.
    pub at: Moment,
    /// The action.
    pub fault: Fault,
}

/// A moment in the life of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Moment {
    /// This long after the proxy accepted the connection.
    Time(#[serde(with = "human")] Duration),
    /// When the proxy has forwarded exactly this many bytes.
    Bytes {
        /// The end that receives the bytes.
        toward: End,
        /// The number of bytes, counted from the start of the connection.
        count: u64,
    },
    /// When the proxy has forwarded this text for the first time on a connection. The text may arrive
    /// in pieces. It is compared with the bytes on the wire: a WebSocket client masks its messages, and
    /// a compressed message does not contain its text.
    Text {
        /// The end that receives the text.
        toward: End,
        /// The text. An empty one is found before the first byte.
        text: String,
    },
    /// At a WebSocket message. Control frames do not count.
    Message(MessagePattern),
}

/// A WebSocket message with JSON-RPC in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MessagePattern {
    /// The end that receives the message.
    pub toward: End,
    /// The method of a request or notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The method of the request that the message answers. Without this and `method`, every message
    /// matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_to: Option<String>,
    /// Which of the matching messages of the connection, from 1.
    #[serde(default = "first")]
    pub nth: u32,
    /// How much of the message the proxy forwards before.
    #[serde(default)]
    pub place: Place,
}

fn first() -> u32 {
    1
}

/// How much of a message the proxy forwards before a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// None of it.
    Before,
    /// Half of its bytes.
    Middle,
    /// All of it.
    #[default]
    After,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The end that connected to the proxy.
    Client,
    /// The end that the proxy connected to.
    Server,
}

impl End {
    /// Returns the end at the other side.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The fate of a connection. Words that reknit's table of faults has too mean the same here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// Nothing: the proxy only records that the moment came.
    Note {},
    /// The connection is reset: each end gets an RST.
    Reset {
        /// The only end that gets an RST. The other one gets it when it next sends data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        toward: Option<End>,
    },
    /// The connection is closed gracefully: each end gets a FIN.
    Close {},
    /// The connection dies: no byte arrives any more, and what an end sends is lost. Each end gets
    /// an RST when it learns of it.
    Cut {
        /// When each end learns.
        #[serde(default)]
        learns: LearnTimes,
    },
    /// No byte arrives, but none is lost: all of them arrive afterwards, in order. A FIN or RST
    /// waits, too.
    Stall {
        /// The end that receives nothing; both, if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        toward: Option<End>,
        /// The duration; without it, the rest of the run.
        #[serde(default, with = "human::option", skip_serializing_if = "Option::is_none")]
        lasts: Option<Duration>,
    },
    /// No byte arrives any more, although the network accepts them, and neither end learns of it.
    /// A FIN or RST is lost, too.
    HalfOpen {
        /// The end that receives nothing; both, if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        toward: Option<End>,
    },
    /// Bytes take longer.
    Delay {
        /// The end that receives them later; both, if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        toward: Option<End>,
        /// The additional time.
        #[serde(with = "human")]
        by: Duration,
        /// The duration; without it, the rest of the run.
        #[serde(default, with = "human::option", skip_serializing_if = "Option::is_none")]
        lasts: Option<Duration>,
    },
    /// The FIN or RST that one end sends arrives late at the other. Bytes before it arrive on time.
    DelayClose {
        /// The end that learns late.
        toward: End,
        /// The additional time.
        #[serde(with = "human")]
        by: Duration,
    },
    /// New connections are refused. Open ones go on.
    Refuse {
        /// The duration; without it, the rest of the run.
        #[serde(default, with = "human::option", skip_serializing_if = "Option::is_none")]
        lasts: Option<Duration>,
    },
    /// New connections are accepted and closed at once. Open ones go on.
    AcceptThenClose {
        /// The duration; without it, the rest of the run.
        #[serde(default, with = "human::option", skip_serializing_if = "Option::is_none")]
        lasts: Option<Duration>,
    },
}

impl Fault {
    /// Returns its name in scripts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Note {} => "note",
            Self::Reset { .. } => "reset",
            Self::Close {} => "close",
            Self::Cut { .. } => "cut",
            Self::Stall { .. } => "stall",
            Self::HalfOpen { .. } => "half-open",
            Self::Delay { .. } => "delay",
            Self::DelayClose { .. } => "delay-close",
            Self::Refuse { .. } => "refuse",
            Self::AcceptThenClose { .. } => "accept-then-close",
        }
    }
}

/// When each end of a dead connection learns of its death, counted from the cut. An omitted end
/// learns at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnTimes {
    /// The client.
    #[serde(default)]
    pub client: Learns,
    /// The server.
    #[serde(default)]
    pub server: Learns,
}

/// When an end learns of the death of its connection: a duration, or `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// After this time.
    After(Duration),
    /// The network never reports the death.
    Never,
}

impl Default for Learns {
    fn default() -> Self {
        Self::After(Duration::ZERO)
    }
}

impl fmt::Display for Learns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(time) => humantime::format_duration(*time).fmt(f),
            Self::Never => f.write_str("never"),
        }
    }
}

impl Serialize for Learns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Learns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "never" {
            return Ok(Self::Never);
        }
        human::parse(&text).map(Self::After)
    }
}

/// Durations as text: `300ms`, `2s`.
mod human {
    use super::*;
    use serde::de::Error;

    pub fn parse<E: Error>(text: &str) -> Result<Duration, E> {
        humantime::parse_duration(text)
            .map_err(|error| E::custom(format!("`{text}` is no duration: {error}")))
    }

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*time))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        parse(&String::deserialize(deserializer)?)
    }

    pub mod option {
        use super::*;

        pub fn serialize<S: Serializer>(
            time: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match time {
                Some(time) => super::serialize(time, serializer),
                None => serializer.serialize_none(),
            }
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            super::deserialize(deserializer).map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_survives_a_round_trip() {
        let text = r#"
            [[rule]]
            conn = 2
            at = { message = { toward = "server", method = "initialize", nth = 3, place = "middle" } }
            fault = { cut = { learns = { client = "1s 500ms", server = "never" } } }
            [[rule]]
            times = 50
            at = { bytes = { toward = "client", count = 400000 } }
            fault = { reset = { toward = "server" } }
            [[rule]]
            at = { time = "3s" }
            fault = { stall = { lasts = "2s" } }
            [[rule]]
            at = { text = { toward = "client", text = "event: done" } }
            fault = { close = {} }
        "#;
        let script: Script = toml::from_str(text).unwrap();
        let cut = Fault::Cut {
            learns: LearnTimes {
                client: Learns::After(Duration::from_millis(1500)),
                server: Learns::Never,
            },
        };
        assert_eq!((script.rules.len(), &script.rules[0].fault), (4, &cut));
        let again: Script = toml::from_str(&toml::to_string(&script).unwrap()).unwrap();
        assert_eq!(again, script);
    }

    #[test]
    fn an_unknown_word_is_an_error() {
        for rule in [
            r#"at = { time = "1s" }, fault = { explode = {} }"#,
            r#"at = { time = "soon" }, fault = { reset = {} }"#,
            r#"at = { time = "1s" }, fault = { reset = { to = "client" } }"#,
            r#"at = { message = { toward = "moon" } }, fault = { reset = {} }"#,
            r#"at = { message = { toward = "client", methode = "x" } }, fault = { reset = {} }"#,
        ] {
            let script = toml::from_str::<Script>(&format!("rule = [{{ {rule} }}]"));
            assert!(script.is_err(), "{rule}: {script:?}");
        }
    }
}
