//! The trait that a protocol under test implements: [`Subject`].
//!
//! A subject defines the code that its hosts run, the operations of its client's user, and the
//! guarantees of the protocol. Its tables (limits, milestones, points, defects, rules) are data.
//! The command line, the docs and the checks read them.
//!
//! The driver of a client's user records its observations in the history with a [`Recorder`]; so
//! does the simulated outside world of a server. Neither records claims that the protocol makes
//! about itself.

use std::future::Future;
use std::sync::Arc;

use crate::env::Env;
use crate::history::{Call, Side};
use crate::net::BoxFuture;
use crate::property::{CheckContext, Guarantees, Property, Violation};
use crate::schedule::{Host, Limit, LimitProfile, Limits, Operation, Plan, Tampering};

pub mod disk;
pub mod dissect;
pub mod dyn_subject;
pub mod nothing;
pub mod operations;
pub mod program;
pub mod recorder;
mod recording;
pub mod tables;

pub use crate::schedule::{MilestoneDoc, PointDoc};
pub use disk::Disk;
#[cfg(feature = "websocket")]
pub use dissect::WebSocket;
pub use dissect::{Dissector, Label, LengthFormat, LengthPrefixed, LineMessages, Message};
pub use dyn_subject::DynSubject;
pub use nothing::Nothing;
pub use operations::{BoxedStrategy, Operations, any_of};
pub use program::{Program, ProgramCode, ProgramContext, Signals};
pub use recorder::{Gauge, Gauges, Journal, Recorder, ResourceCounter};
pub(crate) use recording::mistake;

/// A protocol under test.
///
/// Each protocol implements it once. All worlds share one value of the type, so the value holds no
/// state of a run.
#[doc = include_str!("subject/recording.md")]
pub trait Subject: Send + Sync + 'static {
    /// The operations of a client's user: an enum with a variant for each operation. See
    /// [`Operations`] for an example. Use [`Nothing`] if there are no operations.
    type Operation: Operations;

    /// The name of the subject: `counter`.
    fn name(&self) -> &'static str;

    /// A description in one line.
    fn description(&self) -> &'static str;

    /// All sizes, windows, deadlines and budgets of the subject.
    fn limits(&self) -> &'static [Limit] {
        &[]
    }

    /// Named sets of values for its limits: `profile = "NAME"` in a scenario file.
    fn limit_profiles(&self) -> &'static [LimitProfile] {
        &[]
    }

    /// The milestones of its product code.
    fn milestones(&self) -> &'static [MilestoneDoc] {
        &[]
    }

    /// The points of its product code.
    fn points(&self) -> &'static [PointDoc] {
        &[]
    }

    /// The historical bugs that can be turned on.
    fn defects(&self) -> &'static [DefectDoc] {
        &[]
    }

    /// Real or hypothetical past versions of the subject, each a set of its defects: `--set
    /// variant=NAME`.
    fn variants(&self) -> &'static [VariantDoc] {
        &[]
    }

    /// The ledger: every rule that the subject keeps.
    fn rules(&self) -> &'static [Rule] {
        &[]
    }

    /// The milestone that is reached when a client installs a new generation. It has the fields
    /// `generation` and `conn`. If one host runs several clients, one after the other, a field
    /// `client` identifies the client, and each client counts its own generations.
    fn generation_milestone(&self) -> Option<&'static str> {
        None
    }

    /// Whether a server rightly carries out a request that arrives over an older connection after its
    /// client installed a newer one. The control run of `stale_generation_inert` then delivers all data
    /// of the client, because it has an effect by the rules of the protocol. It drops the end of the
    /// connection and what the server sends.
    fn accepts_late_requests(&self) -> bool {
        false
    }

    /// The milestone, with a field `conn`, that is reached when the handshake on a client's
    /// connection is complete. From then until the generation is installed, the client catches up
    /// with the items that it missed.
    fn catch_up_milestone(&self) -> Option<&'static str> {
        None
    }

    /// The default swarm file for random schedules. Without one, the default profile is built from
    /// the subject's tables and schemas.
    fn swarm(&self) -> Option<&'static str> {
        None
    }

    /// The server hosts, in the order in which they are started. All start before the clients.
    fn servers(&self) -> &'static [&'static str] {
        &["server"]
    }

    /// The port at which a puppet that replaces a server listens, and to which a puppet that
    /// replaces a client connects.
    fn port(&self) -> u16 {
        80
    }

    /// The keys of the scenario tables that describe the world outside the subject (`stream` for
    /// `[stream.s1]`), each with the JSON schema of one entry. The entries are available as
    /// [`Plan::setup`]. If the schema of a string has `format: duration` or `format: size`
    /// (`#[schemars(extend("format" = "duration"))]`), the string is checked to be a duration or a
    /// size (`50ms`, `4KiB`: [`units`](crate::schedule::units)). The same check applies to
    /// operations.
    ///
    /// To give the servers scripted processes, return `(process::TABLE, process::schema())` of
    /// [`world::process`](crate::world::process): if a plan has this table, the servers'
    /// [`Env::launch`] launches the processes that the table names.
    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        Vec::new()
    }

    /// The programs that its hosts can launch as child processes, beside the scripts of the plan. If
    /// there are any, all hosts can launch processes, clients too.
    fn programs(&self) -> &'static [Program] {
        &[]
    }

    /// Runs a server until the future is dropped. The drop must end all tasks of the server. The
    /// simulated outside world of the server records items, endings and effects: [what a driver
    /// must record](Subject#what-a-driver-must-record).
    fn serve(&self, host: HostContext) -> impl Future<Output = ()> + Send;

    /// Runs a client and the driver of its user, until there are no more operations and all are
    /// finished. The driver takes operations from [`OperationQueue::next`], starts each without waiting
    /// for the earlier ones, and records the observations of its user ([what a driver must
    /// record](Subject#what-a-driver-must-record)). The client is closed when the future returns.
    fn drive(
        &self,
        host: HostContext,
        operations: OperationQueue<Self::Operation>,
    ) -> impl Future<Output = ()> + Send;

    /// The guarantees of the protocol under these limits. The generic properties compute their
    /// bounds from these figures.
    fn guarantees(&self, limits: &Limits) -> Guarantees;

    /// Specific properties of this subject, in addition to the generic ones.
    fn properties(&self) -> &'static [Property] {
        &[]
    }

    /// Returns all violations of these properties. Override it to share work if several properties
    /// read the same data from a run.
    fn violations(&self, cx: &CheckContext<'_>) -> Vec<Violation> {
        self.properties().iter().flat_map(|property| (property.check)(cx)).collect()
    }

    /// Returns a dissector for one direction of a connection: it finds where messages end and
    /// labels them.
    fn dissector(&self, _from: Side) -> Box<dyn Dissector> {
        Box::new(LineMessages::default())
    }

    /// Returns a dissector of the messages that the fault `tamper` changes as a whole, together with
    /// what frames them. Default: those of [`dissector`](Self::dissector).
    fn tampered_messages(&self, from: Side) -> Box<dyn Dissector> {
        self.dissector(from)
    }

    /// Returns what the peer receives instead of a message that an end wrote, if the fault `tamper`
    /// changes it. Returns `None` if the change does not apply to this message. A subject should leave
    /// alone what is below its protocol: a WebSocket upgrade, a pong, a heartbeat. Without them, the
    /// peer only counts as silent. Default: `drop` and `repeat` apply to all messages, the others to
    /// none.
    fn tamper(&self, _from: Side, how: Tampering, message: &[u8]) -> Option<Vec<u8>> {
        match how {
            Tampering::Drop => Some(Vec::new()),
            Tampering::Repeat => Some([message, message].concat()),
            Tampering::Refuse | Tampering::Misname => None,
        }
    }
}

/// The context of a root: the host on which it runs, and its inputs.
#[derive(Clone)]
pub struct HostContext {
    /// The host's name.
    pub name: Host,
    /// The connections, processes, wall clock and randomness of this host.
    pub env: Env,
    /// All limits of the subject. A limit that the plan does not set has its default.
    pub limits: Limits,
    /// The plan. Its `setup` describes the outside world.
    pub plan: Arc<Plan>,
    /// Records the ground truth and the observations of the user.
    pub record: Recorder,
    /// Storage that persists across the incarnations of this host.
    pub disk: Disk,
}

/// The operations of one client's user, delivered when they are due.
pub struct OperationQueue<O> {
    pub(crate) next: tokio::sync::mpsc::UnboundedReceiver<(Call, Operation)>,
    pub(crate) read: fn(&Operation) -> O,
}

impl<O> OperationQueue<O> {
    /// Waits for the next operation. Returns `None` at the end of the run; the driver then closes
    /// the client.
    pub async fn next(&mut self) -> Option<(Call, O)> {
        let (call, operation) = self.next.recv().await?;
        Some((call, (self.read)(&operation)))
    }
}

/// A defect: a historical bug of a subject.
#[derive(Clone, Copy, Debug)]
pub struct DefectDoc {
    /// The name in Rust: `StaleCloseDetaches`.
    pub rust: &'static str,
    /// The name in files and on the command line: `stale-close-detaches`.
    pub name: &'static str,
    /// A description of the wrong behaviour.
    pub doc: &'static str,
    /// The properties of which the defect violates at least one.
    pub breaks: &'static [&'static str],
    /// Where the bug really happened.
    pub source: &'static str,
}

/// A version of a subject.
#[derive(Clone, Copy, Debug)]
pub struct VariantDoc {
    /// The name: `v1`.
    pub name: &'static str,
    /// The defects that make up this version, by their names in files; empty for the subject
    /// without defects.
    pub defects: &'static [&'static str],
    /// A description of the version.
    pub doc: &'static str,
}

/// A rule of a subject's ledger.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The id: `counter.resume-from-last-seen`.
    pub id: &'static str,
    /// The rule in our own words, with its constant.
    pub doc: &'static str,
    /// The source of the rule.
    pub source: &'static str,
}

/// A root as a boxed future.
pub type Root = BoxFuture<'static, ()>;
