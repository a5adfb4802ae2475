//! The operations of a client's user: [`Operations`].

use std::fmt;

use proptest::strategy::Strategy;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use proptest::strategy::BoxedStrategy;

use crate::history::Class;
use crate::schedule::Plan;

/// The trait of a subject's operation type.
///
/// The type is an enum with a variant for each operation. Every variant has braces, even if it has
/// no fields. The derives turn it into data: `#[serde(rename_all = "kebab-case")]` produces the
/// verbs of scenario files, as in `add = { counter = "c1" }`. In a scenario each operation has one
/// more field, `client`, which names the client whose user asks; the type does not contain it.
///
/// ```
/// use reknit::history::Class;
/// use reknit::schedule::Plan;
/// use reknit::subject::{BoxedStrategy, Operations, any_of};
///
/// #[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// #[serde(rename_all = "kebab-case", deny_unknown_fields)]
/// enum Operation {
///     /// Follows the log, across reconnects.
///     Follow {},
///     /// Asks for the length of the log, once.
///     Length {},
///     /// Locks a name, for as long as the connection lives.
///     Lock { name: String },
/// }
///
/// impl Operations for Operation {
///     fn class(&self) -> Class {
///         match self {
///             Operation::Follow {} => Class::Durable,
///             Operation::Length {} => Class::InFlight,
///             Operation::Lock { .. } => Class::Bound,
///         }
///     }
///
///     fn strategy(_: &Plan) -> BoxedStrategy<Self> {
///         any_of([Operation::Follow {}, Operation::Length {}, Operation::Lock { name: "a".into() }])
///     }
/// }
/// ```
///
/// The properties interpret five fields of an operation, if it has them. A duration is a text such
/// as `"5s"`, or a number of milliseconds; a size is a text such as `"64KiB"`.
///
/// | field | meaning |
/// |---|---|
/// | `wait` | the operation itself takes that long: the bound on its answer counts from the end of the wait |
/// | `patience` | the user gives the operation up after that long; the bound allows as much time as for `wait` |
/// | `pause` | the user pauses that long after each item of the stream that the operation opened |
/// | `reads` | instead of `pause`: a table with a duration `pause` and a size `every`; the user pauses after the item that completes so many bytes since the last pause |
/// | `looks-after` | the user waits that long before the first read of the stream that the operation opened |
pub trait Operations:
    Serialize + DeserializeOwned + JsonSchema + fmt::Debug + Clone + Send + 'static
{
    /// The guarantee that the protocol gives for this operation.
    ///
    /// | class | when the connection is lost | example |
    /// |---|---|---|
    /// | [`Durable`](Class::Durable) | the operation survives; it fails only if the faults made success impossible | to follow a log; to add to a counter under an id |
    /// | [`InFlight`](Class::InFlight) | the operation may fail, and may have taken effect | a request that the client does not repeat |
    /// | [`Bound`](Class::Bound) | the operation, or the stream that it opened, ends within a second | a lock that the connection holds |
    ///
    /// Choose the class that the protocol promises, not the one that it implements. If an operation
    /// is declared `InFlight` although its users rely on it, a bug that loses the operation is not
    /// found.
    fn class(&self) -> Class;

    /// The strategy that draws operations for random schedules. [`any_of`] is enough for a start.
    ///
    /// The plan contains the [tables](super::Subject::setup) of the profile:
    /// `plan.entries("stream")` yields the streams that the schedule declares. Draw from few names,
    /// so that operations share targets. Sometimes draw a name that does not exist.
    fn strategy(plan: &Plan) -> BoxedStrategy<Self>;

    /// Verbs, as a scenario file writes them, each with a strategy that draws only this verb.
    ///
    /// If a profile gives weights to verbs, the generator draws an operation from the strategy of its
    /// verb. If the list lacks the verb, the generator searches 64 draws of
    /// [`strategy`](Self::strategy), which takes more time, and then accepts another verb. A profile
    /// without weights uses only `strategy`.
    fn verb_strategies(_: &Plan) -> Vec<(&'static str, BoxedStrategy<Self>)> {
        Vec::new()
    }
}

/// A strategy that draws one of these operations, each with equal probability.
///
/// # Panics
/// If the list is empty: a subject without operations uses [`Nothing`](super::Nothing).
pub fn any_of<T: Clone + fmt::Debug + Send + Sync + 'static>(
    operations: impl Into<Vec<T>>,
) -> BoxedStrategy<T> {
    proptest::sample::select(operations.into()).boxed()
}
