//! A client for turns: it starts an app-server, runs one command, and prints the result.
//!
//! ```console
//! $ cargo run -p reknit-turn --example turn_client -- task 'Say hello'
//! $ cargo run -p reknit-turn --example turn_client -- write 'Add a test for the parser'
//! $ cargo run -p reknit-turn --example turn_client -- review
//! $ cargo run -p reknit-turn --example turn_client -- adversarial-review 'the lock'
//! ```
//!
//! The client starts `codex app-server` in the current folder. The variable `TURN_APP_SERVER` names
//! another program. The client prints the progress on the standard error. Ctrl-C interrupts the turn.
//!
//! The exit status is 0 if and only if the turn completed. It is 130 if the user interrupted the turn, 2
//! if the arguments are invalid, and otherwise 1.

use std::error::Error;

use reknit_seams::Env;
use reknit_seams::process::Command as Program;
use reknit_turn::capture::{Progress, Report};
use reknit_turn::client::{initialize, run};
use reknit_turn::command::{Command, NotStarted, Settings, StartSequence, TaskThread};
use reknit_turn::limits::{ConnectionLimits, TurnLimits};
use reknit_turn::upstream::Upstream;
use reknit_turn::wire::{ClientInfo, Delivery, ReviewTarget};
use tokio::signal::ctrl_c;
use tokio::sync::watch;

const USAGE: &str =
    "usage: turn_client task PROMPT | write PROMPT | review | adversarial-review [FOCUS]";
const NAME: &str = "turn_client";

#[tokio::main]
async fn main() {
    let status = match arguments(std::env::args().skip(1)) {
        Some(command) => match serve(command).await {
            Ok(status) => status,
            Err(error) => {
                eprintln!("{NAME}: {error}");
                1
            }
        },
        None => {
            eprintln!("{USAGE}");
            2
        }
    };
    std::process::exit(status);
}

/// Returns the command, or `None` if the arguments are invalid.
fn arguments(mut arguments: impl Iterator<Item = String>) -> Option<Command> {
    let (word, text) = (arguments.next()?, arguments.next());
    let target = ReviewTarget::UncommittedChanges;
    let command = match (word.as_str(), text) {
        ("task" | "write", Some(prompt)) => {
            Command::Task { thread: TaskThread::New { prompt }, write: word == "write" }
        }
        ("review", None) => Command::Review { target, delivery: Delivery::Inline },
        ("adversarial-review", focus) => Command::AdversarialReview { target, focus },
        _ => return None,
    };
    arguments.next().is_none().then_some(command)
}

/// Runs the command. Returns the exit status.
async fn serve(command: Command) -> Result<i32, Box<dyn Error>> {
    let env = Env::real();
    let folder = std::env::current_dir()?.to_string_lossy().into_owned();
    let program = std::env::var("TURN_APP_SERVER").unwrap_or_else(|_| "codex".into());
    let server = Program {
        argv: vec![program, "app-server".into()],
        cwd: Some(folder.clone()),
        env: env.machine.variables.clone().into_iter().collect(),
        ..Program::default()
    };
    let mut upstream = Upstream::launch(&env, server, ConnectionLimits::default()).await?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    initialize(&mut upstream, ClientInfo { name: NAME.into(), title: None, version }).await?;
    let settings = Settings { cwd: folder, model: None, effort: None, service: NAME.into() };
    let mut sequence = StartSequence::new(command, settings);
    let (cancel, mut cancelled) = watch::channel(false);
    tokio::spawn(async move {
        if ctrl_c().await.is_ok() {
            cancel.send_replace(true);
        }
    });
    let limits = TurnLimits::default();
    let result = run(&mut upstream, &mut sequence, limits, &mut cancelled, &mut show).await;
    upstream.finish().await;
    Ok(finish(result))
}

/// Prints the result. Returns the exit status.
fn finish(result: Result<Report, NotStarted>) -> i32 {
    match result {
        Ok(report) => {
            print!("{report}");
            report.exit_status()
        }
        Err(why) => {
            eprintln!("{NAME}: {why}");
            why.exit_status()
        }
    }
}

fn show(progress: Progress) {
    match progress {
        Progress::Started { thread, turn } => eprintln!("turn {turn} on thread {thread}"),
        Progress::Phase(phase) => eprintln!("{}", phase.as_str()),
        Progress::ItemCompleted { item, .. } => eprintln!("  {}", item.kind()),
        Progress::Error { message, .. } => eprintln!("  error: {message}"),
        Progress::Subagent { thread } => eprintln!("  subagent on thread {thread}"),
        Progress::Unreadable => eprintln!("  an unreadable line"),
        Progress::Cancelling => eprintln!("cancelling"),
        Progress::Named { .. } | Progress::ItemStarted { .. } => {}
    }
}
