//! The examples `exec_server` and `exec_client`, started as a user starts them.
//!
//! `cargo test` builds them. To build only one target, also run `cargo build --examples`.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use reknit_proxy::{NetworkState, Proxy};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::stage::{AWAIT, Folder, NEVER, lives, until};

/// Cargo places examples next to the folder of the tests.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let path: PathBuf = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --examples", path.display());
    let mut command = Command::new(path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// A running program.
struct Program {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Program {
    fn start(name: &str, args: &[&str]) -> Self {
        let mut child = example(name).args(args).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, stdin, stdout, stderr }
    }

    /// Returns the next line of the standard output; `None` at the end.
    async fn prints(&mut self) -> Option<String> {
        timeout(NEVER, self.stdout.next_line()).await.expect("a line").unwrap()
    }

    /// Returns the next line of the standard error.
    async fn complains(&mut self) -> Option<String> {
        timeout(NEVER, self.stderr.next_line()).await.expect("a line").unwrap()
    }

    async fn ends(&mut self) -> ExitStatus {
        timeout(NEVER, self.child.wait()).await.expect("an end").unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().unwrap() as i32).unwrap(), signal).unwrap();
    }
}

/// Starts the server program, with a proxy in front of it.
async fn server() -> (Program, Proxy) {
    let mut server = Program::start("exec_server", &[]);
    let url = server.prints().await.unwrap();
    let address = url.strip_prefix("ws://").unwrap().parse().unwrap();
    let proxy = Proxy::before(address).await.unwrap();
    (server, proxy)
}

/// Starts the client program, with a shell in `folder`.
fn client(proxy: &Proxy, folder: &Folder, script: &str) -> Program {
    let script = format!("cd {}\n{AWAIT}{script}", folder.0.display());
    Program::start(
        "exec_client",
        &[&format!("ws://{}", proxy.address()), "--", "/bin/sh", "-c", &script],
    )
}

#[tokio::test]
async fn a_command_survives_a_reset_and_its_user_is_informed() {
    let (_server, proxy) = server().await;
    let folder = Folder::new();
    let script = "echo before; await lost; echo during; touch printed; read word; echo got $word; echo oh >&2; exit 7";
    let mut client = client(&proxy, &folder, script);
    assert_eq!(client.prints().await.as_deref(), Some("before"));
    proxy.turn(NetworkState::Resets).await;
    let reported = client.complains().await;
    assert_eq!(reported.as_deref(), Some("exec_client: connection lost; reconnecting"));
    folder.touch("lost");
    folder.touched("printed").await;
    proxy.turn(NetworkState::Fair).await;
    assert_eq!(client.complains().await.as_deref(), Some("exec_client: reconnected"));
    assert_eq!(client.prints().await.as_deref(), Some("during"));
    client.stdin.write_all(b"word\n").await.unwrap();
    assert_eq!(client.prints().await.as_deref(), Some("got word"));
    assert_eq!(client.complains().await.as_deref(), Some("oh"));
    assert_eq!(client.prints().await, None);
    assert_eq!(client.ends().await.code(), Some(7));
}

/// As `exec_client … | head -1`: the command ends when no one reads its output any longer.
#[tokio::test]
async fn a_closed_output_ends_the_command() {
    let (_server, proxy) = server().await;
    let folder = Folder::new();
    let script = "echo $$; await closed; while :; do echo more; done";
    let Program { mut child, mut stdout, stdin: _stdin, stderr: _stderr } =
        client(&proxy, &folder, script);
    let pid = timeout(NEVER, stdout.next_line()).await.unwrap().unwrap().unwrap().parse().unwrap();
    assert!(lives(pid));
    drop(stdout);
    folder.touch("closed");
    let status = timeout(NEVER, child.wait()).await.expect("an end").unwrap();
    assert_eq!(status.code(), Some(128 + 13));
    until("the command is dead", || !lives(pid)).await;
}

/// Ctrl-C goes to the command; the program exits with the status of the command.
#[tokio::test]
async fn ctrl_c_interrupts_the_command() {
    let (_server, proxy) = server().await;
    let mut client = client(
        &proxy,
        &Folder::new(),
        "trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done",
    );
    assert_eq!(client.prints().await.as_deref(), Some("ready"));
    client.signal(Signal::INT);
    assert_eq!(client.ends().await.code(), Some(9));
}

#[tokio::test]
async fn a_terminated_server_leaves_no_process_behind() {
    for signal in [Signal::TERM, Signal::INT] {
        let (mut server, proxy) = server().await;
        let mut client = client(&proxy, &Folder::new(), "sleep 600 & echo $!; echo $$; wait");
        let grandchild = client.prints().await.unwrap().parse().unwrap();
        let child = client.prints().await.unwrap().parse().unwrap();
        assert!(lives(grandchild) && lives(child));
        server.signal(signal);
        assert!(server.ends().await.success());
        until("they are dead", || !lives(grandchild) && !lives(child)).await;
    }
}

#[tokio::test]
async fn a_failed_start_of_a_command_is_reported() {
    let (_server, proxy) = server().await;
    let mut client = Program::start(
        "exec_client",
        &[&format!("ws://{}", proxy.address()), "--", "no-such-program"],
    );
    let reported = client.complains().await.unwrap();
    assert!(reported.contains("no-such-program"), "{reported}");
    assert_eq!(client.ends().await.code(), Some(255));
}

#[tokio::test]
async fn invalid_arguments_are_reported_in_one_line() {
    let url = "ws://127.0.0.1:1";
    let mistakes: [(&str, &[&str]); 8] = [
        ("exec_server", &["--listen"]),
        ("exec_server", &["--listen", "http://127.0.0.1:0"]),
        ("exec_server", &["--listen", url, "more"]),
        ("exec_server", &["--port", "7"]),
        ("exec_client", &[]),
        ("exec_client", &[url, "ls"]),
        ("exec_client", &[url, "--"]),
        ("exec_client", &["127.0.0.1:1", "--", "ls"]),
    ];
    for (name, args) in mistakes {
        let done = timeout(NEVER, example(name).args(args).output()).await.unwrap().unwrap();
        let output = String::from_utf8(done.stderr).unwrap();
        assert_eq!(
            (done.status.code(), output.lines().count(), done.stdout.len()),
            (Some(2), 1, 0),
            "{name} {args:?}: {output}"
        );
        assert!(output.starts_with("usage: "), "{output}");
    }
}
