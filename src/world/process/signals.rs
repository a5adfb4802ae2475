//! The lifecycle of one simulated process: it plays its script until the script or a signal ends
//! it, and records ground truth.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use super::BROKEN_PIPE;
use super::ends::{ProcessEnds, ProcessInput, ProcessOutput, ProcessPipes};
use super::script::{Print, ProcessEnd, Script, Stdin, outcome};
use crate::history::Stream;
use crate::process::{Exit, KILL};
use crate::subject::Recorder;

/// The signal for a process whose terminal has no reader any more, or whose terminal's first
/// process has ended.
const HANG_UP: i32 = 1;

/// Receives the signals for a process and its children.
#[derive(Default)]
pub(super) struct SignalReceiver {
    pending: Mutex<Vec<i32>>,
    arrived: Notify,
}

impl SignalReceiver {
    /// Sends a signal. It takes effect at the next poll of the process.
    pub(super) fn kill(&self, number: i32) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        self.arrived.notify_one();
    }

    /// Waits for a signal that ends a process that ignores these signals. The number 0 only checks
    /// whether the process exists.
    async fn fatal(&self, ignores: &[i32]) -> i32 {
        loop {
            let arrived =
                std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
            let fatal = |number: &i32| *number == KILL || *number != 0 && !ignores.contains(number);
            if let Some(number) = arrived.into_iter().find(fatal) {
                return number;
            }
            self.arrived.notified().await;
        }
    }
}

/// A process that was not started yet.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) script: Script,
    pub(super) record: Recorder,
    pub(super) signals: Arc<SignalReceiver>,
    pub(super) ends: ProcessEnds,
}

impl Process {
    /// Plays the script to the end, reports the end to its waiter, and holds the pipes as long as
    /// the script requires.
    pub(super) async fn run(self, ended: oneshot::Sender<Exit>) {
        let Self { name, script, record, signals, ends } = self;
        let ProcessPipes { mut stdin, stdout, stderr, terminal } = ends.into_pipes(&name, &record);
        let (exit, all_killed) = tokio::select! {
            biased;
            number = signals.fatal(&script.ignores) => (Exit::Signal(number), true),
            played = run_script(&script, &mut stdin, &stdout, &stderr) => {
                (played.unwrap_or(Exit::Signal(if terminal { HANG_UP } else { BROKEN_PIPE })), false)
            }
        };
        record.ended(&Stream::from(name.as_str()), outcome(exit));
        let _ = ended.send(exit); // the launcher may not wait for the end
        drop(stdin);

        let hung_up = terminal && !script.ignores.contains(&HANG_UP);
        if let Some(after) = script.late_output.filter(|_| !all_killed && !hung_up) {
            tokio::select! {
                biased;
                _ = signals.fatal(&script.ignores) => {}
                () = print_late_output(after, script.stdout.lines + 1, &stdout) => {}
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
    stdin: &mut ProcessInput<'_>,
    out: &ProcessOutput<'_>,
    err: &ProcessOutput<'_>,
) -> io::Result<Exit> {
    let printing = async {
        tokio::try_join!(out.print(script.stdout), err.print(script.stderr))?;
        if script.end == ProcessEnd::Never {
            pending::<()>().await;
        }
        io::Result::Ok(())
    };
    match script.stdin {
        Stdin::Ignores => printing.await?,
        Stdin::Echoes => {
            tokio::try_join!(printing, stdin.read(Some(out)))?;
        }
        Stdin::Reads => tokio::select! {
            biased;
            printed = printing => printed?,
            // The input may end before the process does.
            never = async { let _ = stdin.read(None).await; pending().await } => never,
        },
    }
    Ok(match script.end {
        ProcessEnd::Code(code) => Exit::Code(code),
        ProcessEnd::Signal(number) => Exit::Signal(number),
        ProcessEnd::Never => unreachable!("it prints without end"),
    })
}

/// Prints the last line of a child of the process.
async fn print_late_output(after: std::time::Duration, n: u64, out: &ProcessOutput<'_>) {
    sleep(after).await;
    let line = Print { bytes: None, ..Print::default() }.line(&out.source, n);
    let _ = out.write_item(line).await; // a line without a reader is lost
}
