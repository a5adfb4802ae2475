//! The second engine: the same world on stock `turmoil`, in ticks. It is slow; it checks the first one, and shows
//! that a protocol which lives in turmoil sees the same.
//!
//! All of turmoil's links are held, so that turmoil decides nothing. After each tick the world looks at the segments that wait on
//! the links: new ones get their fate from the link model, as on the event engine, and those whose arrival has come are handed
//! over before the next tick. A segment that is lost waits there for ever. What the world does with a segment in between is not
//! written twice: [`links`] tells of each as a packet of the event engine.
//!
//! What cannot be said on a held link (an RST, a part of a segment) is enforced where product code holds its end of a connection:
//! an end that was killed gets its error there, whatever turmoil's own socket still believes, and what that socket says afterwards
//! is dropped.
//!
//! A turn is a tick. In it run its timers first, then what arrived in it, in the order of the hosts; what a
//! milestone triggers acts at its end. What happens in a tick is told with its beginning: where ticks are longer than a
//! millisecond, the world is coarser, and quicker. Every host has a runtime of its own, by whose number the world tells whose task speaks.
//!
//! What differs from the event engine, because stock turmoil has no words for it:
//! - a connection is up when the server's user accepts it, and its client knows at once: a SYN-ACK takes no time, cannot be lost,
//!   and there is no third segment; a SYN to a port where nobody listens is refused without a way back; a SYN that comes after its client has given up reaches nobody, so
//!   that the server's end of that connection is never told to be over;
//! - a segment is one write of at most [`SEGMENT`] bytes, and cannot be split on its way. Acknowledgements and windows are the
//!   world's own there ([`windows`](super::windows));
//! - `accept-then-close` is refused: its middleman would have to invent a SYN-ACK;
//! - the order of packets and timers within a millisecond is fixed, whatever the plan wants;
//! - there are no task hooks: tasks and polls are counted by the runtimes' own metrics, and a task that spins hangs the run, where
//!   the event engine tells of a livelock;
//! - a panic of a task that is not the root ends its whole run: turmoil shuts the runtime down. What else turmoil gives up for is an
//!   error of the run.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use ::turmoil::{Builder, Sim};

use crate::history::Time;
use crate::schedule::{Fault, Host};
use crate::subject::Root;

use super::engine::{Machine, Stack};
use super::local::{self, HostIx};
use super::state::World;
use super::{RunError, Tick, resources};

mod links;
mod socket;
mod stack;

use stack::{MachineOrder, Shared, TickStack};

/// The largest segment, as that of the event engine.
const SEGMENT: usize = 1_460;

/// How many segments of a direction may be on their way or unread, and how many connections may wait to be accepted: more than the
/// windows let pass, even of a byte each.
const SEGMENTS: usize = 1 << 18;

/// What a tick costs, in turns of the event engine.
const TURNS_A_TICK: u32 = 64;

/// Why a fault cannot be carried out on this engine, if so.
pub(super) fn cannot(fault: &Fault) -> Option<&'static str> {
    match fault {
        Fault::AcceptThenClose { .. } => {
            Some("accept-then-close needs a SYN-ACK that stock turmoil cannot be given")
        }
        _ => None,
    }
}

/// A simulation of turmoil, and what runs in it.
pub(super) struct TickMachine {
    sim: Sim<'static>,
    hosts: Vec<SimHost>,
    shared: Rc<RefCell<Shared>>,
    tick: Tick,
}

/// A host of the simulation.
struct SimHost {
    ip: IpAddr,
    /// The root that it starts with next.
    next: Rc<Cell<Option<Root>>>,
    /// Whether turmoil knows it already.
    known: bool,
}

impl TickMachine {
    /// A machine whose `select!` is drawn from `seed`.
    pub fn new(seed: u64, tick: Tick) -> Self {
        let sim = Builder::new()
            .tick_duration(tick.length())
            .simulation_duration(Duration::MAX)
            .tcp_capacity(SEGMENTS)
            .rng_seed(seed)
            .build();
        Self { sim, hosts: Vec::new(), shared: Rc::default(), tick }
    }

    /// Does what is due, and what the world has ordered. Returns whether there was anything.
    fn catch_up(&mut self) -> bool {
        let mut acted = self.carry_out();
        while let Some(due) = local::with(|world| world.queue.pop(world.now())) {
            local::with(|world| world.act(due));
            self.carry_out();
            acted = true;
        }
        acted
    }

    /// Starts and stops hosts as ordered. Returns whether any were.
    fn carry_out(&mut self) -> bool {
        let orders = std::mem::take(&mut self.shared.borrow_mut().orders);
        let any = !orders.is_empty();
        for order in orders {
            match order {
                MachineOrder::Start(host, root) => self.start(host, root),
                MachineOrder::Stop(host) if self.hosts[host.0].known => {
                    local::as_host(host, || self.sim.crash(self.hosts[host.0].ip));
                    // What dropped tasks still say is read, and ignored, while the host dies.
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
            local::on_runtime(index);
            live(next.take().expect("a host is started with a root"))
        });
        for other in self.hosts.iter().filter(|other| other.known) {
            self.sim.hold(other.ip, host.ip);
        }
        self.hosts[index.0].known = true;
    }

    /// A tick in which all hosts run; `acted` is whether the world did anything before it.
    fn tick(&mut self, acted: bool) -> Result<(), Stop> {
        self.shared.borrow_mut().links.hand_over(&self.sim);
        let stepped = match catch_unwind(AssertUnwindSafe(|| self.sim.step())) {
            Ok(stepped) => stepped.map(|_| ()).map_err(|error| Stop::Error(error.to_string())),
            Err(panic) => Err(Stop::Panic(panic)),
        };
        if local::count_polls() || acted || stepped.is_err() {
            self.end_turn();
        }
        self.shared.borrow_mut().passed += self.tick.length();
        local::with(|world| world.forget_time());
        local::progress(TURNS_A_TICK);
        stepped
    }

    /// The end of a tick in which something ran.
    fn end_turn(&mut self) {
        resources::look();
        while local::with(World::read_notes) {
            self.catch_up();
        }
        local::with(|world| {
            world.finish_deaths();
            world.after_start();
        });
        self.shared.borrow_mut().links.look(&self.sim);
        local::with(World::egress);
        while local::with(World::read_notes) {
            self.catch_up();
        }
    }
}

/// Why there is no next tick.
enum Stop {
    /// turmoil says so.
    Error(String),
    /// Somebody panicked, and turmoil went down with it.
    Panic(Box<dyn Any + Send>),
}

/// What a host runs: its root; then nothing, but for the tasks that it left behind. A panic of the root is the root's end.
async fn live(mut root: Root) -> ::turmoil::Result {
    let lifecycles = local::RootLives::here();
    std::future::poll_fn(|cx| {
        local::polls_root();
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
            if local::with(|world| world.now()) >= until {
                let Some(later) = local::with(World::at_end) else { break };
                until = later;
            }
            let acted = self.catch_up();
            match self.tick(acted) {
                Ok(()) => {}
                // Where it is a task of the subject, the history says so, and ends here.
                Err(Stop::Panic(_)) if local::with(|world| world.has_panicked()) => break,
                Err(Stop::Panic(panic)) => resume_unwind(panic),
                Err(Stop::Error(why)) => {
                    return Err(RunError::Engine { at: local::with(|world| world.now()), why });
                }
            }
        }
        super::finish();
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
