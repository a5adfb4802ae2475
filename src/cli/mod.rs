//! The command line: what a person runs.
//!
//! [`main`] is all of a program: `reknit` itself calls it with the built-in subjects, a user's crate with its own. Its exit
//! status is 0 when all held, 1 when a property broke, 2 for a mistake of the user's, which is one line on standard error
//! that says what to do.
//!
//! - `args`: the words of the command line. `files`: which files are meant. `select`: which runs of them.
//! - `run`, `hunt`, `sweep`, `replay`, `shrink`, `keep`, `defects`, `check`, `diff`, `list`: a command each. `results`: what a person reads of a `run`.
//! - `outputs`: files that are opened first and written last. `ci`: what CI servers are told.
//! - `finds`: what a hunt or a sweep found, kept and told. `interrupt`: Ctrl-C on long work. `page`: where everything is printed to. `progress`: how far long work is. No command prints past it, so each can be tested as
//!   a function.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use clap::error::ErrorKind;

use crate::frontend::{Github, PICTURES, answer, width};
use crate::hunt::fresh::Fresh;
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
use page::{Page, Stop};
use progress::ProgressLine;

/// The whole command for these subjects: reads the arguments of the process, and prints to its standard output.
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
        progress: ProgressLine::new(std::io::stderr().is_terminal()),
        fresh: Fresh::this_program(),
        pictures: Some(PathBuf::from(PICTURES)),
        program: program(&args),
        github: Github::of_this_process(),
        closed: false,
    };
    ExitCode::from(act(&args, &subjects, &mut page))
}

/// The name by which this program was called.
fn program(args: &[OsString]) -> String {
    let name = args.first().map(Path::new).and_then(Path::file_stem);
    name.map_or("reknit".into(), |name| name.to_string_lossy().into_owned())
}

/// Does what the arguments say; the exit status.
fn act(args: &[OsString], subjects: &[Arc<dyn DynSubject>], page: &mut Page<'_>) -> u8 {
    let done = match Cli::try_parse_from(args) {
        Ok(cli) => command(cli.command, subjects, page),
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            page.print(&error.render().ansi().to_string()).map(|()| true)
        }
        Err(error) => Err(Stop(one_line(&error))),
    };
    match done {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(Stop(why)) => {
            page.complain(&why);
            2
        }
    }
}

fn command(
    command: Command,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, Stop> {
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

/// What is wrong with the arguments, in one line.
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
    let rendered = rendered.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    rendered.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ").replace("; tip: ", "; ")
}

#[cfg(test)]
mod tests;
