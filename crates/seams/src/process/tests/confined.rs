//! Confined processes, on the real kernel. A kernel that cannot confine skips these tests.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::process::PathAccess::{Nothing, Read, Write};

pub(super) fn confined_to(
    command: Command,
    rules: &[(&str, PathAccess)],
    network: NetworkScope,
) -> Command {
    let mut files = PathRules::default();
    rules.iter().for_each(|(path, access)| files.add(*path, *access));
    let confinement = Confinement { files: FilesScope::Rules(files), network };
    Command { confinement: Some(confinement), ..command }
}

pub(super) fn reading_everything(command: Command) -> Command {
    confined_to(command, &[("/", Read)], NetworkScope::None)
}

/// Whether the kernel can confine; prints a line if not.
pub(super) async fn possible() -> bool {
    let tried = System.launch(&reading_everything(sh("exit 0"))).await;
    let error = match tried {
        Ok(_) => return true,
        Err(error) => error,
    };
    eprintln!("SKIPPED: this machine cannot confine a process: {error}");
    false
}

/// A directory for one test: `w` is writable, with `w/.git/config`; `r` is readable, with `r/file`;
/// `secret/file` is denied.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("reknit-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        for directory in ["w/.git", "w/sub", "r", "secret"] {
            fs::create_dir_all(path.join(directory)).unwrap();
        }
        for file in ["w/.git/config", "w/sub/file", "w/file", "r/file", "secret/file"] {
            fs::write(path.join(file), "content\n").unwrap();
        }
        Self(path.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Runs a script in this directory. Returns the words that it prints to its standard output.
    async fn run(&self, script: &str) -> Vec<String> {
        self.run_as(sh(script), NetworkScope::None).await
    }

    async fn run_as(&self, command: Command, network: NetworkScope) -> Vec<String> {
        let (w, git, secret) = (self.path("w"), self.path("w/.git"), self.path("secret"));
        let rules = [("/", Read), (&*w, Write), (&*git, Read), (&*secret, Nothing)];
        let command = Command { cwd: Some(self.path("")), ..confined_to(command, &rules, network) };
        let (printed, _) = run(command).await;
        printed.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A script that prints the names of the steps that succeed. Each step is `name: command`.
fn steps(steps: &[(&str, &str)]) -> String {
    steps.iter().map(|(name, step)| format!("( {step} ) 2>/dev/null && echo {name}\n")).collect()
}

/// Runs each step confined, and expects that exactly these succeed. Then runs each without
/// confinement in a fresh directory, and expects that all succeed, so that no step fails for another
/// reason.
async fn expect(test: &str, all: &[(&str, &str)], permitted: &[&str]) {
    if !possible().await {
        return;
    }
    let script = steps(all);
    assert_eq!(Place::new(test).run(&script).await, permitted);
    let place = Place::new(test);
    let (printed, _) = run(Command { cwd: Some(place.path("")), ..sh(&script) }).await;
    let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
    assert_eq!(printed.split_whitespace().collect::<Vec<_>>(), names);
}

#[tokio::test]
async fn it_reads_what_it_may() {
    let all = [
        ("readable", "cat r/file >/dev/null"),
        ("writable", "cat w/file w/.git/config >/dev/null"),
        ("list", "ls / r w >/dev/null"),
        ("denied", "cat secret/file >/dev/null"),
        ("denied-list", "ls secret >/dev/null"),
    ];
    expect("reads", &all, &["readable", "writable", "list"]).await;
}

#[tokio::test]
async fn it_changes_what_it_may() {
    let all = [
        ("write", "echo x > w/file"),
        ("create", "echo x > w/new && mkdir w/dir && ln -s new w/link && mkfifo w/fifo"),
        ("rename", "mv w/new w/sub/new"),
        ("truncate", "truncate -s 0 w/sub/file"),
        ("mode", "chmod 700 w/sub/file && touch w/sub/file"),
        ("remove", "rm w/sub/new && rmdir w/dir"),
        ("out-write", "echo x > r/file"),
        ("out-create", "echo x > r/new"),
        ("out-rename", "mv r/file r/other && mv r/other r/file"),
        ("out-truncate", "truncate -s 0 r/file"),
        ("out-mode", "chmod 600 r/file"),
        ("out-time", "touch -c r/file"),
        ("out-remove", "rm r/file"),
        ("across-out", "mv w/file r/moved"),
        ("across-in", "mv r/moved w/moved"),
        ("link", "ln secret/file w/linked"),
    ];
    expect("changes", &all, &["write", "create", "rename", "truncate", "mode", "remove"]).await;
}

#[tokio::test]
async fn a_read_only_path_in_a_writable_one_stays() {
    let all = [
        ("beside", "echo x > w/.gitignore"),
        ("write", "echo x > w/.git/config"),
        ("create", "echo x > w/.git/hook"),
        ("mode", "chmod 777 w/.git/config"),
        ("move-aside", "mv w/.git w/old && mv w/old w/.git"),
        ("into", "mv w/file w/.git/file"),
        ("remove", "rm -r w/.git"),
    ];
    expect("protected", &all, &["beside"]).await;
}

#[tokio::test]
async fn a_writable_file_has_nothing_to_protect_in_it() {
    if !possible().await {
        return;
    }
    let place = Place::new("writable-file");
    let (file, inside) = (place.path("w/file"), place.path("w/file/.git"));
    let rules = [("/", Read), (&*file, Write), (&*inside, Read)];
    let script = steps(&[("file", "echo x > w/file"), ("beside", "echo x > w/beside")]);
    let command = confined_to(sh(&script), &rules, NetworkScope::None);
    let mut child = launch(Command { cwd: Some(place.path("")), ..command }).await;
    assert_eq!(all(child.stdout()).await, "file\n");
    end(&mut child).await;
}

#[tokio::test]
async fn a_missing_protected_path_cannot_be_created() {
    if !possible().await {
        return;
    }
    let place = Place::new("missing");
    let (w, codex, key) = (place.path("w"), place.path("w/.codex/config"), place.path("w/key"));
    let rules = [("/", Read), (&*w, Write), (&*codex, Read), (&*key, Nothing)];
    let script = steps(&[
        ("beside", "mkdir w/.cod"),
        ("codex", "mkdir w/.codex"),
        ("in-codex", "echo x > w/.codex/config"),
        ("key", "echo x > w/key"),
        ("in-key", "ls w/key"),
    ]);
    let command = confined_to(sh(&script), &rules, NetworkScope::None);
    let command = Command { cwd: Some(place.path("")), ..command };
    let mut child = launch(command.clone()).await;
    assert_eq!(all(child.stdout()).await, "beside\n");
    end(&mut child).await;
    assert!(!fs::exists(place.path("w/.codex")).unwrap(), "the placeholder is removed");
    assert!(!fs::exists(place.path("w/key")).unwrap());

    // A process in the background is still kept from creating it.
    let script = "exec 3<&0; (read line <&3; mkdir w/key || echo denied) & exit 0";
    let mut child = launch(with_stdin(Command { argv: sh(script).argv, ..command })).await;
    let mut stdin = child.stdin().unwrap();
    end(&mut child).await;
    assert!(fs::exists(place.path("w/key")).unwrap());
    stdin.write_all(b"go\n").await.unwrap();
    assert_eq!(all(child.stdout()).await, "denied\n");
    drop(child);
    assert!(!fs::exists(place.path("w/key")).unwrap());
}

#[tokio::test]
async fn what_cannot_be_protected_is_refused() {
    if !possible().await {
        return;
    }
    let place = Place::new("refused");
    let (w, link) = (place.path("w"), place.path("w/link"));
    std::os::unix::fs::symlink(place.path("r"), &link).unwrap();
    let command =
        confined_to(sh(""), &[("/", Read), (&*w, Write), (&*link, Read)], NetworkScope::None);
    let why = System.can_confine(&command).unwrap_err();
    assert!(why.contains("link` is a symbolic link in a writable directory"), "{why}");
    assert_eq!(refusal(command).await.kind(), io::ErrorKind::Unsupported);

    let (secret, file) = (place.path("secret"), place.path("secret/file"));
    let command = confined_to(
        sh(""),
        &[("/", Read), (&*secret, Nothing), (&*file, Read)],
        NetworkScope::None,
    );
    let why = System.can_confine(&command).unwrap_err();
    assert!(why.ends_with("secret/file` is permitted, but is in a denied directory"), "{why}");
}

#[tokio::test]
async fn without_a_rule_nothing_can_be_executed() {
    if !possible().await {
        return;
    }
    let place = Place::new("executes");
    fs::copy("/bin/true", place.path("r/program")).unwrap();
    fs::copy("/bin/true", place.path("secret/program")).unwrap();
    let printed = place.run(&steps(&[("r", "r/program"), ("secret", "secret/program")])).await;
    assert_eq!(printed, ["r"]);
    let system = ["/bin", "/lib", "/lib64", "/usr"].map(|path| (path, Read));
    let only = |script: &str| confined_to(sh(script), &system, NetworkScope::None);
    let script = format!("{}/program || echo denied; cat /etc/passwd || echo no", place.path("r"));
    assert_eq!(run(Command { cwd: Some("/".into()), ..only(&script) }).await.0, "denied\nno\n");
    let nothing = confined_to(sh("echo runs"), &[], NetworkScope::None);
    assert_eq!(
        refusal(Command { cwd: Some("/".into()), ..nothing }).await.kind(),
        io::ErrorKind::PermissionDenied
    );
}

#[tokio::test]
async fn a_grandchild_is_confined_too() {
    let all = [
        ("inside", "setsid sh -c 'sh -c \"echo x > w/new\"'"),
        ("outside", "setsid sh -c 'sh -c \"echo x > r/new\"'"),
    ];
    expect("grandchild", &all, &["inside"]).await;
}

#[tokio::test]
async fn it_can_use_plain_devices_and_its_terminal() {
    if !possible().await {
        return;
    }
    let script = "echo x > /dev/null; head -c 1 /dev/urandom | wc -c; echo y > /dev/tty; stty size </dev/tty; touch r/x || echo denied";
    let printed = Place::new("terminal").run_as(on_terminal(sh(script)), NetworkScope::None).await;
    assert_eq!(printed[..4], ["1", "y", "7", "33"]);
    assert_eq!(printed.last().unwrap(), "denied", "{printed:?}");
}

#[tokio::test]
async fn it_has_shared_memory_of_its_own() {
    if !possible().await {
        return;
    }
    let name = format!("/dev/shm/reknit-{}", std::process::id());
    let place = Place::new("memory");
    let script = format!("echo x > {name} && cat {name}");
    assert_eq!(place.run(&script).await, ["x"]);
    assert!(!fs::exists(&name).unwrap());
}

/// A program that can make any system call.
fn python(script: &str) -> Command {
    program(&["python3", "-c", script])
}

const CALLS: &str = r#"
import os, socket, ctypes
calls = ctypes.CDLL(None, use_errno=True).syscall
def step(name, do):
    try: do(); print(name)
    except OSError: pass
def call(*numbers):
    if calls(*numbers) < 0: raise OSError(ctypes.get_errno())
step("inet", lambda: socket.socket(socket.AF_INET))
step("inet6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
step("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
step("vsock", lambda: socket.socket(socket.AF_VSOCK))
step("unix", lambda: socket.socket(socket.AF_UNIX))
step("datagram", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
def pair():
    one, other = socket.socketpair(); one.send(b"x"); assert other.recv(1) == b"x"
step("pair", pair)
step("bind", lambda: socket.socket(socket.AF_UNIX).bind("\0reknit-own-%d" % os.getpid()))
step("connect", lambda: socket.socket(socket.AF_UNIX).connect(os.environ["ABSTRACT"].replace("@", "\0")))
step("io_uring", lambda: call(425, 1, ctypes.create_string_buffer(120)))
step("signal", lambda: os.kill(int(os.environ["OTHER"]), 0))
step("signal-own", lambda: os.kill(os.getpid(), 0))
step("unshare-mount", lambda: (call(272, 0x10020000), call(165, b"x", b"/tmp", b"tmpfs", 0, 0)))
"#;

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn system_calls_are_restricted() {
    if !possible().await {
        return;
    }
    if !fs::exists("/usr/bin/python3").unwrap() {
        return eprintln!("SKIPPED: this test needs Python");
    }
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let name = format!("reknit-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let place = Place::new("calls");
    let mut command = python(CALLS);
    command.env.push(("ABSTRACT".into(), format!("@{name}")));
    command.env.push(("OTHER".into(), std::process::id().to_string()));
    let without = place.run_as(command.clone(), NetworkScope::None).await;
    assert_eq!(without, ["unix", "pair", "signal-own"]);
    let with = place.run_as(command.clone(), NetworkScope::All).await;
    // Landlock 6 keeps a confined process from abstract sockets and signals of others.
    let sockets = ["inet", "inet6", "netlink", "unix", "datagram", "pair", "bind"];
    assert_eq!(with, [&sockets[..], &["signal-own"]].concat());
    let confinement = Confinement { files: FilesScope::All, network: NetworkScope::None };
    let all_files = Command {
        confinement: Some(confinement),
        cwd: Some(place.path("")),
        ..sh("echo x > r/new && touch /dev/null && echo wrote")
    };
    assert_eq!(run(all_files).await.0, "wrote\n");
    let (unconfined, _) = run(command).await;
    for step in ["inet", "connect", "signal", "io_uring"] {
        assert!(unconfined.contains(step), "{step}: {unconfined}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_has_no_privileges() {
    if !possible().await {
        return;
    }
    let printed =
        Place::new("privileges").run("grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status").await;
    let none = "0000000000000000";
    assert_eq!(printed, ["CapEff:", none, "CapBnd:", none, "NoNewPrivs:", "1"]);
}

/// A device that the launcher's user may read.
#[tokio::test]
async fn it_cannot_open_disks() {
    if !possible().await {
        return;
    }
    let printed = Place::new("disks")
        .run("for f in /dev/vda /dev/sda /dev/mem /dev/kmsg; do head -c 1 $f && echo read; done")
        .await;
    assert_eq!(printed, Vec::<String>::new());
}
