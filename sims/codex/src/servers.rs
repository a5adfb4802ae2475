//! Either server, behind one type. A server that is a process has a scratch folder as its home and
//! working directory, and only the environment that its start names.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use reknit_exec::limits::ServerLimits;
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::install;

/// How long a server may take to start, and to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(30);
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// The search path of every program that a test starts.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A running server. It ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    runs: Runs,
}

/// Where a server runs.
enum Runs {
    Process(Box<Program>),
    Here(#[allow(dead_code)] JoinSet<()>), // dropping it ends the server
}

/// A server that is a process.
struct Program {
    child: Child,
    path: PathBuf,
    home: TempDir,
    /// Held open, so that the server can print.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts codex exec-server.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn codex(program: &Path) -> Self {
        Self::launch(program, &["exec-server"], &[]).await
    }

    /// Starts our example server: the path of the binary `exec_server` of this crate.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn ours(program: &Path) -> Self {
        Self::launch(program, &[], &[]).await
    }

    /// Starts a server as a process with further variables, after the arguments `first`.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn launch(program: &Path, first: &[&str], variables: &[(&str, &str)]) -> Self {
        let home = scratch();
        let errors = File::create(home.path().join("stderr")).expect("a scratch folder");
        // A job in the background of a shell ignores signals, and codex passes that on to processes.
        let mut command = Command::new("/usr/bin/env");
        command.arg("--default-signal=HUP,INT,QUIT").arg(program).args(first);
        command.args(["--listen", "ws://127.0.0.1:0"]);
        command.env_clear().env("PATH", PATH).env("HOME", home.path());
        command.env("CODEX_HOME", home.path()).envs(variables.iter().copied());
        command.current_dir(home.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(errors).kill_on_drop(true).spawn().expect("a server");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let line = timeout(PATIENCE, stdout.next_line()).await.expect("a URL in time");
        let url = line.expect("a line").unwrap_or_else(|| panic!("{}", errors_of(&home)));
        let address = url.strip_prefix("ws://").and_then(|rest| rest.parse().ok());
        let address = address.unwrap_or_else(|| panic!("not a URL: {url}"));
        let path = program.canonicalize().expect("it runs");
        let program = Program { child, path, home, _stdout: stdout };
        Self { address, runs: Runs::Process(Box::new(program)) }
    }

    /// Starts our server in this process.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn here(limits: ServerLimits) -> Self {
        let env = Env::real();
        let listener = env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.expect("a port");
        let port = listener.endpoint().port().expect("it listens at a port");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut serving = JoinSet::new();
        serving.spawn(reknit_exec::Server::new(&env, limits).serve(listener));
        Self { address, runs: Runs::Here(serving) }
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Returns the scratch folder of a server that is a process.
    pub fn home(&self) -> Option<PathBuf> {
        match &self.runs {
            Runs::Process(program) => Some(program.home.path().to_owned()),
            Runs::Here(_) => None,
        }
    }

    /// Returns the path of the program of a server that is a process.
    pub fn program(&self) -> Option<&Path> {
        match &self.runs {
            Runs::Process(program) => Some(&program.path),
            Runs::Here(_) => None,
        }
    }

    /// Returns the process id of a server that is a process.
    pub fn pid(&self) -> Option<u32> {
        match &self.runs {
            Runs::Process(program) => program.child.id(),
            Runs::Here(_) => None,
        }
    }
}

impl Drop for Program {
    /// SIGTERM lets a server kill its commands. A server that ignores it gets SIGKILL.
    #[allow(clippy::disallowed_methods)] // the end of a process takes real time
    fn drop(&mut self) {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid as i32));
        let Some(pid) = pid else { return }; // it has ended
        let _ = kill_process(pid, Signal::TERM);
        let pause = Duration::from_millis(5);
        for _ in 0..LAST_MOMENT.as_millis() / pause.as_millis() {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(pause);
        }
    }
}

/// Creates a scratch folder. It is not below /tmp, where codex installs no helper programs.
///
/// # Panics
/// If the target folder cannot be written.
pub fn scratch() -> TempDir {
    let parent = install::folder().join("scratch");
    fs::create_dir_all(&parent).expect("the target folder is writable");
    let parent = parent.canonicalize().expect("it exists");
    tempfile::Builder::new().prefix("home-").tempdir_in(parent).expect("it is writable")
}

fn errors_of(home: &TempDir) -> String {
    let errors = fs::read_to_string(home.path().join("stderr")).unwrap_or_default();
    format!("the server ended without a URL: {errors}")
}
