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
use tokio::task::{AbortHandle, JoinSet};

use crate::env::{Entropy, Env, Machine, WallClock};
use crate::files::Memory;
use crate::history::EventKind;
use crate::net::{BoxFuture, Connect, Endpoint, Listener, Net, Network, Stream, UnixSockets};
use crate::process::{Command, Launch, Unsupported};
use crate::schedule::{Host, Limits, Plan, keyed};
use crate::subject::{Disk, Gauges, HostContext, Journal, Program, ProgramCode, Recorder, Root};

use crate::world::hosts::counters::Counters;
use crate::world::hosts::{HostState, Role};
use crate::world::local;
use crate::world::network::directory::Directory;
use crate::world::process::{
    ChildFaults, NewProcess, Processes, ProgramHost, Programs, Script, Software,
};
use crate::world::product::machine::HostTable;
use crate::world::product::stream::WorldNet;
use crate::world::thread::{self, HostIx, Noted};

/// The start of the wall clocks of a world: 2026-01-01 00:00 UTC, in seconds since 1970.
const START: u64 = 1_767_225_600;

/// Creates the environment of a host's root.
pub(in crate::world) fn env(host: HostIx, state: &HostState) -> Env {
    let launch: Arc<dyn Launch> = match &state.processes {
        Some(processes) => Arc::new(processes.clone()),
        None => Arc::new(Unsupported),
    };
    let files = state.files.with_clock(Arc::new(Clock(host)));
    Env {
        net: Arc::new(WorldNet { host, unix: state.unix.clone() }),
        launch,
        processes: Arc::new(HostTable {
            host,
            own: None,
            processes: state.processes.clone(),
            files: files.clone(),
        }),
        files: Arc::new(files),
        clock: Arc::new(Clock(host)),
        entropy: Arc::new(HostEntropy(host)),
        machine: Arc::default(),
    }
}

/// The wall clock of a host: virtual time plus the jumps of the clock.
struct Clock(HostIx);

impl WallClock for Clock {
    fn now(&self) -> SystemTime {
        let (passed, off) =
            local::with(|world| (world.net.now().0, world.hosts.get(self.0).clock_off));
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
        local::try_with(|world| world.hosts.get_mut(self.0).entropy.fill_bytes(bytes));
    }
}

/// Gives every server an operating system with these scripts and the subject's programs. If there are
/// programs, the clients get one, too. Returns the root of the outside world, which runs all launched
/// processes.
pub(in crate::world) fn processes(
    hosts: &mut [HostState],
    directory: &Directory,
    scripts: &BTreeMap<String, Script>,
    programs: &'static [Program],
    plan: &Arc<Plan>,
    limits: &Limits,
) -> Root {
    let mut running: Vec<BoxFuture<'static, ()>> = Vec::new();
    let launches = |role| role == Role::Server || role == Role::Client && !programs.is_empty();
    for (index, host) in hosts.iter_mut().enumerate().filter(|(_, host)| launches(host.role)) {
        let name = directory.name(HostIx(index));
        let record = Recorder::new(name.clone(), Arc::new(GroundTruth));
        let programs = (!programs.is_empty()).then(|| Programs {
            known: programs,
            host: Box::new(Surroundings {
                host: HostIx(index),
                name: name.clone(),
                files: host.files.with_clock(Arc::new(Clock(HostIx(index)))),
                disk: host.disk.clone(),
                unix: host.unix.clone(),
                limits: limits.clone(),
                plan: plan.clone(),
            }),
        });
        let software =
            Software { scripts: scripts.clone(), programs, faults: ChildFaults::of(plan) };
        let (processes, run) = Processes::new(software, record);
        host.processes = Some(processes);
        running.push(Box::pin(run));
    }
    Box::pin(run_processes(running))
}

/// A host, as its programs need it.
struct Surroundings {
    host: HostIx,
    name: Host,
    files: Memory,
    disk: Disk,
    unix: UnixSockets,
    limits: Limits,
    plan: Arc<Plan>,
}

impl ProgramHost for Surroundings {
    /// Each process draws from its own sequence.
    fn context(&self, processes: &Processes, process: &NewProcess<'_>) -> HostContext {
        let key = [self.host.0 as u64, process.launch.into()];
        let draws = keyed::keyed(self.plan.seed, "program", &key);
        let (net, journal): (Net, Arc<dyn Journal>) = match process.code {
            ProgramCode::Outside => (Arc::new(NoNetwork), Arc::new(GroundTruth)),
            ProgramCode::Product => {
                let unix = process.sockets.clone();
                (Arc::new(WorldNet { host: self.host, unix }), Arc::new(WorldJournal))
            }
        };
        let machine = Machine::default();
        let Command { env, cwd, .. } = process.command;
        let machine = Machine {
            variables: env.iter().cloned().collect(),
            directory: cwd.clone().unwrap_or(machine.directory),
        };
        let env = Env {
            net,
            launch: Arc::new(processes.clone()),
            processes: Arc::new(HostTable {
                host: self.host,
                own: Some(process.identity.clone()),
                processes: Some(processes.clone()),
                files: self.files.clone(),
            }),
            files: Arc::new(self.files.clone()),
            clock: Arc::new(Clock(self.host)),
            entropy: Arc::new(ProgramEntropy(Mutex::new(draws))),
            machine: Arc::new(machine),
        };
        HostContext {
            name: self.name.clone(),
            env,
            limits: self.limits.clone(),
            plan: self.plan.clone(),
            record: Recorder::new(self.name.clone(), journal),
            disk: self.disk.clone(),
        }
    }

    fn sockets(&self) -> &UnixSockets {
        &self.unix
    }

    /// The runtime of the caller must be that of the host, because the second engine has a runtime
    /// for each host.
    fn spawn(&self, process: BoxFuture<'static, ()>) -> io::Result<AbortHandle> {
        if thread::current() != self.host {
            let why = "a program of the outside world cannot launch product code";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(thread::as_host(self.host, || tokio::spawn(process)).abort_handle())
    }
}

/// The random numbers of a process that runs a program.
struct ProgramEntropy(Mutex<ChaCha8Rng>);

impl Entropy for ProgramEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }
}

/// The network of programs of the outside world: none.
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
        if let Some(host) = local::try_with(|world| world.net.directory.named(host)).flatten() {
            thread::note_of_world(host, Noted::Entry(what));
        }
    }

    /// Does nothing: the world counts the processes itself.
    fn gauges(&self, _: &Host, _: Gauges) {}

    fn request_panic(&self) -> bool {
        WorldJournal.request_panic()
    }
}

/// The journal of the recorders of a world.
pub(in crate::world) struct WorldJournal;

impl Journal for WorldJournal {
    fn write(&self, host: &Host, what: EventKind) {
        if let Some(host) = local::try_with(|world| world.net.directory.named(host)).flatten() {
            thread::note_on(host, Noted::Entry(what));
        }
    }

    fn gauges(&self, host: &Host, gauges: Gauges) {
        local::try_with(|world| {
            if let Some(host) = world.net.directory.named(host) {
                world.gauges.push(Counters::new(host, gauges));
            }
        });
    }

    fn request_panic(&self) -> bool {
        local::try_with(|world| world.net.stack.request_panic()).unwrap_or(true)
    }
}
