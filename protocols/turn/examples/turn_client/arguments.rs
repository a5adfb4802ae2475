//! The arguments of the program.

use std::collections::BTreeMap;
use std::path::PathBuf;

use reknit_seams::net::Endpoint;
use reknit_turn::command::{Command, TaskThread};
use reknit_turn::wire::{Delivery, ReviewTarget};

pub const USAGE: &str = "usage: turn_client [--direct | --broker ADDRESS | --state DIRECTORY] [--json] \
COMMAND, with the commands task, write [--background] PROMPT; resume [--background] THREAD [PROMPT]; \
review [--background] [BRANCH]; adversarial-review [--background] [FOCUS]; status [--all | JOB]; \
wait, result, cancel JOB; end-session";

pub struct Arguments {
    pub options: Options,
    pub task: Task,
}

/// Where a command runs, and how it prints.
pub struct Options {
    pub place: Place,
    pub json: bool,
    pub session: Option<String>,
}

/// Where a command runs.
pub enum Place {
    Direct,
    Broker(Endpoint),
    /// A directory with a broker and jobs, as an absolute path.
    State(PathBuf),
}

/// The task of the user.
pub enum Task {
    Run {
        command: Command,
        background: bool,
    },
    /// Do a job: the worker in the background.
    Work {
        job: String,
    },
    List {
        all: bool,
    },
    Show {
        job: String,
    },
    Wait {
        job: String,
    },
    Result {
        job: String,
    },
    Cancel {
        job: String,
    },
    EndSession,
}

impl Arguments {
    /// Reads the arguments; an error says what is wrong with them.
    pub fn parse(words: &[String], variables: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut words: Vec<_> = words.iter().map(String::as_str).collect();
        let state = variables.get("TURN_STATE").map(|state| self::state(state)).transpose()?;
        let mut options = Options {
            place: state.unwrap_or(Place::Direct),
            json: false,
            session: variables.get("TURN_SESSION").cloned(),
        };
        loop {
            let taken = match &words[..] {
                ["--direct", ..] => {
                    options.place = Place::Direct;
                    1
                }
                ["--broker", address, ..] => {
                    options.place = Place::Broker(endpoint(address)?);
                    2
                }
                ["--state", directory, ..] => {
                    options.place = self::state(directory)?;
                    2
                }
                ["--json", ..] => {
                    options.json = true;
                    1
                }
                _ => break,
            };
            words.drain(..taken);
        }
        let task = task(&words)?;
        let needs_state = !matches!(task, Task::Run { background: false, .. });
        if needs_state && !matches!(options.place, Place::State(_)) {
            return Err("jobs need a directory: write --state DIRECTORY".to_owned());
        }
        if matches!(task, Task::EndSession) && options.session.is_none() {
            return Err("end-session needs a session: set the variable TURN_SESSION".to_owned());
        }
        Ok(Self { options, task })
    }
}

fn task(words: &[&str]) -> Result<Task, String> {
    let job = |job: &str| job.to_owned();
    Ok(match words {
        ["status"] => Task::List { all: false },
        ["status", "--all"] => Task::List { all: true },
        ["status", id] => Task::Show { job: job(id) },
        ["wait", id] => Task::Wait { job: job(id) },
        ["result", id] => Task::Result { job: job(id) },
        ["cancel", id] => Task::Cancel { job: job(id) },
        ["work", id] => Task::Work { job: job(id) },
        ["end-session"] => Task::EndSession,
        [] => return Err("a command is missing".to_owned()),
        [word, rest @ ..] => {
            let background = rest.first() == Some(&"--background");
            let command = command(word, &rest[usize::from(background)..]);
            let wrong = || format!("`{word}` is no command, or has the wrong arguments");
            Task::Run { command: command.ok_or_else(wrong)?, background }
        }
    })
}

/// Returns the command that runs a turn, if it is one.
fn command(word: &str, rest: &[&str]) -> Option<Command> {
    let new = |prompt: &str| TaskThread::New { prompt: prompt.to_owned() };
    let last = |words: &[&str]| words.first().map(|word| (*word).to_owned());
    Some(match (word, rest) {
        ("task", [prompt]) => Command::Task { thread: new(prompt), write: false },
        ("write", [prompt]) => Command::Task { thread: new(prompt), write: true },
        ("resume", [thread, prompt @ ..]) if prompt.len() < 2 => {
            let thread = TaskThread::Resume { thread: (*thread).to_owned(), prompt: last(prompt) };
            Command::Task { thread, write: false }
        }
        ("review", branch) if branch.len() < 2 => {
            let uncommitted = ReviewTarget::UncommittedChanges;
            let target =
                last(branch).map_or(uncommitted, |branch| ReviewTarget::BaseBranch { branch });
            Command::Review { target, delivery: Delivery::Inline }
        }
        ("adversarial-review", focus) if focus.len() < 2 => Command::AdversarialReview {
            target: ReviewTarget::UncommittedChanges,
            focus: last(focus),
        },
        _ => return None,
    })
}

fn endpoint(address: &str) -> Result<Endpoint, String> {
    if let Some(path) = address.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Ok(Endpoint::unix(path));
    }
    let tcp = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let tcp = tcp.and_then(|(host, port)| Some(Endpoint::tcp(host, port.parse().ok()?)));
    tcp.ok_or_else(|| format!("`{address}` is no address: write unix:PATH or HOST:PORT"))
}

fn state(directory: &str) -> Result<Place, String> {
    let absolute = std::path::absolute(directory);
    absolute.map(Place::State).map_err(|_| format!("`{directory}` is no directory"))
}
