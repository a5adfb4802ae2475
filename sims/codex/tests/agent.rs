//! codex itself with our server: its client, its tools, a scripted model. Nothing breaks here.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use codex_peer::agent::Agent;
use codex_peer::install;
use codex_peer::model::{Call, Model};
use codex_peer::servers::Server;
use reknit_exec::limits::ServerLimits;
use tokio::net::TcpListener;
use tokio::time::timeout;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// A time that no run reaches, even on a slow machine.
const NEVER: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_and_its_output_reaches_the_model() {
    let Some(codex) = install::codex() else { return };
    let model = Model::start(LOCAL, [vec![Call::run("echo hello; exit 3")]]).await;
    let server = Server::here(ServerLimits::default()).await;
    let printed = Agent::new(&codex, &model).run(&server.url(), "danger-full-access", NEVER).await;
    assert_eq!(printed.status, Some(0), "{printed:?}");
    let ends = printed.commands();
    assert_eq!((ends.len(), ends[0].exit, &*ends[0].output), (1, Some(3), "hello\n"));
    let outputs = model.outputs();
    assert!(outputs[0].contains("Process exited with code 3"), "{outputs:?}");
    let tools = model.tools();
    assert!(["exec_command", "write_stdin"].iter().all(|tool| tools.iter().any(|has| has == tool)));
}

/// The command must not run unconfined: the server confines it, or refuses to start it.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_sandbox_keeps_a_command_from_writing() {
    let Some(codex) = install::codex() else { return };
    let model = Model::start(LOCAL, [vec![Call::run("touch written && echo wrote")]]).await;
    let server = Server::here(ServerLimits::default()).await;
    let agent = Agent::new(&codex, &model);
    let printed = agent.run(&server.url(), "read-only", NEVER).await;
    assert!(printed.status.is_some(), "{printed:?}");
    assert!(!agent.folder().join("written").exists(), "{printed:?}");
    let wrote = printed.commands().iter().any(|end| end.output.contains("wrote"));
    assert!(!wrote && !model.outputs().is_empty(), "{printed:?}");
}

/// A command may write in its workspace, but not beside it, and reaches no network.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_sandbox_confines_a_command_to_its_workspace() {
    let Some(codex) = install::codex() else { return };
    // Not in `/tmp`, which is a part of every workspace. The target folder may be there.
    let beside = tempfile::tempdir_in("/var/tmp").expect("a scratch folder");
    let listener = TcpListener::bind((LOCAL, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let command = format!(
        "echo one > inside; echo two > {}/outside; bash -c 'echo three > /dev/tcp/127.0.0.1/{port}'; echo end",
        beside.path().display()
    );
    let model = Model::start(LOCAL, [vec![Call::run(command)]]).await;
    let server = Server::here(ServerLimits::default()).await;
    let agent = Agent::new(&codex, &model);
    let printed = agent.run(&server.url(), "workspace-write", NEVER).await;
    let [end] = &*printed.commands() else { panic!("{printed:?}, {:?}", model.outputs()) };
    assert!(end.output.contains("end\n"), "{printed:?}");
    let inside = std::fs::read_to_string(agent.folder().join("inside"));
    assert_eq!(inside.ok().as_deref(), Some("one\n"), "{printed:?}");
    assert!(!beside.path().join("outside").exists(), "{printed:?}");
    let reached = timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(reached.is_err(), "{printed:?}");
}

/// The server of codex hangs in more than half of such runs.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts 250 commands"]
async fn commands_in_parallel_all_end() {
    const COMMANDS: usize = 250;
    let Some(codex) = install::codex() else { return };
    let calls = (0..COMMANDS).map(|n| Call::run(format!("seq {n} {}; exit 4", n + 3000)));
    let model = Model::start(LOCAL, [calls.collect()]).await;
    let server = Server::here(ServerLimits::default()).await;
    let printed =
        Agent::new(&codex, &model).run(&server.url(), "danger-full-access", 3 * NEVER).await;
    assert_eq!(printed.status, Some(0), "{}", printed.errors);
    let mut outputs: Vec<_> =
        printed.commands().into_iter().map(|end| (end.output, end.exit)).collect();
    let mut expected: Vec<_> = (0..COMMANDS)
        .map(|n| ((n..=n + 3000).map(|line| format!("{line}\n")).collect::<String>(), Some(4)))
        .collect();
    outputs.sort();
    expected.sort();
    assert_eq!(outputs.len(), expected.len());
    let wrong = outputs.iter().zip(&expected).find(|(one, other)| one != other);
    if let Some(((output, exit), _)) = wrong {
        let (begin, end) =
            (&output[..output.len().min(200)], &output[output.len().saturating_sub(200)..]);
        panic!("{} bytes, exit {exit:?}: {begin} … {end}", output.len());
    }
}

/// codex edits files through the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_patch_changes_files() {
    let Some(codex) = install::codex() else { return };
    let patch = |body: &str| {
        Call::run(format!("apply_patch <<'EOF'\n*** Begin Patch\n{body}\n*** End Patch\nEOF"))
    };
    let turns = [
        vec![patch("*** Add File: new.txt\n+first\n+second")],
        vec![patch("*** Update File: new.txt\n@@\n-first\n+changed")],
    ];
    let model = Model::start(LOCAL, turns).await;
    let server = Server::here(ServerLimits::default()).await;
    let agent = Agent::new(&codex, &model);
    let printed = agent.run(&server.url(), "danger-full-access", NEVER).await;
    let text = std::fs::read_to_string(agent.folder().join("new.txt"));
    assert_eq!(
        text.ok().as_deref(),
        Some("changed\nsecond\n"),
        "{printed:?} {:?}",
        model.outputs()
    );
}
