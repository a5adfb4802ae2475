//! A client for turns: it runs one command on codex, and prints the result.
//!
//! ```console
//! $ cargo run -p reknit-turn --example turn_client -- task 'Say hello'
//! $ cargo run -p reknit-turn --example turn_client -- write 'Add a test for the parser'
//! $ cargo run -p reknit-turn --example turn_client -- resume THREAD 'And one for the printer'
//! $ cargo run -p reknit-turn --example turn_client -- review
//! $ cargo run -p reknit-turn --example turn_client -- --broker unix:/tmp/broker/broker.sock adversarial-review 'the lock'
//! ```
//!
//! The client starts `codex app-server` in the current folder, and ends it after the command. The
//! variable `TURN_APP_SERVER` names another program. With `--broker ADDRESS`, the client runs the command
//! through the broker at this address, or, if that is busy or absent, on an app-server of its own. An
//! address is `unix:PATH` or `HOST:PORT`.
//!
//! The client prints the result on the standard output, and the progress on the standard error. Ctrl-C
//! interrupts the turn; a second Ctrl-C ends the client at once.
//!
//! The exit status is 0 if and only if the turn completed. It is 130 if the user interrupted the turn, 2
//! if the arguments are invalid, and otherwise 1.

use std::future::pending;
use std::process::exit;

use reknit_seams::net::Endpoint;
use reknit_seams::{Env, process};
use reknit_turn::capture::Progress;
use reknit_turn::client::{Client, News, Place, Route};
use reknit_turn::command::{Command, Settings, TaskThread};
use reknit_turn::limits::ClientLimits;
use reknit_turn::wire::{Delivery, ReviewTarget};
use tokio::signal::ctrl_c;

const NAME: &str = "turn_client";
const USAGE: &str = "usage: turn_client [--direct | --broker ADDRESS] COMMAND, with the commands task \
PROMPT, write PROMPT, resume THREAD [PROMPT], review [BRANCH], adversarial-review [FOCUS]";

#[tokio::main]
async fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (broker, command) = arguments_of(&arguments).unwrap_or_else(|why| {
        eprintln!("{NAME}: {why}; {USAGE}");
        exit(2)
    });
    let env = Env::real();
    let cwd = env.machine.directory.clone();
    let client = Client::new(&env, route(&env, broker), ClientLimits::default());
    let settings = Settings { cwd, model: None, effort: None, service: NAME.into() };
    let status = match client.run(command, settings, interrupted(), show).await {
        Ok(report) => {
            print!("{report}");
            report.exit_status()
        }
        Err(error) => {
            eprintln!("{NAME}: {error}");
            error.exit_status()
        }
    };
    exit(status)
}

/// Returns the broker and the command, or what is wrong with the arguments.
fn arguments_of(arguments: &[String]) -> Result<(Option<Endpoint>, Command), String> {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (broker, words) = match &words[..] {
        ["--direct", words @ ..] => (None, words),
        ["--broker", address, words @ ..] => (Some(endpoint(address)?), words),
        words => (None, words),
    };
    let task = |thread, write| Command::Task { thread, write };
    let new = |prompt: &str| TaskThread::New { prompt: prompt.to_owned() };
    let review = |target| Command::Review { target, delivery: Delivery::Inline };
    let command = match words {
        ["task", prompt] => task(new(prompt), false),
        ["write", prompt] => task(new(prompt), true),
        ["resume", thread, prompt @ ..] if prompt.len() < 2 => {
            let prompt = prompt.first().map(|prompt| (*prompt).to_owned());
            task(TaskThread::Resume { thread: (*thread).to_owned(), prompt }, false)
        }
        ["review"] => review(ReviewTarget::UncommittedChanges),
        ["review", branch] => review(ReviewTarget::BaseBranch { branch: (*branch).to_owned() }),
        ["adversarial-review", focus @ ..] if focus.len() < 2 => Command::AdversarialReview {
            target: ReviewTarget::UncommittedChanges,
            focus: focus.first().map(|focus| (*focus).to_owned()),
        },
        [] => return Err("a command is missing".to_owned()),
        [word, ..] => return Err(format!("`{word}` is no command, or has the wrong arguments")),
    };
    Ok((broker, command))
}

fn endpoint(address: &str) -> Result<Endpoint, String> {
    if let Some(path) = address.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Ok(Endpoint::unix(path));
    }
    let tcp = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let tcp = tcp.and_then(|(host, port)| Some(Endpoint::tcp(host, port.parse().ok()?)));
    tcp.ok_or_else(|| format!("`{address}` is no address: write unix:PATH or HOST:PORT"))
}

fn route(env: &Env, broker: Option<Endpoint>) -> Route {
    let program = env.machine.variables.get("TURN_APP_SERVER").cloned();
    let app_server = process::Command {
        argv: vec![program.unwrap_or_else(|| "codex".into()), "app-server".into()],
        env: env.machine.variables.clone().into_iter().collect(),
        ..process::Command::default()
    };
    match broker {
        Some(endpoint) => Route::BrokerOrDirect { endpoint, app_server },
        None => Route::Direct { app_server },
    }
}

/// Waits for Ctrl-C. Afterwards, another Ctrl-C ends the program.
async fn interrupted() {
    if ctrl_c().await.is_err() {
        return pending().await;
    }
    tokio::spawn(async {
        if ctrl_c().await.is_ok() {
            exit(130);
        }
    });
}

fn show(news: News) {
    match news {
        News::Connected(Place::AppServer) => {}
        News::Connected(broker) => eprintln!("{NAME}: through {broker}"),
        News::FellBack { why } => eprintln!("{NAME}: {why}; starting an app-server"),
        News::Turn(progress) => show_progress(progress),
    }
}

fn show_progress(progress: Progress) {
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
