//! The life of one simulated process: it plays its script until the script or a signal ends it, and writes down the truth.

use std::future::pending;
use std::io;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Mutex as Turns, Notify, oneshot};
use tokio::time::sleep;

use super::script::{End, Print, Script, Stdin, outcome};
use super::{BROKEN_PIPE, KILL};
use crate::history::Stream;
use crate::process::Exit;
use crate::subject::Recorder;

/// Where the signals for a process, and for those whom it started, arrive.
#[derive(Default)]
pub(super) struct Life {
    pending: Mutex<Vec<i32>>,
    arrived: Notify,
}

impl Life {
    /// Sends a signal. It acts when the process is polled next.
    pub(super) fn kill(&self, number: i32) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        self.arrived.notify_one();
    }

    /// Waits for a signal that ends a process that ignores these. The number 0 only asks whether there is a process.
    async fn fatal(&self, ignores: &[i32]) -> i32 {
        loop {
            let arrived = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
            let fatal = |number: &i32| *number == KILL || *number != 0 && !ignores.contains(number);
            if let Some(number) = arrived.into_iter().find(fatal) {
                return number;
            }
            self.arrived.notified().await;
        }
    }
}

/// A process that is about to live.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) script: Script,
    pub(super) record: Recorder,
    pub(super) life: std::sync::Arc<Life>,
    /// Its end of its standard input, output, error.
    pub(super) pipes: [DuplexStream; 3],
}

impl Process {
    /// Plays the script to the end, tells the end to whoever waits for it, and holds the pipes as long as the script says.
    pub(super) async fn live(self, ended: oneshot::Sender<Exit>) {
        let Self { name, script, record, life, pipes: [mut stdin, stdout, stderr] } = self;
        let pen = |pipe: &str, to| Pen { name: format!("{name}/{pipe}"), record: &record, to: Turns::new(to) };
        let (stdout, stderr) = (pen("stdout", stdout), pen("stderr", stderr));
        let input = Stream::from(format!("{name}/stdin").as_str());

        let (exit, all_killed) = tokio::select! {
            biased;
            number = life.fatal(&script.ignores) => (Exit::Signal(number), true),
            exit = play(&script, &record, (&mut stdin, &input), &stdout, &stderr) => (exit, false),
        };
        record.ended(&Stream::from(name.as_str()), outcome(exit));
        let _ = ended.send(exit); // nobody has to wait for it
        drop(stdin);

        if let Some(after) = script.late_output.filter(|_| !all_killed) {
            tokio::select! {
                biased;
                _ = life.fatal(&script.ignores) => {}
                () = last_words(after, script.stdout.lines + 1, &stdout) => {}
            }
        }
        stdout.close();
        stderr.close();
    }
}

/// What a process does until it ends by itself.
async fn play(script: &Script, record: &Recorder, stdin: (&mut DuplexStream, &Stream), out: &Pen<'_>, err: &Pen<'_>) -> Exit {
    let printing = async {
        tokio::try_join!(out.print(script.stdout), err.print(script.stderr))?;
        if script.end == End::Never {
            pending::<()>().await;
        }
        io::Result::Ok(())
    };
    let (pipe, name) = stdin;
    let played = match script.stdin {
        Stdin::Ignores => printing.await,
        Stdin::Echoes => tokio::try_join!(printing, read(pipe, name, record, Some(out))).map(|_| ()),
        Stdin::Reads => tokio::select! {
            biased;
            printed = printing => printed,
            // Its input may end before it does.
            never = async { let _ = read(pipe, name, record, None).await; pending().await } => never,
        },
    };
    match (played, script.end) {
        (Err(_), _) => Exit::Signal(BROKEN_PIPE),
        (Ok(()), End::Code(code)) => Exit::Code(code),
        (Ok(()), End::Signal(number)) => Exit::Signal(number),
        (Ok(()), End::Never) => unreachable!("it prints for ever"),
    }
}

/// Reads the standard input to its end, writes down what came, and echoes it where there is an echo.
async fn read(from: &mut DuplexStream, name: &Stream, record: &Recorder, echo: Option<&Pen<'_>>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let bytes = Bytes::copy_from_slice(&buffer[..count]);
        record.produced(name, bytes.clone());
        if let Some(out) = echo {
            out.say(bytes).await?;
        }
    }
}

/// Whom the process started prints one line more, and goes.
async fn last_words(after: std::time::Duration, n: u64, out: &Pen<'_>) {
    sleep(after).await;
    let line = Print { bytes: None, ..Print::default() }.line(&out.name, n);
    let _ = out.say(line).await; // where nobody reads, nobody misses it
}

/// One of the pipes that a process writes to.
struct Pen<'a> {
    name: String,
    record: &'a Recorder,
    /// An echo and a line do not mix.
    to: Turns<DuplexStream>,
}

impl Pen<'_> {
    fn stream(&self) -> Stream {
        Stream::from(self.name.as_str())
    }

    async fn print(&self, print: Print) -> io::Result<()> {
        for n in 1..=print.lines {
            if !print.every.is_zero() {
                sleep(print.every).await;
            }
            self.say(print.line(&self.name, n)).await?;
        }
        Ok(())
    }

    /// Writes bytes as one item, or in pieces where the pipe is full. Each piece is written down in the same poll in which
    /// the pipe takes it: nobody can read what is not in the history yet, and whoever is killed midway wrote no more.
    async fn say(&self, mut bytes: Bytes) -> io::Result<()> {
        let mut pipe = self.to.lock().await;
        while !bytes.is_empty() {
            let taken = pipe.write(&bytes).await?;
            self.record.produced(&self.stream(), bytes.split_to(taken));
        }
        Ok(())
    }

    /// Closes the pipe. The truth is written before the reader can see it.
    fn close(self) {
        self.record.ended(&self.stream(), "closed");
    }
}
