//! The command line.
//!
//! [`main`] is the whole program: `reknit` calls it with the built-in subjects, a user's crate
//! calls it with its own subjects. Its exit status is 0 when all properties held, 1 when a property
//! was violated, and 2 for a user error. A user error is one line on standard error that suggests a
//! fix.
//!
//! - `args`: the arguments. `files`: finds and loads scenario files. `select`: selects and changes
//!   their runs.
//! - `run`, `hunt`, `sweep`, `replay`, `shrink`, `keep`, `defects`, `check`, `diff`, `list`: one
//!   command each. `results`: the text output of `run`.
//! - `outputs`: files that a command opens first and writes last. `ci`: reports for CI servers.
//! - `findings`: the findings of hunts and sweeps, saved and reported. `interrupt`: Ctrl-C during
//!   long work. `progress`: the progress line.
//! - `page`: all output. Every command prints through it, so each command can be tested as a
//!   function.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use crate::frontend::{Github, PICTURES, answer, width};
use crate::hunt::fresh::FreshProcess;
use crate::subject::DynSubject;

mod args;
mod check;
mod ci;
mod defects;
mod diff;
mod engine_option;
mod files;
mod findings;
mod hunt;
mod interrupt;
mod keep;
mod ledger;
mod list;
mod outputs;
mod page;
mod progress;
mod replay;
mod results;
mod run;
mod select;
mod shrink;
mod sweep;

use args::{Cli, Command};
use interrupt::INTERRUPTED;
use page::{FOUND, Page, UserError};
use progress::ProgressLine;

/// Runs the program for these subjects: reads the arguments of the process and prints to its
/// standard output.
pub fn main(subjects: Vec<Arc<dyn DynSubject>>) -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(status) = answer(&args, &subjects) {
        return status;
    }
    let (mut out, mut err) = (anstream::stdout(), anstream::stderr());
    let mut page = Page {
        out: &mut out,
        err: &mut err,
        input: &mut std::io::stdin(),
        width: width(),
        live: std::io::stderr().is_terminal(),
        interruptible: true,
        progress: ProgressLine::new(std::io::stderr().is_terminal()),
        fresh: FreshProcess::this_program(),
        pictures: Some(PathBuf::from(PICTURES)),
        found: PathBuf::from(FOUND),
        program: program(&args),
        github: Github::of_this_process(),
        unfinished: false,
        closed: false,
    };
    ExitCode::from(act(&args, &subjects, &mut page))
}

/// Returns the name of this program, as the user called it.
fn program(args: &[OsString]) -> String {
    let name = args.first().map(Path::new).and_then(Path::file_stem);
    name.map_or("reknit".into(), |name| name.to_string_lossy().into_owned())
}

/// Runs the command that the arguments name. Returns the exit status.
fn act(args: &[OsString], subjects: &[Arc<dyn DynSubject>], page: &mut Page<'_>) -> u8 {
    // A negative number gets the message of its option, and no advice to write `--`.
    let parser = Cli::command().mut_subcommands(|command| command.allow_negative_numbers(true));
    let parsed = parser.try_get_matches_from(args);
    let done = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => command(cli.command, subjects, page),
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            page.print(&error.render().ansi().to_string()).map(|()| true)
        }
        Err(error) => Err(UserError(one_line(&error))),
    };
    match done {
        Ok(true) if page.unfinished => INTERRUPTED,
        Ok(true) => 0,
        Ok(false) => 1,
        Err(UserError(why)) => {
            page.print_error(&why);
            2
        }
    }
}

fn command(
    command: Command,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    match command {
        Command::Run(args) => run::run(&args, subjects, page),
        Command::Hunt(args) => hunt::hunt(&args, subjects, page),
        Command::Sweep(args) => sweep::sweep(&args, subjects, page),
        Command::Replay(args) => replay::replay(&args, subjects, page),
        Command::Shrink(args) => shrink::shrink(&args, subjects, page),
        Command::Keep { file } => keep::keep(&file, subjects, page),
        Command::Defects(args) => defects::defects(&args, subjects, page),
        Command::Check { files } => check::check(&files, subjects, page),
        Command::New { subject } => check::new(&subject, subjects, page),
        Command::Diff(args) => diff::diff(&args, subjects, page),
        Command::List { what, subject } => list::list(what, subject.as_deref(), subjects, page),
    }
}

/// The tip of clap to write an unexpected argument behind `--`. It does not help here: no command takes a
/// file or a name that begins with a dash.
const DASHES: &str = "tip: to pass '";

/// Returns the argument error in one line.
fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::MissingSubcommand
        || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        return "name a command: run, hunt, sweep, replay, shrink, keep, defects, check, new, diff or list; --help says what each does"
            .into();
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let rendered = text.split("\n\n").take_while(|part| {
        !part.starts_with("Usage:") && !part.starts_with("For more information")
    });
    let rendered = rendered.map(|part| {
        let helps = |line: &&str| !line.trim_start().starts_with(DASHES);
        let words = part.lines().filter(helps).flat_map(str::split_whitespace);
        words.collect::<Vec<_>>().join(" ")
    });
    rendered.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ").replace("; tip: ", "; ")
}

#[cfg(test)]
mod tests;
