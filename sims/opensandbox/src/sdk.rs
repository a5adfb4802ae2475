//! A Python process that uses the SDK.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::install;

/// How long a call of the SDK may take, unless a test says otherwise.
pub const LONG: Duration = Duration::from_secs(60);

/// A process that performs one call of the SDK after another. It ends with this value.
pub struct Sdk {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

/// How a call ended, as the user of the SDK sees it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It returned this.
    Ok(Value),
    /// It raised an error.
    Raised(String),
    /// It did neither in the time that it had.
    Silent(bool),
}

/// The result of a command that ran in the foreground, or in a session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Execution {
    /// The id of the command.
    pub id: Option<String>,
    /// The lines of the standard output.
    pub stdout: Vec<String>,
    /// The lines of the standard error.
    pub stderr: Vec<String>,
    /// The error that the server reported.
    pub error: Option<String>,
    /// Whether the server reported the completion.
    pub complete: bool,
    /// The exit code, as far as the SDK knows it.
    pub exit_code: Option<i32>,
}

impl Outcome {
    /// Returns the result of a command.
    ///
    /// # Panics
    /// If the call did not return.
    pub fn execution(self) -> Execution {
        let Self::Ok(value) = self else { panic!("{self:?}") };
        serde_json::from_value(value).expect("an execution")
    }
}

impl Sdk {
    /// Starts the process; `None` if this machine cannot have the SDK.
    pub fn start() -> Option<Self> {
        let folder = install::opensandbox()?;
        let mut python = Command::new("python3");
        python.arg("-c").arg(include_str!("sdk.py")).env("PYTHONPATH", folder);
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = python.spawn().expect("python3 was there before");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Some(Self { input, output, _child: child })
    }

    /// Performs a call: `what` is a request of `sdk.py` without the address of the server.
    pub async fn call(&mut self, server: &str, within: Duration, mut what: Value) -> Outcome {
        what["server"] = json!(server);
        what["seconds"] = json!(within.as_secs_f64());
        let line = format!("{what}\n");
        self.input.write_all(line.as_bytes()).await.expect("python runs");
        let line = self.output.next_line().await.expect("python runs").expect("an answer");
        serde_json::from_str(&line).expect("an outcome")
    }

    /// Runs a command line in the foreground.
    pub async fn run(&mut self, server: &str, command: &str) -> Outcome {
        self.call(server, LONG, json!({"do": "run", "command": command})).await
    }
}
