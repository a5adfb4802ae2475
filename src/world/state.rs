//! The state of a world: the network, the hosts, and the schedule.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::history::Call;
use crate::schedule::{Operation, Plan};
use crate::subject::{DynSubject, Root};

use super::hosts::Hosts;
use super::hosts::counters::Counters;
use super::network::SimNet;
use super::thread::{HostIx, TurnNote};
use super::waiting::{Reached, StepRunner};

/// A world. Nothing in it runs product code.
pub(super) struct World {
    pub plan: Arc<Plan>,
    pub subject: Arc<dyn DynSubject>,
    pub net: SimNet,
    pub hosts: Hosts,
    pub steps: StepRunner,
    /// The channel for the operations of each client's user.
    pub users: Vec<(HostIx, UnboundedSender<(Call, Operation)>)>,
    /// The number of calls that steps have made.
    pub calls: u64,
    /// The root of the outside world, until it is started.
    pub outside: Option<Root>,
    /// The counters of the subject's resources.
    pub gauges: Vec<Counters>,
    /// Reports of things that belong to no host. Each is reported once.
    pub unowned_resources: BTreeSet<String>,
    /// Whether this run counts messages.
    pub dissects: bool,
    /// Whether a fault of this run may change messages.
    pub may_tamper: bool,
    /// The lines of the subject's own tracing output.
    pub log: Vec<String>,
    /// Buffers for the notes of a turn, and for the milestones and points among them.
    pub notes: Vec<TurnNote>,
    pub reached: Vec<Reached>,
    pub phase: Phase,
    /// How long the run continues at most after the clients are closed.
    pub settle: Duration,
    /// Set if the run must stop now, because virtual time does not move. Contains the reason.
    pub livelock: Option<String>,
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Before the first turn is over.
    Starting,
    /// The schedule runs.
    Running,
    /// The users have stopped, and the clients close.
    Closing,
    /// The clients are closed, and the remaining resources get time to be released.
    Settling,
    /// The run is over, and the remaining resources are counted.
    Over,
}
