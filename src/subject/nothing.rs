//! The operation type of a subject without operations: [`Nothing`].

use proptest::strategy::{BoxedStrategy, Just, NewTree, Strategy};
use proptest::test_runner::TestRunner;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Operations;
use crate::history::Class;
use crate::schedule::Plan;

/// The operation type of a subject without operations (`type Operation = Nothing`): its client acts
/// on its own from the start. The scenario files of such a subject contain only faults, and so do
/// its random schedules.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Nothing {}

impl Operations for Nothing {
    fn class(&self) -> Class {
        match *self {}
    }

    fn strategy(_: &Plan) -> BoxedStrategy<Self> {
        Never.boxed()
    }
}

/// A strategy that draws no value and reports this at the first attempt.
#[derive(Debug)]
struct Never;

impl Strategy for Never {
    type Tree = Just<Nothing>;
    type Value = Nothing;

    fn new_tree(&self, _: &mut TestRunner) -> NewTree<Self> {
        Err("this subject has no operations".into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::property::Guarantees;
    use crate::scenario::{ScenarioFile, starter};
    use crate::schedule::{Action, Limits, Profile, draw};
    use crate::subject::{DynSubject, HostContext, OperationQueue, Subject};

    /// A subject whose client acts on its own.
    struct Clockwork;

    impl Subject for Clockwork {
        type Operation = Nothing;

        fn name(&self) -> &'static str {
            "clockwork"
        }

        fn description(&self) -> &'static str {
            "runs by itself"
        }

        async fn serve(&self, _: HostContext) {}

        async fn drive(&self, _: HostContext, _: OperationQueue<Nothing>) {}

        fn guarantees(&self, _: &Limits) -> Guarantees {
            Guarantees::default()
        }
    }

    #[test]
    fn random_schedules_of_a_subject_without_operations_contain_only_faults() {
        let clockwork: Arc<dyn DynSubject> = Arc::new(Clockwork);
        let profile = Profile::of_schemas(&*clockwork);
        let steps: Vec<_> =
            (1..=20).flat_map(|seed| draw::plan(&profile, &*clockwork, seed).steps).collect();
        assert!(!steps.is_empty());
        assert!(steps.iter().all(|step| matches!(step.action, Action::Fault(_))));
    }

    #[test]
    fn a_file_of_a_subject_without_operations_contains_only_faults() {
        let clockwork: Arc<dyn DynSubject> = Arc::new(Clockwork);
        let scenario =
            ScenarioFile::parse(&starter(&clockwork), "f.toml", std::slice::from_ref(&clockwork))
                .unwrap();
        let plans = scenario.plans();
        assert!(matches!(plans[0].steps[..], [ref cut] if matches!(cut.action, Action::Fault(_))));
    }
}
