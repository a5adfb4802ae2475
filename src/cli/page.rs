//! Where everything is printed to.

use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;

use crate::frontend::Github;
use crate::hunt::Fresh;

use super::args::Format;
use super::progress::ProgressLine;

/// A mistake of the user's: one line that says what to do. It ends the command with status 2.
#[derive(Debug, PartialEq, Eq)]
pub struct Stop(pub String);

impl<E: std::error::Error> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop(error.to_string())
    }
}

/// Standard output, standard error, standard input, and what is known of them.
pub struct Page<'a> {
    /// Results. Colours are stripped behind it where nobody sees them.
    pub out: &'a mut dyn Write,
    /// Mistakes and progress.
    pub err: &'a mut dyn Write,
    /// What `-` reads.
    pub input: &'a mut dyn Read,
    /// How many characters a line has.
    pub width: usize,
    /// Whether somebody watches: progress is shown.
    pub live: bool,
    /// How far long work is.
    pub progress: ProgressLine,
    /// Who is asked for a second opinion of a run that failed.
    pub fresh: Option<Fresh>,
    /// Where pictures of failures are put; nowhere where there is no such folder.
    pub pictures: Option<PathBuf>,
    /// The name by which this program was called.
    pub program: String,
    /// What a job of GitHub Actions asks for, where this is one.
    pub github: Github,
    /// Whether the reader of the results has gone. The command goes on without a word: its status still counts.
    pub closed: bool,
}

#[cfg(test)]
impl<'a> Page<'a> {
    /// A page of so many characters that nobody watches, with nothing around it.
    pub fn of_test(
        out: &'a mut dyn Write,
        err: &'a mut dyn Write,
        input: &'a mut dyn Read,
        width: usize,
    ) -> Self {
        let (live, fresh, pictures, closed) = (false, None, None, false);
        let (progress, github, program) =
            (ProgressLine::new(live), Github::default(), "reknit".to_owned());
        Self { out, err, input, width, live, progress, fresh, pictures, program, github, closed }
    }
}

impl Page<'_> {
    /// Prints results.
    pub fn print(&mut self, text: &str) -> Result<(), Stop> {
        if self.closed {
            return Ok(());
        }
        let Self { out, progress, .. } = self;
        match progress.suspend(|| out.write_all(text.as_bytes()).and_then(|()| out.flush())) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.closed = true,
            Err(error) => {
                return Err(Stop(format!("standard output cannot be written to: {error}")));
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// Prints a word to a person that is no result: a machine that reads results does not get it.
    pub fn remark(&mut self, text: &str, format: Format) -> Result<(), Stop> {
        if format == Format::Text { self.print(text) } else { Ok(()) }
    }

    /// Prints a mistake: one line, whatever the text. Nobody to read it is no further mistake.
    pub fn complain(&mut self, why: &str) {
        let line = why.split_whitespace().collect::<Vec<_>>().join(" ");
        let Self { err, progress, program, .. } = self;
        progress.suspend(|| writeln!(err, "{program}: {line}").ok());
    }

    /// Prints lines for the machine that runs a job. Nobody to read them is no mistake.
    pub fn mark(&mut self, lines: &str) {
        write!(self.err, "{lines}").ok();
    }

    /// Takes the line of progress away.
    pub fn no_progress(&mut self) {
        self.progress.clear();
    }
}
