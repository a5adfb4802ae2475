//! Processes that a test plays.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit_seams::net::BoxFuture;
use reknit_seams::process::{Child, Command, Exit, Input, Launch, Output};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::sleep;

/// Launches processes, and plays them.
#[derive(Clone, Default)]
pub(super) struct Machine(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    launched: Vec<Launched>,
    refuses: bool,
}

struct Launched {
    command: Command,
    /// The pipes, until the process closes them.
    pipes: [Option<DuplexStream>; 2],
    exit: watch::Sender<Option<Exit>>,
    signals: Arc<Mutex<Vec<i32>>>,
    dropped: watch::Receiver<bool>,
}

/// How long the server gets to react.
const MOMENT: Duration = Duration::from_millis(1);

impl Machine {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Makes all launches fail.
    pub(super) fn refuse(&self) {
        self.inner().refuses = true;
    }

    pub(super) fn launches(&self) -> usize {
        self.inner().launched.len()
    }

    pub(super) fn command(&self, index: usize) -> Command {
        self.inner().launched[index].command.clone()
    }

    pub(super) fn signals(&self, index: usize) -> Vec<i32> {
        self.inner().launched[index].signals.lock().unwrap().clone()
    }

    pub(super) fn is_dropped(&self, index: usize) -> bool {
        *self.inner().launched[index].dropped.borrow()
    }

    /// Prints on the standard output of a process, and waits until the server has read it.
    pub(super) async fn prints(&self, index: usize, text: &str) {
        self.prints_on(index, 0, text.as_bytes()).await;
    }

    /// Prints on a pipe: 0 is the standard output, 1 the standard error.
    pub(super) async fn prints_on(&self, index: usize, pipe: usize, bytes: &[u8]) {
        let mut end = self.inner().launched[index].pipes[pipe].take().unwrap();
        end.write_all(bytes).await.unwrap();
        self.inner().launched[index].pipes[pipe] = Some(end);
        sleep(MOMENT).await;
    }

    /// Ends a process, and closes its pipes.
    pub(super) async fn exits(&self, index: usize, exit: Exit) {
        self.inner().launched[index].pipes = [None, None];
        self.exits_with_open_pipes(index, exit).await;
    }

    /// Ends a process. Another process holds its pipes.
    pub(super) async fn exits_with_open_pipes(&self, index: usize, exit: Exit) {
        self.inner().launched[index].exit.send_replace(Some(exit));
        sleep(MOMENT).await;
    }
}

impl Launch for Machine {
    fn launch<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, io::Result<Box<dyn Child>>> {
        Box::pin(async {
            if self.inner().refuses {
                return Err(io::Error::other("no such program"));
            }
            let (stdout, out) = duplex(1 << 16);
            let (stderr, err) = duplex(1 << 16);
            let (exit, exited) = watch::channel(None);
            let (dropping, dropped) = watch::channel(false);
            let signals = Arc::<Mutex<Vec<i32>>>::default();
            self.inner().launched.push(Launched {
                command: command.clone(),
                pipes: [Some(out), Some(err)],
                exit,
                signals: signals.clone(),
                dropped,
            });
            let pipes = [Some(stdout), Some(stderr)];
            Ok(Box::new(Played { pipes, exited, signals, dropping }) as Box<dyn Child>)
        })
    }
}

/// The server's handle to a process.
struct Played {
    pipes: [Option<DuplexStream>; 2],
    exited: watch::Receiver<Option<Exit>>,
    signals: Arc<Mutex<Vec<i32>>>,
    dropping: watch::Sender<bool>,
}

impl Played {
    fn take(&mut self, pipe: usize) -> Option<Output> {
        self.pipes[pipe].take().map(|pipe| Box::new(pipe) as Output)
    }
}

impl Child for Played {
    fn pid(&self) -> u32 {
        1
    }

    fn stdin(&mut self) -> Option<Input> {
        None
    }

    fn stdout(&mut self) -> Option<Output> {
        self.take(0)
    }

    fn stderr(&mut self) -> Option<Output> {
        self.take(1)
    }

    fn signal(&mut self, number: i32) -> io::Result<()> {
        self.signals.lock().unwrap().push(number);
        Ok(())
    }

    fn wait(&mut self) -> BoxFuture<'_, io::Result<Exit>> {
        Box::pin(async {
            let exit = self.exited.wait_for(Option::is_some).await;
            exit.map(|exit| exit.unwrap()).map_err(|_| io::ErrorKind::BrokenPipe.into())
        })
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.dropping.send_replace(true);
    }
}
