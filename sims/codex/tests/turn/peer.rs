//! The real app-server with a scripted model, in a scratch folder.

use std::fs;
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use codex_peer::model::{Call, Model};
use codex_peer::{agent, install, servers};
use reknit_seams::{Env, process};
use reknit_turn::capture::{Progress, Report};
use reknit_turn::client::{Client, ClientError, News, Route};
use reknit_turn::command::{Command, Settings, TaskThread};
use reknit_turn::limits::{ClientLimits, TurnLimits};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::timeout;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// A time that no run reaches, even on a slow machine.
pub const NEVER: Duration = Duration::from_secs(120);

/// A scratch folder for app-servers, and the model that they ask.
pub struct Peer {
    home: TempDir,
    pub model: Model,
}

impl Peer {
    /// Prepares app-servers with this model. `None` if there is no codex.
    pub async fn new(turns: impl IntoIterator<Item = Vec<Call>>) -> Option<Self> {
        let codex = install::codex()?;
        let model = Model::start(LOCAL, turns).await;
        let home = servers::scratch();
        agent::configure(home.path(), &model.url());
        let peer = Self { home, model };
        // It says which process the app-server is.
        let script =
            format!("#!/bin/sh\necho $$ >\"$CODEX_HOME/pid\"\nexec '{}' \"$@\"\n", codex.display());
        fs::write(peer.program(), script).unwrap();
        fs::set_permissions(peer.program(), fs::Permissions::from_mode(0o755)).unwrap();
        Some(peer)
    }

    /// Returns the program that becomes the app-server.
    pub fn program(&self) -> PathBuf {
        self.home.path().join("app-server")
    }

    /// Returns the folder in which the agent works.
    pub fn folder(&self) -> PathBuf {
        self.home.path().join("work")
    }

    /// Returns the variables of a program.
    pub fn variables(&self) -> Vec<(String, String)> {
        let home = self.home.path().to_str().unwrap();
        let program = self.program();
        [
            ("PATH", servers::PATH),
            ("HOME", home),
            ("CODEX_HOME", home),
            ("TURN_APP_SERVER", program.to_str().unwrap()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// Returns the command that starts an app-server.
    pub fn app_server(&self) -> process::Command {
        process::Command {
            argv: vec![self.program().to_str().unwrap().to_owned(), "app-server".to_owned()],
            cwd: Some(self.folder().to_str().unwrap().to_owned()),
            env: self.variables(),
            ..process::Command::default()
        }
    }

    /// Kills the app-server that was started last.
    pub fn kill_app_server(&self) {
        let pid = fs::read_to_string(self.home.path().join("pid")).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    pub fn direct(&self) -> Route {
        Route::Direct { app_server: self.app_server() }
    }

    /// Runs a command to its end.
    pub async fn run(&self, command: Command, route: Route) -> Run {
        self.run_until(command, route, pending(), |_| {}).await
    }

    /// Runs a command. It is cancelled when `cancel` completes; `watch` gets the news first.
    pub async fn run_until(
        &self,
        command: Command,
        route: Route,
        cancel: impl Future<Output = ()>,
        mut watch: impl FnMut(&News),
    ) -> Run {
        // A slow machine must not decide a turn by its silence.
        let turn = TurnLimits { inference: NEVER, ..TurnLimits::default() };
        let client =
            Client::new(&Env::real(), route, ClientLimits { turn, ..ClientLimits::default() });
        let cwd = self.folder().to_str().unwrap().to_owned();
        let settings = Settings { cwd, model: None, effort: None, service: "reknit".into() };
        let mut news = Vec::new();
        let run = client.run(command, settings, cancel, |one| {
            watch(&one);
            news.push(one);
        });
        let result = timeout(NEVER, run).await.expect("it ends in time");
        Run { result, news }
    }
}

/// A command that is over.
#[derive(Debug)]
pub struct Run {
    pub result: Result<Report, ClientError>,
    pub news: Vec<News>,
}

impl Run {
    pub fn report(&self) -> &Report {
        self.result.as_ref().unwrap_or_else(|error| panic!("{error}: {:?}", self.news))
    }

    pub fn fell_back(&self) -> bool {
        self.news.iter().any(|news| matches!(news, News::FellBack { .. }))
    }
}

pub fn task(prompt: &str) -> Command {
    Command::Task { thread: TaskThread::New { prompt: prompt.to_owned() }, write: true }
}

/// A command that runs longer than any test.
pub fn endless() -> Vec<Call> {
    vec![Call::run("sleep 600")]
}

pub fn answer(text: &str) -> Vec<Call> {
    vec![Call::answer(text)]
}

/// Whether a command of the agent has started.
pub fn command_started(news: &News) -> bool {
    matches!(news, News::Turn(Progress::ItemStarted { item, .. }) if item.kind() == "commandExecution")
}

/// Whether the answer of the agent is complete.
pub fn answered(news: &News) -> bool {
    matches!(news, News::Turn(Progress::ItemCompleted { item, .. }) if item.kind() == "agentMessage")
}
