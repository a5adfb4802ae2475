//! The event engine: one paused tokio runtime per world, the socket stack of `turmoil-net`, and
//! virtual time that jumps to the next event.
//!
//! Two pieces of code drive a world. The [`Driver`] is the future that the runtime blocks on: it
//! sleeps until the next event is due, and handles it. [`park`] runs when no task is ready, which
//! is the end of a turn: it samples the resource counts, writes the notes of the turn, runs the
//! steps that they trigger, and lets packets leave their hosts. Then tokio's paused clock jumps by
//! itself. The sockets and kernels are in [`stack`].
//!
//! Within a millisecond, either packets or timers come first, as drawn. If timers come first, the
//! packets wait for the end of the turn in which the timers fire. If packets come first, the clock
//! stops a nanosecond before the millisecond.
//!
//! Each park of tokio costs about as much as a poll. The engine therefore avoids parks that have no
//! visible effect: the driver continues at once if no task is ready, the clock takes its last
//! nanosecond at the end of the turn, packets that change nothing wait for the next event
//! ([`shortcuts`](crate::world::shortcuts)), and the driver sets its own timer once per turn.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, RngSeed, Runtime};
use tokio::time::{Instant, Sleep, sleep};

use crate::history::Time;
use crate::schedule::Host;

use crate::world::engines::Machine;
use crate::world::local;
use crate::world::network::stack::Stack;
use crate::world::options::{RunError, Shortcuts};
use crate::world::run::closing;
use crate::world::run::resources;
use crate::world::shortcuts::quiet_acks::take_slept_past;
use crate::world::shortcuts::still_turns::TurnActivity;
use crate::world::state::World;
use crate::world::thread;

mod stack;

use stack::EventStack;

/// A paused single-threaded runtime with the hooks of a world.
pub(in crate::world) struct EventMachine {
    runtime: Runtime,
    shortcuts: Shortcuts,
}

impl EventMachine {
    /// Creates a machine that seeds `select!` with `seed`.
    pub fn new(seed: u64, shortcuts: Shortcuts) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .rng_seed(RngSeed::from_bytes(&seed.to_le_bytes()))
            .on_thread_park(park)
            .on_task_spawn(|task| thread::spawned(task.id()))
            .on_before_task_poll(|task| {
                if take_slept_past() {
                    local::try_with(World::deliver_passed);
                }
                if thread::before_poll(task.id()) == MOST_POLLS {
                    report_livelock();
                }
            })
            .on_after_task_poll(|_| thread::after_poll())
            .on_task_terminate(|task| thread::terminated(task.id()))
            .build()?;
        Ok(Self { runtime, shortcuts })
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
            let activity = TurnActivity::new(self.shortcuts.still_turns);
            TURNS.set(local::with(|world| Turns::new(until, activity, world)));
            Driver.await;
            // Outside of the runtime, tokio's clock is the real one.
            closing::finish();
            drop(TURNS.take());
        });
        Ok(())
    }
}

/// The number of polls in one instant of virtual time that counts as a livelock.
const MOST_POLLS: u64 = 300_000;

/// The number of events after which the driver collects the packets that the kernels sent in
/// response, if no task has been polled in the turn. Over a slow link, tens of thousands of
/// segments can arrive at once, and each is acknowledged.
const AT_ONCE: u32 = 4096;

/// The number of rounds of triggers in one instant of virtual time that counts as a livelock.
const MOST_ROUNDS: u32 = 100;

fn report_livelock() {
    local::try_with(|world| {
        world.livelock = Some(format!("{MOST_POLLS} polls"));
        world.net.timeline.wake_driver();
    });
}

/// Ends a turn: no task is ready.
fn park() {
    thread::progress(1);
    if local::try_with(|_| ()).is_none() {
        return;
    }
    let ran = with(Turns::ran);
    if ran {
        resources::sample_all();
    }
    let (stops, moves_on) = with(|turns, world| {
        let now = world.net.now();
        if ran {
            turns.end_turn(world);
        } else if turns.moment != Moment::Open || turns.look <= Time(now.0 + 1) {
            turns.plan_wake(world, now);
        }
        world.net.timeline.forget_time();
        (world.livelock.is_some(), turns.moment == Moment::MovesOn)
    });
    if moves_on {
        advance(MILLISECOND - JUST_BEFORE);
        TURNS.with_borrow_mut(|turns| turns.moment = Moment::Open);
    }
    if stops {
        thread::seal();
    }
}

thread_local! {
    static TURNS: RefCell<Turns> = RefCell::default();
}

/// Calls `f` with the turns and the world of this thread. `f` must not run product code.
fn with<R>(f: impl FnOnce(&mut Turns, &mut World) -> R) -> R {
    TURNS.with_borrow_mut(|turns| local::with(|world| f(turns, world)))
}

/// The state that the engine keeps between turns.
#[derive(Default)]
struct Turns {
    /// The time of the last turn, and the number of rounds of triggers at that time.
    last: Time,
    rounds: u32,
    moment: Moment,
    /// The tokio instant at which the run began.
    origin: Option<Instant>,
    /// The timer of the driver, and the time at which it fires.
    alarm: Option<Pin<Box<Sleep>>>,
    look: Time,
    /// The time at which the run ends, unless the world moves it.
    until: Time,
    activity: TurnActivity,
}

/// The progress within a millisecond: which of its packets and timers have been handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Moment {
    /// Due events are handled as they come.
    #[default]
    Open,
    /// The timers of the millisecond fire in this turn. Other due events wait for the end of the
    /// turn.
    Timers,
    /// The timers of the millisecond have fired. The other due events come now.
    TimersDone,
    /// The turn before the millisecond is over. The clock may now stop a nanosecond before the
    /// millisecond.
    Before(Time),
    /// The clock is a nanosecond before the millisecond. Due events have been handled; the timers
    /// have not fired.
    Packets(Time),
    /// The packets have arrived, and caused more events in the same millisecond. The clock moves to
    /// the millisecond, and then these events are handled.
    PacketsDone,
    /// The packets have arrived. The clock moves to the millisecond.
    MovesOn,
}

impl Turns {
    /// Returns the state at the beginning of a run that ends at `until`. Must be called inside the
    /// runtime.
    fn new(until: Time, activity: TurnActivity, world: &World) -> Self {
        Self {
            until,
            origin: Some(Instant::now() - world.net.timeline.passed()),
            alarm: Some(Box::pin(sleep(Duration::ZERO))),
            activity,
            ..Self::default()
        }
    }

    /// Returns whether anything ran in this turn. If not, there are no notes or packets to collect.
    fn ran(&mut self, world: &mut World) -> bool {
        let now = world.net.now();
        if self.last != now {
            (self.last, self.rounds) = (now, 0);
            thread::time_moved();
        }
        self.activity.next_turn()
    }

    /// Ends a turn in which something ran.
    fn end_turn(&mut self, world: &mut World) {
        if world.read_notes() {
            self.rounds += 1;
            if self.rounds < MOST_ROUNDS {
                // A triggered step may have made tasks ready. They run in the same instant, before
                // any packet leaves.
                return self.next_round(world);
            }
            world.livelock = Some(format!("{MOST_ROUNDS} rounds of triggers"));
            world.net.timeline.wake_driver();
        }
        world.finish_host_deaths();
        world.after_start();
        world.net.egress();
        // Notes that the world itself made in the meantime belong to this turn, too.
        if world.read_notes() {
            return self.next_round(world);
        }
        self.plan_wake(world, world.net.now());
    }

    /// Continues the turn, even if the triggered steps woke no task: data that tasks wrote before
    /// has not left yet.
    fn next_round(&mut self, world: &mut World) {
        self.activity.act();
        world.net.timeline.wake_driver();
    }

    /// Wakes the driver before the clock jumps, if it has something to do first. Otherwise puts it
    /// to sleep until it has.
    fn plan_wake(&mut self, world: &mut World, now: Time) {
        let next = world.net.timeline.queue.next();
        self.moment = match self.moment {
            Moment::Timers => Moment::TimersDone,
            Moment::Packets(_)
                if next.is_some_and(|next| next <= now)
                    || now >= self.until
                    || world.livelock.is_some() =>
            {
                Moment::PacketsDone
            }
            Moment::Packets(_) => {
                self.moment = Moment::MovesOn;
                return self.sleep_until(world, self.next_look(world, now));
            }
            Moment::Open => match self.packets_are_next(world, now) {
                Some(next) => Moment::Before(next),
                None if next.is_some_and(|next| next <= now) => Moment::Open,
                None => return self.sleep_until(world, self.next_look(world, now)),
            },
            other => other,
        };
        world.net.timeline.wake_driver();
    }

    /// Returns the next millisecond, if an event is due in it that comes before its timers.
    fn packets_are_next(&self, world: &World, now: Time) -> Option<Time> {
        let next = Time(now.0 + 1);
        let is_next = world.net.timeline.queue.next()? <= next && world.net.next_noticed()? == next;
        (is_next && world.net.timeline.is_whole() && world.net.packets_first(next)).then_some(next)
    }

    /// Returns the next millisecond, if its packets are the very next event. The driver then does
    /// not have to wait for the end of the turn.
    fn packets_are_all(&self, world: &World) -> Option<Time> {
        let now = world.net.now();
        let goes_on = self.moment == Moment::Open && now < self.until && world.livelock.is_none();
        if goes_on && self.activity.is_still() { self.packets_are_next(world, now) } else { None }
    }

    /// Makes the driver sleep until a virtual time. Sets its timer directly, without waking the
    /// driver.
    fn sleep_until(&mut self, world: &mut World, look: Time) {
        let Turns { alarm: Some(alarm), origin: Some(origin), look: before, .. } = self else {
            return;
        };
        if std::mem::replace(before, look) != look {
            alarm.as_mut().reset(*origin + Duration::from_millis(look.0));
        }
        // Polling a timer runs no product code. A driver that is already awake comes here by
        // itself.
        let driver = &world.net.timeline.driver;
        if driver
            .as_ref()
            .is_some_and(|driver| alarm.as_mut().poll(&mut Context::from_waker(driver)).is_ready())
        {
            world.net.timeline.wake_driver();
        }
    }

    /// Handles everything that is due at this moment. Returns whether the run is over.
    fn act(&mut self, world: &mut World) -> bool {
        let (moment, now) = (self.moment, world.net.now());
        if world.livelock.is_some() {
            return true;
        }
        world.deliver_passed();
        if now >= self.until && moment == Moment::Open {
            self.activity.act();
            match world.at_end() {
                Some(until) => self.until = until,
                None => return true,
            }
        }
        let waits = match moment {
            Moment::Open => self.timers_first(world, now) && !self.activity.is_still(),
            Moment::Timers => true,
            _ => false,
        };
        if waits {
            self.moment = Moment::Timers;
            return false;
        }
        for n in 1.. {
            let Some(due) = world.net.timeline.queue.pop(now) else { break };
            self.activity.act();
            world.act(due);
            if n % AT_ONCE == 0 && !self.activity.has_polled() {
                world.net.take_sent();
            }
        }
        if moment == Moment::TimersDone {
            self.moment = Moment::Open;
        }
        // If something was done, the end of this turn sets the timer of the driver.
        if !self.activity.has_acted() {
            self.sleep_until(world, self.next_look(world, now));
        }
        false
    }

    /// Returns whether an event is due now that must wait for the timers of its millisecond.
    fn timers_first(&self, world: &World, now: Time) -> bool {
        world.net.timeline.queue.next() == Some(now) && !world.net.packets_first(now)
    }

    /// Returns the time of the driver's next check: the time of the next event, or a millisecond
    /// earlier if the event comes before the timers.
    fn next_look(&self, world: &World, now: Time) -> Time {
        let until = self.until;
        let next = world
            .net
            .next_noticed()
            .filter(|next| *next > now)
            .map_or(until, |next| next.min(until));
        let early = next > Time(now.0 + 1) && world.net.packets_first(next);
        if early { Time(next.0 - 1) } else { next }
    }
}

/// The resolution of virtual time, and the step that moves the clock to just before the next
/// millisecond.
const MILLISECOND: Duration = Duration::from_millis(1);
const JUST_BEFORE: Duration = Duration::from_nanos(999_999);

/// Moves the paused clock.
fn advance(by: Duration) {
    let mut moved = std::pin::pin!(tokio::time::advance(by));
    // The first poll moves the clock. Later polls only yield.
    let _ = moved.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

/// The future that a run blocks on. Handles events when they are due, until the end of the run.
struct Driver;

impl Driver {
    /// Handles everything that is due. Returns whether the run is over.
    fn act(cx: &Context<'_>) -> bool {
        let moment = with(|turns, world| {
            world.net.timeline.driver.get_or_insert_with(|| cx.waker().clone());
            if let Some(next) = turns.packets_are_all(world) {
                turns.moment = Moment::Before(next);
            }
            turns.moment
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
        with(|turns, world| {
            world.net.timeline.forget_time();
            turns.moment = moment;
            turns.act(world)
        })
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if Self::act(cx) { Poll::Ready(()) } else { Poll::Pending }
    }
}
