//! A second opinion from a fresh process: the same run in a process that has done nothing before.
//!
//! State that leaks from one run of a process into the next (a lazy static, a counter, an address)
//! can cause a failure that cannot be reproduced. A failing run is therefore
//! [judged](mod@super::judge) again by a new process of the same program. The process receives the
//! plan and its expectations as a scenario file on standard input, and prints the
//! [statement](super::judge::Judged::statement) of the run. Every binary made with
//! `reknit::cli::main` or `reknit::tests!` supports this: pass [`ASK`] as its first argument.

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

/// The first argument that makes a program judge a run from standard input.
pub const ASK: &str = "__digest";

/// Prefix of an optional later argument: the run uses stock turmoil. The tick length in
/// milliseconds follows.
const TURMOIL: &str = "turmoil:";

/// Optional later argument: the run has a control run.
const CONTROL: &str = "control";

/// The time limit for a fresh process.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that can judge a run in a fresh process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshProcess {
    program: PathBuf,
}

impl FreshProcess {
    /// Uses any program, for tests with a program that does not answer.
    #[cfg(test)]
    pub(super) fn of(program: &str) -> Self {
        Self { program: program.into() }
    }

    /// Returns the current program, which must support [`ASK`]. Returns `None` if the operating
    /// system does not report the path of the executable.
    pub fn this_program() -> Option<Self> {
        std::env::current_exe().ok().map(|program| Self { program })
    }

    /// Judges a run in a fresh process, with or without a control run, and returns its
    /// [statement](super::judge::Judged::statement).
    ///
    /// # Errors
    /// If the process cannot be started, does not answer in time, or reports that it cannot do the
    /// run. The error is one sentence.
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
        let answer = converse(&mut child, file);
        if answer.is_err() {
            child.kill().ok();
        }
        child.wait().ok();
        answer
    }
}

/// Returns the later arguments: how the run is carried out.
pub(super) fn how(engine: Engine, control: bool) -> Vec<String> {
    let turmoil = match engine {
        Engine::Event => None,
        Engine::Turmoil(tick) => Some(format!("{TURMOIL}{}", tick.length().as_millis())),
    };
    turmoil.into_iter().chain(control.then(|| CONTROL.to_owned())).collect()
}

/// Sends the file to the child and reads its output, within the time limit.
fn converse(child: &mut Child, file: String) -> Result<String, String> {
    let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("a fresh process has no pipes".into());
    };
    let (report, received) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let done = input.write_all(file.as_bytes()).and_then(|()| {
            drop(input);
            output.read_to_string(&mut text)
        });
        report.send(done.map(|_| text)).ok();
    });
    // This worker is not stuck while it waits for another process, so it keeps its pulse.
    let answer = (0..PATIENCE.as_secs()).find_map(|_| {
        pulse();
        received.recv_timeout(Duration::from_secs(1)).ok()
    });
    let output = answer
        .ok_or_else(|| format!("a fresh process did not answer in {} s", PATIENCE.as_secs()))?;
    let output = output.map_err(|error| format!("a fresh process did not answer: {error}"))?;
    if output.is_empty() {
        Err("a fresh process ended without an answer".into())
    } else {
        Ok(output)
    }
}

/// Runs in the fresh process: judges the run in the file and returns the text to print. `how` are
/// the arguments after [`ASK`].
///
/// # Errors
/// If the file describes no run that can be carried out. The error is one sentence.
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
