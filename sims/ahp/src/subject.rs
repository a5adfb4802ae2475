//! The subject `ahp`: the agents and the host of `toolcall`, and windows built on the crate `ahp`.
//!
//! The limits, agents, tools and host defects are those of `toolcall`. So are the properties,
//! except those about features that this client does not have: retransmitting lost actions, holding
//! requests without a connection, and sending tokens again.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use proptest::strategy::{BoxedStrategy, Just, Strategy};
use reknit::history::{Class, Side};
use reknit::property::{CheckContext, Guarantees, Property, Violation};
use reknit::schedule::{Limit, LimitValue, Limits, Plan};
use reknit::subject::tables::{limit, milestone, only};
use reknit::subject::{
    DefectDoc, Dissector, HostContext, MilestoneDoc, OperationQueue, Operations, Subject,
};
use reknit::subjects::Toolcall;

use crate::window::Window;

/// Whether a window trusts its client instead of working around its gaps; see
/// [`window`](crate::window). It is a count, so that random schedules never set it: with it, some
/// properties are known to fail.
pub const TRUST: &str = "window.trust";

/// An operation of a window's user.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Operation {
    /// Starts a new turn in its chat. The agent follows the script `[turn.NAME]`.
    StartTurn {
        /// The entry.
        turn: String,
    },
    /// Changes the title of the session to the client and the number of the call: `client 7`.
    Rename {},
}

impl Operations for Operation {
    fn class(&self) -> Class {
        Class::InFlight
    }

    fn strategy(plan: &Plan) -> BoxedStrategy<Self> {
        let mut turns: Vec<String> =
            plan.entries("turn").map(|(name, _)| name.to_owned()).collect();
        turns.push("t1".to_owned());
        let turn = proptest::sample::select(turns).prop_map(|turn| Self::StartTurn { turn });
        proptest::prop_oneof![turn, Just(Self::Rename {})].boxed()
    }
}

/// The milestones of a window about its client.
const WINDOW: [MilestoneDoc; 3] = [
    milestone(
        "toolcall.client.opened",
        &["generation", "conn"],
        "the client opened a connection and started the handshake",
    ),
    milestone(
        "toolcall.client.connected",
        &["generation"],
        "their client says that it is connected",
    ),
    milestone("toolcall.client.lost", &[], "their client says that it is not connected any more"),
];

static MILESTONES: LazyLock<Vec<MilestoneDoc>> = LazyLock::new(|| {
    let host =
        Toolcall.milestones().iter().filter(|known| known.name.starts_with("toolcall.host."));
    host.map(|known| only("the suite of toolcall", *known)).chain(WINDOW).collect()
});

static LIMITS: LazyLock<Vec<Limit>> = LazyLock::new(|| {
    let trust = limit(
        TRUST,
        LimitValue::Count(0),
        LimitValue::Count(0),
        "0: a window pings, and subscribes to every channel again after a reconnect; otherwise it relies on the crate",
    );
    Toolcall.limits().iter().copied().chain([trust]).collect()
});

/// The properties of `toolcall` that also hold for this client.
const PROPERTIES: [&str; 9] = [
    "no_live_client_failed",
    "gone_is_failed",
    "returning_keeps",
    "one_outcome",
    "no_work_for_what_is_over",
    "replicas_converge",
    "waits_have_causes",
    "holds_are_exact",
    "client_comes_back",
];

static OWN: LazyLock<Vec<Property>> = LazyLock::new(|| {
    let all: BTreeMap<_, _> =
        Toolcall.properties().iter().map(|property| (property.name, *property)).collect();
    PROPERTIES.iter().map(|name| *all.get(name).expect("toolcall has it")).collect()
});

/// The client of the crate `ahp`, and our host.
#[derive(Clone, Copy, Debug, Default)]
pub struct AhpSubject;

impl Subject for AhpSubject {
    type Operation = Operation;

    fn name(&self) -> &'static str {
        "ahp"
    }

    fn description(&self) -> &'static str {
        "the client of the crate ahp against our agent host"
    }

    fn limits(&self) -> &'static [Limit] {
        &LIMITS
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        &MILESTONES
    }

    fn defects(&self) -> &'static [DefectDoc] {
        Toolcall.defects()
    }

    fn generation_milestone(&self) -> Option<&'static str> {
        Some("toolcall.client.opened")
    }

    fn catch_up_milestone(&self) -> Option<&'static str> {
        Some("toolcall.client.connected")
    }

    fn swarm(&self) -> Option<&'static str> {
        Some(include_str!("../scenarios/ahp/swarm-default.toml"))
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        Toolcall.setup()
    }

    async fn serve(&self, host: HostContext) {
        Toolcall.serve(host).await;
    }

    async fn drive(&self, host: HostContext, operations: OperationQueue<Operation>) {
        Window::open(host).await.run(operations).await;
    }

    fn guarantees(&self, limits: &Limits) -> Guarantees {
        let ours = Toolcall.guarantees(limits);
        // Connecting; then `reconnect`, `initialize` and `listSessions`, each with its own
        // deadline; then the window's own requests.
        let attempt = limits.duration("client.connect-timeout")
            + limits.duration("client.handshake-timeout") * 4;
        let recovery = limits.duration("client.back-off-max") + attempt;
        Guarantees {
            attempt,
            recovery,
            back_off: recovery,
            call_wait: Duration::from_secs(60),
            ..ours
        }
    }

    fn properties(&self) -> &'static [Property] {
        &OWN
    }

    /// Toolcall evaluates a run once for all of its properties.
    fn violations(&self, cx: &CheckContext<'_>) -> Vec<Violation> {
        let mut broken = Toolcall.violations(cx);
        broken.retain(|broken| PROPERTIES.contains(&broken.property));
        broken
    }

    fn dissector(&self, from: Side) -> Box<dyn Dissector> {
        Toolcall.dissector(from)
    }
}
