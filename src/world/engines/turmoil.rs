//! The second engine: the same world on stock `turmoil`, in ticks. It is slow. It checks the first
//! engine, and shows that a protocol written for turmoil behaves the same.
//!
//! All links of turmoil are held, so turmoil makes no decisions. After each tick the world checks
//! the segments that wait on the links. New segments get their fate from the link model, as on the
//! event engine. Segments whose arrival time has come are delivered before the next tick. A lost
//! segment stays on its link. The code that handles segments exists only once: [`links`] converts
//! each segment to a packet of the event engine.
//!
//! A held link cannot carry an RST or a part of a segment. The world enforces these at the stream
//! of the user: an end that was killed returns its error there, regardless of the state of
//! turmoil's socket, and later data of that socket is dropped.
//!
//! A turn is a tick. In a tick, the timers run first, then the tasks that received segments, in the
//! order of the hosts. Steps that a milestone triggers run at the end of the tick. Everything that
//! happens in a tick is recorded with the time of its beginning: with ticks longer than a
//! millisecond, the world is coarser and faster. Every host has its own runtime. The world uses the
//! runtime's id to find the host of a note.
//!
//! Differences from the event engine, because stock turmoil cannot express some behavior:
//! - A connection is up when the server's user accepts it, and its client knows this at once: a
//!   SYN-ACK takes no time and cannot be lost, and there is no third segment. A SYN to a port
//!   without a listener is refused without a way back. The listener skips a SYN whose client has
//!   given up, so the server's end of that connection is never notified that it is over.
//! - A segment is one write of at most 1,460 bytes, and cannot be split on its way. The world
//!   provides the acknowledgements and windows itself ([`windows`](crate::world::network::windows)).
//! - `accept-then-close` is refused: its middlebox would have to create a SYN-ACK.
//! - The order of packets and timers within a millisecond is fixed, regardless of the plan.
//! - There are no task hooks. Tasks and polls are counted with the metrics of the runtimes. A task
//!   that spins hangs the run; the event engine reports a livelock.
//! - A panic of a task other than the root ends the whole run, because turmoil shuts the runtime
//!   down. If turmoil gives up for another reason, that is an error of the run.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use ::turmoil::{Builder, Sim};

use crate::history::Time;
use crate::schedule::Host;
use crate::subject::Root;

use crate::world::engines::Machine;
use crate::world::local;
use crate::world::network::stack::Stack;
use crate::world::options::{RunError, Tick};
use crate::world::run::closing;
use crate::world::run::resources;
use crate::world::state::World;
use crate::world::thread;
use crate::world::thread::HostIx;

mod links;
mod socket;
mod stack;

use stack::{MachineOrder, Shared, TickStack};

/// The limit on the segments of a direction that are in flight or unread, and on the connections
/// that wait to be accepted. The windows allow fewer, even with segments of one byte.
const SEGMENTS: usize = 1 << 18;

/// The cost of a tick, in turns of the event engine.
const TURNS_A_TICK: u32 = 64;

/// A turmoil simulation and its hosts.
pub(in crate::world) struct TickMachine {
    sim: Sim<'static>,
    hosts: Vec<SimHost>,
    shared: Rc<RefCell<Shared>>,
    tick: Tick,
}

/// A host of the simulation.
struct SimHost {
    ip: IpAddr,
    /// The root for the next start.
    next: Rc<Cell<Option<Root>>>,
    /// Whether the host is already registered in turmoil.
    known: bool,
}

impl TickMachine {
    /// Creates a machine that seeds `select!` with `seed`.
    pub fn new(seed: u64, tick: Tick) -> Self {
        let sim = Builder::new()
            .tick_duration(tick.length())
            .simulation_duration(Duration::MAX)
            .tcp_capacity(SEGMENTS)
            .rng_seed(seed)
            .build();
        Self { sim, hosts: Vec::new(), shared: Rc::default(), tick }
    }

    /// Handles the events that are due and the orders of the world. Returns whether there were any.
    fn catch_up(&mut self) -> bool {
        let mut acted = self.carry_out();
        while let Some(due) = local::with(|world| world.net.timeline.queue.pop(world.net.now())) {
            local::with(|world| world.act(due));
            self.carry_out();
            acted = true;
        }
        acted
    }

    /// Starts and stops hosts as ordered. Returns whether there were any orders.
    fn carry_out(&mut self) -> bool {
        let orders = std::mem::take(&mut self.shared.borrow_mut().orders);
        let any = !orders.is_empty();
        for order in orders {
            match order {
                MachineOrder::Start(host, root) => self.start(host, root),
                MachineOrder::Stop(host) if self.hosts[host.0].known => {
                    thread::as_host(host, || self.sim.crash(self.hosts[host.0].ip));
                    // Notes of dropped tasks are read now, while the host is dying, so that they
                    // are ignored.
                    local::with(World::read_notes);
                }
                MachineOrder::Stop(_) => {}
            }
        }
        any
    }

    fn start(&mut self, index: HostIx, root: Root) {
        let host = &self.hosts[index.0];
        host.next.set(Some(root));
        if host.known {
            return self.sim.bounce(host.ip);
        }
        let next = host.next.clone();
        self.sim.host(host.ip, move || {
            thread::on_runtime(index);
            run_root(next.take().expect("a host is started with a root"))
        });
        for other in self.hosts.iter().filter(|other| other.known) {
            self.sim.hold(other.ip, host.ip);
        }
        self.hosts[index.0].known = true;
    }

    /// Runs a tick of all hosts. `acted` is whether the world did anything before it.
    fn tick(&mut self, acted: bool) -> Result<(), Stop> {
        self.shared.borrow_mut().links.deliver_marked(&self.sim);
        let stepped = match catch_unwind(AssertUnwindSafe(|| self.sim.step())) {
            Ok(stepped) => stepped.map(|_| ()).map_err(|error| Stop::Error(error.to_string())),
            Err(panic) => Err(Stop::Panic(panic)),
        };
        if thread::count_polls() || acted || stepped.is_err() {
            self.end_turn();
        }
        self.shared.borrow_mut().passed += self.tick.length();
        local::with(|world| world.net.timeline.forget_time());
        thread::progress(TURNS_A_TICK);
        stepped
    }

    /// Ends a tick in which something ran.
    fn end_turn(&mut self) {
        resources::sample_all();
        while local::with(World::read_notes) {
            self.catch_up();
        }
        local::with(|world| {
            world.finish_host_deaths();
            world.after_start();
        });
        self.shared.borrow_mut().links.collect(&self.sim);
        local::with(|world| world.net.egress());
        while local::with(World::read_notes) {
            self.catch_up();
        }
    }
}

/// The reason why there is no next tick.
enum Stop {
    /// turmoil returned an error.
    Error(String),
    /// Code in the simulation panicked, and turmoil stopped.
    Panic(Box<dyn Any + Send>),
}

/// Runs the root of a host, and then stays pending so that the tasks that the root spawned can
/// continue. A panic of the root ends it.
async fn run_root(mut root: Root) -> ::turmoil::Result {
    let lifecycles = thread::RootTaskGuard::of_current_host();
    std::future::poll_fn(|cx| {
        thread::polls_root();
        catch_unwind(AssertUnwindSafe(|| root.as_mut().poll(cx)))
            .unwrap_or(std::task::Poll::Ready(()))
    })
    .await;
    drop((root, lifecycles));
    std::future::pending().await
}

impl Machine for TickMachine {
    fn stack(&mut self, hosts: &[Host]) -> (Box<dyn Stack>, Vec<IpAddr>) {
        let ips: Vec<_> = hosts.iter().map(|host| self.sim.lookup(host.as_str())).collect();
        self.hosts =
            ips.iter().map(|ip| SimHost { ip: *ip, next: Rc::default(), known: false }).collect();
        {
            let mut shared = self.shared.borrow_mut();
            (shared.up, shared.ips) = (vec![false; hosts.len()], ips.clone());
        }
        (Box::new(TickStack(self.shared.clone())), ips)
    }

    fn drive(&mut self, mut until: Time) -> Result<(), RunError> {
        local::with(World::begin_run);
        loop {
            if local::with(|world| world.net.now()) >= until {
                let Some(later) = local::with(World::at_end) else { break };
                until = later;
            }
            let acted = self.catch_up();
            match self.tick(acted) {
                Ok(()) if self.shared.borrow().needs_panic => {
                    let at = local::with(|world| world.net.now());
                    return Err(RunError::Unsupported(format!(
                        "a task of the outside world panics before {at}, and stock turmoil cannot continue after that"
                    )));
                }
                Ok(()) => {}
                // A panic of a task of the subject is in the history, and the history ends here.
                Err(Stop::Panic(_)) if local::with(|world| world.has_panicked()) => break,
                Err(Stop::Panic(panic)) => resume_unwind(panic),
                Err(Stop::Error(why)) => {
                    return Err(RunError::Engine { at: local::with(|world| world.net.now()), why });
                }
            }
        }
        closing::finish();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Plan;
    use crate::world::tests::bare;
    use crate::world::{Engine, Options, carry_out};

    #[test]
    fn when_turmoil_gives_up_the_run_is_an_error() {
        let mut machine = TickMachine::new(1, Tick::LEAST);
        machine.sim.client("saboteur", async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Err("of turmoil's own".into())
        });
        let subject = bare(|_| std::future::pending(), |_| std::future::pending());
        let options = Options { engine: Engine::TURMOIL, ..Options::default() };
        let error =
            carry_out(&subject, &Plan::new("bare"), &options, None, Box::new(machine)).unwrap_err();
        assert_eq!(error.to_string(), "the engine stopped the run at 0.101 s: of turmoil's own");
    }
}
