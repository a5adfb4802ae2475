//! What a command leaves in the background of the exec server in a world.
//!
//! `[process-background.NAME]` declares that the process NAME leaves another process when it exits by itself
//! ([`BackgroundSetup`]). That process holds no pipe, so the close does not wait for it. It belongs to the
//! group of the command: it ends if the server sends a signal to the group, or drops its handle of the
//! command. `Leaving` wraps the launcher of the server. If the server ends such a process before its time,
//! the stream `p1/background` ends. An end at its own time is not recorded.

use std::io;
use std::mem::replace;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::history::{ProcessOutcome, Stream};
use crate::net::BoxFuture;
use crate::process::{Child, Command, Exit, Input, KILL, Launch, Output};
use crate::schedule::Plan;
use crate::schedule::units::WrittenDuration;
use crate::subject::Recorder;
use crate::world::process::calls;

/// The key of the table of processes in the background: `process-background`, as in `[process-background.p1]`. It
/// begins with the letter of `process`, so random schedules draw entries with the names of processes.
pub const TABLE: &str = "process-background";

/// The end of the name of each process in the background: `p1/background`.
pub(super) const PART: &str = "/background";

/// A process that a command leaves in the background: an entry of `[process-background.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct BackgroundSetup {
    /// How long it lives after the exit of its command, if nothing ends it.
    pub lasts: WrittenDuration,
}

/// A launcher whose processes may leave others in the background.
pub(super) struct Leaving {
    launch: Arc<dyn Launch>,
    record: Recorder,
    plan: Arc<Plan>,
}

impl Leaving {
    pub(super) fn new(launch: Arc<dyn Launch>, record: Recorder, plan: Arc<Plan>) -> Self {
        Self { launch, record, plan }
    }

    /// Returns the process that a command will leave, if it leaves one.
    fn left_by(&self, command: &Command) -> Option<Background> {
        let setup: BackgroundSetup = self.plan.entry(TABLE, command.argv.first()?)?;
        let (_, name) = command.env.iter().find(|(known, _)| known == calls::NAME)?;
        let stream = Stream::from(format!("{name}{PART}").as_str());
        let state = BackgroundState::Planned(setup.lasts.0);
        Some(Background { stream, record: self.record.clone(), state })
    }
}

impl Launch for Leaving {
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async move {
            let child = self.launch.launch(command).await?;
            Ok(match self.left_by(command) {
                Some(background) => Box::new(LeavingChild { child, background }) as Box<dyn Child>,
                None => child,
            })
        })
    }

    fn can_confine(&self, command: &Command) -> Result<(), String> {
        self.launch.can_confine(command)
    }
}

/// A process in the background. Dropping it ends it.
struct Background {
    stream: Stream,
    record: Recorder,
    state: BackgroundState,
}

/// The progress of a process in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackgroundState {
    /// Its command has not exited. Then it lives for so long.
    Planned(Duration),
    /// It ends by itself at this time.
    LivesUntil(Instant),
    /// A signal has ended it, or has ended its command before.
    Over,
}

impl Background {
    /// Its command has exited by itself.
    fn begin(&mut self) {
        if let BackgroundState::Planned(lasts) = self.state {
            self.state = BackgroundState::LivesUntil(Instant::now() + lasts);
        }
    }

    /// A signal ends it, unless its time is over.
    fn end(&mut self, number: i32) {
        let state = replace(&mut self.state, BackgroundState::Over);
        if matches!(state, BackgroundState::LivesUntil(end) if end > Instant::now()) {
            self.record.ended(&self.stream, ProcessOutcome::Signal(number));
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end(KILL);
    }
}

/// A command that leaves a process in the background.
struct LeavingChild {
    child: Box<dyn Child>,
    background: Background,
}

impl Child for LeavingChild {
    fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn stdin(&mut self) -> Option<Input> {
        self.child.stdin()
    }

    fn stdout(&mut self) -> Option<Output> {
        self.child.stdout()
    }

    fn stderr(&mut self) -> Option<Output> {
        self.child.stderr()
    }

    /// The signal reaches the whole group. The number 0 only checks whether a process is left.
    fn signal(&mut self, number: i32) -> io::Result<()> {
        if number != 0 {
            self.background.end(number);
        }
        self.child.signal(number)
    }

    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>> {
        Box::pin(async move {
            let exit = self.child.wait().await;
            if matches!(exit, Ok(Exit::Code(_))) {
                self.background.begin();
            }
            exit
        })
    }
}
