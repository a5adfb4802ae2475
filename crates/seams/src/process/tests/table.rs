//! The process table, with real processes.

use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::process::{getpgid, getsid};

use super::*;

fn detached(script: &str, log: &Path) -> Detached {
    let Command { argv, env, .. } = sh(script);
    Detached { argv, env, cwd: None, log: log.to_owned() }
}

fn scratch() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    (folder, log)
}

async fn until_dead(process: &Identity) {
    let dead = async {
        while System.is_alive(process).unwrap() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(NEVER, dead).await.unwrap_or_else(|_| panic!("{process} is still alive"));
}

async fn until_logged(log: &Path, text: &str) {
    let logged = async {
        while !std::fs::read_to_string(log).unwrap().contains(text) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(NEVER, logged).await.unwrap_or_else(|_| panic!("`{text}` is not in the log"));
}

/// The pid of the same number, with the start of this program.
fn with_pid(pid: u32) -> Identity {
    Identity { pid, ..System.own().unwrap() }
}

#[test]
fn this_program_is_alive_and_keeps_its_identity() {
    let own = System.own().unwrap();
    assert_eq!(own.pid, std::process::id());
    assert_eq!(own, System.own().unwrap());
    assert!(System.is_alive(&own).unwrap());
    assert_eq!(System.find(own.pid).unwrap(), Some(own));
}

#[tokio::test]
async fn a_process_with_the_same_id_and_another_start_is_dead_and_gets_no_signal() {
    let child = launch(sh("sleep 60")).await;
    let stranger = Identity {
        started: format!("1{}", System.own().unwrap().started),
        ..with_pid(child.pid())
    };
    assert!(!System.is_alive(&stranger).unwrap());
    for reach in [Reach::Process, Reach::Group] {
        let error = System.signal(&stranger, KILL, reach).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
    assert!(is_alive(child.pid()));
}

#[test]
fn a_process_from_before_a_restart_of_the_machine_is_dead() {
    let own = System.own().unwrap();
    let (ticks, place) = own.started.split_once('@').unwrap();
    let (_, namespace) = place.split_once('/').unwrap();
    let before = Identity { started: format!("{ticks}@other/{namespace}"), ..own };
    assert!(!System.is_alive(&before).unwrap());
}

#[test]
fn a_process_of_another_namespace_is_neither_alive_nor_dead() {
    let own = System.own().unwrap();
    let (before, _) = own.started.split_once('/').unwrap();
    let elsewhere = Identity { started: format!("{before}/pid:[1]"), ..own };
    assert_eq!(System.is_alive(&elsewhere).unwrap_err().kind(), io::ErrorKind::Unsupported);
    let error = System.signal(&elsewhere, TERMINATE, Reach::Process).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

#[test]
fn a_malformed_identity_is_an_error() {
    for started in ["", "12", "12@boot"] {
        let process = Identity { pid: 1, started: started.into() };
        assert_eq!(System.is_alive(&process).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    for pid in [0, u32::MAX] {
        let error = System.is_alive(&with_pid(pid)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn a_zombie_is_dead() {
    let (_folder, log) = scratch();
    // The shell becomes a program that never takes note of the end of its child.
    let script = "sleep 0.2 & exec sleep 60";
    let parent = System.launch_detached(&detached(script, &log)).await.unwrap();
    let children = format!("/proc/{0}/task/{0}/children", parent.pid);
    let zombie = async {
        loop {
            let children = std::fs::read_to_string(&children).unwrap();
            let child = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
            let stat = child.map(|pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")));
            if let Some((pid, Ok(stat))) = child.zip(stat)
                && stat.contains(") Z ")
            {
                let start = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap();
                let own = System.own().unwrap().started;
                let (_, place) = own.split_once('@').unwrap();
                return Identity { pid, started: format!("{start}@{place}") };
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    let zombie = timeout(NEVER, zombie).await.expect("it becomes a zombie");
    assert!(!System.is_alive(&zombie).unwrap());
    assert_eq!(System.find(zombie.pid).unwrap(), None);
    let error = System.signal(&zombie, KILL, Reach::Process).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    System.signal(&parent, KILL, Reach::Group).unwrap();
    until_dead(&parent).await;
}

#[tokio::test]
async fn a_signal_to_the_process_spares_its_group_and_one_to_the_group_does_not() {
    let (_folder, log) = scratch();
    let script = "sleep 60 & echo $!; trap 'echo caught' USR1; while :; do sleep 0.01; done";
    let leader = System.launch_detached(&detached(script, &log)).await.unwrap();
    until_logged(&log, "\n").await;
    let member: u32 = std::fs::read_to_string(&log).unwrap().trim().parse().unwrap();
    sleep(Duration::from_millis(50)).await; // the shell sets its trap
    const USER_1: i32 = 10;
    System.signal(&leader, USER_1, Reach::Process).unwrap();
    until_logged(&log, "caught").await;
    assert!(is_alive(member));
    System.signal(&leader, TERMINATE, Reach::Group).unwrap();
    until_dead(&leader).await;
    until_not(is_alive, member).await;
    let error = System.signal(&leader, KILL, Reach::Group).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

/// A foreground job of a script: its id is not the id of its group.
#[tokio::test]
async fn a_signal_to_the_group_of_a_process_that_leads_none_reaches_that_process() {
    let (_folder, log) = scratch();
    let script = "sh -c 'echo $$; exec sleep 60'; echo after; exec sleep 60";
    let leader = System.launch_detached(&detached(script, &log)).await.unwrap();
    until_logged(&log, "\n").await;
    let pid: u32 = std::fs::read_to_string(&log).unwrap().trim().parse().unwrap();
    let job = System.find(pid).unwrap().unwrap();
    System.signal(&job, TERMINATE, Reach::Group).unwrap();
    until_dead(&job).await;
    until_logged(&log, "after").await;
    assert!(System.is_alive(&leader).unwrap());
    System.signal(&leader, KILL, Reach::Group).unwrap();
}

#[test]
fn no_such_signal_is_invalid() {
    let own = System.own().unwrap();
    for number in [0, 999, -1] {
        let error = System.signal(&own, number, Reach::Process).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn a_detached_program_has_its_own_session_an_empty_input_and_a_log() {
    let (_folder, log) = scratch();
    std::fs::write(&log, "before\n").unwrap();
    let script = "cat; echo out; echo error >&2; exec sleep 60";
    let process = System.launch_detached(&detached(script, &log)).await.unwrap();
    until_logged(&log, "before\nout\nerror\n").await;
    let pid = Pid::from_raw(process.pid as i32).unwrap();
    assert_eq!((getsid(Some(pid)), getpgid(Some(pid))), (Ok(pid), Ok(pid)));
    assert!(System.is_alive(&process).unwrap());
    System.signal(&process, TERMINATE, Reach::Process).unwrap();
    until_dead(&process).await;
    wait_until_reaped(process.pid).await;
}

#[tokio::test]
async fn a_detached_program_inherits_no_descriptor() {
    let (folder, log) = scratch();
    let held = std::fs::File::create(folder.path().join("held")).unwrap();
    rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::empty()).unwrap();
    let script = format!("[ -e /proc/$$/fd/{} ] || echo absent", held.as_raw_fd());
    System.launch_detached(&detached(&script, &log)).await.unwrap();
    until_logged(&log, "absent").await;
}

#[tokio::test]
async fn the_log_is_private_and_a_failed_start_is_explained() {
    let (folder, log) = scratch();
    let program = Detached { argv: vec!["no-such-program".into()], ..detached("", &log) };
    let error = System.launch_detached(&program).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("cannot start `no-such-program`"), "{error}");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&log).unwrap());
    assert_eq!(mode & 0o777, 0o600);

    let error = System.launch_detached(&detached("", folder.path())).await.unwrap_err();
    assert!(error.to_string().contains("cannot open the log"), "{error}");
    let empty = Detached { log, ..Detached::default() };
    let error = System.launch_detached(&empty).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

/// This test starts itself: the inner run launches a program and ends.
#[tokio::test]
async fn a_detached_program_outlives_its_launcher() {
    const LOG: &str = "REKNIT_DETACHED_LOG";
    if let Some(log) = std::env::var_os(LOG) {
        let process = System.launch_detached(&detached("exec sleep 60", log.as_ref())).await;
        let process = process.unwrap();
        std::fs::write(&log, format!("{} {}", process.pid, process.started)).unwrap();
        std::process::exit(0);
    }
    let (_folder, log) = scratch();
    let name = "process::tests::table::a_detached_program_outlives_its_launcher";
    let program = std::env::current_exe().unwrap();
    let mut launcher = super::program(&[program.to_str().unwrap(), name, "--exact"]);
    launcher.env.push((LOG.into(), log.to_str().unwrap().into()));
    let (printed, exit) = run(launcher).await;
    assert_eq!(exit, Exit::Code(0), "{printed}");
    let written = std::fs::read_to_string(&log).unwrap();
    let (pid, started) = written.split_once(' ').unwrap();
    let process = Identity { pid: pid.parse().unwrap(), started: started.into() };
    assert!(System.is_alive(&process).unwrap());
    System.signal(&process, KILL, Reach::Group).unwrap();
    until_dead(&process).await;
}

#[cfg(feature = "memory")]
#[tokio::test]
async fn a_scripted_table_has_the_same_rules() {
    let table = Scripted::default();
    let own = table.own().unwrap();
    assert!(table.is_alive(&own).unwrap());
    let child = table.launch_detached(&detached("", Path::new("/log"))).await.unwrap();
    assert_eq!(table.launches()[0].1, child);
    assert_eq!(table.as_seen_by(&child).own().unwrap(), child);
    table.signal(&child, TERMINATE, Reach::Group).unwrap();
    assert!(table.is_alive(&child).unwrap());
    table.signal(&child, KILL, Reach::Process).unwrap();
    assert!(!table.is_alive(&child).unwrap());
    assert_eq!(table.find(child.pid).unwrap(), None);
    let reused = table.start_with_id(child.pid);
    assert_eq!(table.find(child.pid).unwrap().as_ref(), Some(&reused));
    assert!(table.is_alive(&reused).unwrap() && !table.is_alive(&child).unwrap());
    let error = table.signal(&child, KILL, Reach::Process).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(table.signals().len(), 2);
}
