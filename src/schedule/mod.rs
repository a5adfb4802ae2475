//! The events of a run: steps, each an operation or a fault, at a time or after a trigger.
//!
//! - [`Plan`]: everything that determines a run, down to each packet.
//! - [`Step`], [`When`], [`Trigger`]: events and their times ([`trigger`]).
//! - [`Fault`]: the faults, each with its definition ([`faults`], [`fault`]) and its word in files
//!   ([`words`]).
//! - [`Conn`], [`Host`]: the names of connections and hosts in a schedule ([`names`]).
//! - [`Limits`]: sizes, windows, deadlines and budgets, by name ([`limits`]).
//! - [`puppet`]: the script of a raw peer. [`keyed`]: random draws, each with a key for its
//!   purpose. [`units`]: `25s`, `64KiB`. [`phrases`]: the same for readers.
//! - [`Repertoire`]: the interface between a subject and the generator ([`repertoire`]).
//! - [`Profile`]: weights and ranges from which plans are drawn ([`profile`]). [`draw`]: the
//!   generator.
//! - [`shrink`]: reduces a failing plan to the smallest plan that still fails.
//!
//! All of this is data: this module runs nothing, and every value can be written to a scenario file
//! and read back.

use std::collections::BTreeMap;
use std::time::Duration;

pub mod draw;
pub mod fault;
pub mod faults;
pub mod keyed;
pub mod limits;
pub mod names;
pub mod phrases;
pub mod profile;
pub mod puppet;
pub mod repertoire;
pub mod shrink;
pub mod trigger;
pub mod units;
pub mod words;

pub use fault::effect::Nature;
pub use fault::values::{
    HoldEnd, Learns, LinkPlace, Orphans, Pipe, Tampering, TrafficCount, Unsynced,
};
pub use faults::{Fault, FaultKind, SlowBy};
pub use limits::{Limit, LimitProfile, LimitValue, Limits};
pub use names::{Conn, Host, NameList, Named, Side, Which};
pub use profile::{Choice, Profile};
pub use puppet::{Puppet, PuppetStep, Speaks};
pub use repertoire::{MilestoneDoc, PointDoc, Repertoire};
pub use trigger::{MilestoneValue, Trigger, TriggerMark};

/// Everything that determines a run: subject, limits, schedule, seed, and a few other settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The name of the subject.
    pub subject: String,
    /// The number of client hosts: `client`, `client2`, `client3`, …
    pub clients: u32,
    /// The limits that differ from their defaults.
    pub limits: Limits,
    /// The defects that are on, by their names in files (`stale-close-detaches`).
    pub defects: Vec<String>,
    /// The setup of the outside world: the subject's own tables of a scenario file, as the subject
    /// declares them.
    pub setup: serde_json::Map<String, serde_json::Value>,
    /// Hosts that are played by a script.
    pub puppets: BTreeMap<Host, Puppet>,
    /// The steps, in the order in which they are written.
    pub steps: Vec<Step>,
    /// One-way latency of a packet, drawn from this range of whole milliseconds, both ends
    /// included.
    pub latency: (Duration, Duration),
    /// The order of a packet and a timer that are due in the same millisecond.
    pub order: TieOrder,
    /// The time at which the clients are closed and the remaining resources are counted.
    pub horizon: Duration,
    /// The length of the healed tail, the last part before the horizon. All faults end when it
    /// begins, and a step that would start a fault during it starts none. This holds even if a
    /// trigger fires late, so that outstanding items have time to arrive.
    pub heal: Duration,
    /// The seed of all random draws.
    pub seed: u64,
}

impl Plan {
    /// A plan without steps: one client, default limits, 1 to 20 ms of latency, a horizon of 60 s
    /// without a healed tail, seed 1.
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

    /// The names of the client hosts.
    pub fn client_hosts(&self) -> impl Iterator<Item = Host> {
        (1..=self.clients).map(Host::client)
    }

    /// Adds a step.
    pub fn step(mut self, when: When, action: Action) -> Self {
        self.steps.push(Step { when, action });
        self
    }

    /// Whether a puppet plays one of these hosts.
    pub fn has_puppet(&self, hosts: &[&str]) -> bool {
        self.puppets.keys().any(|puppet| hosts.contains(&puppet.as_str()))
    }

    /// Whether a fault may change messages on their way.
    pub fn has_tampering(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::Fault(Fault::Tamper(_))))
    }

    /// The entries of one of the subject's own tables, by name.
    pub fn entries(&self, table: &str) -> impl Iterator<Item = (&str, &serde_json::Value)> {
        let entries = self.setup.get(table).and_then(|entries| entries.as_object());
        entries.into_iter().flatten().map(|(name, entry)| (name.as_str(), entry))
    }

    /// Returns one entry, deserialized into the subject's type.
    ///
    /// # Panics
    /// If the entry does not have this type. The tables of a plan are checked against their schema
    /// before a run, so this is a bug.
    pub fn entry<T: serde::de::DeserializeOwned>(&self, table: &str, name: &str) -> Option<T> {
        let (_, entry) = self.entries(table).find(|(known, _)| *known == name)?;
        Some(serde_json::from_value(entry.clone()).expect("setup tables are checked before a run"))
    }
}

/// The order of packets and timers that are due in the same millisecond.
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

/// A step of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The time or trigger.
    pub when: When,
    /// The operation or fault.
    pub action: Action,
}

/// When a step happens.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// At this virtual time, counted from the start of the world, in whole milliseconds.
    At(Duration),
    /// When a milestone or point has been reached.
    After(Trigger),
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The user of a client requests an operation.
    Operation(Operation),
    /// The network, a host or a scheduler misbehaves.
    Fault(Fault),
}

/// An operation of a subject, as data: `watch = { client = "client", stream = "s1" }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The verb in kebab-case, as the subject defines it.
    pub verb: String,
    /// The host whose user requests it.
    pub client: Host,
    /// The other fields, as the subject's operation type serializes them.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

impl Operation {
    /// How long the operation itself may wait: the greater of its field `wait` and its field
    /// `patience`, after which the user gives it up. Both are written as a duration text or in
    /// milliseconds.
    pub fn wait(&self) -> Duration {
        self.request_wait().max(duration(&self.fields, "patience"))
    }

    /// How long the request of the operation may wait: its field `wait`. The user may give it up before.
    pub fn request_wait(&self) -> Duration {
        duration(&self.fields, "wait")
    }

    /// How long the user pauses while it reads the opened stream, and after how many bytes. A
    /// field `pause`, in the format of `wait`, means after each item. A field `reads` contains the
    /// field `pause`, and a size `every`: the user pauses after the item that completes so many
    /// bytes since the last pause.
    pub fn pauses(&self) -> Option<(Duration, u64)> {
        let each = (duration(&self.fields, "pause"), 0);
        let reads = self.fields.get("reads").and_then(serde_json::Value::as_object).map(|reads| {
            let every = reads.get("every").and_then(|every| every.as_str());
            let every = every.and_then(|every| units::read_size(every).ok());
            (duration(reads, "pause"), every.unwrap_or_default())
        });
        Some(reads.unwrap_or(each)).filter(|(pause, _)| !pause.is_zero())
    }

    /// How long the user waits before the first read of the opened stream: the field `looks-after`,
    /// in the format of `wait`.
    pub fn looks_after(&self) -> Duration {
        duration(&self.fields, "looks-after")
    }
}

/// Reads a duration: a text, or a number of milliseconds. Zero if the field is absent.
fn duration(fields: &serde_json::Map<String, serde_json::Value>, field: &str) -> Duration {
    match fields.get(field) {
        Some(serde_json::Value::String(text)) => {
            humantime::parse_duration(text).unwrap_or_default()
        }
        Some(value) => value.as_u64().map(Duration::from_millis).unwrap_or_default(),
        None => Duration::ZERO,
    }
}
