//! A trait object for subjects, for use in the world, the command line and the suite.

use std::sync::Arc;

use proptest::strategy::{BoxedStrategy, Strategy};

use crate::history::{Call, Class, Side};
use crate::property::{CheckContext, Guarantees, Property, Violation};
use crate::schedule::{
    Host, Limit, LimitProfile, Limits, MilestoneDoc, Operation, Plan, PointDoc, Repertoire,
    Tampering,
};

use super::{
    DefectDoc, Dissector, HostContext, OperationQueue, Operations, Program, Root, Rule, Subject,
    VariantDoc,
};

/// A [`Subject`] with its operation type erased. It is implemented for every subject; the methods
/// are documented at [`Subject`].
#[allow(missing_docs)]
pub trait DynSubject: Repertoire {
    fn description(&self) -> &'static str;
    fn limit_profiles(&self) -> &'static [LimitProfile];
    fn accepts_late_requests(&self) -> bool;
    fn defects(&self) -> &'static [DefectDoc];
    fn variants(&self) -> &'static [VariantDoc];
    fn rules(&self) -> &'static [Rule];
    fn swarm(&self) -> Option<&'static str>;
    fn port(&self) -> u16;
    fn programs(&self) -> &'static [Program];
    fn guarantees(&self, limits: &Limits) -> Guarantees;
    fn properties(&self) -> &'static [Property];
    fn violations(&self, cx: &CheckContext<'_>) -> Vec<Violation>;
    fn dissector(&self, from: Side) -> Box<dyn Dissector>;
    fn tampered_messages(&self, from: Side) -> Box<dyn Dissector>;
    fn tamper(&self, from: Side, how: Tampering, message: &[u8]) -> Option<Vec<u8>>;
    /// Returns the root of a server.
    fn serve(self: Arc<Self>, host: HostContext) -> Root;
    /// Returns the root of a client. The operations must have been [checked](DynSubject::check).
    fn drive(
        self: Arc<Self>,
        host: HostContext,
        operations: tokio::sync::mpsc::UnboundedReceiver<(Call, Operation)>,
    ) -> Root;
    /// The JSON schema of the operation type, with one property per verb.
    fn operations(&self) -> schemars::Schema;
    /// Checks that the operation is one of the subject's, with valid fields, and returns the class
    /// of its guarantee.
    fn check(&self, operation: &Operation) -> Result<Class, OperationError>;
}

/// The reason why an operation is not one of the subject's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OperationError {
    /// The position of the error in the operation: the names of fields, from the verb down.
    pub path: Vec<String>,
    /// The mistake, and the correct form.
    pub message: String,
}

fn value(operation: &Operation) -> serde_json::Value {
    serde_json::json!({ operation.verb.as_str(): operation.fields })
}

/// Converts an operation to the subject's operation type.
///
/// # Errors
/// If it is not one of the subject's operations.
pub(crate) fn read<O: Operations>(operation: &Operation) -> Result<O, OperationError> {
    serde_path_to_error::deserialize(value(operation)).map_err(|error| OperationError {
        path: error.path().iter().map(ToString::to_string).collect(),
        message: error.into_inner().to_string(),
    })
}

impl<S: Subject> Repertoire for S {
    fn name(&self) -> &'static str {
        Subject::name(self)
    }

    fn limits(&self) -> &'static [Limit] {
        Subject::limits(self)
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        Subject::milestones(self)
    }

    fn points(&self) -> &'static [PointDoc] {
        Subject::points(self)
    }

    fn generation_milestone(&self) -> Option<&'static str> {
        Subject::generation_milestone(self)
    }

    fn catch_up_milestone(&self) -> Option<&'static str> {
        Subject::catch_up_milestone(self)
    }

    fn servers(&self) -> &'static [&'static str] {
        Subject::servers(self)
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        Subject::setup(self)
    }

    fn launches_programs(&self) -> bool {
        !Subject::programs(self).is_empty()
    }

    fn accepts(&self, operation: &Operation) -> bool {
        read::<S::Operation>(operation).is_ok()
    }

    fn strategy(&self, plan: &Plan) -> BoxedStrategy<Operation> {
        written(S::Operation::strategy(plan))
    }

    fn verb_strategies(&self, plan: &Plan) -> Vec<(&'static str, BoxedStrategy<Operation>)> {
        let of_verbs = S::Operation::verb_strategies(plan).into_iter();
        of_verbs.map(|(verb, strategy)| (verb, written(strategy))).collect()
    }
}

/// Converts the operations of a strategy to the form in which a plan has them.
fn written<O: Operations>(strategy: BoxedStrategy<O>) -> BoxedStrategy<Operation> {
    let client = Host::client(1);
    let write = move |operation| {
        let value = serde_json::to_value(&operation).expect("an operation is plain data");
        let serde_json::Value::Object(map) = value else {
            panic!("an operation is an enum of struct variants")
        };
        let (verb, fields) = map.into_iter().next().expect("an operation has a verb");
        let serde_json::Value::Object(fields) = fields else {
            panic!("an operation is an enum of struct variants")
        };
        Operation { verb, client: client.clone(), fields }
    };
    strategy.prop_map(write).boxed()
}

impl<S: Subject> DynSubject for S {
    fn description(&self) -> &'static str {
        Subject::description(self)
    }

    fn limit_profiles(&self) -> &'static [LimitProfile] {
        Subject::limit_profiles(self)
    }

    fn accepts_late_requests(&self) -> bool {
        Subject::accepts_late_requests(self)
    }

    fn defects(&self) -> &'static [DefectDoc] {
        Subject::defects(self)
    }

    fn variants(&self) -> &'static [VariantDoc] {
        Subject::variants(self)
    }

    fn rules(&self) -> &'static [Rule] {
        Subject::rules(self)
    }

    fn swarm(&self) -> Option<&'static str> {
        Subject::swarm(self)
    }

    fn port(&self) -> u16 {
        Subject::port(self)
    }

    fn programs(&self) -> &'static [Program] {
        Subject::programs(self)
    }

    fn guarantees(&self, limits: &Limits) -> Guarantees {
        Subject::guarantees(self, limits)
    }

    fn properties(&self) -> &'static [Property] {
        Subject::properties(self)
    }

    fn violations(&self, cx: &CheckContext<'_>) -> Vec<Violation> {
        Subject::violations(self, cx)
    }

    fn dissector(&self, from: Side) -> Box<dyn Dissector> {
        Subject::dissector(self, from)
    }

    fn tampered_messages(&self, from: Side) -> Box<dyn Dissector> {
        Subject::tampered_messages(self, from)
    }

    fn tamper(&self, from: Side, how: Tampering, message: &[u8]) -> Option<Vec<u8>> {
        Subject::tamper(self, from, how, message)
    }

    fn serve(self: Arc<Self>, host: HostContext) -> Root {
        Box::pin(async move { Subject::serve(&*self, host).await })
    }

    fn drive(
        self: Arc<Self>,
        host: HostContext,
        next: tokio::sync::mpsc::UnboundedReceiver<(Call, Operation)>,
    ) -> Root {
        let read = |operation: &Operation| {
            read::<S::Operation>(operation).expect("operations are checked before a run")
        };
        Box::pin(async move { Subject::drive(&*self, host, OperationQueue { next, read }).await })
    }

    fn operations(&self) -> schemars::Schema {
        schemars::schema_for!(S::Operation)
    }

    fn check(&self, operation: &Operation) -> Result<Class, OperationError> {
        read::<S::Operation>(operation).map(|operation| operation.class())
    }
}
