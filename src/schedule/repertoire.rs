//! What a subject offers to a generator of plans: its tables, and its operations.

use proptest::strategy::BoxedStrategy;

use super::{Limit, Operation, Plan};

/// A milestone of a subject.
#[derive(Clone, Copy, Debug)]
pub struct MilestoneDoc {
    /// Its name: `counter.client.connected`.
    pub name: &'static str,
    /// The names of its fields.
    pub fields: &'static [&'static str],
    /// When it is reached.
    pub doc: &'static str,
    /// Whether only a defect (of this name in files) or a puppet can reach it; all others must be reached by a good subject.
    pub only: Option<&'static str>,
}

/// A point of a subject.
#[derive(Clone, Copy, Debug)]
pub struct PointDoc {
    /// Its name: `counter.server.detach.unlocked`.
    pub name: &'static str,
    /// Where it stands.
    pub doc: &'static str,
    /// The defect (its name in files) on whose branch alone it stands; a point of the product where there is none.
    pub defect: Option<&'static str>,
}

/// What the generator and the shrinker read of a subject. Implemented for every
/// `Subject`; the methods mean what its methods of the same names mean.
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
    /// Whether the operation is one of the subject's, with fields that it can read.
    fn accepts(&self, operation: &Operation) -> bool;
    /// Draws operations (without `client`) for random schedules.
    fn strategy(&self, plan: &Plan) -> BoxedStrategy<Operation>;
}
