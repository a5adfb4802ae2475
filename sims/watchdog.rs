//! The watchdog, end to end: the command meets a subject that blocks its thread in real time.
//!
//! Only a process shows that the command ends though a thread of it does not. So this program is two things: a test, and, where the
//! test starts it again, the command of such a subject.

use std::io::Write;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use reknit::property::Promise;
use reknit::schedule::Limits;
use reknit::subject::{HostContext, Nothing, Operated, Subject};

/// Set where this program is the command.
const COMMAND: &str = "REKNIT_WATCHDOG_COMMAND";

fn main() -> ExitCode {
    if std::env::var_os(COMMAND).is_some() {
        return reknit::cli::main(vec![Arc::new(Sleeper)]);
    }
    let test = Trial::test("a_run_that_blocks_its_thread_is_a_verdict_with_its_seed_and_the_command_ends", || {
        stuck().map_err(Failed::from)
    });
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}

/// The seed of the run that gets stuck.
const STUCK: u64 = 7;

/// A subject whose client awaits nothing, and never returns, in one of its runs.
struct Sleeper;

impl Subject for Sleeper {
    type Operation = Nothing;

    fn name(&self) -> &'static str {
        "sleeper"
    }

    fn about(&self) -> &'static str {
        "falls asleep where it must not"
    }

    async fn serve(&self, _: HostContext) {
        std::future::pending().await
    }

    async fn drive(&self, host: HostContext, _: Operated<Nothing>) {
        if host.plan.seed == STUCK {
            loop {
                std::thread::park();
            }
        }
    }

    fn promise(&self, _: &Limits) -> Promise {
        Promise::default()
    }
}

const FILE: &str = "format = 1\nsubject = \"sleeper\"\ntitle = \"It sleeps\"\nseeds = 3\nfirst-seed = 6\nhorizon = \"1s\"\n";

/// Three runs, the second of which gets stuck.
fn stuck() -> Result<(), String> {
    let done = command(&["run", "-", "--patience", "1500ms", "--jobs", "1"]).map_err(|error| error.to_string())?;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    if done.status.code() != Some(1) {
        return Err(format!("it ended with {}: {out}{err}", done.status));
    }
    let told = [
        "BROKE no_livelock in 1 run",
        "it took more than 1.5 s of real time: a task spins without awaiting, or blocks its thread",
        "3 schedules",
        "replay - --seed 7",
    ];
    let missing = told.iter().find(|told| !out.contains(**told));
    missing.map_or(Ok(()), |missing| Err(format!("it did not say `{missing}`: {out}")))
}

/// So long a command may take that waits for nobody, on a machine that is busy.
const AT_MOST: Duration = Duration::from_secs(60);

/// Runs this program as the command.
#[allow(clippy::disallowed_methods)] // the command's real end is what is waited for
fn command(args: &[&str]) -> std::io::Result<Output> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(args).env(COMMAND, "yes").env_remove("COLUMNS");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(FILE.as_bytes())?;
    }
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() > AT_MOST {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output()
}
