//! One simulated run: a virtual clock, hosts, a network and faults, all on one thread.
//!
//! [`run`] runs a [`Plan`] and returns its [`History`]; it does not check properties. Start reading
//! at `event`, the engine: it defines a turn, and how virtual time moves. The other modules:
//! - `engine`: the interface between an engine and a world. `turmoil`: the second engine, which
//!   checks the first.
//! - `state`: the state of a world. `local`: the state of its thread. `queue`: future events.
//! - `hosts`, `lifecycles`: hosts, and how they start, die and restart. `resources`: their resource
//!   counts.
//! - `conns`, `stream`, `segments`, `link`: connections; their ends as product code uses them; the
//!   path of a segment; and its fate. `acks`, `windows`: acknowledgements and the windows that they
//!   advertise. `batch`, `held`: batches of segments, and held segments.
//! - `ends`, `tap`: how ends die and are answered for; the records of segments and messages.
//! - `steps`, `faults`, `puppet`: running the schedule.
//! - `tracing_layer`, `prober`, `outside`: recording milestones, holding tasks at points, and providing
//!   the environment of product code.
//! - [`process`]: processes: scripts and programs. `machine`: the process table and the unix sockets of
//!   a host. The files of a host are
//!   [`files::Memory`](crate::files::Memory): they outlive a crash of the host. They outlive a loss of
//!   power, too, unless the step lets unsynced data be lost.
//!
//! Not supported: datagrams, connections from a host to itself, name resolution beyond the names of
//! the hosts, real files.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::files::Memory;
use crate::history::{EventKind, History, Side, Time};
use crate::probe;
use crate::schedule::{Action, Fault, Host, Plan, Speaks, Step, TrafficCount, Unsynced};
use crate::subject::DynSubject;

mod acks;
mod batch;
mod conns;
mod ends;
mod engine;
mod event;
mod faults;
mod held;
mod hosts;
mod lifecycles;
mod link;
mod local;
mod machine;
mod outside;
mod prober;
pub mod process;
mod puppet;
mod queue;
mod resources;
mod segments;
mod state;
mod steps;
mod stream;
mod tap;
#[cfg(test)]
mod tests;
mod tracing_layer;
mod turmoil;
mod windows;

pub use local::on_progress;

use engine::Machine;
use hosts::{HostState, Hosts, Role};
use process::Script;
use state::{Phase, World};

/// Options of a run. Only `control` and `engine` change what happens in the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How much detail the history contains.
    pub detail: Detail,
    /// The engine that carries the segments.
    pub engine: Engine,
    /// Whether packets of an older generation are dropped after a newer one is installed.
    pub control: bool,
    /// Whether to collect the subject's own tracing output.
    pub log: bool,
}

/// How much detail of a run its history contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Everything that the properties need.
    #[default]
    Verdict,
    /// All packets and messages, too.
    Full,
}

/// The engine that carries the segments of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Event-driven, on `turmoil-net`: virtual time jumps to the next event.
    #[default]
    Event,
    /// Stock `turmoil`, in ticks.
    Turmoil(Tick),
}

impl Engine {
    /// Stock `turmoil` with its usual ticks of one millisecond.
    pub const TURMOIL: Self = Self::Turmoil(Tick::LEAST);

    /// Returns whether both are the same engine, regardless of the tick.
    pub fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// The step of stock `turmoil`'s clock: whole milliseconds, up to a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick(u16);

impl Tick {
    /// One millisecond.
    pub const LEAST: Self = Self(1);

    /// Creates a tick of this length. Returns `None` if it is shorter than a millisecond, longer
    /// than a second, or not a whole number of milliseconds.
    pub fn of(length: Duration) -> Option<Self> {
        let millis =
            u16::try_from(length.as_millis()).ok().filter(|millis| (1..=1_000).contains(millis))?;
        (Duration::from_millis(millis.into()) == length).then_some(Self(millis))
    }

    /// Returns the length of the tick.
    pub fn length(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The history of the run.
    pub history: History,
    /// The subject's own tracing output, with virtual times and hosts, if it was requested.
    pub log: Vec<String>,
}

/// The reason why a run could not be performed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Milestones do not arrive.
    #[error(
        "the world does not hear milestones: a `max_level_*` or `release_max_level_*` feature of the crate `tracing` is on somewhere; \
         take it out"
    )]
    Deaf,
    /// The plan uses a name that the subject does not have.
    #[error("{0}")]
    Plan(String),
    /// The engine itself gave up during the run.
    #[error("the engine stopped the run at {at}: {why}")]
    Engine {
        /// The virtual time.
        at: Time,
        /// The engine's error message.
        why: String,
    },
    /// The driver recorded something that no protocol can cause, so the run cannot be checked.
    #[error(
        "{mistake}, in the run with seed {seed}; see `What a driver must record` in the docs of the trait `Subject`"
    )]
    Recording {
        /// The seed of the run.
        seed: u64,
        /// The record that the driver must not make, and the correct alternative.
        mistake: String,
    },
    /// The operating system could not provide a runtime.
    #[error("no runtime: {0}")]
    Runtime(String),
}

/// Runs a plan. Does not check properties.
///
/// # Errors
/// If the run could not be performed at all; see [`RunError`].
///
/// # Panics
/// If the world itself is broken. A panic of the subject is an entry of the history.
pub fn run(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    options: &Options,
) -> Result<RunOutcome, RunError> {
    check(subject, plan, options.engine)?;
    let mut scripts = process::scripts(plan).map_err(RunError::Plan)?;
    if !subject.programs().is_empty() {
        scripts.get_or_insert_default();
    }
    let machine = engine::machine(options.engine, plan.seed)?;
    carry_out(subject, plan, options, scripts.as_ref(), machine)
}

/// Runs a plan that was already checked.
fn carry_out(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    options: &Options,
    scripts: Option<&BTreeMap<String, Script>>,
    mut machine: Box<dyn Machine>,
) -> Result<RunOutcome, RunError> {
    prober::install_panic_hook();
    let _tracing = tracing_layer::install(options.log);
    let world = new(subject, plan, options, scripts, &mut *machine);
    local::enter(world);
    let run = catch_unwind(AssertUnwindSafe(|| {
        let _probing = probe::attach(Rc::new(prober::WorldProber));
        if !receives_milestones() {
            return Err(RunError::Deaf);
        }
        machine.drive(plan.horizon.into())
    }));
    // The order matters: drop the tasks first, then the subject's values in the world, then the
    // socket stack.
    local::seal();
    drop(catch_unwind(AssertUnwindSafe(|| drop(machine))));
    drop(local::try_with(|world| std::mem::take(&mut world.gauges)));
    let world = local::leave().expect("it was entered");
    match run {
        Ok(result) => result.map(|()| RunOutcome { history: world.history, log: world.log }),
        Err(panic) => resume_unwind(panic),
    }
}

/// Checks that the plan fits the subject.
fn check(subject: &Arc<dyn DynSubject>, plan: &Plan, engine: Engine) -> Result<(), RunError> {
    for step in &plan.steps {
        if let Action::Operation(operation) = &step.action {
            subject
                .check(operation)
                .map_err(|error| RunError::Plan(format!("`{}`: {error}", operation.verb)))?;
        }
        if let (Action::Fault(fault), Engine::Turmoil(_)) = (&step.action, engine)
            && let Some(why) = turmoil::cannot(fault)
        {
            return Err(RunError::Plan(why.into()));
        }
    }
    for (name, value) in &plan.limits.0 {
        let known = subject.limits().iter().find(|limit| limit.name == name);
        let limit = known
            .ok_or_else(|| RunError::Plan(format!("{} has no limit `{name}`", subject.name())))?;
        if !limit.default.same_kind(value) {
            return Err(RunError::Plan(format!(
                "the limit `{name}` is like {}, not {value}",
                limit.default
            )));
        }
    }
    for name in &plan.defects {
        if !subject.defects().iter().any(|defect| defect.name == name) {
            return Err(RunError::Plan(format!("{} has no defect `{name}`", subject.name())));
        }
    }
    if cfg!(not(feature = "websocket"))
        && plan.puppets.values().any(|puppet| puppet.speaks == Speaks::WebSocket)
    {
        return Err(RunError::Plan(
            "a puppet speaks `websocket`; enable the feature `websocket` of the crate reknit"
                .into(),
        ));
    }
    Ok(())
}

/// Returns whether milestones are received.
fn receives_milestones() -> bool {
    crate::milestone!("reknit.world.hears");
    let mut notes = Vec::new();
    local::drain(&mut notes);
    !notes.is_empty()
}

/// Finishes a run: if it is complete, counts the remaining resources. Writes the remaining notes.
fn finish() {
    if local::with(|world| world.phase) == Phase::Over {
        resources::close();
    }
    local::with(World::seal);
}

/// Creates a world at the start of its run.
fn new(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    options: &Options,
    scripts: Option<&BTreeMap<String, Script>>,
    machine: &mut dyn Machine,
) -> World {
    let mut hosts = vec![(Host::from("nobody"), Role::Nobody)];
    hosts.extend(subject.servers().iter().map(|name| (Host::from(*name), Role::Server)));
    hosts.extend(plan.client_hosts().map(|host| (host, Role::Client)));
    hosts.extend(scripts.map(|_| (Host::from("the world outside"), Role::Outside)));
    let names: Vec<Host> = hosts.iter().map(|(name, _)| name.clone()).collect();
    let (stack, ips) = machine.stack(&names);
    let files = match plan.steps.iter().any(loses_unsynced) {
        true => Memory::tracking_syncs,
        false => Memory::default,
    };
    let mut hosts: Vec<_> = hosts
        .into_iter()
        .zip(ips)
        .map(|((name, role), ip)| HostState::new(name, ip, role, files()))
        .collect();
    let limits = plan.limits.over(subject.limits());
    let plan = Arc::new(plan.clone());
    let outside = scripts.map(|scripts| {
        outside::processes(hosts.iter_mut(), scripts, subject.programs(), &plan, &limits)
    });
    let counts_messages = |step: &Step| {
        matches!(
            &step.action,
            Action::Fault(Fault::CutAfter { count: TrafficCount::Messages(_), .. })
        )
    };
    let entropy = (0..hosts.len())
        .map(|host| crate::schedule::keyed::keyed(plan.seed, "entropy", &[host as u64]))
        .collect();
    World {
        dissects: options.detail == Detail::Full || plan.steps.iter().any(counts_messages),
        plan,
        subject: subject.clone(),
        options: *options,
        clock: std::cell::Cell::new(None),
        outbound: Vec::new(),
        stack,
        hosts: Hosts::new(hosts),
        conns: conns::Conns::default(),
        faults: faults::ActiveFaults::default(),
        steps: steps::StepRunner::default(),
        queue: queue::Queue::default(),
        history: History::default(),
        outside,
        log: Vec::new(),
        turns: event::Turns::default(),
        driver: None,
        settle: subject.guarantees(&limits).settle,
        phase: Phase::Starting,
        opening: Vec::new(),
        leaving: Vec::new(),
        reopened: Vec::new(),
        aborting: Vec::new(),
        users: Vec::new(),
        calls: 0,
        gauges: Vec::new(),
        unowned_resources: BTreeSet::new(),
        entropy,
        livelock: None,
    }
}

/// Returns whether a step can lose data that was not synced. Other runs do not track it.
fn loses_unsynced(step: &Step) -> bool {
    matches!(&step.action, Action::Fault(Fault::PowerLoss { unsynced: Unsynced::Lost, .. }))
}

impl World {
    /// Begins the run: schedules the steps, and starts the hosts.
    fn begin_run(&mut self) {
        self.arm();
        self.start_all();
    }

    /// Writes the last entries of the history.
    fn seal(&mut self) {
        self.read_notes();
        if let Some(what) = self.livelock.take() {
            self.record(None, EventKind::Livelock { what });
        }
        self.history.end = self.now();
        self.history.polls = self.hosts.indices().map(local::polls_of).sum();
        self.note_deliveries();
    }

    /// Adds the delivery time to each message of a detailed history.
    fn note_deliveries(&mut self) {
        let mut seen = BTreeMap::new();
        for event in &mut self.history.events {
            if let EventKind::Message { conn, from, delivered, .. } = &mut event.what {
                let at: &mut usize = seen.entry((*conn, *from == Side::Server)).or_default();
                *delivered = self.conns.get(*conn).directions[*from as usize]
                    .messages
                    .get(*at)
                    .and_then(|message| message.delivered);
                *at += 1;
            }
        }
    }
}
