//! Real processes, checked through their launcher's handle.

use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::{sleep, timeout};

use super::*;

#[cfg(target_os = "linux")]
mod confined;
#[cfg(target_os = "linux")]
mod table;

/// A time limit that no test reaches, even on a slow machine.
const NEVER: Duration = Duration::from_secs(60);

fn sh(script: &str) -> Command {
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    Command { argv, env: vec![("PATH".into(), "/usr/bin:/bin".into())], ..Command::default() }
}

fn program(argv: &[&str]) -> Command {
    Command { argv: argv.iter().map(|word| (*word).to_owned()).collect(), ..sh("") }
}

fn with_stdin(command: Command) -> Command {
    Command { stdio: Stdio::Pipes { stdin: true }, ..command }
}

fn on_terminal(command: Command) -> Command {
    Command { stdio: Stdio::Terminal(Size { rows: 7, columns: 33 }), ..command }
}

async fn launch(command: Command) -> Box<dyn Child> {
    System.launch(&command).await.unwrap()
}

async fn all(pipe: Option<Output>) -> String {
    let mut text = String::new();
    timeout(NEVER, pipe.unwrap().read_to_string(&mut text)).await.expect("the pipe ends").unwrap();
    text
}

async fn end(child: &mut Box<dyn Child>) -> Exit {
    timeout(NEVER, child.wait()).await.expect("it ends").unwrap()
}

/// Runs a command; returns its output and its exit.
async fn run(command: Command) -> (String, Exit) {
    let mut child = launch(command).await;
    let printed = all(child.stdout()).await;
    (printed, end(&mut child).await)
}

async fn refusal(command: Command) -> io::Error {
    System.launch(&command).await.map(|_| ()).unwrap_err()
}

fn exists(pid: u32) -> bool {
    test_kill_process(Pid::from_raw(pid as i32).unwrap()).is_ok()
}

/// Whether a process is alive. A zombie is not: its parent decides when to reap it.
fn is_alive(pid: u32) -> bool {
    let zombie = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.contains(") Z "));
    exists(pid) && !zombie
}

async fn until_not(what: fn(u32) -> bool, pid: u32) {
    let gone = async {
        while what(pid) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(NEVER, gone).await.unwrap_or_else(|_| panic!("{pid} is still there"));
}

/// Waits until no process has this id, not even a zombie.
async fn wait_until_reaped(pid: u32) {
    until_not(exists, pid).await;
}

async fn wait_until_dead(pid: u32) {
    until_not(is_alive, pid).await;
}

#[tokio::test]
async fn the_output_and_the_exit_code_arrive() {
    let mut child = launch(sh("printf out; printf err >&2; exit 7")).await;
    assert!(child.stdin().is_none());
    assert_eq!(
        (all(child.stdout()).await, all(child.stderr()).await),
        ("out".into(), "err".into())
    );
    assert!(child.stdout().is_none() && child.stderr().is_none(), "they are taken");
    assert_eq!((end(&mut child).await, end(&mut child).await), (Exit::Code(7), Exit::Code(7)));
}

#[tokio::test]
async fn the_killing_signal_is_reported() {
    let mut child = launch(sh("kill -SEGV $$")).await;
    assert_eq!(end(&mut child).await, Exit::Signal(11));

    let mut child = launch(program(&["sleep", "1000"])).await;
    child.signal(0).unwrap();
    child.signal(INTERRUPT).unwrap();
    assert_eq!(end(&mut child).await, Exit::Signal(INTERRUPT));
    assert_eq!(child.signal(-1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_cancelled_wait_loses_nothing() {
    let mut child = launch(with_stdin(sh("read line; exit 3"))).await;
    let stdin = child.stdin();
    assert!(timeout(Duration::from_millis(10), child.wait()).await.is_err());
    drop(stdin);
    assert_eq!(end(&mut child).await, Exit::Code(3));
}

#[tokio::test]
async fn an_exit_before_the_wait_is_reported() {
    let mut first = launch(sh("exit 1")).await;
    let mut second = launch(sh("exit 2")).await;
    assert_eq!(all(first.stdout()).await + &all(second.stdout()).await, "");
    assert_eq!((end(&mut second).await, end(&mut first).await), (Exit::Code(2), Exit::Code(1)));
}

#[tokio::test]
async fn many_simultaneous_exits_are_distinguished() {
    let mut children = Vec::new();
    for code in 0..20 {
        children.push((code, launch(sh(&format!("exit {code}"))).await));
    }
    for (code, child) in &mut children {
        assert_eq!(end(child).await, Exit::Code(*code));
    }
}

#[tokio::test]
async fn the_standard_input_arrives_completely() {
    let mut child = launch(with_stdin(program(&["cat"]))).await;
    let mut stdin = child.stdin().unwrap();
    stdin.write_all(b"to and fro").await.unwrap();
    drop(stdin);
    assert_eq!(all(child.stdout()).await, "to and fro");
    assert_eq!(end(&mut child).await, Exit::Code(0));
}

#[tokio::test]
async fn without_a_pipe_the_standard_input_is_empty() {
    assert_eq!(run(program(&["cat"])).await, (String::new(), Exit::Code(0)));
}

#[tokio::test]
async fn the_environment_is_exactly_the_given_one() {
    let env = vec![("A".to_owned(), "1".to_owned()), ("B".to_owned(), "b = 2\nc".to_owned())];
    let command = Command { env, ..program(&["/usr/bin/env"]) };
    let (printed, exit) = run(command).await;
    assert_eq!((printed.as_str(), exit), ("A=1\nB=b = 2\nc\n", Exit::Code(0)));
}

#[tokio::test]
async fn it_starts_in_the_given_directory() {
    let (printed, _) = run(Command { cwd: Some("/".into()), ..sh("pwd") }).await;
    assert_eq!(printed, "/\n");
}

#[tokio::test]
async fn it_can_have_another_name() {
    let mut child =
        launch(with_stdin(Command { arg0: Some("another".into()), ..program(&["/bin/sh"]) })).await;
    child.stdin().unwrap().write_all(b"echo $0\n").await.unwrap();
    assert_eq!(all(child.stdout()).await, "another\n");
}

#[tokio::test]
async fn a_failed_start_reports_the_reason() {
    let error = refusal(program(&["no-such-program"])).await;
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().starts_with("cannot start `no-such-program`: "), "{error}");

    let error = refusal(Command { cwd: Some("/no/such/place".into()), ..sh("") }).await;
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(
        error.to_string().starts_with("cannot start `/bin/sh` in `/no/such/place`: "),
        "{error}"
    );

    assert_eq!(refusal(program(&["/"])).await.kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(
        refusal(on_terminal(program(&["no-such-program"]))).await.kind(),
        io::ErrorKind::NotFound
    );
    assert_eq!(refusal(program(&["nul\0"])).await.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(refusal(program(&[])).await.kind(), io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_grandchild_can_print_after_the_exit() {
    // The grandchild waits for a line that is written after its parent has ended.
    let mut child =
        launch(with_stdin(sh("exec 3<&0; (read line <&3; echo late $line) & exit 5"))).await;
    let mut stdin = child.stdin().unwrap();
    assert_eq!(end(&mut child).await, Exit::Code(5));
    stdin.write_all(b"word\n").await.unwrap();
    assert_eq!(all(child.stdout()).await, "late word\n");
}

#[tokio::test]
async fn it_leads_a_session_without_a_terminal() {
    let script = "read x </dev/tty && echo opened; set -- $(cat /proc/$$/stat); echo $$ $5 $6 $7";
    let (printed, _) = run(sh(script)).await;
    let fields: Vec<_> = printed.split_whitespace().collect();
    let [pid, group, session, terminal] = fields[..] else { panic!("{printed}") };
    assert_eq!((group, session, terminal), (pid, pid, "0"));
}

/// This program may have opened a descriptor without the flag that closes it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_inherits_three_descriptors_only() {
    let (leak, _other) = std::io::pipe().unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    for command in [sh("ls /proc/self/fd"), on_terminal(sh("ls /proc/self/fd"))] {
        let (printed, _) = run(command).await;
        // The fourth is the directory that `ls` reads.
        assert_eq!(printed.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    }
}

/// This program starts itself again, and that program is killed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_dies_when_its_launcher_is_killed() {
    const AGAIN: &str = "REKNIT_IS_KILLED";
    if std::env::var_os(AGAIN).is_some() {
        let _runtime_thread_ends_first = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap();
            runtime.block_on(async {
                let pipes = launch(program(&["sleep", "1000"])).await;
                let terminal = launch(on_terminal(sh("trap '' HUP; sleep 1000"))).await;
                let mut last = program(&["sleep", "1000"]);
                if confined::possible().await {
                    last = confined::reading_everything(last);
                }
                let children = [pipes, terminal, launch(last).await];
                let pids = children.each_ref().map(|child| child.pid().to_string());
                std::fs::write(std::env::var_os(AGAIN).unwrap(), pids.join(" ")).unwrap();
                let _ = children.map(std::mem::forget);
            });
            std::mem::forget(runtime);
        });
        return std::future::pending().await;
    }
    let file = std::env::temp_dir().join(format!("reknit-killed-{}", std::process::id()));
    let test = "process::tests::it_dies_when_its_launcher_is_killed";
    let again = std::env::current_exe().unwrap();
    let mut again = program(&[again.to_str().unwrap(), "--exact", test, "--nocapture"]);
    again.env.push((AGAIN.to_owned(), file.to_str().unwrap().to_owned()));
    let launcher = launch(again).await;
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    let pids = timeout(NEVER, async {
        while read().split(' ').count() < 3 {
            sleep(Duration::from_millis(5)).await;
        }
        read().split(' ').map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()
    });
    let pids = pids.await.unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(pids.iter().all(|pid| is_alive(*pid)), "they outlive the thread that launched them");
    let pid = Pid::from_raw(launcher.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    for pid in pids {
        wait_until_dead(pid).await;
    }
}

/// A read without a waker: `None` if it would wait.
async fn read_now(pipe: &mut Output) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 64];
    let read = std::pin::pin!(pipe.read(&mut buffer));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match read.poll(&mut context) {
        std::task::Poll::Ready(count) => {
            let count = count.unwrap();
            buffer.truncate(count);
            Some(buffer)
        }
        std::task::Poll::Pending => None,
    }
}

/// The grandchild holds the pipe, so the end of the pipe does not show it.
#[tokio::test]
async fn all_output_is_there_at_the_exit() {
    for _ in 0..50 {
        let mut child = launch(sh("sleep 1000 & echo hi; exit 3")).await;
        let mut stdout = child.stdout().unwrap();
        assert_eq!(end(&mut child).await, Exit::Code(3));
        assert_eq!(read_now(&mut stdout).await.unwrap(), b"hi\n");
        assert_eq!(read_now(&mut stdout).await, None);
    }
}

/// Starts a shell whose grandchild sleeps; returns the grandchild's process id too.
async fn parent() -> (Box<dyn Child>, BufReader<Output>, u32) {
    let mut child = launch(sh("sleep 1000 & echo $!; wait")).await;
    let mut stdout = BufReader::new(child.stdout().unwrap());
    let mut number = String::new();
    stdout.read_line(&mut number).await.unwrap();
    (child, stdout, number.trim().parse().unwrap())
}

#[tokio::test]
async fn a_signal_reaches_the_descendants() {
    let (mut child, stdout, grandchild) = parent().await;
    child.signal(TERMINATE).unwrap();
    assert_eq!(end(&mut child).await, Exit::Signal(TERMINATE));
    assert_eq!(all(Some(Box::new(stdout))).await, "", "nobody holds the pipe");
    wait_until_dead(grandchild).await;
}

#[tokio::test]
async fn a_signal_after_the_exit_reaches_the_descendants() {
    let mut child = launch(sh("sleep 1000 & exit 0")).await;
    assert_eq!(end(&mut child).await, Exit::Code(0));
    child.signal(KILL).unwrap();
    assert_eq!(all(child.stdout()).await, "");
    assert_eq!(end(&mut child).await, Exit::Code(0));
}

#[tokio::test]
async fn dropping_it_kills_the_whole_group_and_leaves_no_zombie() {
    let (child, stdout, grandchild) = parent().await;
    let pid = child.pid();
    drop(child);
    assert_eq!(all(Some(Box::new(stdout))).await, "");
    wait_until_dead(grandchild).await;
    wait_until_reaped(pid).await;
}

#[tokio::test]
async fn dropping_it_after_the_exit_kills_the_descendants() {
    let mut child = launch(sh("sleep 1000 & exit 0")).await;
    let (pid, stdout) = (child.pid(), child.stdout());
    assert_eq!(end(&mut child).await, Exit::Code(0));
    drop(child);
    assert_eq!(all(stdout).await, "");
    wait_until_reaped(pid).await;
}

/// Otherwise a signal for its group could hit another process.
#[tokio::test]
async fn its_process_id_stays_reserved_until_it_is_dropped() {
    let mut child = launch(sh("exit 0")).await;
    let pid = child.pid();
    end(&mut child).await;
    assert!(exists(pid));
    drop(child);
    wait_until_reaped(pid).await;
}

#[tokio::test]
async fn a_slow_reader_gets_every_byte() {
    let mut child = launch(sh("head -c 1048576 /dev/zero | tr '\\0' x; exit 4")).await;
    let mut stdout = child.stdout().unwrap();
    let (mut buffer, mut count) = (vec![0; 8192], 0);
    loop {
        tokio::task::yield_now().await;
        let read = stdout.read(&mut buffer).await.unwrap();
        if read == 0 {
            break;
        }
        assert!(buffer[..read].iter().all(|byte| *byte == b'x'));
        count += read;
    }
    assert_eq!((count, end(&mut child).await), (1 << 20, Exit::Code(4)));
}

#[tokio::test]
async fn terminate_lets_an_obedient_process_exit() {
    let mut child =
        launch(sh("trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done")).await;
    ready(&mut child).await;
    assert_eq!(child.terminate(NEVER).await.unwrap(), Exit::Code(9));
    assert_eq!(child.terminate(NEVER).await.unwrap(), Exit::Code(9), "asked again");
}

#[tokio::test]
async fn terminate_kills_a_process_after_the_grace_period() {
    let mut child = launch(sh("trap '' TERM; echo ready; while :; do sleep 0.01; done")).await;
    ready(&mut child).await;
    assert_eq!(child.terminate(Duration::from_millis(50)).await.unwrap(), Exit::Signal(KILL));
}

/// Waits for its first line.
async fn ready(child: &mut Box<dyn Child>) {
    let mut line = String::new();
    BufReader::new(child.stdout().unwrap()).read_line(&mut line).await.unwrap();
    assert_eq!(line.trim(), "ready");
}

#[tokio::test]
async fn on_a_terminal_all_three_streams_are_one() {
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size; echo err >&2; : </dev/tty && echo mine; exit 6";
    let mut child = launch(on_terminal(sh(script))).await;
    assert!(child.stderr().is_none());
    assert_eq!(all(child.stdout()).await, "7 33\r\nerr\r\nmine\r\n");
    assert_eq!(end(&mut child).await, Exit::Code(6));
}

#[tokio::test]
async fn a_terminal_echoes_and_its_input_ends_with_ctrl_d() {
    let mut child = launch(on_terminal(program(&["cat"]))).await;
    let mut stdin = child.stdin().unwrap();
    stdin.write_all(b"line\n\x04").await.unwrap();
    assert_eq!(all(child.stdout()).await, "line\r\nline\r\n");
    assert_eq!(end(&mut child).await, Exit::Code(0));
}

/// This program starts itself again with the signals ignored, as a shell starts a background job, and
/// as `nohup` starts a program.
#[tokio::test]
async fn a_signal_arrives_where_the_launcher_ignores_it() {
    const AGAIN: &str = "REKNIT_IGNORES_SIGNALS";
    if std::env::var_os(AGAIN).is_some() {
        for (name, number) in [("INT", INTERRUPT), ("QUIT", 3), ("HUP", 1)] {
            let waits = format!("trap 'exit 9' {name}; echo ready; while :; do sleep 0.01; done");
            let mut child = launch(sh(&waits)).await;
            ready(&mut child).await;
            child.signal(number).unwrap();
            assert_eq!(end(&mut child).await, Exit::Code(9), "{name}");
        }
        return;
    }
    let (program, test) = (
        std::env::current_exe().unwrap(),
        "process::tests::a_signal_arrives_where_the_launcher_ignores_it",
    );
    let again = format!("trap '' INT QUIT HUP; exec '{}' --exact {test}", program.display());
    let mut again = sh(&again);
    again.env.push((AGAIN.to_owned(), String::new()));
    let (printed, exit) = run(again).await;
    assert!(printed.contains("1 passed"), "{printed}");
    assert_eq!(exit, Exit::Code(0));
}

#[tokio::test]
async fn ctrl_c_on_a_terminal_interrupts() {
    let mut child = launch(on_terminal(program(&["cat"]))).await;
    let (mut stdin, mut screen) = (child.stdin().unwrap(), BufReader::new(child.stdout().unwrap()));
    stdin.write_all(b"x\n").await.unwrap();
    screen.read_line(&mut String::new()).await.unwrap();
    stdin.write_all(b"\x03").await.unwrap();
    assert_eq!(end(&mut child).await, Exit::Signal(INTERRUPT));
}

#[tokio::test]
async fn a_terminal_loses_nothing_at_its_end() {
    let (printed, exit) = run(on_terminal(sh("head -c 200000 /dev/zero | tr '\\0' x"))).await;
    assert_eq!((printed.len(), exit), (200_000, Exit::Code(0)));
}

#[tokio::test]
async fn an_exit_hangs_up_the_descendants_on_the_terminal() {
    let mut child = launch(on_terminal(sh("sleep 1000 & echo $!"))).await;
    let grandchild = all(child.stdout()).await;
    wait_until_dead(grandchild.trim().parse().unwrap()).await;
    assert_eq!(end(&mut child).await, Exit::Code(0));
}

#[tokio::test]
async fn a_descendant_that_ignores_the_hangup_can_still_print() {
    let mut child = launch(on_terminal(sh("trap '' HUP; (sleep 0.1; echo late) & exit 5"))).await;
    assert_eq!(end(&mut child).await, Exit::Code(5));
    assert_eq!(all(child.stdout()).await, "late\r\n");
}

#[tokio::test]
async fn dropping_a_process_on_a_terminal_kills_it_too() {
    let mut child = launch(on_terminal(sh("trap '' HUP; echo ready; sleep 1000"))).await;
    ready(&mut child).await;
    let pid = child.pid();
    drop(child);
    wait_until_reaped(pid).await;
}

#[test]
fn the_end_of_a_runtime_kills_the_processes_of_its_tasks() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let pid = first.block_on(async {
        let child = launch(program(&["sleep", "1000"])).await;
        let pid = child.pid();
        tokio::spawn(async move {
            let _child = child;
            std::future::pending::<()>().await;
        });
        pid
    });
    drop(first);
    runtime().block_on(wait_until_reaped(pid)); // any other runtime takes note of the end
}
