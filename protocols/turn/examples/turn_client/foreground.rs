//! A command in the foreground.

use std::future::pending;
use std::process::exit;

use reknit_seams::Env;
use reknit_seams::process::{self, Detached};
use reknit_turn::broker::BrokerSearch;
use reknit_turn::capture::Progress;
use reknit_turn::client::{Client, News, Place as Server, Route};
use reknit_turn::command::{Command, Order, Settings};
use reknit_turn::jobs::NewJob;
use reknit_turn::limits::{ClientLimits, ConnectionLimits, StartLimits};
use reknit_turn::runner::{JobRunner, view};
use reknit_turn::wire::ClientInfo;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{Options, Place};
use crate::{Failure, NAME, jobs};

/// Runs a command, and prints its result. Returns the exit status.
pub async fn run(env: &Env, options: &Options, command: Command) -> Result<i32, Failure> {
    let order = order(env, command);
    let client = client(env, &options.place);
    let result = match &options.place {
        Place::State(directory) => {
            let store = jobs::store(env, directory).await?;
            let job = store.create(NewJob::of(order.clone(), options.session.clone())).await?;
            let claim = store.claim(&job.id).await?;
            let run = JobRunner::new(store, client).run(&claim, order, cancelled(), show).await;
            if let Err(error) = run.recorded {
                eprintln!("{NAME}: {error}");
            }
            run.result
        }
        _ => client.run(order.command, order.settings, cancelled(), show).await,
    };
    let report = result.map_err(|error| Failure(error.exit_status(), error.to_string()))?;
    match options.json {
        true => println!("{:#}", view::report_json(&report)),
        false => print!("{report}"),
    }
    Ok(report.exit_status())
}

/// Returns the order for a command in the current folder.
pub fn order(env: &Env, command: Command) -> Order {
    let cwd = env.machine.directory.clone();
    let settings = Settings { cwd, model: None, effort: None, service: NAME.into() };
    Order { command, settings }
}

pub fn client(env: &Env, place: &Place) -> Client {
    let program = env.machine.variables.get("TURN_APP_SERVER").cloned();
    let app_server = process::Command {
        argv: vec![program.unwrap_or_else(|| "codex".into()), "app-server".into()],
        env: variables(env),
        ..process::Command::default()
    };
    let route = match place {
        Place::Direct => Route::Direct { app_server },
        Place::Broker(endpoint) => Route::BrokerOrDirect { endpoint: endpoint.clone(), app_server },
        Place::State(directory) => {
            Route::Workspace { broker: Box::new(broker(env, directory)), app_server }
        }
    };
    Client::new(env, route, ClientLimits::default())
}

/// Returns the broker of a directory.
pub fn broker(env: &Env, state: &std::path::Path) -> BrokerSearch {
    let directory = state.join("broker");
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("turn_broker"));
    let beside = beside.map(|path| path.to_string_lossy().into_owned());
    let program = env.machine.variables.get("TURN_BROKER").cloned().or(beside);
    let argv = vec![program.unwrap_or_default(), directory.to_string_lossy().into_owned()];
    let log = state.join("broker.log");
    BrokerSearch {
        directory,
        account: env.machine.variables.get("CODEX_HOME").cloned().unwrap_or_default(),
        program: Detached { argv, cwd: None, env: variables(env), log },
        client: ClientInfo {
            name: NAME.into(),
            title: None,
            version: env!("CARGO_PKG_VERSION").into(),
        },
        connection: ConnectionLimits::default(),
        limits: StartLimits::default(),
    }
}

pub fn variables(env: &Env) -> Vec<(String, String)> {
    env.machine.variables.clone().into_iter().collect()
}

/// Waits for Ctrl-C or SIGTERM. Afterwards, another Ctrl-C ends the program.
pub async fn cancelled() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return pending().await };
    tokio::select! {
        pressed = ctrl_c() => if pressed.is_err() {
            return pending().await;
        },
        _ = terminate.recv() => {}
    }
    tokio::spawn(async {
        if ctrl_c().await.is_ok() {
            exit(130);
        }
    });
}

fn show(news: News) {
    match news {
        News::Connected(Server::AppServer) | News::Thread(_) => {}
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
