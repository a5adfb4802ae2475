//! The command survives subjects that block their thread, panic or leak, folders that cannot be
//! created, a full disk, and Ctrl-C.
//!
//! Only a separate process can show that the command ends although one of its threads does not. So
//! this program has two roles: it contains the tests, and, when a test starts it again, it is the
//! command with such a subject.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reknit::property::Guarantees;
use reknit::schedule::Limits;
use reknit::subject::{HostContext, Nothing, OperationQueue, Subject};
use reknit::suite::runner::{self, TestCase};

/// If this variable is set, the program is the command.
const COMMAND: &str = "REKNIT_SURVIVAL_COMMAND";

/// A test; returns the reason of a failure.
type Test = fn() -> Result<(), String>;

fn main() -> ExitCode {
    if std::env::var_os(COMMAND).is_some() {
        return reknit::cli::main(vec![Arc::new(Unruly)]);
    }
    let tests: [(&str, Test); 6] = [
        ("a_run_that_blocks_its_thread_is_a_verdict_with_its_seed_and_the_command_ends", stuck),
        (
            "a_hunt_goes_on_after_a_run_that_blocks_its_thread_one_that_panics_and_one_that_leaks",
            unruly,
        ),
        ("a_hunt_prints_what_it_finds_where_no_folder_can_be_made", no_folder),
        ("a_hunt_prints_what_it_finds_where_the_disk_is_full", full_disk),
        ("ctrl_c_ends_a_hunt_with_what_it_has", ctrl_c),
        (
            "what_was_printed_for_want_of_a_file_fails_again_when_it_is_read_from_the_log",
            read_from_the_log,
        ),
    ];
    let trials = tests.map(|(name, test)| TestCase::new(name, test));
    runner::main(trials.into()).expect("arguments of a test program")
}

/// The seeds of the runs that go wrong.
const STUCK: u64 = 7;
const PANICS: u64 = 9;
const LEAKS: u64 = 12;

/// A subject whose client never returns or panics, and whose server leaks tasks, each in one of its
/// runs.
struct Unruly;

impl Subject for Unruly {
    type Operation = Nothing;

    fn name(&self) -> &'static str {
        "unruly"
    }

    fn description(&self) -> &'static str {
        "does what it must not"
    }

    async fn serve(&self, host: HostContext) {
        // The leak check takes its baseline at the end of a server's first turn, so the leak must
        // come later.
        tokio::time::sleep(Duration::from_secs(1)).await;
        if host.plan.seed == LEAKS {
            tokio::spawn(std::future::pending::<()>());
        }
        std::future::pending().await
    }

    async fn drive(&self, host: HostContext, _: OperationQueue<Nothing>) {
        match host.plan.seed {
            STUCK => loop {
                std::thread::park();
            },
            PANICS => panic!("the client's own fault"),
            _ => {}
        }
    }

    fn guarantees(&self, _: &Limits) -> Guarantees {
        Guarantees::default()
    }
}

const FILE: &str = "format = 1\nsubject = \"unruly\"\ntitle = \"It sleeps\"\nseeds = 3\nfirst-seed = 6\nhorizon = \"1s\"\n";

/// Three runs, the second of which blocks its thread.
fn stuck() -> Result<(), String> {
    let done = WorkingFolder::new("stuck")?.command(
        "",
        &["run", "-", "--patience", "1500ms", "--jobs", "1"],
        FILE,
    )?;
    done.contains_words(
        1,
        &[
            "BROKE no_livelock in 1 run",
            "it took more than 1.5 s of real time: a task spins without awaiting, or blocks its thread",
            "3 schedules",
            "replay - --seed 7",
        ],
    )
}

/// A hunt with three failing schedules.
const HUNT: [&str; 9] =
    ["hunt", "unruly", "--seed", "1", "--runs", "20", "--patience", "1500ms", "--jobs"];

fn hunt(place: &WorkingFolder, before: &str, jobs: &str) -> Result<Done, String> {
    place.command(before, &[&HUNT[..], &[jobs]].concat(), "")
}

fn unruly() -> Result<(), String> {
    for jobs in ["1", "2"] {
        let place = WorkingFolder::new("unruly")?;
        let words = [
            "no_livelock",
            "no_panic",
            "the client's own fault",
            "no_residue",
            "20 schedules",
            "3 schedules with violations",
        ];
        hunt(&place, "", jobs)?.contains_words(1, &words)?;
        let kept = std::fs::read_dir(place.0.join("scenarios/found"))
            .map_err(|error| error.to_string())?;
        let mut kept: Vec<_> =
            kept.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        kept.sort_unstable();
        if kept
            != ["unruly-no-livelock-7.toml", "unruly-no-panic-9.toml", "unruly-no-residue-12.toml"]
        {
            return Err(format!("with {jobs} threads it kept {kept:?}"));
        }
    }
    Ok(())
}

/// The folder cannot be created, because a file has that name.
fn no_folder() -> Result<(), String> {
    let place = WorkingFolder::new("no-folder")?;
    std::fs::write(place.0.join("scenarios"), "in the way").map_err(|error| error.to_string())?;
    let done = hunt(&place, "", "2")?;
    done.contains_words(1, &["3 schedules with violations", "-----BEGIN REKNIT SCENARIO-----"])?;
    done.complains("its text is printed instead")
}

/// Shell commands after which no byte can be written to any file.
const FULL: &str = "trap '' XFSZ; ulimit -f 0; ";

fn full_disk() -> Result<(), String> {
    let place = WorkingFolder::new("full-disk")?;
    let done = hunt(&place, FULL, "2")?;
    done.contains_words(1, &["3 schedules with violations", "-----BEGIN REKNIT SCENARIO-----"])?;
    done.complains("its text is printed instead")?;
    let left =
        std::fs::read_dir(place.0.join("scenarios/found")).map_err(|error| error.to_string())?;
    match left.count() {
        0 => Ok(()),
        left => Err(format!("{left} broken files are left")),
    }
}

fn read_from_the_log() -> Result<(), String> {
    let place = WorkingFolder::new("log")?;
    let log = hunt(&place, FULL, "1")?.out;
    let panics = log
        .split("FAIL")
        .find(|story| story.contains("no_panic"))
        .ok_or("no story of the panic")?;
    place
        .command("", &["replay", "-"], panics)?
        .contains_words(1, &["no_panic", "the client's own fault"])
}

/// A terminal in which Ctrl-C is pressed.
const TERMINAL: &str = r#"
import os, pty, select, signal, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen, pressed, began = b"", False, time.time()
while time.time() - began < 50:
    if select.select([fd], [], [], 0.2)[0]:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    if not pressed and time.time() - began > 2:
        pressed = True
        os.write(fd, b"\x03")
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 99)
"#;

fn ctrl_c() -> Result<(), String> {
    let place = WorkingFolder::new("ctrl-c")?;
    let script = place.0.join("terminal.py");
    std::fs::write(&script, TERMINAL).map_err(|error| error.to_string())?;
    // From this seed on, no run goes wrong.
    let before = format!("python3 {} ", script.display());
    let args = ["hunt", "unruly", "--seed", "100", "--runs", "100000000", "--jobs", "2"];
    place.command(&before, &args, "")?.contains_words(130, &["schedules a second", "no violation"])
}

/// The working folder of a command in a test.
struct WorkingFolder(PathBuf);

impl WorkingFolder {
    fn new(name: &str) -> Result<Self, String> {
        let path =
            std::env::temp_dir().join(format!("reknit-survival-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).map_err(|error| error.to_string())?;
        Ok(Self(path))
    }

    /// Runs this program as the command, after `before`, a prefix of shell code.
    fn command(&self, before: &str, args: &[&str], input: &str) -> Result<Done, String> {
        command(&self.0, before, args, input).map(Done::from).map_err(|error| error.to_string())
    }
}

impl Drop for WorkingFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// The output and the exit status of the command.
struct Done {
    status: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Done {
    fn from(done: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { status: done.status.code(), out: text(&done.stdout), err: text(&done.stderr) }
    }
}

impl Done {
    fn contains_words(&self, status: i32, words: &[&str]) -> Result<(), String> {
        if self.status != Some(status) {
            return Err(format!("it ended with {:?}: {}{}", self.status, self.out, self.err));
        }
        let missing = words.iter().find(|word| !self.out.contains(**word));
        missing.map_or(Ok(()), |missing| {
            Err(format!("it did not say `{missing}`: {}{}", self.out, self.err))
        })
    }

    fn complains(&self, words: &str) -> Result<(), String> {
        if self.err.contains(words) {
            Ok(())
        } else {
            Err(format!("it did not complain `{words}`: {}", self.err))
        }
    }
}

/// The time limit of a command that does not wait for anything, on a busy machine.
const AT_MOST: Duration = Duration::from_secs(60);

#[allow(clippy::disallowed_methods)] // the command's real end is what is waited for
fn command(folder: &Path, before: &str, args: &[&str], input: &str) -> std::io::Result<Output> {
    let mut command = Command::new("sh");
    let (exec, rest) = before.rsplit_once("; ").map_or(("", before), |(first, rest)| (first, rest));
    let script = if exec.is_empty() {
        format!("exec {rest}\"$0\" \"$@\"")
    } else {
        format!("{exec}; exec {rest}\"$0\" \"$@\"")
    };
    command.arg("-c").arg(script).arg(std::env::current_exe()?).args(args).current_dir(folder);
    command.env(COMMAND, "yes").env_remove("COLUMNS");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
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
