//! Both ends of what a process reads from and prints to: pipes, or a terminal. The process's own end writes down the truth.

use std::future::pending;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::Mutex as Turns;
use tokio::time::sleep;

use super::PIPE;
use super::calls::CallLines;
use super::script::Print;
use crate::history::{ProcessOutcome, Stream};
use crate::process::{Stdio, Streams};
use crate::subject::Recorder;

/// What ends the input of a terminal: Ctrl-D.
const END_OF_INPUT: u8 = 4;

/// The process's ends.
pub(super) struct Far {
    pub(super) stdin: DuplexStream,
    pub(super) stdout: DuplexStream,
    /// None where it has a terminal, which is one with the standard output.
    pub(super) stderr: Option<DuplexStream>,
}

/// What was asked for: the launcher's ends, and the process's. Where nobody is to write to it, its input has ended already.
pub(super) fn ends(stdio: Stdio) -> (Streams, Far) {
    let [(stdin, stdin_far), (stdout, stdout_far), (stderr, stderr_far)] =
        std::array::from_fn(|_| duplex(PIPE));
    let terminal = matches!(stdio, Stdio::Terminal(_));
    let near = Streams {
        stdin: (stdio != Stdio::Pipes { stdin: false }).then(|| Box::new(stdin) as _),
        stdout: Some(Box::new(stdout)),
        stderr: (!terminal).then(|| Box::new(stderr) as _),
    };
    (near, Far { stdin: stdin_far, stdout: stdout_far, stderr: (!terminal).then_some(stderr_far) })
}

/// The process's ends, as it uses them.
pub(super) struct ProcessPipes<'a> {
    pub(super) stdin: Reader<'a>,
    pub(super) stdout: Pen<'a>,
    pub(super) stderr: Pen<'a>,
    /// Whether all three are a terminal.
    pub(super) terminal: bool,
}

impl Far {
    /// The ends of the process of this name in the history.
    pub(super) fn held<'a>(self, name: &str, record: &'a Recorder) -> ProcessPipes<'a> {
        let terminal = self.stderr.is_none();
        let stream = |end: &str| Stream::from(format!("{name}/{end}").as_str());
        let out = Arc::new(Turns::new(self.stdout));
        let err = self.stderr.map_or_else(|| out.clone(), |err| Arc::new(Turns::new(err)));
        let pen = |source: &str, to| Pen {
            source: format!("{name}/{source}"),
            stream: stream(if terminal { "pty" } else { source }),
            record,
            to,
        };
        ProcessPipes {
            stdin: Reader {
                from: self.stdin,
                stream: stream("stdin"),
                record,
                terminal,
                lines: CallLines::default(),
            },
            stdout: pen("stdout", out),
            stderr: pen("stderr", err),
            terminal,
        }
    }
}

/// What a process reads from.
pub(super) struct Reader<'a> {
    from: DuplexStream,
    stream: Stream,
    record: &'a Recorder,
    /// Whether it is a terminal: one that nobody writes to any more has not ended.
    terminal: bool,
    lines: CallLines,
}

impl Reader<'_> {
    /// Reads the standard input to its end, writes down what came, and echoes it where there is an echo.
    pub(super) async fn read(&mut self, echo: Option<&Pen<'_>>) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
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
                    out.log(bytes).await?;
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

/// What a process prints with: to a pipe, or, two of them, to the one terminal.
pub(super) struct Pen<'a> {
    /// What its lines say of where they belong.
    pub(super) source: String,
    /// What the history calls it.
    stream: Stream,
    record: &'a Recorder,
    /// An echo and a line do not mix.
    to: Arc<Turns<DuplexStream>>,
}

impl Pen<'_> {
    pub(super) async fn print(&self, print: Print) -> io::Result<()> {
        for n in 1..=print.lines {
            if !print.every.is_zero() {
                sleep(print.every).await;
            }
            self.log(print.line(&self.source, n)).await?;
        }
        Ok(())
    }

    /// Writes bytes as one item, or in pieces where the pipe is full. Each piece is written down in the same poll in which
    /// the pipe takes it: nobody can read what is not in the history yet, and whoever is killed midway wrote no more.
    pub(super) async fn log(&self, mut bytes: Bytes) -> io::Result<()> {
        let mut pipe = self.to.lock().await;
        while !bytes.is_empty() {
            let taken = pipe.write(&bytes).await?;
            self.record.produced(&self.stream, bytes.split_to(taken));
        }
        Ok(())
    }

    /// Puts it down; the last one closes the pipe. The truth is written before the reader can see it.
    pub(super) fn close(self) {
        let Some(pipe) = Arc::into_inner(self.to) else { return };
        self.record.ended(&self.stream, ProcessOutcome::Closed);
        drop(pipe);
    }
}
