//! Scripts: the behavior of a simulated process, as data.

use std::num::NonZeroU64;
use std::time::Duration;

use bytes::Bytes;

use crate::history::content::PADDING;
use crate::history::{Digest, ProcessOutcome};
use crate::process::Exit;

/// The behavior of a process: it prints and reads, and ends after it has printed everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// How long its launch takes. The process begins after that.
    pub launch_takes: Duration,
    /// The output to its standard output.
    pub stdout: Print,
    /// The output to its standard error, printed at the same time.
    pub stderr: Print,
    /// How it handles its standard input.
    pub stdin: Stdin,
    /// The pause before each read of its standard input. A read takes at most 4 KiB.
    pub reads_every: Duration,
    /// How it ends after it has printed everything.
    pub end: ProcessEnd,
    /// Whether it prints the command that started it before all other output.
    pub shows_command: bool,
    /// The child that holds the pipes of the process after its end.
    pub late_output: Option<LateOutput>,
    /// The signals that the process ignores. Signal 9 cannot be ignored. Every other signal ends
    /// the process.
    pub ignores: Vec<i32>,
    /// Whether the first wait for the process fails when the process ends, so that its launcher cannot
    /// know how it ended. In the history, it then ends with the exit code [`UNKNOWN_EXIT`].
    pub wait_fails: bool,
}

/// The exit code in the history of a process that nobody could wait for. No process exits with it.
pub const UNKNOWN_EXIT: i32 = -1;

/// Lines that are printed at a steady pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Print {
    /// The number of lines.
    pub lines: u64,
    /// The pause before each line.
    pub every: Duration,
    /// The length of each line in bytes, including its line end. By default, as long as its text
    /// needs.
    pub bytes: Option<u64>,
    /// Each n-th line is blank: it consists of its line end.
    pub blank_every: Option<NonZeroU64>,
    /// Whether the last line has no line end.
    pub open_end: bool,
    /// Whether a line with a length is filled with characters of three bytes.
    pub wide: bool,
}

/// A child of a process, which holds its pipes after the end of the process, and then prints a last
/// line to its standard output. On a terminal, this happens only if the script ignores signal 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateOutput {
    /// How long after the end of the process.
    pub after: Duration,
    /// Whether the child has left the process group, so that no signal for the process reaches it. If a
    /// signal ends the process, the child holds the pipes, but the output of the process ends.
    pub is_detached: bool,
}

/// How a process handles its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// It reads its input.
    #[default]
    Reads,
    /// It reads its input and prints it, and does not end before its input ends.
    Echoes,
    /// It never reads: the pipe fills up, and its writer waits.
    Ignores,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exits with this code.
    Code(i32),
    /// It kills itself with this signal.
    Signal(i32),
    /// It runs until a signal ends it.
    Never,
}

impl Default for ProcessEnd {
    fn default() -> Self {
        Self::Code(0)
    }
}

/// The character that fills wide lines.
const WIDE: &str = "€";

impl Print {
    /// Returns the n-th line, from 1, of the pipe with this name (`p1/stdout`). The line contains
    /// its number and its pipe, if they fit. Otherwise it consists of letters that are computed
    /// from both, so that two pipes soon differ.
    pub fn line(&self, pipe: &str, n: u64) -> Bytes {
        let mut line = self.whole_line(pipe, n);
        if self.open_end && n == self.lines && line.ends_with(b"\n") {
            line.truncate(line.len() - 1);
        }
        line
    }

    /// Returns the n-th line with its line end.
    fn whole_line(&self, pipe: &str, n: u64) -> Bytes {
        if self.blank_every.is_some_and(|every| n.is_multiple_of(every.get())) {
            return Bytes::from_static(b"\n");
        }
        let text = format!("{n} {pipe}\n");
        let Some(bytes) = self.bytes.map(|bytes| bytes as usize) else { return text.into() };
        if bytes == 0 {
            return Bytes::new();
        }
        let mut line = text.into_bytes();
        if bytes >= line.len() {
            line.pop();
            // The history keeps short lines without a copy, so they should have no spare capacity.
            line.reserve_exact(bytes - line.len());
            if self.wide {
                let room = bytes - 1 - line.len();
                line.resize(line.len() + room % WIDE.len(), PADDING);
                line.extend(WIDE.repeat(room / WIDE.len()).bytes());
            } else {
                line.resize(bytes - 1, PADDING);
            }
            line.push(b'\n');
            return line.into();
        }
        let mut digest = Digest::default();
        digest.bytes(&line);
        let letter = |_| {
            digest.number(0);
            b'a' + (digest.value() % 26) as u8
        };
        (0..bytes).map(letter).collect::<Vec<_>>().into()
    }
}

impl Script {
    /// Returns the end of its process in the form of the history.
    pub(super) fn outcome(&self, exit: Exit) -> ProcessOutcome {
        if self.wait_fails { ProcessOutcome::Exit(UNKNOWN_EXIT) } else { outcome(exit) }
    }
}

/// Returns the outcome in the form of the history: `exit 7`, `signal 9`.
pub(super) fn outcome(exit: Exit) -> ProcessOutcome {
    match exit {
        Exit::Code(code) => ProcessOutcome::Exit(code),
        Exit::Signal(number) => ProcessOutcome::Signal(number),
    }
}
