//! The output of all commands.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::frontend::{Github, PICTURES};
use crate::hunt::FreshProcess;

use super::args::Format;
use super::interrupt::Interrupted;
use super::progress::ProgressLine;

/// A user error: one line that suggests a fix. It ends the command with status 2.
#[derive(Debug, PartialEq, Eq)]
pub struct UserError(pub String);

impl<E: std::error::Error> From<E> for UserError {
    fn from(error: E) -> Self {
        UserError(error.to_string())
    }
}

/// The folder for saved findings.
pub const FOUND: &str = "scenarios/found";

/// Standard output, standard error, standard input, and their settings.
pub struct Page<'a> {
    /// The destination of results. The caller strips colours if the output is not a terminal.
    pub out: &'a mut dyn Write,
    /// The destination of errors and progress.
    pub err: &'a mut dyn Write,
    /// The input that `-` reads.
    pub input: &'a mut dyn Read,
    /// The number of characters per line.
    pub width: usize,
    /// Whether the output is interactive, so that progress is shown.
    pub live: bool,
    /// Whether the first Ctrl-C asks a long command to finish early, also without a terminal: a job of CI
    /// that is cancelled still reports what it found.
    pub interruptible: bool,
    /// The progress line.
    pub progress: ProgressLine,
    /// Runs a failed run again in a fresh process, to confirm the failure.
    pub fresh: Option<FreshProcess>,
    /// The folder for pictures of failures; `None` if there is no such folder.
    pub pictures: Option<PathBuf>,
    /// The folder for files that hunts, sweeps and `shrink` write.
    pub found: PathBuf,
    /// The name of this program, as the user called it.
    pub program: String,
    /// The files and settings of a GitHub Actions job, if this is one.
    pub github: Github,
    /// Whether Ctrl-C ended a search before its end. Then a search without a violation is no success.
    pub unfinished: bool,
    /// Whether the reader of the results closed the pipe. The command continues silently, because
    /// its exit status still counts.
    pub closed: bool,
}

#[cfg(test)]
impl<'a> Page<'a> {
    /// Creates a page of this width for tests: not interactive, and independent of the environment.
    pub fn of_test(
        out: &'a mut dyn Write,
        err: &'a mut dyn Write,
        input: &'a mut dyn Read,
        width: usize,
    ) -> Self {
        let (live, fresh, pictures, unfinished, closed) = (false, None, None, false, false);
        let (progress, github, program) =
            (ProgressLine::new(live), Github::default(), "reknit".to_owned());
        let found = PathBuf::from(FOUND);
        Self {
            out,
            err,
            input,
            width,
            live,
            interruptible: false,
            progress,
            fresh,
            pictures,
            found,
            program,
            github,
            unfinished,
            closed,
        }
    }
}

impl Page<'_> {
    /// Returns the folder for findings. With a defect enabled, a finding is not a real bug; it is saved next
    /// to the pictures.
    pub fn findings_folder(&self, defects: &[String]) -> &Path {
        match &self.pictures {
            _ if defects.is_empty() => &self.found,
            Some(pictures) => pictures,
            None => Path::new(PICTURES),
        }
    }

    /// Listens for Ctrl-C, if the page is interruptible.
    pub fn interrupted(&self) -> Interrupted {
        if self.interruptible { Interrupted::listen() } else { Interrupted::default() }
    }

    /// Prints results.
    pub fn print(&mut self, text: &str) -> Result<(), UserError> {
        if self.closed {
            return Ok(());
        }
        let Self { out, progress, .. } = self;
        match progress.suspend(|| out.write_all(text.as_bytes()).and_then(|()| out.flush())) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.closed = true,
            Err(error) => {
                return Err(UserError(format!("standard output cannot be written to: {error}")));
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// Prints a remark for people. It is left out of machine-readable output.
    pub fn print_note(&mut self, text: &str, format: Format) -> Result<(), UserError> {
        if format == Format::Text { self.print(text) } else { Ok(()) }
    }

    /// Prints an error in one line, whatever the text contains. A closed standard error is ignored.
    pub fn print_error(&mut self, why: &str) {
        let line = why.split_whitespace().collect::<Vec<_>>().join(" ");
        let Self { err, progress, program, .. } = self;
        progress.suspend(|| writeln!(err, "{program}: {line}").ok());
    }

    /// Prints lines for the CI server. A closed standard error is ignored.
    pub fn mark(&mut self, lines: &str) {
        write!(self.err, "{lines}").ok();
    }

    /// Removes the progress line.
    pub fn no_progress(&mut self) {
        self.progress.clear();
    }
}
