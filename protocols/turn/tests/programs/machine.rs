//! A folder with a scripted app-server and a state directory, and programs that use them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::process::Detached;
use reknit_turn::command::{Order, Settings, TaskThread};
use reknit_turn::jobs::{JobId, JobStore, NewJob};
use reknit_turn::limits::JobLimits;
use serde_json::Value;
use tempfile::TempDir;

/// An app-server. It notes each request for a turn, each interrupt and its own end. A turn whose prompt
/// contains `hang` ends when it is interrupted; the start of one with `mute` is answered only then.
const APP_SERVER: &str = r#"#!/bin/sh
answer() { echo "{\"id\":$id,\"result\":$1}"; }
completed() { echo "{\"method\":\"turn/completed\",\"params\":{\"threadId\":\"$thread\",\"turn\":{\"id\":\"$turn\",\"status\":\"$1\"}}}"; }
started() { echo "{\"id\":$start,\"result\":{\"turn\":{\"id\":\"$turn\",\"status\":\"inProgress\"}}}"; start=; }
note() { echo "$1 $$" >> "$NOTES"; }
n=0
while read -r line; do
    id=${line#*'"id":'}; id=${id%%,*}
    case $line in
        *'"initialized"'*) ;;
        *'"thread/start"'*)
            n=$((n + 1)); thread=t$$-$n; turn=u$$-$n
            answer "{\"thread\":{\"id\":\"$thread\"}}" ;;
        *'"turn/start"'*)
            note start
            start=$id
            case $line in
                *mute*) ;;
                *hang*) started ;;
                *)
                    started
                    sleep "${WORK:-0}"
                    echo "{\"method\":\"item/completed\",\"params\":{\"threadId\":\"$thread\",\"turnId\":\"$turn\",\"item\":{\"type\":\"agentMessage\",\"id\":\"m\",\"text\":\"the answer\",\"phase\":\"final_answer\"}}}"
                    completed completed
                    ;;
            esac
            ;;
        *'"turn/interrupt"'*\"$thread\"*)
            note interrupt
            answer '{}'
            if [ -n "$start" ]; then started; fi
            completed interrupted
            ;;
        *'"turn/interrupt"'*) echo "{\"id\":$id,\"error\":{\"code\":-32600,\"message\":\"no such thread\"}}" ;;
        *) answer '{}' ;;
    esac
done
note end
"#;

/// A folder with a state directory. Its broker ends with it.
pub struct Machine {
    folder: TempDir,
}

/// Returns the path of an example. Cargo builds all of them for the tests of a package.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().with_file_name("examples").join(name);
    assert!(path.exists(), "build the examples first: cargo build -p reknit-turn --examples");
    path
}

impl Machine {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("app-server");
        std::fs::write(&script, APP_SERVER).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        Self { folder }
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Returns the command that runs `turn_client` with the state directory.
    pub fn client(&self, words: &[&str]) -> Command {
        let mut command = self.program();
        command.arg("--state").arg(self.state()).args(words);
        command
    }

    /// Returns the command that runs `turn_client`.
    pub fn program(&self) -> Command {
        let mut command = Command::new(example("turn_client"));
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(self.folder.path());
        command.env("TURN_APP_SERVER", self.folder.path().join("app-server"));
        command.env("NOTES", self.folder.path().join("notes"));
        command.stdin(Stdio::null());
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.client(words).output().unwrap()
    }

    /// Runs the client, and returns its output as JSON.
    pub fn json(&self, words: &[&str]) -> Value {
        let output = self.client(&[&["--json"], words].concat()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// Starts a job in the background, and returns its id.
    pub fn background(&self, prompt: &str) -> String {
        let output = self.run(&["task", "--background", prompt]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Starts a job in the background whose worker claims it only after [`Machine::release`]. Returns
    /// its id.
    pub fn launch_held(&self, prompt: &str, gate: &str) -> String {
        let gate = self.folder.path().join(gate);
        let wait = format!("while [ ! -e {} ]; do sleep 0.05; done; exec \"$@\"", gate.display());
        let client = self.client(&["work"]);
        let words = std::iter::once(client.get_program()).chain(client.get_args());
        let words: Vec<String> = words.map(|word| word.to_str().unwrap().to_owned()).collect();
        let text = |value: Option<&OsStr>| value.unwrap().to_str().unwrap().to_owned();
        let variables = client
            .get_envs()
            .map(|(name, value)| (name.to_str().unwrap().to_owned(), text(value)))
            .collect();
        let program = |id: &JobId| {
            let shell = ["/bin/sh", "-c", &wait, "sh"].map(str::to_owned);
            let argv = shell.into_iter().chain(words).chain([id.to_string()]).collect();
            let (cwd, log) = (None, self.folder.path().join("worker.log"));
            Detached { argv, cwd, env: variables, log }
        };
        let cwd = self.folder.path().to_str().unwrap().to_owned();
        let thread = TaskThread::New { prompt: prompt.to_owned() };
        let order = Order {
            command: reknit_turn::command::Command::Task { thread, write: false },
            settings: Settings { cwd, model: None, effort: None, service: "test".into() },
        };
        let launched = async {
            let jobs = self.state().join("jobs");
            let store = JobStore::open(&Env::real(), jobs, JobLimits::default()).await.unwrap();
            store.launch(NewJob::of(order, None), program).await.unwrap().id.to_string()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(launched)
    }

    pub fn release(&self, gate: &str) {
        std::fs::write(self.folder.path().join(gate), "").unwrap();
    }

    pub fn job(&self, id: &str) -> Value {
        self.json(&["status", id])
    }

    /// Waits until a job is like this.
    pub fn until(&self, id: &str, is: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..600 {
            let job = self.job(id);
            if is(&job) {
                return job;
            }
            pause();
        }
        panic!("{}", self.job(id));
    }

    /// Returns what the app-servers noted: the words, without their process ids.
    pub fn notes(&self) -> Vec<String> {
        let notes = std::fs::read_to_string(self.folder.path().join("notes")).unwrap_or_default();
        notes.lines().map(|note| note.split(' ').next().unwrap().to_owned()).collect()
    }

    pub fn until_noted(&self, notes: &[&str]) {
        for _ in 0..600 {
            if self.notes() == notes {
                return;
            }
            pause();
        }
        panic!("{:?} is not {notes:?}", self.notes());
    }

    /// Returns the process id of the broker, if there is one.
    pub fn broker(&self) -> Option<u32> {
        let record = std::fs::read(self.state().join("broker/broker.json")).ok()?;
        let record: Value = serde_json::from_slice(&record).ok()?;
        record["pid"].as_u64().map(|pid| pid as u32)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(broker) = self.broker() {
            kill("TERM", broker);
        }
    }
}

/// A client in the foreground that is killed when a test fails.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn kill(signal: &str, pid: u32) {
    let script = format!("kill -{signal} {pid}");
    Command::new("/bin/sh").arg("-c").arg(script).output().unwrap();
}

/// Whether a process is there and not a zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z"))
}

#[expect(clippy::disallowed_methods, reason = "a test waits for real processes")]
pub fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}
