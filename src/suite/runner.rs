//! A test runner: runs named tests on several threads, and prints the same output as `cargo test`.
//!
//! It provides the `main` of a test target without the standard harness. It accepts the flags that
//! cargo, cargo-nextest and users pass to a test program ([`Args`]), and exits with the same status
//! codes. It does not capture output, and it has no ignored tests and no benchmarks.

use std::any::Any;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};

mod args;

pub use args::{Args, HELP, RunnerMode};

/// A test: a name and a function.
pub struct TestCase {
    name: String,
    test: Test,
}

/// A test function. It returns the reason for a failure.
type Test = Box<dyn FnOnce() -> Result<(), String> + Send>;

impl TestCase {
    /// Creates a test with this name.
    pub fn new(
        name: impl Into<String>,
        test: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Self {
        Self { name: name.into(), test: Box::new(test) }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The exit status of a test program with a failed test.
const FAILED: u8 = 101;

/// Executes the command line of this process: runs the tests, or lists them. Prints to standard
/// output.
///
/// # Errors
/// If the arguments are invalid, or standard output cannot be written. The error is one sentence.
pub fn main(trials: Vec<TestCase>) -> Result<ExitCode, String> {
    let args = Args::of_this_process()?;
    let mut out = anstream::AutoStream::new(io::stdout(), args.colour);
    let held = run(&args, trials, &mut out)
        .map_err(|error| format!("standard output cannot be written to: {error}"))?;
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Executes the arguments, and returns whether all tests passed.
///
/// # Errors
/// If `out` cannot be written.
pub fn run(args: &Args, mut trials: Vec<TestCase>, out: &mut dyn Write) -> io::Result<bool> {
    let all = trials.len();
    trials.retain(|trial| args.selects(&trial.name));
    match args.mode {
        RunnerMode::Help => out.write_all(HELP.as_bytes()).map(|()| true),
        RunnerMode::List => {
            trials.iter().try_for_each(|trial| writeln!(out, "{}: test", trial.name)).map(|()| true)
        }
        RunnerMode::Run => report(args, all - trials.len(), trials, out),
    }
}

#[allow(clippy::disallowed_methods)] // how long the tests take is real time
fn report(
    args: &Args,
    filtered_out: usize,
    trials: Vec<TestCase>,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let (started, tests) = (Instant::now(), trials.len());
    writeln!(out, "\nrunning {tests} test{}", if tests == 1 { "" } else { "s" })?;
    let width = trials.iter().map(|trial| trial.name.chars().count()).max().unwrap_or_default();
    let mut page = Page { out, quiet: args.quiet, width, failed: Vec::new() };
    if args.threads == 1 {
        one_by_one(trials, &mut page)?;
    } else {
        side_by_side(trials, args.threads, &mut page)?;
    }
    page.end(tests, filtered_out, started.elapsed())
}

/// Runs the tests on this thread. Prints each name before its test runs, so a test that never ends
/// is visible.
fn one_by_one(trials: Vec<TestCase>, page: &mut Page<'_>) -> io::Result<()> {
    trials.into_iter().try_for_each(|TestCase { name, test }| {
        page.begin(&name)?;
        let came = carry_out(test);
        page.result(name, came)
    })
}

/// Runs the tests on several threads. Each thread takes the next test from a queue.
fn side_by_side(trials: Vec<TestCase>, threads: usize, page: &mut Page<'_>) -> io::Result<()> {
    let (results, came) = mpsc::channel();
    let queue = Mutex::new(trials.into_iter());
    let next = || queue.lock().expect("nothing panics under the lock").next();
    thread::scope(|scope| {
        for _ in 0..threads {
            let results = results.clone();
            scope.spawn(move || {
                while let Some(TestCase { name, test }) = next() {
                    // The receiver is dropped only if the page could not be written; that error is
                    // returned.
                    results.send((name, carry_out(test))).ok();
                }
            });
        }
        drop(results);
        came.into_iter().try_for_each(|(name, came)| {
            page.begin(&name)?;
            page.result(name, came)
        })
    })
}

/// Runs a test. A panic counts as a failure.
fn carry_out(test: Test) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(test)).unwrap_or_else(|panic| Err(message(&*panic)))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.map_or_else(|| "test panicked".to_owned(), |text| format!("test panicked: {text}"))
}

/// The printed output of the tests.
struct Page<'a> {
    out: &'a mut dyn Write,
    /// Prints one letter per test instead of a line.
    quiet: bool,
    /// The length of the longest name.
    width: usize,
    /// The failed tests, each with its reason.
    failed: Vec<(String, String)>,
}

impl Page<'_> {
    fn begin(&mut self, name: &str) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        write!(self.out, "test {name:width$} ... ", width = self.width)?;
        self.out.flush()
    }

    fn result(&mut self, name: String, came: Result<(), String>) -> io::Result<()> {
        let (letter, word) = if came.is_ok() { (".", "ok") } else { ("F", "FAILED") };
        let style = style(came.is_ok());
        match self.quiet {
            true => write!(self.out, "{style}{letter}{style:#}")?,
            false => writeln!(self.out, "{style}{word}{style:#}")?,
        }
        self.failed.extend(came.err().map(|why| (name, why)));
        self.out.flush()
    }

    /// Prints the failures and the totals. Returns whether all tests passed.
    fn end(self, tests: usize, filtered_out: usize, lasted: Duration) -> io::Result<bool> {
        let Self { out, failed, .. } = self;
        if !failed.is_empty() {
            writeln!(out, "\nfailures:\n")?;
            failed.iter().try_for_each(|(name, why)| writeln!(out, "---- {name} ----\n{why}\n"))?;
            writeln!(out, "\nfailures:")?;
            failed.iter().try_for_each(|(name, _)| writeln!(out, "    {name}"))?;
        }
        let (held, style) = (failed.is_empty(), style(failed.is_empty()));
        let word = if held { "ok" } else { "FAILED" };
        let (passed, failed, secs) = (tests - failed.len(), failed.len(), lasted.as_secs_f64());
        let counts = format!(
            "{passed} passed; {failed} failed; 0 ignored; 0 measured; {filtered_out} filtered out"
        );
        writeln!(out, "\ntest result: {style}{word}{style:#}. {counts}; finished in {secs:.2}s\n")?;
        out.flush()?;
        Ok(held)
    }
}

fn style(held: bool) -> Style {
    let colour = if held { AnsiColor::Green } else { AnsiColor::Red };
    colour.on_default()
}

#[cfg(test)]
mod tests;
