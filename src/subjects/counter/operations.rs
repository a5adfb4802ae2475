//! The operations of a client's user, and the setup of the server's outside world, as plain data.

use std::time::Duration;

use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::history::Class;
use crate::schedule::Plan;
use crate::schedule::units::WrittenDuration;
use crate::subject::Operations;
use reknit_counter::Name;

/// The operations of a client's user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum CounterOperation {
    /// Watches a stream from its first number. A second watch of it on the same host is a separate
    /// stream: `s1.2`.
    #[serde(rename_all = "kebab-case")]
    Watch {
        /// The stream: an entry of `[stream.NAME]`.
        stream: StreamName,
    },
    /// Adds to a counter, at most once.
    #[serde(rename_all = "kebab-case")]
    Add {
        /// The counter.
        counter: StreamName,
        /// The amount to add.
        amount: u32,
    },
    /// Reads the sum of a counter.
    #[serde(rename_all = "kebab-case")]
    Peek {
        /// The counter.
        counter: StreamName,
    },
    /// Holds a lease on a counter.
    #[serde(rename_all = "kebab-case")]
    Lease {
        /// The counter.
        counter: StreamName,
        /// How long to hold it.
        lasts: WrittenDuration,
    },
    /// Closes the newest watch of a stream.
    #[serde(rename_all = "kebab-case")]
    Close {
        /// The stream.
        stream: StreamName,
    },
}

impl Operations for CounterOperation {
    fn class(&self) -> Class {
        match self {
            CounterOperation::Watch { .. }
            | CounterOperation::Add { .. }
            | CounterOperation::Close { .. } => Class::Durable,
            CounterOperation::Peek { .. } => Class::InFlight,
            CounterOperation::Lease { .. } => Class::Bound,
        }
    }

    fn strategy(plan: &Plan) -> BoxedStrategy<Self> {
        let mut streams: Vec<StreamName> = plan
            .entries("stream")
            .filter_map(|(name, _)| name.parse().ok().map(StreamName))
            .collect();
        if streams.is_empty() {
            streams.push(word("s1"));
        }
        let stream = select(streams).boxed();
        let counter = select(vec![word("c1"), word("c2")]).boxed();
        let lasts = select(vec![0, 100, 1_000, 5_000])
            .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
        let amount = prop_oneof![Just(1), 0..10_u32, any::<u32>()];
        prop_oneof![
            5 => stream.clone().prop_map(|stream| CounterOperation::Watch { stream }),
            4 => (counter.clone(), amount).prop_map(|(counter, amount)| CounterOperation::Add { counter, amount }),
            2 => counter.clone().prop_map(|counter| CounterOperation::Peek { counter }),
            2 => (counter, lasts).prop_map(|(counter, lasts)| CounterOperation::Lease { counter, lasts }),
            1 => stream.prop_map(|stream| CounterOperation::Close { stream }),
        ]
        .boxed()
    }
}

/// The setup of a stream in the outside world: an entry of `[stream.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(example = some(20, 50), example = some(40, 500), example = some(100, 5), example = some(3, 10_000))]
pub struct StreamSetup {
    /// How many numbers it has.
    pub numbers: u64,
    /// The time from the opening to the first number, and between two numbers.
    pub every: WrittenDuration,
    /// Whether it ends after its last number, or stays open.
    pub ends: bool,
}

impl Default for StreamSetup {
    fn default() -> Self {
        some(10, 1_000)
    }
}

fn some(numbers: u64, every_ms: u64) -> StreamSetup {
    StreamSetup { numbers, every: WrittenDuration(Duration::from_millis(every_ms)), ends: true }
}

/// A name, as sent on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct StreamName(pub Name);

fn word(text: &str) -> StreamName {
    StreamName(text.parse().expect("a plain word is a name"))
}

impl TryFrom<String> for StreamName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
            .map(StreamName)
            .map_err(|error: reknit_counter::wire::BadName| error.to_string())
    }
}

impl From<StreamName> for String {
    fn from(word: StreamName) -> Self {
        word.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_are_read_as_they_are_written_in_a_file() {
        for value in [
            json!({ "watch": { "stream": "s1" } }),
            json!({ "add": { "counter": "c1", "amount": 3 } }),
            json!({ "peek": { "counter": "c1" } }),
            json!({ "lease": { "counter": "c1", "lasts": "1500ms" } }),
            json!({ "close": { "stream": "s1" } }),
        ] {
            let operation: CounterOperation = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(serde_json::to_value(operation).unwrap(), value);
        }
    }

    #[test]
    fn an_error_suggests_a_correct_value() {
        let mistake =
            |value| serde_json::from_value::<CounterOperation>(value).unwrap_err().to_string();
        assert!(
            mistake(json!({ "watch": { "stream": "s 1" } })).starts_with("`s 1` is not a name")
        );
        assert!(
            mistake(json!({ "lease": { "counter": "c1", "lasts": "1us" } }))
                .contains("`1us` is not a duration")
        );
        assert!(
            mistake(json!({ "watch": { "stream": "s1", "speed": 1 } }))
                .contains("unknown field `speed`")
        );
    }
}
