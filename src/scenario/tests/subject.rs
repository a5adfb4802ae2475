//! A subject that is never run. It only has names for use in files.

use std::sync::Arc;

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::history::Class;
use crate::property::{CheckContext, Guarantees, Property};
use crate::schedule::{Limit, LimitProfile, LimitValue, Limits, Plan};
use crate::subject::{
    DefectDoc, DynSubject, HostContext, MilestoneDoc, OperationQueue, Operations, PointDoc, Rule,
    Subject,
};

/// A test subject that carries the output of processes.
pub struct Ferry;

pub fn ferry() -> Arc<dyn DynSubject> {
    Arc::new(Ferry)
}

/// The operations of its user.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// Starts a process.
    Start {
        /// A process of the setup.
        process: String,
    },
    /// Writes to a process's input.
    Write {
        process: String,
        text: String,
        /// The number of writes.
        #[serde(default)]
        times: Option<u8>,
        #[serde(default)]
        how: How,
    },
    /// Drops every handle.
    DropHandle {},
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    #[default]
    Once,
    TilItSticks,
}

/// One entry of `[process.NAME]`.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[allow(dead_code)] // only its schema is used
struct Process {
    /// The output.
    print: Option<Print>,
    /// The exit code.
    exit: i32,
    /// Whether a grandchild keeps the pipe open.
    #[serde(default)]
    late_output: bool,
    #[serde(default)]
    words: Vec<String>,
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Print {
    /// The number of lines.
    lines: u64,
    /// The interval between lines.
    #[schemars(extend("format" = "duration"))]
    every: String,
}

impl Operations for Ask {
    fn class(&self) -> Class {
        Class::Durable
    }

    fn strategy(plan: &Plan) -> BoxedStrategy<Self> {
        let processes = plan.setup.get("process").and_then(|entries| entries.as_object());
        let names: Vec<String> =
            processes.map(|entries| entries.keys().cloned().collect()).unwrap_or_default();
        if names.is_empty() {
            return Just(Ask::DropHandle {}).boxed();
        }
        let process = proptest::sample::select(names);
        let times = proptest::option::of(1..9u8);
        prop_oneof![
            process.clone().prop_map(|process| Ask::Start { process }),
            (process, "\\PC{0,8}", times).prop_map(|(process, text, times)| Ask::Write {
                process,
                text,
                times,
                how: How::Once
            }),
        ]
        .boxed()
    }
}

impl Subject for Ferry {
    type Operation = Ask;

    fn name(&self) -> &'static str {
        "ferry"
    }

    fn description(&self) -> &'static str {
        "carries the output of processes over a river"
    }

    fn limits(&self) -> &'static [Limit] {
        const LIMITS: &[Limit] = &[
            Limit {
                name: "client.recovery-deadline",
                default: LimitValue::secs(25),
                least: LimitValue::millis(1),
                doc: "How long it tries to recover. The least: not at all.",
            },
            Limit {
                name: "server.retained-bytes",
                default: LimitValue::Bytes(1 << 20),
                least: LimitValue::Bytes(1),
                doc: "What is kept.",
            },
            Limit {
                name: "client.event-queue",
                default: LimitValue::Count(128),
                least: LimitValue::Count(1),
                doc: "How many events wait.",
            },
            Limit {
                name: "client.retry-writes",
                default: LimitValue::Flag(false),
                least: LimitValue::Flag(false),
                doc: "Whether writes are tried again.",
            },
        ];
        LIMITS
    }

    fn limit_profiles(&self) -> &'static [LimitProfile] {
        const PROFILES: &[LimitProfile] = &[LimitProfile {
            name: "seed",
            doc: "The first version.",
            values: &[
                ("client.recovery-deadline", LimitValue::secs(9)),
                ("client.event-queue", LimitValue::Count(16)),
            ],
        }];
        PROFILES
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        &[
            MilestoneDoc {
                name: "ferry.client.connected",
                fields: &["generation", "conn"],
                doc: "",
                only: None,
            },
            MilestoneDoc { name: "ferry.client.recovering", fields: &[], doc: "", only: None },
            MilestoneDoc {
                name: "ferry.server.refused-still-attached",
                fields: &["session", "reason"],
                doc: "",
                only: None,
            },
        ]
    }

    fn points(&self) -> &'static [PointDoc] {
        &[PointDoc { name: "ferry.server.detach.unlocked", doc: "", defect: None }]
    }

    fn defects(&self) -> &'static [DefectDoc] {
        const DEFECTS: &[DefectDoc] = &[
            DefectDoc {
                rust: "SenderClearedAfterUnlock",
                name: "sender-cleared-after-unlock",
                doc: "",
                breaks: &["ferry_whole"],
                source: "",
            },
            DefectDoc {
                rust: "StaleCloseDetaches",
                name: "stale-close-detaches",
                doc: "",
                breaks: &["ferry_whole"],
                source: "",
            },
        ];
        DEFECTS
    }

    fn rules(&self) -> &'static [Rule] {
        &[
            Rule { id: "ferry.detach-own-only", doc: "", source: "" },
            Rule { id: "ferry.still-attached-is-retried", doc: "", source: "" },
        ]
    }

    fn generation_milestone(&self) -> Option<&'static str> {
        Some("ferry.client.connected")
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        vec![("process", schemars::schema_for!(Process))]
    }

    async fn serve(&self, _: HostContext) {}

    async fn drive(&self, _: HostContext, _: OperationQueue<Ask>) {}

    fn properties(&self) -> &'static [Property] {
        const OWN: &[Property] = &[Property {
            name: "ferry_whole",
            doc: "Nothing falls into the river.",
            kinds: &[],
            check: whole,
        }];
        OWN
    }

    fn guarantees(&self, _: &Limits) -> Guarantees {
        Guarantees::default()
    }
}

fn whole(_: &CheckContext<'_>) -> Vec<crate::property::Violation> {
    Vec::new()
}
