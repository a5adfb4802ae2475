//! The trait that a protocol under test implements: [`Subject`].
//!
//! A subject says what its hosts run, what the user of its client can ask for, and what it promises. Its tables (limits,
//! milestones, points, defects, rules) are data, from which the command line, the docs and the checks are drawn.
//!
//! The driver of a client's user writes what it sees into the history with a [`Recorder`]; so does the simulated outside
//! world of a server. Neither writes what the protocol says of itself.

use std::future::Future;
use std::sync::Arc;

use crate::env::Env;
use crate::history::{Call, Side};
use crate::net::BoxFuture;
use crate::property::{CheckContext, Guarantees, Property, Violation};
use crate::schedule::{Host, Limit, Limits, Operation, Plan};

pub mod disk;
pub mod dissect;
pub mod dyn_subject;
pub mod nothing;
pub mod operations;
pub mod recorder;
mod recording;
pub mod tables;

pub use crate::schedule::{MilestoneDoc, PointDoc};
pub use disk::Disk;
#[cfg(feature = "websocket")]
pub use dissect::WebSocket;
pub use dissect::{Dissector, Label, LineMessages, Message};
pub use dyn_subject::DynSubject;
pub use nothing::Nothing;
pub use operations::{BoxedStrategy, Operations, any_of};
pub use recorder::{Gauge, Gauges, Journal, Recorder, ResourceCounter};
pub(crate) use recording::mistake;

/// A protocol under test.
///
/// It is implemented once a protocol; a value of it is shared by all worlds, so it holds no state of a run.
///
#[doc = include_str!("subject/recording.md")]
pub trait Subject: Send + Sync + 'static {
    /// What the user of a client can ask for: an enum with a variant for each operation. [`Operations`] shows one.
    /// [`Nothing`] where there is nothing to ask for.
    type Operation: Operations;

    /// Its name: `counter`.
    fn name(&self) -> &'static str;

    /// What it is, in one line.
    fn about(&self) -> &'static str;

    /// All its sizes, windows, deadlines and budgets.
    fn limits(&self) -> &'static [Limit] {
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

    /// The historical bugs that it can be told to have.
    fn defects(&self) -> &'static [DefectDoc] {
        &[]
    }

    /// Versions that it had, or might have had, each a set of its defects: `--set variant=NAME`.
    fn variants(&self) -> &'static [VariantDoc] {
        &[]
    }

    /// Its ledger: every rule that it keeps.
    fn rules(&self) -> &'static [Rule] {
        &[]
    }

    /// The milestone that says, with a field `generation` and a field `conn`, that a client installed a new generation. Where one
    /// host runs several clients, one after the other, a field `client` names which one it is: each counts its own.
    fn generation_milestone(&self) -> Option<&'static str> {
        None
    }

    /// The milestone that says, with a field `conn`, that the handshake on a client's connection is over, and that it catches up
    /// with what it missed, until the generation is installed.
    fn catch_up_milestone(&self) -> Option<&'static str> {
        None
    }

    /// The swarm file from which its random schedules are drawn where nobody names another one. Without one, a profile is made
    /// of what its tables and schemas tell.
    fn swarm(&self) -> Option<&'static str> {
        None
    }

    /// Its server hosts, which are started before the clients, in this order.
    fn servers(&self) -> &'static [&'static str] {
        &["server"]
    }

    /// The port that a puppet in the place of a server listens at, and that one in the place of a client connects to.
    fn port(&self) -> u16 {
        80
    }

    /// The keys of the tables of a scenario file that describe the world outside the subject (`stream` for
    /// `[stream.s1]`), each with the JSON schema of one entry. What stands there comes back as [`Plan::setup`]. A string
    /// whose schema says `format: duration` or `format: size` (`#[schemars(extend("format" = "duration"))]`) is checked to be
    /// one (`50ms`, `4KiB`: [`units`](crate::schedule::units)), here and in operations.
    ///
    /// `(process::TABLE, process::schema())` of [`world::process`](crate::world::process) gives the servers scripted processes:
    /// where a plan has the table, their [`Env::launch`] launches what it names.
    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        Vec::new()
    }

    /// Runs a server until it is dropped: dropping it must end all its tasks. Its simulated outside world records what is produced,
    /// what ends and what takes effect: [what a driver must record](Subject#what-a-driver-must-record).
    fn serve(&self, host: HostContext) -> impl Future<Output = ()> + Send;

    /// Runs a client and the driver of its user, until there are no more operations and all are done: takes operations from
    /// [`Operated::next`], performs each without waiting for the ones before it, and records what its user sees
    /// ([what a driver must record](Subject#what-a-driver-must-record)). Returning closes the client.
    fn drive(
        &self,
        host: HostContext,
        operations: Operated<Self::Operation>,
    ) -> impl Future<Output = ()> + Send;

    /// What the protocol guarantees under these limits: the figures from which the generic properties are computed.
    fn guarantees(&self, limits: &Limits) -> Guarantees;

    /// Properties of its own, on top of the generic ones.
    fn properties(&self) -> &'static [Property] {
        &[]
    }

    /// All that breaks one of these. Where they read the same of a run, it can be read once for all of them here.
    fn breaks(&self, cx: &CheckContext<'_>) -> Vec<Violation> {
        self.properties().iter().flat_map(|property| (property.check)(cx)).collect()
    }

    /// Reads the bytes of one direction of a connection: where messages end, and what they are called.
    fn dissector(&self, _from: Side) -> Box<dyn Dissector> {
        Box::new(LineMessages::default())
    }
}

/// Where a root runs, and what it is given.
#[derive(Clone)]
pub struct HostContext {
    /// The host's name.
    pub name: Host,
    /// Connections, processes, wall clock and randomness of this host.
    pub env: Env,
    /// All limits of the subject, with their defaults where the plan gives none.
    pub limits: Limits,
    /// The plan; its `setup` says what the outside world does.
    pub plan: Arc<Plan>,
    /// Where to record what is really so, and what the user sees.
    pub record: Recorder,
    /// What this host kept in its earlier lives, and keeps for its later ones.
    pub disk: Disk,
}

/// The operations that the user of one client asks for, as their time comes.
pub struct Operated<O> {
    pub(crate) next: tokio::sync::mpsc::UnboundedReceiver<(Call, Operation)>,
    pub(crate) read: fn(&Operation) -> O,
}

impl<O> Operated<O> {
    /// Waits for the next operation; `None` when the run is over, and the client is to be closed.
    pub async fn next(&mut self) -> Option<(Call, O)> {
        let (call, operation) = self.next.recv().await?;
        Some((call, (self.read)(&operation)))
    }
}

/// A historical bug of a subject.
#[derive(Clone, Copy, Debug)]
pub struct DefectDoc {
    /// Its name in Rust: `StaleCloseDetaches`.
    pub rust: &'static str,
    /// Its name in files and on the command line: `stale-close-detaches`.
    pub name: &'static str,
    /// What it does wrong.
    pub doc: &'static str,
    /// The properties of which it breaks at least one.
    pub breaks: &'static [&'static str],
    /// Where it really happened.
    pub source: &'static str,
}

/// A version of a subject.
#[derive(Clone, Copy, Debug)]
pub struct VariantDoc {
    /// Its name: `v1`.
    pub name: &'static str,
    /// The defects (their names in files) that make it up; none for the subject as it is.
    pub defects: &'static [&'static str],
    /// What it is like.
    pub doc: &'static str,
}

/// A rule of a subject's ledger.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its id: `counter.resume-from-last-seen`.
    pub id: &'static str,
    /// The rule, in our words, with its constant.
    pub doc: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// A root as a boxed future.
pub type Root = BoxFuture<'static, ()>;
