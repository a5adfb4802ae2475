//! One simulated run: a virtual clock, hosts, a network, faults, all on one thread.
//!
//! [`run`] carries a [`Plan`] out and returns its [`History`]; it judges nothing. A reader starts at `event`, the engine: what a
//! turn is, and how virtual time moves. Then
//! - `engine`: what an engine is to a world. `turmoil`: the second one, which checks the first.
//! - `state`: all that a world knows. `local`: what belongs to its thread. `queue`: what is still to come.
//! - `hosts`, `lifecycles`: hosts, and how they start, die and start again. `resources`: what is counted on them.
//! - `conns`, `stream`, `segments`, `link`: connections; their ends as product code holds them; the journey of a segment; what becomes of one.
//!   `acks`, `windows`: acknowledgements, and the room that they tell of. `batch`, `held`: segments by the thousand, and those that wait.
//! - `ends`, `tap`: how ends die and are answered for; what is taken down of it all.
//! - `steps`, `faults`, `puppet`: the schedule as it is carried out.
//! - `hearing`, `prober`, `outside`: how product code is heard, held, and given its environment.
//! - [`process`]: scripted processes.
//!
//! What it does not do: datagrams, connections of a host to itself, name resolution beyond its hosts' names, real files.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::history::{EventKind, History, Side, Time};
use crate::probe;
use crate::schedule::{Action, Fault, Host, Plan, Speaks, TrafficCount};
use crate::subject::DynSubject;

mod acks;
mod batch;
mod conns;
mod ends;
mod engine;
mod event;
mod faults;
mod hearing;
mod held;
mod hosts;
mod lifecycles;
mod link;
mod local;
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
mod turmoil;
mod windows;

pub use local::on_progress;

use engine::Machine;
use hosts::{HostState, Hosts, Role};
use process::Script;
use state::{Phase, World};

/// How a run is carried out. Nothing of it changes what happens, but `control` and `engine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How much is kept in the history.
    pub detail: Detail,
    /// What carries the segments.
    pub engine: Engine,
    /// Whether packets of an older generation are dropped once a newer one is installed.
    pub control: bool,
    /// Whether the subject's own tracing output is collected.
    pub log: bool,
}

/// How much of a run is kept in its history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// What properties need.
    #[default]
    Verdict,
    /// Every packet and message, too.
    Full,
}

/// What carries the segments of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Event-driven, on `turmoil-net`: virtual time jumps to the next thing that happens.
    #[default]
    Event,
    /// Stock `turmoil`, in ticks.
    Turmoil(Tick),
}

impl Engine {
    /// Stock `turmoil` in its usual ticks, of a millisecond.
    pub const TURMOIL: Self = Self::Turmoil(Tick::LEAST);

    /// Whether both are the same, whatever their ticks.
    pub fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// How far the clock of stock `turmoil` moves at once: whole milliseconds, up to a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick(u16);

impl Tick {
    /// A millisecond.
    pub const LEAST: Self = Self(1);

    /// The tick of this length; `None` where it is shorter than a millisecond, longer than a second, or none of whole milliseconds.
    pub fn of(length: Duration) -> Option<Self> {
        let millis =
            u16::try_from(length.as_millis()).ok().filter(|millis| (1..=1_000).contains(millis))?;
        (Duration::from_millis(millis.into()) == length).then_some(Self(millis))
    }

    /// How long it is.
    pub fn length(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

/// What a run left behind.
#[derive(Debug)]
pub struct RunOutcome {
    /// The record.
    pub history: History,
    /// The subject's own tracing output, with virtual times and hosts, where it was asked for.
    pub log: Vec<String>,
}

/// Why a run could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Milestones do not arrive.
    #[error(
        "the world does not hear milestones: a `max_level_*` or `release_max_level_*` feature of the crate `tracing` is on somewhere; \
         take it out"
    )]
    Deaf,
    /// The plan names something that the subject does not have.
    #[error("{0}")]
    Plan(String),
    /// The engine itself gave up midway.
    #[error("the engine stopped the run at {at}: {why}")]
    Engine {
        /// When.
        at: Time,
        /// What it says.
        why: String,
    },
    /// The driver recorded what no protocol can bring about, so nothing can be judged.
    #[error(
        "{mistake}, in the run with seed {seed}; see `What a driver must record` in the docs of the trait `Subject`"
    )]
    Recording {
        /// The seed of the run.
        seed: u64,
        /// What the driver must not record, and what to do instead.
        mistake: String,
    },
    /// The operating system gave no runtime.
    #[error("no runtime: {0}")]
    Runtime(String),
}

/// Runs a plan. Properties are not checked here.
///
/// # Errors
/// If the run could not be carried out at all; see [`RunError`].
///
/// # Panics
/// If the world itself is broken. A panic of the subject is an entry of the history.
pub fn run(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    options: &Options,
) -> Result<RunOutcome, RunError> {
    check(subject, plan, options.engine)?;
    let scripts = process::scripts(plan).map_err(RunError::Plan)?;
    let machine = engine::machine(options.engine, plan.seed)?;
    carry_out(subject, plan, options, scripts.as_ref(), machine)
}

/// Runs a plan that was checked.
fn carry_out(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    options: &Options,
    scripts: Option<&BTreeMap<String, Script>>,
    mut machine: Box<dyn Machine>,
) -> Result<RunOutcome, RunError> {
    prober::hear_panics();
    let _hearing = hearing::listen(options.log);
    let world = new(subject, plan, options, scripts, &mut *machine);
    local::enter(world);
    let run = catch_unwind(AssertUnwindSafe(|| {
        let _probing = probe::attach(Rc::new(prober::WorldProber));
        if !hears() {
            return Err(RunError::Deaf);
        }
        machine.drive(plan.horizon.into())
    }));
    // The order matters: tasks first, then what the subject left with the world, then the socket stack.
    local::seal();
    drop(catch_unwind(AssertUnwindSafe(|| drop(machine))));
    drop(local::try_with(|world| std::mem::take(&mut world.gauges)));
    let world = local::leave().expect("it was entered");
    match run {
        Ok(result) => result.map(|()| RunOutcome { history: world.history, log: world.log }),
        Err(panic) => resume_unwind(panic),
    }
}

/// Whether the plan is one for the subject.
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

/// Whether a milestone arrives.
fn hears() -> bool {
    crate::milestone!("reknit.world.hears");
    let mut notes = Vec::new();
    local::drain(&mut notes);
    !notes.is_empty()
}

/// The last words of a run: what is left is counted, if all is over, and everything that was said is written.
fn finish() {
    if local::with(|world| world.phase) == Phase::Over {
        resources::close();
    }
    local::with(World::seal);
}

/// A new world, in which nothing has happened.
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
    let mut hosts: Vec<_> = hosts
        .into_iter()
        .zip(ips)
        .map(|((name, role), ip)| HostState::new(name, ip, role))
        .collect();
    let outside = scripts.map(|scripts| outside::processes(hosts.iter_mut(), scripts));
    let counts_messages = |step: &crate::schedule::Step| {
        matches!(
            &step.action,
            Action::Fault(Fault::CutAfter { count: TrafficCount::Messages(_), .. })
        )
    };
    let limits = plan.limits.over(subject.limits());
    let entropy = (0..hosts.len())
        .map(|host| crate::schedule::keyed::keyed(plan.seed, "entropy", &[host as u64]))
        .collect();
    World {
        plan: Arc::new(plan.clone()),
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
        strays: BTreeSet::new(),
        entropy,
        livelock: None,
        dissects: options.detail == Detail::Full || plan.steps.iter().any(counts_messages),
    }
}

impl World {
    /// The first thing that happens: steps wait for their time, and hosts start.
    fn begin_run(&mut self) {
        self.arm();
        self.start_all();
    }

    /// Writes the last words of the history.
    fn seal(&mut self) {
        self.read_notes();
        if let Some(what) = self.livelock.take() {
            self.record(None, EventKind::Livelock { what });
        }
        self.history.end = self.now();
        self.history.polls = self.hosts.indices().map(local::polls_of).sum();
        self.note_deliveries();
    }

    /// Tells each message of a detailed history when it was delivered.
    fn note_deliveries(&mut self) {
        let mut seen = BTreeMap::new();
        for event in &mut self.history.events {
            if let EventKind::Message { conn, from, delivered, .. } = &mut event.what {
                let at: &mut usize = seen.entry((*conn, *from == Side::Server)).or_default();
                *delivered = self.conns.look(*conn).directions[*from as usize]
                    .messages
                    .get(*at)
                    .and_then(|message| message.delivered);
                *at += 1;
            }
        }
    }
}
