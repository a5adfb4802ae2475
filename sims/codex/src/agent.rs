//! The real client: `codex exec`, with a scripted model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use crate::model::Model;
use crate::servers;

/// A run of `codex exec`, in scratch folders.
pub struct Agent {
    program: PathBuf,
    home: TempDir,
    /// The words before the program, for example those that enter a network namespace.
    prefix: Vec<String>,
}

/// The output of one run of `codex exec`.
#[derive(Clone, Debug)]
pub struct Printed {
    /// Its exit status. `None` if it did not end in time and was killed.
    pub status: Option<i32>,
    /// Its events: the lines of its standard output.
    pub events: Vec<Value>,
    /// Its standard error.
    pub errors: String,
}

/// The end of a command, as codex reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// `completed`, `failed` or `declined`.
    pub status: String,
    /// Its exit code.
    pub exit: Option<i64>,
    /// Its output, or as much as codex keeps.
    pub output: String,
}

/// Makes this folder a home of codex, with a folder `work` in it and the model at this URL.
///
/// # Panics
/// If the folder cannot be written.
pub fn configure(home: &Path, url: &str) {
    let config = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}\"\nwire_api = \"responses\"\n\
         request_max_retries = 0\nstream_max_retries = 0\n",
        url
    );
    fs::write(home.join("config.toml"), config).expect("a scratch folder");
    fs::create_dir(home.join("work")).expect("a scratch folder");
}

impl Agent {
    /// Prepares a run with this model.
    ///
    /// # Panics
    /// If the scratch folder cannot be written.
    pub fn new(program: &Path, model: &Model) -> Self {
        let home = servers::scratch();
        configure(home.path(), &model.url());
        Self { program: program.to_owned(), home, prefix: Vec::new() }
    }

    /// Starts the program after these words.
    pub fn after<'a>(mut self, prefix: impl IntoIterator<Item = &'a str>) -> Self {
        self.prefix = prefix.into_iter().map(str::to_owned).collect();
        self
    }

    /// Returns the folder in which commands run.
    pub fn folder(&self) -> PathBuf {
        self.home.path().join("work")
    }

    /// Runs codex with an exec server until it ends, but at most this long.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn run(&self, server: &str, sandbox: &str, at_most: Duration) -> Printed {
        let mut words = self.prefix.iter().map(PathBuf::from).chain([self.program.clone()]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(["exec", "--json", "--skip-git-repo-check", "-s", sandbox, "go"]);
        command.env_clear().env("PATH", servers::PATH).env("HOME", self.home.path());
        command.env("CODEX_HOME", self.home.path()).env("CODEX_EXEC_SERVER_URL", server);
        command.current_dir(self.folder()).stdin(Stdio::null());
        let (out, err) = (self.home.path().join("stdout"), self.home.path().join("stderr"));
        command.stdout(fs::File::create(&out).expect("a scratch folder"));
        command.stderr(fs::File::create(&err).expect("a scratch folder"));
        let mut child = command.kill_on_drop(true).spawn().expect("codex starts");
        let ended = timeout(at_most, child.wait()).await;
        let status = ended.ok().and_then(|ended| ended.expect("a status").code());
        if status.is_none() {
            child.kill().await.expect("it is killed");
        }
        let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let events = text(out).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Printed { status, events, errors: text(err) }
    }
}

impl Printed {
    /// Returns the ends of the commands.
    pub fn commands(&self) -> Vec<CommandEnd> {
        let ended = self.events.iter().filter(|event| event["type"] == "item.completed");
        let items = ended.map(|event| &event["item"]);
        items
            .filter(|item| item["type"] == "command_execution")
            .map(|item| CommandEnd {
                status: item["status"].as_str().unwrap_or_default().to_owned(),
                exit: item["exit_code"].as_i64(),
                output: item["aggregated_output"].as_str().unwrap_or_default().to_owned(),
            })
            .collect()
    }

    /// Returns the messages of its errors.
    pub fn complaints(&self) -> Vec<String> {
        let items = self.events.iter().filter_map(|event| match event["type"].as_str() {
            Some("error") => event["message"].as_str(),
            Some("turn.failed") => event["error"]["message"].as_str(),
            _ => None,
        });
        items.map(str::to_owned).collect()
    }
}
