//! A second opinion from a fresh process: the same run in a process that did nothing before.
//!
//! What leaks from one run of a process into the next (a lazy static, a counter, an address) makes a failure that nobody can
//! show again. So a failing run is [judged](mod@super::judge) again by a new process of the same program, which is given the plan
//! and what is expected of it as a scenario file on its standard input, and prints the [statement](super::judge::Judged::statement) of the run.
//! Every binary made with `reknit::cli::main` or `reknit::tests!` can be asked so, by [`ASK`] as its first argument.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::scenario::{Expect, ScenarioFile};
use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::{Engine, Options, Tick};

use super::judge::{JudgedRun, judge};
use super::pool::pulse;

/// The first argument by which a program is asked.
pub const ASK: &str = "__digest";

/// How a later argument begins that says that the run is on stock turmoil: the milliseconds of a tick follow.
const TURMOIL: &str = "turmoil:";

/// A later argument: the run has a twin.
const CONTROL: &str = "twin";

/// How long a fresh process may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    program: PathBuf,
}

impl Fresh {
    /// A program that answers, or is to be found out not to.
    #[cfg(test)]
    pub(super) fn of(program: &str) -> Self {
        Self { program: program.into() }
    }

    /// This program, which must answer [`ASK`]. `None` where the operating system does not tell which it is.
    pub fn this_program() -> Option<Self> {
        std::env::current_exe().ok().map(|program| Self { program })
    }

    /// What a fresh process says of a run, with a twin or without: its [statement](super::judge::Judged::statement).
    ///
    /// # Errors
    /// If the process cannot be started, does not answer in time, or says that it cannot do the run: in one sentence.
    pub fn ask(
        &self,
        plan: &Plan,
        expect: &Expect,
        engine: Engine,
        control: bool,
    ) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.arg(ASK).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.args(how(engine, control));
        let file =
            ScenarioFile { expect: expect.clone(), ..ScenarioFile::of_plan(plan.clone(), "asked") }
                .to_toml();
        let mut child =
            command.spawn().map_err(|error| format!("a fresh process did not start: {error}"))?;
        let rendered = converse(&mut child, file);
        if rendered.is_err() {
            child.kill().ok();
        }
        child.wait().ok();
        rendered
    }
}

/// The later arguments: how a run is carried out.
pub(super) fn how(engine: Engine, control: bool) -> Vec<String> {
    let turmoil = match engine {
        Engine::Event => None,
        Engine::Turmoil(tick) => Some(format!("{TURMOIL}{}", tick.length().as_millis())),
    };
    turmoil.into_iter().chain(control.then(|| CONTROL.to_owned())).collect()
}

/// Gives the child its file, and reads what it says, with patience.
fn converse(child: &mut Child, file: String) -> Result<String, String> {
    let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("a fresh process has no pipes".into());
    };
    let (report, rendered) = channel();
    std::thread::spawn(move || {
        let mut rendered = String::new();
        let done = input.write_all(file.as_bytes()).and_then(|()| {
            drop(input);
            output.read_to_string(&mut rendered)
        });
        report.send(done.map(|_| rendered)).ok();
    });
    // Who waits for another process is not stuck itself.
    let answer = (0..PATIENCE.as_secs()).find_map(|_| {
        pulse();
        rendered.recv_timeout(Duration::from_secs(1)).ok()
    });
    let rendered = answer
        .ok_or_else(|| format!("a fresh process did not answer in {} s", PATIENCE.as_secs()))?;
    let rendered = rendered.map_err(|error| format!("a fresh process did not answer: {error}"))?;
    if rendered.is_empty() {
        Err("a fresh process ended without an answer".into())
    } else {
        Ok(rendered)
    }
}

/// The fresh process's side: judges the run of the file, and returns what to print. `how` are the arguments after [`ASK`].
///
/// # Errors
/// If there is no such run, in one sentence.
pub fn answer(
    file: &str,
    how: &[&str],
    subjects: &[Arc<dyn DynSubject>],
) -> Result<String, String> {
    let scenario =
        ScenarioFile::parse(file, "-", subjects).map_err(|mistake| mistake.to_string())?;
    let plan = scenario.plans().into_iter().next().ok_or("the file has no plan")?;
    let subject = subjects
        .iter()
        .find(|subject| subject.name() == plan.subject)
        .ok_or("there is no such subject")?;
    let engine = match how.iter().find_map(|word| word.strip_prefix(TURMOIL)) {
        Some(millis) => Engine::Turmoil(tick(millis).ok_or("there is no such tick")?),
        None => Engine::Event,
    };
    let case = JudgedRun { subject, plan: &plan, expect: &scenario.expect };
    let judged = judge(case, &Options { engine, ..Options::default() }, |_| how.contains(&CONTROL));
    judged.map(|judged| judged.statement()).map_err(|error| error.to_string())
}

fn tick(millis: &str) -> Option<Tick> {
    Tick::of(Duration::from_millis(millis.parse().ok()?))
}
