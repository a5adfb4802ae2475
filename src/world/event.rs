//! The event engine: one paused tokio runtime a world, `turmoil-net`'s socket stack, and virtual time that jumps to the next
//! thing that happens.
//!
//! Two places drive a world. The [`Driver`] is the future that the runtime blocks on: it sleeps until the next thing is due,
//! and does it. [`park`] is called when nothing is ready, which is the end of a turn: it has what is counted looked at, writes what
//! was noted, carries out what that triggers, and lets packets leave their hosts. tokio's paused clock then jumps by itself. Sockets
//! and kernels are in [`stack`].
//!
//! Within a millisecond either packets or timers come first, as drawn. Packets come after timers by waiting for the end of the
//! turn in which the timers fire, where any did; they come before by stopping the clock a nanosecond short of the millisecond.
//!
//! Each time that tokio parks costs about as much as a poll, so what nobody could notice is done without it: the director goes on
//! at once where no task is ready, the clock takes its last nanosecond at the end of the turn, packets that change nothing wait for
//! the next thing that happens ([`quiet`]), and the director's own timer is set once a turn.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, RngSeed, Runtime, RuntimeMetrics};
use tokio::time::{Instant, Sleep, sleep};

use crate::history::Time;
use crate::schedule::Host;

use super::engine::{Machine, Stack};
use super::link::packets_first;
use super::local;
use super::state::World;
use super::steps::Reached;
use super::{RunError, resources};

mod quiet;
mod stack;

use stack::EventStack;

/// A paused runtime of one thread, with the hooks of a world.
pub(super) struct EventMachine {
    runtime: Runtime,
}

impl EventMachine {
    /// A machine whose `select!` is drawn from `seed`.
    pub fn new(seed: u64) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .rng_seed(RngSeed::from_bytes(&seed.to_le_bytes()))
            .on_thread_park(park)
            .on_task_spawn(|task| local::spawned(task.id()))
            .on_before_task_poll(|task| {
                quiet::before_poll();
                if local::before_poll(task.id()) == MOST_POLLS {
                    stop_spinning();
                }
            })
            .on_after_task_poll(|_| local::after_poll())
            .on_task_terminate(|task| local::terminated(task.id()))
            .build()?;
        Ok(Self { runtime })
    }
}

impl Machine for EventMachine {
    fn stack(&mut self, hosts: &[Host]) -> (Box<dyn Stack>, Vec<IpAddr>) {
        let _in_runtime = self.runtime.enter();
        let (stack, ips) = EventStack::new(hosts);
        (Box::new(stack), ips)
    }

    fn drive(&mut self, until: Time) -> Result<(), RunError> {
        self.runtime.block_on(async {
            local::with(World::begin_run);
            Driver::new(until).await;
            // Outside of its runtime, tokio's clock is the real one.
            super::finish();
        });
        Ok(())
    }
}

/// Polls in one instant of virtual time that are taken for a livelock.
const MOST_POLLS: u64 = 300_000;

/// After so many things that were done in one turn, before anybody ran in it, what kernels answered is taken before its end: over a slow
/// link, tens of thousands of segments may arrive at once, and each is acknowledged.
const AT_ONCE: u32 = 4096;

/// Rounds of triggers in one instant of virtual time that are taken for a livelock.
const MOST_ROUNDS: u32 = 100;

fn stop_spinning() {
    local::try_with(|world| {
        world.livelock = Some(format!("{MOST_POLLS} polls"));
        world.wake_driver();
    });
}

/// The end of a turn: nothing is ready.
fn park() {
    local::progress(1);
    let Some(ran) = local::try_with(World::ran) else { return };
    if ran {
        resources::look();
    }
    let (stops, moves_on) = local::with(|world| {
        let now = world.now();
        if ran {
            world.end_turn();
        } else if world.turns.moment != Moment::Open || world.turns.look <= Time(now.0 + 1) {
            world.plan_wake(now);
        }
        world.forget_time();
        (world.livelock.is_some(), world.turns.moment == Moment::MovesOn)
    });
    if moves_on {
        advance(MILLISECOND - JUST_BEFORE);
        local::with(|world| world.turns.moment = Moment::Open);
    }
    if stops {
        local::seal();
    }
}

/// What a world keeps from one turn to the next.
#[derive(Default)]
pub(super) struct Turns {
    notes: Vec<local::TurnNote>,
    /// What tasks reached in the turn, in order.
    reached: Vec<Reached>,
    /// The moment of the last turn, and how many rounds of triggers there were in it.
    last: Time,
    rounds: u32,
    moment: Moment,
    /// tokio's moment at which the run began.
    origin: Option<Instant>,
    /// What the director sleeps with, and until when.
    alarm: Option<Pin<Box<Sleep>>>,
    look: Time,
    /// When the run is over, as far as is known.
    until: Time,
    /// Which knows whether tasks are ready.
    runtime: Option<RuntimeMetrics>,
    /// How many polls there had been at the end of the last turn, and whether the director has done anything since.
    polls: u64,
    acted: bool,
}

/// How far a millisecond is: which of its packets and timers have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Moment {
    /// What is due is done as it comes.
    #[default]
    Open,
    /// Its timers fire in this turn; what else is due waits for the turn's end.
    Timers,
    /// Its timers have fired: what else is due comes now.
    TimersDone,
    /// The turn before it is over: the clock may stop a nanosecond short of it.
    Before(Time),
    /// The clock stands a nanosecond short of it: what is due in it is done, its timers have not fired.
    Packets(Time),
    /// Its packets have come, and what they brought about is due in it, too: the clock moves on to it, and then that is done.
    PacketsDone,
    /// Its packets have come: the clock moves on to it.
    MovesOn,
}

impl World {
    /// Whether anything ran in this turn; otherwise there is nothing to take from anybody.
    fn ran(&mut self) -> bool {
        let now = self.now();
        if self.turns.last != now {
            (self.turns.last, self.turns.rounds) = (now, 0);
            local::time_moved();
        }
        let before = std::mem::replace(&mut self.turns.polls, local::polls());
        std::mem::take(&mut self.turns.acted) || before != self.turns.polls
    }

    /// The end of a turn in which something ran.
    fn end_turn(&mut self) {
        if self.read_notes() {
            self.turns.rounds += 1;
            if self.turns.rounds < MOST_ROUNDS {
                // What was triggered may have made tasks ready: they run in this same instant, before anything leaves.
                return self.next_round();
            }
            self.livelock = Some(format!("{MOST_ROUNDS} rounds of triggers"));
            self.wake_driver();
        }
        self.finish_deaths();
        self.after_start();
        self.egress();
        // What the world itself saw meanwhile is of this turn, too.
        if self.read_notes() {
            return self.next_round();
        }
        self.plan_wake(self.now());
    }

    /// The turn goes on, even if what was triggered moved nobody: what tasks wrote before has not left yet.
    fn next_round(&mut self) {
        self.turns.acted = true;
        self.wake_driver();
    }

    /// Writes what was noted in this turn, and then carries out what that triggers; returns whether it triggered anything. All of it
    /// happened before: what a task recorded behind the milestone at which its host dies is true of the living host.
    pub(super) fn read_notes(&mut self) -> bool {
        let mut notes = std::mem::take(&mut self.turns.notes);
        local::drain(&mut notes);
        let mut reached = std::mem::take(&mut self.turns.reached);
        reached.extend(notes.drain(..).filter_map(|note| self.read_note(note.host, note.what)));
        self.turns.notes = notes;
        let mut acted = false;
        for reached in reached.drain(..) {
            acted |= self.reached(&reached);
        }
        self.turns.reached = reached;
        acted
    }

    /// Has the director go on before the clock jumps, if it has something to do first; or else sleep until it has.
    fn plan_wake(&mut self, now: Time) {
        let next = self.queue.next();
        self.turns.moment = match self.turns.moment {
            Moment::Timers => Moment::TimersDone,
            Moment::Packets(_)
                if next.is_some_and(|next| next <= now)
                    || now >= self.turns.until
                    || self.livelock.is_some() =>
            {
                Moment::PacketsDone
            }
            Moment::Packets(_) => {
                self.turns.moment = Moment::MovesOn;
                return self.sleep_until(self.next_look(now));
            }
            Moment::Open => match self.packets_are_next(now) {
                Some(next) => Moment::Before(next),
                None if next.is_some_and(|next| next <= now) => Moment::Open,
                None => return self.sleep_until(self.next_look(now)),
            },
            other => other,
        };
        self.wake_driver();
    }

    /// The next millisecond, where something is due in it that comes before its timers.
    fn packets_are_next(&self, now: Time) -> Option<Time> {
        let next = Time(now.0 + 1);
        let is_next = self.queue.next()? <= next && self.next_noticed()? == next;
        (is_next && self.is_whole() && packets_first(self.seed(), self.plan.order, next))
            .then_some(next)
    }

    /// The next millisecond, where nothing at all comes before its packets: no end of a turn has to be waited for.
    fn packets_are_all(&self) -> Option<Time> {
        let now = self.now();
        let goes_on =
            self.turns.moment == Moment::Open && now < self.turns.until && self.livelock.is_none();
        if goes_on && self.is_still() { self.packets_are_next(now) } else { None }
    }

    /// Whether nothing has happened since the end of the last turn, and no task is ready: waiting for the end of this one changes nothing.
    fn is_still(&self) -> bool {
        let Turns { acted, polls, runtime, .. } = &self.turns;
        let nobody_is_ready =
            || runtime.as_ref().is_some_and(|runtime| runtime.worker_local_queue_depth(0) == 0);
        !acted && *polls == local::polls() && nobody_is_ready()
    }

    /// Has the director sleep until a virtual time, without waking it to be told.
    fn sleep_until(&mut self, look: Time) {
        let Turns { alarm: Some(alarm), origin: Some(origin), look: before, .. } = &mut self.turns
        else {
            return;
        };
        if std::mem::replace(before, look) != look {
            alarm.as_mut().reset(*origin + Duration::from_millis(look.0));
        }
        // Polling a timer runs no product code. A director that is awake already comes here by itself.
        if self
            .driver
            .as_ref()
            .is_some_and(|driver| alarm.as_mut().poll(&mut Context::from_waker(driver)).is_ready())
        {
            self.wake_driver();
        }
    }
}

/// The grain of virtual time, and how far the clock is moved to stop short of the next.
const MILLISECOND: Duration = Duration::from_millis(1);
const JUST_BEFORE: Duration = Duration::from_nanos(999_999);

/// Moves the paused clock.
fn advance(by: Duration) {
    let mut moved = std::pin::pin!(tokio::time::advance(by));
    // Its first poll moves the clock; what comes after it only yields.
    let _ = moved.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

/// The future that a run blocks on: does what is due, when it is due, until the end.
pub(super) struct Driver(());

impl Driver {
    /// A director that stops at `until`. Must be made inside the runtime.
    pub fn new(until: Time) -> Self {
        local::with(|world| {
            world.turns.until = until;
            world.turns.origin = Some(Instant::now() - world.stack.passed());
            world.turns.alarm = Some(Box::pin(sleep(Duration::ZERO)));
            world.turns.runtime = Some(Handle::current().metrics());
        });
        Self(())
    }

    /// Does all that is due; returns whether the run is over.
    fn act(cx: &Context<'_>) -> bool {
        let moment = local::with(|world| {
            world.driver.get_or_insert_with(|| cx.waker().clone());
            if let Some(next) = world.packets_are_all() {
                world.turns.moment = Moment::Before(next);
            }
            world.turns.moment
        });
        let moment = match moment {
            Moment::Before(at) => {
                advance(JUST_BEFORE);
                Moment::Packets(at)
            }
            Moment::PacketsDone => {
                advance(MILLISECOND - JUST_BEFORE);
                Moment::Open
            }
            other => other,
        };
        local::with(|world| {
            world.forget_time();
            world.turns.moment = moment;
            let now = world.now();
            if world.livelock.is_some() {
                return true;
            }
            world.deliver_passed();
            if now >= world.turns.until && moment == Moment::Open {
                world.turns.acted = true;
                match world.at_end() {
                    Some(until) => world.turns.until = until,
                    None => return true,
                }
            }
            let waits = match moment {
                Moment::Open => world.timers_first(now) && !world.is_still(),
                Moment::Timers => true,
                _ => false,
            };
            if waits {
                world.turns.moment = Moment::Timers;
                return false;
            }
            for n in 1.. {
                let Some(due) = world.queue.pop(now) else { break };
                world.turns.acted = true;
                world.act(due);
                if n % AT_ONCE == 0 && world.turns.polls == local::polls() {
                    world.take_sent();
                }
            }
            if moment == Moment::TimersDone {
                world.turns.moment = Moment::Open;
            }
            // Where something was done, the end of this turn says when the director looks again.
            if !world.turns.acted {
                world.sleep_until(world.next_look(now));
            }
            false
        })
    }
}

impl World {
    /// Whether something is due now that must let the timers of its millisecond go first.
    fn timers_first(&self, now: Time) -> bool {
        self.queue.next() == Some(now) && !packets_first(self.seed(), self.plan.order, now)
    }

    /// When the director looks again: when the next thing is due, or a millisecond before if it comes before the timers.
    fn next_look(&self, now: Time) -> Time {
        let until = self.turns.until;
        let next =
            self.next_noticed().filter(|next| *next > now).map_or(until, |next| next.min(until));
        let early = next > Time(now.0 + 1) && packets_first(self.seed(), self.plan.order, next);
        if early { Time(next.0 - 1) } else { next }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if Self::act(cx) { Poll::Ready(()) } else { Poll::Pending }
    }
}
