//! Both ends of the input and output of a process: pipes, or a terminal. The process's own end
//! records ground truth.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::calls::CallLines;
use super::script::Print;
use crate::history::{ProcessOutcome, Stream};
use crate::process::{Stdio, Streams};
use crate::schedule::Pipe;
use crate::subject::Recorder;

/// The capacity of a pipe in bytes, as on Linux. A writer waits while the pipe is full.
pub const PIPE: usize = 65_536;

/// The byte that ends the input of a terminal: Ctrl-D.
const END_OF_INPUT: u8 = 4;

/// The process's ends.
pub(super) struct ProcessEnds {
    pub(super) stdin: DuplexStream,
    pub(super) stdout: DuplexStream,
    /// `None` for a terminal, whose standard error is the same as its standard output.
    pub(super) stderr: Option<DuplexStream>,
}

/// Creates the launcher's ends and the process's ends. If the launcher wants no standard input, the
/// input of the process is already closed. `relay` puts a relay before the launcher's end of a pipe,
/// if the pipe needs one.
pub(super) fn ends(
    stdio: Stdio,
    mut relay: impl FnMut(DuplexStream, Pipe) -> DuplexStream,
) -> (Streams, ProcessEnds) {
    let [(stdin, stdin_far), (stdout, stdout_far), (stderr, stderr_far)] =
        std::array::from_fn(|_| duplex(PIPE));
    let stdin = relay(stdin, Pipe::Stdin);
    let stdout = relay(stdout, Pipe::Stdout);
    let stderr = relay(stderr, Pipe::Stderr);
    let terminal = matches!(stdio, Stdio::Terminal(_));
    let near = Streams {
        stdin: (stdio != Stdio::Pipes { stdin: false }).then(|| Box::new(stdin) as _),
        stdout: Some(Box::new(stdout)),
        stderr: (!terminal).then(|| Box::new(stderr) as _),
    };
    (
        near,
        ProcessEnds {
            stdin: stdin_far,
            stdout: stdout_far,
            stderr: (!terminal).then_some(stderr_far),
        },
    )
}

/// The process's ends, in the form in which the process uses them.
pub(super) struct ProcessPipes<'a> {
    pub(super) stdin: ProcessInput<'a>,
    pub(super) stdout: ProcessOutput<'a>,
    pub(super) stderr: ProcessOutput<'a>,
    /// Whether all three are one terminal.
    pub(super) terminal: bool,
}

impl ProcessEnds {
    /// Returns the ends of the process with this name in the history.
    pub(super) fn into_pipes<'a>(self, name: &str, record: &'a Recorder) -> ProcessPipes<'a> {
        let terminal = self.stderr.is_none();
        let stream = |end: &str| Stream::from(format!("{name}/{end}").as_str());
        let out = Arc::new(Mutex::new(self.stdout));
        let err = self.stderr.map_or_else(|| out.clone(), |err| Arc::new(Mutex::new(err)));
        let output = |source: &str, to| ProcessOutput {
            source: format!("{name}/{source}"),
            stream: stream(if terminal { "pty" } else { source }),
            record,
            to,
        };
        ProcessPipes {
            stdin: ProcessInput {
                from: self.stdin,
                stream: stream("stdin"),
                record,
                terminal,
                lines: CallLines::default(),
            },
            stdout: output("stdout", out),
            stderr: output("stderr", err),
            terminal,
        }
    }
}

/// The input of a process.
pub(super) struct ProcessInput<'a> {
    from: DuplexStream,
    stream: Stream,
    record: &'a Recorder,
    /// Whether the input is a terminal. A terminal does not end when its writer is dropped.
    terminal: bool,
    lines: CallLines,
}

impl ProcessInput<'_> {
    /// Reads the standard input to its end, with this pause before each read, records the bytes, and
    /// writes them to `echo` if there is one.
    pub(super) async fn read(
        &mut self,
        every: Duration,
        echo: Option<&ProcessOutput<'_>>,
    ) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            if !every.is_zero() {
                sleep(every).await;
            }
            let count = self.from.read(&mut buffer).await?;
            let came = &buffer[..count];
            let end = came.iter().position(|byte| self.terminal && *byte == END_OF_INPUT);
            let bytes = Bytes::copy_from_slice(&came[..end.unwrap_or(count)]);
            if !bytes.is_empty() {
                self.record.produced(&self.stream, bytes.clone());
                for call in self.lines.feed(&bytes) {
                    self.record.effect(call, &*self.stream.0);
                }
                if let Some(out) = echo {
                    out.write_item(bytes).await?;
                }
            }
            if end.is_some() || count == 0 && !self.terminal {
                return Ok(());
            }
            if count == 0 {
                pending::<()>().await;
            }
        }
    }
}

/// The output of a process: one per pipe, or two that share a terminal.
pub(super) struct ProcessOutput<'a> {
    /// The name of the pipe, as its lines contain it.
    pub(super) source: String,
    /// The name of the stream in the history.
    stream: Stream,
    record: &'a Recorder,
    /// Locked for each item, so that an echo and a line do not mix.
    to: Arc<Mutex<DuplexStream>>,
}

impl ProcessOutput<'_> {
    pub(super) async fn print(&self, print: Print) -> io::Result<()> {
        for n in 1..=print.lines {
            if !print.every.is_zero() {
                sleep(print.every).await;
            }
            self.write_item(print.line(&self.source, n)).await?;
        }
        Ok(())
    }

    /// Writes bytes as one item, or in pieces if the pipe is full. Each piece is recorded in the
    /// same poll in which the pipe accepts it. So a reader never sees bytes before the history has
    /// them, and a process that is killed midway has recorded exactly what it wrote.
    pub(super) async fn write_item(&self, mut bytes: Bytes) -> io::Result<()> {
        let mut pipe = self.to.lock().await;
        while !bytes.is_empty() {
            let taken = pipe.write(&bytes).await?;
            self.record.produced(&self.stream, bytes.split_to(taken));
        }
        Ok(())
    }

    /// Closes the output; the last one closes the pipe. Records the end before the reader can see
    /// it.
    pub(super) fn close(self) {
        drop(self.end());
    }

    /// Ends the output, but keeps its pipe open: what is written there belongs to the process no more.
    pub(super) fn end(self) -> Option<DuplexStream> {
        let pipe = Arc::into_inner(self.to)?;
        self.record.ended(&self.stream, ProcessOutcome::Closed);
        Some(pipe.into_inner())
    }
}
