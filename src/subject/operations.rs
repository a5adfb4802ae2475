//! What the user of a client can ask for: [`Operations`].

use std::fmt;

use proptest::strategy::Strategy;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use proptest::strategy::BoxedStrategy;

use crate::history::Class;
use crate::schedule::Plan;

/// What a subject's operation type must be able to do.
///
/// It is an enum with a variant for each operation, and every variant has braces, also where it has no fields. The derives make
/// data of it: `#[serde(rename_all = "kebab-case")]` gives the verbs of scenario files, as in `add = { counter = "c1" }`. A
/// scenario has one more field, `client`, which says on which client the user asks; the type does not have it.
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
/// Four fields have a meaning for the properties, where an operation has them. Each is a duration: a text such as `"5s"`, or a
/// number of milliseconds.
///
/// | field | what it says |
/// |---|---|
/// | `wait` | the operation takes that long by itself: a bound on its answer counts from its end |
/// | `patience` | the user gives the operation up after that long; it allows as much time as `wait` |
/// | `pause` | the user pauses that long after each item of the stream that the operation opened |
/// | `looks-after` | the user looks at what the operation opened only after that long |
pub trait Operations:
    Serialize + DeserializeOwned + JsonSchema + fmt::Debug + Clone + Send + 'static
{
    /// What the protocol promises of this operation.
    ///
    /// | class | when the connection is lost | example |
    /// |---|---|---|
    /// | [`Durable`](Class::Durable) | the operation survives; it fails only where the faults left no other way | to follow a log; to add to a counter under an id |
    /// | [`InFlight`](Class::InFlight) | the operation may fail, and may have taken effect | a request that the client does not repeat |
    /// | [`Bound`](Class::Bound) | the operation, or the stream that it opened, ends within a second | a lock that the connection holds |
    ///
    /// The choice is what the protocol promises, and not what it does: an operation that is called `InFlight` although its users
    /// rely on it hides the bug that loses it.
    fn class(&self) -> Class;

    /// How operations are drawn for random schedules. [`any_of`] is enough for a start.
    ///
    /// The plan has the [tables](super::Subject::setup) of the profile: `plan.entries("stream")` names the streams that the
    /// schedule declares. Draw few names, so that operations meet each other, and sometimes a name that does not exist.
    fn strategy(plan: &Plan) -> BoxedStrategy<Self>;
}

/// Draws one of these, each as often as any other.
///
/// # Panics
/// If there are none: the operations of a subject without any are [`Nothing`](super::Nothing).
pub fn any_of<T: Clone + fmt::Debug + Send + Sync + 'static>(
    operations: impl Into<Vec<T>>,
) -> BoxedStrategy<T> {
    proptest::sample::select(operations.into()).boxed()
}
