//! The operating system's implementation of [`process`](super): real processes, on Unix.
//!
//! **Sessions.** Each process leads its own session and process group, so a signal reaches its
//! descendants and no other process, and it shares no terminal with the launcher.
//!
//! **No other process is hit.** The system may reuse the id of an ended process as soon as the
//! process is reaped. The group may get a signal long after its leader ended, while grandchildren
//! hold the pipes. So, on each `SIGCHLD`, this module only checks for the exit (`WNOWAIT`) and does
//! not reap: the process stays a zombie, and its id stays reserved, until the handle is dropped.
//! Then tokio reaps it.
//!
//! **One thread starts all processes.** The kernel kills a process when the thread that started it
//! ends. So this thread never ends before the program does.
//!
//! **Interrupts and hang-ups arrive.** A shell starts its background jobs with `SIGINT` and `SIGQUIT`
//! ignored, and `nohup` starts its program with `SIGHUP` ignored; programs inherit that. A shell that
//! inherits it cannot even trap the signal. A signal with a handler is reset to its default in a started program.
//! So, if a signal is ignored, the launcher installs a handler (on Linux, where `/proc` shows this).
//!
//! Limits: it does not reach processes that left their group, and it does not notice an exit if the
//! program ignores `SIGCHLD` or reaps processes that it did not start.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{
    Pid, Signal as Number, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group,
    test_kill_process_group, waitid,
};
use tokio::process as os;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::sleep;

#[cfg(target_os = "linux")]
use super::confine;
use super::launcher::{Steps, before_exec, failed_step};
use super::pipes::End;
#[cfg(target_os = "linux")]
use super::placeholders::Placeholders;
use super::{Child, Command, Exit, Input, KILL, Launch, Output, Stdio, Streams, terminal};
use crate::net::BoxFuture;

/// Processes of the operating system. They need a runtime with IO and time.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Launch for System {
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async {
            let command = command.clone();
            let started = on_launcher_thread(move || start(&command)).await?;
            Ok(Box::new(started?) as Box<dyn Child>)
        })
    }

    #[cfg(target_os = "linux")]
    fn can_confine(&self, command: &Command) -> Result<(), String> {
        let Some(confinement) = &command.confinement else { return Ok(()) };
        let directory = directory(command).map_err(|error| error.to_string())?;
        confine::compile(confinement, &directory).map(drop)
    }
}

/// A start.
type Job = Box<dyn FnOnce() + Send>;

/// Runs a start on the thread that starts all processes, in the caller's runtime.
pub(super) async fn on_launcher_thread<T: Send + 'static>(
    start: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let ((done, started), runtime) = (oneshot::channel(), Handle::current());
    // If the caller no longer waits, the drop of a launcher's handle kills its process.
    hand_over(Box::new(move || {
        let _runtime = runtime.enter();
        drop(done.send(start()));
    }))?;
    started.await.map_err(|_| io::Error::other("the start of the process panicked"))
}

fn hand_over(job: Job) -> io::Result<()> {
    static LAUNCHER: Mutex<Option<Sender<Job>>> = Mutex::new(None);
    let mut launcher = LAUNCHER.lock().unwrap_or_else(PoisonError::into_inner);
    let unsent = match &*launcher {
        None => job,
        Some(thread) => match thread.send(job) {
            Ok(()) => return Ok(()),
            Err(unsent) => unsent.0,
        },
    };
    let (jobs, queue) = channel::<Job>();
    std::thread::Builder::new().name("launcher".into()).spawn(move || {
        for job in queue {
            // A panic ends this start only. The end of this thread would kill all processes.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        }
    })?;
    let _ = jobs.send(unsent); // the thread waits for it
    *launcher = Some(jobs);
    Ok(())
}

fn start(command: &Command) -> io::Result<Launched> {
    let (program, arguments) = command.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut builder = os::Command::new(program);
    builder.args(arguments).env_clear().envs(command.env.iter().cloned());
    if let Some(arg0) = &command.arg0 {
        builder.arg0(arg0);
    }
    if let Some(cwd) = &command.cwd {
        builder.current_dir(cwd);
    }
    let somebody_ended = signal(SignalKind::child())?; // before there is anybody who could
    receive_ignored_signals()?;
    let terminal = matches!(command.stdio, Stdio::Terminal(_));
    let streams = streams(&mut builder, command.stdio)?;
    #[allow(unused_mut)] // on other systems
    let mut confinement = Confining::of(command)?;
    let steps = Steps {
        dies_with: Some(getpid()),
        terminal,
        #[cfg(target_os = "linux")]
        confined: confinement.confined,
    };
    before_exec(&mut builder, steps);
    let held =
        builder.spawn().map_err(|error| explained(program, command.cwd.as_deref(), error))?;
    drop(builder); // and with it, this program's copies of the ends of the process
    #[cfg(target_os = "linux")]
    if let Some(report) = confinement.namespace {
        confinement.placeholders.started(report)?;
    }
    let pid = held
        .id()
        .and_then(|id| Pid::from_raw(id as i32))
        .expect("nobody has taken note of its end");
    Ok(Launched {
        pid,
        terminal,
        streams,
        exit: None,
        somebody_ended,
        _held: held,
        #[cfg(target_os = "linux")]
        placeholders: confinement.placeholders,
    })
}

/// The signals that a started program must not ignore only because this program does.
const RESET: [fn() -> SignalKind; 3] =
    [SignalKind::interrupt, SignalKind::quit, SignalKind::hangup];

/// Installs a handler for each of these signals that this program ignores, so that started programs
/// do not ignore it.
pub(super) fn receive_ignored_signals() -> io::Result<()> {
    let ignored = ignored_signals();
    for kind in RESET.map(|kind| kind()) {
        if ignored & 1 << (kind.as_raw_value() - 1) != 0 {
            drop(signal(kind)?); // the handler stays
        }
    }
    Ok(())
}

/// Returns the signals that this program ignores, as a mask; 0 if the system does not show it.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Gives the process its ends of the standard streams; returns the launcher's ends.
fn streams(builder: &mut os::Command, stdio: Stdio) -> io::Result<Streams> {
    let output = |fd: OwnedFd| io::Result::Ok(Some(Box::new(End::new(fd)?) as Output));
    let with_stdin = match stdio {
        Stdio::Terminal(size) => {
            let (near, far) = terminal::open_terminal(size)?;
            builder.stdin(far.try_clone()?).stdout(far.try_clone()?).stderr(far);
            let near = End::new(near)?;
            return Ok(Streams {
                stdin: Some(Box::new(near.clone())),
                stdout: Some(Box::new(near)),
                stderr: None,
            });
        }
        Stdio::Pipes { stdin } => stdin,
    };
    let (stdout, stdout_far) = io::pipe()?;
    let (stderr, stderr_far) = io::pipe()?;
    builder.stdin(std::process::Stdio::null()).stdout(stdout_far).stderr(stderr_far);
    let mut stdin: Option<Input> = None;
    if with_stdin {
        let (far, near) = io::pipe()?;
        builder.stdin(far);
        stdin = Some(Box::new(End::new(near.into())?));
    }
    Ok(Streams { stdin, stdout: output(stdout.into())?, stderr: output(stderr.into())? })
}

/// Returns the working directory of a command.
#[cfg(target_os = "linux")]
fn directory(command: &Command) -> io::Result<std::path::PathBuf> {
    match &command.cwd {
        Some(cwd) => Ok(cwd.into()),
        None => std::env::current_dir(),
    }
}

/// The confinement of a start.
#[derive(Default)]
struct Confining {
    #[cfg(target_os = "linux")]
    confined: Option<confine::Confined>,
    #[cfg(target_os = "linux")]
    placeholders: Placeholders,
    #[cfg(target_os = "linux")]
    namespace: Option<io::PipeReader>,
}

impl Confining {
    #[cfg(target_os = "linux")]
    fn of(command: &Command) -> io::Result<Self> {
        let Some(confinement) = &command.confinement else { return Ok(Self::default()) };
        let plan = confine::compile(confinement, &directory(command)?)
            .map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why))?;
        let placeholders = Placeholders::create(plan.missing)?;
        Ok(Self { confined: Some(plan.confined), placeholders, namespace: plan.namespace })
    }

    #[cfg(not(target_os = "linux"))]
    fn of(command: &Command) -> io::Result<Self> {
        match command.confinement {
            None => Ok(Self::default()),
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Adds the program and directory to an error of the system, which names neither.
pub(super) fn explained(program: &str, cwd: Option<&str>, error: io::Error) -> io::Error {
    let place = cwd.map(|cwd| format!(" in `{cwd}`")).unwrap_or_default();
    let (step, error) = match failed_step(&error) {
        Some((step, error)) => (format!("{step}: "), error),
        None => (String::new(), error),
    };
    io::Error::new(error.kind(), format!("cannot start `{program}`{place}: {step}{error}"))
}

/// The launcher's handle of a process.
struct Launched {
    /// The id of the process and of its group.
    pid: Pid,
    /// Whether its output is a terminal.
    terminal: bool,
    streams: Streams,
    /// Its exit, once it was observed.
    exit: Option<Exit>,
    /// Signals that some child process of this program has ended.
    somebody_ended: Signal,
    /// Reaps the process when dropped: at once, or as soon as it has ended.
    _held: os::Child,
    #[cfg(target_os = "linux")]
    placeholders: Placeholders,
}

/// How long the output of a process can take to pass through a terminal: the kernel moves it in the
/// background.
const TERMINAL_LAG: Duration = Duration::from_millis(5);

impl Launched {
    /// Checks whether it has ended.
    fn look(&self) -> io::Result<Option<Exit>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let Some(status) = waitid(WaitId::Pid(self.pid), options)? else { return Ok(None) };
        Ok(status.exit_status().map(Exit::Code).or(status.terminating_signal().map(Exit::Signal)))
    }
}

impl Child for Launched {
    fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    fn stdin(&mut self) -> Option<Input> {
        self.streams.stdin.take()
    }

    fn stdout(&mut self) -> Option<Output> {
        self.streams.stdout.take()
    }

    fn stderr(&mut self) -> Option<Output> {
        self.streams.stderr.take()
    }

    fn signal(&mut self, number: i32) -> io::Result<()> {
        let sent = match number {
            0 => test_kill_process_group(self.pid),
            _ => kill_process_group(
                self.pid,
                Number::from_named_raw(number).ok_or(io::ErrorKind::InvalidInput)?,
            ),
        };
        sent.map_err(|error| match error {
            rustix::io::Errno::SRCH => io::ErrorKind::NotFound.into(),
            other => other.into(),
        })
    }

    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>> {
        Box::pin(async {
            while self.exit.is_none() {
                if let Some(exit) = self.look()? {
                    if self.terminal {
                        sleep(TERMINAL_LAG).await;
                    }
                    #[cfg(target_os = "linux")]
                    self.placeholders.remove_unused();
                    self.exit = Some(exit);
                    break;
                }
                let down = || io::Error::other("the runtime is down");
                self.somebody_ended.recv().await.ok_or_else(down)?;
            }
            Ok(self.exit.expect("it was waited for"))
        })
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.signal(KILL); // where nobody is left, that is as well
        let _ = kill_process(self.pid, Number::KILL); // a leader who moved to another group
    }
}
