//! Tests of the core: a test plays the server.

mod answers;
mod bugs;
mod events;
mod execd;
mod recovery;
mod walk;

use std::time::Duration;

use super::*;
use crate::wire::{Epoch, Event, RefusalBody};

const SECOND: Duration = Duration::from_secs(1);
const EPOCH: Epoch = Epoch(7);

/// Every random number is zero.
struct Zeros;

impl Entropy for Zeros {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// A core, and the time.
struct Play {
    core: Core,
    now: Instant,
}

impl Play {
    fn of(dialect: Dialect, target: Target, cursor: Cursor) -> Self {
        let names = Names { dialect, client: "me".into(), entropy: Arc::new(Zeros) };
        let now = Instant::now();
        Self { core: Core::new(ClientLimits::default(), names, target, cursor, now), now }
    }

    /// Follows the command `c` of a server of this crate.
    fn follow() -> Self {
        Self::of(Dialect::Reknit, known(), Cursor::START)
    }

    /// Starts the command `c`.
    fn start(dialect: Dialect) -> Self {
        let id = (dialect == Dialect::Reknit).then(|| "c".to_owned());
        let request = RunCommand { operation_id: id, ..RunCommand::shell("run") };
        Self::of(dialect, Target::Start(Box::new(request)), Cursor::START)
    }

    /// Returns what the core does now, in a short form.
    fn step(&mut self) -> String {
        match self.core.step(self.now) {
            Step::Wait => "wait".to_owned(),
            Step::Return(Ok(None)) => "over".to_owned(),
            Step::Return(Ok(Some(item))) => shown(&item),
            Step::Return(Err(failure)) => format!("failed: {failure}"),
            Step::Open(order) => match order.ask {
                Ask::Start(request) => format!("start {:?}", request.operation_id),
                Ask::Resume(id, cursor) => format!("resume {id} {cursor}"),
            },
        }
    }

    /// Lets time pass.
    fn sleep(&mut self, time: Duration) {
        self.now += time;
        self.core.wake(self.now);
    }

    /// Waits until the core does something, and returns it with the time that it took.
    fn until_step(&mut self) -> (Duration, String) {
        let start = self.now;
        loop {
            match self.step() {
                step if step != "wait" => return (self.now - start, step),
                _ => {
                    let due = self.core.due().expect("it waits for something");
                    self.sleep(due - self.now);
                }
            }
        }
    }

    /// Opens the next attempt, which brings a stream of the usual run.
    fn streams(&mut self) -> &mut Self {
        self.until_step();
        self.core.opened(Some(EPOCH), self.now);
        self
    }

    /// An event arrives. Returns what the core does.
    fn event(&mut self, position: u64, event: Event) -> String {
        let position = (position != 0).then_some(position);
        let record = Record { position, timestamp: 0, event };
        self.core.arrived(std::iter::once(record), self.now);
        self.step()
    }

    /// A line of output arrives.
    fn prints(&mut self, position: u64) -> String {
        self.event(
            position,
            Event::Output(OutputStream::Stdout, Bytes::from(format!("{position}"))),
        )
    }

    fn ends(&mut self, position: u64) -> String {
        self.event(position, Event::Ended { ending: Ending::Exited(0), took: 1 })
    }

    fn lost(&mut self) -> &mut Self {
        self.core.lost(Loss::Broken, self.now);
        self
    }

    fn refuses(&mut self, status: u16, code: &str, retry_after_ms: Option<u64>) -> &mut Self {
        let (code, message) = (code.into(), "no".into());
        let body = RefusalBody { code, message, retry_after_ms, ..RefusalBody::default() };
        self.core.refused(status, body, self.now);
        self
    }
}

fn known() -> Target {
    Target::Known("c".parse().unwrap())
}

fn shown(item: &Item) -> String {
    match item {
        Item::Output(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Item::Gap(gap) => format!("gap {}..={}", gap.first, gap.last),
        Item::Ended { ending, .. } => format!("{ending:?}"),
    }
}
