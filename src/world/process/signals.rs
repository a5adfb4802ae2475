//! The lifecycle of one simulated process: it plays its script until the script or a signal ends
//! it, and records ground truth.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::conditions::{Followed, paced};
use super::ends::{ProcessEnds, ProcessInput, ProcessOutput, ProcessPipes};
use super::script::{Print, ProcessEnd, Script, Stdin, outcome};
use super::table::Registered;
use crate::history::Stream;
use crate::net::{BoxFuture, UnixSockets};
use crate::process::{Exit, KILL};
use crate::subject::Recorder;
use crate::subject::program::SignalSender;

/// The signal for a process that writes to a pipe without a reader.
const BROKEN_PIPE: i32 = 13;

/// The signal for a process whose terminal has no reader any more, or whose terminal's first
/// process has ended.
const HANG_UP: i32 = 1;

/// Receives the signals for a process and its children.
#[derive(Default)]
pub(super) struct SignalReceiver {
    pending: Mutex<Vec<i32>>,
    arrived: Notify,
    machine_is_down: AtomicBool,
    killed_unknown: AtomicBool,
}

impl SignalReceiver {
    /// Sends a signal. It takes effect at the next poll of the process.
    pub(super) fn kill(&self, number: i32) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        self.arrived.notify_one();
    }

    /// Kills the process and all its children, also those that left its group.
    pub(super) fn machine_goes_down(&self) {
        self.machine_is_down.store(true, Ordering::Relaxed);
        self.kill(KILL);
    }

    /// Kills a process whose exit its launcher does not know yet. Its output ends, as that of every
    /// process that is killed.
    pub(super) fn kill_before_exit_is_known(&self) {
        self.killed_unknown.store(true, Ordering::Relaxed);
        self.kill(KILL);
    }

    /// Waits for such a kill, or for the end of the machine. Returns whether it was such a kill.
    async fn killed_before_exit_is_known(&self) -> bool {
        loop {
            if self.machine_is_down.load(Ordering::Relaxed) {
                return false;
            }
            if self.killed_unknown.load(Ordering::Relaxed) {
                return true;
            }
            self.arrived.notified().await;
        }
    }

    /// Waits for the end of the machine.
    async fn machine_down(&self) {
        while !self.machine_is_down.load(Ordering::Relaxed) {
            self.arrived.notified().await;
        }
    }

    /// Waits for a signal that ends a process. `survives` handles a signal that the process may
    /// survive. The number 0 only checks whether the process exists. A stopped process receives only
    /// signal 9; the others wait until it continues.
    async fn fatal(&self, survives: impl Fn(i32) -> bool, conditions: &mut Followed) -> i32 {
        loop {
            let stopped = conditions.now().stopped;
            if let Some(number) = self.take_fatal(stopped, &survives) {
                return number;
            }
            tokio::select! {
                biased;
                () = self.arrived.notified() => {}
                () = conditions.changed() => {}
            }
        }
    }

    fn take_fatal(&self, stopped: bool, survives: &impl Fn(i32) -> bool) -> Option<i32> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.contains(&KILL) {
            return Some(KILL);
        }
        if stopped {
            return None;
        }
        pending.drain(..).find(|number| *number != 0 && !survives(*number))
    }
}

/// A process that was not started yet.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) record: Recorder,
    pub(super) signals: Arc<SignalReceiver>,
    pub(super) conditions: Followed,
    pub(super) body: Body,
}

/// The code of a process, ready to run.
pub(super) enum Body {
    /// A script, with what it says of its command, and the process's ends of its pipes.
    Script(Script, Bytes, ProcessEnds),
    /// A program.
    Program {
        /// The program, which owns its pipes.
        run: BoxFuture<'static, Exit>,
        /// Its signal handlers.
        handled: SignalSender,
        /// Its unix sockets.
        sockets: UnixSockets,
    },
}

/// Learns of the end of a process.
pub(super) struct Ended {
    pub(super) registered: Arc<Registered>,
    /// The launcher that waits for the exit. `None` for a detached process.
    pub(super) waiter: Option<oneshot::Sender<Exit>>,
}

impl Ended {
    fn report(&mut self, exit: Exit) {
        self.registered.exited();
        if let Some(waiter) = self.waiter.take() {
            let _ = waiter.send(exit); // the launcher may not wait for the end
        }
    }
}

impl Process {
    /// Runs the process to its end, and reports the end.
    pub(super) async fn run(self, mut ended: Ended) {
        let Self { name, record, signals, mut conditions, body } = self;
        let (program, handled, sockets) = match body {
            Body::Program { run, handled, sockets } => (run, handled, sockets),
            Body::Script(script, shown, ends) => {
                let script = Scripted { name, script, shown, record, signals, conditions };
                return script.run(ends, ended).await;
            }
        };
        let followed = conditions.clone();
        let killed = async {
            let number = signals.fatal(|number| handled.deliver(number), &mut conditions).await;
            sockets.kill(); // before the program is dropped
            number
        };
        let exit = tokio::select! {
            biased;
            number = killed => Exit::Signal(number),
            exit = paced(program, followed) => exit,
        };
        record.ended(&Stream::from(name.as_str()), outcome(exit));
        ended.report(exit);
    }
}

/// A process that plays a script.
struct Scripted {
    name: String,
    script: Script,
    /// The values that it prints about its command.
    shown: Bytes,
    record: Recorder,
    signals: Arc<SignalReceiver>,
    conditions: Followed,
}

impl Scripted {
    /// Plays the script to the end, reports the end to its waiter, and holds the pipes as long as
    /// the script requires.
    async fn run(self, ends: ProcessEnds, mut ended: Ended) {
        let Self { name, script, shown, record, signals, mut conditions } = self;
        let ignores = |number: i32| script.ignores.contains(&number);
        let ProcessPipes { mut stdin, stdout, stderr, terminal } = ends.into_pipes(&name, &record);
        let followed = conditions.clone();
        let (exit, all_killed) = tokio::select! {
            biased;
            number = signals.fatal(ignores, &mut conditions) => (Exit::Signal(number), true),
            played = paced(run_script(&script, shown, &mut stdin, &stdout, &stderr), followed) => {
                (played.unwrap_or(Exit::Signal(if terminal { HANG_UP } else { BROKEN_PIPE })), false)
            }
        };
        record.ended(&Stream::from(name.as_str()), script.outcome(exit));
        ended.report(exit);
        drop(stdin);

        let hung_up = terminal && !script.ignores.contains(&HANG_UP);
        // The child holds the pipes, and says nothing. After a kill, its launcher need not wait for it.
        let until = Instant::now() + script.late_output.map_or(Duration::ZERO, |late| late.after);
        let holds = async {
            tokio::select! {
                biased;
                () = signals.machine_down() => {}
                () = sleep_until(until) => {}
            }
        };
        if script.late_output.is_some_and(|late| late.is_detached) && all_killed {
            if exit == Exit::Signal(KILL) {
                let pipes = [stdout.end(), stderr.end()];
                holds.await;
                return drop(pipes);
            }
            holds.await;
        } else if let Some(late) = script.late_output.filter(|_| !all_killed && !hung_up) {
            let followed = conditions.clone();
            // Whether the output ends, while the child holds the pipes.
            let killed = async {
                if !late.is_detached {
                    signals.fatal(ignores, &mut conditions).await;
                    return false;
                }
                signals.killed_before_exit_is_known().await
            };
            let line = script.stdout.lines + 1;
            tokio::select! {
                biased;
                output_ends = killed => if output_ends {
                    let pipes = [stdout.end(), stderr.end()];
                    holds.await;
                    return drop(pipes);
                },
                () = paced(print_late_output(late.after, line, &stdout), followed) => {}
            }
        }
        stdout.close();
        stderr.close();
    }
}

/// Plays the script of a process until it ends by itself.
///
/// # Errors
/// If it prints and there is no reader any more.
async fn run_script(
    script: &Script,
    shown: Bytes,
    stdin: &mut ProcessInput<'_>,
    out: &ProcessOutput<'_>,
    err: &ProcessOutput<'_>,
) -> io::Result<Exit> {
    let printing = async {
        out.write_item(shown).await?;
        tokio::try_join!(out.print(script.stdout), err.print(script.stderr))?;
        if script.end == ProcessEnd::Never {
            pending::<()>().await;
        }
        io::Result::Ok(())
    };
    match script.stdin {
        Stdin::Ignores => printing.await?,
        Stdin::Echoes => {
            tokio::try_join!(printing, stdin.read(script.reads_every, Some(out)))?;
        }
        Stdin::Reads => tokio::select! {
            biased;
            printed = printing => printed?,
            // The input may end before the process does.
            never = async {
                let _ = stdin.read(script.reads_every, None).await;
                pending().await
            } => never,
        },
    }
    Ok(match script.end {
        ProcessEnd::Code(code) => Exit::Code(code),
        ProcessEnd::Signal(number) => Exit::Signal(number),
        ProcessEnd::Never => unreachable!("it prints without end"),
    })
}

/// Prints the last line of a child of the process.
async fn print_late_output(after: Duration, n: u64, out: &ProcessOutput<'_>) {
    sleep(after).await;
    let line = Print { bytes: None, ..Print::default() }.line(&out.source, n);
    let _ = out.write_item(line).await; // a line without a reader is lost
}
