//! What happens in a world: steps, each an operation or a fault, at a time or after a trigger.
//!
//! - [`Plan`]: all that determines a run, to the packet.
//! - [`Step`], [`When`], [`Trigger`]: when something is to happen ([`trigger`]).
//! - [`Fault`]: the words of the fault table ([`fault`], [`words`]).
//! - [`Conn`], [`Host`]: how a schedule names connections and hosts ([`names`]).
//! - [`Limits`]: sizes, windows, deadlines and budgets, by name ([`limits`]).
//! - [`puppet`]: the script of a raw peer. [`keyed`]: draws that depend on what they are for. [`units`]: `25s`, `64KiB`.
//! - [`Repertoire`]: what a subject offers to the generator ([`repertoire`]).
//! - [`Profile`]: weights and ranges from which plans are drawn ([`profile`]). [`draw`]: the generator.
//! - [`shrink`]: from a plan that fails to the smallest one that still does.
//!
//! All of it is data: nothing here runs anything, and every value can be written to a scenario file and read again.

use std::collections::BTreeMap;
use std::time::Duration;

pub mod draw;
pub mod fault;
pub mod keyed;
pub mod limits;
pub mod names;
pub mod profile;
pub mod puppet;
pub mod repertoire;
pub mod shrink;
pub mod trigger;
pub mod units;
pub mod words;

pub use fault::{Fault, HoldEnd, Learns, LinkPlace, Orphans, SlowBy, TrafficCount};
pub use limits::{Limit, LimitValue, Limits};
pub use names::{Conn, Host, Side, Which};
pub use profile::{Choice, Profile};
pub use puppet::{Puppet, PuppetStep, Speaks};
pub use repertoire::{MilestoneDoc, PointDoc, Repertoire};
pub use trigger::{MilestoneValue, Trigger, TriggerMark};

/// All that determines a run: subject + limits + schedule + seed, and the few choices that go with them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The subject's name.
    pub subject: String,
    /// How many client hosts there are: `client`, `client2`, `client3`, …
    pub clients: u32,
    /// The limits that differ from their defaults.
    pub limits: Limits,
    /// The defects that are on, by their names in files (`stale-close-detaches`).
    pub defects: Vec<String>,
    /// What the world outside the subject does: the subject's own tables of a scenario file, as it declares them.
    pub setup: serde_json::Map<String, serde_json::Value>,
    /// Hosts whose role is played by a script.
    pub puppets: BTreeMap<Host, Puppet>,
    /// What happens, in order of writing.
    pub steps: Vec<Step>,
    /// One-way latency of a packet: drawn from this range of whole milliseconds, both ends included.
    pub latency: (Duration, Duration),
    /// What comes first where a packet and a timer fall into the same millisecond.
    pub order: TieOrder,
    /// When the clients are closed, and what is left is counted.
    pub horizon: Duration,
    /// The healed tail, the last part before the horizon: what is in force when it begins is over then, and a step that would
    /// bring a fault in it brings none. A trigger may be late, and what is owed must arrive all the same.
    pub heal: Duration,
    /// Where all draws come from.
    pub seed: u64,
}

impl Plan {
    /// A plan in which nothing happens: one client, default limits, 1 to 20 ms of latency, a horizon of 60 s without a healed
    /// tail, seed 1.
    pub fn new(subject: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            clients: 1,
            limits: Limits::default(),
            defects: Vec::new(),
            setup: serde_json::Map::new(),
            puppets: BTreeMap::new(),
            steps: Vec::new(),
            latency: (Duration::from_millis(1), Duration::from_millis(20)),
            order: TieOrder::Drawn,
            horizon: Duration::from_secs(60),
            heal: Duration::ZERO,
            seed: 1,
        }
    }

    /// The names of its client hosts.
    pub fn client_hosts(&self) -> impl Iterator<Item = Host> {
        (1..=self.clients).map(Host::client)
    }

    /// The same plan with one more step.
    pub fn step(mut self, when: When, action: Action) -> Self {
        self.steps.push(Step { when, action });
        self
    }

    /// Whether a puppet plays one of these hosts.
    pub fn has_puppet(&self, hosts: &[&str]) -> bool {
        self.puppets.keys().any(|puppet| hosts.contains(&puppet.as_str()))
    }

    /// The entries of one of the subject's own tables, by name.
    pub fn entries(&self, table: &str) -> impl Iterator<Item = (&str, &serde_json::Value)> {
        let entries = self.setup.get(table).and_then(|entries| entries.as_object());
        entries.into_iter().flatten().map(|(name, entry)| (name.as_str(), entry))
    }

    /// One of these, as the subject's type for it.
    ///
    /// # Panics
    /// If it is none: the tables of a plan are checked against their schema before a run.
    pub fn entry<T: serde::de::DeserializeOwned>(&self, table: &str, name: &str) -> Option<T> {
        let (_, entry) = self.entries(table).find(|(known, _)| *known == name)?;
        Some(serde_json::from_value(entry.clone()).expect("setup tables are checked before a run"))
    }
}

/// The order of packets and timers that fall into the same millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieOrder {
    /// Drawn for each millisecond.
    #[default]
    Drawn,
    /// Packets before timers.
    PacketsFirst,
    /// Timers before packets.
    TimersFirst,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When.
    pub when: When,
    /// What.
    pub action: Action,
}

/// When a step happens.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// At this virtual time, counted from the start of the world, in whole milliseconds.
    At(Duration),
    /// After something was reached.
    After(Trigger),
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The user of a client asks for something.
    Operation(Operation),
    /// The network, a host or a scheduler misbehaves.
    Fault(Fault),
}

/// An operation of a subject, as data: `watch = { client = "client", stream = "s1" }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Its verb, in kebab-case, as the subject names it.
    pub verb: String,
    /// The host on which the user asks for it.
    pub client: Host,
    /// Its other fields, as the subject's operation type serializes them.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

impl Operation {
    /// How long it may wait by its own: its field `wait`, or the `patience` after which its user gives it up; as a person writes a
    /// duration, or in milliseconds.
    pub fn wait(&self) -> Duration {
        self.duration("wait").max(self.duration("patience"))
    }

    /// How long its user pauses after each item of what it opens: its field `pause`, written as a wait is.
    pub fn pause(&self) -> Duration {
        self.duration("pause")
    }

    /// How long its user does something else before it looks at what it opened: its field `looks-after`, written as a wait is.
    pub fn looks_after(&self) -> Duration {
        self.duration("looks-after")
    }

    fn duration(&self, field: &str) -> Duration {
        match self.fields.get(field) {
            Some(serde_json::Value::String(text)) => {
                humantime::parse_duration(text).unwrap_or_default()
            }
            Some(value) => value.as_u64().map(Duration::from_millis).unwrap_or_default(),
            None => Duration::ZERO,
        }
    }
}
