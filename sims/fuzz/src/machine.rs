//! An operating system with a few small programs.

use std::future::pending;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use reknit_seams::net::BoxFuture;
use reknit_seams::process::{Child, Command, Exit, INTERRUPT, Input, KILL, Launch, Output, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy, duplex, repeat};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

/// The names of the programs: see [`play`].
pub const PROGRAMS: [&str; 8] = ["echo", "print", "flood", "sleep", "leave", "slow", "missing", ""];

/// The programs that print lines: see [`play`].
pub const PRINTERS: [&str; 8] =
    ["lines", "ticks", "print", "flood", "sleep", "leave", "slow", "missing"];

/// The program that prints what a test types.
pub const TYPED: &str = "typed";

/// The size of a pipe in bytes.
const PIPE: usize = 512;

/// Launches the programs.
#[derive(Default)]
pub struct Machine {
    /// The output of the first process that is [`TYPED`]. There is no other one.
    typed: Mutex<Option<DuplexStream>>,
    launched: AtomicUsize,
}

impl Machine {
    /// Creates a machine, and the end at which a test types.
    pub fn typed() -> (Self, DuplexStream) {
        let (near, far) = duplex(PIPE);
        (Self { typed: Mutex::new(Some(far)), launched: AtomicUsize::new(0) }, near)
    }

    /// Returns how many programs were launched, or should have been.
    pub fn launched(&self) -> usize {
        self.launched.load(Ordering::Relaxed)
    }
}

impl Launch for Machine {
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async {
            self.launched.fetch_add(1, Ordering::Relaxed);
            let mut typed = None;
            match command.argv.first().map(String::as_str) {
                None => return Err(io::ErrorKind::InvalidInput.into()),
                Some("slow") => sleep(Duration::from_secs(5)).await,
                Some(TYPED) => {
                    typed = self.typed.lock().expect("nothing panics under the lock").take();
                    if typed.is_none() {
                        return Err(io::ErrorKind::NotFound.into());
                    }
                }
                Some(known) if PROGRAMS[..5].contains(&known) => {}
                Some(known) if PRINTERS[..2].contains(&known) => {}
                Some(_) => return Err(io::ErrorKind::NotFound.into()),
            }
            Ok(Box::new(Scripted::start(command, typed)) as Box<dyn Child>)
        })
    }
}

struct Scripted {
    stdin: Option<Input>,
    stdout: Option<Output>,
    stderr: Option<Output>,
    exit: watch::Sender<Option<Exit>>,
    _task: JoinSet<()>,
}

impl Scripted {
    fn start(command: &Command, typed: Option<DuplexStream>) -> Self {
        let [(stdin, reads), (stdout, prints), (stderr, complains)] =
            std::array::from_fn(|_| duplex(PIPE));
        let exit = watch::Sender::new(None);
        let (sender, mut ended) = (exit.clone(), exit.subscribe());
        let program = command.argv[0].clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let end = |exit| end(&sender, exit);
            let played = async {
                match typed {
                    Some(mut typed) => {
                        let _ = copy(&mut typed, &mut { prints }).await;
                        end(Exit::Code(0));
                    }
                    None => play(&program, reads, prints, complains, end).await,
                }
            };
            tokio::select! {
                biased;
                _ = ended.wait_for(Option::is_some) => {}
                () = played => end(Exit::Code(3)),
            }
        });
        let (has_stdin, has_stderr) = match command.stdio {
            Stdio::Pipes { stdin } => (stdin, true),
            Stdio::Terminal(_) => (true, false),
        };
        Self {
            stdin: has_stdin.then(|| Box::new(stdin) as Input),
            stdout: Some(Box::new(stdout)),
            stderr: has_stderr.then(|| Box::new(stderr) as Output),
            exit,
            _task: task,
        }
    }
}

/// Records an exit, unless the process had already ended.
fn end(exit: &watch::Sender<Option<Exit>>, how: Exit) {
    exit.send_if_modified(|ended| ended.is_none() && ended.replace(how).is_none());
}

/// Runs a program. `echo` prints its input; `print` prints five words; `flood` prints much data;
/// `leave` exits, and its pipes stay open for a second; `lines` prints lines with all kinds of ends;
/// `ticks` prints a line every second; the others read nothing, and keep running.
async fn play(
    program: &str,
    mut reads: DuplexStream,
    mut prints: DuplexStream,
    mut complains: DuplexStream,
    end: impl Fn(Exit),
) {
    // The reader of the output may have gone away; then the program ends.
    match program {
        "echo" => drop(copy(&mut reads, &mut prints).await),
        "print" => {
            for word in ["one", "two", "three", "four", "five"] {
                let _ = prints.write_all(word.as_bytes()).await;
                let _ = complains.write_all(b"!").await;
            }
        }
        "flood" => drop(copy(&mut repeat(b'x').take(100_000), &mut prints).await),
        "lines" => {
            for line in [&b"a\n"[..], b"b\r\n", b"\n", b"c\r", b"\xff\xfe\n", b"{\"a\"}\n", b"d"] {
                let _ = prints.write_all(line).await;
                let _ = complains.write_all(b"!\n").await;
            }
            end(Exit::Code(0));
        }
        "ticks" => {
            while prints.write_all(b"tick\n").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        }
        "leave" => {
            end(Exit::Code(0));
            sleep(Duration::from_secs(1)).await;
        }
        _ => pending().await,
    }
}

impl Child for Scripted {
    fn pid(&self) -> u32 {
        7
    }

    fn stdin(&mut self) -> Option<Input> {
        self.stdin.take()
    }

    fn stdout(&mut self) -> Option<Output> {
        self.stdout.take()
    }

    fn stderr(&mut self) -> Option<Output> {
        self.stderr.take()
    }

    fn signal(&mut self, number: i32) -> io::Result<()> {
        if [KILL, INTERRUPT].contains(&number) {
            end(&self.exit, Exit::Signal(number));
        }
        Ok(())
    }

    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>> {
        Box::pin(async {
            let mut exit = self.exit.subscribe();
            let exit = *exit.wait_for(Option::is_some).await.map_err(io::Error::other)?;
            Ok(exit.expect("it was waited for"))
        })
    }
}
