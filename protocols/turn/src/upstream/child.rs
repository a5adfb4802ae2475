//! The process of an app-server: its exit, and the last lines of its standard error.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use reknit_seams::process::{Child, Exit, Output};
use tokio::io::{AsyncRead, ReadBuf};

/// How many pieces of the standard error are read before other work continues.
const MOST_CHUNKS: usize = 64;

/// The process of an app-server. Dropping it kills the process.
pub(super) struct ChildProcess {
    child: Box<dyn Child>,
    stderr: Option<Output>,
    tail: Tail,
}

impl ChildProcess {
    /// Takes over a process whose standard output and input are already taken. Keeps the last
    /// `stderr_bytes` of its standard error.
    pub(super) fn new(mut child: Box<dyn Child>, stderr_bytes: usize) -> Self {
        let (stderr, tail) = (child.stderr(), Tail::new(stderr_bytes));
        Self { child, stderr, tail }
    }

    /// Waits for the exit; meanwhile it reads the standard error. `None` if the exit is unknown.
    pub(super) async fn exit(&mut self) -> Option<Exit> {
        let Self { child, stderr, tail } = self;
        let mut wait = child.wait();
        std::future::poll_fn(|cx| {
            let _ = tail.poll_read(stderr, cx);
            let exit = ready!(wait.as_mut().poll(cx));
            // Now the pipe contains everything that the process wrote before its exit.
            let _ = tail.poll_read(stderr, cx);
            Poll::Ready(exit.ok())
        })
        .await
    }

    /// Sends a signal, if the process has not ended.
    pub(super) fn signal(&mut self, number: i32) {
        match self.child.signal(number) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, number, "signal to the app-server");
            }
            _ => {}
        }
    }

    /// Returns the last lines of the standard error.
    pub(super) fn stderr(&self) -> String {
        self.tail.text()
    }
}

/// The last bytes of a stream.
struct Tail {
    bytes: VecDeque<u8>,
    most: usize,
    /// Whether earlier bytes were dropped.
    cut: bool,
}

impl Tail {
    fn new(most: usize) -> Self {
        Self { bytes: VecDeque::new(), most, cut: false }
    }

    /// Reads everything that is there. Ready at the end of the stream.
    fn poll_read(&mut self, stream: &mut Option<Output>, cx: &mut Context<'_>) -> Poll<()> {
        let mut chunk = [0; 1024];
        for _ in 0..MOST_CHUNKS {
            let Some(open) = stream else { return Poll::Ready(()) };
            let mut chunk = ReadBuf::new(&mut chunk);
            let read = ready!(Pin::new(open).poll_read(cx, &mut chunk));
            if read.is_err() || chunk.filled().is_empty() {
                *stream = None;
            }
            self.bytes.extend(chunk.filled());
            if self.bytes.len() > self.most {
                self.cut = true;
                self.bytes.drain(..self.bytes.len() - self.most);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Returns the text. The first line is left out if its start was dropped.
    fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        match text.split_once('\n') {
            Some((_, rest)) if self.cut => rest.to_owned(),
            _ => text.into_owned(),
        }
    }
}
