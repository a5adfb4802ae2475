//! One simulated run: a virtual clock, hosts, a network and faults, all on one thread.
//!
//! [`run`] runs a [`Plan`] and returns its [`History`]; it does not check properties. The layers, from
//! the lowest to the highest:
//! - `options`: what a caller asks for. `thread`: the inbox of the current turn, and the host whose task
//!   is being polled.
//! - `network`: the clock, the queue of events, connections, links and their faults, on the kernels of an
//!   engine. [`process`]: simulated processes.
//! - `hosts`: the hosts, with their processes, files and counters. `waiting`: the steps that wait for
//!   milestones. `state`: the state of a world. `local`: the world of a thread.
//! - `product`: the sockets, processes, clocks and points that product code uses. `puppet`: scripted
//!   peers.
//! - `run`: the steps of the schedule, the notes of a turn, the lives of hosts, the end of the run.
//! - `engines`: what defines a turn, and how virtual time moves. `event` is the usual engine; stock
//!   `turmoil` checks it.
//!
//! The files of a host are [`files::Memory`](crate::files::Memory): they outlive a crash of the host.
//! They outlive a loss of power, too, unless the step lets unsynced data be lost. The page
//! `docs/architecture.md` follows a segment and a fault through these layers.
//!
//! Not supported: datagrams, connections from a host to itself, name resolution beyond the names of
//! the hosts, real files.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use crate::files::Memory;
use crate::history::History;
use crate::probe;
use crate::schedule::fault::effect::{Death, Effect};
use crate::schedule::words::Fidelity;
use crate::schedule::{Action, Host, Plan, Speaks, Step, TrafficCount, Unsynced};
use crate::subject::DynSubject;

mod engines;
mod hosts;
mod local;
mod network;
mod options;
pub mod process;
mod product;
mod puppet;
mod run;
mod shortcuts;
mod state;
#[cfg(test)]
mod tests;
mod thread;
mod waiting;

pub use options::{Detail, Engine, Options, RunError, Shortcuts, Tick};
pub use thread::on_progress;

use engines::Machine;
use engines::event::EventMachine;
use engines::turmoil::TickMachine;
use hosts::{HostState, Hosts, Role};
use network::directory::Directory;
use network::{NetSettings, SimNet, StaleSegments};
use process::Script;
use product::{outside, prober, tracing_layer};
use state::{Phase, World};
use waiting::StepRunner;

/// The result of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The history of the run.
    pub history: History,
    /// The subject's own tracing output, with virtual times and hosts, if it was requested.
    pub log: Vec<String>,
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
    let machine: Box<dyn Machine> = match options.engine {
        Engine::Event => Box::new(
            EventMachine::new(plan.seed, options.shortcuts)
                .map_err(|error| RunError::Runtime(error.to_string()))?,
        ),
        Engine::Turmoil(tick) => Box::new(TickMachine::new(plan.seed, tick)),
    };
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
    thread::seal();
    drop(catch_unwind(AssertUnwindSafe(|| drop(machine))));
    drop(local::try_with(|world| std::mem::take(&mut world.gauges)));
    let world = local::leave().expect("it was entered");
    match run {
        Ok(result) => result.map(|()| RunOutcome { history: world.net.history, log: world.log }),
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
            && let Fidelity::None(why) = fault.word().turmoil
        {
            return Err(RunError::Unsupported(format!("{}: {why}", fault.word().name)));
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
    thread::drain(&mut notes);
    !notes.is_empty()
}

/// Creates a world at the start of its run.
fn new(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    options: &Options,
    scripts: Option<&BTreeMap<String, Script>>,
    machine: &mut dyn Machine,
) -> World {
    let mut hosts = vec![(Host::from("unused"), Role::Unused)];
    hosts.extend(subject.servers().iter().map(|name| (Host::from(*name), Role::Server)));
    hosts.extend(plan.client_hosts().map(|host| (host, Role::Client)));
    hosts.extend(scripts.map(|_| (Host::from("the world outside"), Role::Outside)));
    let names: Vec<Host> = hosts.iter().map(|(name, _)| name.clone()).collect();
    let (stack, ips) = machine.stack(&names);
    let directory = Directory::new(names.into_iter().zip(ips), scripts.is_some());
    let files = match plan.steps.iter().any(loses_unsynced) {
        true => Memory::tracking_syncs,
        false => Memory::default,
    };
    let hosts = hosts.into_iter().enumerate();
    let mut hosts: Vec<_> =
        hosts.map(|(n, (_, role))| HostState::new(n, role, files(), plan.seed)).collect();
    let limits = plan.limits.over(subject.limits());
    let plan = Arc::new(plan.clone());
    let outside = scripts.map(|scripts| {
        outside::processes(&mut hosts, &directory, scripts, subject.programs(), &plan, &limits)
    });
    let counts_messages = |step: &Step| {
        let Action::Fault(fault) = &step.action else { return false };
        matches!(fault.effect(), Effect::CutAfter { count: TrafficCount::Messages(_), .. })
    };
    let may_tamper = plan.has_tampering();
    let dissects = options.detail == Detail::Full || plan.steps.iter().any(counts_messages);
    World {
        net: SimNet::new(settings(&**subject, &plan, options), directory, stack),
        hosts: Hosts::new(hosts),
        steps: StepRunner::default(),
        users: Vec::new(),
        calls: 0,
        outside,
        gauges: Vec::new(),
        unowned_resources: BTreeSet::new(),
        dissects,
        may_tamper,
        log: Vec::new(),
        notes: Vec::new(),
        reached: Vec::new(),
        phase: Phase::Starting,
        settle: subject.guarantees(&limits).settle,
        livelock: None,
        subject: subject.clone(),
        plan,
    }
}

/// Returns the settings of the network.
fn settings(subject: &dyn DynSubject, plan: &Plan, options: &Options) -> NetSettings {
    NetSettings {
        seed: plan.seed,
        order: plan.order,
        latency: plan.latency,
        healed_from: (!plan.heal.is_zero()).then(|| plan.horizon.saturating_sub(plan.heal).into()),
        stale: match (options.control, subject.accepts_late_requests()) {
            (false, _) => StaleSegments::Delivered,
            (true, true) => StaleSegments::DroppedExceptRequests,
            (true, false) => StaleSegments::Dropped,
        },
        detail: options.detail,
        quiet_acks: options.shortcuts.quiet_acks,
        keeps_windows: options.engine.is_like(Engine::TURMOIL),
    }
}

/// Returns whether a step can lose data that was not synced. Other runs do not track it.
fn loses_unsynced(step: &Step) -> bool {
    let Action::Fault(fault) = &step.action else { return false };
    matches!(fault.effect(), Effect::Death(Death { unsynced: Unsynced::Lost, .. }))
}
