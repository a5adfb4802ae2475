//! The world's side of the other inputs of product code, besides connections: processes, files, the
//! wall clock, randomness, and the journal.
//!
//! [`Processes`] run on a separate host, the outside world, in one root ([`run_processes`]). This host is
//! not part of the resource counts, and it never dies. Its records about a host ([`GroundTruth`]) are
//! kept even while that host dies.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use tokio::task::JoinSet;

use crate::env::{Entropy, Env, WallClock};
use crate::files::Memory;
use crate::history::EventKind;
use crate::net::{BoxFuture, Connect, Endpoint, Listener, Network, Stream};
use crate::process::{Identity, Launch, ProcessTable, Reach, Unsupported};
use crate::schedule::{Host, Limits, Plan, keyed};
use crate::subject::{Gauges, HostContext, Journal, Program, Recorder, Root};

use super::hosts::{HostState, Role};
use super::local::{self, HostIx, Noted};
use super::process::{ChildFaults, CreateContext, Processes, Programs, Script, Software};
use super::resources::Counters;
use super::stream::WorldNet;

/// The start of the wall clocks of a world: 2026-01-01 00:00 UTC, in seconds since 1970.
const START: u64 = 1_767_225_600;

/// Creates the environment of a host. `processes` launches its processes, and `files` are its files.
pub(super) fn env(host: HostIx, processes: Option<&Processes>, files: &Memory) -> Env {
    let launch: Arc<dyn Launch> = match processes {
        Some(processes) => Arc::new(processes.clone()),
        None => Arc::new(Unsupported),
    };
    Env {
        net: Arc::new(WorldNet { host }),
        launch,
        processes: Arc::new(Alone { host, pid: 1 }),
        files: Arc::new(files.with_clock(Arc::new(Clock(host)))),
        clock: Arc::new(Clock(host)),
        entropy: Arc::new(HostEntropy(host)),
        machine: Arc::default(),
    }
}

/// The process table that a program sees: it has one process, the program itself. The program of a
/// later start of the host is another process.
struct Alone {
    host: HostIx,
    pid: u32,
}

impl ProcessTable for Alone {
    fn own(&self) -> io::Result<Identity> {
        let starts = local::with(|world| world.hosts.get(self.host).starts);
        Ok(Identity { pid: self.pid, started: format!("start {starts}") })
    }

    fn find(&self, pid: u32) -> io::Result<Option<Identity>> {
        Ok(Some(self.own()?).filter(|own| own.pid == pid))
    }

    fn is_alive(&self, process: &Identity) -> io::Result<bool> {
        Ok(*process == self.own()?)
    }

    /// Fails: there is no other process, and a program of a world receives no signals.
    fn signal(&self, process: &Identity, _: i32, _: Reach) -> io::Result<()> {
        let is_own = self.is_alive(process)?;
        Err(if is_own { io::ErrorKind::Unsupported } else { io::ErrorKind::NotFound }.into())
    }
}

/// The wall clock of a host: virtual time plus the jumps of the clock.
struct Clock(HostIx);

impl WallClock for Clock {
    fn now(&self) -> SystemTime {
        let (passed, off) = local::with(|world| (world.now().0, world.hosts.get(self.0).clock_off));
        let millis = (START * 1000 + passed).saturating_add_signed(off);
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }
}

/// The random numbers of a host, from its start on.
struct HostEntropy(HostIx);

impl Entropy for HostEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // A task that is dropped after its world gets zeros. They have no effect.
        bytes.fill(0);
        local::try_with(|world| world.entropy[self.0.0].fill_bytes(bytes));
    }
}

/// Gives every server an operating system with these scripts and the subject's programs. If there are
/// programs, the clients get one, too. Returns the root of the outside world, which runs all launched
/// processes.
pub(super) fn processes<'h>(
    hosts: impl Iterator<Item = &'h mut HostState>,
    scripts: &BTreeMap<String, Script>,
    programs: &'static [Program],
    plan: &Arc<Plan>,
    limits: &Limits,
) -> Root {
    let mut running: Vec<BoxFuture<'static, ()>> = Vec::new();
    let launches = |role| role == Role::Server || role == Role::Client && !programs.is_empty();
    for (index, host) in hosts.enumerate().filter(|(_, host)| launches(host.role)) {
        let record = Recorder::new(host.name.clone(), Arc::new(GroundTruth));
        let context = HostContext {
            name: host.name.clone(),
            env: Env { net: Arc::new(NoNetwork), ..env(HostIx(index), None, &host.files) },
            limits: limits.clone(),
            plan: plan.clone(),
            record: record.clone(),
            disk: host.disk.clone(),
        };
        let software = Software {
            scripts: scripts.clone(),
            programs: (!programs.is_empty())
                .then(|| Programs { known: programs, context: program_context(index, context) }),
            faults: ChildFaults::of(plan),
        };
        let (processes, run) = Processes::new(software, record);
        host.processes = Some(processes);
        running.push(Box::pin(run));
    }
    Box::pin(run_processes(running))
}

/// Creates the contexts of the programs on a host. Each process draws from a sequence of its own.
fn program_context(host: usize, context: HostContext) -> Box<CreateContext> {
    Box::new(move |processes, pid| {
        let draws = keyed::keyed(context.plan.seed, "program", &[host as u64, pid.into()]);
        let env = Env {
            launch: Arc::new(processes.clone()),
            processes: Arc::new(Alone { host: HostIx(host), pid }),
            entropy: Arc::new(ProgramEntropy(Mutex::new(draws))),
            ..context.env.clone()
        };
        HostContext { env, ..context.clone() }
    })
}

/// The random numbers of a process that runs a program.
struct ProgramEntropy(Mutex<ChaCha8Rng>);

impl Entropy for ProgramEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }
}

/// The network of programs: none.
struct NoNetwork;

impl Connect for NoNetwork {
    fn connect<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

impl Network for NoNetwork {
    fn listen<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }
}

/// Runs all processes.
async fn run_processes(running: Vec<BoxFuture<'static, ()>>) {
    let mut running: JoinSet<()> = running.into_iter().collect();
    while running.join_next().await.is_some() {}
}

/// The journal of processes. Its records are ground truth, and are kept even if the tasks of the
/// host are dying.
struct GroundTruth;

impl Journal for GroundTruth {
    fn write(&self, host: &Host, what: EventKind) {
        if let Some(host) = local::try_with(|world| world.hosts.named(host)).flatten() {
            local::note_of_world(host, Noted::Entry(what));
        }
    }

    /// Does nothing: the world counts the processes itself.
    fn gauges(&self, _: &Host, _: Gauges) {}
}

/// The journal of the recorders of a world.
pub(super) struct WorldJournal;

impl Journal for WorldJournal {
    fn write(&self, host: &Host, what: EventKind) {
        if let Some(host) = local::try_with(|world| world.hosts.named(host)).flatten() {
            local::note_on(host, Noted::Entry(what));
        }
    }

    fn gauges(&self, host: &Host, gauges: Gauges) {
        local::try_with(|world| {
            if let Some(host) = world.hosts.named(host) {
                world.gauges.push(Counters::new(host, gauges));
            }
        });
    }
}
