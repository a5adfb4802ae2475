//! The interface between a subject and a generator of plans: the subject's tables and operations.

use proptest::strategy::BoxedStrategy;

use super::{Limit, Operation, Plan};

/// A milestone of a subject.
#[derive(Clone, Copy, Debug)]
pub struct MilestoneDoc {
    /// The name: `counter.client.connected`.
    pub name: &'static str,
    /// The names of its fields.
    pub fields: &'static [&'static str],
    /// A description of when it is reached.
    pub doc: &'static str,
    /// The defect (by its name in files) or puppet without which it cannot be reached. All other
    /// milestones must be reached by a subject without defects.
    pub only: Option<&'static str>,
}

/// A point of a subject.
#[derive(Clone, Copy, Debug)]
pub struct PointDoc {
    /// The name: `counter.server.detach.unlocked`.
    pub name: &'static str,
    /// A description of its position in the code.
    pub doc: &'static str,
    /// The defect (by its name in files) whose branch contains the point; `None` for a point of the
    /// correct code.
    pub defect: Option<&'static str>,
}

/// The part of a subject that the generator and the shrinker use. It is implemented for every
/// `Subject`; the methods are documented there.
#[allow(missing_docs)]
pub trait Repertoire: Send + Sync + 'static {
    fn name(&self) -> &'static str;
    fn limits(&self) -> &'static [Limit];
    fn milestones(&self) -> &'static [MilestoneDoc];
    fn points(&self) -> &'static [PointDoc];
    fn generation_milestone(&self) -> Option<&'static str>;
    fn catch_up_milestone(&self) -> Option<&'static str>;
    fn servers(&self) -> &'static [&'static str];
    fn setup(&self) -> Vec<(&'static str, schemars::Schema)>;
    /// Whether its hosts launch programs (`Subject::programs`).
    fn launches_programs(&self) -> bool;
    /// Whether the operation is one of the subject's, with valid fields.
    fn accepts(&self, operation: &Operation) -> bool;
    /// A strategy that draws operations (without `client`) for random schedules.
    fn strategy(&self, plan: &Plan) -> BoxedStrategy<Operation>;
    /// Verbs, each with the strategy that draws it. The list may lack verbs.
    fn verb_strategies(&self, plan: &Plan) -> Vec<(&'static str, BoxedStrategy<Operation>)>;
}
