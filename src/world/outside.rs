//! The world's side of what product code takes from outside besides connections: wall clock, randomness, and the journal.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rand_chacha::rand_core::RngCore;

use crate::env::{Entropy, Env, WallClock};
use crate::history::What;
use crate::process::Unsupported;
use crate::schedule::Host;
use crate::subject::Journal;

use super::local::{self, HostIx, Noted};
use super::state::Gauge;
use super::stream::WorldNet;

/// What the wall clocks of a world show at its start: 2026-01-01 00:00 UTC, in seconds since 1970.
const START: u64 = 1_767_225_600;

/// The environment of a host.
pub(super) fn env(host: HostIx) -> Env {
    Env {
        net: Arc::new(WorldNet { host }),
        launch: Arc::new(Unsupported),
        clock: Arc::new(Clock(host)),
        entropy: Arc::new(Dice(host)),
    }
}

/// The wall clock of a host: virtual time, and how far it has jumped.
struct Clock(HostIx);

impl WallClock for Clock {
    fn now(&self) -> SystemTime {
        let (passed, off) = local::with(|world| (world.now().0, world.hosts.get(self.0).clock_off));
        let millis = (START * 1000 + passed).saturating_add_signed(off);
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }
}

/// The randomness of a host, from its start on.
struct Dice(HostIx);

impl Entropy for Dice {
    fn fill(&self, bytes: &mut [u8]) {
        // A task that is torn down after its world gets zeros: nobody sees them.
        bytes.fill(0);
        local::try_with(|world| world.entropy[self.0.0].fill_bytes(bytes));
    }
}

/// Where recorders of a world write.
pub(super) struct WorldJournal;

impl Journal for WorldJournal {
    fn write(&self, host: &Host, what: What) {
        if let Some(host) = local::try_with(|world| world.hosts.named(host)).flatten() {
            local::note_on(host, Noted::Entry(what));
        }
    }

    fn gauge(&self, host: &Host, name: &'static str, count: Box<dyn Fn() -> u64 + Send>) {
        local::try_with(|world| {
            if let Some(host) = world.hosts.named(host) {
                world.gauges.push(Gauge { host, name, count, highest: 0, alive: true });
            }
        });
    }
}
