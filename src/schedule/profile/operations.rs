//! When and behind which other operations the operations of a profile are drawn.

use crate::schedule::Trigger;

/// The aims of a verb. They produce operations at moments, or in an order, that are rare otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationAim {
    /// The triggers at which, or shortly after which, half of the operations with this verb are
    /// requested, each equally often. The first operation of a client is never aimed.
    pub at: Vec<Trigger>,
    /// The verbs of the operations that follow half of the operations with this verb: in the same
    /// moment, or within a round trip.
    pub then: Vec<String>,
}
