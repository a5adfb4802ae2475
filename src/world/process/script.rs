//! Scripts: what a simulated process does, as data.

use std::time::Duration;

use bytes::Bytes;

use crate::history::content::PADDING;
use crate::history::{Digest, ProcessOutcome};
use crate::process::Exit;

/// What a process does: it prints, and reads, and when it has printed everything, it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// What it prints to its standard output.
    pub stdout: Print,
    /// What it prints to its standard error, meanwhile.
    pub stderr: Print,
    /// What it does with its standard input.
    pub stdin: Stdin,
    /// How it ends, once it has printed everything.
    pub end: ProcessEnd,
    /// Somebody whom it started holds its pipes for so long after its end, and then prints a last line to its standard output.
    /// On a terminal, only where they ignore signal 1.
    pub late_output: Option<Duration>,
    /// The signals that it ignores, 9 excepted; every other one ends it.
    pub ignores: Vec<i32>,
}

/// Lines that are printed at a steady pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Print {
    /// How many.
    pub lines: u64,
    /// How long before each of them.
    pub every: Duration,
    /// How many bytes each has, its end included; as many as its text needs where none is given.
    pub bytes: Option<u64>,
}

/// What a process does with its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// It reads what comes.
    #[default]
    Reads,
    /// It reads what comes and prints it, and does not end before its input does.
    Echoes,
    /// It never reads: the pipe fills up, and whoever writes waits.
    Ignores,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exits with this code.
    Code(i32),
    /// It kills itself with this signal.
    Signal(i32),
    /// It stays until somebody ends it.
    Never,
}

impl Default for ProcessEnd {
    fn default() -> Self {
        Self::Code(0)
    }
}

impl Print {
    /// The n-th line, from 1, of the pipe of this name (`p1/stdout`). It tells where it belongs, if that fits; where it does
    /// not, it is made of letters that are a function of the same, so that no two pipes say the same for long.
    pub fn line(&self, pipe: &str, n: u64) -> Bytes {
        let text = format!("{n} {pipe}\n");
        let Some(bytes) = self.bytes.map(|bytes| bytes as usize) else { return text.into() };
        if bytes == 0 {
            return Bytes::new();
        }
        let mut line = text.into_bytes();
        if bytes >= line.len() {
            line.pop();
            // The history keeps a short one as it is: it has no room to spare.
            line.reserve_exact(bytes - line.len());
            line.resize(bytes - 1, PADDING);
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

/// How the history tells of an end: `exit 7`, `signal 9`.
pub(super) fn outcome(exit: Exit) -> ProcessOutcome {
    match exit {
        Exit::Code(code) => ProcessOutcome::Exit(code),
        Exit::Signal(number) => ProcessOutcome::Signal(number),
    }
}
