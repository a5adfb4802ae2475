//! A client that moves to another network in the middle of output, between real network namespaces.
//! Its old address becomes a black hole: the server must notice the dead peer, and accept the resume
//! from the new address.
//!
//! Each test starts itself again in the namespace of the client, because a socket belongs to the
//! namespace of the thread that opens it. Namespaces need root and `ip`; without them the tests
//! print why they tested nothing.

mod net;

use std::env;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use codex_peer::agent::Agent;
use codex_peer::install;
use codex_peer::model::{Call, Model};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use net::{Net, SERVER};

/// Set in the namespace of the client.
const INSIDE: &str = "REKNIT_ROAMING_INSIDE";
/// Prints 40 lines in 40 seconds.
const COMMAND: &str = "for n in $(seq 40); do echo line $n; sleep 1; done; exit 7";
/// When the client moves: while the command prints.
const MOVES: Duration = Duration::from_secs(6);
/// A time that no test reaches, even on a slow machine.
const NEVER: Duration = Duration::from_secs(120);

/// The state of the old address after the client has moved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nothing.
    Silent,
    /// The system aborts the connections of the network that it left.
    Aborted,
    /// After 25 s the client returns to its old network.
    Returned,
}

#[tokio::test]
#[ignore = "takes a minute"]
async fn our_client_moves_and_every_line_arrives() {
    outside("our_client_moves_and_every_line_arrives", Form::Silent).await;
    if !inside() {
        return;
    }
    let mut client = Command::new(env!("CARGO_BIN_EXE_exec_client"));
    client.arg(url()).args(["--", "/bin/bash", "-c", COMMAND]).stdin(Stdio::null());
    let mut client = client.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut printed = String::new();
    let mut stdout = client.stdout.take().unwrap();
    timeout(NEVER, stdout.read_to_string(&mut printed)).await.expect("an end").unwrap();
    assert_eq!(printed, lines());
    assert_eq!(client.wait().await.unwrap().code(), Some(7));
}

#[tokio::test]
#[ignore = "takes a minute"]
async fn codex_moves_and_every_line_arrives_if_its_system_aborts_the_connection() {
    let name = "codex_moves_and_every_line_arrives_if_its_system_aborts_the_connection";
    codex_prints_every_line(name, Form::Aborted).await;
}

#[tokio::test]
#[ignore = "takes a minute"]
async fn codex_returns_to_its_old_address_and_every_line_arrives() {
    let name = "codex_returns_to_its_old_address_and_every_line_arrives";
    codex_prints_every_line(name, Form::Returned).await;
}

/// codex does not notice that its old address is a black hole (bug 3). If this test fails, a newer
/// version does.
#[tokio::test]
#[ignore = "takes two minutes"]
async fn codex_waits_for_ever_if_it_gets_no_error() {
    let name = "codex_waits_for_ever_if_it_gets_no_error";
    let Some((status, commands)) = codex(name, Form::Silent).await else { return };
    assert_eq!((status, commands.len()), (None, 0));
}

async fn codex_prints_every_line(test: &str, form: Form) {
    let Some((status, commands)) = codex(test, form).await else { return };
    assert_eq!(status, Some(0));
    assert_eq!(commands, [(lines(), Some(7))]);
}

/// Runs codex in the namespace of the client; returns its status, and the output and the status of
/// its command. `None` outside of the namespace, and without codex.
async fn codex(test: &str, form: Form) -> Option<(Option<i32>, Vec<(String, Option<i64>)>)> {
    let codex = install::codex()?;
    outside(test, form).await;
    if !inside() {
        return None;
    }
    let model = Model::start(IpAddr::V4(Ipv4Addr::LOCALHOST), [vec![Call::run(COMMAND)]]).await;
    let printed = Agent::new(&codex, &model).run(&url(), "danger-full-access", NEVER).await;
    let commands = printed.commands().into_iter().map(|end| (end.output, end.exit)).collect();
    Some((printed.status, commands))
}

fn lines() -> String {
    (1..=40).map(|n| format!("line {n}\n")).collect()
}

fn inside() -> bool {
    env::var_os(INSIDE).is_some()
}

fn url() -> String {
    env::var(INSIDE).unwrap()
}

/// Outside of the namespace: creates it, starts the server and the test inside, and moves the
/// client. Panics if the test inside fails.
async fn outside(test: &str, form: Form) {
    if inside() {
        return;
    }
    let net = match Net::new() {
        Ok(net) => net,
        Err(reason) => return eprintln!("skipped, no client moved: {reason}"),
    };
    let (_server, url) = server(&net).await;
    let mut client = enter(&net.client());
    client.arg(env::current_exe().unwrap()).args([
        "--exact",
        test,
        "--include-ignored",
        "--nocapture",
    ]);
    let mut client = client.env(INSIDE, url).kill_on_drop(true).spawn().unwrap();
    sleep(MOVES).await;
    net.moves().unwrap();
    match form {
        Form::Silent => {}
        Form::Aborted => net.aborts().unwrap(),
        Form::Returned => {
            sleep(Duration::from_secs(25)).await;
            net.returns().unwrap();
        }
    }
    let ended = timeout(2 * NEVER, client.wait()).await.expect("an end").unwrap();
    assert!(ended.success(), "the test failed in the namespace");
}

/// Starts our server in its namespace.
async fn server(net: &Net) -> (Child, String) {
    let mut server = enter(&net.server());
    server.arg(PathBuf::from(env!("CARGO_BIN_EXE_exec_server")));
    server.args(["--listen", &format!("ws://{SERVER}:0")]).stdout(Stdio::piped());
    let mut server = server.kill_on_drop(true).spawn().unwrap();
    let mut stdout = BufReader::new(server.stdout.take().unwrap()).lines();
    let url = timeout(NEVER, stdout.next_line()).await.expect("a URL").unwrap().unwrap();
    (server, url)
}

fn enter(namespace: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]);
    command
}
