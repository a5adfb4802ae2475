//! Tests several processes of product code on one host.

use std::future::pending;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use crate::env::Env;
use crate::files::Open;
use crate::history::{EventKind, History};
use crate::net::{BoxFuture, Endpoint};
use crate::process::{Command, Detached, Exit, Identity, KILL, Reach, TERMINATE};
use crate::schedule::{Fault, Orphans, Plan, Unsynced, faults};
use crate::subject::{DynSubject, HostContext, Program, ProgramCode, ProgramContext};
use crate::world::{Engine, Options, run};

const ENGINES: [Engine; 2] = [Engine::Event, Engine::TURMOIL];

const PROGRAMS: &[Program] = &[
    Program {
        name: "daemon",
        code: ProgramCode::Product,
        run: |process| Box::pin(daemon(process)),
    },
    Program { name: "locks", code: ProgramCode::Product, run: |process| Box::pin(locks(process)) },
    Program {
        name: "parent",
        code: ProgramCode::Product,
        run: |process| Box::pin(parent(process)),
    },
    Program {
        name: "stubborn",
        code: ProgramCode::Product,
        run: |process| Box::pin(stubborn(process)),
    },
    Program { name: "leaks", code: ProgramCode::Product, run: leaks },
    Program { name: "peer", code: ProgramCode::Outside, run: |process| Box::pin(parent(process)) },
];

/// Echoes at a unix socket, with a task for each connection, and prints a line each second. Exits at a
/// SIGTERM.
async fn daemon(mut process: ProgramContext) -> Exit {
    process.signals.handle(TERMINATE);
    let at = Endpoint::unix(process.command.argv[1].as_str());
    let mut listener = match process.host.env.net.listen(&at).await {
        Ok(listener) => listener,
        Err(error) => {
            log(&process.host, format!("{}: {:?}", process.name, error.kind()));
            return Exit::Code(1);
        }
    };
    crate::milestone!("bare.installed");
    let mut clients = JoinSet::new();
    let ticks = async {
        loop {
            let line = format!("{}\n", process.name);
            process.stdout.write_all(line.as_bytes()).await.unwrap();
            sleep(Duration::from_secs(1)).await;
        }
    };
    let accepts = async {
        loop {
            let mut stream = listener.accept().await.unwrap();
            clients.spawn(async move {
                let mut bytes = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    if stream.write_all(&bytes[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    };
    tokio::select! {
        () = ticks => {}
        () = accepts => {}
        _ = process.signals.next() => {}
    }
    Exit::Code(0)
}

/// Takes the lock of a file forever, and exits with 1 if another process has it.
async fn locks(process: ProgramContext) -> Exit {
    let file = process.host.env.files.open(Path::new("/lock"), Open::Write).await.unwrap();
    if !file.try_lock().await.unwrap() {
        return Exit::Code(1);
    }
    pending().await
}

/// Launches a detached daemon, logs whether that worked, and exits.
async fn parent(process: ProgramContext) -> Exit {
    match launch(&process.host.env, &["daemon", "/socket"]).await {
        Ok(_) => Exit::Code(0),
        Err(error) => {
            let text = format!("{:?}", error.kind());
            process.host.record.delivered(&"said".into(), text.into_bytes(), None);
            Exit::Code(1)
        }
    }
}

/// Ignores SIGTERM.
async fn stubborn(mut process: ProgramContext) -> Exit {
    process.signals.handle(TERMINATE);
    pending().await
}

/// Spawns tasks that do not end with the process.
fn leaks(_: ProgramContext) -> BoxFuture<'static, Exit> {
    Box::pin(async {
        drop((tokio::spawn(pending::<()>()), tokio::spawn(pending::<()>())));
        Exit::Code(0)
    })
}

fn detached(argv: &[&str]) -> Detached {
    let argv = argv.iter().map(|argument| (*argument).to_owned()).collect();
    Detached { argv, log: "/log".into(), ..Detached::default() }
}

async fn launch(env: &Env, argv: &[&str]) -> std::io::Result<Identity> {
    env.processes.launch_detached(&detached(argv)).await
}

async fn text(env: &Env, path: &str) -> String {
    let file = env.files.open(Path::new(path), Open::Read).await.unwrap();
    String::from_utf8(file.read_at(0, 1 << 16).await.unwrap()).unwrap()
}

/// Connects to the daemon, and returns its answer.
async fn ask(env: &Env) -> Result<String, std::io::ErrorKind> {
    let connected = env.net.connect(&Endpoint::unix("/socket")).await;
    let mut stream = connected.map_err(|error| error.kind())?;
    stream.write_all(b"hello").await.map_err(|error| error.kind())?;
    Ok(receive(&mut stream).await)
}

async fn absent(_: HostContext) {
    pending().await
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn short(faults: impl IntoIterator<Item = (u64, Fault)>) -> Plan {
    Plan { horizon: secs(10), ..plan(faults) }
}

fn on(engine: Engine, subject: &std::sync::Arc<dyn DynSubject>, plan: &Plan) -> History {
    run(subject, plan, &Options { engine, ..Options::default() }).unwrap().history
}

/// Runs a root on a client, on both engines, and checks what it logs.
#[track_caller]
fn logs<F>(root: impl Fn(HostContext) -> F + Clone + Send + Sync + 'static, expected: &[&str])
where
    F: Future<Output = ()> + Send + 'static,
{
    let subject = bare_with(PROGRAMS, absent, root);
    for engine in ENGINES {
        let history = on(engine, &subject, &short([]));
        let lines = log_lines(&history, false);
        let lines: Vec<_> =
            lines.iter().map(|line| line.strip_prefix("client: ").unwrap()).collect();
        assert_eq!(lines, expected, "{engine:?}");
        let panics =
            history.events.iter().filter(|event| matches!(event.what, EventKind::Panicked { .. }));
        assert_eq!(panics.count(), 0, "{engine:?}");
    }
}

fn count(history: &History, name: &str) -> Vec<u64> {
    let count = |event: &crate::history::Event| match &event.what {
        EventKind::ResourceCounts { counts, baseline: false }
            if event.host.as_ref().is_some_and(|host| host.as_str() == "client") =>
        {
            counts.get(name).copied()
        }
        _ => None,
    };
    history.events.iter().filter_map(count).collect()
}

fn ended(history: &History) -> Vec<String> {
    let ended = |event: &crate::history::Event| match &event.what {
        EventKind::Ended { stream, outcome } => Some(format!("{stream}: {outcome}")),
        _ => None,
    };
    history.events.iter().filter_map(ended).collect()
}

#[test]
fn a_table_has_the_root_and_all_other_processes() {
    let root = |host: HostContext| async move {
        let processes = &host.env.processes;
        let own = processes.own().unwrap();
        let daemon = launch(&host.env, &["daemon", "/socket"]).await.unwrap();
        for process in [&own, &daemon] {
            let found = processes.find(process.pid).unwrap();
            log(&host, format!("{} {}", found.as_ref() == Some(process), process.pid));
        }
        let other = Identity { started: "other".into(), ..daemon };
        log(&host, format!("{}", processes.is_alive(&other).unwrap()));
        log(&host, format!("{:?}", processes.find(7).unwrap()));
    };
    logs(root, &["true 1", "true 1000", "false", "None"]);
}

#[test]
fn an_id_is_reused_and_a_signal_reaches_no_stranger() {
    let root = |host: HostContext| async move {
        let processes = &host.env.processes;
        let first = launch(&host.env, &["daemon", "/socket"]).await.unwrap();
        processes.signal(&first, KILL, Reach::Group).unwrap();
        sleep(secs(1)).await;
        log(&host, format!("{}", processes.is_alive(&first).unwrap()));
        let second = launch(&host.env, &["daemon", "/other"]).await.unwrap();
        log(&host, format!("{} {}", first.pid == second.pid, first == second));
        let refused = processes.signal(&first, KILL, Reach::Group).unwrap_err();
        log(&host, format!("{:?}", refused.kind()));
        sleep(secs(1)).await;
        log(&host, format!("{}", processes.is_alive(&second).unwrap()));
    };
    logs(root, &["false", "true false", "NotFound", "true"]);
}

#[test]
fn an_id_is_not_free_while_the_launcher_holds_its_handle() {
    let root = |host: HostContext| async move {
        let command = Command { argv: vec!["parent".into()], ..Command::default() };
        let mut child = host.env.launch.launch(&command).await.unwrap();
        log(&host, format!("{:?}", child.wait().await.unwrap()));
        log(&host, format!("{:?}", host.env.processes.find(child.pid()).unwrap()));
        let next = launch(&host.env, &["daemon", "/other"]).await.unwrap();
        log(&host, format!("{} {}", child.pid(), next.pid));
        drop(child);
        let next = launch(&host.env, &["daemon", "/next"]).await.unwrap();
        log(&host, format!("{}", next.pid));
    };
    logs(root, &["Code(0)", "None", "1000 1002", "1000"]);
}

#[test]
fn a_wrong_signal_and_a_signal_to_a_root_are_errors() {
    let root = |host: HostContext| async move {
        let processes = &host.env.processes;
        let own = processes.own().unwrap();
        let refused = processes.signal(&own, KILL, Reach::Process).unwrap_err();
        log(&host, refused.to_string());
        let refused = processes.signal(&own, 99, Reach::Process).unwrap_err();
        log(&host, format!("{:?}", refused.kind()));
    };
    logs(root, &["the root of a host receives no signals; use the fault `crash`", "InvalidInput"]);
}

#[test]
fn a_detached_program_outlives_its_launcher_and_appends_to_its_log() {
    let root = |host: HostContext| async move {
        let command = Command { argv: vec!["parent".into()], ..Command::default() };
        let mut child = host.env.launch.launch(&command).await.unwrap();
        child.wait().await.unwrap();
        drop(child);
        launch(&host.env, &["daemon", "/other"]).await.unwrap();
        sleep(Duration::from_millis(1_500)).await;
        log(&host, text(&host.env, "/log").await.replace('\n', " "));
        let log_file = host.env.files.metadata(Path::new("/log"), false).await.unwrap();
        log(&host, format!("{:o}", log_file.mode));
        log(&host, format!("{:?}", ask(&host.env).await));
    };
    let lines = ["daemon daemon~2 daemon daemon~2 ", "600", "Ok(\"hello\")"];
    logs(root, &lines);
}

#[test]
fn a_detached_program_that_cannot_start_is_an_error() {
    let root = |host: HostContext| async move {
        let processes = &host.env.processes;
        let nowhere = Detached { log: "/no/log".into(), ..detached(&["daemon", "/socket"]) };
        for program in [detached(&[]), detached(&["unknown"]), nowhere] {
            let refused = processes.launch_detached(&program).await.unwrap_err();
            log(&host, format!("{:?}", refused.kind()));
        }
    };
    logs(root, &["InvalidInput", "NotFound", "NotFound"]);
}

#[test]
fn a_program_of_the_outside_world_cannot_launch_product_code() {
    let root = |host: HostContext| async move {
        let command = Command { argv: vec!["peer".into()], ..Command::default() };
        let mut child = host.env.launch.launch(&command).await.unwrap();
        log(&host, format!("{:?}", child.wait().await.unwrap()));
    };
    logs(root, &["Unsupported", "Code(1)"]);
}

#[test]
fn the_socket_of_a_killed_process_stays_and_refuses() {
    let root = |host: HostContext| async move {
        let daemon = launch(&host.env, &["daemon", "/socket"]).await.unwrap();
        log(&host, format!("{:?}", ask(&host.env).await));
        sleep(secs(1)).await;
        let mut open = host.env.net.connect(&Endpoint::unix("/socket")).await.unwrap();
        sleep(secs(1)).await;
        host.env.processes.signal(&daemon, KILL, Reach::Process).unwrap();
        log(&host, receive(&mut open).await);
        log(&host, format!("{:?}", ask(&host.env).await));
        launch(&host.env, &["daemon", "/socket"]).await.unwrap();
        sleep(secs(1)).await;
        host.env.files.remove_file(Path::new("/socket")).await.unwrap();
        let daemon = launch(&host.env, &["daemon", "/socket"]).await.unwrap();
        sleep(secs(1)).await;
        log(&host, format!("{:?}", ask(&host.env).await));
        host.env.processes.signal(&daemon, TERMINATE, Reach::Process).unwrap();
        sleep(secs(1)).await;
        log(&host, format!("{:?}", ask(&host.env).await));
    };
    let expected = [
        "Err(NotFound)",
        "eof",
        "Err(ConnectionRefused)",
        "daemon~2: AddrInUse",
        "Ok(\"hello\")",
        "Err(NotFound)",
    ];
    logs(root, &expected);
}

#[test]
fn hosts_share_no_unix_sockets() {
    let serves = |host: HostContext| async move {
        let _listener = host.env.net.listen(&Endpoint::unix("/socket")).await.unwrap();
        log(&host, "listens");
        pending().await
    };
    let asks = |host: HostContext| async move {
        sleep(secs(1)).await;
        log(&host, format!("{:?}", ask(&host.env).await));
    };
    let history = on(Engine::Event, &bare_with(PROGRAMS, serves, asks), &short([]));
    assert_eq!(log_lines(&history, false), ["server: listens", "client: Err(NotFound)"]);
}

#[test]
fn a_killed_process_releases_its_locks() {
    let root = |host: HostContext| async move {
        let first = launch(&host.env, &["locks"]).await.unwrap();
        for _ in 0..2 {
            sleep(secs(1)).await;
            let command = Command { argv: vec!["locks".into()], ..Command::default() };
            let mut child = host.env.launch.launch(&command).await.unwrap();
            let exit = tokio::time::timeout(secs(1), child.wait()).await;
            log(&host, format!("{:?}", exit.map(Result::unwrap).ok()));
            let _ = host.env.processes.signal(&first, KILL, Reach::Process);
        }
    };
    logs(root, &["Some(Code(1))", "None"]);
}

#[test]
fn tasks_milestones_and_sockets_of_a_process_are_those_of_its_host() {
    let root = |host: HostContext| async move {
        launch(&host.env, &["daemon", "/socket"]).await.unwrap();
        sleep(secs(1)).await;
        let _open = host.env.net.connect(&Endpoint::unix("/socket")).await.unwrap();
        pending::<()>().await;
    };
    let subject = bare_with(PROGRAMS, absent, root);
    for engine in ENGINES {
        let plan =
            short([(3_000, Fault::KillChildren(faults::KillChildren { host: "client".into() }))]);
        let history = on(engine, &subject, &plan);
        let hosts: Vec<_> = (history.events.iter())
            .filter(|event| {
                matches!(event.what, EventKind::Milestone { name: "bare.installed", .. })
            })
            .map(|event| event.host.as_ref().unwrap().as_str())
            .collect();
        assert_eq!(hosts, ["client"], "{engine:?}");
        for resource in ["processes", "sockets", "tasks"] {
            assert_eq!(count(&history, resource), [0], "{engine:?}: {resource}");
        }
        assert_eq!(ended(&history), ["daemon: signal 9"], "{engine:?}");
    }
}

#[test]
fn a_task_that_a_process_leaves_behind_is_a_residue() {
    let root = |host: HostContext| async move {
        sleep(secs(1)).await;
        launch(&host.env, &["leaks"]).await.unwrap();
    };
    let subject = bare_with(PROGRAMS, absent, root);
    let history = on(Engine::Event, &subject, &short([]));
    let residue = broken(&subject, &short([]), &history, "no_residue");
    assert!(residue[0].starts_with("client: 2 `tasks` remain"), "{residue:?}");
}

#[test]
fn the_end_of_a_run_asks_processes_to_end_and_counts_the_rest() {
    let root = |program: &'static [&'static str]| {
        move |host: HostContext| async move {
            sleep(secs(1)).await;
            launch(&host.env, program).await.unwrap();
        }
    };
    for engine in ENGINES {
        let history =
            on(engine, &bare_with(PROGRAMS, absent, root(&["daemon", "/socket"])), &short([]));
        let left = ["processes", "sockets", "tasks"].map(|resource| count(&history, resource)[0]);
        assert_eq!(left, [0, 0, 0], "{engine:?}");
    }
    let stays = bare_with(PROGRAMS, absent, root(&["stubborn"]));
    let history = on(Engine::Event, &stays, &short([]));
    let residue = broken(&stays, &short([]), &history, "no_residue");
    assert!(residue[0].starts_with("client: 1 `processes` remain"), "{residue:?}");
}

#[test]
fn processes_of_product_code_die_with_their_host() {
    let root = |host: HostContext| async move {
        log(&host, format!("{:?}", ask(&host.env).await));
        let daemon = launch(&host.env, &["daemon", "/socket"]).await.unwrap();
        log(&host, format!("{} {}", daemon.pid, daemon.started));
        pending().await
    };
    let subject = bare_with(PROGRAMS, absent, root);
    let lasts = Some(secs(2));
    for fault in [
        Fault::Crash(faults::Crash { host: "client".into(), lasts, processes: Orphans::Live }),
        Fault::PowerLoss(faults::PowerLoss {
            host: "client".into(),
            unsynced: Unsynced::Kept,
            lasts,
        }),
    ] {
        for engine in ENGINES {
            let history = on(engine, &subject, &short([(3_000, fault.clone())]));
            let expected = [
                "client: Err(NotFound)",
                "client: 1000 launch 0",
                "client: Err(ConnectionRefused)",
                "client: 1000 launch 1",
                "client: daemon~2: AddrInUse",
            ];
            assert_eq!(log_lines(&history, false), expected, "{engine:?}");
            assert_eq!(ended(&history)[0], "daemon: signal 9", "{engine:?}");
            let outlived =
                |event: &&crate::history::Event| matches!(event.what, EventKind::Outlived { .. });
            assert_eq!(history.events.iter().filter(outlived).count(), 0, "{engine:?}");
        }
    }
}

#[test]
fn faults_of_child_processes_reach_detached_ones() {
    let root = |host: HostContext| async move {
        launch(&host.env, &["daemon", "/socket"]).await.unwrap();
        sleep(Duration::from_millis(8_500)).await;
        log(&host, format!("{}", text(&host.env, "/log").await.lines().count()));
    };
    let subject = bare_with(PROGRAMS, absent, root);
    let host = || "client".into();
    let stop = Fault::StopChildren(faults::StopChildren { host: host(), lasts: Some(secs(3)) });
    let slow = Fault::SlowChildren(faults::SlowChildren { host: host(), by: secs(1), lasts: None });
    let kill = Fault::KillChildren(faults::KillChildren { host: host() });
    for (fault, lines) in [(None, "9"), (Some(stop), "6"), (Some(slow), "6"), (Some(kill), "3")] {
        let plan = short(fault.into_iter().map(|fault| (2_500, fault)));
        for engine in ENGINES {
            let history = on(engine, &subject, &plan);
            assert_eq!(log_lines(&history, false), [format!("client: {lines}")], "{engine:?}");
        }
    }
}

#[test]
fn a_run_with_several_processes_is_the_same_twice() {
    let root = |host: HostContext| async move {
        for socket in ["/socket", "/other", "/third"] {
            launch(&host.env, &["daemon", socket]).await.unwrap();
        }
        sleep(secs(1)).await;
        log(&host, format!("{:?}", ask(&host.env).await));
        pending().await
    };
    let subject = bare_with(PROGRAMS, absent, root);
    let plan = short([(3_000, crash("client", Some(secs(2))))]);
    for engine in ENGINES {
        assert_eq!(on(engine, &subject, &plan).digest, on(engine, &subject, &plan).digest);
    }
}
